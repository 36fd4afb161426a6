"""Many rows as few: what belongs together, as bytes, so that Spark moves blocks and not rows.

A *parcel* is some rows of one sort, of one topic of one run, for one partition: four columns of whole numbers, one
after the other, of four bytes each where that is enough. Spark spends its time per row and per column; so rows become
parcels before the shuffle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vcubeps.mixing import GOLDEN, mix
from vcubeps.spark.audit.index import Ints

SCHEMA = "partition INT, sort INT, run BIGINT, topic BIGINT, is_wide BOOLEAN, rows BINARY"
_ARROW = pa.schema(
    [("partition", pa.int32()), ("sort", pa.int32()), ("run", pa.int64()), ("topic", pa.int64()),
     ("is_wide", pa.bool_()), ("rows", pa.binary())]
)  # fmt: skip

COLUMNS = 4
"""Of a parcel; more come in: run and topic."""
_ROWS_AT_ONCE = 1 << 17
"""Enough that a parcel is worth its handling, little enough that Java moves it easily."""


@dataclass(frozen=True, slots=True)
class Division:
    """Where rows go."""

    partitions: int
    buckets: int
    """Of the nodes of one topic of a run; at most as many as there are partitions."""

    def partition(self, run: int, topic: int, bucket: int) -> int:
        """Topics begin at different partitions, and the buckets of one go to partitions of their own."""
        return (mix(run, topic) + bucket) % self.partitions

    def bucket(self, node: Ints) -> Ints:
        if self.buckets == 1:
            return np.zeros(len(node), np.int64)
        mixed = node.view(np.uint64) * np.uint64(GOLDEN)
        return ((mixed >> np.uint64(32)) % np.uint64(self.buckets)).astype(np.int64)


def pack(
    division: Division, sort: int, *, to_all: bool, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Rows (run, topic, and four columns, the first of them the node unless they go `to_all` buckets) → parcels."""
    for rows in _gathered(batches):
        parcels = list(_parcels(division, rows, to_all=to_all))
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([parcel[0] for parcel in parcels], pa.int32()),
                pa.array([sort] * len(parcels), pa.int32()),
                *(pa.array([parcel[k] for parcel in parcels], kind)
                  for k, kind in ((1, pa.int64()), (2, pa.int64()), (3, pa.bool_()), (4, pa.binary()))),
            ],
            schema=_ARROW,
        )  # fmt: skip


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[list[Ints]]:
    """Columns of about _ROWS_AT_ONCE rows."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        if count >= _ROWS_AT_ONCE:
            yield _columns(waiting)
            waiting, count = [], 0
    if count:
        yield _columns(waiting)


def _columns(batches: list[pa.RecordBatch]) -> list[Ints]:
    table = pa.Table.from_batches(batches)
    return [table.column(k).to_numpy() for k in range(table.num_columns)]


def _parcels(
    division: Division, columns: list[Ints], *, to_all: bool
) -> Iterator[tuple[int, int, int, bool, bytes]]:
    run, topic, *values = columns
    for one_run, one_topic, rows in _subjects(run, topic):
        of_subject = [column[rows] for column in values]
        if to_all:
            parcel = _bytes(of_subject)
            for bucket in range(division.buckets):
                yield division.partition(one_run, one_topic, bucket), one_run, one_topic, *parcel
            continue
        buckets = division.bucket(of_subject[0])
        # Numbers of 16 bits are sorted in linear time.
        small = buckets.astype(np.uint16) if division.buckets <= 1 << 16 else buckets
        order = np.argsort(small, kind="stable")
        ends = np.cumsum(np.bincount(buckets, minlength=1))
        for bucket in np.flatnonzero(np.bincount(buckets)).tolist():
            chosen = order[ends[bucket - 1] if bucket else 0 : ends[bucket]]
            parcel = _bytes([column[chosen] for column in of_subject])
            yield division.partition(one_run, one_topic, bucket), one_run, one_topic, *parcel


def _subjects(run: Ints, topic: Ints) -> Iterator[tuple[int, int, Ints | slice]]:
    """Run, topic, and which rows are of them."""
    if (run == run[0]).all() and (topic == topic[0]).all():
        yield int(run[0]), int(topic[0]), slice(None)
        return
    order = np.lexsort((topic, run))
    ordered_run, ordered_topic = run[order], topic[order]
    changes = (ordered_run[1:] != ordered_run[:-1]) | (ordered_topic[1:] != ordered_topic[:-1])
    for rows in np.split(order, np.flatnonzero(changes) + 1):
        yield int(run[rows[0]]), int(topic[rows[0]]), rows


def _bytes(columns: list[Ints]) -> tuple[bool, bytes]:
    narrow = [column.astype(np.int32) for column in columns]
    is_wide = any((small != column).any() for small, column in zip(narrow, columns, strict=True))
    return is_wide, b"".join(column.tobytes() for column in (columns if is_wide else narrow))


def unpack(is_wide: bool, rows: memoryview | bytes) -> Ints:
    """A parcel's columns, as the rows of an array.

    >>> is_wide, rows = _bytes([np.array([1, 2]), np.array([3, 4]), np.array([5, 6]), np.array([7, 8])])
    >>> unpack(is_wide, rows).tolist()
    [[1, 2], [3, 4], [5, 6], [7, 8]]
    """
    flat: NDArray[Any] = np.frombuffer(rows, np.int64 if is_wide else np.int32)
    return flat.reshape(COLUMNS, -1)
