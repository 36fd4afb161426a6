"""Nodes that crash, come back, or are wrongly thought to have crashed: directed traces.

A crash on the wire loses what is in flight to the node; `lose` also destroys what it had sent. The survivors
learn of a crash from `suspect`, as a failure detector's report, or from each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from snapshots import snapshot
from vcubeps.protocol.limits import COUNTERS_PER_INCARNATION
from vcubeps.protocol.messages import (
    ANY_INCARNATION,
    Ack,
    Copy,
    Fence,
    Flush,
    Publication,
    Subscription,
    Welcome,
)
from vcubeps.protocol.outputs import (
    Acknowledged,
    MemberJoined,
    MemberLeft,
    Restarted,
    Send,
    Subscribed,
    Unsubscribed,
    Up,
)
from vcubeps.protocol.peer import Peer
from wire import InFlight, Wire

T = "t"


def members_of(nodes: Iterable[int], among: Iterable[int] | None = None) -> Wire:
    """A wire whose `nodes` are subscribed; `among` are all its nodes, if there are others."""
    members = list(nodes)
    wire = Wire(Peer, members if among is None else among)
    for node in members:
        wire.subscribe(node, T)
        wire.run()
    return wire


def lose(wire: Wire, source: int, destination: int | None = None) -> None:
    """Destroy what `source` has in flight, to `destination` only or to all."""

    def lost(entry: InFlight) -> bool:
        return entry.source == source and destination in (None, entry.destination)

    wire.in_flight = [entry for entry in wire.in_flight if not lost(entry)]


def crash_without_a_trace(wire: Wire, *nodes: int) -> None:
    for node in nodes:
        wire.crash(node)
        lose(wire, node)


def report(wire: Wire, *crashed: int) -> None:
    """The detectors of all that live report these nodes, as of the incarnations that the wire counts."""
    for observer in sorted(wire.peers):
        for node in crashed:
            wire.suspect(observer, node, wire.incarnations[node])
    wire.run()


def is_publication(message: Any) -> bool:
    return isinstance(message, Copy) and isinstance(message.broadcast, Publication)


def is_subscription(message: Any) -> bool:
    return isinstance(message, Copy) and isinstance(message.broadcast, Subscription)


def at_work(wire: Wire) -> dict[int, dict[str, int]]:
    """What the living nodes still wait for."""
    footprints = {node: peer.footprint() for node, peer in wire.peers.items()}
    busy = {node: {what: n for what, n in found.items() if n} for node, found in footprints.items()}
    return {node: found for node, found in busy.items() if found}


# A relay crashes.


def test_subtree_of_a_crashed_relay_is_served_anew() -> None:
    """0 reaches 5, 6 and 7 through 4, which is dead before the copy arrives."""
    wire = members_of(range(8))
    wire.publish(0, T, b"m")
    wire.crash(4)
    wire.run()
    assert [wire.delivered[node] for node in (5, 6, 7)] == [[], [], []]

    wire.suspect(0, 4, 0)
    wire.run()

    assert [wire.delivered[node] for node in (0, 1, 2, 3, 5, 6, 7)] == [[(0, b"m")]] * 7
    assert Acknowledged(T, 2) in wire.outputs[0]
    assert at_work(wire) == {}


def test_subtree_is_served_by_the_next_recipient_that_lives() -> None:
    wire = members_of(range(8))
    wire.publish(0, T, b"m")
    wire.crash(4)
    wire.crash(5)
    wire.run()

    wire.suspect(0, 5, 0)
    wire.suspect(0, 4, 0)

    [copy] = [entry for entry in wire.in_flight if entry.source == 0 and is_publication(entry.message)]
    assert copy.destination == 6
    assert list(copy.message.recipients) == [6, 7]


def test_a_publication_that_the_relay_had_passed_on_is_not_delivered_twice() -> None:
    """4 dies after it served 5, 6 and 7 and before it could acknowledge: they get a second copy."""
    wire = members_of(range(8))
    wire.hold(4, 0)
    wire.publish(0, T, b"m")
    wire.run()
    crash_without_a_trace(wire, 4)

    report(wire, 4)

    assert [wire.delivered[node] for node in (5, 6, 7)] == [[(0, b"m")]] * 3
    assert Acknowledged(T, 2) in wire.outputs[0]


def test_publication_is_not_acknowledged_before_the_subtree_of_the_dead_is_served() -> None:
    wire = members_of(range(8))
    wire.publish(0, T, b"m")
    wire.crash(4)
    wire.hold(0, 5, only=is_publication)

    report(wire, 4)

    assert Acknowledged(T, 2) not in wire.outputs[0]


# A source crashes, alone or with a relay.


def test_survivors_all_deliver_what_one_of_them_has_of_a_dead_source() -> None:
    """0's copy has reached 1; the one to 2, which serves 3, died with 0 and 2."""
    wire = members_of(range(4))
    wire.hold(0, 2)
    wire.publish(0, T, b"m")
    wire.run()
    crash_without_a_trace(wire, 0, 2)
    assert wire.delivered[1] == [(0, b"m")]

    report(wire, 0, 2)

    assert wire.delivered[3] == [(0, b"m")]
    assert wire.delivered[1] == [(0, b"m")]
    assert at_work(wire) == {}


