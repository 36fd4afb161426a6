"""`vcubeps reproduce`: the paper's whole evaluation beside the paper's numbers, as one page."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vcubeps.cli.common import CommandError, Subparsers, integer
from vcubeps.cli.grid_options import RUNS_MAX, SEED_MAX
from vcubeps.cli.spark_options import add_spark_options, session_for, store_at
from vcubeps.cli.sweep_progress import sweep_progress

if TYPE_CHECKING:
    from vcubeps.report.catalogue import Catalogue
    from vcubeps.report.reproduce import Outcome

DESCRIPTION = """\
Run the paper's evaluation (section 4) and write one page that shows every figure and
every number of it beside ours, with the reason where they differ and is known.

What has been run is kept in DIR/data and not run again: an interrupted command goes on
where it stopped, and more runs or figures add to what is there."""

EPILOG = """\
examples:
  A first look, about a minute: up to 1,024 nodes, 5 runs per point
    $ vcubeps reproduce

  The paper's sizes and its 40 runs, under half an hour on two cores
    $ vcubeps reproduce --profile paper --out paper

  Only figures 4(a) and 9(a) and 9(b), with 10 runs
    $ vcubeps reproduce 4a 9 --runs 10

  On a cluster whose machines share a file system
    $ vcubeps reproduce --profile paper --master spark://HOST:7077 --data /shared/vcubeps

It writes into DIR: index.html (the page, one file), figures.json (every number of the paper
with ours: id, place, paper, measured, ci95, unit, verdict, why; shares are fractions of one),
curves.json (what the figures show, and where it comes from), figures/*.svg and *.png,
and data/ (the measurements as Parquet)."""


def register(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "reproduce", help="the paper's evaluation as one page", description=DESCRIPTION, epilog=EPILOG
    )
    parser.add_argument(
        "figures", nargs="*", metavar="FIGURE", help="4a, 5, table1, 9b, beyond … (default: all)"
    )
    parser.add_argument(
        "--profile",
        choices=("quick", "paper"),
        default="quick",
        help="quick: up to 1,024 nodes, 5 runs; paper: up to 4,096 nodes, 40 runs (default: quick)",
    )
    parser.add_argument("--runs", type=integer(1, RUNS_MAX), metavar="N", help="runs per point instead")
    parser.add_argument(
        "--out", type=Path, default=Path("report"), metavar="DIR", help="where to write (default: report)"
    )
    parser.add_argument(
        "--data",
        metavar="PLACE",
        help="where measurements are kept, a path or an address (default: DIR/data)",
    )
    parser.add_argument(
        "--seed", type=integer(0, SEED_MAX), default=1, metavar="SEED", help="chooses the runs (default: 1)"
    )
    add_spark_options(parser)


def run(args: argparse.Namespace) -> int:
    try:
        # Loaded here: the other commands need none of it.
        from vcubeps.report.catalogue import PROFILES, UnknownFigure, catalogue  # noqa: PLC0415
        from vcubeps.report.reproduce import reproduce  # noqa: PLC0415
    except ImportError as error:
        raise CommandError(
            f"the report needs {error.name}, which is not installed: pip install 'vcubeps[report]'"
        ) from None
    profile = PROFILES[args.profile]
    if args.runs is not None:
        profile = replace(profile, runs=args.runs)
    try:
        wanted = catalogue(profile, args.figures)
    except UnknownFigure as error:
        raise CommandError(str(error)) from None
    _check_directory(args.out)
    store = store_at(args.data or str(args.out / "data"))
    with session_for(args) as session, sweep_progress() as watch:
        try:
            outcome = reproduce(session, wanted, store, args.out, args.seed, watch, {"master": _where(args)})
        except OSError as error:
            raise CommandError(
                f"cannot write {error.filename or args.out} ({error.strerror}): make room or name another --out; "
                f"the measurements are kept"
            ) from None
    _tell(args.out, wanted, outcome)
    return 0


def _where(args: argparse.Namespace) -> str:
    return args.remote or args.master or "local[*]"


def _check_directory(out: Path) -> None:
    """Ours, empty, or not there yet."""
    if not str(out).strip("."):
        raise CommandError("--out is where you are: name a directory in it")
    if not out.exists():
        parent = next(folder for folder in out.absolute().parents if folder.exists())
        if not parent.is_dir() or not os.access(parent, os.W_OK):
            raise CommandError(f"--out {out}: {parent} is no directory to write in: name another")
        return
    if not out.is_dir():
        raise CommandError(f"--out {out} is a file: name a directory")
    found = {name for name in os.listdir(out) if not name.startswith(".unfinished-")}
    others = found - {"data", "figures", "index.html", "figures.json", "curves.json"}
    if found and (others or not _is_report(out)):
        name = min(others or found)
        raise CommandError(f"--out {out} holds something else ({name}): name a new or an empty directory")
    if not os.access(out, os.W_OK):
        raise CommandError(f"--out {out} cannot be written to: name another directory")


def _is_report(out: Path) -> bool:
    """Written by us: a report, or what was measured before one could be written."""
    from vcubeps.spark.store import Store  # noqa: PLC0415

    try:
        return "provenance" in json.loads((out / "curves.json").read_text())
    except (OSError, ValueError):
        return set(os.listdir(out)) == {"data"} and Store(str(out / "data")).is_marked()


def _tell(out: Path, catalogue: Catalogue, outcome: Outcome) -> None:
    from vcubeps.report.verdicts import VERDICTS, compared  # noqa: PLC0415

    verdicts = Counter(one.verdict for one in compared(catalogue.numbers, outcome.numbers))
    kept = outcome.all_runs - outcome.runs
    print(f"{outcome.runs:,} runs simulated, {kept:,} were there already")
    print(", ".join(f"{verdicts[verdict]} {verdict}" for verdict in VERDICTS), "of the paper's numbers")
    print(f"open {out / 'index.html'}")
    sys.stdout.flush()
