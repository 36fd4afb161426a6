"""Messages that no correct node sends: the error names the sender, and nothing has changed.

Every unsound message here is a sound one with one thing wrong, so the one thing is what is refused. Types are
the decoder's business and are taken as right.
"""

from __future__ import annotations

import copy as copying
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapshots import snapshot
from vcubeps.protocol.batches import Batch, batch_of
from vcubeps.protocol.errors import ProtocolViolation, UsageError
from vcubeps.protocol.limits import (
    COUNTERS_PER_INCARNATION,
    MAX_ADDRESS_BYTES,
    MAX_BATCH_BYTES,
    MAX_BATCH_ITEMS,
    MAX_COUNTER,
    MAX_IDENTITY,
    MAX_INCARNATION,
    MAX_PAYLOAD_BYTES,
    MAX_STAMP,
    MAX_TOPIC_BYTES,
)
from vcubeps.protocol.messages import (
    ANY_INCARNATION,
    Ack,
    AnyMessage,
    Ask,
    Card,
    Copy,
    Fence,
    Final,
    Flush,
    Hello,
    IsFinal,
    Message,
    Over,
    Publication,
    Report,
    Subscription,
    Taken,
    Unsubscription,
    Welcome,
)
from vcubeps.protocol.outputs import Send
from vcubeps.protocol.peer import Peer
from wire import Wire

T = "t"
ME = 4
"""The receiver. Seen from it, node 0 is in subcube 3, so a copy from 0 may serve 4, 5, 6 and 7."""
SENDER = 0
STRANGER = 1 << 20
"""The smallest number that is no id."""

replace = msgspec.structs.replace


def busy_wire() -> Wire:
    """Eight nodes; at node 4 one publication is pending, one broadcast under way and another queued."""
    wire = Wire(Peer, range(8))
    for node in (0, 4, 5, 6):
        wire.subscribe(node, T)
        wire.run()
    wire.hold(5, 4)
    wire.publish(5, T, b"slow to 4")
    wire.run()
    wire.publish(6, T, b"depends on it")
    wire.run()
    wire.publish(4, T, b"under way")
    wire.publish(4, T, b"queued")
    return wire


@pytest.fixture
def peer() -> Peer:
    busy: Peer = busy_wire().peers[ME]
    return busy


def violation(peer: Peer, message: object, sender: int = SENDER) -> str:
    """The text of the ProtocolViolation that the message raises; the peer is as it was."""
    before = snapshot(peer)
    with pytest.raises(ProtocolViolation) as caught:
        peer.receive(sender, message)
    assert snapshot(peer) == before
    assert caught.value.sender == sender
    assert str(caught.value).startswith(f"node {sender} sent ")
    return str(caught.value)


# Sound messages, to be spoilt.

PUBLICATION = Publication(SENDER, T, 8, batch_of(((7, b"m"), (8, b"n"))), {5: 2, 6: 2}, digest=1, stamp=5)
SUBSCRIPTION = Subscription(1, T, 1)
LEAVE = Unsubscription(SENDER, T, 9, {5: 2}, stamp=6)
COPY = Copy(0, 0, hop=1, broadcast=PUBLICATION, recipients={4: 1, 5: 1, 6: 1}, fresh={})
SUB_COPY = replace(COPY, broadcast=SUBSCRIPTION, recipients={4: 0, 6: 0})
LEAVE_COPY = replace(COPY, broadcast=LEAVE)
ACK = Ack(0, 0, hop=1_000, reports={5: Report(1, 0, True)}, repaired=False, dead={}, clock=3)
FLUSH = Flush(
    0, 0, sequence=1, dead={1: 0}, held={T: {1: replace(PUBLICATION, source=1)}}, counter=9,
    subscriptions={T: (1, 0)},
)  # fmt: skip
WHOLE_VIEW = replace(COPY, recipients=None)
CARD = Card(0, identity=7, address=b"somewhere")
WELCOME = Welcome(
    0, 0, CARD, dead={1: 0}, digest=5, living={SENDER: CARD, 1: Card(1)}, is_up=True, admit=False
)
HELLO = Hello(0, ANY_INCARNATION, CARD, digest=5, news={1: Card(1)})
ASK = Ask(0, 0, hop=1_000)
FINAL = Final(0, 0, dead={1: 0})
IS_FINAL = IsFinal(0, 0, dead={1: 0})
OVER = Over(0, 0, dead={1: 0})
TAKEN = Taken(0, 0, identity=7)
FENCE = Fence(0, ANY_INCARNATION, incarnation=3)

SOUND = {
    "copy of a publication": COPY,
    "copy of a subscription": SUB_COPY,
    "copy of a leave": LEAVE_COPY,
    "copy without recipients": WHOLE_VIEW,
    "question": ASK,
    "acknowledgement": ACK,
    "flush": FLUSH,
    "question whether it is final": IS_FINAL,
    "final": FINAL,
    "over": OVER,
    "welcome": WELCOME,
    "welcome without a list": replace(WELCOME, living=None),
    "hello": HELLO,
    "taken": TAKEN,
    "fence": FENCE,
}
every_sound_message = pytest.mark.parametrize("message", SOUND.values(), ids=SOUND)
every_copy = pytest.mark.parametrize("copy", [COPY, SUB_COPY, LEAVE_COPY], ids=["PUB", "SUB", "UNS"])


def publishing(**changes: Any) -> Copy:
    return replace(COPY, broadcast=replace(PUBLICATION, **changes))


def with_items(*items: tuple[int, bytes]) -> Copy:
    """As columns that say so much: `batch_of` would not make what is unsound."""
    counters, payloads = zip(*items, strict=True)
    return publishing(batch=Batch(counters[0], payloads, counters), counter=counters[-1])


def consecutive(first: int, *payloads: bytes) -> Copy:
    return publishing(batch=Batch(first, payloads), counter=first + len(payloads) - 1)


def test_the_receiver_is_in_the_middle_of_something(peer: Peer) -> None:
    """Four copies: three of its own broadcast and one that it forwarded."""
    at_work = {what: count for what, count in peer.footprint().items() if count}

    assert at_work == {"copies": 4, "broadcasts": 1, "queued": 1, "pending": 1}


@every_sound_message
def test_messages_that_are_spoilt_below_are_sound_as_they_are(peer: Peer, message: AnyMessage) -> None:
    peer.receive(SENDER, message)


