"""Sweeps: the same answer as without Spark, nothing twice, nothing half-written, and on from where they stopped."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from vcubeps.provenance import git_revision, package_version
from vcubeps.sim.identity import run_number
from vcubeps.sim.measures import sparse
from vcubeps.sim.scenarios import SRPT_S, VCUBE, Point, Run, points, run_seed
from vcubeps.sim.simulation import simulate
from vcubeps.spark import sweep as sweeping
from vcubeps.spark.errors import SparkFailed
from vcubeps.spark.store import Store, StoreError
from vcubeps.spark.sweep import Progress, make_tasks, sweep


def some_points() -> list[Point]:
    return points("one-publisher", {"nodes": (16, 32), "subscribers": (0.5,)}) + points(
        "churn",
        {"nodes": (32,), "churn": (0.25,), "protocol": ("published",), "messages": (8,)},
        (VCUBE, SRPT_S),
    )


def some_runs(count: int = 3) -> list[Run]:
    return [Run(point, run_seed(1, index)) for point in some_points() for index in range(count)]


def histograms(session: SparkSession, store: Store) -> dict[int, dict[str, tuple[list[int], list[int]]]]:
    """All measurements of a store. Fails if one is there twice."""
    found: dict[int, dict[str, tuple[list[int], list[int]]]] = {}
    for row in store.read(session, "measurements").collect():
        of_run = found.setdefault(row.run, {})
        assert row.name not in of_run
        of_run[row.name] = (row["values"], row["counts"])
    return found


def simulated_here(runs: list[Run]) -> Mapping[int, object]:
    return {
        run_number(run): {
            name: (values.tolist(), counts.tolist())
            for name, (values, counts) in sparse(simulate(run)[0]).items()
        }
        for run in runs
    }


def test_answer_is_that_of_the_kernels_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))

    assert sweep(spark, store, some_runs()) == len(some_runs())

    assert histograms(spark, store) == simulated_here(some_runs())


def test_only_what_is_missing_is_run(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    few, many = some_runs(1), some_runs(3)

    assert sweep(spark, store, few) == len(few)
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "store").rglob("*.parquet")}
    assert sweep(spark, store, many) == len(many) - len(few)
    assert sweep(spark, store, many) == 0

    assert {path: path.stat().st_mtime_ns for path in files} == files
    assert histograms(spark, store) == simulated_here(many)


def test_a_run_asked_for_twice_is_run_once(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))

    assert sweep(spark, store, some_runs(1) * 2) == len(some_runs(1))

    assert set(histograms(spark, store)) == set(map(run_number, some_runs(1)))


def test_runs_carry_their_provenance(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    sweep(spark, store, some_runs(1))

    rows = {row.run: row for row in store.read(spark, "runs").collect()}

    for run in some_runs(1):
        row = rows[run_number(run)]
        assert (row.scenario, row.system, row.seed) == (run.point.scenario, run.point.system, run.seed)
        assert json.loads(row.parameters) == run.point.parameters
        assert (row.version, row.revision) == (package_version(), git_revision())


def test_progress_tells_runs_and_events_and_ends_complete(spark: SparkSession, tmp_path: Path) -> None:
    seen: list[Progress] = []
    store = Store(str(tmp_path / "store"))

    sweep(spark, store, some_runs(), seen.append)

    events = sum(simulate(run)[0].events for run in some_runs())
    last = seen[-1]
    assert (last.runs, last.all_runs, last.events) == (len(some_runs()), len(some_runs()), events)
    assert last.share == pytest.approx(1)
    assert last.seconds_left == pytest.approx(0, abs=1e-6)


KILLED = """
import sys
from vcubeps.sim.scenarios import Run, points, run_seed
from vcubeps.spark import sweep as sweeping
from vcubeps.spark.session import Wanted, spark_session
from vcubeps.spark.store import Store

sweeping.TASK_SECONDS = 0.0  # a task for each run
[point] = points("many-publishers", {"nodes": (2048,), "publishers": (1.0,), "propagation_ut": (100,)}, ("srpt-s",))
with spark_session(Wanted(master="local[1]", memory="1g")) as session:
    sweeping.sweep(session, Store(sys.argv[1]), [Run(point, run_seed(1, index)) for index in range(40)])
