"""Counters, hops and incarnations: where they start, and what happens at their limits."""

from __future__ import annotations

from typing import Any

import pytest

from crash_stories import T, at_work, members_of, report
from snapshots import snapshot
from vcubeps.protocol.errors import UsageError
from vcubeps.protocol.limits import COUNTERS_PER_INCARNATION, COUNTERS_RESERVED, MAX_INCARNATION
from vcubeps.protocol.messages import ANY_INCARNATION, Ack, Copy, Fence
from vcubeps.protocol.outputs import Acknowledged, IdTaken, Restarted, RestartReason, Send, Unsubscribed, Up
from vcubeps.protocol.peer import Peer
from wire import Wire

LAST = COUNTERS_PER_INCARNATION - COUNTERS_RESERVED


def nearly_used_up(left: int = 0) -> Wire:
    """Node 0 of two members has this many counters left."""
    wire = members_of(range(2))
    wire.peers[0]._local.counter = LAST - left
    return wire


def acks(entries: list[Any]) -> list[Any]:
    return [entry for entry in entries if isinstance(entry.message, Ack)]


# Counters.


@pytest.mark.parametrize("call", ["publish", "subscribe"])
def test_what_needs_a_counter_is_refused_when_they_are_used_up(call: str) -> None:
    peer = nearly_used_up().peers[0]
    before = snapshot(peer)

    with pytest.raises(UsageError) as error:
        peer.publish(T, b"m") if call == "publish" else peer.subscribe("u")

    assert f"incarnation 0 of node 0 has used up its {COUNTERS_PER_INCARNATION} counters" in str(error.value)
    assert "restart the node" in str(error.value)
    assert snapshot(peer) == before


def test_the_last_counter_may_be_used() -> None:
    wire = nearly_used_up(left=1)

    wire.publish(0, T, b"m")
    wire.run()

    assert Acknowledged(T, LAST) in wire.outputs[0]


def test_a_topic_can_be_left_when_the_counters_are_used_up() -> None:
    wire = nearly_used_up()

    wire.unsubscribe(0, T)
    wire.run()

    assert Unsubscribed(T) in wire.outputs[0]
    assert wire.peers[1].members(T).keys() == {1}


def test_a_join_that_waits_for_a_leave_has_its_counter_when_the_counters_are_used_up_meanwhile() -> None:
    wire = nearly_used_up(left=1)
    wire.unsubscribe(0, T)
    wire.peers[0]._local.counter = LAST - 1
    wire.subscribe(0, T)
    wire.peers[0]._local.counter = LAST

    wire.run()

    assert (0, T) in wire.subscribed
    assert wire.peers[1].members(T)[0] == LAST + 1


def test_a_restart_gives_new_counters() -> None:
    wire = nearly_used_up()
    wire._carry_out(0, wire.peers[0].restart())
    wire.run()

    wire.subscribe(0, T)
    wire.run()
    wire.publish(0, T, b"m")
    wire.run()

    assert wire.delivered[1] == [(0, b"m")]


# Hops.


def hops_of(wire: Wire, node: int) -> list[tuple[int, int]]:
    """Incarnation and hop of every copy that `node` has sent."""
    sends = [output.message for output in wire.outputs[node] if isinstance(output, Send)]
    return [(message.origin, message.hop) for message in sends if isinstance(message, Copy)]


def test_hops_start_anew_in_every_incarnation() -> None:
    wire = members_of(range(2))
    wire.publish(0, T, b"m")
    wire.run()

    wire._carry_out(0, wire.peers[0].restart())
    wire.run()
    wire.subscribe(0, T)
    wire.run()

    assert hops_of(wire, 0) == [(0, 1), (0, 2), (1, 1)]


def test_an_acknowledgement_for_the_incarnation_before_does_not_acknowledge_the_same_hop_of_this_one() -> (
    None
):
    """The second copy of node 0 in either incarnation is a publication to 1; the first's acknowledgement is late."""
    wire = members_of(range(2))
    wire.hold(1, 0, lambda message: isinstance(message, Ack))
    wire.publish(0, T, b"old")
    wire.run()
    [late] = acks(wire.in_flight)
    wire.in_flight.remove(late)
    wire.release(1, 0)
    wire._carry_out(0, wire.peers[0].restart())
    wire.run()
    wire.subscribe(0, T)
    wire.run()
    wire.publish(0, T, b"new")
    [copy] = wire.in_flight
    assert (late.message.target, late.message.hop) == (0, copy.message.hop)

    outputs = wire.peers[0].receive(1, late.message)

    assert outputs == []
    assert wire.peers[0].footprint()["copies"] == 1


def test_an_acknowledgement_goes_to_the_incarnation_that_sent_the_copy() -> None:
    wire = members_of(range(4))
    wire.hold(3, 2)
    wire.publish(0, T, b"m")
    wire.run()
    wire._carry_out(0, wire.peers[0].restart())
    wire.release(3, 2)

    wire.run()

    sends = [output for output in wire.outputs[2] if isinstance(output, Send) and output.destination == 0]
    assert {send.message.target for send in sends if isinstance(send.message, Ack)} == {0}
    assert at_work(wire) == {}


# Incarnations.


def test_a_node_that_is_fenced_goes_on_above_the_incarnation_that_the_fence_names() -> None:
    peer = Peer(0, range(2))
    peer.start()

    outputs = peer.receive(1, Fence(0, ANY_INCARNATION, incarnation=7))

    assert Restarted(8, (), RestartReason.DECLARED_CRASHED) in outputs
    assert peer.incarnation == 8


def test_a_node_may_be_in_its_last_incarnation() -> None:
    wire = members_of(range(2))
    wire.crash(1)
    report(wire, 1)
    wire.incarnations[1] = MAX_INCARNATION - 1

    wire.recover(1)
    wire.run()
    wire.subscribe(1, T)
    wire.run()

    assert wire.outputs[1][-1].counter == MAX_INCARNATION * COUNTERS_PER_INCARNATION + 1  # type: ignore[attr-defined]


def test_a_node_alone_that_ran_before_is_up_at_once() -> None:
    assert Peer(0, [0], incarnation=1).start() == [Up(1, founded=True)]


def test_a_node_without_incarnations_left_needs_another_id() -> None:
    peer = Peer(0, range(2), incarnation=MAX_INCARNATION)
    peer.start()

    assert peer.restart() == [IdTaken()]
    assert peer.receive(1, Fence(0, ANY_INCARNATION, MAX_INCARNATION)) == [IdTaken()]
    assert peer.incarnation == MAX_INCARNATION