def test_survivors_deliver_nothing_that_died_with_source_and_relay() -> None:
    """Only 2, which died too, has delivered m: agreement is among survivors."""
    wire = members_of(range(4))
    wire.hold(0, 1)
    wire.hold(2, 3)
    wire.publish(0, T, b"m")
    wire.run()
    assert wire.delivered[2] == [(0, b"m")]
    crash_without_a_trace(wire, 0, 2)

    report(wire, 0, 2)
    wire.publish(1, T, b"next")
    wire.run()

    assert wire.delivered[1] == wire.delivered[3] == [(1, b"next")]
    assert at_work(wire) == {}


def test_copy_of_the_dead_that_arrives_late_is_left_to_the_flush() -> None:
    """2, which is leaving and holds nothing, relays m of 0 to 3 when 3 has already flushed that it lacks m."""
    wire = members_of(range(4))
    wire.hold(2, 0)
    wire.unsubscribe(2, T)
    wire.run()
    wire.hold(0, 1)
    wire.hold(2, 3, only=is_publication)
    wire.publish(0, T, b"m")
    wire.run()
    crash_without_a_trace(wire, 0)
    wire.hold(1, 3)
    report(wire, 0)

    wire.release(2, 3)
    wire.run()
    wire.release(1, 3)
    wire.run()

    assert wire.delivered[1] == wire.delivered[3] == []
    assert at_work(wire) == {}


@pytest.fixture
def lost() -> Wire:
    """m of 0 reached only 2; m2 of 2, which depends on m, is in flight to 3 only; 0 and 2 are dead."""
    wire = members_of(range(4))
    wire.hold(0, 1)
    wire.hold(2, 3, only=is_publication)
    wire.publish(0, T, b"m")
    wire.run()
    wire.publish(2, T, b"m2")
    wire.crash(0)
    lose(wire, 0)
    wire.crash(2)
    wire.in_flight = [
        entry for entry in wire.in_flight if entry[:2] == (2, 3) and entry.message.broadcast.source == 2
    ]
    assert len(wire.in_flight) == 1
    return wire


def test_a_dependency_on_a_message_that_nobody_holds_blocks_until_the_flushes_are_in(lost: Wire) -> None:
    """3 knows that 0 is dead when m2 arrives, but 2 is not known to be and may hold m."""
    lost.suspect(3, 0, 0)
    lost.run()

    lost.release(2, 3)
    lost.run()

    assert lost.received[3] == [(2, 2)]
    assert lost.delivered[3] == []


def test_a_dependency_on_a_message_that_nobody_holds_is_met_by_the_flushes(lost: Wire) -> None:
    lost.release(2, 3)
    lost.run()

    report(lost, 0, 2)

    assert lost.delivered[3] == [(2, b"m2")]
    assert lost.delivered[1] == [(2, b"m2")]
    assert at_work(lost) == {}


