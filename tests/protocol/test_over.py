"""When a crash is over, and what is forgotten then. Directed traces."""

from __future__ import annotations

from typing import Any

import pytest

from ablations import (
    barriers_bring_the_dead_back,
    collectors_do_not_ask,
    collectors_take_what_they_do_not_know_for_over,
    collectors_that_come_are_told_nothing,
    cuts_of_the_next_incarnation_are_forgotten,
    only_the_incarnation_that_is_named_is_over,
    reports_are_not_repeated,
    skipped_incarnations_are_not_answered_for,
)
from crash_stories import (
    T,
    at_work,
    crash_without_a_trace,
    is_flush,
    is_publication,
    lose,
    members_of,
    publication_of,
    report,
)
from vcubeps.protocol.batches import Batch
from vcubeps.protocol.messages import Ack, Final, Flush, IsFinal, Over, Publication
from vcubeps.protocol.outputs import Send
from vcubeps.protocol.peer import Peer
from vcubeps.protocol.topic import Topic
from wire import Wire


def is_over(message: Any) -> bool:
    return isinstance(message, Over)


def is_final(message: Any) -> bool:
    return isinstance(message, Final)


def topic_of(wire: Wire, node: int) -> Topic:
    topic: Topic = wire.peers[node]._broadcasts.workers[T].topic
    return topic


def remembered(wire: Wire, node: int, victim: int) -> list[str]:
    """Where `node` still keeps something of `victim`."""
    local, topic, aftermath = wire.peers[node]._local, topic_of(wire, node), wire.peers[node]._aftermath
    heard = {other for other, _ in topic.view.heard}
    kept = {
        "known": local.known,
        "dead": local.dead,
        "final": local.final,
        "cards": local.cards,
        "members": topic.view.members,
        "left": topic.view.left,
        "heard": heard,
        "newest": topic.newest,
        "cut": topic.cut,
        "barrier": topic.past.barrier,
        "doubtful": topic.past.doubtful,
        "delivered": topic.past.delivered,
        "not over": aftermath.not_over,
        "inquired": {x for inquired in aftermath._inquired.values() for x in inquired},
        "told": {x for told in aftermath._told.values() for x in told},
        "final elsewhere": {x for final in aftermath._final_at.values() for x in final},
    }
    return [name for name, entries in kept.items() if victim in entries]


def sent_by(wire: Wire, node: int, kind: type) -> list[tuple[int, Any]]:
    sends = [output for output in wire.outputs[node] if isinstance(output, Send)]
    return [(send.destination, send.message) for send in sends if isinstance(send.message, kind)]


# What is forgotten, and when.


def test_of_a_crash_that_is_over_only_the_grave_is_kept() -> None:
    wire = members_of(range(4))
    wire.publish(3, T, b"m")
    wire.run()

    wire.crash(3)
    report(wire, 3)

    assert [remembered(wire, node, 3) for node in (0, 1, 2)] == [[], [], []]
    assert all(peer.known_incarnation(3) == 0 for peer in wire.peers.values())
    assert at_work(wire) == {}


def test_of_one_who_left_and_crashed_only_the_grave_is_kept() -> None:
    wire = members_of(range(4))
    wire.publish(3, T, b"m")
    wire.unsubscribe(3, T)
    wire.run()
    assert {"left", "heard"} <= set(remembered(wire, 0, 3))

    wire.crash(3)
    report(wire, 3)

    assert [remembered(wire, node, 3) for node in (0, 1, 2)] == [[], [], []]


def test_the_cut_of_a_survivor_is_forgotten_when_its_own_crash_is_over() -> None:
    """Where it stood when the other crashed is a cut, until it crashes itself."""
    wire = members_of(range(4))
    wire.publish(3, T, b"m")
    wire.run()
    wire.crash(2)
    report(wire, 2)
    assert "cut" in remembered(wire, 0, 3)

    wire.crash(3)
    report(wire, 3)

    assert [remembered(wire, node, 3) for node in (0, 1)] == [[], []]


