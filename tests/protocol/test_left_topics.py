"""What is kept of left topics: enough for the next subscription, and bounded."""

from __future__ import annotations

import pytest

from ablations import merged_knowledge_is_not_corrected
from crash_stories import T, is_subscription, members_of, report
from vcubeps.protocol import left_topics
from vcubeps.protocol.left_topics import LeftTopics, Remains
from wire import Wire

U = "u"


@pytest.fixture
def few_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two left topics are kept one by one."""
    monkeypatch.setattr(left_topics, "MAX_LEFT_TOPICS", 2)


def leave_others(wire: Wire, node: int, *names: str) -> None:
    """Join, publish on and leave these topics, so that there is something to keep of them."""
    for name in names:
        wire.subscribe(node, name)
        wire.run()
        wire.publish(node, name, b"x")
        wire.run()
        wire.unsubscribe(node, name)
        wire.run()


def left_by(wire: Wire, node: int) -> LeftTopics:
    left: LeftTopics = wire.peers[node]._broadcasts.left
    return left


@pytest.mark.usefixtures("few_topics")
def test_the_topics_left_last_are_kept_one_by_one() -> None:
    wire = members_of([1], among=range(2))

    leave_others(wire, 0, "a", "b", "c", "d")

    assert len(left_by(wire, 0)) == 2
    assert left_by(wire, 0).take("d") == Remains({0: 11}, 0, is_exact=True)
    assert left_by(wire, 0).take("c") == Remains({0: 8}, 0, is_exact=True)


@pytest.mark.usefixtures("few_topics")
def test_what_was_kept_of_the_others_is_merged_and_serves_any_topic() -> None:
    wire = members_of([1], among=range(2))

    leave_others(wire, 0, "a", "b", "c", "d")

    assert left_by(wire, 0).take("a") == Remains({0: 5}, 0, is_exact=False)
    assert left_by(wire, 0).take("never heard of") == Remains({0: 5}, 0, is_exact=False)


@pytest.mark.usefixtures("few_topics")
def test_of_what_is_merged_the_largest_counters_are_kept() -> None:
    left = LeftTopics()

    for name, knowledge in (("a", {1: 1, 2: 7, 3: 5}), ("b", {2: 6, 3: 8}), ("c", {9: 9}), ("d", {9: 9})):
        left.put(name, knowledge, 0)

    assert left.take("z").knowledge == {1: 1, 2: 7, 3: 8}


def test_what_is_taken_of_the_merged_ones_is_the_callers() -> None:
    left = LeftTopics()

    left.take("a").knowledge[3] = 7

    assert left.take("a").knowledge == {}


@pytest.mark.usefixtures("few_topics")
def test_the_last_leave_of_a_subscription_that_was_sent_twice_is_merged_too() -> None:
    left = LeftTopics()

    for name, gone in (("a", 7), ("b", 5), ("c", 0), ("d", 9)):
        left.put(name, {}, gone)
    left.put("e", {1: 1}, 0)

    assert [left.gone(name) for name in ("a", "b", "d", "e", "z")] == [7, 7, 9, 0, 7]


def test_nothing_is_put_of_a_topic_of_which_there_is_nothing_to_keep() -> None:
    left = LeftTopics()

    left.put("a", {}, 0)

    assert len(left) == 0


@pytest.mark.usefixtures("few_topics")
def test_of_a_crash_that_is_over_nothing_is_kept_of_left_topics_either() -> None:
    wire = members_of(range(3), among=range(4))
    for topic in (U, "v", "w"):
        for node in (0, 3):
            wire.subscribe(node, topic)
            wire.run()
        wire.publish(3, topic, b"m")
        wire.run()
        wire.unsubscribe(0, topic)
        wire.run()
    assert [3 in left_by(wire, 0).take(name).knowledge for name in (U, "v", "w")] == [True] * 3
    left_by(wire, 0).put("v", {3: 4}, 0)

    wire.crash(3)
    report(wire, 3)

    assert len(left_by(wire, 0)) == 0
    assert left_by(wire, 0).take(U).knowledge == {}


def test_what_the_next_incarnation_published_is_kept_when_the_crash_is_over() -> None:
    left = LeftTopics()
    left.put("a", {3: (1 << 40) + 5, 2: 6}, 0)

    left.forget({3: 0, 2: 0})

    assert left.take("a").knowledge == {3: (1 << 40) + 5}


def test_the_last_leave_of_a_subscription_that_was_sent_twice_is_kept_when_nothing_else_is_any_more() -> None:
    left = LeftTopics()
    left.put("a", {3: 4}, 7)

    left.forget({3: 0})

    assert left.gone("a") == 7


def joiner_knows_more_than_was_published_here() -> Wire:
    """1 has published much on another topic, which 0 was in and has left long ago. Now 0 joins 1 and 2 and publishes:
    2 must not wait for what 1 never published here."""
    wire = members_of([1, 2], among=range(3))
    for node in (0, 1):
        wire.subscribe(node, U)
        wire.run()
    for payload in (b"1", b"2", b"3"):
        wire.publish(1, U, payload)
        wire.run()
    wire.unsubscribe(0, U)
    wire.run()
    leave_others(wire, 0, "a", "b")
    assert left_by(wire, 0).take(T).knowledge[1] > 2
    wire.subscribe(0, T)
    wire.run()
    wire.publish(0, T, b"m")
    wire.run()
    return wire


@pytest.mark.usefixtures("few_topics")
def test_nobody_waits_for_what_was_published_on_another_topic() -> None:
    wire = joiner_knows_more_than_was_published_here()

    assert wire.started[0][-1].barrier == {}
    assert wire.delivered[2] == [(0, b"m")]


@pytest.mark.usefixtures("few_topics")
def test_without_the_correction_it_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    merged_knowledge_is_not_corrected(monkeypatch)

    wire = joiner_knows_more_than_was_published_here()

    assert wire.delivered[2] == []
    assert wire.peers[2].footprint()["pending"] == 1


@pytest.mark.usefixtures("few_topics")
def test_who_has_left_many_topics_is_told_what_was_published_on_the_one_that_it_joins() -> None:
    wire = members_of([1, 2], among=range(3))
    wire.publish(1, T, b"m")
    wire.run()
    leave_others(wire, 0, "a", "b", "c")
    assert not left_by(wire, 0).take(T).is_exact

    wire.subscribe(0, T)
    wire.run()
    wire.publish(0, T, b"n")

    assert wire.started[0][-1].barrier == {1: 2}


@pytest.mark.usefixtures("few_topics")
def test_what_was_delivered_in_a_topic_left_long_ago_is_in_the_barrier_after_the_rejoin() -> None:
    """Also if its source, which would otherwise tell, has left meanwhile."""
    wire = members_of(range(3))
    wire.publish(1, T, b"m")
    wire.run()
    for node in (0, 1):
        wire.unsubscribe(node, T)
        wire.run()
    leave_others(wire, 0, "a", "b")

    wire.subscribe(0, T)
    wire.run()
    wire.publish(0, T, b"n")

    assert wire.started[0][-1].barrier[1] == 2


@pytest.mark.usefixtures("few_topics")
def test_who_has_forgotten_what_it_published_here_tells_joiners_its_subscription() -> None:
    """Up to there nothing comes, and more than it published only makes a message wait for what comes anyway."""
    wire = members_of([0, 1], among=range(3))
    wire.publish(0, T, b"m")
    wire.run()
    wire.unsubscribe(0, T)
    wire.run()
    leave_others(wire, 0, "a", "b")
    wire.subscribe(0, T)
    wire.run()
    subscription = wire.peers[0].members(T)[0]

    wire.subscribe(2, T)
    wire.run()
    wire.publish(2, T, b"n")
    wire.run()

    assert wire.started[2][0].barrier == {0: subscription}
    assert wire.delivered[1] == [(0, b"m"), (2, b"n")]


def subscription_was_sent_twice() -> Wire:
    """4 passes the SUB of 0 on to 6, which crashes, and so to 7 again. A stale copy may turn up later."""
    wire = members_of([1], among=range(8))
    wire.hold(6, 7, is_subscription)
    wire.subscribe(0, T)
    wire.run()
    wire.crash(6)
    report(wire, 6)
    assert (0, T) in wire.subscribed
    return wire


def test_a_relay_that_had_to_send_a_subscription_again_says_so_to_the_joiner() -> None:
    """So that the joiner remembers its leave."""
    wire = subscription_was_sent_twice()

    wire.unsubscribe(0, T)
    wire.run()

    assert left_by(wire, 0).gone(T) == 2


def test_that_a_subscription_was_sent_twice_is_remembered_after_later_ones_too() -> None:
    wire = subscription_was_sent_twice()
    wire.unsubscribe(0, T)
    wire.run()

    wire.subscribe(0, T)
    wire.run()
    wire.unsubscribe(0, T)
    wire.run()

    assert left_by(wire, 0).gone(T) == 4


def test_who_only_reports_that_it_is_gone_adds_nothing_to_barriers() -> None:
    wire = subscription_was_sent_twice()
    wire.unsubscribe(0, T)
    wire.run()

    wire.subscribe(2, T)
    wire.run()
    wire.publish(2, T, b"m")

    assert wire.started[2][0].barrier == {}