def test_a_lost_message_does_not_hide_what_it_depended_on() -> None:
    """m2 names only m, which stood for y; m is lost and y is still on its way from 0, which lives, to 4.

    All four are each other's children, so every copy goes straight.
    """
    wire = members_of([0, 1, 2, 4])
    wire.hold(0, 4, only=is_publication)
    wire.publish(0, T, b"y")
    wire.run()
    wire.hold(1, 0)
    wire.hold(1, 4)
    wire.publish(1, T, b"m")
    wire.run()
    wire.hold(2, 0)
    wire.publish(2, T, b"m2")
    wire.run()
    assert wire.started[2][0].barrier == {1: 2}
    crash_without_a_trace(wire, 1, 2)
    report(wire, 1, 2)
    assert wire.received[4] == [(2, 2)]
    assert wire.delivered[4] == []

    wire.release(0, 4)
    wire.run()

    assert wire.delivered[4] == [(0, b"y"), (2, b"m2")]
    assert wire.delivered[0] == [(0, b"y"), (2, b"m2")]


# A leave that waits.


def test_leave_that_is_sent_again_is_acknowledged_only_when_it_has_taken_effect() -> None:
    """At 5, 0's leave waits for y of 6; 4, which had relayed it, dies, and 0 sends it again through 5.

    6 and 7, which 5 has to serve now, have y: their acknowledgements must not make 5 acknowledge.
    """
    wire = members_of(range(8))
    for relay in (4, 6):
        wire.hold(relay, 5, only=lambda message: is_publication(message) and message.broadcast.source == 6)
    wire.publish(6, T, b"y")
    wire.run()
    wire.publish(0, T, b"after y")
    wire.unsubscribe(0, T)
    wire.run()
    crash_without_a_trace(wire, 4)
    report(wire, 4)
    acknowledged_early = Unsubscribed(T) in wire.outputs[0]

    wire.release(6, 5)
    wire.run()

    assert not acknowledged_early
    assert wire.outputs[0][-1] == Unsubscribed(T)


# Views.


def test_crashed_member_leaves_the_views() -> None:
    wire = members_of(range(4))
    wire.crash(2)

    report(wire, 2)

    for node in (0, 1, 3):
        assert set(wire.peers[node].members(T)) == {0, 1, 3}
        assert wire.outputs[node].count(MemberLeft(T, 2)) == 1


def test_crashed_member_stays_in_the_view_until_the_crash_is_final() -> None:
    wire = members_of(range(4))
    wire.crash(2)
    wire.hold(3, 0)

    report(wire, 2)

    assert 2 in wire.peers[0].members(T)
    assert MemberLeft(T, 2) not in wire.outputs[0]


def test_member_that_does_not_list_its_subscription_when_it_flushes_leaves_the_view() -> None:
    """Its leave was lost with a crash, or overtaken by an old copy of its subscription."""
    wire = members_of(range(4))
    flush = Flush(0, 0, sequence=1, dead={2: 0}, held={}, counter=5, subscriptions={})

    outputs = wire.peers[0].receive(3, flush)

    assert MemberLeft(T, 3) in outputs


def test_member_whose_flush_is_older_than_its_subscription_stays_in_the_view() -> None:
    wire = members_of(range(4))
    flush = Flush(0, 0, sequence=1, dead={2: 0}, held={}, counter=0, subscriptions={})

    wire.peers[0].receive(3, flush)

    assert 3 in wire.peers[0].members(T)


def test_a_crash_spreads_from_the_only_node_that_noticed_it() -> None:
    wire = members_of(range(8))
    wire.crash(7)

    wire.suspect(3, 7, 0)
    wire.run()

    assert all(7 not in wire.peers[node].members(T) for node in range(7))
    assert at_work(wire) == {}


# How a crash becomes known, and final.


def fences(wire: Wire, node: int) -> list[int]:
    """Whom `node` has declared dead: it tells them."""
    sends = [output for output in wire.outputs[node] if isinstance(output, Send)]
    return [send.destination for send in sends if isinstance(send.message, Fence)]


def is_flush(message: Any) -> bool:
    return isinstance(message, Flush)


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
        (Publication(1, T, 5, ((5, b"m"),), {}, 0, 1), {0: 1}, {}),
        (Publication(3, T, 5, ((5, b"m"),), {}, 0, 1), {0: 1}, {3: 0}),
    ],
    ids=["joiner", "publisher", "who passes on what the dead sent"],
)
def test_a_crash_that_is_final_is_still_told_to_who_may_have_missed_it(
    broadcast: Any, recipients: dict[int, int], told: dict[int, int]
) -> None:
    wire = members_of(range(3), among=range(4))
    wire.crash(3)
    report(wire, 3)

    outputs = wire.peers[0].receive(1, Copy(0, 0, 99, broadcast, recipients, fresh={}))

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


