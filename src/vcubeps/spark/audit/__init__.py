"""Audit of a trace: is what happened in causal order, without duplicates, phantoms and losses?

A trace is a directory with the tables `publications`, `receptions`, `deliveries` and `membership` (`vcubeps.tables`),
written by the simulator or by nodes. Works on DataFrames only, so it runs on Spark Connect too; nothing comes to
the driver but counts and a few examples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from vcubeps.spark.audit import arrow, reference
from vcubeps.spark.audit.errors import TraceError
from vcubeps.spark.audit.findings import CHECKS, COLUMNS, KINDS
from vcubeps.spark.audit.trace import Census, Trace, read, told_in_a_sentence

__all__ = ["KINDS", "METHODS", "Audit", "Census", "TraceError", "audit"]

Method: TypeAlias = Literal["arrow", "sql"]
_UNJUDGED = "unjudged"
"""In the column `kind`: see `Audit.unjudged`."""
METHODS = {"arrow": arrow.find, "sql": reference.find}


@dataclass(frozen=True, slots=True)
class Audit:
    """What was found; the findings stay in Spark."""

    census: Census
    checks: int
    """Dependencies compared: of each delivery, the entries of its barrier."""
    counts: Mapping[str, int]
    """Kind → findings; every kind is there."""
    held_back: int
    """Losses of what the node had received, but never delivered."""
    unjudged: int
    """Deliveries of what their source, which was killed or still runs, has not written down: no phantoms."""
    findings: DataFrame

    @property
    def is_clean(self) -> bool:
        return not any(self.counts.values())

    def examples(self, kind: str, count: int) -> list[dict[str, Any]]:
        """The first ones, by run, topic, node and position."""
        first = self.findings.where(F.col("kind") == kind).orderBy(
            "run", "topic", "node", "position", "source", "counter", "other_position", "other_source"
        )
        with told_in_a_sentence():
            return [row.asDict() for row in first.limit(count).collect()]

    def write(self, path: str) -> None:
        """All findings as Parquet into a directory that does not exist yet."""
        with told_in_a_sentence():
            # One file: there are few, or else what matters is that there are many.
            self.findings.coalesce(1).write.mode("error").parquet(path)


def audit(session: SparkSession, directory: str, method: Method = "arrow") -> Audit:
    """`directory` is a path as Spark understands it; raises TraceError if it cannot be audited."""
    trace = read(session, directory)
    # Counted, shown and written: they are found once.
    found = _without_unjudged(METHODS[method](trace), trace).select(*COLUMNS).persist()
    is_held_back = (F.col("kind") == "loss") & (F.col("other_position") >= 0)
    counted = found.groupBy("kind").agg(
        F.count("*").alias("findings"),
        F.sum(F.when(F.col("kind") == CHECKS, F.col("position"))).alias("checks"),
        F.count_if(is_held_back).alias("held_back"),
    )
    with told_in_a_sentence():
        rows = counted.collect()
    by_kind = {row["kind"]: row for row in rows}
    return Audit(
        census=trace.census,
        checks=by_kind[CHECKS]["checks"] if CHECKS in by_kind else 0,
        counts={kind: by_kind[kind]["findings"] if kind in by_kind else 0 for kind in KINDS},
        held_back=sum(row["held_back"] for row in rows),
        unjudged=by_kind[_UNJUDGED]["findings"] if _UNJUDGED in by_kind else 0,
        findings=found.where(~F.col("kind").isin(CHECKS, _UNJUDGED)),
    )


def _without_unjudged(found: DataFrame, trace: Trace) -> DataFrame:
    """Phantoms of a source that may have published more than it wrote down are none: they get another kind."""
    if trace.unwritten is None:
        return found
    first = trace.unwritten.groupBy("run", "source").agg(F.min("counter").alias("first_unwritten"))
    is_unjudged = (F.col("kind") == "phantom") & (F.col("counter") >= F.col("first_unwritten"))
    kind = F.when(is_unjudged, F.lit(_UNJUDGED)).otherwise(F.col("kind"))
    return found.join(F.broadcast(first), ["run", "source"], "left").withColumn("kind", kind)
