"""Nodes that crash: what the survivors deliver, whom they see, what they still have under way. Directed traces.

A crash on the wire loses what is in flight to the node; `lose` also destroys what it had sent. The survivors
learn of a crash from `suspect`, as a failure detector's report, or from each other.
"""

from __future__ import annotations

import pytest

from crash_stories import (
    T,
    at_work,
    crash_without_a_trace,
    is_flush,
    is_leave,
    is_publication,
    is_subscription,
    lose,
    members_of,
    publication_of,
    report,
)
from vcubeps.protocol.batches import Batch
from vcubeps.protocol.limits import COUNTERS_PER_INCARNATION
from vcubeps.protocol.messages import (
    Ack,
    Copy,
    Final,
    Flush,
    Publication,
)
from vcubeps.protocol.outputs import (
    Acknowledged,
    MemberLeft,
    Send,
    Subscribed,
    Unsubscribed,
)
from vcubeps.protocol.peer import Peer
from wire import Wire

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


def test_survivors_hand_on_what_they_have_of_a_dead_source_only_from_one_who_died_too() -> None:
    """m of 3 has reached 1 alone, whose flush reaches 2 and not 0."""
    wire = members_of(range(4))
    for other in (0, 2):
        wire.hold(3, other)
    wire.hold(1, 0)
    wire.publish(3, T, b"m")
    wire.run()
    crash_without_a_trace(wire, 3)
    report(wire, 3)
    assert wire.delivered[2] == [(3, b"m")]

    crash_without_a_trace(wire, 1)
    report(wire, 1)

    assert wire.delivered[0] == [(3, b"m")]
    assert wire.received[0] == wire.received[2] == [(3, 2)]


def test_who_has_left_delivers_nothing_that_survivors_hand_on() -> None:
    """1 has left, says its application, but what it published before is still under way."""
    wire = members_of(range(3))
    wire.hold(1, 0, only=is_publication)
    wire.publish(1, T, b"own")
    wire.hold(0, 1, only=is_publication)
    wire.publish(2, T, b"m")
    wire.run()
    wire.unsubscribe(1, T)

    crash_without_a_trace(wire, 2)
    report(wire, 2)

    assert wire.delivered[0] == [(2, b"m")]
    assert wire.delivered[1] == [(1, b"own")]


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


def test_what_the_first_incarnation_lost_does_not_come_again_when_the_second_crashes() -> None:
    """3 has crashed, come back and crashed again. What depends on a message that was lost with the first need not wait
    until the second crash is final."""
    wire = members_of(range(4))
    wire.crash(3)
    report(wire, 3)
    wire.recover(3)
    wire.run()
    crash_without_a_trace(wire, 3)
    wire.suspect(0, 3, 1)
    assert wire.peers[0].footprint()["crashes_not_final"] == 1
    publication = Publication(1, T, 2, Batch(2, (b"m",)), {3: 2}, digest=0, stamp=9)

    wire.receive(0, 1, Copy(0, 0, 100, {0: 1}, {}, publication))

    assert wire.delivered[0] == [(1, b"m")]