# Coming back.


def test_recovered_node_comes_up_as_its_next_incarnation() -> None:
    wire = members_of(range(4))
    wire.crash(2)
    report(wire, 2)

    wire.recover(2)
    wire.run()

    assert wire.outputs[2][-1] == Up(1)
    assert wire.peers[2].is_up
    assert wire.peers[2].incarnation == 1
    assert at_work(wire) == {}


def test_recovered_node_comes_up_even_if_nobody_had_noticed_its_crash() -> None:
    wire = members_of(range(4))
    wire.crash(2)

    wire.recover(2)
    wire.run()

    assert wire.peers[2].is_up
    assert set(wire.peers[0].members(T)) == {0, 1, 3}


def test_recovered_node_is_not_let_in_before_its_crash_is_final() -> None:
    wire = members_of(range(4))
    wire.crash(2)
    wire.hold(3, 0)

    wire.recover(2)
    wire.run()

    assert not wire.peers[2].is_up
    assert not wire.peers[2].can_subscribe(T)


def test_recovered_node_subscribes_and_gets_what_is_published_after() -> None:
    wire = members_of(range(4))
    wire.publish(0, T, b"before")
    wire.run()
    wire.crash(2)
    report(wire, 2)
    wire.recover(2)
    wire.run()
    wire.publish(0, T, b"while it is away")
    wire.run()
    wire.delivered[2].clear()

    wire.subscribe(2, T)
    wire.run()
    wire.publish(0, T, b"after")
    wire.run()

    assert wire.delivered[2] == [(0, b"after")]
    assert MemberJoined(T, 2) in wire.outputs[0]


def test_counters_of_a_new_incarnation_exceed_those_of_the_old() -> None:
    wire = members_of(range(2))
    wire.crash(1)
    report(wire, 1)
    wire.recover(1)
    wire.run()

    wire.subscribe(1, T)
    wire.run()

    assert wire.outputs[1][-1] == Subscribed(T, COUNTERS_PER_INCARNATION + 1)


def test_others_deliver_what_a_recovered_node_publishes() -> None:
    wire = members_of(range(4))
    wire.publish(2, T, b"of incarnation 0")
    wire.run()
    wire.crash(2)
    report(wire, 2)
    wire.recover(2)
    wire.run()

    wire.subscribe(2, T)
    wire.publish_when_allowed(2, T, b"of incarnation 1")
    wire.run()

    assert wire.delivered[1] == [(2, b"of incarnation 0"), (2, b"of incarnation 1")]


def test_what_is_sent_to_a_node_that_boots_waits_until_it_is_up() -> None:
    """1 has let 0 in and asks it for membership; 0 still waits for 2."""
    wire = members_of([1, 2], among=range(4))
    wire.crash(0)
    report(wire, 0)
    wire.hold(2, 0)
    wire.recover(0)
    wire.run()
    wire.subscribe(1, "u")
    wire.run()
    answered_early = (1, "u") in wire.subscribed

    wire.release(2, 0)
    wire.run()

    assert not answered_early
    assert (1, "u") in wire.subscribed


def test_subscription_of_a_new_incarnation_stands_for_what_the_old_one_published() -> None:
    """The new incarnation does not know that, so it tells a joiner the counter of its subscription."""
    wire = members_of([0, 1], among=range(4))
    wire.publish(1, T, b"m")
    wire.run()
    wire.crash(1)
    report(wire, 1)
    wire.recover(1)
    wire.run()
    wire.subscribe(1, T)
    wire.run()

    wire.subscribe(3, T)
    wire.publish_when_allowed(3, T, b"n")
    wire.run()

    assert wire.started[3][0].barrier == {1: COUNTERS_PER_INCARNATION + 1}
    assert wire.delivered[0] == [(1, b"m"), (3, b"n")]


