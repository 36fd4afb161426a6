"""The audit for volume: one shuffle that brings together what belongs together, then numpy.

The rows of the four tables go to partitions by run, topic and a bucket of nodes, so that a partition can be judged by
itself: receptions, deliveries and subscriptions to the bucket of their node, publications and their dependencies,
which are fewer by the number of nodes, to all buckets. There are as many buckets as it takes for a partition to have
about ROWS_PER_PARTITION receptions and deliveries, so a worker's memory does not grow with the trace. They travel as
parcels (`packing`), and the large tables are read by the tasks themselves where that is possible (`files`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial, reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from vcubeps.spark.audit.files import plain_files, read_slices, slices, without_nulls
from vcubeps.spark.audit.findings import CHECKS, COLUMNS, NUMBERS, SCHEMA
from vcubeps.spark.audit.group import Arrivals, Dependencies, Found, Group, Publications, Subscriptions
from vcubeps.spark.audit.index import Ints
from vcubeps.spark.audit.packing import COLUMNS as PACKED_COLUMNS
from vcubeps.spark.audit.packing import SCHEMA as PARCELS
from vcubeps.spark.audit.packing import Division, pack, unpack
from vcubeps.spark.audit.reference import DEPENDENCIES, SUBSCRIPTIONS
from vcubeps.spark.audit.trace import Census, Trace

ROWS_PER_PARTITION = 1_000_000
_ROWS_WORTH_A_TASK = 50_000

_PUBLICATION, _DEPENDENCY, _SUBSCRIPTION, _RECEPTION, _DELIVERY = range(5)
"""Sorts of rows; their columns are the fields of `group.Publications`, `Dependencies` and so on."""

_ARROW = pa.schema([(name, pa.int64() if name in NUMBERS else pa.string()) for name in COLUMNS])


def find(trace: Trace, rows_per_partition: int = ROWS_PER_PARTITION) -> DataFrame:
    """The table of findings, and rows of kind `findings.CHECKS`."""
    division = divide(trace.census, _tasks_wanted(trace.publications), rows_per_partition)
    return (
        reduce(DataFrame.unionByName, _parcels(trace, division))
        .repartitionById(division.partitions, "partition")
        .mapInArrow(_judge, SCHEMA)
    )


def divide(census: Census, tasks: int, rows_per_partition: int) -> Division:
    """As many partitions as there are to be `tasks`, if there is enough to do, and more if there is much.

    >>> divide(Census(1, 1, 64, 1000, 0, 64_000, 64_000, 0), 4, 1_000_000)
    Division(partitions=2, buckets=2)
    >>> divide(Census(50, 50, 64, 50_000, 0, 3_200_000, 64_000, 0), 4, 1_000_000)
    Division(partitions=4, buckets=1)
    """
    rows = census.receptions + census.deliveries
    partitions = max(1, -(-rows // rows_per_partition), min(tasks, -(-rows // _ROWS_WORTH_A_TASK)))
    # A topic is divided as far as the trace is, and never so far that two of its buckets meet in a partition.
    buckets = -(-census.largest_topic * partitions // max(1, rows))
    return Division(partitions, max(1, min(partitions, buckets)))


# -- parcels ---------------------------------------------------------------------------------------


def _parcels(trace: Trace, division: Division) -> Iterator[DataFrame]:
    session = trace.publications.sparkSession
    subscriptions = session.sql(SUBSCRIPTIONS, membership=trace.membership)
    dependencies = session.sql(DEPENDENCIES, publications=trace.publications)
    for sort, frame, columns in (
        (_PUBLICATION, trace.publications, ("source", "counter", "started_ut", "acknowledged_ut")),
        (_DEPENDENCY, dependencies, ("source", "counter", "on_source", "on_counter")),
        (_SUBSCRIPTION, subscriptions, ("node", "joined_ut", "until_ut", "until_ut AS again")),
    ):
        to_all = sort != _SUBSCRIPTION
        work = partial(_pack_rows, division, sort, to_all, None)
        yield frame.selectExpr("run", "topic", *columns).mapInArrow(work, PARCELS)
    yield _parcels_of_arrivals(_RECEPTION, "receptions", trace.receptions, trace.census.receptions, division)
    yield _parcels_of_arrivals(_DELIVERY, "deliveries", trace.deliveries, trace.census.deliveries, division)


def _parcels_of_arrivals(sort: int, table: str, frame: DataFrame, rows: int, division: Division) -> DataFrame:
    columns = ("run", "topic", *Arrivals._fields)
    paths = plain_files(frame, columns)
    if paths is None:
        return frame.select(*columns).mapInArrow(partial(_pack_rows, division, sort, False, table), PARCELS)
    parts = slices(paths, rows)
    # The nodes of a live run write many small files, which are not worth a task each.
    tasks = min(len(parts), max(_tasks_wanted(frame), -(-rows // _ROWS_WORTH_A_TASK)))
    shares = [(k * tasks // len(parts), *part) for k, part in enumerate(parts)]
    listed = frame.sparkSession.createDataFrame(shares, "task INT, path STRING, number INT, count INT")
    work = partial(_pack_files, division, sort, table, columns)
    return listed.repartitionById(tasks, "task").drop("task").mapInArrow(work, PARCELS)


def _tasks_wanted(frame: DataFrame) -> int:
    return int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)


def _pack_rows(
    division: Division, sort: int, to_all: bool, unchecked: str | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """`unchecked` is the table that the rows are of, if it may have nulls."""
    if unchecked is not None:
        batches = (without_nulls(unchecked, batch) for batch in batches)
    return pack(division, sort, to_all=to_all, batches=batches)


def _pack_files(
    division: Division, sort: int, table: str, columns: tuple[str, ...], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    return pack(division, sort, to_all=False, batches=read_slices(table, columns, batches))


# -- in a worker -----------------------------------------------------------------------------------


def _judge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One partition: parcels → findings."""
    subjects: defaultdict[tuple[int, int], defaultdict[int, list[Ints]]]
    subjects = defaultdict(lambda: defaultdict(list))
    for batch in batches:
        sorts, runs, topics, wide = (
            batch.column(name).to_pylist() for name in ("sort", "run", "topic", "is_wide")
        )
        rows = batch.column("rows")
        for k, (sort, run, topic, is_wide) in enumerate(zip(sorts, runs, topics, wide, strict=True)):
            subjects[run, topic][sort].append(unpack(is_wide, rows[k].as_buffer()))
    while subjects:
        (run, topic), parcels = subjects.popitem()
        group = _group(parcels)
        for found in group.findings():
            if len(found.node):
                yield _batch(run, topic, found)
        yield _batch(run, topic, Found(CHECKS, *(np.full(1, -1),) * 3, np.full(1, group.checks)))


def _group(parcels: Mapping[int, list[Ints]]) -> Group:
    def rows(sort: int) -> Iterable[Ints]:
        if sort not in parcels:
            return np.empty((PACKED_COLUMNS, 0), np.int64)
        return np.concatenate(parcels[sort], axis=1, dtype=np.int64)

    node, joined_ut, until_ut, _ = rows(_SUBSCRIPTION)
    return Group(
        Publications(*rows(_PUBLICATION)),
        Dependencies(*rows(_DEPENDENCY)),
        Subscriptions(node, joined_ut, until_ut),
        Arrivals(*rows(_RECEPTION)),
        Arrivals(*rows(_DELIVERY)),
    )


def _batch(run: int, topic: int, found: Found) -> pa.RecordBatch:
    values = {"run": run, "topic": topic, **found._asdict()}
    length = len(found.node)
    columns = [
        pa.array(np.broadcast_to(values[name], length))
        if name in NUMBERS
        else pa.repeat(values[name], length)
        for name in COLUMNS
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW)
