"""The audit: what is planted is found, and nothing else; both methods and DuckDB say the same."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import planted
from planted import Finding
from vcubeps.spark.audit import KINDS, METHODS, Audit, TraceError, arrow, audit
from vcubeps.spark.audit.findings import CHECKS, COLUMNS
from vcubeps.spark.audit.index import Index
from vcubeps.spark.audit.trace import check_folders, read

PLACES = tuple(name for name in COLUMNS if name not in ("run", "topic"))


# -- traces by hand ------------------------------------------------------------------------------


def handmade(*, barrier: list[tuple[int, int]] = [], members: tuple[int, ...] = (0, 1)) -> planted.Rows:  # noqa: B006
    """Node 0 publishes ⟨0, 1⟩, then ⟨0, 2⟩ with that barrier; nothing has arrived yet."""
    rows = planted.no_rows()
    for counter, entries in ((1, []), (2, barrier)):
        rows["publications"].append({
            "topic": 0, "source": 0, "counter": counter, "started_ut": 10 * counter,
            "acknowledged_ut": 10 * counter + 5, "barrier": [{"source": s, "counter": c} for s, c in entries],
        })  # fmt: skip
    rows["membership"] = [
        {"topic": 0, "node": node, "joins": True, "time_ut": -1, "asked_ut": -1} for node in members
    ]
    return rows


def delivered(node: int, *counters: int) -> list[planted.Row]:
    """In this order at the node, all from node 0."""
    return [
        {"topic": 0, "node": node, "source": 0, "counter": counter, "position": position}
        for position, counter in enumerate(counters)
    ]


def changed(node: int, joins: bool, asked_ut: int, time_ut: int) -> planted.Row:
    return {"topic": 0, "node": node, "joins": joins, "asked_ut": asked_ut, "time_ut": time_ut}


def corners() -> list[tuple[str, planted.Rows, list[tuple[Any, ...]]]]:
    """What is special, the trace, and its findings."""
    cases: list[tuple[str, planted.Rows, list[tuple[Any, ...]]]] = []

    rows = handmade(barrier=[(0, 1)])
    rows["deliveries"] = delivered(0, 1, 2) + delivered(1, 1, 2, 1)
    cases.append(("the first delivery counts: the second comes too late for nobody", rows,
                  [("duplicate", 1, 0, 1, 2, 0, 1, 0)]))  # fmt: skip

    rows = handmade(barrier=[(0, 1)], members=(0,))
    rows["membership"].append(changed(1, True, 12, 15))
    rows["deliveries"] = delivered(0, 1, 2) + delivered(1, 2)
    cases.append(("a dependency from before a node joined is not missed", rows, []))

    rows = handmade()
    rows["membership"].append(changed(1, False, 15, 30))
    rows["deliveries"] = delivered(0, 1, 2)
    cases.append(("who asks to leave at the moment of the acknowledgement may miss it", rows, []))

    rows = handmade()
    rows["membership"].append(changed(1, False, 16, 30))
    rows["deliveries"] = delivered(0, 1, 2)
    cases.append(("who asks to leave after it may not", rows, [("loss", 1, 0, 1, -1, -1, -1, -1)]))

    rows = handmade()
    rows["membership"].append(changed(1, False, 30, 40))
    rows["deliveries"] = delivered(0, 1, 2)
    rows["receptions"] = delivered(1, 2)
    cases.append(("what waits for its past when a node leaves is not lost to it; what never came is", rows,
                  [("loss", 1, 0, 1, -1, -1, -1, -1)]))  # fmt: skip

    rows = handmade()
    rows["deliveries"] = delivered(0, 1, 2)
    rows["receptions"] = delivered(1, 1, 2)
    cases.append(("what waits for ever at one who stays is lost to it", rows,
                  [("loss", 1, 0, 1, -1, -1, -1, 0), ("loss", 1, 0, 2, -1, -1, -1, 1)]))  # fmt: skip

    rows = handmade()
    rows["membership"] += [changed(1, False, 30, 31), changed(1, True, 32, 33)]
    rows["deliveries"] = delivered(0, 1, 2) + delivered(1, 1)
    rows["receptions"] = delivered(1, 1, 2)
    cases.append(("nor is it lost to a node that comes back", rows, []))

    rows = handmade()
    rows["membership"].append(changed(1, False, 16, 30))
    for publication in rows["publications"]:
        publication["acknowledged_ut"] = -1
    rows["deliveries"] = delivered(0, 1, 2)
    cases.append(("with unknown acknowledgements, who ever leaves is not judged", rows, []))

    rows = handmade(members=(0,))
    rows["membership"] += [changed(1, True, 5, 10), changed(2, True, 5, 9)]
    rows["deliveries"] = delivered(0, 1, 2) + delivered(1, 2) + delivered(2, 2)
    cases.append(
        ("a subscription must be in effect before the start", rows, [("loss", 2, 0, 1, -1, -1, -1, -1)])
    )

    rows = handmade()
    rows["membership"] += [changed(1, False, 3, 6), changed(1, True, 3, 8)]
    rows["deliveries"] = delivered(0, 1, 2) + delivered(1, 1)
    cases.append(("who leaves and rejoins at one moment is a subscriber again", rows,
                  [("loss", 1, 0, 2, -1, -1, -1, -1)]))  # fmt: skip

    rows = handmade()
    rows["membership"] += [changed(1, False, 3, 40), changed(1, True, 4, 8)]
    rows["deliveries"] = delivered(0, 1, 2) + delivered(1, 1)
    cases.append(("a leave that becomes known late ends the subscription before it, not the next", rows,
                  [("loss", 1, 0, 2, -1, -1, -1, -1)]))  # fmt: skip

    rows = handmade()
    rows["deliveries"] = delivered(0, 1, 2) + delivered(1, 1, 2)
    rows["receptions"] = delivered(1, 2, 2, 1, 1)
    cases.append(("equal counters are in order, and each one that is late is a finding", rows,
                  [("fifo", 1, 0, 1, 2, 0, 2, -1), ("fifo", 1, 0, 1, 3, 0, 2, -1)]))  # fmt: skip
    return cases


# -- one trace for all, so that each method has to audit it once -----------------------------------

RANDOM = 150
"""Random runs."""


@dataclass(frozen=True)
class World:
    """Many runs in one trace, and where the runs of each test begin."""

    path: Path
    planted: list[Finding]
    """Run k has what planter k plants; the next two are clean, the second of them with topics."""
    simulations: int
    lost: list[int]
    """`Measurements.lost` of each."""
    srpt: int
    """The first of two runs without acknowledgements, of which the second has a loss."""
    srpt_loss: Finding
    corners: int
    unknown: int
    """A run without membership."""
    random: int
    """Made from the seeds 0, 1, …"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    _, clean = planted.churn("amended")
    topics = {"nodes": (16,), "topics": (4,), "messages": (24,), "distribution": ("zipf",)}
    runs = [deepcopy(clean) for _ in planted.PLANTERS]
    findings = [plant(run) for plant, run in zip(planted.PLANTERS, runs, strict=True)]
    runs += [clean, planted.simulated("many-topics", topics)[1]]
    simulations = len(runs)
    simulated = [planted.churn(protocol, seed) for protocol in ("published", "amended") for seed in range(3)]
    runs += [rows for _, rows in simulated]
    srpt = len(runs)
    chosen = {"nodes": (32,), "churn": (0.25,), "messages": (40,)}
    measurements, rows = planted.simulated("churn", chosen, "srpt-s")
    assert measurements.lost == 0
    assert all(row["acknowledged_ut"] == -1 for row in rows["publications"])
    lossy = deepcopy(rows)
    srpt_loss = planted.plant_loss(lossy)
    runs += [rows, lossy]
    first_corner = len(runs)
    runs += [rows for _, rows, _ in corners()]
    unknown = len(runs)
    runs.append(handmade(members=()) | {"deliveries": delivered(0, 1, 2)})
    random = len(runs)
    runs += [planted.random_rows(seed) for seed in range(RANDOM)]
    path = planted.write(tmp_path_factory.mktemp("world") / "trace", *runs)
    lost = [measurements.lost for measurements, _ in simulated]
    return World(path, findings, simulations, lost, srpt, srpt_loss, first_corner, unknown, random)


