"""`vcubeps demo`: the main job end to end: a live cluster, a discussion, its trace, the audit."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vcubeps.cli import node_processes
from vcubeps.cli.common import CommandError, Subparsers, integer
from vcubeps.cli.spark_options import add_spark_options, needs_spark, session_for

if TYPE_CHECKING:
    from vcubeps.cli.discussion import Part
    from vcubeps.spark.audit import Audit

DESCRIPTION = """\
Run a cluster of node processes on this machine, let them discuss, and audit what happened.

Members answer each other, join and leave in the middle. Every node writes its
trace as Parquet; then the trace is audited on embedded Spark: an answer
delivered before what it answers, or a message that a subscriber missed, would
be found."""

EPILOG = """\
examples:
  $ vcubeps demo
  $ vcubeps demo --nodes 16 --seconds 30 --trace DIR     # keep the trace, to look at it

Exit code: 0 all held, 1 something did not, 2 it could not be run."""


def register(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "demo",
        help="a live cluster, a discussion with joins and leaves, and its audit",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument(
        "--nodes", type=integer(2, 256), default=8, metavar="N", help="node processes (default: 8)"
    )
    parser.add_argument(
        "--seconds", type=integer(1, 3600), default=20, metavar="S", help="of discussion (default: 20)"
    )
    parser.add_argument("--seed", type=integer(0, 1 << 32), default=1, metavar="N", help="(default: 1)")
    parser.add_argument("--trace", metavar="DIR", help="keep the trace there; it must not exist yet")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_spark_options(parser)


def run(args: argparse.Namespace) -> int:
    try:
        from vcubeps.spark.audit import audit  # noqa: PLC0415 - the other commands need no Spark
    except ImportError as error:
        raise needs_spark("the demo", error) from None
    with _trace_directory(args.trace) as trace:
        _say(
            args,
            f"{args.nodes} node processes discuss for {args.seconds} s; some come later, some leave and come back",
        )
        started_s = time.monotonic()
        parts = node_processes.run(_discuss(args, trace))
        _say(args, f"they have ended after {time.monotonic() - started_s:.0f} s; auditing the trace on Spark")
        with session_for(args) as session:
            result = audit(session, str(trace.absolute()))
    held = result.is_clean and not sum(part.early_answers for part in parts) and result.census.deliveries > 0
    answer = _answer(args, parts, result, held)
    if args.json:
        print(json.dumps(answer))
    else:
        _print(args, answer)
    return 0 if held else 1


async def _discuss(args: argparse.Namespace, trace: Path) -> list[Part]:
    from vcubeps.cli.discussion import discuss  # noqa: PLC0415
    from vcubeps.net.cluster import LocalCluster  # noqa: PLC0415

    async with LocalCluster(args.nodes, processes=True, trace_dir=trace, name="demo") as cluster:
        return await cluster.run(discuss, args.seconds, args.seed)


@contextmanager
def _trace_directory(wanted: str | None) -> Iterator[Path]:
    """Where the trace goes: to a place that is removed in the end, or where it was wanted."""
    if wanted is None:
        place = Path(tempfile.mkdtemp(prefix="vcubeps-demo-"))
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)
        return
    place = Path(wanted)
    if place.exists():
        raise CommandError(f"--trace {wanted} exists already: name a new directory")
    try:
        place.mkdir(parents=True)
    except OSError as error:
        raise CommandError(f"--trace {wanted} cannot be made: {error.strerror}; name another place") from None
    yield place


def _say(args: argparse.Namespace, line: str) -> None:
    if not args.json:
        print(line, file=sys.stderr, flush=True)


# -- the answer ------------------------------------------------------------------------------------


def _answer(args: argparse.Namespace, parts: list[Part], result: Audit, held: bool) -> dict[str, Any]:
    latencies_us = sorted(latency for part in parts for latency in part.latencies_us)
    barriers = sorted(size for part in parts for size in part.barriers)
    return {
        "nodes": args.nodes,
        "joins": sum(part.joins for part in parts),
        "leaves": sum(part.leaves for part in parts),
        "publications": result.census.publications,
        "deliveries": result.census.deliveries,
        "latency_us_p50": _quantile(latencies_us, 0.50),
        "latency_us_p99": _quantile(latencies_us, 0.99),
        "barrier_entries_mean": round(sum(barriers) / max(1, len(barriers)), 2),
        "barrier_entries_max": barriers[-1] if barriers else 0,
        "answers_before_their_question": sum(part.early_answers for part in parts),
        "findings": dict(result.counts),
        "dependency_checks": result.checks,
        "trace": args.trace,
        "held": held,
    }


def _quantile(ordered: list[int], share: float) -> int:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0


def _print(args: argparse.Namespace, answer: dict[str, Any]) -> None:
    findings = answer["findings"]
    others = sum(count for kind, count in findings.items() if kind not in ("causal", "loss"))
    rows = [
        ("publications", f"{answer['publications']:,}"),
        ("deliveries", f"{answer['deliveries']:,}"),
        ("joins / leaves", f"{answer['joins']} / {answer['leaves']}"),
        (
            "latency p50 / p99",
            f"{answer['latency_us_p50'] / 1000:.2f} / {answer['latency_us_p99'] / 1000:.2f} ms",
        ),
        (
            "barrier entries",
            f"{answer['barrier_entries_mean']} on average, {answer['barrier_entries_max']} at most",
        ),
        (
            "causal violations",
            f"{findings['causal']}   ({answer['dependency_checks']:,} dependencies checked)",
        ),
        ("losses", f"{findings['loss']}"),
        ("other findings", f"{others}   (duplicates, phantoms, order of reception)"),
        ("early answers", f"{answer['answers_before_their_question']}   (as the applications saw it)"),
    ]
    print()
    for name, value in rows:
        print(f"  {name:<19} {value}")
    print()
    print("All held: every member saw every message that it was to see, and no answer before its question."
          if answer["held"] else "NOT all held: see above.")  # fmt: skip
    trace = args.trace or "DIR"
    print(
        "\nwhere to look next\n"
        f"  vcubeps demo --trace DIR; vcubeps trace export --shiviz {trace}     # see who waited for whom\n"
        "  vcubeps cluster up --nodes 8                           # a cluster to talk to: sub, pub, top\n"
        "  examples/, docs/tutorial.md                            # the same from Python\n"
        "  make reproduce                                         # the paper's evaluation"
    )