def test_two_nodes_that_recover_together_let_each_other_in() -> None:
    wire = members_of(range(4))
    wire.crash(1)
    wire.crash(2)
    wire.recover(1)
    wire.recover(2)

    wire.run()
    for node in (1, 2):
        wire.subscribe(node, T)
    wire.run()
    wire.publish(1, T, b"m")
    wire.run()

    assert all(set(peer.members(T)) == {0, 1, 2, 3} for peer in wire.peers.values())
    assert wire.delivered[2] == [(1, b"m")]


# Suspected and alive.


def test_falsely_suspected_node_restarts_and_names_the_topics_that_are_gone() -> None:
    wire = members_of(range(4))
    wire.subscribe(1, "u")
    wire.run()

    wire.suspect(0, 1, 0)
    wire.run()

    assert Restarted(1, (T, "u")) in wire.outputs[1]
    assert wire.peers[1].members(T) == wire.peers[1].members("u") == {}


def test_falsely_suspected_node_does_not_name_a_topic_that_it_is_leaving() -> None:
    wire = members_of(range(4))
    wire.subscribe(1, "u")
    wire.run()
    wire.unsubscribe(1, T)

    wire.suspect(0, 1, 0)
    wire.run()

    assert Restarted(1, ("u",)) in wire.outputs[1]


def test_falsely_suspected_node_comes_back() -> None:
    wire = members_of(range(4))

    wire.suspect(0, 1, 0)
    wire.run()
    wire.subscribe(1, T)
    wire.run()
    wire.publish(0, T, b"m")
    wire.run()

    assert Up(1) in wire.outputs[1]
    assert wire.delivered[1] == [(0, b"m")]
    assert at_work(wire) == {}


def test_there_is_no_way_back_for_a_suspected_incarnation() -> None:
    """0 has given 1 up; what 1 publishes before it hears of that reaches nobody who has heard."""
    wire = members_of(range(2))
    wire.hold(0, 1)
    wire.suspect(0, 1, 0)

    wire.publish(1, T, b"m")
    wire.run()

    assert wire.delivered[0] == []
    assert set(wire.peers[0].members(T)) == {0}


def test_a_message_from_an_incarnation_believed_dead_is_answered_by_a_fence() -> None:
    wire = members_of(range(2))
    wire.hold(0, 1)
    wire.suspect(0, 1, 0)
    wire.run()
    wire.outputs[0].clear()

    wire.publish(1, T, b"m")
    wire.run()

    assert wire.outputs[0] == [Send(1, Fence(0, ANY_INCARNATION, incarnation=0))]


def test_a_fence_of_an_earlier_incarnation_is_ignored() -> None:
    wire = members_of(range(2))
    wire.suspect(0, 1, 0)
    wire.run()

    outputs = wire.peers[1].receive(0, Fence(0, ANY_INCARNATION, incarnation=0))

    assert outputs == []
    assert wire.peers[1].incarnation == 1


def test_two_nodes_that_suspect_each_other_both_come_back() -> None:
    wire = members_of(range(4))

    wire.suspect(0, 1, 0)
    wire.suspect(1, 0, 0)
    wire.run()

    assert Restarted(1, (T,)) in wire.outputs[0] + wire.outputs[1]
    assert all(peer.is_up for peer in wire.peers.values())
    assert at_work(wire) == {}


def test_node_that_came_up_without_one_that_lived_starts_again() -> None:
    """0 came up alone; 1, whose new incarnation it has not heard of, had been up before and now lets it in."""
    peer = Peer(0, range(2), incarnation=1)
    peer.start()
    peer.suspect(1, 0)
    assert peer.is_up

    outputs = peer.receive(1, Welcome(1, 1, dead={0: 0}, known={0: 1}, clock=0, admit=True))

    assert outputs[0] == Restarted(2, ())
    assert not peer.is_up


# Old incarnations.


def test_publication_of_an_old_incarnation_is_not_delivered() -> None:
    wire = members_of(range(2))
    wire.hold(1, 0, only=is_publication)
    wire.publish(1, T, b"m")
    wire.crash(1)
    report(wire, 1)
    wire.recover(1)
    wire.run()

    wire.release(1, 0)
    wire.run()

    assert wire.delivered[0] == []
    assert wire.peers[1].incarnation == 1
    assert wire.peers[1].is_up