# Who sends, and what.


@pytest.mark.parametrize(
    "garbage", [None, "PUB", {"hop": 1}, PUBLICATION, Report(1, 0, True), Message(0, 0), object()]
)
def test_what_is_no_message_is_refused(peer: Peer, garbage: object) -> None:
    text = violation(peer, garbage)

    assert f"{type(garbage).__name__}, which is no message" in text


@every_sound_message
@pytest.mark.parametrize("sender", [STRANGER, -1, ME], ids=["a stranger", "nobody", "the receiver"])
def test_message_must_come_from_another_node(peer: Peer, message: AnyMessage, sender: int) -> None:
    text = violation(peer, message, sender)

    assert "only other nodes than 4 may, of which the ids lie in 0…1048575" in text


@every_sound_message
@pytest.mark.parametrize("origin", [-1, MAX_INCARNATION + 1])
def test_origin_must_be_an_incarnation(peer: Peer, message: AnyMessage, origin: int) -> None:
    text = violation(peer, replace(message, origin=origin))

    assert f"incarnations {origin} and" in text


@every_sound_message
@pytest.mark.parametrize("target", [ANY_INCARNATION - 1, MAX_INCARNATION + 1])
def test_target_must_be_an_incarnation_or_any(peer: Peer, message: AnyMessage, target: int) -> None:
    text = violation(peer, replace(message, target=target))

    assert f"incarnations 0 and {target}" in text


@pytest.mark.parametrize("message", [ASK, FINAL, TAKEN, FENCE], ids=["ask", "final", "taken", "fence"])
def test_the_last_incarnation_may_send_and_be_sent_to(peer: Peer, message: AnyMessage) -> None:
    peer.receive(SENDER, replace(message, origin=MAX_INCARNATION, target=MAX_INCARNATION))


@pytest.mark.parametrize(
    "message",
    [COPY, SUB_COPY, LEAVE_COPY, replace(ACK, dead={1: 0}), ASK],
    ids=["PUB", "SUB", "UNS", "ACK", "ASK"],
)
def test_what_is_part_of_a_broadcast_has_no_effect_if_it_is_meant_for_any_incarnation(
    peer: Peer, message: AnyMessage
) -> None:
    before = snapshot(peer)

    outputs = peer.receive(SENDER, replace(message, target=ANY_INCARNATION))

    assert outputs == []
    assert snapshot(peer) == before


# Copies: their place in the tree.


@every_copy
def test_copy_must_be_addressed_to_its_receiver(peer: Peer, copy: Copy) -> None:
    text = violation(peer, replace(copy, recipients={5: 1, 6: 1}))

    assert "does not serve node 4" in text


@every_copy
@pytest.mark.parametrize("recipients", [{4: 1, 3: 1}, {4: 1, 5: 1, 1: 1}, {4: 1, 0: 1}])
def test_recipients_must_lie_in_the_subtree_of_the_receiver(
    peer: Peer, copy: Copy, recipients: dict[int, int]
) -> None:
    text = violation(peer, replace(copy, recipients=recipients))

    assert "not in the subtree of node 4" in text


def test_subtree_of_a_receiver_depends_on_who_sends(peer: Peer) -> None:
    """From 6, in subcube 2, the subtree of 4 is 4 and 5 only."""
    text = violation(peer, COPY, sender=6)

    assert "a copy for node 6" in text


@every_copy
def test_recipients_must_be_nodes(peer: Peer, copy: Copy) -> None:
    text = violation(peer, replace(copy, recipients={4: 1, STRANGER: 1}))

    assert f"a copy for node {STRANGER}, which is not in the subtree" in text


@every_copy
def test_recipients_must_not_be_negative(peer: Peer, copy: Copy) -> None:
    text = violation(peer, replace(copy, recipients={4: 1, -4: 1}))

    assert "a copy for node -4, which is not in the subtree" in text


every_mark = pytest.mark.parametrize(
    ("copy", "largest"),
    [(COPY, MAX_COUNTER), (SUB_COPY, MAX_INCARNATION), (LEAVE_COPY, MAX_COUNTER)],
    ids=["PUB", "SUB", "UNS"],
)
"""Recipients of a subscription are marked with their incarnations, others with the counters of their subscriptions."""


@every_mark
def test_mark_of_a_recipient_must_lie_in_its_range(peer: Peer, copy: Copy, largest: int) -> None:
    for mark in (-1, largest + 1):
        text = violation(peer, replace(copy, recipients={4: 0, 5: mark}))

        assert f"a recipient marked {mark}; marks lie in 0…{largest}" in text


@every_mark
def test_mark_of_a_recipient_may_be_the_largest(peer: Peer, copy: Copy, largest: int) -> None:
    peer.receive(SENDER, replace(copy, recipients={4: 0, 5: largest}))


@every_copy
@pytest.mark.parametrize("source", [ME, 5], ids=["the receiver", "one that it serves"])
def test_source_must_not_lie_in_the_subtree_that_the_copy_serves(peer: Peer, copy: Copy, source: int) -> None:
    text = violation(peer, replace(copy, broadcast=replace(copy.broadcast, source=source)))

    assert f"source {source}" in text
    assert "outside the subtree of node 4" in text


@every_copy
@pytest.mark.parametrize("source", [STRANGER, -1])
def test_source_must_be_a_node(peer: Peer, copy: Copy, source: int) -> None:
    text = violation(peer, replace(copy, broadcast=replace(copy.broadcast, source=source)))

    assert f"source {source}" in text


def test_copy_must_be_of_something_that_is_broadcast(peer: Peer) -> None:
    text = violation(peer, replace(COPY, broadcast=HELLO))

    assert "a copy of Hello" in text


# Copies: what they carry.


@pytest.mark.parametrize("copy", [SUB_COPY, LEAVE_COPY], ids=["SUB", "UNS"])
@pytest.mark.parametrize("counter", [0, -1])
def test_counters_start_at_1(peer: Peer, copy: Copy, counter: int) -> None:
    text = violation(peer, replace(copy, broadcast=replace(copy.broadcast, counter=counter)))

    assert f"counter {counter}" in text


@pytest.mark.parametrize("counter", [0, -1])
def test_counters_of_publications_start_at_1(peer: Peer, counter: int) -> None:
    text = violation(peer, with_items((counter, b"m")))

    assert f"counter {counter}" in text


