"""What breaks without a rule, where random schedules hardly ever get there: one scripted trace each.

A trace tells a story on the wire and returns whether the protocol kept its promise in it. With the rule it
does; with the rule switched off (`tests/ablations.py`) it does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ablations import ABLATIONS
from crash_stories import (
    T,
    crash_without_a_trace,
    is_flush,
    is_leave,
    is_publication,
    is_subscription,
    members_of,
    report,
)
from vcubeps.protocol.messages import Ack, Copy
from vcubeps.protocol.outputs import Unsubscribed
from wire import Wire

Trace = Callable[[], bool]
TRACES: dict[str, Trace] = {}

TRACED_ELSEWHERE = {
    "nobody_asks_back",
    "barriers_bring_the_dead_back",
    "nodes_go_up_among_strangers",
    "joins_do_not_wait_for_finality",
    "collectors_take_what_they_do_not_know_for_over",
    "collectors_do_not_ask",
    "cuts_of_the_next_incarnation_are_forgotten",
    "welcomes_do_not_tell_who_is_no_more",
    "newcomers_go_up_alone",
    "merged_knowledge_is_not_corrected",
    "reports_are_not_repeated",
    "collectors_that_come_are_told_nothing",
    "only_the_incarnation_that_is_named_is_over",
    "skipped_incarnations_are_not_answered_for",
    "graves_outlive_a_restart",
    "expected_nodes_are_not_waited_for",
    "nodes_that_are_up_do_not_greet",
    "nobody_tells_that_it_is_up",
    "taken_ids_are_fenced",
    "copies_to_nobody_are_waited_for",
    "fences_name_who_speaks",
}
"""By test_what_the_search_found.py, test_over.py, test_newcomers.py, test_recovery.py and test_left_topics.py."""


def broken_without(ablation: str) -> Callable[[Trace], Trace]:
    def register(trace: Trace) -> Trace:
        TRACES[ablation] = trace
        return trace

    return register


@pytest.mark.parametrize("name", TRACES)
def test_promise_is_kept(name: str) -> None:
    assert TRACES[name]()


@pytest.mark.parametrize("name", TRACES)
def test_promise_is_broken_if_the_rule_is_left_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ABLATIONS[name].apply(monkeypatch)

    assert not TRACES[name]()


def test_every_rule_that_random_schedules_do_not_miss_has_a_trace() -> None:
    not_searched = {name for name, ablation in ABLATIONS.items() if ablation.search is None}

    assert not_searched == TRACES.keys() | TRACED_ELSEWHERE


# What the traces are made of


def release(wire: Wire, *links: tuple[int, int]) -> None:
    for link in links:
        wire.release(*link)
    wire.run()


def agree(wire: Wire, publication: tuple[int, bytes], *survivors: int) -> bool:
    """Whether all of them deliver it or none does."""
    return len({publication in wire.delivered[node] for node in survivors}) == 1


# 7 and 8: leaving, and coming back


def first_only(message_kind: Callable[[Any], bool], source: int) -> Callable[[Any], bool]:
    """Picks the first copy of this kind that `source` has caused, and no other."""
    first: list[tuple[int, int]] = []

    def picks(message: Any) -> bool:
        if not (message_kind(message) and message.broadcast.source == source):
            return False
        key = message.hop, message.broadcast.counter
        if not first:
            first.append(key)
        return key == first[0]

    return picks


def subscription_of(source: int) -> Callable[[Any], bool]:
    return lambda message: is_subscription(message) and message.broadcast.source == source


@broken_without("late_leaves_count_as_the_last")
def an_earlier_leave_and_a_later_join_of_one_that_has_left_come_late() -> bool:
    """Relays crash, so 7 gets two copies of a leave of 8, and two of its next SUB; of both, one is slow. 8 leaves
    again. 7 joins: it is told of the last leave, then the slow copies come."""
    wire = members_of([0, 4, 6, 7, 8], among=[0, 4, 5, 6, 7, 8])
    wire.hold(6, 7, first_only(is_leave, 8))
    wire.unsubscribe(8, T)
    wire.run()
    wire.crash(4)
    report(wire, 4)
    wire.hold(5, 7, first_only(is_subscription, 8))
    wire.subscribe(8, T)
    wire.run()
    wire.crash(0)
    report(wire, 0)
    wire.publish(8, T, b"c")
    wire.run()
    wire.unsubscribe(7, T)
    wire.run()
    wire.hold(8, 6, is_leave)
    wire.unsubscribe(8, T)
    wire.run()
    wire.subscribe(7, T)
    wire.in_flight.sort(key=lambda entry: (entry.source, entry.destination) != (6, 7))
    wire.release(6, 7)
    wire.step()  # the leave, while 7 joins
    wire.run()
    release(wire, (5, 7))
    release(wire, (8, 6))

    wire.publish(6, T, b"m")
    wire.run()

    return 8 not in wire.peers[7].members(T) and (6, b"m") in wire.delivered[7]


@broken_without("leaves_in_flushes_are_not_kept")
def the_sub_of_one_that_has_left_comes_late_after_its_flush() -> bool:
    """4, which relays the SUB of 0, crashes, so 7 gets two copies of it, one of them late. 0 publishes and leaves. Its
    flush about another crash tells 7 that, then comes the SUB, and then the leave."""
    wire = members_of([6, 7], among=range(8))
    wire.hold(6, 7, subscription_of(0))
    wire.subscribe(0, T)
    wire.run()
    wire.crash(4)
    report(wire, 4)
    wire.publish(0, T, b"c")
    wire.run()
    wire.hold(6, 7, lambda message: subscription_of(0)(message) or is_leave(message))
    wire.hold(0, 7, is_leave)
    wire.unsubscribe(0, T)
    wire.run()
    wire.crash(1)
    report(wire, 1)
    assert 0 not in wire.peers[7].members(T)
    wire.hold(6, 7, is_leave)
    wire.run()  # the SUB
    release(wire, (0, 7), (6, 7))

    return Unsubscribed(T) in wire.outputs[0] and 0 not in wire.peers[7].members(T)


def one_leaves_while_another_cannot_deliver_what_it_said() -> Wire:
    """m of 0 is slow to 2; 1 answers m, and leaves. The answer and the leave wait for m at 2."""
    wire = members_of((0, 1, 2), among=range(4))
    wire.hold(0, 2)
    wire.publish(0, T, b"m")
    wire.run()
    wire.publish(1, T, b"answer")
    wire.run()
    wire.unsubscribe(1, T)
    wire.run()
    assert wire.delivered[2] == []
    return wire


@broken_without("leaves_take_effect_at_once")
def member_is_seen_until_what_it_said_has_been_delivered() -> bool:
    return 1 in one_leaves_while_another_cannot_deliver_what_it_said().peers[2].members(T)


@broken_without("leaves_are_acknowledged_at_once")
def leave_is_over_when_every_member_has_taken_note() -> bool:
    wire = one_leaves_while_another_cannot_deliver_what_it_said()
    return Unsubscribed(T) not in wire.outputs[1] or 1 not in wire.peers[2].members(T)


@broken_without("rejoining_nodes_have_forgotten")
def publication_after_a_rejoin_comes_after_what_was_delivered_before_it() -> bool:
    """3 joins, its SUB slow to 2. 1 publishes m to both and crashes; 2 leaves, rejoins and publishes m2.

    1 is gone when 2 comes back, so nobody's floor tells 2 of m. At 3, which is still joining, both wait.
    """
    wire = members_of((1, 2), among=range(4))
    wire.hold(3, 2, is_subscription)
    wire.subscribe(3, T)
    wire.run()
    wire.publish(1, T, b"m")
    wire.run()
    crash_without_a_trace(wire, 1)
    report(wire, 1)
    assert wire.delivered[2] == [(1, b"m")]
    wire.unsubscribe(2, T)
    wire.run()
    wire.subscribe(2, T)
    wire.run()
    wire.publish(2, T, b"m2")
    wire.run()
    assert (3, T) not in wire.subscribed
    release(wire, (3, 2))
    return wire.delivered[3] == [(1, b"m"), (2, b"m2")]


# 10: what flushes settle


@broken_without("flushes_are_handled_as_they_come")
def flush_that_holds_a_publication_counts_before_a_later_one_that_does_not() -> bool:
    """m of 3 reaches only 1, where it waits for y. 3 crashes; 1 flushes m, leaves, and with 4's crash flushes again.

    The second flush, which has nothing of the topic, overtakes the first on the way to 0, not to 2.
    """
    wire = members_of((0, 1, 2, 3), among=range(5))
    wire.hold(0, 1, is_publication)
    wire.publish(2, T, b"y")
    wire.run()
    wire.hold(1, 0, lambda message: is_publication(message) or (is_flush(message) and message.sequence == 1))
    wire.hold(1, 2, is_flush)
    wire.hold(3, 2)
    wire.publish(3, T, b"m")
    wire.run()
    crash_without_a_trace(wire, 3)
    report(wire, 3)
    wire.unsubscribe(1, T)
    wire.run()
    assert Unsubscribed(T) in wire.outputs[1]
    crash_without_a_trace(wire, 4)
    report(wire, 4)
    release(wire, (1, 2))
    release(wire, (1, 0), (0, 1))
    return agree(wire, (3, b"m"), 0, 2)


@broken_without("relays_of_the_dead_are_told_of_no_crash")
def relay_hands_on_what_a_recipient_refused_because_its_source_is_dead() -> bool:
    """3 takes 0 for dead, which nobody else has heard of; m of 0 reaches it through 2. Then 0 leaves.

    2 must know before it takes 0's leave for a sign that all have m.
    """
    wire = members_of((0, 2, 3), among=range(4))
    wire.hold(3, 0)
    wire.hold(3, 1, is_flush)
    wire.hold(3, 2, is_flush)
    wire.suspect(3, 0, 0)
    wire.publish(0, T, b"m")
    wire.run()
    if wire.peers[0].can_unsubscribe(T):
        wire.unsubscribe(0, T)
        wire.run()
    release(wire, (3, 0), (3, 1), (3, 2))
    assert (0, b"m") in wire.delivered[2]
    return agree(wire, (0, b"m"), 2, 3)


@broken_without("joiners_drop_copies_of_former_members")
def joiner_delivers_what_it_was_sent_and_hands_on() -> bool:
    """3 joins; m of 0, which has taken it in, reaches it, but 0's report does not before 0 crashes.

    1 has m from 3's flush only. What 3 has received and vouched for it must deliver itself.
    """
    wire = members_of((0, 1), among=range(4))
    wire.hold(0, 1)
    wire.subscribe(3, T)
    wire.run()
    wire.publish(0, T, b"m")
    wire.run()
    crash_without_a_trace(wire, 0)
    report(wire, 0)
    assert (3, T) in wire.subscribed
    assert wire.delivered[1] == [(0, b"m")]
    return agree(wire, (0, b"m"), 1, 3)


# 10: joins and suspicion


@broken_without("joiners_are_told_of_no_crash")
def joiner_learns_whom_a_relay_has_left_out() -> bool:
    """2 takes 3 for dead, which nobody else has heard of; 0 joins, and 2 does not pass the SUB on to 3.

    3 publishes m, which 1 still takes in. If 0 was subscribed then, it must deliver m like 1.
    """
    wire = members_of((1, 2, 3), among=range(4))
    wire.hold(2, 3)
    wire.hold(2, 0, is_flush)
    wire.hold(2, 1, is_flush)
    wire.suspect(2, 3, 0)
    wire.run()
    wire.hold(0, 3)
    wire.hold(0, 1, is_flush)
    wire.subscribe(0, T)
    wire.run()
    was_subscribed = (0, T) in wire.subscribed
    wire.publish(3, T, b"m")
    wire.run()
    release(wire, (2, 3), (2, 0), (2, 1), (0, 3), (0, 1))
    assert (0, T) in wire.subscribed
    assert wire.delivered[1] == [(3, b"m")]
    return not was_subscribed or agree(wire, (3, b"m"), 0, 1)


def sub_is_sent_again_and_its_first_copy_is_slow(*members: int) -> Wire:
    """0 joins, its SUB slow on 6→7. 4, which had passed it on to 6, crashes: 0 sends it anew, is in, and leaves."""
    wire = members_of(members, among=range(8))
    wire.hold(6, 7, is_subscription)
    wire.subscribe(0, T)
    wire.run()
    crash_without_a_trace(wire, 4)
    report(wire, 4)
    assert (0, T) in wire.subscribed
    wire.unsubscribe(0, T)
    wire.run()
    assert Unsubscribed(T) in wire.outputs[0]
    return wire


@broken_without("leaves_are_forgotten")
def late_copy_of_a_sub_does_not_undo_the_leave_at_a_member() -> bool:
    wire = sub_is_sent_again_and_its_first_copy_is_slow(7)
    release(wire, (6, 7))
    return wire.peers[7].members(T).keys() == {7}


@broken_without("second_copies_are_forgotten")
def late_copy_of_a_sub_does_not_undo_the_leave_at_one_who_joins_later() -> bool:
    """7 joins when 0 has left, so it has not seen the leave; the late copy comes before its own SUB is through."""
    wire = sub_is_sent_again_and_its_first_copy_is_slow()
    wire.hold(5, 7)
    wire.subscribe(7, T)
    wire.run()
    release(wire, (6, 7))
    assert (7, T) not in wire.subscribed
    release(wire, (5, 7))
    assert (7, T) in wire.subscribed
    return wire.peers[7].members(T).keys() == {7}


def test_late_copy_of_a_sub_does_not_undo_a_leave_that_is_under_way_when_another_joins() -> None:
    """As above, but 1 is slow to acknowledge the leave of 0, which 7 was not there to get."""
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
    wire.hold(5, 7)
    wire.subscribe(7, T)
    wire.run()
    release(wire, (6, 7))
    assert (7, T) not in wire.subscribed

    release(wire, (5, 7), (1, 0))

    assert Unsubscribed(T) in wire.outputs[0]
    assert wire.peers[7].members(T).keys() == {1, 7}


# 11: the flush cut


@broken_without("joiners_have_no_cut")
def joiner_delivers_what_a_lost_message_depended_on_first() -> bool:
    """0 joins. m of 1 is slow to it; 3 has m and publishes m', which reaches only 2, which publishes m''.

    2 and 3 crash, m' is lost, and the crash is final at 0 before it is in. m'' must wait for m.
    """
    wire = members_of((1, 2, 3), among=range(4))
    wire.hold(1, 0, lambda message: is_publication(message) or isinstance(message, Ack))
    wire.subscribe(0, T)
    wire.run()
    wire.publish(1, T, b"m")
    wire.run()
    wire.hold(3, 1)
    wire.publish(3, T, b"m'")
    wire.run()
    wire.publish(2, T, b"m''")
    wire.run()
    crash_without_a_trace(wire, 2, 3)
    report(wire, 2, 3)
    wire.hold(1, 0, is_publication)
    wire.run()
    assert (0, T) in wire.subscribed
    release(wire, (1, 0))
    return wire.delivered[0] == [(1, b"m"), (2, b"m''")]


@broken_without("acknowledgements_go_to_whoever_lives")
def acknowledgement_of_an_earlier_incarnations_copy() -> bool:
    """0 subscribes, and 2 is slow to pass that on to 3. 0 crashes, comes back and subscribes again, with a copy of the
    same number. What 3 acknowledges first is the first copy."""
    wire = members_of([1, 3], among=range(4))
    wire.hold(2, 3, is_subscription)
    wire.subscribe(0, T)
    wire.run()
    crash_without_a_trace(wire, 0)
    report(wire, 0)
    wire.recover(0)
    wire.run()
    wire.subscribe(0, T)
    wire.run()
    release(wire, (2, 3))
    return wire.peers[0].members(T).keys() == {0, 1, 3}


# A publication p of a dead source is held back by one, and never comes to another, which passes its effects on. In both
# traces 2 publishes p after q of 3 and crashes. q is slow to 0, which joins while 1 has not heard of it and so does not
# get m, the answer of 1 to p. 4 joins too late for p, delivers m and answers it by r. At 0, r must wait for p.


def broadcast_of(source: int) -> Callable[[object], bool]:
    return lambda message: isinstance(message, Copy) and message.broadcast.source == source


def publish_and_crash(wire: Wire) -> None:
    wire.publish(3, T, b"q")
    wire.run()
    wire.publish(2, T, b"p")
    wire.run()
    crash_without_a_trace(wire, 2)
    report(wire, 2)


@broken_without("what_never_came_is_not_doubtful")
def the_newcomer_learns_of_the_other_after_it_has_delivered() -> bool:
    """4 takes 0 in after m, which has come from a source with the same members as its own."""
    wire = members_of([1, 2, 3], among=range(5))
    wire.hold(0, 2, broadcast_of(4))
    wire.subscribe(4, T)
    wire.run()
    wire.hold(0, 1, broadcast_of(0))
    wire.hold(0, 4, broadcast_of(0))
    wire.hold(1, 0, broadcast_of(3))
    wire.subscribe(0, T)
    wire.run()
    publish_and_crash(wire)
    wire.publish(1, T, b"m")
    wire.run()
    release(wire, (0, 4))
    wire.publish(4, T, b"r")
    wire.run()
    release(wire, (0, 1))
    release(wire, (1, 0))
    return wire.delivered[0] == [(3, b"q"), (2, b"p"), (4, b"r")]


@broken_without("others_barriers_are_not_passed_on")
def the_newcomer_knows_of_the_other_before_it_delivers() -> bool:
    """4 has taken 0 in before m, whose source has not."""
    wire = members_of([1, 2, 3], among=range(5))
    wire.hold(0, 1, broadcast_of(0))
    wire.hold(1, 0, broadcast_of(3))
    wire.subscribe(0, T)
    wire.run()
    publish_and_crash(wire)
    wire.subscribe(4, T)
    wire.run()
    wire.publish(1, T, b"m")
    wire.run()
    wire.publish(4, T, b"r")
    wire.run()
    release(wire, (0, 1))
    release(wire, (1, 0))
    return wire.delivered[0] == [(3, b"q"), (2, b"p"), (4, b"r")]
