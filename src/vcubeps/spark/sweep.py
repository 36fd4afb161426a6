"""A sweep: runs in, their measurements out, the kernels inside Spark's tasks.

A run's answer depends on the run alone, so it does not matter which task has it, on which machine, or in which
attempt. Long runs have a task of their own and come first; short ones share one. A task's results are in the store
as soon as it ends, so a sweep that is killed goes on where it stopped.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from vcubeps.arrow_schemas import arrow_schema
from vcubeps.provenance import git_revision, package_version
from vcubeps.sim.cost import estimated_seconds
from vcubeps.sim.identity import parameters_text, run_number, simulator_fingerprint
from vcubeps.sim.measures import sparse
from vcubeps.sim.scenarios import Point, Run
from vcubeps.sim.simulation import simulate
from vcubeps.spark.errors import SparkFailed, failure
from vcubeps.spark.schemas import spark_schema
from vcubeps.spark.store import Store

TASK_SECONDS = 1.0
"""Short runs share a task of about so much work: enough to be worth its start, little enough to lose by a kill."""

_WATCH_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a sweep is."""

    runs: int
    all_runs: int
    events: int
    """Messages that arrived in the runs done."""
    seconds: float
    """Since the sweep began."""
    share: float
    """Of the work, as far as it can be estimated."""

    @property
    def seconds_left(self) -> float | None:
        return self.seconds * (1 - self.share) / self.share if self.share else None


def sweep(
    session: SparkSession,
    store: Store,
    runs: Iterable[Run],
    watch: Callable[[Progress], None] | None = None,
) -> int:
    """Simulate those runs whose results the store does not have; how many these were. Raises SparkFailed."""
    wanted = {run_number(run): run for run in runs}
    with store.writing():
        try:
            missing = {number: wanted[number] for number in _missing(session, store, wanted)}
            if missing:
                _run(session, store, missing, watch)
        except Exception as error:
            raise failure(error, f"the sweep; what it has finished is kept in {store.address}") from error
    return len(missing)


def _run(
    session: SparkSession, store: Store, runs: Mapping[int, Run], watch: Callable[[Progress], None] | None
) -> None:
    name = uuid.uuid4().hex
    tasks = make_tasks({number: estimated_seconds(run.point) for number, run in runs.items()})
    rows = session.createDataFrame(_as_table(runs, tasks))
    rows.drop("task").coalesce(1).write.parquet(store.place("runs", name))
    work = partial(_simulate_all, simulator_fingerprint())
    results = rows.repartitionById(len(tasks), "task").mapInArrow(work, spark_schema("measurements"))
    # Version 2 of the committer puts a task's file in its place when the task ends, not when all have.
    writer = results.write.option("mapreduce.fileoutputcommitter.algorithm.version", "2")
    with _watched(store, name, runs, watch):
        writer.parquet(store.place("measurements", name))


def origins(session: SparkSession, store: Store, runs: Iterable[Run]) -> list[str]:
    """Which versions of the package, at which revisions, simulated these runs. Raises SparkFailed."""
    try:
        wanted = _as_frame(session, {*map(run_number, runs)})
        there = store.read(session, "measurements").where("name = 'events'").select("run", "sweep")
        planned = store.read(session, "runs").select("run", "sweep", "version", "revision")
        rows = (
            wanted.join(there, "run")
            .join(planned, ["run", "sweep"])
            .select("version", "revision")
            .distinct()
            .collect()
        )
    except Exception as error:
        raise failure(error, f"reading {store.address}") from error
    return sorted(f"{row.version} at {row.revision}" for row in rows)


def make_tasks(seconds: Mapping[int, float]) -> list[list[int]]:
    """Runs, grouped: the longest first, each task about TASK_SECONDS of work or a single run.

    >>> make_tasks({7: 0.6, 8: 9.0, 9: 0.5, 10: 0.1})
    [[8], [7, 9], [10]]
    """
    tasks: list[list[int]] = []
    filled = TASK_SECONDS
    for number in sorted(seconds, key=lambda number: (-seconds[number], number)):
        if filled >= TASK_SECONDS:
            tasks.append([])
            filled = 0.0
        tasks[-1].append(number)
        filled += seconds[number]
    return tasks


