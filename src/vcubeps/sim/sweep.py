"""Many runs on this machine: in worker processes, so that an interrupt ends them at once.

The answer depends on the points, the number of runs and the seed, never on the number of processes.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path

from vcubeps.sim import trace_tables
from vcubeps.sim.measurements import Measurements
from vcubeps.sim.scenarios import Point, Run, run_seed
from vcubeps.sim.simulation import is_compiled, kernel_of, simulate
from vcubeps.sim.summary import Row, summarise


class RunFailed(Exception):
    """A run could not be carried out; the text says why and what to do."""


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
    with trace_tables.directory(trace) as unfinished, _workers(jobs) as pool:
        futures = [pool.submit(_run, k, rows[k], unfinished) for k in order]
        for future in as_completed(futures):
            index, result = future.result()
            measured[index] = result
            if progress is not None:
                progress(1)
    answers = [result for result in measured if result is not None]
    return [summarise(point, seed, answers[k * runs : (k + 1) * runs]) for k, point in enumerate(points)]


@contextmanager
def _workers(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with the block, whatever ends it, in the middle of a run too."""
    # An interrupt is the parent's business.
    pool = ProcessPoolExecutor(
        jobs, multiprocessing.get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN)
    )
    try:
        yield pool
    except BrokenProcessPool:
        raise RunFailed("a worker process was killed, perhaps for lack of memory: use fewer --jobs") from None
    except MemoryError as error:
        raise RunFailed(
            f"a run does not fit into memory ({error}): make it smaller, or use fewer --jobs"
        ) from None
    finally:
        children = multiprocessing.active_children()
        for process in children:
            process.kill()
        for process in children:
            process.join()  # or it may still write what is about to be removed
        pool.shutdown(wait=False, cancel_futures=True)


def _run(index: int, run: Run, trace: Path | None) -> tuple[int, Measurements]:
    measurements, events = simulate(run, trace=trace is not None)
    if trace is not None and events is not None:
        trace_tables.write(trace, index, run, events)
    return index, measurements


def needs_compiling(points: Sequence[Point], seed: int, *, trace: bool) -> bool:
    """Whether some kernel that the first run of a point needs is not compiled yet."""
    kernels = {kernel_of(Run(point, run_seed(seed, 0)), trace=trace) for point in points}
    return not all(map(is_compiled, kernels))