def test_publication_to_an_old_incarnation_is_not_delivered_by_the_new_one() -> None:
    """The copy leaves for incarnation 0 of 1 and arrives at incarnation 1, subscribed again."""
    wire = members_of(range(2))
    wire.publish(0, T, b"to the old")
    [copy] = wire.in_flight
    wire.crash(1)
    report(wire, 1)
    wire.recover(1)
    wire.run()
    wire.subscribe(1, T)
    wire.run()

    outputs = wire.peers[1].receive(0, copy.message)

    assert outputs == []


def test_subscription_of_an_old_incarnation_does_not_bring_it_back() -> None:
    wire = members_of([0, 2], among=range(4))
    wire.hold(1, 0, only=is_subscription)
    wire.subscribe(1, T)
    wire.run()
    wire.crash(1)
    report(wire, 1)
    wire.recover(1)
    wire.run()

    wire.release(1, 0)
    wire.run()

    assert set(wire.peers[0].members(T)) == {0, 2}


def test_stale_copy_of_a_subscription_does_not_undo_the_leave() -> None:
    """Repair after a crash may send a SUB twice; the second copy may come when its source has left again."""
    wire = members_of(range(4))
    wire.unsubscribe(3, T)
    wire.run()

    wire.peers[0].receive(1, Copy(0, 0, hop=99, broadcast=Subscription(3, T, 1), recipients={0: 0}, fresh={}))

    assert set(wire.peers[0].members(T)) == {0, 1, 2}


# Joins that overlap a crash.


def test_join_whose_relay_crashed_takes_effect_when_the_crash_is_final() -> None:
    """0's SUB reaches 5, 6 and 7 through 4."""
    wire = members_of([1, 5], among=range(8))
    wire.subscribe(0, T)
    wire.crash(4)
    wire.run()
    assert (0, T) not in wire.subscribed

    report(wire, 4)

    assert (0, T) in wire.subscribed
    assert set(wire.peers[0].members(T)) == set(wire.peers[5].members(T)) == {0, 1, 5}


def test_join_does_not_take_effect_while_a_crash_that_the_joiner_knows_is_not_final() -> None:
    """4 may live, and 7, whose flush is slow, may still take in what 4 publishes for others than 0."""
    wire = members_of([1, 5], among=range(8))
    wire.crash(4)
    wire.hold(7, 0, only=lambda message: isinstance(message, Flush))
    report(wire, 4)

    wire.subscribe(0, T)
    wire.run()
    taken_effect_early = (0, T) in wire.subscribed
    wire.release(7, 0)
    wire.run()

    assert not taken_effect_early
    assert (0, T) in wire.subscribed


def test_joiner_that_crashes_is_in_no_view() -> None:
    wire = members_of([0, 1, 2], among=range(4))
    wire.hold(2, 3)
    wire.subscribe(3, T)
    wire.run()
    assert 3 in wire.peers[0].members(T)
    wire.crash(3)

    report(wire, 3)

    assert all(set(peer.members(T)) == {0, 1, 2} for peer in wire.peers.values())
    assert at_work(wire) == {}


def test_joiner_gets_what_a_dead_source_had_addressed_to_it_if_a_survivor_does() -> None:
    """1 knows the joiner 3 and publishes to it and to 0; 1 dies, and its copy to 3 with it."""
    wire = members_of([0, 1], among=range(4))
    wire.hold(2, 3)
    wire.subscribe(3, T)
    wire.run()
    wire.hold(1, 3)
    wire.publish(1, T, b"m")
    wire.run()
    crash_without_a_trace(wire, 1)
    wire.release(2, 3)

    report(wire, 1)

    assert wire.delivered[0] == [(1, b"m")]
    assert wire.delivered[3] == [(1, b"m")]
    assert (3, T) in wire.subscribed


def test_survivors_get_what_only_a_joiner_has_of_a_dead_source() -> None:
    wire = members_of([0, 1], among=range(4))
    wire.hold(2, 3)
    wire.subscribe(3, T)
    wire.run()
    wire.hold(1, 0)
    wire.publish(1, T, b"m")
    wire.run()
    crash_without_a_trace(wire, 1)
    wire.release(2, 3)

    report(wire, 1)

    assert wire.delivered[0] == wire.delivered[3] == [(1, b"m")]