def test_of_crashes_that_are_not_over_no_more_than_two_incarnations_of_a_node_are_kept_in_a_view() -> None:
    wire = members_of(range(4))
    wire.hold(2, 0, is_final)
    for _ in range(4):
        wire.crash(3)
        report(wire, 3)
        wire.recover(3)
        wire.run()
        wire.subscribe(3, T)
        wire.run()

    assert wire.peers[0]._aftermath.not_over == {3: 3}
    assert len(topic_of(wire, 0).view.heard) <= 2


def test_what_the_next_incarnation_published_is_kept_when_the_crash_of_the_one_before_is_over() -> None:
    """Only 2, which hears late that it is over, has w of the next one, which crashes in turn."""
    wire = members_of(range(4))
    wire.hold(0, 2, is_over)
    wire.crash(3)
    report(wire, 3)
    wire.recover(3)
    wire.run()
    wire.subscribe(3, T)
    wire.run()
    for other in (0, 1):
        wire.hold(2, other, is_publication)
        wire.hold(3, other, is_publication)
    wire.publish(3, T, b"w")
    wire.run()
    assert wire.delivered == {2: [(3, b"w")], 3: [(3, b"w")]}
    wire.release(0, 2)
    wire.run()
    assert wire.peers[2]._aftermath.not_over == {}

    crash_without_a_trace(wire, 3)
    report(wire, 3)

    assert wire.delivered[0] == wire.delivered[1] == wire.delivered[2] == [(3, b"w")]


def test_what_is_held_back_of_the_next_incarnation_does_not_keep_a_crash_from_being_over() -> None:
    """At 1, p of 3 waits for q of 2, which is slow. 3 crashes and comes back, and its p' waits for q' of 0."""
    wire = members_of(range(4))
    for sender in (0, 2, 3):
        wire.hold(sender, 1, lambda message: publication_of(2)(message) or publication_of(0)(message))
    wire.publish(2, T, b"q")
    wire.run()
    wire.publish(3, T, b"p")
    wire.run()
    wire.crash(3)
    report(wire, 3)
    wire.recover(3)
    wire.run()
    wire.subscribe(3, T)
    wire.run()
    wire.publish(0, T, b"q'")
    wire.run()
    wire.publish(3, T, b"p'")
    wire.run()
    assert wire.received[1] == [(3, 2), (3, (1 << 40) + 2)]
    before = dict(wire.peers[0]._aftermath.not_over)

    for sender in (0, 2, 3):
        wire.hold(sender, 1, publication_of(0))
    wire.run()

    assert before == {3: 0}
    assert wire.delivered[1] == [(2, b"q"), (3, b"p")]
    assert all_is_over(wire)


def test_everybody_tells_the_smallest_of_the_living_and_it_tells_everybody() -> None:
    wire = members_of(range(8))

    wire.crash(0)
    report(wire, 0)

    told = {node: {to for to, _ in sent_by(wire, node, Final)} for node in wire.peers}
    assert told == {1: set(), 2: {1}, 3: {1}, 4: {1}, 5: {1}, 6: {1}, 7: {1}}
    assert {to for to, _ in sent_by(wire, 1, Over)} == {2, 3, 4, 5, 6, 7}


@pytest.mark.parametrize("nodes", [8, 32])
def test_that_a_crash_is_over_costs_a_few_messages_per_node(nodes: int) -> None:
    """Whoever is asked before what it said has arrived says it again, and the collector, too, says it again."""
    wire = members_of([], among=range(nodes))

    wire.crash(0)
    report(wire, 0)

    assert sum(len(sent_by(wire, node, Final)) for node in wire.peers) <= 3 * nodes
    assert sum(len(sent_by(wire, node, IsFinal)) for node in wire.peers) <= 2 * nodes
    assert sum(len(sent_by(wire, node, Over)) for node in wire.peers) <= 2 * nodes