@pytest.mark.parametrize("comes_back", [False, True], ids=["gone", "back"])
def test_a_lost_message_does_not_hide_what_it_depended_on(comes_back: bool) -> None:
    """m2 names only m, which stood for y; m is lost and y is still on its way from 0, which lives, to 4.

    All four are each other's children, so every copy goes straight. The source of m may be a member again by now.
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
    if comes_back:
        wire.release(1, 0)
        wire.release(1, 4)
        wire.recover(1)
        wire.suspect(1, 2, 0)
        wire.run()
        wire.subscribe(1, T)
        wire.run()
    assert (1 in wire.peers[4].members(T)) == comes_back
    assert wire.received[4] == [(2, 2)]
    assert wire.delivered[4] == []

    wire.release(0, 4)
    wire.run()

    assert wire.delivered[4] == [(0, b"y"), (2, b"m2")]
    assert wire.delivered[0] == [(0, b"y"), (2, b"m2")]


# Dependencies on the dead.


def test_what_has_been_received_of_the_dead_is_not_taken_for_lost() -> None:
    """n of 2 comes after m of 3, which has crashed and which 0 has delivered. 0 still lacks p of 1, which n knows
    nothing of, and which would have to come first if m were lost."""
    wire = members_of(range(4))
    wire.publish(3, T, b"m")
    wire.run()
    for other in (0, 2, 3):
        wire.hold(1, other, is_publication)
    wire.publish(1, T, b"p")
    wire.hold(2, 0, lambda message: isinstance(message, Final))
    wire.crash(3)
    report(wire, 3)
    assert wire.peers[0].footprint()["crashes_not_final"] == 0
    assert wire.peers[0].footprint()["crashes_not_over"] == 1

    wire.publish(2, T, b"n")
    wire.run()

    assert wire.started[2][-1].barrier == {3: 2}
    assert wire.delivered[0] == [(3, b"m"), (2, b"n")]


def test_what_has_been_received_of_one_who_left_is_not_taken_for_lost_when_he_crashes() -> None:
    """n of 4 comes after m of 2, who has left. The crash of 3 is over, but 0 still lacks p of 1, which came before."""
    wire = members_of([0, 1, 2, 4], among=range(5))
    wire.publish(2, T, b"m")
    wire.run()
    wire.unsubscribe(2, T)
    wire.run()
    for other in (0, 4):
        wire.hold(1, other, is_publication)
    wire.publish(1, T, b"p")
    wire.crash(3)
    report(wire, 3)
    assert wire.peers[0].footprint()["crashes_not_over"] == 0
    wire.crash(2)
    wire.suspect(0, 2, 0)

    wire.publish(4, T, b"n")
    wire.run()

    assert wire.started[4][-1].barrier == {2: 2}
    assert wire.delivered[0] == [(2, b"m"), (4, b"n")]


def test_own_publications_are_not_taken_for_lost_however_many_nodes_have_been_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """0 keeps no graves, so all absent nodes count as dead up to the incarnation of 3. 2 answers m of 0. 0 still lacks
    p of 1, which came before the crash of 3."""
    monkeypatch.setattr("vcubeps.protocol.local.MAX_GRAVES", 0)
    wire = members_of(range(4))
    for other in (0, 2, 3):
        wire.hold(1, other, is_publication)
    wire.publish(1, T, b"p")
    wire.crash(3)
    report(wire, 3)
    assert wire.peers[0].known_incarnation(3) == wire.peers[0].known_incarnation(99) == 0

    wire.publish(0, T, b"m")
    wire.run()
    wire.publish(2, T, b"answer")
    wire.run()

    assert wire.started[2][-1].barrier == {0: 2}
    assert wire.delivered[0] == [(0, b"m"), (2, b"answer")]


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


def one_comes_back_while_its_leave_waits() -> Wire:
    """1 answers y of 0, which is slow to 2, by leaving, and crashes. Its next incarnation joins and publishes n, which
    0 does not get. At 2 the leave waits for y, and n for the leave."""
    wire = members_of(range(3))
    wire.hold(0, 2, is_publication)
    wire.publish(0, T, b"y")
    wire.run()
    wire.unsubscribe(1, T)
    wire.run()
    wire.crash(1)
    report(wire, 1)
    wire.recover(1)
    wire.run()
    wire.subscribe(1, T)
    wire.run()
    wire.hold(1, 0, is_publication)
    wire.publish(1, T, b"n")
    wire.run()
    assert wire.delivered[2] == []
    wire.release(0, 2)
    wire.run()
    assert wire.delivered[2] == [(0, b"y"), (1, b"n")]
    return wire


def test_leave_of_an_earlier_incarnation_does_not_end_the_subscription_of_the_next_one() -> None:
    wire = one_comes_back_while_its_leave_waits()

    assert wire.peers[2].members(T).keys() == {0, 1, 2}


def test_leave_of_an_earlier_incarnation_does_not_make_others_forget_what_the_next_one_published() -> None:
    wire = one_comes_back_while_its_leave_waits()

    crash_without_a_trace(wire, 1)
    report(wire, 1)

    assert wire.delivered[0] == [(0, b"y"), (1, b"n")]


def test_what_a_member_that_left_had_published_is_not_handed_on_when_it_crashes() -> None:
    """All have received it, or the leave would not have started."""
    wire = members_of(range(3))
    wire.publish(2, T, b"m")
    wire.run()
    wire.unsubscribe(2, T)
    wire.run()

    wire.crash(2)
    wire.suspect(0, 2, 0)

    [flush] = [entry.message for entry in wire.in_flight if is_flush(entry.message)]
    assert flush.held == {}


def test_leave_that_has_taken_effect_is_acknowledged_at_once_when_it_comes_again() -> None:
    """0 leaves, its UNS slow on 6→7. 4, which had passed it on to 6, crashes: 0 sends it anew, has left, joins again
    and publishes n. At 7, n waits for y of 1. What waits there is no matter of the first UNS."""
    wire = members_of(range(8))
    wire.hold(6, 7, lambda message: isinstance(message, Copy))
    wire.unsubscribe(0, T)
    wire.run()
    crash_without_a_trace(wire, 4)
    report(wire, 4)
    wire.subscribe(0, T)
    wire.run()
    for sender in (1, 3, 5):
        wire.hold(sender, 7, publication_of(1))
    wire.publish(1, T, b"y")
    wire.run()
    wire.publish(0, T, b"n")
    wire.run()
    assert wire.delivered[7] == []

    wire.release(6, 7)
    wire.run()

    assert wire.delivered[7] == []
    assert wire.peers[6].footprint()["copies"] == 0


# Views.


def test_crashed_member_leaves_the_views() -> None:
    wire = members_of(range(4))
    wire.crash(2)

    report(wire, 2)

    for node in (0, 1, 3):
        assert set(wire.peers[node].members(T)) == {0, 1, 3}
        assert wire.outputs[node].count(MemberLeft(T, 2, crashed=True)) == 1


def test_crashed_member_stays_in_the_view_until_the_crash_is_final() -> None:
    wire = members_of(range(4))
    wire.crash(2)
    wire.hold(3, 0)

    report(wire, 2)

    assert 2 in wire.peers[0].members(T)
    assert MemberLeft(T, 2, crashed=True) not in wire.outputs[0]


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


def test_member_that_lists_another_subscription_when_it_flushes_leaves_the_view() -> None:
    """It has left since and is about to be taken in again."""
    wire = members_of(range(4))
    flush = Flush(0, 0, sequence=1, dead={2: 0}, held={}, counter=5, subscriptions={T: (5, 0)})

    outputs = wire.peers[0].receive(3, flush)

    assert MemberLeft(T, 3) in outputs


def test_member_that_is_leaving_when_it_flushes_leaves_the_view() -> None:
    """3 waits for nobody any more who depends on what it has to say; its leave itself is slow."""
    wire = members_of(range(4))
    for other in (0, 1, 2):
        wire.hold(3, other, only=is_leave)
    wire.unsubscribe(3, T)
    wire.crash(2)

    report(wire, 2)

    assert wire.peers[0].members(T).keys() == wire.peers[1].members(T).keys() == {0, 1}


def test_what_waited_for_a_member_that_its_flush_removes_is_delivered() -> None:
    """m of 1 depends on a publication of 3 that 0 has not got; the crash is not final at 0 yet."""
    wire = members_of(range(4))
    publication = Publication(1, T, 2, Batch(2, (b"m",)), {3: 2}, digest=0, stamp=9)
    wire.receive(0, 1, Copy(0, 0, 99, {0: 1}, {}, publication))
    assert wire.delivered[0] == []

    wire.receive(0, 3, Flush(0, 0, sequence=1, dead={2: 0}, held={}, counter=5, subscriptions={}))

    assert wire.delivered[0] == [(1, b"m")]
    assert not wire.peers[0]._local.is_settled()


def test_a_crash_spreads_from_the_only_node_that_noticed_it() -> None:
    wire = members_of(range(8))
    wire.crash(7)

    wire.suspect(3, 7, 0)
    wire.run()

    assert all(7 not in wire.peers[node].members(T) for node in range(7))
    assert at_work(wire) == {}


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


def test_a_joiner_gets_what_a_later_joiner_published_and_died_of_before_the_join_took_effect() -> None:
    """1 joins while 3 joins, and publishes to 3 and to 0; 1 dies, and its copy to 3 with it."""
    wire = members_of([0], among=range(4))
    wire.subscribe(3, T)
    [slow] = [entry.message.hop for entry in wire.in_flight if entry.destination == 2]
    wire.hold(2, 3, only=lambda message: isinstance(message, Ack) and message.hop == slow)
    wire.run()
    wire.subscribe(1, T)
    wire.run()
    wire.hold(1, 3)
    wire.publish(1, T, b"m")
    wire.run()
    crash_without_a_trace(wire, 1)
    report(wire, 1)
    assert wire.peers[3]._local.is_settled()
    assert (3, T) not in wire.subscribed

    wire.release(2, 3)
    wire.run()

    assert wire.delivered[0] == [(1, b"m")]
    assert wire.delivered[3] == [(1, b"m")]


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


def joiner_is_not_answered_by_one() -> Wire:
    """3 joins 0; what 2, which is no member, answers is slow. Nothing else of 2 is."""
    wire = members_of([0], among=range(4))
    wire.hold(2, 3)
    wire.subscribe(3, T)
    wire.run()
    [slow] = [entry.message for entry in wire.in_flight]
    wire.hold(2, 3, only=lambda message: message is slow)
    return wire


def test_joiner_gets_what_a_dead_source_that_came_after_it_had_addressed_to_it() -> None:
    """1 joins too, and publishes to 0 and to 3; 1 dies, and its copy to 3 with it."""
    wire = joiner_is_not_answered_by_one()
    wire.subscribe(1, T)
    wire.run()
    wire.hold(1, 3, only=is_publication)
    wire.publish(1, T, b"m")
    wire.run()
    crash_without_a_trace(wire, 1)
    report(wire, 1)
    assert (3, T) not in wire.subscribed

    wire.release(2, 3)
    wire.run()

    assert wire.delivered[0] == [(1, b"m")]
    assert wire.delivered[3] == [(1, b"m")]


def test_joiner_hands_on_the_last_publication_of_a_dead_source_and_not_its_leave() -> None:
    wire = joiner_is_not_answered_by_one()
    wire.subscribe(1, T)
    wire.run()
    for payload in (b"1", b"2"):
        wire.publish(1, T, payload)
        wire.run()
    wire.unsubscribe(1, T)
    wire.run()
    assert (3, T) not in wire.subscribed

    wire.crash(1)
    wire.suspect(3, 1, 0)

    flush = next(entry.message for entry in wire.in_flight if is_flush(entry.message))
    assert {source: held.batch.items for source, held in flush.held[T].items()} == {1: ((3, b"2"),)}


def test_joiner_keeps_what_was_addressed_to_it_though_its_source_has_come_back_since() -> None:
    """1 joins too, publishes to 0 and to 3, crashes, comes back and joins again, all while 3 joins."""
    wire = joiner_is_not_answered_by_one()
    wire.subscribe(1, T)
    wire.run()
    wire.publish(1, T, b"m")
    wire.run()
    wire.crash(1)
    report(wire, 1)
    wire.recover(1)
    wire.run()
    wire.subscribe(1, T)
    wire.run()
    assert (3, T) not in wire.subscribed

    wire.release(2, 3)
    wire.run()

    assert wire.delivered[0] == [(1, b"m")]
    assert wire.delivered[3] == [(1, b"m")]
    assert wire.peers[3].members(T).keys() == {0, 1, 3}


def test_copy_of_the_dead_that_reaches_a_joiner_late_is_left_to_the_flush() -> None:
    """2, which leaves and holds nothing, relays m of 0 to 3, which joins and has flushed already that it lacks m."""
    wire = members_of(range(3), among=range(4))
    wire.hold(1, 3)
    wire.subscribe(3, T)
    wire.run()
    wire.hold(2, 0)
    wire.unsubscribe(2, T)
    wire.run()
    wire.hold(0, 1)
    wire.hold(2, 3, only=is_publication)
    wire.publish(0, T, b"m")
    wire.run()
    crash_without_a_trace(wire, 0)
    report(wire, 0)

    wire.release(2, 3)
    wire.run()
    wire.release(1, 3)
    wire.run()

    assert (3, T) in wire.subscribed
    assert wire.delivered[1] == wire.delivered[3] == []
    assert at_work(wire) == {}


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


def test_next_incarnation_of_one_whom_a_joiner_has_met_takes_the_place_of_the_one_before() -> None:
    """3 joins, crashes, comes back and joins again, all while 0 joins."""
    wire = members_of((1, 2), among=range(4))
    wire.hold(2, 0, lambda message: isinstance(message, Ack))
    wire.subscribe(0, T)
    wire.run()
    wire.subscribe(3, T)
    wire.run()
    wire.crash(3)
    report(wire, 3)
    wire.recover(3)
    wire.run()
    wire.subscribe(3, T)
    wire.run()
    assert (0, T) not in wire.subscribed

    wire.release(2, 0)
    wire.run()

    wire.peers[0].check()
    assert wire.peers[0].members(T) == wire.peers[1].members(T)
    assert wire.peers[0].members(T)[3] == COUNTERS_PER_INCARNATION + 1


@pytest.mark.parametrize("comes_first", ["report", "late copy"])
def test_late_copy_of_a_sub_does_not_undo_a_leave_that_is_under_way(comes_first: str) -> None:
    """0 joins, its SUB slow on 6→7. 4, which had passed it on to 6, crashes: 0 sends it anew, is in, and leaves, which
    1 is slow to acknowledge. 7 joins. It is told by 0 that 0 leaves, and by the late copy that 0 comes."""
    wire = members_of([1], among=range(8))
    wire.hold(6, 7, is_subscription)
    wire.subscribe(0, T)
    wire.run()
    crash_without_a_trace(wire, 4)
    report(wire, 4)
    wire.hold(1, 0, lambda message: isinstance(message, Ack))
    wire.unsubscribe(0, T)
    wire.run()
    assert Unsubscribed(T) not in wire.outputs[0]
    if comes_first == "late copy":
        wire.hold(3, 7)
    wire.subscribe(7, T)
    wire.run()
    assert ((7, T) in wire.subscribed) == (comes_first == "report")

    wire.release(6, 7)
    wire.run()
    if comes_first == "late copy":
        wire.release(3, 7)
        wire.run()

    assert (7, T) in wire.subscribed
    assert wire.peers[7].members(T).keys() == {1, 7}


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


def tell_of_two_crashes_at_once(wire: Wire, teller: int, *crashed: int) -> None:
    """By a copy that overtakes the flushes, of which there is one for each."""
    for node in crashed:
        wire.crash(node)
    for node in wire.peers:
        wire.hold(teller, node, is_flush)
    for node in crashed:
        wire.suspect(teller, node, 0)
    wire.subscribe(teller, "u")
    wire.run()


def test_broadcast_whose_last_two_recipients_die_at_once_ends_once() -> None:
    wire = members_of((0, 1, 2), among=range(4))
    wire.publish(0, T, b"m")

    tell_of_two_crashes_at_once(wire, 3, 1, 2)

    acknowledged = [output for output in wire.outputs[0] if isinstance(output, Acknowledged)]
    assert acknowledged == [Acknowledged(T, 2)]


def test_relay_whose_last_two_children_die_at_once_acknowledges_once() -> None:
    wire = members_of((0, 4, 5, 6), among=range(8))
    wire.hold(4, 5, is_publication)
    wire.hold(4, 6, is_publication)
    wire.publish(0, T, b"m")
    wire.run()
    wire.log.clear()

    tell_of_two_crashes_at_once(wire, 7, 5, 6)

    sends = [output for node, output in wire.log if node == 4 and isinstance(output, Send)]
    to_0 = [send.message for send in sends if send.destination == 0 and isinstance(send.message, Ack)]
    assert len({ack.hop for ack in to_0}) == len(to_0)
    assert Acknowledged(T, 2) in wire.outputs[0]


def one_takes_another_for_dead_and_nobody_else_knows(observer: int, *members: int) -> Wire:
    """All of 0…3 live. 3 is taken for dead by `observer`, whose flushes are slow."""
    wire = members_of(members, among=range(4))
    wire.publish(members[0], T, b"before")
    wire.run()
    for node in range(4):
        wire.hold(observer, node, is_flush)
    wire.hold(observer, 3)
    wire.suspect(observer, 3, 0)
    wire.log.clear()
    return wire


def test_relay_whose_children_are_all_dead_acknowledges_at_once() -> None:
    wire = one_takes_another_for_dead_and_nobody_else_knows(2, 0, 2, 3)
    wire.hold(0, 2, is_flush)

    wire.publish(0, T, b"m")
    wire.run()

    assert Acknowledged(T, 3) in wire.outputs[0]


def test_nothing_is_sent_to_a_member_that_is_dead_though_its_crash_is_not_final() -> None:
    wire = one_takes_another_for_dead_and_nobody_else_knows(0, 0, 1, 2, 3)
    assert 3 in wire.peers[0].members(T)

    wire.publish(0, T, b"m")

    sends = [
        output for node, output in wire.log if isinstance(output, Send) and is_publication(output.message)
    ]
    assert [(send.destination, send.message.recipients.keys()) for send in sends] == [(2, {2}), (1, {1})]


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
    """12 is the first of 1's subcube 4 and serves 11; subcube 5 is 21 alone."""
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


def test_a_relay_that_serves_one_it_does_not_deal_with_waits_for_it_until_its_crash_is_reported() -> None:
    """2 has come back as 1, which 3 has not heard yet: its Hello is slow. 1, which deals with it, joins through 3. Then
    both are gone, and nobody who is left has ever dealt with 2 as 1."""
    wire = Wire(Peer, range(4))
    crash_without_a_trace(wire, 2)
    report(wire, 2)
    wire.hold(2, 3)
    wire.hold(3, 2)
    wire.recover(2)
    wire.run()
    wire.hold(1, 3, lambda message: not is_subscription(message))
    wire.subscribe(1, T)
    wire.run()
    crash_without_a_trace(wire, 0, 1, 2)
    for node in (0, 1):
        wire.suspect(3, node, 0)
    assert at_work(wire)[3]["copies"] == 1
    assert not wire.peers[3].believes_dead(2)

    wire.suspect(3, 2, wire.peers[3].known_incarnation(2))
    wire.run()

    assert at_work(wire) == {}
    assert wire.peers[3].believes_dead(2)
