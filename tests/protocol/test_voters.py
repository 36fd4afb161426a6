"""Voters: of a network that is cut at most one side goes on, and nothing takes effect without a quorum."""

from __future__ import annotations

from functools import partial

import pytest

from vcubeps.protocol import Peer, UsageError
from vcubeps.protocol.outputs import Acknowledged, Restarted, RestartReason, Started, Unsubscribed, Up
from vcubeps.protocol.voters import Voters
from wire import Wire

T = "t"


def voting(count: int, **options: bool) -> Wire:
    """A wire of so many nodes, all of them voters."""
    return Wire(partial(Peer, voters=range(count)), range(count), **options)


def members(wire: Wire, *nodes: int) -> None:
    for node in nodes:
        wire.subscribe(node, T)
        wire.run()


def reasons(wire: Wire, node: int) -> list[RestartReason]:
    return [output.reason for output in wire.outputs[node] if isinstance(output, Restarted)]


@pytest.mark.parametrize(
    ("voters", "present", "quorum"),
    [
        (range(3), {1, 2}, True),
        (range(3), {0}, False),
        (range(4), {0, 3}, True),
        (range(4), {1, 3}, False),
        (range(5), {2, 3, 4}, True),
        (range(2), {0}, True),
        (range(2), {1}, False),
        ([3, 5], {3, 0, 1, 2}, True),
        ([3, 5], {0, 1, 2}, False),
    ],
)
def test_a_quorum_is_more_than_half_or_half_with_the_smallest(
    voters: range | list[int], present: set[int], quorum: bool
) -> None:
    assert Voters(voters).is_quorum(present) is quorum


def test_an_empty_set_of_voters_is_refused() -> None:
    with pytest.raises(UsageError, match="name some nodes, or give none at all"):
        Peer(0, range(2), voters=())


def test_without_voters_nobody_is_isolated() -> None:
    peer = Peer(0, range(2))

    with pytest.raises(UsageError, match="give voters"):
        peer.isolate(True)

    assert peer.can_subscribe(T)


def test_a_node_left_without_a_quorum_starts_again_instead_of_making_crashes_final() -> None:
    wire = voting(3)
    members(wire, 0, 1, 2)
    wire.suspect(1, 0, 0)
    wire.suspect(1, 2, 0)

    assert reasons(wire, 1) == [RestartReason.NO_QUORUM]


def test_without_voters_such_a_node_goes_on() -> None:
    wire = Wire(Peer, range(3))
    members(wire, 0, 1, 2)
    wire.suspect(1, 0, 0)
    wire.suspect(1, 2, 0)

    assert reasons(wire, 1) == []


def test_a_majority_makes_a_crash_final_and_goes_on() -> None:
    wire = voting(3)
    members(wire, 0, 1, 2)
    wire.crash(2)
    wire.suspect(0, 2, 0)
    wire.suspect(1, 2, 0)
    wire.run()
    wire.publish(0, T, b"on we go")
    wire.run()

    assert wire.delivered[1] == [(0, b"on we go")]
    assert reasons(wire, 0) == reasons(wire, 1) == []


def test_a_publication_is_acknowledged_only_when_the_crash_of_a_recipient_is_final() -> None:
    """Node 3 lives and has not got it; if its own majority goes on, nobody may have been told that it has."""
    wire = voting(5)
    members(wire, 0, 3)
    wire.hold(0, 3)
    wire.publish(0, T, b"for 3")
    wire.hold(1, 0)
    wire.suspect(0, 3, 0)
    wire.run()

    assert not any(isinstance(output, Acknowledged) for output in wire.outputs[0])
    wire.release(1, 0)
    wire.run()
    assert any(isinstance(output, Acknowledged) for output in wire.outputs[0])


def test_a_leave_ends_although_the_crash_of_a_member_is_not_final() -> None:
    """Nothing is promised to the application that the member could break, should it live."""
    wire = voting(5)
    members(wire, 0, 3)
    wire.hold(0, 3)
    wire.unsubscribe(0, T)
    wire.hold(1, 0)
    wire.suspect(0, 3, 0)
    wire.run()

    assert not wire.peers[0]._local.is_settled()
    assert Unsubscribed(T) in wire.outputs[0]