"""


def test_killed_sweep_goes_on_where_it_stopped(spark: SparkSession, tmp_path: Path) -> None:
    """SIGKILL to the driver and to Java, once the first task has ended."""
    place = tmp_path / "store"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(place)], start_new_session=True)
    deadline = time.monotonic() + 120
    while not list(place.glob("measurements/*/part-*.parquet")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()

    store = Store(str(place))
    [point] = points(
        "many-publishers", {"nodes": (2048,), "publishers": (1.0,), "propagation_ut": (100,)}, (SRPT_S,)
    )
    runs = [Run(point, run_seed(1, index)) for index in range(40)]
    kept = histograms(spark, store)
    assert 0 < len(kept) < len(runs)

    assert sweep(spark, store, runs) == len(runs) - len(kept)

    assert set(histograms(spark, store)) == set(map(run_number, runs))
    assert histograms(spark, store).items() >= kept.items()


def test_half_written_files_are_never_read(spark: SparkSession, tmp_path: Path) -> None:
    """What a task is writing lies under _temporary until it is whole."""
    store = Store(str(tmp_path / "store"))
    sweep(spark, store, some_runs(1))
    half = tmp_path / "store/measurements/sweep=killed/_temporary/0/_temporary/attempt_1"
    half.mkdir(parents=True)
    (half / "part-00000.parquet").write_bytes(b"PAR1 and then nothing")

    assert set(histograms(spark, store)) == set(map(run_number, some_runs(1)))
    assert sweep(spark, store, some_runs(1)) == 0


def test_store_that_cannot_be_marked_leaves_nothing_behind(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, text: str) -> int:
        self.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    store = Store(str(tmp_path / "store"))
    with pytest.raises(StoreError) as caught:
        sweep(spark, store, some_runs(1))
    monkeypatch.undo()

    assert "No space left on device" in str(caught.value)
    assert [path.name for path in (tmp_path / "store").iterdir()] == [".lock"]
    assert sweep(spark, store, some_runs(1)) == len(some_runs(1))


def test_broken_file_is_named(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    sweep(spark, store, some_runs(1))
    file = next((tmp_path / "store/measurements").glob("*/part-*.parquet"))
    file.write_bytes(file.read_bytes()[:100])
    (file.parent / f".{file.name}.crc").unlink()

    with pytest.raises(SparkFailed) as caught:
        sweep(spark, store, some_runs(2))

    assert file.name in str(caught.value)
    assert "remove it" in str(caught.value)


def test_leftovers_of_killed_sweeps_go_when_they_are_old(spark: SparkSession, tmp_path: Path) -> None:
    """A fresh one may belong to a Spark Connect server that goes on without its client."""
    store = Store(str(tmp_path / "store"))
    fresh, old = (tmp_path / f"store/measurements/sweep={name}/_temporary" for name in ("fresh", "old"))
    sweep(spark, store, some_runs(1))
    for leftover in (fresh, old):
        leftover.mkdir(parents=True)
    os.utime(old, (0, 0))

    sweep(spark, store, some_runs(1))

    assert (fresh.exists(), old.exists()) == (True, False)


def test_results_of_other_code_are_not_taken_for_ours(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And workers with other code are refused."""
    store = Store(str(tmp_path / "store"))
    sweep(spark, store, some_runs(1))
    monkeypatch.setattr("vcubeps.sim.identity.simulator_fingerprint", lambda: "another")
    monkeypatch.setattr(sweeping, "simulator_fingerprint", lambda: "another")

    with pytest.raises(SparkFailed) as caught:
        sweep(spark, store, some_runs(1))

    assert str(caught.value).startswith("the vcubeps of Spark's workers is not the one that asks")


def test_two_sweeps_do_not_write_at_once(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))

    with store.writing(), pytest.raises(StoreError) as caught:
        sweep(spark, store, some_runs(1))

    assert "another sweep is writing" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("thesis.tex", "precious", "holds something else"),
        ("store.json", '{"format": 99}', "is not of this version"),
    ],
)
def test_directory_with_something_else_is_refused_and_left_alone(
    name: str, content: str, text: str, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)

    with pytest.raises(StoreError) as caught:
        sweep(spark, Store(str(tmp_path)), some_runs(1))

    assert text in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == content


def test_longest_runs_come_first_and_alone() -> None:
    seconds = {number: float(number) / 10 for number in range(1, 30)}

    tasks = make_tasks(seconds)

    assert Counter(number for task in tasks for number in task) == Counter(seconds.keys())
    work = [sum(seconds[number] for number in task) for task in tasks]
    assert work[0] == max(seconds.values())
    assert all(len(task) == 1 for task in tasks if seconds[task[0]] >= sweeping.TASK_SECONDS)
    assert max(work[len(work) // 2 :]) < 2 * sweeping.TASK_SECONDS
    firsts = [seconds[task[0]] for task in tasks]
    assert firsts == sorted(firsts, reverse=True)


def test_estimates_of_cost_order_runs_as_their_events_do() -> None:
    """Only roughly: what matters is that a run of seconds is not taken for one of milliseconds."""
    from vcubeps.sim.cost import estimated_seconds  # noqa: PLC0415

    sizes = points("many-publishers", {"nodes": (16, 64, 256), "propagation_ut": (100,)}, (SRPT_S,))
    events = [simulate(Run(point, 1))[0].events for point in sizes]

    assert np.argsort(events).tolist() == np.argsort([estimated_seconds(point) for point in sizes]).tolist()