class Judged:
    """An audit, and its findings as rows."""

    def __init__(self, result: Audit) -> None:
        self.result = result
        self.rows = sorted(tuple(row) for row in result.findings.select(*COLUMNS).collect())

    def of(self, run: int) -> list[Finding]:
        return [row[2:] for row in self.rows if row[0] == run]


@pytest.fixture(scope="module")
def judged_by_sql(spark: SparkSession, world: World) -> Judged:
    return Judged(audit(spark, str(world.path), "sql"))


@pytest.fixture(scope="module")
def judged_by_arrow(spark: SparkSession, world: World) -> Judged:
    return Judged(audit(spark, str(world.path), "arrow"))


@pytest.fixture(params=METHODS)
def judged(request: pytest.FixtureRequest) -> Judged:
    found: Judged = request.getfixturevalue(f"judged_by_{request.param}")
    return found


def test_each_planted_violation_is_found_and_nothing_else(judged: Judged, world: World) -> None:
    expected = [[finding] for finding in world.planted]

    assert [judged.of(run) for run in range(len(expected) + 2)] == [*expected, [], []]


def test_losses_are_those_that_the_simulator_counts(judged: Judged, world: World) -> None:
    """`Measurements.lost` is what was not received; the audit also finds what was received and never delivered."""
    runs = [judged.of(world.simulations + k) for k in range(6)]
    losses = [[finding for finding in run if finding[0] == "loss"] for run in runs]

    assert [sum(finding[-1] < 0 for finding in run) for run in losses] == world.lost
    assert min(world.lost[:3]) > 0
    assert all(len(run) > lost for run, lost in zip(losses[:3], world.lost[:3], strict=True))
    assert runs[3:] == [[], [], []]


