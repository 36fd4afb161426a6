"""Calls that make no sense: the error says which value is wrong and what to do, and nothing has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from snapshots import snapshot
from vcubeps.protocol.errors import UsageError
from vcubeps.protocol.limits import MAX_BATCH_ITEMS, MAX_INCARNATION, MAX_PAYLOAD_BYTES, MAX_TOPIC_BYTES
from vcubeps.protocol.outputs import Accepted, Departed, Subscribed
from vcubeps.protocol.peer import Peer
from wire import Wire

T = "t"
LARGEST_ID = 2**20 - 1


@pytest.fixture
def wire() -> Wire:
    """0 and 1 of four nodes are members and have published; 0 waits for an acknowledgement."""
    wire = Wire(Peer, range(4))
    for node in (0, 1):
        wire.subscribe(node, T)
        wire.run()
    wire.publish(1, T, b"before")
    wire.run()
    wire.publish(0, T, b"under way")
    return wire


def refusal(peer: Peer, call: Callable[..., object], *arguments: object) -> str:
    """The text of the UsageError that the call raises; the peer is as it was."""
    before = snapshot(peer)
    with pytest.raises(UsageError) as caught:
        call(*arguments)
    assert snapshot(peer) == before
    return str(caught.value)


def refused_nodes(node: int, nodes: Iterable[Any], incarnation: int = 0) -> str:
    with pytest.raises(UsageError) as caught:
        Peer(node, nodes, incarnation=incarnation)
    return str(caught.value)


def test_a_snapshot_shows_what_a_call_changes(wire: Wire) -> None:
    """The other tests rest on it: equal snapshots must mean something."""
    peer = wire.peers[0]
    before = snapshot(peer)

    peer.publish(T, b"m")

    assert snapshot(peer) != before


# publish


def test_publish_without_a_subscription_is_refused(wire: Wire) -> None:
    peer = wire.peers[2]

    text = refusal(peer, peer.publish, T, b"m")

    assert "'t'" in text
    assert "subscribe first" in text


def test_publish_on_another_topic_than_the_subscribed_one_is_refused(wire: Wire) -> None:
    peer = wire.peers[0]

    text = refusal(peer, peer.publish, "other", b"m")

    assert "'other'" in text
    assert "subscribe first" in text


def test_publish_before_the_subscription_is_in_effect_is_refused(wire: Wire) -> None:
    wire.subscribe(2, T)
    peer = wire.peers[2]

    text = refusal(peer, peer.publish, T, b"m")

    assert "'t'" in text
    assert "wait for Subscribed" in text


def test_publish_after_unsubscribe_is_refused_though_the_leave_is_under_way(wire: Wire) -> None:
    wire.unsubscribe(0, T)
    peer = wire.peers[0]

    text = refusal(peer, peer.publish, T, b"m")

    assert "'t'" in text
    assert "subscribe first" in text


def test_publish_while_a_new_subscription_waits_for_the_old_leave_is_refused(wire: Wire) -> None:
    wire.unsubscribe(0, T)
    wire.subscribe(0, T)
    peer = wire.peers[0]

    text = refusal(peer, peer.publish, T, b"m")

    assert "'t'" in text
    assert "wait for Subscribed" in text


@pytest.mark.parametrize(
    ("payload", "kind"), [("text", "str"), (bytearray(b"m"), "bytearray"), (None, "NoneType")]
)
def test_payload_that_is_not_bytes_is_refused(wire: Wire, payload: object, kind: str) -> None:
    peer = wire.peers[0]

    text = refusal(peer, peer.publish, T, payload)

    assert f"got {kind}" in text
    assert "encode it first" in text


def test_payload_over_the_limit_is_refused(wire: Wire) -> None:
    peer = wire.peers[0]

    text = refusal(peer, peer.publish, T, bytes(MAX_PAYLOAD_BYTES + 1))

    assert str(MAX_PAYLOAD_BYTES + 1) in text
    assert f"limit is {MAX_PAYLOAD_BYTES}" in text
    assert "send it in parts" in text


def test_payload_at_the_limit_is_accepted(wire: Wire) -> None:
    outputs = wire.peers[0].publish(T, bytes(MAX_PAYLOAD_BYTES))

    assert [type(output) for output in outputs] == [Accepted]


def test_publication_beyond_the_limit_of_what_may_wait_is_refused(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vcubeps.protocol.broadcasts.MAX_QUEUED", 2)
    peer = wire.peers[0]
    for _ in range(2):
        peer.publish(T, b"waits")

    text = refusal(peer, peer.publish, T, b"m")

    assert "2 publications on 't'" in text
    assert "wait for Acknowledged" in text


# subscribe and unsubscribe


def test_second_subscription_is_refused(wire: Wire) -> None:
    peer = wire.peers[0]

    text = refusal(peer, peer.subscribe, T)

    assert "already subscribed to 't'" in text
    assert "unsubscribe first" in text


def test_second_subscription_is_refused_while_the_first_is_under_way(wire: Wire) -> None:
    wire.subscribe(2, T)
    peer = wire.peers[2]

    text = refusal(peer, peer.subscribe, T)

    assert "already subscribed to 't'" in text


def test_unsubscribe_without_a_subscription_is_refused(wire: Wire) -> None:
    peer = wire.peers[2]

    text = refusal(peer, peer.unsubscribe, T)

    assert "not subscribed to 't'" in text
    assert "subscribe before" in text


def test_second_unsubscribe_is_refused_while_the_first_is_under_way(wire: Wire) -> None:
    wire.unsubscribe(0, T)
    peer = wire.peers[0]

    text = refusal(peer, peer.unsubscribe, T)

    assert "not subscribed to 't'" in text


@pytest.mark.parametrize("topic", ["", None, 7, b"t", ["t"]])
@pytest.mark.parametrize("name", ["subscribe", "unsubscribe", "publish"])
def test_topic_that_is_no_name_is_refused(wire: Wire, topic: object, name: str) -> None:
    peer = wire.peers[0]
    arguments = (topic, b"m") if name == "publish" else (topic,)

    text = refusal(peer, getattr(peer, name), *arguments)

    assert f"got {topic!r}" in text
    assert "name it" in text


@pytest.mark.parametrize(
    "topic",
    [
        pytest.param("x" * 256, id="256 characters of one byte"),
        pytest.param("é" * 128, id="128 characters of two bytes"),
        pytest.param("€" * 85 + "x", id="86 characters, most of three bytes"),
        pytest.param("😀" * 64, id="64 characters of four bytes"),
    ],
)
def test_topic_of_256_bytes_is_refused_however_many_characters_it_has(wire: Wire, topic: str) -> None:
    peer = wire.peers[0]

    text = refusal(peer, peer.subscribe, topic)

    assert repr(topic[:20]) in text
    assert f"256 bytes, the limit is {MAX_TOPIC_BYTES}" in text
    assert "use a shorter name" in text


@pytest.mark.parametrize(
    "topic", ["x" * 255, "é" * 127 + "x", "€" * 85, "😀" * 63 + "xyz"], ids=["1", "2", "3", "4"]
)
def test_topic_of_255_bytes_is_accepted_whatever_its_characters_take(wire: Wire, topic: str) -> None:
    wire.subscribe(2, topic)
    wire.run()

    assert Subscribed(topic, 1) in wire.outputs[2]


def test_subscribe_before_a_recovered_node_is_let_in_is_refused() -> None:
    peer = Peer(0, range(2), incarnation=1)
    peer.start()

    text = refusal(peer, peer.subscribe, T)

    assert "'t'" in text
    assert "wait for Up" in text


# suspect


@pytest.mark.parametrize("node", [0, LARGEST_ID + 1, -1], ids=["itself", "too large", "no identifier at all"])
def test_only_other_nodes_can_be_suspected(wire: Wire, node: int) -> None:
    peer = wire.peers[0]

    text = refusal(peer, peer.suspect, node, 0)

    assert f"node {node}:" in text
    assert "one of the other nodes" in text


@pytest.mark.parametrize("incarnation", [-1, MAX_INCARNATION + 1], ids=["negative", "too many"])
def test_only_incarnations_in_their_range_can_be_suspected(wire: Wire, incarnation: int) -> None:
    peer = wire.peers[0]

    text = refusal(peer, peer.suspect, 1, incarnation)

    assert f"0…{MAX_INCARNATION}" in text
    assert f"got {incarnation}" in text
    assert "name the one that crashed" in text


def test_the_last_incarnation_of_a_node_can_be_suspected(wire: Wire) -> None:
    outputs = wire.peers[0].suspect(1, MAX_INCARNATION)

    assert Departed(1, 0) in outputs
    assert wire.peers[0].known_incarnation(1) == 0


# making a peer


def test_node_must_be_among_the_nodes() -> None:
    text = refused_nodes(4, range(4))

    assert "node 4" in text
    assert "add it" in text


@pytest.mark.parametrize(
    "misplaced", [-1, LARGEST_ID + 1, 1.5, "'a'"], ids=["below", "above", "fraction", "text"]
)
def test_identifiers_must_lie_in_the_largest_cube(misplaced: Any) -> None:
    text = refused_nodes(0, [0, "a" if misplaced == "'a'" else misplaced])

    assert f"0…{LARGEST_ID}" in text
    assert f"got {misplaced}:" in text
    assert "renumber" in text


def test_of_many_identifiers_that_are_none_eight_are_named_and_long_ones_only_begun() -> None:
    """The error stays short however much is wrong."""
    nodes = [0, *(f"node-{number}" for number in range(8)), "a" + "b" * 30]

    text = refused_nodes(0, nodes)

    assert (
        "got 'a" + "b" * 18 + ", 'node-0', 'node-1', 'node-2', 'node-3', 'node-4', 'node-5', 'node-6':"
        in text
    )


def test_identifiers_may_reach_to_both_ends_of_the_largest_cube() -> None:
    wire = Wire(Peer, [0, LARGEST_ID])
    wire.subscribe(LARGEST_ID, T)
    wire.run()

    assert wire.subscribed == {(LARGEST_ID, T)}


@pytest.mark.parametrize("incarnation", [-1, MAX_INCARNATION + 1], ids=["negative", "too many"])
def test_incarnation_must_lie_in_its_range(incarnation: int) -> None:
    text = refused_nodes(0, range(4), incarnation)

    assert f"0…{MAX_INCARNATION}" in text
    assert f"got {incarnation}" in text
    assert "add 1" in text


def test_topic_must_be_valid_unicode() -> None:
    with pytest.raises(UsageError, match="lone surrogate"):
        Peer(0, range(2)).subscribe("\ud800")


@pytest.mark.parametrize("items", [0, -1, MAX_BATCH_ITEMS + 1])
def test_batch_size_must_be_within_the_limit(items: int) -> None:
    with pytest.raises(UsageError, match=f"got {items}"):
        Peer(0, range(2), batch_items_max=items)


@pytest.mark.parametrize("time_ns", [-1, 1 << 64])
def test_a_time_has_64_bits(wire: Wire, time_ns: int) -> None:
    before = snapshot(wire.peers[0])

    with pytest.raises(UsageError, match=f"a time has 64 bits, got {time_ns}"):
        wire.peers[0].publish(T, b"m", time_ns)

    assert snapshot(wire.peers[0]) == before