def test_a_crash_that_was_final_before_a_newcomer_came_is_over_although_that_one_is_not_up_yet() -> None:
    wire = members_of(range(4))
    wire.hold(1, 0, is_final)
    wire.crash(3)
    report(wire, 3)
    wire.hold(2, 9)
    wire.arrive(9, [0])
    wire.run()
    assert 9 in wire.peers[0].present

    wire.release(1, 0)
    wire.run()

    assert not wire.peers[9].is_up
    assert not any(wire.peers[node].footprint()["crashes_not_over"] for node in (0, 1, 2))


def test_the_last_node_forgets_by_itself() -> None:
    wire = members_of(range(2))

    wire.crash(0)
    report(wire, 0)

    assert remembered(wire, 1, 0) == []


def test_a_crash_is_not_over_while_one_has_not_said_that_it_is_final_there() -> None:
    wire = members_of(range(4))
    wire.publish(3, T, b"m")
    wire.run()
    wire.hold(2, 0, is_final)

    wire.crash(3)
    report(wire, 3)

    assert "newest" in remembered(wire, 0, 3)
    assert sent_by(wire, 0, Over) == []


def test_a_crash_is_not_over_while_something_of_the_dead_is_held_back_somewhere() -> None:
    """q of 2 is slow to 1, where p of 3, which depends on it, waits."""
    wire = members_of(range(4))
    for sender in (0, 2, 3):
        wire.hold(sender, 1, publication_of(2))
    wire.publish(2, T, b"q")
    wire.run()
    wire.publish(3, T, b"p")
    wire.run()
    wire.crash(3)
    report(wire, 3)
    before = sent_by(wire, 0, Over)

    for sender in (0, 2, 3):
        wire.release(sender, 1)
    wire.run()

    assert before == []
    assert wire.delivered[1] == [(2, b"q"), (3, b"p")]
    assert [remembered(wire, node, 3) for node in (0, 1, 2)] == [[], [], []]


def test_over_that_comes_before_the_crash_is_final_here_has_no_effect() -> None:
    wire = members_of(range(4))
    wire.publish(3, T, b"m")
    wire.run()
    wire.hold(1, 2)
    wire.crash(3)
    report(wire, 3)
    before = remembered(wire, 2, 3)

    wire.peers[2].receive(0, Over(0, 0, {3: 0}))

    assert 3 in wire.peers[2]._local.fresh
    assert "newest" in before
    assert remembered(wire, 2, 3) == before


def test_a_flush_about_a_crash_that_was_forgotten_is_answered_and_the_answer_is_not() -> None:
    wire = members_of(range(3), among=range(4))
    wire.crash(3)
    report(wire, 3)

    flush = Flush(0, 0, 2, {3: 0}, {}, 1, {T: (1, 0)})
    [first] = [o for o in wire.peers[0].receive(1, flush) if isinstance(o, Send)]
    second = wire.peers[0].receive(1, Flush(0, 0, 3, {3: 0}, {}, 1, {}, is_answer=True))

    assert isinstance(first.message, Flush)
    assert first.message.is_answer
    assert first.message.dead == {3: 0}
    assert second == []


def test_a_new_incarnation_may_come_before_the_crash_of_the_old_one_is_over() -> None:
    wire = members_of(range(4))
    wire.hold(2, 0, is_final)
    wire.crash(3)
    report(wire, 3)
    wire.recover(3)
    wire.run()
    was_up = wire.peers[3].is_up

    wire.release(2, 0)
    wire.run()

    assert was_up
    assert all(peer._aftermath.not_over == {} for peer in wire.peers.values())
    assert all(wire.peers[node].present[3] == 1 for node in (0, 1, 2))


def test_that_an_incarnation_is_over_says_nothing_of_the_next_one() -> None:
    """2 hears that the crash of 3 is over when the next incarnation has crashed too, which is not over."""
    wire = members_of(range(4))
    wire.hold(0, 2, is_over)
    wire.crash(3)
    report(wire, 3)
    wire.recover(3)
    wire.run()
    wire.hold(1, 0, is_final)
    wire.crash(3)
    report(wire, 3)
    assert sent_by(wire, 0, Over)[-1] == (2, Over(0, 0, {3: 0}))

    wire.release(0, 2)
    wire.run()

    assert wire.peers[2]._aftermath.not_over == {3: 1}