def test_without_acknowledgements_those_are_judged_who_stay(judged: Judged, world: World) -> None:
    assert [judged.of(world.srpt), judged.of(world.srpt + 1)] == [[], [world.srpt_loss]]


def test_corners_are_judged_as_they_should_be(judged: Judged, world: World) -> None:
    for run, (what, _, expected) in enumerate(corners(), world.corners):
        assert judged.of(run) == expected, what


def test_losses_are_not_claimed_where_membership_is_unknown(judged: Judged, world: World) -> None:
    assert judged.of(world.unknown) == []
    assert judged.result.census.topics_without_membership > 0


def test_counts_are_those_of_the_findings(judged: Judged, world: World) -> None:
    kinds = Counter(row[2] for row in judged.rows)

    assert judged.result.counts == kinds
    assert judged.result.held_back == sum(row[2] == "loss" and row[-1] >= 0 for row in judged.rows)
    assert not judged.result.is_clean
    assert judged.result.census.runs == world.random + RANDOM


# -- three ways to the same answer -----------------------------------------------------------------

DUCKDB = """
    WITH entry AS (
        SELECT DISTINCT run, topic, source, counter, e.source AS s, e.counter AS c
        FROM (SELECT *, unnest(barrier) AS e FROM publications)
    ), subscribed AS (
        SELECT j.run, j.topic, j.node, j.time_ut AS since, (
            SELECT min(l.asked_ut) FROM membership l
            WHERE NOT l.joins AND l.run = j.run AND l.topic = j.topic AND l.node = j.node
                AND (l.asked_ut > j.asked_ut OR l.asked_ut = j.asked_ut AND l.time_ut >= j.time_ut)
        ) AS upto
        FROM membership j WHERE joins
    )
    SELECT DISTINCT d.run, d.topic, 'causal', d.node, d.source, d.counter, d.position, f.source, f.counter, f.position
    FROM deliveries d, entry, deliveries f
    WHERE (d.run, d.topic, d.source, d.counter) = (entry.run, entry.topic, entry.source, entry.counter)
        AND (f.run, f.topic, f.node, f.source, f.counter) = (d.run, d.topic, d.node, entry.s, entry.c)
        AND f.position > d.position
        AND d.position = (SELECT min(x.position) FROM deliveries x WHERE
            (x.run, x.topic, x.node, x.source, x.counter) = (d.run, d.topic, d.node, d.source, d.counter))
        AND f.position = (SELECT min(x.position) FROM deliveries x WHERE
            (x.run, x.topic, x.node, x.source, x.counter) = (f.run, f.topic, f.node, f.source, f.counter))
    UNION ALL
    SELECT d.run, d.topic, 'duplicate', d.node, d.source, d.counter, d.position, d.source, d.counter, min(x.position)
    FROM deliveries d JOIN deliveries x USING (run, topic, node, source, counter)
    GROUP BY ALL HAVING min(x.position) < d.position
    UNION ALL
    SELECT run, topic, 'phantom', node, source, counter, position, -1, -1, -1
    FROM deliveries WHERE (run, topic, source, counter) NOT IN (SELECT (run, topic, source, counter) FROM publications)
    UNION ALL
    SELECT DISTINCT p.run, p.topic, 'loss', n.node, p.source, p.counter, -1, -1, -1, coalesce((
            SELECT min(r.position) FROM receptions r WHERE
            (r.run, r.topic, r.node, r.source, r.counter) = (p.run, p.topic, n.node, p.source, p.counter)), -1)
    FROM publications p JOIN subscribed n USING (run, topic)
    WHERE n.since < p.started_ut
        AND (n.upto IS NULL OR (p.acknowledged_ut >= 0 AND n.upto > p.acknowledged_ut
            AND NOT EXISTS (SELECT 1 FROM receptions r WHERE
                (r.run, r.topic, r.node, r.source, r.counter) = (p.run, p.topic, n.node, p.source, p.counter))))
        AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE
            (d.run, d.topic, d.node, d.source, d.counter) = (p.run, p.topic, n.node, p.source, p.counter))
    UNION ALL
    SELECT r.run, r.topic, 'fifo', r.node, r.source, r.counter, r.position, r.source, max(b.counter), -1
    FROM receptions r JOIN receptions b USING (run, topic, node, source)
    WHERE b.position < r.position
    GROUP BY ALL HAVING max(b.counter) > r.counter
"""


