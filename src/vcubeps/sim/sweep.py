"""Many runs on this machine: in worker processes, so that an interrupt ends them at once.

The answer depends on the points, the number of runs and the seed, never on the number of processes.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from vcubeps.sim import trace_tables
from vcubeps.sim.measurements import Measurements
from vcubeps.sim.scenarios import Point, Run, run_seed
from vcubeps.sim.simulation import is_compiled, kernels_of, simulate
from vcubeps.sim.summary import Row, summarise


def sweep(
    points: Sequence[Point],
    runs: int,
    seed: int,
    *,
    jobs: int,
    trace: Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Row]:
    """One row per point; with `trace`, the trace tables of all runs in that directory, complete or not at all."""
    rows = [Run(point, run_seed(seed, index)) for point in points for index in range(runs)]
    measured: list[Measurements | None] = [None] * len(rows)
    # The large ones first: whoever is last should not have the longest work left.
    order = sorted(range(len(rows)), key=lambda k: -int(rows[k].point.parameters["nodes"]))
    # An interrupt is the parent's business, which ends the workers.
    ignore_interrupt = (signal.SIGINT, signal.SIG_IGN)
    with (
        trace_tables.directory(trace) as partial_directory,
        multiprocessing.get_context("spawn").Pool(jobs, signal.signal, ignore_interrupt) as pool,
    ):
        work = partial(_run, trace=partial_directory)
        for index, result in pool.imap_unordered(work, [(k, rows[k]) for k in order]):
            measured[index] = result
            if progress is not None:
                progress(1)
    answers = [result for result in measured if result is not None]
    return [summarise(point, answers[k * runs : (k + 1) * runs]) for k, point in enumerate(points)]


def _run(task: tuple[int, Run], trace: Path | None) -> tuple[int, Measurements]:
    index, run = task
    measurements, events = simulate(run, trace=trace is not None)
    if trace is not None and events is not None:
        trace_tables.write(trace, index, run, events)
    return index, measurements


def needs_compiling(points: Sequence[Point]) -> bool:
    """Whether some kernel that these points need is not compiled yet."""
    return not all(map(is_compiled, {kernel for point in points for kernel in kernels_of(point)}))