# The collector changes.


def collector_dies_before_it_has_reached(missed: int, comes_back: bool) -> Wire:
    """That 3 has crashed is over, says 0, but not to `missed`, and dies."""
    wire = members_of(range(4))
    wire.hold(0, missed, is_over)
    wire.crash(3)
    report(wire, 3)
    if comes_back:
        wire.recover(3)
        wire.run()
    assert wire.peers[missed]._aftermath.not_over == {3: 0}
    crash_without_a_trace(wire, 0)
    report(wire, 0)
    return wire


def all_is_over(wire: Wire) -> bool:
    return all(not peer._aftermath.not_over and not peer._local.dead for peer in wire.peers.values())


@pytest.mark.parametrize("missed", [1, 2])
@pytest.mark.parametrize("comes_back", [False, True], ids=["gone", "back"])
def test_a_crash_is_over_for_those_whom_the_collector_did_not_reach_before_it_died(
    missed: int, comes_back: bool
) -> None:
    assert all_is_over(collector_dies_before_it_has_reached(missed, comes_back))


def test_without_asking_the_next_collector_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    collectors_do_not_ask(monkeypatch)

    assert not all_is_over(collector_dies_before_it_has_reached(1, comes_back=False))


def collector_comes_later(source: int) -> Wire:
    """q of 5 is slow to 2, where p of the source, which depends on it, waits. The source crashes and comes back, and
    so does 0, which collects from now on and knows nothing of it. m of 1 must not overtake q and p."""
    wire = members_of(range(6))
    for sender in (0, 1, 3, 4, 5):
        wire.hold(sender, 2, publication_of(5))
    wire.publish(5, T, b"q")
    wire.run()
    wire.publish(source, T, b"p")
    wire.run()
    for node in dict.fromkeys((source, 0)):
        wire.crash(node)
        wire.recover(node)
        wire.run()
    assert wire.peers[0].is_up
    wire.publish(1, T, b"m")
    wire.run()
    for sender in (0, 1, 3, 4, 5):
        wire.release(sender, 2)
    wire.run()
    return wire


came_back = pytest.mark.parametrize("source", [3, 0], ids=["another", "the collector"])


@came_back
def test_a_collector_that_came_later_waits_for_those_who_hold_something_of_the_dead_back(source: int) -> None:
    wire = collector_comes_later(source)

    assert wire.delivered[2] == [(5, b"q"), (source, b"p"), (1, b"m")]
    assert all_is_over(wire)


@came_back
def test_without_waiting_causal_order_is_broken(source: int, monkeypatch: pytest.MonkeyPatch) -> None:
    collectors_take_what_they_do_not_know_for_over(monkeypatch)

    assert collector_comes_later(source).delivered[2][0] == (1, b"m")


def test_who_has_been_told_that_a_crash_is_over_answers_a_collector_that_has_not() -> None:
    """0 tells all but 1 that the crash of 5 is over, and dies: only 1, which collects now, still keeps it."""
    wire = members_of(range(6))
    wire.hold(0, 1, is_over)
    wire.crash(5)
    report(wire, 5)
    assert remembered(wire, 2, 5) == []
    crash_without_a_trace(wire, 0)
    report(wire, 0)

    assert {to for to, question in sent_by(wire, 1, IsFinal) if 5 in question.dead} == {2, 3, 4}
    assert remembered(wire, 1, 5) == []


def collector_for_a_while_dies_before_it_has_reached(missed: int) -> Wire:
    """All have told 1 that the crash of 4 is final, and what 2 said is slow. Then 0 comes, collects, says to all but
    `missed` that it is over, and dies. 1, which collects again, has forgotten what it was told."""
    wire = members_of(range(1, 5))
    wire.hold(2, 1, is_final)
    for late in (1, missed):
        wire.hold(0, late, is_over)
    wire.crash(4)
    report(wire, 4)
    wire.arrive(0, [1])
    wire.run()
    for sender in (2, 0):
        wire.release(sender, 1)
        wire.run()
    assert wire.peers[missed]._aftermath.not_over == {4: 0}
    assert wire.peers[1]._aftermath.not_over == {}
    crash_without_a_trace(wire, 0)
    report(wire, 0)
    return wire


