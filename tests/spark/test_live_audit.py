"""The audit of live nodes: clean as it is, and what is damaged afterwards is found."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import live_runs
from vcubeps.net.trace import topic_number
from vcubeps.spark.audit import METHODS, audit

ROOM = topic_number("room")
Row = dict[str, Any]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("live") / "trace"
    live_runs.discuss(directory)
    return directory


@pytest.mark.parametrize("method", METHODS)
def test_live_run_with_joins_and_leaves_is_clean(method: Any, live: Path, spark: SparkSession) -> None:
    result = audit(spark, str(live), method)

    assert dict(result.counts) == dict.fromkeys(result.counts, 0)
    assert (result.census.runs, result.census.topics, result.census.nodes) == (1, 2, 4)
    assert result.census.topics_without_membership == 0
    assert result.checks > result.census.publications


def changed(live: Path, copy: Path, table: str, change: Callable[[list[Row]], None]) -> Path:
    """The trace with `change` made to the rows of one table."""
    if not copy.exists():
        shutil.copytree(live, copy)
    rows = pq.read_table(copy / table).to_pylist()
    schema = pq.read_schema(copy / table / "empty.parquet")
    change(rows)
    shutil.rmtree(copy / table)
    (copy / table).mkdir()
    pq.write_table(pa.Table.from_pylist(rows, schema), copy / table / "0.parquet")
    return copy


def at(rows: list[Row], node: int, source: int) -> list[Row]:
    """What `node` has of `source` on "room", in order."""
    found = [row for row in rows if (row["topic"], row["node"], row["source"]) == (ROOM, node, source)]
    return sorted(found, key=lambda row: row["position"])


@pytest.mark.parametrize("method", METHODS)
def test_message_that_never_came_is_found(
    method: Any, live: Path, spark: SparkSession, tmp_path: Path
) -> None:
    def lose(rows: list[Row]) -> None:
        rows.remove(at(rows, 2, 0)[1])

    changed(live, tmp_path / "trace", "deliveries", lose)
    result = audit(spark, str(changed(live, tmp_path / "trace", "receptions", lose)), method)

    assert {kind: count for kind, count in result.counts.items() if count} == {"loss": 1}
    [finding] = result.examples("loss", 2)
    assert (finding["node"], finding["source"], finding["other_position"]) == (2, 0, -1)


@pytest.mark.parametrize("method", METHODS)
def test_messages_in_the_wrong_order_are_found(
    method: Any, live: Path, spark: SparkSession, tmp_path: Path
) -> None:
    """Node 1 answered node 0: node 2 is made to deliver the answer first."""

    def swap(rows: list[Row]) -> None:
        question, answer = at(rows, 2, 0)[0], at(rows, 2, 1)[0]
        question["position"], answer["position"] = answer["position"], question["position"]

    result = audit(spark, str(changed(live, tmp_path / "trace", "deliveries", swap)), method)

    assert {kind: count for kind, count in result.counts.items() if count} == {"causal": 1}
    [finding] = result.examples("causal", 2)
    assert (finding["node"], finding["source"], finding["other_source"]) == (2, 1, 0)


def test_delivery_of_what_was_not_published_is_found(live: Path, spark: SparkSession, tmp_path: Path) -> None:
    def forget(rows: list[Row]) -> None:
        rows.remove(next(row for row in rows if (row["topic"], row["source"]) == (ROOM, 3)))

    result = audit(spark, str(changed(live, tmp_path / "trace", "publications", forget)))

    assert {kind: count for kind, count in result.counts.items() if count} == {"phantom": 4}
    assert result.unjudged == 0


@pytest.mark.parametrize("method", METHODS)
def test_what_a_killed_node_has_not_written_down_is_no_phantom(
    method: Any, live: Path, spark: SparkSession, tmp_path: Path
) -> None:
    """Of node 3 two publications are missing, and it had said that they might; of node 0 one, and it had not."""
    gone: list[Row] = []

    def forget(rows: list[Row]) -> None:
        of_3 = sorted((row for row in rows if row["source"] == 3), key=lambda row: row["counter"])
        gone.extend([*of_3[-2:], next(row for row in rows if (row["topic"], row["source"]) == (ROOM, 0))])
        for row in gone:
            rows.remove(row)

    path = changed(live, tmp_path / "trace", "publications", forget)
    killed = {"run": 0, "source": 3, "counter": gone[0]["counter"]}
    changed(live, path, "unwritten", lambda rows: rows.append(killed))
    result = audit(spark, str(path), method)

    assert {kind: count for kind, count in result.counts.items() if count} == {"phantom": 3}
    assert {row["source"] for row in result.examples("phantom", 9)} == {0}
    assert result.unjudged == 8
    assert sorted({row["kind"] for row in result.findings.collect()}) == ["phantom"]
