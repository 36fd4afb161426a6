"""`vcubeps simulate`: the paper's evaluation world, one scenario at a time, on this machine."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vcubeps.cli.common import (
    CommandError,
    Subparsers,
    abbreviated,
    integer,
    progress_bar,
    usable_cores,
)

if TYPE_CHECKING:
    from vcubeps.sim.parameters import Value
    from vcubeps.sim.scenarios import Point
    from vcubeps.sim.summary import Row

RUNS_MAX = 10_000
SEED_MAX = 2**63 - 1
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
    parser.add_argument("scenario", nargs="?", metavar="SCENARIO", help="which experiment; see --list")
    parser.add_argument("--list", action="store_true", help="explain the scenarios and their parameters")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE[,VALUE…]",
        help="a parameter of the scenario; several values make an axis of the grid",
    )
    parser.add_argument(
        "--system",
        action="append",
        metavar="NAME",
        help="vcube-ps, srpt-s or srpt-b; may be repeated (default: those of the scenario)",
    )
    parser.add_argument(
        "--runs", type=integer(1, RUNS_MAX), default=10, metavar="N", help="runs per point (default: 10)"
    )
    parser.add_argument(
        "--seed", type=integer(0, SEED_MAX), default=1, metavar="SEED", help="chooses the runs (default: 1)"
    )
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
        from vcubeps.sim import parameters, scenarios, sweep  # noqa: F401, PLC0415
    except ImportError as error:
        raise CommandError(
            f"the simulator needs {error.name}, which is not installed: pip install 'vcubeps[sim]'"
        ) from None
    if args.list:
        _print_list()
        return 0
    if args.scenario is None:
        raise CommandError(f"which scenario? choose among {', '.join(scenarios.SCENARIOS)}, or see --list")
    try:
        points = scenarios.points(args.scenario, _chosen(args.set), _systems(args.system))
    except parameters.ParameterError as error:
        raise CommandError(str(error)) from None
    if not points:
        raise CommandError(f"{args.scenario} does not run on {', '.join(args.system)}: leave --system out")
    rows = _simulate(args, points)
    if args.json:
        print(json.dumps(rows, indent=None if len(rows) == 1 else 1))
    else:
        _print_table(rows)
    return 0


# What is to be simulated.


def _chosen(settings: Sequence[str]) -> dict[str, tuple[Value, ...]]:
    from vcubeps.sim.parameters import PARAMETERS, ParameterError, lookup  # noqa: PLC0415

    chosen: dict[str, tuple[Value, ...]] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not text:
            raise CommandError(
                f"--set {abbreviated(setting)!r} sets nothing: write NAME=VALUE, such as nodes=1024"
            )
        if name in chosen:
            raise CommandError(f"--set {name} is given twice: separate several values by commas")
        try:
            parameter = PARAMETERS[lookup(name, PARAMETERS)]
            values = (parameter.parse(name, part.strip()) for part in text.split(","))
            chosen[name] = tuple(dict.fromkeys(values))
        except ParameterError as error:
            raise CommandError(f"--set {error}") from None
    return chosen


def _systems(names: Sequence[str] | None) -> tuple[str, ...]:
    from vcubeps.sim.scenarios import SYSTEMS  # noqa: PLC0415

    for name in names or ():
        if name not in SYSTEMS:
            raise CommandError(
                f"--system {abbreviated(name)!r} is unknown: choose among {', '.join(SYSTEMS)}"
            )
    return tuple(names) if names else SYSTEMS


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


def _print_table(rows: Sequence[Row]) -> None:
    from vcubeps.sim.parameters import PARAMETERS  # noqa: PLC0415

    varying = [
        name
        for name in ("system", *PARAMETERS)
        if name in {"system", "nodes"} or len({str(row[name]) for row in rows if name in row}) > 1
    ]
    shown = [(title, name) for title, name in SHOWN if any(row[name] for row in rows)]
    header = [*varying, *(title for title, _ in shown)]
    lines = [
        [_cell(row.get(name, "")) for name in varying] + [_cell(row[name]) for _, name in shown]
        for row in rows
    ]
    widths = [max(len(line[k]) for line in [header, *lines]) for k in range(len(header))]
    for line in [header, *lines]:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    print(f"\n{rows[0]['runs']} runs per row; times in u.t.; all columns with --json")


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return (
        f"{value:,.1f}"
        if isinstance(value, float) and abs(value) >= 10
        else (f"{value:.3g}" if isinstance(value, float) else str(value))
    )