def test_who_has_told_a_collector_tells_it_again_after_a_crash() -> None:
    assert all_is_over(collector_for_a_while_dies_before_it_has_reached(3))


def test_if_it_does_not_the_crash_is_never_over_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    reports_are_not_repeated(monkeypatch)

    assert not all_is_over(collector_for_a_while_dies_before_it_has_reached(3))


def test_who_has_told_the_collector_does_not_tell_it_again_without_being_asked() -> None:
    wire = members_of(range(4))
    wire.hold(1, 0, is_final)
    wire.crash(3)
    report(wire, 3)

    outputs = wire.peers[2].receive(1, Final(0, 0, {3: 0}))

    assert outputs == []


def test_who_has_told_the_collector_does_not_look_again_after_every_input() -> None:
    wire = members_of(range(4))
    wire.hold(1, 0, is_final)
    wire.crash(3)

    report(wire, 3)

    assert wire.peers[2]._aftermath.not_over == {3: 0}
    assert not any(peer._aftermath.is_due for peer in wire.peers.values())


def test_who_is_asked_says_again_what_it_has_said() -> None:
    """Whoever asks may have forgotten it, because another collector told it that the crash is over."""
    wire = members_of(range(4))
    wire.hold(1, 0, is_final)
    wire.crash(3)
    report(wire, 3)

    outputs = wire.peers[2].receive(0, IsFinal(0, 0, {3: 0}))

    assert outputs == [Send(0, Final(0, 0, {3: 0}))]


def a_collector_comes_while_the_one_before_has_not_been_answered() -> Wire:
    """3, which was down meanwhile, is told that 0 has crashed, which is over for 1 and 2. 1, which collects, asks 2,
    and before 2 has answered 0 comes back."""
    wire = members_of(range(4))
    for node in (0, 3):
        crash_without_a_trace(wire, node)
        report(wire, node)
    for other in (1, 2):
        wire.hold(other, 3)
    wire.recover(3)
    wire.run()
    wire.suspect(3, 0, 0)
    wire.hold(2, 1, is_final)
    for other in (1, 2):
        wire.release(other, 3)
    wire.run()
    assert wire.peers[3]._aftermath.not_over == {0: 0}
    assert wire.peers[1]._aftermath.not_over == wire.peers[2]._aftermath.not_over == {}
    wire.recover(0)
    wire.run()
    wire.release(2, 1)
    wire.run()
    assert wire.peers[0].is_up
    return wire


def test_who_comes_and_collects_from_now_on_is_told_what_is_final() -> None:
    assert all_is_over(a_collector_comes_while_the_one_before_has_not_been_answered())


def test_if_it_is_not_told_it_never_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    collectors_that_come_are_told_nothing(monkeypatch)

    assert not all_is_over(a_collector_comes_while_the_one_before_has_not_been_answered())


def test_what_is_final_is_said_again_only_when_those_who_are_told_have_given_up_the_last_collector() -> None:
    """0 says that the crash of 4 is over, to 1 slowly and to 2 not any more: it dies. 1 does not know that yet when 2,
    which does, has delivered what it held back of 3: if 2 told 1 now what is final, what 0 says would void it."""
    wire = members_of(range(5))
    for late in (1, 2):
        wire.hold(0, late, is_over)
    wire.crash(4)
    report(wire, 4)
    for sender in (1, 3):
        wire.hold(sender, 2, publication_of(1))
    wire.publish(1, T, b"q")
    wire.run()
    wire.publish(3, T, b"p")
    wire.run()
    wire.crash(3)
    report(wire, 3)
    lose(wire, 0, 2)
    wire.crash(0)
    wire.hold(2, 1, lambda message: not is_final(message))
    wire.suspect(2, 0, 0)
    wire.release(1, 2)
    wire.run()
    assert wire.delivered[2] == [(1, b"q"), (3, b"p")]
    assert wire.peers[1]._aftermath.not_over == {3: 0, 4: 0}
    assert wire.peers[2]._aftermath.not_over == {3: 0, 4: 0}

    wire.release(0, 1)
    wire.run()
    wire.release(2, 1)
    wire.run()

    assert all_is_over(wire)


