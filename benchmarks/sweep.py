"""What Spark costs on top of the simulations themselves, in one run: the same runs in plain processes and in a sweep.

    python benchmarks/sweep.py [--profile paper] [--runs N] [FIGURE…]

Prints CPU seconds of the kernels (plain processes, as many as there are cores), of all processes of the sweep (Java,
Python workers, writing the results), the overhead of the second over the first, with and without Spark's start, and
both wall times. Also how long a session takes from its start to a first result.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

from vcubeps.report.catalogue import PROFILES, catalogue
from vcubeps.sim.cost import estimated_seconds
from vcubeps.sim.scenarios import Run, run_seed
from vcubeps.sim.simulation import simulate
from vcubeps.spark.session import spark_session
from vcubeps.spark.store import Store
from vcubeps.spark.sweep import sweep

TICK = os.sysconf("SC_CLK_TCK")


def cpu_of_descendants() -> float:
    """CPU seconds of all processes that this one has started, directly or not, dead ones included."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(folder.name)] = int(fields[1])
            seconds[int(folder.name)] = sum(map(int, fields[11:15])) / TICK
    total, generation = 0.0, {os.getpid()}
    while generation := {pid for pid, parent in parents.items() if parent in generation}:
        total += sum(seconds[pid] for pid in generation)
    return total


def cpu_of_run(run: Run) -> float:
    began = time.process_time()
    simulate(run)
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("figures", nargs="*")
    parser.add_argument("--profile", choices=PROFILES, default="paper")
    parser.add_argument("--runs", type=int, default=1, help="per point (default: 1; the paper has 40)")
    args = parser.parse_args()

    wanted = catalogue(replace(PROFILES[args.profile], runs=args.runs), args.figures)
    runs = [Run(point, run_seed(1, k)) for point, count in wanted.points() for k in range(count)]
    runs.sort(key=lambda run: -estimated_seconds(run.point))
    cores = len(os.sched_getaffinity(0))

    with ProcessPoolExecutor(cores) as pool:
        smallest = {}
        for run in reversed(runs):
            smallest.setdefault(
                (run.point.scenario, run.point.system, run.point.parameters.get("protocol")), run
            )
        list(pool.map(cpu_of_run, [*smallest.values()] * 2))  # kernels are compiled and loaded
        began = time.perf_counter()
        kernel = sum(pool.map(cpu_of_run, runs))
        plain_wall = time.perf_counter() - began
    print(f"{len(runs):,} runs, {cores} cores")
    print(f"plain processes: {kernel:8.1f} s of CPU in the kernels, {plain_wall:7.1f} s of time", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        before, began = cpu_of_descendants(), time.perf_counter()
        with spark_session() as session:
            session.range(10).count()
            started = time.perf_counter() - began
            start_cpu = cpu_of_descendants() - before
            began = time.perf_counter()
            sweep(session, Store(f"{folder}/store"), runs)
            wall = time.perf_counter() - began
            cpu = cpu_of_descendants() - before - start_cpu
    print(f"sweep on Spark:  {cpu:8.1f} s of CPU in all processes, {wall:7.1f} s of time")
    print(f"Spark's start:   {start_cpu:8.1f} s of CPU, {started:7.1f} s to the first result")
    print(
        f"overhead in CPU: {cpu / kernel - 1:+.1%}, with the start {(cpu + start_cpu) / kernel - 1:+.1%} (aim +15 %)"
    )
    print(
        f"overhead in time: {wall / plain_wall - 1:+.1%}, with the start {(wall + started) / plain_wall - 1:+.1%}"
    )


if __name__ == "__main__":
    main()