@pytest.mark.parametrize("copy", [SUB_COPY, LEAVE_COPY], ids=["SUB", "UNS"])
@pytest.mark.parametrize("counter", [1, MAX_COUNTER])
def test_the_first_and_the_last_counter_are_sound(peer: Peer, copy: Copy, counter: int) -> None:
    """Node 1 is the source, so that it may be of any incarnation."""
    peer.receive(SENDER, replace(copy, broadcast=replace(copy.broadcast, source=1, counter=counter)))


def test_counters_of_any_copy_end_with_those_of_the_last_incarnation(peer: Peer) -> None:
    text = violation(peer, replace(SUB_COPY, broadcast=replace(SUBSCRIPTION, counter=MAX_COUNTER + 1)))

    assert f"counters lie in 1…{MAX_COUNTER}" in text


def test_batch_must_not_be_empty(peer: Peer) -> None:
    text = violation(peer, publishing(batch=Batch(8, ())))

    assert "a batch of 0 publications" in text


def test_batch_must_not_be_longer_than_the_limit(peer: Peer) -> None:
    items = [(counter, b"") for counter in range(7, 7 + MAX_BATCH_ITEMS + 1)]

    text = violation(peer, with_items(*items))

    assert f"a batch of {MAX_BATCH_ITEMS + 1} publications" in text


def test_batch_may_be_as_long_as_the_limit(peer: Peer) -> None:
    peer.receive(SENDER, with_items(*((counter, b"") for counter in range(7, 7 + MAX_BATCH_ITEMS))))