def one_who_comes_back_is_told_of_an_incarnation_that_all_others_have_outlived() -> Wire:
    """The id 4 had a node as 7; that is over. 3, which was down meanwhile and expects 4 to be there, is told that its
    incarnation 0 has crashed. 0 has just been told again that 7 is final, and speaks for both."""
    wire = members_of(range(5))
    crash_without_a_trace(wire, 3, 4)
    report(wire, 3, 4)
    wire.arrive(4, [0], incarnation=7)
    wire.run()
    crash_without_a_trace(wire, 4)
    for observer in (0, 1, 2):
        wire.suspect(observer, 4, 7)
    wire.run()
    assert all_is_over(wire)
    for other in (0, 1, 2):
        wire.hold(other, 3)
    wire.hold(3, 0, is_final)
    wire.recover(3)
    wire.run()
    wire.suspect(3, 4, 0)
    for other in (0, 1, 2):
        wire.release(other, 3)
    wire.run()
    assert wire.peers[3]._aftermath.not_over == {4: 0}
    wire.receive(0, 2, Final(0, 0, {4: 7}))
    wire.run()
    wire.release(3, 0)
    wire.run()
    return wire


def test_that_a_crash_is_over_holds_for_the_incarnations_before_it() -> None:
    assert all_is_over(one_who_comes_back_is_told_of_an_incarnation_that_all_others_have_outlived())


def test_if_over_counted_only_for_the_incarnation_it_names_earlier_crashes_would_never_be_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    only_the_incarnation_that_is_named_is_over(monkeypatch)

    assert not all_is_over(one_who_comes_back_is_told_of_an_incarnation_that_all_others_have_outlived())


def is_over_of(incarnation: int) -> Any:
    """Whether a message says that this incarnation of 1 is over."""
    return lambda message: is_over(message) and message.dead == {1: incarnation}


def one_is_told_late_that_the_incarnation_before_the_last_is_over() -> Wire:
    """1 crashes, comes back and crashes again. 2 has not been told yet that the first of it is over."""
    wire = members_of(range(3))
    wire.hold(0, 2, is_over_of(0))
    wire.crash(1)
    report(wire, 1)
    wire.recover(1)
    wire.run()
    assert wire.peers[2].present[1] == 1
    crash_without_a_trace(wire, 1)
    return wire


def test_that_an_incarnation_is_over_does_not_end_the_crash_of_a_later_one() -> None:
    wire = one_is_told_late_that_the_incarnation_before_the_last_is_over()
    wire.hold(2, 0, is_final)
    report(wire, 1)

    wire.release(0, 2)
    wire.run()

    assert wire.peers[2].known_incarnation(1) == 1
    assert wire.peers[2].footprint()["crashes_not_over"] == 1
    wire.release(2, 0)
    wire.run()
    assert all_is_over(wire)


def test_a_late_report_that_an_earlier_incarnation_is_over_does_not_undo_a_later_one() -> None:
    wire = one_is_told_late_that_the_incarnation_before_the_last_is_over()
    report(wire, 1)
    assert all_is_over(wire)

    wire.release(0, 2)
    wire.run()

    assert wire.peers[2].known_incarnation(1) == 1