def test_without_voters_it_is_acknowledged_when_nobody_else_is_left_to_receive_it() -> None:
    wire = Wire(Peer, range(5))
    members(wire, 0, 3)
    wire.hold(0, 3)
    wire.publish(0, T, b"for 3")
    wire.hold(1, 0)
    wire.suspect(0, 3, 0)

    assert any(isinstance(output, Acknowledged) for output in wire.outputs[0])


def test_a_node_that_boots_does_not_go_up_without_a_quorum() -> None:
    lonely = Peer(1, range(3), incarnation=1, voters=range(3))
    lonely.start()
    outputs = lonely.suspect(0, 0) + lonely.suspect(2, 0)

    assert not any(isinstance(output, Up) for output in outputs)
    assert not lonely.is_up
    assert lonely.incarnation == 1  # nor does it start again for want of one: it waits


def test_an_isolated_node_refuses_and_starts_nothing_until_it_is_back_in_contact() -> None:
    wire = voting(3)
    members(wire, 0, 1)
    peer = wire.peers[0]
    assert peer.isolate(True) == []

    assert not peer.can_publish(T)
    assert not peer.can_subscribe("u")
    with pytest.raises(UsageError, match="in contact with no quorum of the voters; wait until it is"):
        peer.publish(T, b"x")
    with pytest.raises(UsageError, match="in contact with no quorum"):
        peer.subscribe("u")
    assert peer.members(T) == {0: 1, 1: 1}
    peer.isolate(False)
    assert peer.can_publish(T)


def test_what_was_accepted_before_waits_while_a_node_is_isolated() -> None:
    wire = voting(3)
    members(wire, 0, 1)
    peer = wire.peers[0]
    peer.accept(T, b"waits")
    peer.isolate(True)

    assert peer.release(T) == []
    assert any(isinstance(output, Started) for output in peer.isolate(False))


def joins_again_and_is_isolated() -> Wire:
    """The leave of 0 has ended; its next subscription waits for contact."""
    wire = voting(3)
    members(wire, 0, 1)
    wire.unsubscribe(0, T)
    wire.subscribe(0, T)
    wire.peers[0].isolate(True)
    wire.run()
    assert Unsubscribed(T) in wire.outputs[0]
    return wire


def test_while_a_join_waits_for_contact_there_is_nothing_to_publish_to() -> None:
    peer = joins_again_and_is_isolated().peers[0]

    assert not peer.can_publish(T)
    assert peer.members(T) == {}
    with pytest.raises(UsageError, match="wait for Subscribed"):
        peer.publish(T, b"x")


def test_a_join_that_waits_for_contact_is_all_that_is_left_to_do() -> None:
    peer = joins_again_and_is_isolated().peers[0]

    assert {what: count for what, count in peer.footprint().items() if count} == {"queued": 1}


def test_a_join_that_waits_for_contact_and_is_taken_back_ends_with_unsubscribed() -> None:
    """The leave before it has ended, so no other Unsubscribed follows that the application could wait for."""
    peer = joins_again_and_is_isolated().peers[0]
    peer.check()

    assert peer.unsubscribe(T) == [Unsubscribed(T)]
    assert peer.isolate(False) == []
    assert not any(peer.footprint().values())


def test_a_node_that_is_asked_to_starts_again_and_says_why() -> None:
    wire = Wire(Peer, range(2))
    members(wire, 0, 1)
    first = wire.peers[0].restart()[0]

    assert first == Restarted(1, (T,), RestartReason.ASKED)


def test_an_isolated_node_that_starts_again_stays_isolated() -> None:
    wire = voting(2)
    peer = wire.peers[0]
    peer.isolate(True)
    peer.restart()
    peer.suspect(1, 0)

    assert peer.is_up
    assert not peer.can_subscribe(T)
