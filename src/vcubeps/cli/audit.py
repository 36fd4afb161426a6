"""`vcubeps audit`: is what a trace tells in causal order, without duplicates, phantoms and losses?"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vcubeps.cli.common import CommandError, Subparsers, integer
from vcubeps.cli.spark_options import add_spark_options, needs_spark, session_for

if TYPE_CHECKING:
    from vcubeps.spark.audit import Audit

EXAMPLES_MAX = 10_000
_SMALL_BYTES = 64 << 20
"""Up to this size of a trace, even SQL takes less time than starting Spark."""

DESCRIPTION = """\
Audit a trace on Spark: causal order, duplicates, phantoms, losses, order of reception.

TRACE is a directory with the tables publications, receptions, deliveries and
membership, as simulate --trace and nodes write them."""

EPILOG = """\
examples:
  Simulate the published algorithm while members come and go, and see what it loses:
    $ vcubeps simulate churn --system vcube-ps --set nodes=64 --set protocol=published --trace DIR
    $ vcubeps audit DIR

  For a program to read, with all findings as a table:
    $ vcubeps audit DIR --json --findings FINDINGS

  On a cluster:
    $ vcubeps audit hdfs://host/trace --master spark://host:7077

Exit code: 0 nothing found, 1 something found, 2 the trace cannot be audited."""


def register(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "audit", help="check a trace for causal order and losses", description=DESCRIPTION, epilog=EPILOG
    )
    parser.add_argument("trace", metavar="TRACE", help="directory with the tables of the trace")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--method",
        choices=("arrow", "sql"),
        default="arrow",
        help="arrow: for volume (default); sql: plain queries, slower, the same findings",
    )
    parser.add_argument(
        "--examples",
        type=integer(0, EXAMPLES_MAX),
        default=3,
        metavar="N",
        help="findings of each kind to show (default: 3)",
    )
    parser.add_argument("--findings", metavar="DIR", help="write all findings there, as Parquet")
    add_spark_options(parser)


def run(args: argparse.Namespace) -> int:
    try:
        # Loaded here: the other commands need no Spark.
        from vcubeps.spark import audit  # noqa: PLC0415
        from vcubeps.spark.audit import trace  # noqa: PLC0415
    except ImportError as error:
        raise needs_spark("the audit", error) from None
    is_local = _is_local(args, args.trace)
    try:
        if is_local:
            trace.check_folders(Path(args.trace))
        is_brief = args.method == "arrow" or (is_local and _bytes(Path(args.trace)) <= _SMALL_BYTES)
        with _findings_directory(args) as findings, session_for(args, brief=is_brief) as session:
            where = str(Path(args.trace).absolute()) if is_local else args.trace
            result = audit.audit(session, where, args.method)
            found = [kind for kind, count in result.counts.items() if count]
            examples = {kind: result.examples(kind, args.examples) for kind in found}
            if findings is not None:
                result.write(findings)
    except audit.TraceError as error:
        raise CommandError(str(error)) from None
    if args.json:
        print(json.dumps(_as_json(args, result, examples)))
    else:
        _print(result, examples)
    return 0 if result.is_clean else 1


# -- where -----------------------------------------------------------------------------------------


def _is_local(args: argparse.Namespace, path: str) -> bool:
    return not args.remote and "://" not in path


def _bytes(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


@contextmanager
def _findings_directory(args: argparse.Namespace) -> Iterator[str | None]:
    """Where to write the findings meanwhile; it gets its name when all is written, and vanishes if it is not."""
    if args.findings is None or not _is_local(args, args.findings):
        yield args.findings
        return
    path = Path(args.findings).absolute()
    if path.exists():
        raise CommandError(f"--findings {args.findings} exists already: name a new directory")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise CommandError(
            f"--findings {args.findings}: {path.parent} is no directory to write in: make it, or name another"
        )
    unfinished = path.with_name(f"{path.name}.unfinished-{os.getpid()}")
    try:
        yield str(unfinished)
        unfinished.rename(path)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


# -- answers ---------------------------------------------------------------------------------------


def _as_json(
    args: argparse.Namespace, result: Audit, examples: dict[str, list[dict[str, Any]]]
) -> dict[str, Any]:
    census = result.census
    return {
        "trace": args.trace,
        "method": args.method,
        "runs": census.runs,
        "topics": census.topics,
        "nodes": census.nodes,
        "publications": census.publications,
        "receptions": census.receptions,
        "deliveries": census.deliveries,
        "dependency_checks": result.checks,
        "findings": {kind: _count(result, kind) for kind in result.counts},
        "held_back": result.held_back,
        "unjudged": result.unjudged,
        "topics_without_membership": census.topics_without_membership,
        "verdict": _verdict(result),
        "examples": [row for rows in examples.values() for row in rows],
    }


def _count(result: Audit, kind: str) -> int | None:
    """None: it cannot be judged."""
    census = result.census
    if kind == "loss" and census.topics_without_membership == census.topics:
        return None
    return result.counts[kind]


def _verdict(result: Audit) -> str:
    if not result.is_clean:
        return "findings"
    return "losses not judged" if result.census.topics_without_membership else "clean"


def _print(result: Audit, examples: dict[str, list[dict[str, Any]]]) -> None:
    from vcubeps.spark.audit.findings import KINDS, in_words  # noqa: PLC0415

    census = result.census
    print(f"runs {census.runs:,}, topics {census.topics:,}, nodes {census.nodes:,}")
    print(
        f"publications {census.publications:,}, receptions {census.receptions:,}, "
        f"deliveries {census.deliveries:,}, dependency checks {result.checks:,}\n"
    )
    for kind, meaning in KINDS.items():
        count = _count(result, kind)
        held_back = (
            f" ({result.held_back:,} of them received and held back)" if kind == "loss" and count else ""
        )
        print(f"{kind:<9} {'?' if count is None else format(count, ','):>12}  {meaning}{held_back}")
    print()
    for kind, rows in examples.items():
        for row in rows:
            print(in_words(row))
        if result.counts[kind] > len(rows) > 0:
            print(f"… and {result.counts[kind] - len(rows):,} more of kind {kind}")
    if any(examples.values()):
        print()
    if census.topics_without_membership:
        print(
            f"Losses could not be judged on {census.topics_without_membership:,} of {census.topics:,} topics: "
            "the table membership has no rows of them."
        )
    if result.unjudged:
        print(
            f"{result.unjudged:,} deliveries are of publications that their sources have not written down: these nodes "
            "were killed, or still run."
        )
    total = sum(result.counts.values())
    print("Nothing found." if result.is_clean else f"{total:,} finding{'s' if total > 1 else ''}.")