def an_incarnation_is_skipped_where_the_crash_before_it_is_not_over() -> Wire:
    """0 deals with 5 as 9, as 10 and as 11. 1 hears of 11 first, then that 9 has crashed, and lets 11 in when that is
    final. Then 0 flushes that 10 has crashed."""
    wire = members_of(range(4))
    wire.hold(5, 1)
    wire.arrive(5, [0, 1], incarnation=9)
    wire.run()
    crash_without_a_trace(wire, 5, 2)
    for survivor in (0, 3):
        wire.hold(survivor, 1, is_flush)
    wire.hold(1, 0, is_final)
    wire.suspect(1, 2, 0)
    wire.recover(5)
    wire.run()
    crash_without_a_trace(wire, 5)
    wire.hold(5, 0)
    wire.recover(5)
    wire.release(5, 1)
    wire.run()
    for survivor in (0, 3):
        wire.release(survivor, 1)
        wire.run()
    assert wire.peers[1].present[5] == 11
    assert wire.peers[1]._aftermath.not_over[5] == 9
    wire.release(5, 0)
    wire.run()
    wire.release(1, 0)
    wire.run()
    return wire


def test_who_has_never_dealt_with_an_incarnation_answers_a_flush_about_it() -> None:
    wire = an_incarnation_is_skipped_where_the_crash_before_it_is_not_over()

    assert all(peer.is_up for peer in wire.peers.values())
    assert all_is_over(wire)


def test_without_that_answer_the_crash_is_never_final_at_those_who_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    skipped_incarnations_are_not_answered_for(monkeypatch)
    wire = an_incarnation_is_skipped_where_the_crash_before_it_is_not_over()

    assert wire.peers[0]._local.fresh == {5: 10}


def something_is_held_of_incarnations_that_were_replaced() -> Wire:
    """Of 1, two incarnations that are no more have published, on a topic each; the third one lives."""
    wire = Wire(Peer, range(4))
    wire.hold(2, 0, is_final)
    for node in (0, 2, 3):
        for topic in ("later", "earlier"):
            wire.subscribe(node, topic)
            wire.run()
    for topic in ("earlier", "later"):
        wire.subscribe(1, topic)
        wire.run()
        wire.publish(1, topic, b"m")
        wire.run()
        wire.crash(1)
        report(wire, 1)
        wire.recover(1)
        wire.run()

    wire.crash(3)
    report(wire, 3)
    return wire


def test_a_flush_calls_all_dead_of_whom_it_holds_something() -> None:
    wire = something_is_held_of_incarnations_that_were_replaced()

    flush = next(message for to, message in sent_by(wire, 0, Flush) if to == 2 and 3 in message.dead)
    assert {name: held[1].counter >> 40 for name, held in flush.held.items()} == {"earlier": 0, "later": 1}
    assert flush.dead == {1: 1, 3: 0}


def test_a_flush_is_answered_neither_by_who_has_flushed_that_crash_nor_by_the_node_it_is_about() -> None:
    wire = something_is_held_of_incarnations_that_were_replaced()

    flushes = {node: [message for _, message in sent_by(wire, node, Flush)] for node in wire.peers}

    assert any(1 in flush.dead for flush in flushes[0])
    assert wire.peers[2]._aftermath.not_over[1] == 1
    assert not any(flush.is_answer for node in wire.peers for flush in flushes[node])


# Cuts.


def crash_is_over_after_a_later_cut() -> Wire:
    """That 3 crashed is over, but 2 has not heard so. As incarnation 1, 3 publishes w, slow to 2; 4 answers w by q,
    which only 5 gets and answers by r. 4 and 5 crash: q is lost. r must wait for w at 2."""
    wire = members_of(range(1, 6))
    wire.hold(1, 2, is_over)
    wire.crash(3)
    report(wire, 3)
    wire.recover(3)
    wire.run()
    wire.subscribe(3, T)
    wire.run()
    wire.hold(3, 2, publication_of(3))
    wire.publish(3, T, b"w")
    wire.run()
    wire.hold(4, 1, is_publication)
    wire.publish(4, T, b"q")
    wire.run()
    wire.publish(5, T, b"r")
    wire.run()
    crash_without_a_trace(wire, 4, 5)
    report(wire, 4, 5)
    assert wire.delivered[1] == [(3, b"w"), (5, b"r")]
    assert wire.peers[2]._aftermath.not_over[3] == 0
    wire.release(1, 2)
    wire.run()
    assert 3 not in wire.peers[2]._aftermath.not_over
    wire.publish(1, T, b"look again")
    wire.run()
    wire.release(3, 2)
    wire.run()
    return wire


