"""How a crash becomes known, and final. Directed traces."""

from __future__ import annotations

from typing import Any

import pytest

from crash_stories import (
    T,
    is_flush,
    is_publication,
    members_of,
    report,
)
from snapshots import snapshot
from vcubeps.protocol.batches import Batch
from vcubeps.protocol.messages import (
    ANY_INCARNATION,
    Ack,
    Card,
    Copy,
    Fence,
    Final,
    Flush,
    Hello,
    Publication,
    Subscription,
)
from vcubeps.protocol.outputs import (
    Send,
)
from vcubeps.protocol.peer import Peer
from wire import Wire

# How a crash becomes known, and final.


def fences(wire: Wire, node: int) -> list[int]:
    """Whom `node` has declared dead: it tells them."""
    sends = [output for output in wire.outputs[node] if isinstance(output, Send)]
    return [send.destination for send in sends if isinstance(send.message, Fence)]


def test_a_suspicion_travels_with_copies() -> None:
    """The flushes of 0, which alone suspects 3, are slow; if 0 died now, nobody else would know."""
    wire = members_of(range(3), among=range(4))
    wire.hold(0, 1, only=is_flush)
    wire.hold(0, 2, only=is_flush)
    wire.crash(3)
    wire.suspect(0, 3, 0)

    wire.publish(0, T, b"m")
    wire.run()

    assert fences(wire, 1) == fences(wire, 2) == [3]


def test_a_suspicion_travels_with_acknowledgements() -> None:
    wire = members_of(range(2), among=range(4))
    for other in (0, 2):
        wire.hold(1, other, only=is_flush)
    wire.crash(3)
    wire.suspect(1, 3, 0)

    wire.publish(0, T, b"m")
    wire.run()

    assert fences(wire, 0) == [3]


@pytest.mark.parametrize(
    ("broadcast", "recipients", "told"),
    [
        (Subscription(1, T, 5), {0: 0}, {3: 0}),
        (Publication(1, T, 5, Batch(5, (b"m",)), {}, 0, 1), {0: 1}, {}),
        (Publication(3, T, 5, Batch(5, (b"m",)), {}, 0, 1), {0: 1}, {3: 0}),
    ],
    ids=["joiner", "publisher", "who passes on what the dead sent"],
)
def test_a_crash_that_is_final_and_not_over_is_still_told_to_who_may_have_missed_it(
    broadcast: Any, recipients: dict[int, int], told: dict[int, int]
) -> None:
    wire = members_of(range(3), among=range(4))
    wire.hold(2, 0, only=lambda message: isinstance(message, Final))
    wire.crash(3)
    report(wire, 3)

    outputs = wire.peers[0].receive(1, Copy(0, 0, 99, recipients, {}, broadcast))

    messages = [output.message for output in outputs if isinstance(output, Send)]
    assert [message.dead for message in messages if isinstance(message, Ack)] == [told]


def test_nothing_is_acknowledged_to_the_dead() -> None:
    """2 serves 3 for 0 and waits for 3's acknowledgement when it learns that 0 is dead."""
    wire = members_of(range(4))
    wire.hold(3, 2, only=lambda message: isinstance(message, Ack))
    wire.publish(0, T, b"m")
    wire.run()
    wire.suspect(2, 0, 0)
    wire.outputs[2].clear()

    wire.release(3, 2)
    wire.step()

    assert wire.outputs[2] == []
    assert wire.peers[2].footprint()["copies"] == 0


@pytest.mark.parametrize("incarnation", [0, 1], ids=["an earlier one", "the same"])
def test_a_report_of_what_has_crashed_already_has_no_effect(incarnation: int) -> None:
    peer = members_of(range(4)).peers[0]
    peer.suspect(3, 1)
    before = snapshot(peer)

    outputs = peer.suspect(3, incarnation)

    assert outputs == []
    assert snapshot(peer) == before


def flush_number(sequence: int, dead: dict[int, int]) -> Flush:
    return Flush(0, 0, sequence, dead, held={}, counter=1, subscriptions={T: (1, 0)})