def test_joiner_keeps_what_was_addressed_to_it_though_its_source_never_comes_into_its_view() -> None:
    """1 takes the joiner 3 in and publishes to it and to 0; 1 dies with its acknowledgement of the join."""
    wire = members_of([0, 1], among=range(4))
    wire.hold(1, 3, only=lambda message: isinstance(message, Ack))
    wire.subscribe(3, T)
    wire.run()
    wire.publish(1, T, b"m")
    wire.run()
    crash_without_a_trace(wire, 1)

    report(wire, 1)

    assert wire.delivered[0] == [(1, b"m")]
    assert wire.delivered[3] == [(1, b"m")]


def test_copy_addressed_to_an_earlier_subscription_is_not_delivered_in_a_later_one() -> None:
    """m of 1 is slow to 0, which leaves and joins again; m arrives before 1, which dies, takes 0 in again."""
    wire = members_of([0, 1, 2], among=range(4))
    wire.hold(1, 0, only=is_publication)
    wire.publish(1, T, b"m")
    wire.run()
    wire.unsubscribe(0, T)
    wire.run()
    wire.hold(0, 1)
    wire.subscribe(0, T)
    wire.run()
    wire.release(1, 0)
    wire.run()
    wire.crash(1)

    report(wire, 1)

    assert (0, T) in wire.subscribed
    assert wire.delivered[0] == []


def test_joiner_is_not_held_up_by_what_was_published_by_the_dead_before_it_came() -> None:
    wire = members_of([0, 1, 2], among=range(4))
    wire.publish(1, T, b"before")
    wire.run()
    wire.crash(1)
    wire.subscribe(3, T)
    report(wire, 1)

    wire.publish(0, T, b"after")
    wire.run()

    assert wire.delivered[3] == [(0, b"after")]
    assert at_work(wire) == {}


# Alone.


@pytest.fixture
def alone() -> Wire:
    wire = members_of(range(2))
    wire.crash(1)
    report(wire, 1)
    return wire


def test_node_left_alone_goes_on_publishing(alone: Wire) -> None:
    alone.publish(0, T, b"m")

    assert alone.delivered[0] == [(0, b"m")]
    assert alone.outputs[0][-1] == Acknowledged(T, 2)


def test_node_left_alone_goes_on_leaving_and_joining(alone: Wire) -> None:
    alone.unsubscribe(0, T)
    alone.subscribe(0, T)

    assert alone.outputs[0][-2:] == [Unsubscribed(T), Subscribed(T, 3)]


def test_broadcast_ends_when_its_only_recipient_dies() -> None:
    wire = members_of(range(2))
    wire.publish(0, T, b"m")
    wire.crash(1)
    wire.run()
    assert Acknowledged(T, 2) not in wire.outputs[0]

    wire.suspect(0, 1, 0)

    assert Acknowledged(T, 2) in wire.outputs[0]


# Absent identifiers.

SPARSE = [1, 6, 11, 12, 21]
"""Five of 32 positions: every subtree has holes."""


def test_crash_among_absent_identifiers_is_repaired() -> None:
    """12 is the first of 1's cluster 4 and serves 11; cluster 5 is 21 alone."""
    wire = members_of(SPARSE)
    wire.publish(1, T, b"m")
    wire.crash(11)
    wire.run()

    report(wire, 11)

    assert [wire.delivered[node] for node in (6, 12, 21)] == [[(1, b"m")]] * 3
    assert all(set(peer.members(T)) == {1, 6, 12, 21} for peer in wire.peers.values())
    assert at_work(wire) == {}


def test_recovery_among_absent_identifiers_needs_only_those_that_exist() -> None:
    wire = members_of(SPARSE)
    wire.crash(12)
    report(wire, 12)

    wire.recover(12)
    wire.run()
    wire.subscribe(12, T)
    wire.run()
    wire.publish(21, T, b"m")
    wire.run()

    assert wire.delivered[12] == [(21, b"m")]
    assert set(wire.peers[6].members(T)) == set(SPARSE)
