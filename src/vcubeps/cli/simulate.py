"""`vcubeps simulate`: the paper's evaluation world, one scenario at a time, on this machine."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vcubeps.cli.common import CommandError, Subparsers, integer, progress_bar, usable_cores
from vcubeps.cli.grid_options import add_grid_options, points_asked_for
from vcubeps.cli.rows import print_rows

if TYPE_CHECKING:
    from vcubeps.sim.parameters import Value
    from vcubeps.sim.scenarios import Point
    from vcubeps.sim.summary import Row

JOBS_MAX = 1024

DESCRIPTION = """\
Simulate VCube-PS, SRPT-S and SRPT-B as section 4 of the paper does, and beyond.

A scenario is a grid of points. Each point is run several times with random
subscribers, publishers and times; the answer has one row per system and point.
The same command gives the same answer on every machine."""

EPILOG = """\
examples:
  What can be simulated, and with which parameters?
    $ vcubeps simulate --list

  The whole of figure 4, as the paper's numbers imply the delays:
    $ vcubeps simulate one-publisher --set preset=calibrated --runs 40

  One point of it, for a program to read:
    $ vcubeps simulate one-publisher --set nodes=4096 --set subscribers=0.25 --json

  An axis of your own:
    $ vcubeps simulate many-publishers --set nodes=64,128,256 --set publishers=50%

  What happened in the runs, event by event, as tables:
    $ vcubeps simulate discussion --set nodes=16 --runs 1 --trace DIR

In the answer, times are in u.t. (units of time), latency is from the application's
publish to a reception at a subscriber, means are over runs and ci95 is half the
width of their 95 % confidence interval; null means that there is nothing to measure.
Histograms (value -> how often), percentiles, and what is said of causal waits and
barriers are of all runs together."""

SHOWN = (
    ("latency", "latency_mean_ut"),
    ("± 95 %", "latency_ci95_ut"),
    ("delivery", "delivery_mean_ut"),
    ("PUBs", "pub_messages_mean"),
    ("barrier", "barrier_mean_entries"),
    ("queue", "queue_mean_copies"),
    ("false pos.", "false_positives_mean"),
    ("lost", "lost_mean"),
)
"""Columns of the table for people, and their names in the rows."""


def register(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "simulate",
        help="simulate the paper's experiments, or your own",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument("--list", action="store_true", help="explain the scenarios and their parameters")
    add_grid_options(parser)
    parser.add_argument(
        "--jobs",
        type=integer(1, JOBS_MAX),
        metavar="N",
        help="processes to use (default: all cores); the answer does not depend on it",
    )
    parser.add_argument("--trace", type=Path, metavar="DIR", help="write the trace tables of all runs there")
    parser.add_argument("--json", action="store_true", help="print a JSON array with one object per row")


def run(args: argparse.Namespace) -> int:
    try:
        # Loaded here: the other commands need neither numpy nor numba.
        from vcubeps.sim import sweep  # noqa: F401, PLC0415
    except ImportError as error:
        raise CommandError(
            f"the simulator needs {error.name}, which is not installed: pip install 'vcubeps[sim]'"
        ) from None
    if args.list:
        _print_list()
        return 0
    points = points_asked_for(args)
    print_rows(_simulate(args, points), SHOWN, as_json=args.json)
    return 0


# Simulating.


def _simulate(args: argparse.Namespace, points: Sequence[Point]) -> list[Row]:
    from vcubeps.sim.sweep import RunFailed, needs_compiling, sweep  # noqa: PLC0415

    if args.trace is not None:
        _check_directory(args.trace)
    if needs_compiling(points, args.seed, trace=args.trace is not None):
        print("compiling the simulation kernels; this is done once, later runs use them", file=sys.stderr)
    runs = len(points) * args.runs
    jobs = min(args.jobs or usable_cores(), runs)
    # A termination ends like an interrupt: nothing is left behind.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with progress_bar("runs", runs) as progress:
            return sweep(points, args.runs, args.seed, jobs=jobs, trace=args.trace, progress=progress)
    except RunFailed as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"cannot write the trace: {error}") from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _check_directory(path: Path) -> None:
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise CommandError(f"--trace {path} exists already: name a new or an empty directory")
    parent = path.absolute().parent
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise CommandError(f"--trace {path}: {parent} is no directory to write in: make it, or name another")
    if path.absolute() == Path.cwd():
        raise CommandError(f"--trace {path} is where you are: name a directory in it")


# Answers for people.


def _print_list() -> None:
    from vcubeps.sim.parameters import PARAMETERS  # noqa: PLC0415
    from vcubeps.sim.scenarios import SCENARIOS  # noqa: PLC0415

    for scenario in SCENARIOS.values():
        print(f"{scenario.name} ({scenario.place})")
        print(textwrap.fill(scenario.summary, 96, initial_indent="  ", subsequent_indent="  "))
        for grid in scenario.grids:
            axes = "; ".join(f"{name} {_listed(values)}" for name, values in grid.axes.items())
            print(textwrap.fill(f"{', '.join(grid.systems)}: {axes or 'one point'}", 96,
                                initial_indent="  - ", subsequent_indent="    "))  # fmt: skip
        axes_of_all = {name for grid in scenario.grids for name in grid.axes}
        defaults = ", ".join(
            f"{name}={scenario.default(name)}"
            for name in scenario.all_parameters()
            if name not in axes_of_all
        )
        print(textwrap.fill(f"defaults: {defaults}", 96, initial_indent="  ", subsequent_indent="  "))
        print()
    print("parameters")
    for name, parameter in PARAMETERS.items():
        unit = f" {parameter.unit}" if parameter.unit and not parameter.is_share else ""
        text = f"{parameter.meaning} [{parameter.range()}{unit}]"
        print(textwrap.fill(text, 96, initial_indent=f"  {name:<18}", subsequent_indent=" " * 20))


def _listed(values: Sequence[Value]) -> str:
    return f"{values[0]} … {values[-1]}" if len(values) > 4 else ", ".join(map(str, values))