def test_a_flush_that_overtook_an_earlier_one_waits_for_it() -> None:
    peer = members_of(range(4)).peers[0]

    overtaking: list[Any] = peer.receive(1, flush_number(2, {2: 0, 3: 0}))
    overtaken: list[Any] = peer.receive(1, flush_number(1, {2: 0}))

    assert overtaking == []
    assert [o.destination for o in overtaken if isinstance(o, Send) and isinstance(o.message, Fence)] == [
        2,
        3,
    ]
    assert peer.footprint()["flushes"] == 0


def test_a_flush_that_was_handled_before_is_ignored() -> None:
    peer = members_of(range(4)).peers[0]
    peer.receive(1, flush_number(1, {2: 0}))
    before = snapshot(peer)

    outputs = peer.receive(1, flush_number(1, {2: 0}))

    assert outputs == []
    assert snapshot(peer) == before


def test_flushes_from_and_to_a_new_incarnation_are_counted_from_one() -> None:
    """Also at a node that boots, which meets the new one without having heard of a crash."""
    peer = Peer(0, range(3), incarnation=1)
    peer.start()
    peer.receive(1, Flush(0, 1, 1, {2: 0}, held={}, counter=0, subscriptions={}))
    peer.receive(1, Hello(1, ANY_INCARNATION, Card(1), digest=0, news={}))

    outputs = peer.receive(1, Flush(1, 1, 1, {2: 0}, held={}, counter=0, subscriptions={}))

    sent = [output.message for output in outputs if isinstance(output, Send)]
    assert [(m.target, m.sequence) for m in sent if isinstance(m, Flush)] == [(1, 1)]


def test_a_flush_says_nothing_of_topics_of_which_nothing_is_held() -> None:
    wire = members_of(range(3))
    wire.publish(1, T, b"of one who lives")
    wire.run()
    wire.crash(2)

    wire.suspect(0, 2, 0)

    [flush] = [entry.message for entry in wire.in_flight if is_flush(entry.message)]
    assert flush.held == {}
    assert flush.subscriptions == {T: (1, 0)}


def test_who_goes_up_and_knows_of_no_crash_flushes_nothing() -> None:
    wire = members_of(range(3))
    wire.crash(2)
    report(wire, 2)

    wire.recover(2)
    wire.run()

    assert wire.peers[2].is_up
    sends = [output for output in wire.outputs[2] if isinstance(output, Send)]
    assert not any(is_flush(send.message) for send in sends)


def test_stamps_exceed_those_of_what_came_in_flushes() -> None:
    wire = members_of(range(3))
    publication = Publication(2, T, 2, Batch(2, (b"m",)), {}, digest=0, stamp=41)
    flush = Flush(0, 0, 1, {2: 0}, {T: {2: publication}}, counter=1, subscriptions={T: (1, 0)})
    wire.receive(0, 1, flush)
    assert wire.delivered[0] == [(2, b"m")]

    wire.publish(0, T, b"n")

    [copy] = [entry.message for entry in wire.in_flight if is_publication(entry.message)]
    assert copy.broadcast.stamp == 42


def test_stamps_exceed_every_clock_that_was_heard_of() -> None:
    """Also one that came with an acknowledgement only: a dependency has a lower stamp than what depends on it."""
    wire = members_of(range(2))
    wire.publish(0, T, b"m")
    [copy] = wire.in_flight
    wire.peers[0].receive(1, Ack(0, 0, copy.message.hop, {}, repaired=False, dead={}, clock=41))

    [send] = [o for o in wire.peers[0].publish(T, b"n") if isinstance(o, Send)]

    assert isinstance(send.message, Copy)
    assert isinstance(send.message.broadcast, Publication)
    assert send.message.broadcast.stamp == 42


def test_an_acknowledgement_does_not_put_the_clock_back() -> None:
    wire = members_of(range(2))
    wire.publish(0, T, b"m")
    [copy] = wire.in_flight
    wire.peers[0].receive(1, Ack(0, 0, 1_000, {}, repaired=False, dead={}, clock=41))
    wire.peers[0].receive(1, Ack(0, 0, copy.message.hop, {}, repaired=False, dead={}, clock=40))

    [send] = [o for o in wire.peers[0].publish(T, b"n") if isinstance(o, Send)]

    assert isinstance(send.message, Copy)
    assert isinstance(send.message.broadcast, Publication)
    assert send.message.broadcast.stamp == 42