@pytest.fixture(scope="module")
def by_duckdb(world: World) -> list[tuple[Any, ...]]:
    database = duckdb.connect(config={"threads": 2})
    for table in planted.TABLES:
        database.execute(f"CREATE TABLE {table} AS FROM '{world.path}/{table}/*.parquet'")
    return sorted(database.execute(DUCKDB).fetchall())


def test_findings_are_those_of_duckdb(judged: Judged, world: World, by_duckdb: list[tuple[Any, ...]]) -> None:
    wrong = sorted(set(judged.rows) ^ set(by_duckdb))

    assert judged.rows == by_duckdb, (
        f"random_rows(seed={wrong[0][0] - world.random if wrong else '?'}): {wrong[:5]}"
    )


def test_random_traces_have_every_kind_of_finding(world: World, by_duckdb: list[tuple[Any, ...]]) -> None:
    """Otherwise the comparison would say little."""
    kinds = Counter(row[2] for row in by_duckdb if row[0] >= world.random)

    assert min(kinds[kind] for kind in KINDS) > 50


def test_methods_compare_the_same_number_of_dependencies(
    judged_by_sql: Judged, judged_by_arrow: Judged
) -> None:
    assert judged_by_sql.result.checks == judged_by_arrow.result.checks > 0


def test_answer_does_not_depend_on_the_number_of_partitions(
    spark: SparkSession, world: World, judged_by_sql: Judged
) -> None:
    """With so few rows to a partition a topic is divided among buckets of nodes."""
    trace = read(spark, str(world.path))
    layout = arrow.divide(trace.census, 2, 400)

    found = arrow.find(trace, 400).where(f"kind != '{CHECKS}'")

    assert min(layout.partitions, layout.buckets) > 1
    assert sorted(tuple(row) for row in found.collect()) == judged_by_sql.rows


def test_findings_are_written_as_a_table(spark: SparkSession, tmp_path: Path) -> None:
    rows = handmade()
    rows["deliveries"] = delivered(0, 1, 2) + delivered(1, 1)
    result = audit(spark, str(planted.write(tmp_path / "trace", rows)))

    result.write(str(tmp_path / "findings"))

    [finding] = pq.read_table(tmp_path / "findings").to_pylist()
    assert tuple(finding) == COLUMNS
    assert (finding["kind"], finding["node"], finding["counter"]) == ("loss", 1, 2)


# -- what cannot be audited ------------------------------------------------------------------------


def rewritten(path: Path, table: str, change: Any) -> None:
    [file] = (path / table).iterdir()
    pq.write_table(change(pq.read_table(file)), file)


def with_column(name: str, kind: pa.DataType, value: Any) -> Any:
    def change(table: pa.Table) -> pa.Table:
        column = pa.array([value] * len(table), kind)
        return table.set_column(table.schema.get_field_index(name), name, column)

    return change