def test_batch_must_not_be_larger_than_the_limit(peer: Peer) -> None:
    sizes = [MAX_PAYLOAD_BYTES] * (MAX_BATCH_BYTES // MAX_PAYLOAD_BYTES) + [1]
    items = [(counter, bytes(size)) for counter, size in enumerate(sizes, start=7)]

    text = violation(peer, with_items(*items))

    assert f"a batch of {MAX_BATCH_BYTES + 1} bytes" in text


def test_batch_may_be_as_large_as_the_limit(peer: Peer) -> None:
    sizes = [MAX_PAYLOAD_BYTES] * (MAX_BATCH_BYTES // MAX_PAYLOAD_BYTES)

    peer.receive(SENDER, with_items(*((counter, bytes(size)) for counter, size in enumerate(sizes, start=7))))


@pytest.mark.parametrize(
    "counters", [(8, 7, 9), (7, 7), (7, 8, 8)], ids=["descends", "repeats", "repeats the last"]
)
def test_batch_must_ascend(peer: Peer, counters: tuple[int, ...]) -> None:
    text = violation(peer, with_items(*((counter, b"m") for counter in counters)))

    assert "they must ascend" in text


def test_batch_must_not_mix_incarnations_of_its_source(peer: Peer) -> None:
    text = violation(peer, with_items((7, b"m"), (COUNTERS_PER_INCARNATION + 1, b"n")))

    assert "of one incarnation" in text


def test_batch_of_consecutive_counters_must_not_mix_incarnations_of_its_source(peer: Peer) -> None:
    text = violation(peer, consecutive(COUNTERS_PER_INCARNATION - 1, b"m", b"n"))

    assert "of one incarnation" in text


@pytest.mark.parametrize("first", [0, -1])
def test_batch_must_begin_with_a_counter(peer: Peer, first: int) -> None:
    text = violation(peer, with_items((first, b"m"), (7, b"n")))

    assert f"a batch with counters {first} to 7" in text


@pytest.mark.parametrize("first", [0, -1])
def test_batch_of_consecutive_counters_must_begin_with_a_counter(peer: Peer, first: int) -> None:
    text = violation(peer, consecutive(first, b"m", b"n", b"o"))

    assert f"a batch with counters {first} to {first + 2}" in text


@pytest.mark.parametrize(
    "batch",
    [Batch(6, (b"m", b"n"), (7, 8)), Batch(7, (b"m", b"n", b"o"), (7, 8)), Batch(7, (b"m",), (7, 8))],
    ids=["first", "fewer", "more"],
)
def test_listed_counters_must_be_those_of_the_batch(peer: Peer, batch: Batch) -> None:
    text = violation(peer, publishing(batch=batch, counter=8))

    assert "with counters 7, 8" in text


@pytest.mark.parametrize("size", [1, 8, 15, 17, 24])
def test_times_of_a_batch_must_be_as_many_as_its_publications(peer: Peer, size: int) -> None:
    text = violation(peer, publishing(batch=Batch(7, (b"m", b"n"), (), bytes(size))))

    assert f"{size} bytes of times for 2 publications" in text


def test_batch_may_have_times(peer: Peer) -> None:
    peer.receive(SENDER, publishing(batch=Batch(7, (b"m", b"n"), (), bytes(16))))


def test_batch_may_begin_with_the_first_counter(peer: Peer) -> None:
    peer.receive(SENDER, with_items((1, b"m"), (2, b"n")))


@pytest.mark.parametrize(
    ("counters", "shown"), [((5, 4, 3, 2), "5, 4, 3, 2;"), ((5, 4, 3, 2, 1), "5, 4, 3, 2, ...;")]
)
def test_complaint_about_a_batch_names_four_counters_at_most(
    peer: Peer, counters: tuple[int, ...], shown: str
) -> None:
    text = violation(peer, with_items(*((counter, b"m") for counter in counters)))

    assert f"with counters {shown}" in text


def test_batch_must_end_with_its_counter(peer: Peer) -> None:
    text = violation(peer, publishing(counter=9))

    assert "does not end with its counter 9" in text


def test_payload_must_not_exceed_the_limit(peer: Peer) -> None:
    text = violation(peer, with_items((7, bytes(MAX_PAYLOAD_BYTES + 1))))

    assert f"{MAX_PAYLOAD_BYTES + 1} bytes; the limit is {MAX_PAYLOAD_BYTES}" in text


def test_no_payload_of_a_batch_may_exceed_the_limit(peer: Peer) -> None:
    text = violation(peer, with_items((7, b"m"), (8, bytes(MAX_PAYLOAD_BYTES + 1)), (9, b"n")))

    assert f"a payload of {MAX_PAYLOAD_BYTES + 1} bytes" in text


def test_sizes_are_measured_unless_the_message_is_smaller_than_any_limit(peer: Peer) -> None:
    copy = with_items((7, bytes(MAX_PAYLOAD_BYTES + 1)))

    with pytest.raises(ProtocolViolation):
        peer.receive(SENDER, copy, MAX_PAYLOAD_BYTES + 1)
    peer.receive(SENDER, copy, MAX_PAYLOAD_BYTES)


@every_copy
@pytest.mark.parametrize("topic", ["", "x" * (MAX_TOPIC_BYTES + 1), "😀" * 64], ids=["empty", "long", "wide"])
def test_topic_must_be_a_good_name(peer: Peer, copy: Copy, topic: str) -> None:
    text = violation(peer, replace(copy, broadcast=replace(copy.broadcast, topic=topic)))

    assert "a bad topic" in text


@pytest.mark.parametrize("copy", [COPY, LEAVE_COPY], ids=["PUB", "UNS"])
@pytest.mark.parametrize("stranger", [STRANGER, -1])
def test_barrier_must_name_nodes(peer: Peer, copy: Copy, stranger: int) -> None:
    text = violation(peer, replace(copy, broadcast=replace(copy.broadcast, barrier={5: 2, stranger: 1})))

    assert f"dependencies with impossible nodes {stranger}, of which the ids lie in" in text


@pytest.mark.parametrize("copy", [COPY, LEAVE_COPY], ids=["PUB", "UNS"])
def test_barrier_must_not_name_a_publication_that_the_receiver_has_not_made(peer: Peer, copy: Copy) -> None:
    """Node 4 has given out three counters: to its subscription and to two publications."""
    text = violation(peer, replace(copy, broadcast=replace(copy.broadcast, barrier={ME: 4})))

    assert "publication 4 of node 4, which it has not made" in text


@pytest.mark.parametrize("copy", [COPY, LEAVE_COPY], ids=["PUB", "UNS"])
@pytest.mark.parametrize("counter", [0, -7, MAX_COUNTER + 1])
def test_dependencies_must_be_counters(peer: Peer, copy: Copy, counter: int) -> None:
    text = violation(peer, replace(copy, broadcast=replace(copy.broadcast, barrier={5: 2, 6: counter})))

    assert f"counter {counter}" in text


@pytest.mark.parametrize("copy", [COPY, LEAVE_COPY], ids=["PUB", "UNS"])
@pytest.mark.parametrize("counter", [1, MAX_COUNTER])
def test_dependencies_may_be_the_first_and_the_last_counter(peer: Peer, copy: Copy, counter: int) -> None:
    peer.receive(SENDER, replace(copy, broadcast=replace(copy.broadcast, barrier={5: 2, 6: counter})))


@pytest.mark.parametrize(("copy", "counter"), [(COPY, 6), (LEAVE_COPY, 8)], ids=["PUB", "UNS"])
def test_dependency_on_what_the_source_published_just_before_is_sound(
    peer: Peer, copy: Copy, counter: int
) -> None:
    peer.receive(SENDER, replace(copy, broadcast=replace(copy.broadcast, barrier={SENDER: counter})))


@pytest.mark.parametrize(("copy", "counter"), [(COPY, 7), (COPY, 8), (LEAVE_COPY, 9)])
def test_nothing_depends_on_itself(peer: Peer, copy: Copy, counter: int) -> None:
    text = violation(peer, replace(copy, broadcast=replace(copy.broadcast, barrier={SENDER: counter})))

    assert "depends on itself" in text


@every_copy
def test_source_must_count_as_the_incarnation_that_it_is(peer: Peer, copy: Copy) -> None:
    text = violation(peer, replace(copy, origin=1), sender=SENDER) if copy is not SUB_COPY else ""
    sub = replace(SUB_COPY, broadcast=Subscription(SENDER, T, COUNTERS_PER_INCARNATION + 1))

    assert "not one of its incarnation" in (text or violation(peer, sub))


@every_copy
def test_a_relay_need_not_be_of_the_incarnation_that_the_source_has(peer: Peer, copy: Copy) -> None:
    peer.receive(SENDER, replace(copy, origin=1, broadcast=replace(copy.broadcast, source=1)))


@pytest.mark.parametrize("copy", [COPY, LEAVE_COPY], ids=["PUB", "UNS"])
def test_what_is_meant_for_another_incarnation_may_depend_on_what_that_one_has_published(
    peer: Peer, copy: Copy
) -> None:
    """As long as two nodes have one id, what is meant for one may come to the other."""
    barrier = {ME: COUNTERS_PER_INCARNATION + 1}

    outputs = peer.receive(
        SENDER, replace(copy, target=1, broadcast=replace(copy.broadcast, barrier=barrier))
    )

    assert outputs == []


def test_a_relay_is_not_blamed_for_a_dependency_that_only_the_receiver_can_judge(peer: Peer) -> None:
    outputs = peer.receive(SENDER, publishing(source=1, barrier={ME: 4}))

    assert "Send" in [type(output).__name__ for output in outputs]


@pytest.mark.parametrize("stamp", [-1, MAX_STAMP + 1])
@pytest.mark.parametrize("copy", [COPY, LEAVE_COPY], ids=["PUB", "UNS"])
def test_stamp_must_lie_in_its_range(peer: Peer, copy: Copy, stamp: int) -> None:
    text = violation(peer, replace(copy, broadcast=replace(copy.broadcast, stamp=stamp)))

    assert f"Lamport time {stamp}" in text


@pytest.mark.parametrize("clock", [-1, MAX_STAMP + 1])
def test_clock_must_lie_in_its_range(peer: Peer, clock: int) -> None:
    text = violation(peer, replace(ACK, clock=clock))

    assert f"Lamport time {clock}" in text


@pytest.mark.parametrize("time", [0, MAX_STAMP])
@pytest.mark.parametrize("copy", [COPY, LEAVE_COPY], ids=["PUB", "UNS"])
def test_stamp_may_be_the_first_and_the_last(peer: Peer, copy: Copy, time: int) -> None:
    peer.receive(SENDER, replace(copy, broadcast=replace(copy.broadcast, stamp=time)))


@pytest.mark.parametrize("time", [0, MAX_STAMP])
def test_clock_may_be_the_first_and_the_last(peer: Peer, time: int) -> None:
    peer.receive(SENDER, replace(ACK, clock=time))


@pytest.mark.parametrize("counter", [2, 3], ids=["one before the last", "the last"])
def test_barrier_may_name_a_publication_that_the_receiver_has_made(peer: Peer, counter: int) -> None:
    outputs = peer.receive(SENDER, publishing(barrier={ME: counter}))

    assert "Deliver" in [type(output).__name__ for output in outputs]


# Acknowledgements.


def open_hops(wire: Wire) -> dict[int, int]:
    """Child → hop of the copy that the receiver has in flight to it."""
    return {sent.destination: sent.message.hop for sent in wire.in_flight if sent.source == ME}


def test_acknowledgement_of_a_hop_that_went_to_another_node_is_refused() -> None:
    wire = busy_wire()
    hop = open_hops(wire)[5]

    text = violation(wire.peers[ME], replace(ACK, hop=hop), sender=6)

    assert f"hop {hop}, which went to node 5" in text


def test_acknowledgement_that_is_meant_for_another_incarnation_is_dropped_though_its_hop_is_known() -> None:
    """Hops are counted anew in every incarnation."""
    wire = busy_wire()
    before = snapshot(wire.peers[ME])

    outputs = wire.peers[ME].receive(6, replace(ACK, target=1, hop=open_hops(wire)[5]))

    assert outputs == []
    assert snapshot(wire.peers[ME]) == before


@pytest.mark.parametrize("node", [ME, 7], ids=["the receiver", "a node of another subtree"])
def test_reports_must_be_about_nodes_that_the_copy_served(node: int) -> None:
    wire = busy_wire()
    hop = open_hops(wire)[5]

    text = violation(
        wire.peers[ME],
        replace(ACK, hop=hop, reports={5: Report(1, 0, True), node: Report(1, 0, True)}),
        sender=5,
    )

    assert f"[{node}], which hop {hop} did not serve" in text


def test_reports_must_be_about_nodes(peer: Peer) -> None:
    text = violation(peer, replace(ACK, reports={STRANGER: Report(1, 0, True)}))

    assert f"reports with impossible nodes {STRANGER}" in text


# Crashes and incarnations.


def cards_of(incarnations: dict[int, int]) -> dict[int, Card]:
    return {node: Card(incarnation) for node, incarnation in incarnations.items()}


TELLING: dict[str, Callable[[dict[int, int]], AnyMessage]] = {
    "crashes of a copy": lambda told: replace(COPY, fresh=told),
    "crashes of an acknowledgement": lambda told: replace(ACK, dead=told),
    "crashes of a flush": lambda told: replace(FLUSH, dead=told, held={}),
    "crashes of a welcome": lambda told: replace(WELCOME, dead=told),
    "crashes that may be final": lambda told: replace(IS_FINAL, dead=told),
    "crashes that are final": lambda told: replace(FINAL, dead=told),
    "crashes that are over": lambda told: replace(OVER, dead=told),
    "living in a welcome": lambda told: replace(WELCOME, living={SENDER: CARD, **cards_of(told)}),
    "news of a hello": lambda told: replace(HELLO, news=cards_of(told)),
}
every_telling = pytest.mark.parametrize("telling", TELLING.values(), ids=TELLING)


@every_telling
@pytest.mark.parametrize("stranger", [STRANGER, -1])
def test_incarnations_must_be_of_nodes(
    peer: Peer, telling: Callable[[dict[int, int]], AnyMessage], stranger: int
) -> None:
    text = violation(peer, telling({1: 0, stranger: 0}))

    assert f"impossible nodes {stranger}, of which the ids lie in" in text


@every_telling
@pytest.mark.parametrize("incarnation", [-1, MAX_INCARNATION + 1])
def test_incarnations_must_lie_in_their_range(
    peer: Peer, telling: Callable[[dict[int, int]], AnyMessage], incarnation: int
) -> None:
    text = violation(peer, telling({1: incarnation}))

    assert f"incarnation {incarnation}" in text


@pytest.mark.parametrize("name", [name for name in TELLING if name.startswith("crashes")])
def test_nobody_tells_of_the_crash_of_the_incarnation_that_it_is(peer: Peer, name: str) -> None:
    text = violation(peer, TELLING[name]({SENDER: 0}))

    assert "its own crash as incarnation 0" in text


def ending(telling: Callable[[dict[int, int]], AnyMessage], ended: int) -> AnyMessage:
    return telling({ME: ended})


ENDING: dict[str, Callable[[int], AnyMessage]] = {
    **{name: partial(ending, telling) for name, telling in TELLING.items() if name.startswith("crashes")},
    "fence": lambda ended: replace(FENCE, incarnation=ended),
}
"""What says that an incarnation of the receiver is no more."""


@pytest.mark.parametrize("end", ENDING.values(), ids=ENDING)
def test_nobody_ends_the_last_incarnation_of_a_node_that_is_not_there_yet(
    peer: Peer, end: Callable[[int], AnyMessage]
) -> None:
    """The receiver would have to go on above it, and there is nothing above it."""
    text = violation(peer, end(MAX_INCARNATION))

    assert f"the end of incarnation {MAX_INCARNATION}, after which there is none" in text


@pytest.mark.parametrize("end", ENDING.values(), ids=ENDING)
def test_the_incarnation_before_the_last_may_end(end: Callable[[int], AnyMessage]) -> None:
    peer = busy_wire().peers[ME]

    peer.receive(SENDER, end(MAX_INCARNATION - 1))

    assert peer.incarnation in (0, MAX_INCARNATION)


# Cards, questions and answers.

BEARING: dict[str, Callable[[Card], AnyMessage]] = {
    "hello": lambda card: replace(HELLO, card=card),
    "news": lambda card: replace(HELLO, news={1: card}),
    "welcome": lambda card: replace(WELCOME, card=card, living=None),
    "living": lambda card: replace(WELCOME, living={SENDER: CARD, 1: card}),
}
every_card = pytest.mark.parametrize("bearing", BEARING.values(), ids=BEARING)


@every_card
@pytest.mark.parametrize("identity", [-1, MAX_IDENTITY + 1])
def test_identity_on_a_card_must_have_64_bits(
    peer: Peer, bearing: Callable[[Card], AnyMessage], identity: int
) -> None:
    text = violation(peer, bearing(replace(CARD, identity=identity)))

    assert f"a card with identity {identity}" in text
    assert "64 bits" in text


@every_card
def test_address_on_a_card_must_not_exceed_the_limit(
    peer: Peer, bearing: Callable[[Card], AnyMessage]
) -> None:
    text = violation(peer, bearing(replace(CARD, address=bytes(MAX_ADDRESS_BYTES + 1))))

    assert f"an address of {MAX_ADDRESS_BYTES + 1} bytes" in text
    assert f"at most {MAX_ADDRESS_BYTES} bytes" in text


@every_card
def test_the_largest_card_is_sound(peer: Peer, bearing: Callable[[Card], AnyMessage]) -> None:
    peer.receive(SENDER, bearing(Card(0, MAX_IDENTITY, bytes(MAX_ADDRESS_BYTES))))


@pytest.mark.parametrize(
    "message",
    [replace(HELLO, card=Card(1)), replace(WELCOME, card=Card(1), living=None)],
    ids=["hello", "welcome"],
)
def test_card_must_be_of_the_incarnation_that_sends_it(peer: Peer, message: AnyMessage) -> None:
    text = violation(peer, message)

    assert "a card of incarnation 1 as incarnation 0" in text


@pytest.mark.parametrize(
    "living",
    [{1: Card(1)}, {SENDER: Card(0), 1: Card(1)}, {SENDER: CARD, ME: Card(0)}, {}],
    ids=["not its sender", "its sender with another card", "its receiver", "nobody"],
)
def test_list_of_the_living_has_its_sender_and_not_its_receiver(peer: Peer, living: dict[int, Card]) -> None:
    text = violation(peer, replace(WELCOME, living=living))

    assert "a list of the living without itself, or with its receiver" in text


@pytest.mark.parametrize("identity", [-1, MAX_IDENTITY + 1])
def test_identity_of_who_is_told_to_draw_again_must_have_64_bits(peer: Peer, identity: int) -> None:
    text = violation(peer, replace(TAKEN, identity=identity))

    assert f"identity {identity}" in text


@pytest.mark.parametrize("identity", [0, MAX_IDENTITY])
def test_identity_of_who_is_told_to_draw_again_may_be_any_of_64_bits(peer: Peer, identity: int) -> None:
    peer.receive(SENDER, replace(TAKEN, identity=identity))


@pytest.mark.parametrize("copy", [SUB_COPY, LEAVE_COPY], ids=["SUB", "UNS"])
def test_only_copies_of_publications_may_leave_their_recipients_out(peer: Peer, copy: Copy) -> None:
    text = violation(peer, replace(copy, recipients=None))

    assert "a copy without recipients of what is no publication" in text


@pytest.mark.parametrize("source", [ME, 5], ids=["the receiver", "one of its subtree"])
def test_copy_that_leaves_its_recipients_out_must_have_its_place_in_the_tree_too(
    peer: Peer, source: int
) -> None:
    text = violation(peer, replace(WHOLE_VIEW, broadcast=replace(PUBLICATION, source=source)))

    assert "outside the subtree of node 4" in text


@pytest.mark.parametrize("hop", [-1, 0, 1_000, 1 << 63])
def test_question_about_a_copy_that_was_never_sent_has_no_effect(peer: Peer, hop: int) -> None:
    before = snapshot(peer)

    outputs = peer.receive(SENDER, replace(ASK, hop=hop))

    assert outputs == []
    assert snapshot(peer) == before


def test_question_about_a_copy_that_went_to_another_node_has_no_effect() -> None:
    wire = busy_wire()
    before = snapshot(wire.peers[ME])

    outputs = wire.peers[ME].receive(6, Ask(0, 0, open_hops(wire)[5]))

    assert outputs == []
    assert snapshot(wire.peers[ME]) == before


# Flushes.


def held(publication: Publication, *, source: int = 1, topic: str = T) -> Flush:
    return replace(FLUSH, held={topic: {source: publication}})


@pytest.mark.parametrize("sequence", [0, -1])
def test_flushes_are_numbered_from_1(peer: Peer, sequence: int) -> None:
    text = violation(peer, replace(FLUSH, sequence=sequence))

    assert f"flush number {sequence}" in text


@pytest.mark.parametrize(
    "flush",
    [held(replace(PUBLICATION, source=2)), held(replace(PUBLICATION, source=1, topic="other"))],
    ids=["source", "topic"],
)
def test_held_publication_must_be_filed_under_its_source_and_topic(peer: Peer, flush: Flush) -> None:
    text = violation(peer, flush)

    assert "filed under source 1 and topic 't'" in text


def test_held_publications_must_be_of_nodes(peer: Peer) -> None:
    text = violation(peer, held(replace(PUBLICATION, source=STRANGER), source=STRANGER))

    assert f"sources with impossible nodes {STRANGER}" in text


@pytest.mark.parametrize(
    "changes",
    [
        {"batch": Batch(8, ())},
        {"batch": Batch(8, (b"m", b"n"), (8, 7)), "counter": 7},
        {"barrier": {STRANGER: 1}},
        {"batch": Batch(8, (bytes(MAX_PAYLOAD_BYTES + 1),))},
    ],
    ids=["empty", "descending", "stranger in barrier", "large payload"],
)
def test_held_publication_must_be_sound_itself(peer: Peer, changes: dict[str, Any]) -> None:
    violation(peer, held(replace(PUBLICATION, source=1, **changes)))


@pytest.mark.parametrize(
    "flush",
    [
        held(replace(PUBLICATION, source=1, topic=""), topic=""),
        replace(FLUSH, subscriptions={"x" * (MAX_TOPIC_BYTES + 1): (1, 0)}),
    ],
    ids=["held", "subscriptions"],
)
def test_topics_of_a_flush_must_be_good_names(peer: Peer, flush: Flush) -> None:
    text = violation(peer, flush)

    assert "a bad topic" in text


def test_held_publication_must_be_of_a_source_that_the_flush_calls_dead(peer: Peer) -> None:
    """Otherwise a liar could speak for the living, and what they say themselves would count as a repetition."""
    text = violation(peer, replace(FLUSH, dead={2: 0}))

    assert "node 1, which it does not call dead" in text


def test_held_publication_must_be_of_an_incarnation_that_the_flush_calls_dead(peer: Peer) -> None:
    later = COUNTERS_PER_INCARNATION + 8
    publication = replace(PUBLICATION, source=1, counter=later, batch=Batch(later, (b"m",)))

    text = violation(peer, held(publication))

    assert "which it does not call dead" in text


@pytest.mark.parametrize("counter", [0, MAX_COUNTER + 1])
def test_held_publication_must_have_a_counter(peer: Peer, counter: int) -> None:
    text = violation(
        peer, held(replace(PUBLICATION, source=1, counter=counter, batch=Batch(counter, (b"m",))))
    )

    assert f"counter {counter}" in text


def test_held_publication_may_have_the_first_counter(peer: Peer) -> None:
    peer.receive(SENDER, held(replace(PUBLICATION, source=1, counter=1, batch=Batch(1, (b"m",)))))


def test_the_next_incarnation_of_a_source_is_not_blamed_for_what_its_publication_depends_on(
    peer: Peer,
) -> None:
    """It has got it from others, like everybody who flushes."""
    handed_on = replace(PUBLICATION, barrier={ME: 4})

    peer.receive(SENDER, replace(FLUSH, origin=1, dead={SENDER: 0}, held={T: {SENDER: handed_on}}))


@pytest.mark.parametrize(
    "changes",
    [
        {"counter": 0, "subscriptions": {T: (1, 0)}},
        {"counter": MAX_COUNTER, "subscriptions": {T: (MAX_COUNTER, MAX_COUNTER)}},
    ],
    ids=["smallest", "largest"],
)
def test_counters_of_a_flush_may_reach_to_both_ends_of_their_range(
    peer: Peer, changes: dict[str, Any]
) -> None:
    peer.receive(SENDER, replace(FLUSH, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"counter": -5},
        {"counter": MAX_COUNTER + 1},
        {"subscriptions": {T: (0, 0)}},
        {"subscriptions": {T: (1, -9)}},
        {"subscriptions": {T: (1, MAX_COUNTER + 1)}},
    ],
)
def test_counters_of_a_flush_must_lie_in_their_range(peer: Peer, changes: dict[str, Any]) -> None:
    text = violation(peer, replace(FLUSH, **changes))

    assert "counters lie in" in text


@pytest.mark.parametrize("incarnation", [-1, MAX_INCARNATION + 1])
def test_fence_must_name_an_incarnation(peer: Peer, incarnation: int) -> None:
    text = violation(peer, replace(FENCE, incarnation=incarnation))

    assert f"incarnation {incarnation}" in text


def test_whoever_believed_a_liar_about_the_time_is_not_blamed_for_it() -> None:
    wire = Wire(Peer, range(2))
    for node in range(2):
        wire.subscribe(node, T)
        wire.run()
    wire.peers[0].receive(1, replace(ACK, reports={}, clock=MAX_STAMP))

    wire.publish(0, T, b"m")
    wire.run()

    assert wire.delivered[1] == [(0, b"m")]


# Garbage: well typed, otherwise anything.

MOMENTS: dict[str, Callable[[Wire], None]] = {}
"""What else happens to the busy node before the garbage comes."""


def moment(happen: Callable[[Wire], None]) -> Callable[[Wire], None]:
    MOMENTS[happen.__name__] = happen
    return happen


@moment
def member(wire: Wire) -> None:
    pass


@moment
def leaving(wire: Wire) -> None:
    wire.release(5, ME)
    wire.run()
    wire.hold(5, ME)
    wire.unsubscribe(ME, T)
    wire.run()


@moment
def joining(wire: Wire) -> None:
    leaving(wire)
    wire.release(5, ME)
    wire.run()
    wire.hold(5, ME)
    wire.subscribe(ME, T)
    wire.run()
    wire.publish(0, T, b"while it joins")
    wire.run()


@moment
def joining_and_closing(wire: Wire) -> None:
    joining(wire)
    wire.unsubscribe(ME, T)


@moment
def crash_not_final(wire: Wire) -> None:
    wire.suspect(ME, 6, 0)


@moment
def newcomer_not_let_in(wire: Wire) -> None:
    wire.crash(6)
    wire.suspect(ME, 6, 0)
    wire.recover(6)
    wire.hold(7, ME)
    wire.run()


@moment
def booting(wire: Wire) -> None:
    wire.crash(ME)
    wire.hold(1, ME)
    wire.recover(ME)
    wire.run()


class Moment(NamedTuple):
    """A peer to be copied, and the (child, hop) of all copies that it has sent."""

    peer: Peer
    hops: list[tuple[int, int]]


@cache
def at(name: str) -> Moment:
    wire = busy_wire()
    MOMENTS[name](wire)
    copies = [output for output in wire.outputs[ME] if isinstance(output, Send)]
    hops = [(copy.destination, copy.message.hop) for copy in copies if isinstance(copy.message, Copy)]
    return Moment(wire.peers[ME], hops)


# A message of many parts is sound only if all of them are: each part is spoilt seldom.
seldom = st.sampled_from([False] * 19 + [True])
few = st.integers(0, 3)
nodes = st.sampled_from([*range(8)] * 6 + [9, 9, STRANGER])
incarnations = st.sampled_from([0] * 14 + [1] * 4 + [2, -1])
counters = st.one_of(
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(COUNTERS_PER_INCARNATION, COUNTERS_PER_INCARNATION + 6),
    st.integers(-1, 1),
)
topics = st.sampled_from([T] * 20 + ["u"] * 4 + [""])
stamps = st.integers(-1, 20)
crashes = st.one_of(st.just({}), st.dictionaries(nodes, incarnations, max_size=2))
barriers = st.dictionaries(nodes, st.integers(0, 4), max_size=3)
cards = st.builds(Card, incarnations, st.integers(0, 2), st.sampled_from([b"", b"here", b"there"]))
digests = st.integers(0, 2)
reports = st.dictionaries(nodes, st.builds(Report, counters, counters, st.booleans()), max_size=3)


@st.composite
def publications(draw: st.DrawFn) -> Publication:
    batch = draw(st.lists(counters, max_size=3) if draw(seldom) else st.sets(st.integers(1, 12), min_size=1))
    issued = tuple(batch if isinstance(batch, list) else sorted(batch))
    counter = draw(counters) if draw(seldom) or not issued else issued[-1]
    first = draw(counters) if draw(seldom) or not issued else issued[0]
    scattered = () if draw(few) == 0 else issued
    times = b"t" * draw(st.integers(0, 17)) if draw(seldom) else b""
    columns = Batch(first, (b"m",) * len(issued), scattered, times)
    return Publication(draw(nodes), draw(topics), counter, columns, draw(barriers), draw(few), draw(stamps))


broadcasts = st.one_of(
    publications(),
    st.builds(Subscription, nodes, topics, counters),
    st.builds(Unsubscription, nodes, topics, counters, barriers, stamps),
)


@st.composite
def copies(draw: st.DrawFn, sender: int) -> Copy:
    broadcast = draw(broadcasts)
    marks = incarnations if isinstance(broadcast, Subscription) else counters
    subtree = [x for x in range(8) if (x ^ ME).bit_length() < (sender ^ ME).bit_length() and x != ME]
    served = nodes if draw(seldom) or not subtree else st.sampled_from(subtree)
    recipients: dict[int, int] | None = draw(st.dictionaries(served, marks, max_size=3))
    if recipients is not None and not draw(seldom):
        recipients[ME] = draw(marks)
    if draw(few) == 0 if isinstance(broadcast, Publication) else draw(seldom):
        recipients = None
    return Copy(
        draw(incarnations), draw(incarnations), draw(st.integers(0, 20)), recipients, draw(crashes), broadcast
    )


@st.composite
def flushes(draw: st.DrawFn) -> Flush:
    held: dict[str, dict[int, Publication]] = {}
    for publication in draw(st.lists(publications(), max_size=2)):
        source = draw(nodes) if draw(seldom) else publication.source
        held.setdefault(publication.topic, {})[source] = publication
    return Flush(
        draw(incarnations),
        draw(incarnations),
        draw(few),
        draw(crashes),
        held,
        draw(counters),
        draw(st.dictionaries(topics, st.tuples(counters, counters), max_size=2)),
        draw(st.booleans()),
    )


@st.composite
def welcomes(draw: st.DrawFn, sender: int) -> Welcome:
    origin = draw(incarnations)
    card = draw(cards) if draw(seldom) else replace(draw(cards), incarnation=origin)
    living: dict[int, Card] | None = draw(st.dictionaries(nodes, cards, max_size=3))
    if draw(st.booleans()):
        living = None
    elif living is not None and not draw(seldom):
        living[sender] = card
        living.pop(ME, None)
    return Welcome(
        origin,
        draw(incarnations),
        card,
        draw(crashes),
        draw(digests),
        living,
        draw(st.booleans()),
        draw(st.booleans()),
    )


@st.composite
def arrivals(draw: st.DrawFn, name: str) -> tuple[int, AnyMessage]:
    sender = draw(nodes)
    kinds = [Copy, Copy, Copy, Copy, Ack, Ack, Ask, Flush, Final, Over, Hello, Welcome, Taken, Fence]
    kind = draw(st.sampled_from(kinds))
    if kind is Copy:
        return sender, draw(copies(sender))
    if kind is Flush:
        return sender, draw(flushes())
    if kind is Welcome:
        return sender, draw(welcomes(sender))
    origin, target = draw(incarnations), draw(incarnations)
    if kind is Ack:
        child, hop = draw(st.sampled_from(at(name).hops))
        parts = draw(st.tuples(reports, st.booleans(), crashes, stamps))
        return sender if draw(seldom) else child, Ack(origin, target, hop, *parts)
    if kind is Ask:
        child, hop = draw(st.sampled_from(at(name).hops))
        return sender if draw(seldom) else child, Ask(origin, target, hop)
    if kind is Final:
        return sender, Final(origin, target, draw(crashes))
    if kind is Over:
        return sender, Over(origin, target, draw(crashes))
    if kind is Hello:
        card = draw(cards) if draw(seldom) else replace(draw(cards), incarnation=origin)
        return sender, Hello(
            origin, target, card, draw(digests), draw(st.dictionaries(nodes, cards, max_size=2))
        )
    if kind is Taken:
        return sender, Taken(origin, target, draw(few))
    return sender, Fence(origin, target, draw(incarnations))


@st.composite
def attacks(draw: st.DrawFn) -> tuple[Peer, list[tuple[int, AnyMessage]]]:
    """A peer in the middle of something, and garbage to feed it."""
    name = draw(st.sampled_from(sorted(MOMENTS)))
    garbage = draw(st.lists(arrivals(name), min_size=1, max_size=6))
    return copying.deepcopy(at(name).peer), garbage


@settings(max_examples=200)
@given(attacks())
def test_garbage_is_handled_or_refused_without_a_trace(
    attack: tuple[Peer, list[tuple[int, AnyMessage]]],
) -> None:
    peer, garbage = attack

    for sender, message in garbage:
        before = snapshot(peer)
        try:
            peer.receive(sender, message)
        except ProtocolViolation:
            assert snapshot(peer) == before


@settings(max_examples=100)
@given(attacks())
def test_garbage_plants_nothing_that_a_later_call_trips_over(
    attack: tuple[Peer, list[tuple[int, AnyMessage]]],
) -> None:
    peer, garbage = attack
    for sender, message in garbage:
        with suppress(ProtocolViolation):
            peer.receive(sender, message)

    for call in (partial(peer.publish, T, b"m"), partial(peer.unsubscribe, T), partial(peer.subscribe, T)):
        with suppress(UsageError):
            call()


def test_negative_origin_with_news_of_a_crash_is_refused() -> None:
    with pytest.raises(ProtocolViolation, match="incarnations -1"):
        Peer(0, range(3)).receive(1, replace(WELCOME, origin=-1, dead={2: 0}))


@pytest.mark.parametrize("mark", [-7, 1 << 30])
def test_mark_of_a_recipient_that_is_no_incarnation_is_refused(mark: int) -> None:
    with pytest.raises(ProtocolViolation, match=f"marked {mark}"):
        Peer(4, range(8)).receive(0, Copy(0, 0, 1, {4: 0, 5: mark}, {}, Subscription(0, T, 1)))


@pytest.mark.parametrize("report", [Report(-1, 0, True), Report(1, -1, True), Report(1 << 63, 0, True)])
def test_report_with_a_counter_out_of_range_is_refused(report: Report) -> None:
    peer = Peer(0, range(2))
    [ask] = peer.subscribe(T)
    assert isinstance(ask, Send)
    assert isinstance(ask.message, Copy)

    with pytest.raises(ProtocolViolation, match="counter"):
        peer.receive(1, Ack(0, 0, ask.message.hop, {1: report}, False, {}, 0))