def test_where_the_next_incarnation_stood_at_a_later_cut_is_not_forgotten_with_the_one_before() -> None:
    wire = crash_is_over_after_a_later_cut()

    assert wire.delivered[2] == [(3, b"w"), (5, b"r"), (1, b"look again")]


def test_if_it_is_forgotten_causal_order_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    cuts_of_the_next_incarnation_are_forgotten(monkeypatch)

    assert crash_is_over_after_a_later_cut().delivered[2][0] == (5, b"r")


@pytest.mark.parametrize("called_over", [0, 1], ids=["the receiver", "another that lives"])
def test_what_was_published_by_one_that_lives_is_not_forgotten_though_a_liar_calls_it_over(
    called_over: int,
) -> None:
    wire = members_of(range(3))
    wire.publish(called_over, T, b"m")
    wire.run()

    wire.receive(0, 2, Over(0, 0, {called_over: 0}))
    wire.publish(0, T, b"n")

    assert wire.started[0][-1].barrier == {called_over: 2}


@pytest.mark.parametrize(
    "source", [0, 2, 3], ids=["its own", "one whose crash is final", "one before the last"]
)
def test_a_joiner_does_not_take_in_what_it_is_handed_of_an_incarnation_that_is_settled(source: int) -> None:
    """0 has come back as incarnation 1. It would keep what comes late, and hand it on in turn."""
    wire = members_of([1, 2], among=range(4))
    wire.crash(3)
    report(wire, 3)
    wire.recover(3)
    wire.run()
    wire.crash(0)
    report(wire, 0)
    wire.recover(0)
    wire.run()
    wire.crash(2)
    report(wire, 2)
    wire.hold(1, 0, lambda message: isinstance(message, Ack))
    wire.subscribe(0, T)
    wire.run()
    wire.crash(3)
    wire.suspect(0, 3, 1)
    assert wire.peers[0].footprint()["crashes_not_final"] == 1
    late = Publication(source, T, 9, Batch(9, (b"late",)), {}, digest=0, stamp=1)
    number = wire.peers[0]._crashes._expected[1]

    wire.receive(0, 1, Flush(0, 1, number, {source: 0}, {T: {source: late}}, 1, {T: (1, 1)}))

    assert wire.peers[0].footprint()["joining_or_leaving"] == 1
    assert wire.peers[0].footprint()["pending"] == 0


def newcomers_have_come_and_gone() -> Wire:
    """Each newcomer publishes; a publication of 2 that names it comes to 0 and 1 when its crash is over. Then 1 leaves
    and comes back."""
    wire = members_of(range(3))
    for newcomer in (8, 9):
        wire.arrive(newcomer, [0])
        wire.run()
        wire.subscribe(newcomer, T)
        wire.run()
        wire.publish(newcomer, T, b"c")
        wire.run()
        for other in (0, 1):
            wire.hold(2, other, publication_of(2))
        wire.publish(2, T, b"m")
        wire.run()
        crash_without_a_trace(wire, newcomer)
        report(wire, newcomer)
        for other in (0, 1):
            wire.release(2, other)
        wire.run()
    wire.unsubscribe(1, T)
    wire.run()
    wire.subscribe(1, T)
    wire.run()
    wire.publish(1, T, b"n")
    wire.run()
    return wire


def test_who_is_over_is_in_no_barrier_though_publications_that_name_it_come_later() -> None:
    wire = newcomers_have_come_and_gone()

    assert wire.started[1][-1].barrier.keys() <= {0, 2}
    for peer in wire.peers.values():
        peer.check()


def test_if_what_they_name_were_kept_barriers_would_grow_with_all_who_have_ever_been(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    barriers_bring_the_dead_back(monkeypatch)

    assert newcomers_have_come_and_gone().started[1][-1].barrier.keys() >= {8, 9}