BAD = {
    "column missing": (
        lambda path: rewritten(path, "deliveries", lambda table: table.drop_columns("position")),
        "the table deliveries has no column position, only run, topic, source",
    ),
    "text for numbers": (
        lambda path: rewritten(path, "publications", with_column("counter", pa.string(), "1")),
        "the column counter of the table publications holds string: write whole numbers into it",
    ),
    "fractions": (
        lambda path: rewritten(path, "receptions", with_column("node", pa.float64(), 1.5)),
        "the column node of the table receptions holds double: write whole numbers into it",
    ),
    "number for truth": (
        lambda path: rewritten(path, "membership", with_column("joins", pa.int64(), 1)),
        "the column joins of the table membership holds bigint: write true and false into it",
    ),
    "no barrier": (
        lambda path: rewritten(path, "publications", with_column("barrier", pa.list_(pa.int64()), [1])),
        "the column barrier of the table publications holds array<bigint>: write a list of (source, counter)",
    ),
    "null": (
        lambda path: rewritten(path, "deliveries", with_column("source", pa.int64(), None)),
        "the column source of the table deliveries has nulls: fill them, or leave these rows out",
    ),
    "null in a barrier": (
        lambda path: rewritten(
            path, "publications",
            with_column("barrier", pa.list_(pa.struct([("source", pa.int64()), ("counter", pa.int64())])),
                        [{"source": 1, "counter": None}])),
        "the column barrier of the table publications has nulls",
    ),
    "published twice": (
        lambda path: rewritten(path, "publications", lambda table: pa.concat_tables([table, table])),
        "the table publications has 2 publications more than once",
    ),
    "empty": (
        lambda path: [rewritten(path, table, lambda table: table[:0]) for table in planted.TABLES],
        "the trace is empty, there is nothing to audit: no publication and no delivery",
    ),
    "no file": (
        lambda path: (path / "receptions" / "0.parquet").unlink(),
        "the table receptions has no Parquet file in",
    ),
    "not Parquet": (
        lambda path: (path / "deliveries" / "0.parquet").write_text("nonsense" * 100),
        "deliveries/0.parquet of the table deliveries cannot be read as Parquet",
    ),
    "no folder": (
        lambda path: (path / "membership").rename(path / "members"),
        "is no trace, it has no folder membership: name a directory with the folders publications, receptions",
    ),
}  # fmt: skip


@pytest.mark.parametrize("problem", BAD)
def test_what_cannot_be_audited_is_refused_in_one_sentence(
    problem: str, spark: SparkSession, tmp_path: Path
) -> None:
    spoil, text = BAD[problem]
    rows = handmade()
    rows["deliveries"] = delivered(0, 1, 2)
    rows["receptions"] = delivered(1, 1, 2)
    path = planted.write(tmp_path / "trace", rows)
    spoil(path)

    with pytest.raises(TraceError) as caught:
        audit(spark, str(path))

    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_local_folders_are_looked_at_before_spark_starts(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="is no directory: name one that vcubeps simulate --trace"):
        check_folders(tmp_path / "nothing")
    with pytest.raises(TraceError, match="is no trace, it has no folder publications"):
        check_folders(tmp_path)


def test_any_width_of_whole_numbers_will_do(spark: SparkSession, tmp_path: Path) -> None:
    rows = handmade()
    rows["deliveries"] = delivered(0, 1, 2) + delivered(1, 1)
    path = planted.write(tmp_path / "trace", rows)
    for name, kind in (("node", pa.int8()), ("source", pa.uint64()), ("position", pa.uint32())):
        rewritten(path, "deliveries", lambda table, name=name, kind=kind: table.set_column(
            table.schema.get_field_index(name), name, table[name].cast(kind)))  # fmt: skip

    assert audit(spark, str(path)).counts["loss"] == 1


def test_memory_of_a_worker_is_bounded_by_the_layout() -> None:
    """However large the trace: a partition has at most about so many rows, and a topic is divided accordingly."""
    for deliveries in (10**6, 10**8, 10**10):
        census = arrow.Census(1, 1, 1000, deliveries // 1000, 0, deliveries, deliveries, 0)
        layout = arrow.divide(census, 4, arrow.ROWS_PER_PARTITION)

        assert deliveries / layout.buckets <= arrow.ROWS_PER_PARTITION
        assert layout.partitions == max(4, deliveries // arrow.ROWS_PER_PARTITION)


def test_no_partition_has_two_buckets_of_a_topic() -> None:
    """Each bucket has all publications of its topic: two of them would be judged against each dependency twice."""
    for largest in (0, 1, 10**6, 10**9):
        layout = arrow.divide(arrow.Census(1, 1, 4, 10**6, 0, 3 * 10**6, largest, 0), 4, 10**6)

        assert 1 <= layout.buckets <= layout.partitions


def test_numbers_far_apart_are_found_without_a_table() -> None:
    values = np.array([5, -(2**62), 2**62, 5])
    index = Index(values)

    assert index.of(np.array([2**62, 6, 5, -(2**62), 2**63 - 1, -(2**63)])).tolist() == [2, -1, 1, 0, -1, -1]
    close = Index(np.array([4, 6]))
    assert close.of(np.array([6, 2**63 - 1, -(2**63), 5, 4])).tolist() == [1, -1, -1, -1, 0]