def _as_frame(session: SparkSession, numbers: Iterable[int]) -> DataFrame:
    return session.createDataFrame(pa.table({"run": pa.array(numbers, pa.int64())}))


def _missing(session: SparkSession, store: Store, numbers: Iterable[int]) -> list[int]:
    wanted = _as_frame(session, numbers)
    there = store.read(session, "measurements").where("name = 'events'").select("run")
    return [row.run for row in wanted.join(there, "run", "left_anti").collect()]


def _as_table(runs: Mapping[int, Run], tasks: Sequence[Sequence[int]]) -> pa.Table:
    rows = [
        {
            "run": number, "task": task, "scenario": runs[number].point.scenario,
            "system": runs[number].point.system, "seed": runs[number].seed,
            "parameters": parameters_text(runs[number].point.parameters),
            "version": package_version(), "revision": git_revision(),
        }
        for task, numbers in enumerate(tasks)
        for number in numbers
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, arrow_schema("runs").append(pa.field("task", pa.int32())))


# Inside Spark's tasks.


def _simulate_all(fingerprint: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of runs → rows of measurements, one batch per run."""
    if simulator_fingerprint() != fingerprint:
        raise SparkFailed(
            "the vcubeps of Spark's workers is not the one that asks: install the same version on all machines"
        )
    for batch in batches:
        for row in batch.to_pylist():
            point = Point(row["scenario"], row["system"], json.loads(row["parameters"]))
            measurements, _ = simulate(Run(point, row["seed"]))
            histograms = sparse(measurements)
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([row["run"]] * len(histograms), pa.int64()),
                    pa.array(list(histograms), pa.string()),
                    pa.array([values for values, _ in histograms.values()], pa.list_(pa.int64())),
                    pa.array([counts for _, counts in histograms.values()], pa.list_(pa.int64())),
                ],
                schema=arrow_schema("measurements"),
            )


# Watching.


class _watched:
    """While the block runs, tells `watch` how far the sweep is, by the files that its tasks have finished."""

    def __init__(
        self,
        store: Store,
        name: str,
        runs: Mapping[int, Run],
        watch: Callable[[Progress], None] | None,
    ) -> None:
        self._folder = store.path / "measurements" / f"sweep={name}" if store.path else None
        self._seconds = {number: estimated_seconds(run.point) for number, run in runs.items()}
        self._all_seconds = sum(self._seconds.values())
        self._watch = watch if self._folder is not None else None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._seen: set[Path] = set()
        self._runs = self._events = 0
        self._done_seconds = 0.0

    def __enter__(self) -> None:
        self._started = time.monotonic()
        if self._watch is not None:
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._watch is not None:
            self._thread.join()

    def _follow(self) -> None:
        assert self._watch is not None
        ended = False
        while not ended:
            ended = self._ended.wait(_WATCH_SECONDS)
            self._look()
            share = min(1.0, self._done_seconds / self._all_seconds)
            elapsed = time.monotonic() - self._started
            self._watch(Progress(self._runs, len(self._seconds), self._events, elapsed, share))

    def _look(self) -> None:
        assert self._folder is not None
        for path in set(self._folder.glob("part-*.parquet")) - self._seen:
            try:
                table = pq.read_table(path, columns=["run", "name", "values"])
            except (OSError, pa.ArrowException):
                continue  # a file system that shows files before they are whole: later
            self._seen.add(path)
            events = table.filter(pc.field("name") == "events")
            self._runs += len(events)
            self._events += pc.sum(pc.list_flatten(events["values"])).as_py() or 0
            self._done_seconds += sum(self._seconds[run] for run in events["run"].to_pylist())
