"""What a node's next publication comes after: what goes into its barrier, and what others stand for; and what waits."""

from __future__ import annotations

from crash_stories import T, members_of
from vcubeps.protocol.batches import Batch
from vcubeps.protocol.causality import HoldBack, Past
from vcubeps.protocol.messages import Barrier, Publication

ME = 0


def past_of(**known: int) -> Past:
    """Of a node that has just joined, and knows of these: `x7=3` is publication 3 of node 7."""
    past = Past({int(node[1:]): counter for node, counter in known.items()}, dict.fromkeys(range(1, 10), 0))
    past.begin()
    return past


def publication(source: int, counter: int, barrier: Barrier) -> Publication:
    return Publication(source, T, counter, Batch(counter, (b"",)), barrier, digest=0, stamp=0)


def deliver(past: Past, source: int, counter: int, barrier: Barrier, *, same_membership: bool) -> None:
    past.deliver(publication(source, counter, barrier), same_membership)
    past.check(ME)


def barrier_for_a_newcomer(past: Past) -> Barrier:
    past.membership_grew()
    return past.publish(ME, 99)


# Among nodes with the same membership.


def test_a_newcomer_is_not_told_again_what_all_members_have_been_told() -> None:
    """2 has delivered what 0 published, and what 1 published after it. That stands for both, whoever joins."""
    wire = members_of(range(3), among=range(4))
    for node in (0, 1):
        wire.publish(node, T, b"m")
        wire.run()

    wire.subscribe(3, T)
    wire.run()
    wire.publish(2, T, b"n")

    assert wire.started[2][0].barrier == {1: 2}


def test_what_is_delivered_after_all_is_not_doubtful_any_more() -> None:
    past = past_of()
    deliver(past, 1, 4, {2: 5}, same_membership=True)
    deliver(past, 2, 5, {}, same_membership=True)
    deliver(past, 1, 6, {1: 4, 2: 5}, same_membership=True)

    assert barrier_for_a_newcomer(past) == {1: 6}


def test_what_is_delivered_later_stands_for_what_was_doubtful_of_its_source() -> None:
    past = past_of()
    deliver(past, 1, 4, {}, same_membership=False)
    deliver(past, 1, 6, {1: 4}, same_membership=True)

    assert barrier_for_a_newcomer(past) == {1: 6}


def test_what_is_delivered_does_not_stand_for_something_later_of_its_source() -> None:
    past = past_of()
    deliver(past, 2, 4, {1: 7}, same_membership=True)
    deliver(past, 1, 6, {}, same_membership=True)

    assert barrier_for_a_newcomer(past) == {1: 7, 2: 4}


def test_a_message_stands_for_no_more_than_it_depends_on() -> None:
    past = past_of()
    deliver(past, 1, 6, {}, same_membership=True)
    deliver(past, 2, 4, {1: 5}, same_membership=True)

    assert past.publish(ME, 9) == {1: 6, 2: 4}


# Among nodes whose memberships differ.


def test_a_newcomer_is_told_what_was_published_by_somebody_with_another_membership() -> None:
    past = past_of()
    deliver(past, 1, 4, {}, same_membership=False)
    deliver(past, 2, 5, {1: 4}, same_membership=True)

    assert barrier_for_a_newcomer(past) == {1: 4, 2: 5}


def test_what_such_a_message_depends_on_is_in_the_next_barrier_beside_it() -> None:
    past = past_of()
    deliver(past, 1, 4, {3: 8}, same_membership=False)

    assert past.publish(ME, 9) == {1: 4, 3: 8}


def test_what_has_been_delivered_with_the_same_membership_is_not_put_into_barriers_again() -> None:
    past = past_of()
    deliver(past, 3, 8, {}, same_membership=True)
    past.publish(ME, 9)
    deliver(past, 1, 4, {3: 8}, same_membership=False)

    assert past.publish(ME, 10) == {ME: 9, 1: 4}


def test_of_several_that_depend_on_what_never_came_the_latest_counts() -> None:
    past = past_of()
    deliver(past, 1, 4, {3: 8}, same_membership=True)
    deliver(past, 2, 5, {3: 6}, same_membership=True)

    assert barrier_for_a_newcomer(past) == {1: 4, 2: 5, 3: 8}


def test_a_doubtful_dependency_is_not_lowered_by_what_its_source_had_published_before() -> None:
    past = past_of()
    deliver(past, 1, 4, {3: 8}, same_membership=False)
    deliver(past, 3, 7, {}, same_membership=False)

    assert barrier_for_a_newcomer(past) == {1: 4, 3: 8}


# What was known before.


def test_what_a_joiner_knew_is_not_lowered_by_a_message_that_depends_on_less() -> None:
    past = past_of(x3=8)
    deliver(past, 1, 4, {3: 6}, same_membership=False)

    assert past.publish(ME, 9) == {1: 4, 3: 8}


def test_all_that_was_known_delivered_or_depended_on_is_known_to_the_next_subscription() -> None:
    past = past_of(x3=8, x4=5)
    deliver(past, 1, 4, {2: 6}, same_membership=True)
    deliver(past, 4, 9, {}, same_membership=True)

    assert past.knowledge() == {1: 4, 2: 6, 3: 8, 4: 9}


# What is held back.


def one_waits() -> HoldBack:
    """A publication of 1 waits for one of 2."""
    held = HoldBack()
    held.append(publication(1, 4, {2: 5}))
    held.block(1, 2)
    return held


def test_only_what_is_first_of_its_source_may_be_next() -> None:
    held = HoldBack()

    assert [held.append(publication(*each, {})) for each in ((1, 4), (1, 5), (2, 4))] == [True, False, True]


def test_nobody_is_woken_twice() -> None:
    held = one_waits()

    assert held.wake_all() == [1]
    assert list(held.wake(2)) == []


def test_nobody_waits_any_more_when_all_has_been_taken_out() -> None:
    held = one_waits()

    assert [message.counter for message in held.clear()] == [4]
    assert list(held.wake(2)) == []
