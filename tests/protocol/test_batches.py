"""Publications as columns: what leaves together, and what is told of each."""

from __future__ import annotations

import pytest

from vcubeps.protocol.batches import Batch, Waiting, batch_of


def waiting(*sizes: int, first: int = 5, step: int = 1) -> Waiting:
    """Publications of these sizes, that were asked for at 1, 2, 3 …"""
    queue = Waiting()
    for place, size in enumerate(sizes):
        queue.counters.append(first + place * step)
        queue.payloads.append(b"x" * size)
        queue.times_ns.append(place + 1)
        queue.size += size
    return queue


def taken(queue: Waiting, items_max: int, bytes_max: int) -> list[list[int]]:
    """The counters of all batches."""
    batches = []
    while queue:
        batches.append(list(queue.take(items_max, bytes_max).counters))
        queue.check()
    return batches


@pytest.mark.parametrize(
    ("items_max", "bytes_max", "expected"),
    [
        (4, 100, [[5, 6, 7, 8]]),
        (3, 100, [[5, 6, 7], [8]]),
        (1, 100, [[5], [6], [7], [8]]),
        (4, 40, [[5, 6, 7, 8]]),
        (4, 39, [[5, 6, 7], [8]]),
        (4, 20, [[5, 6], [7, 8]]),
        (4, 19, [[5], [6], [7], [8]]),
    ],
)
def test_as_many_leave_together_as_may(items_max: int, bytes_max: int, expected: list[list[int]]) -> None:
    assert taken(waiting(10, 10, 10, 10), items_max, bytes_max) == expected


def test_one_leaves_however_large_it_is() -> None:
    assert taken(waiting(50, 50), 9, 1) == [[5], [6]]


def test_what_has_left_does_not_count_any_more() -> None:
    queue = waiting(10, 20, 30)
    queue.take(1, 100)
    assert (len(queue), queue.size) == (2, 50)
    queue.take(9, 100)
    assert (len(queue), queue.size) == (0, 0)


def test_counters_are_listed_only_where_they_are_not_consecutive() -> None:
    assert waiting(1, 1, 1).take(9, 99).scattered == ()
    assert waiting(1, 1, 1, step=2).take(9, 99).scattered == (5, 7, 9)
    assert waiting(1).take(9, 99).scattered == ()


def test_the_last_counter_is_known_with_and_without_a_list() -> None:
    assert waiting(1, 1, 1).take(9, 99).last == 7
    assert waiting(1, 1, 1, step=2).take(9, 99).last == 9


def test_every_publication_keeps_its_time() -> None:
    queue = waiting(1, 1, 1)
    first, rest = queue.take(1, 99), queue.take(9, 99)
    assert [first.time_ns(0), rest.time_ns(0), rest.time_ns(1)] == [1, 2, 3]


def test_times_that_nobody_has_said_take_no_room() -> None:
    queue = waiting(1, 1)
    queue.times_ns = [0, 0]
    batch = queue.take(9, 99)
    assert batch.times == b""
    assert batch.time_ns(1) == 0


def test_items_are_counters_and_payloads_side_by_side() -> None:
    assert batch_of([(5, b"a"), (8, b"b")]).items == ((5, b"a"), (8, b"b"))
    assert batch_of([(5, b"a"), (6, b"b")]).items == ((5, b"a"), (6, b"b"))


def test_columns_of_different_lengths_are_no_batch() -> None:
    with pytest.raises(ValueError, match="argument 2 is"):
        _ = Batch(1, (b"a", b"b"), (1,)).items
    with pytest.raises(ValueError, match="argument 2 is"):
        batch_of([(1, b"a"), (2,)])  # type: ignore[list-item]


@pytest.mark.parametrize("column", ["counters", "payloads", "times_ns"])
def test_check_finds_columns_of_different_lengths(column: str) -> None:
    queue = waiting(0, 0)
    getattr(queue, column).pop()
    with pytest.raises(AssertionError, match="different lengths"):
        queue.check()


def test_check_finds_a_wrong_size() -> None:
    queue = waiting(10)
    queue.size = 9
    with pytest.raises(AssertionError, match="wrong size"):
        queue.check()
