"""The audit for volume: one shuffle that brings together what belongs together, then numpy.

The rows of the four tables become rows of one shape and go to partitions by run, topic and a bucket of nodes, so
that a partition can be judged by itself: receptions, deliveries and subscriptions to the bucket of their node,
publications and their dependencies, which are fewer by the number of nodes, to all buckets. There are as many
buckets as it takes for a partition to have about ROWS_PER_PARTITION receptions and deliveries, so a worker's
memory does not grow with the trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from vcubeps.spark.audit.findings import CHECKS, COLUMNS, NUMBERS, SCHEMA
from vcubeps.spark.audit.group import Arrivals, Dependencies, Found, Group, Publications, Subscriptions
from vcubeps.spark.audit.index import Index, Ints
from vcubeps.spark.audit.reference import DEPENDENCIES, SUBSCRIPTIONS
from vcubeps.spark.audit.trace import Census, Trace

ROWS_PER_PARTITION = 1_000_000
_ROWS_WORTH_A_TASK = 50_000

_PUBLICATION, _DEPENDENCY, _SUBSCRIPTION, _RECEPTION, _DELIVERY = range(5)
"""Sorts of rows; the columns a, b, c and d hold the fields of `group.Publications`, `Dependencies` and so on."""

_ARROW = pa.schema([(name, pa.int64() if name in NUMBERS else pa.string()) for name in COLUMNS])


def find(trace: Trace, rows_per_partition: int = ROWS_PER_PARTITION) -> DataFrame:
    """The table of findings, and rows of kind `findings.CHECKS`."""
    wanted = int(trace.publications.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    layout = Layout.of(trace.census, wanted, rows_per_partition)
    return (
        _rows(trace, layout)
        .repartitionById(layout.partitions, F.col("partition"))
        .drop("partition")
        .mapInArrow(_judge, SCHEMA)
    )


@dataclass(frozen=True, slots=True)
class Layout:
    partitions: int
    buckets: int
    """Of the nodes of one topic of a run."""

    @classmethod
    def of(cls, census: Census, tasks: int, rows_per_partition: int) -> Layout:
        """As many partitions as there are to be `tasks`, if there is enough to do, and more if there is much.

        >>> Layout.of(Census(1, 1, 64, 1000, 0, 64_000, 64_000, 0), 4, 1_000_000)
        Layout(partitions=2, buckets=2)
        >>> Layout.of(Census(50, 50, 64, 50_000, 0, 3_200_000, 64_000, 0), 4, 1_000_000)
        Layout(partitions=4, buckets=1)
        """
        rows = census.receptions + census.deliveries
        partitions = max(1, -(-rows // rows_per_partition), min(tasks, -(-rows // _ROWS_WORTH_A_TASK)))
        # A topic is divided as far as the trace is. Its buckets must be in partitions of their own, because each
        # has all of the topic's publications: one partition must not have them twice.
        return cls(partitions, max(1, min(partitions, -(-census.largest_topic * partitions // max(1, rows)))))


# -- rows of one shape -----------------------------------------------------------------------------


def _rows(trace: Trace, layout: Layout) -> DataFrame:
    session = trace.publications.sparkSession
    subscriptions = session.sql(SUBSCRIPTIONS, membership=trace.membership)
    dependencies = session.sql(DEPENDENCIES, publications=trace.publications)
    own_bucket = F.pmod(F.xxhash64("node"), F.lit(layout.buckets))
    every_bucket = F.explode(F.sequence(F.lit(0), F.lit(layout.buckets - 1)))
    sorts = (
        (
            _PUBLICATION,
            trace.publications,
            every_bucket,
            ("source", "counter", "started_ut", "acknowledged_ut"),
        ),
        (_DEPENDENCY, dependencies, every_bucket, ("source", "counter", "on_source", "on_counter")),
        (_SUBSCRIPTION, subscriptions, own_bucket, ("node", "joined_ut", "until_ut", "until_ut")),
        (_RECEPTION, trace.receptions, own_bucket, ("node", "source", "counter", "position")),
        (_DELIVERY, trace.deliveries, own_bucket, ("node", "source", "counter", "position")),
    )
    # Topics begin at different partitions, and the buckets of one go to partitions of their own.
    partition = F.pmod(F.xxhash64("run", "topic") + F.col("bucket"), F.lit(layout.partitions)).cast("int")
    return reduce(DataFrame.unionByName, (
        frame.withColumn("bucket", bucket)
        .select(partition.alias("partition"), *_row(sort, columns))
        for sort, frame, bucket, columns in sorts
    ))  # fmt: skip


def _row(sort: int, columns: tuple[str, ...]) -> Iterator[Column]:
    yield F.lit(sort).cast("tinyint").alias("sort")
    yield F.col("run")
    yield F.col("topic")
    for name, column in zip("abcd", columns, strict=True):
        yield F.col(column).alias(name)


# -- in a worker -----------------------------------------------------------------------------------


def _judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One partition."""
    received = list(batches)
    if not received:
        return
    table = pa.Table.from_batches(received).combine_chunks()
    del received
    sort, run, topic, *columns = (table.column(k).to_numpy() for k in range(table.num_columns))
    runs, topics = Index(run), Index(topic)
    subject = runs.of(run) * max(1, len(topics)) + topics.of(topic)
    for one, rows in _divided(subject):
        group = _group(sort[rows], [column[rows] for column in columns])
        of_run, of_topic = int(runs.values[one // len(topics)]), int(topics.values[one % len(topics)])
        for found in group.findings():
            if len(found.node):
                yield _batch(of_run, of_topic, found)
        yield _batch(of_run, of_topic, Found(CHECKS, *(np.full(1, -1),) * 3, np.full(1, group.checks)))


def _divided(values: Ints) -> Iterator[tuple[int, Ints | slice]]:
    """Each distinct value, and where it is."""
    if len(values) and (values == values[0]).all():
        yield int(values[0]), slice(None)
        return
    order = np.argsort(values, kind="stable")
    distinct, begin = np.unique(values[order], return_index=True)
    yield from zip(distinct.tolist(), np.split(order, begin[1:]), strict=True)


def _group(sort: Ints, columns: list[Ints]) -> Group:
    def rows(number: int) -> list[Ints]:
        is_meant = sort == number
        return [column[is_meant] for column in columns]

    return Group(
        Publications(*rows(_PUBLICATION)),
        Dependencies(*rows(_DEPENDENCY)),
        Subscriptions(*rows(_SUBSCRIPTION)[:3]),
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
