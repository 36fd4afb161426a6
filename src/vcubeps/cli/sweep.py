"""`vcubeps sweep`: a grid of runs on Spark, on this machine or a cluster, kept and gone on with."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from vcubeps.cli.common import CommandError, Subparsers
from vcubeps.cli.grid_options import add_grid_options, points_asked_for
from vcubeps.cli.rows import print_rows
from vcubeps.cli.spark_options import add_spark_options, session_for, store_at
from vcubeps.cli.sweep_progress import sweep_progress

if TYPE_CHECKING:
    from vcubeps.sim.measures import Measure
    from vcubeps.sim.scenarios import Point
    from vcubeps.spark.metrics import Estimate

DESCRIPTION = """\
Run a grid of simulations on Spark and keep what was measured.

The same scenarios and parameters as vcubeps simulate, which needs no Spark and is the
quicker one for small questions. A sweep keeps its measurements at PLACE, exact histograms
of every run as Parquet: what is there is not run again, so more runs or points add to it,
and a sweep that was stopped goes on."""

EPILOG = """\
examples:
  What can be run, and with which parameters?
    $ vcubeps simulate --list

  An own question, on all cores of this machine:
    $ vcubeps sweep one-publisher --set nodes=1024 --set subscribers=10%,20%,50% --runs 100 --data sizes

  The same on a cluster, at a place that all its machines reach:
    $ vcubeps sweep … --data hdfs://HOST/sizes --master spark://HOST:7077

In the answer, times are in u.t. (units of time); means are over runs and ci95 is half the width
of their 95 % confidence interval; a percentile is taken of every run and then averaged; null
means that there is nothing to measure."""

SHOWN = (
    ("latency", "latency_mean_ut"),
    ("± 95 %", "latency_ci95_ut"),
    ("p99", "latency_p99_mean_ut"),
    ("delivery", "delivery_mean_ut"),
    ("PUBs", "pub_messages_mean"),
    ("barrier", "barrier_mean_entries"),
    ("false pos.", "false_positives_mean"),
    ("lost", "lost_mean"),
)
"""Columns of the table for people, and their names in the rows."""


def register(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "sweep", help="a grid of simulations on Spark", description=DESCRIPTION, epilog=EPILOG
    )
    add_grid_options(parser)
    parser.add_argument(
        "--data",
        default="sweep",
        metavar="PLACE",
        help="where measurements are kept, a path or an address (default: sweep)",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON array with one object per row")
    add_spark_options(parser)


def run(args: argparse.Namespace) -> int:
    try:
        # Loaded here: the other commands need none of it.
        from vcubeps.sim.scenarios import Run, run_seed  # noqa: PLC0415
        from vcubeps.spark.metrics import Quantity, estimate  # noqa: PLC0415
        from vcubeps.spark.sweep import sweep  # noqa: PLC0415
    except ImportError as error:
        raise CommandError(
            f"a sweep needs {error.name}, which is not installed: pip install 'vcubeps[spark]'"
        ) from None
    points = points_asked_for(args)
    measures = _measures()
    store = store_at(args.data)
    with session_for(args) as session:
        with sweep_progress() as watch:
            runs = (Run(point, run_seed(args.seed, k)) for point in points for k in range(args.runs))
            sweep(session, store, runs, watch)
        quantities = [
            Quantity(f"{k} {name}", "value", ((point, measure),), args.runs)
            for k, point in enumerate(points)
            for name, (measure, _) in measures.items()
        ]
        estimates = estimate(session, store, quantities, args.seed)
    rows = [
        _row(args, point, dict(zip(measures, estimates[k * len(measures) :], strict=False)))
        for k, point in enumerate(points)
    ]
    print_rows(rows, SHOWN, as_json=args.json)
    return 0


def _measures() -> dict[str, tuple[Measure, str]]:
    """Name of a measure → how it is taken of a run, and its unit."""
    from vcubeps.sim.measures import QUEUE, Measure  # noqa: PLC0415

    return {
        "latency": (Measure("reception_ut"), "_ut"),
        "latency_p50": (Measure("reception_ut", "percentile", percent=50), "_ut"),
        "latency_p99": (Measure("reception_ut", "percentile", percent=99), "_ut"),
        "latency_max": (Measure("reception_ut", "max"), "_ut"),
        "delivery": (Measure("delivery_ut"), "_ut"),
        "causal_wait": (Measure("causal_wait_ut"), "_ut"),
        "causal_wait_none": (Measure("causal_wait_ut", "share", high=0), "_share"),
        "causal_wait_max": (Measure("causal_wait_ut", "max"), "_ut"),
        "barrier": (Measure("barrier_entries"), "_entries"),
        "barrier_max": (Measure("barrier_entries", "max"), "_entries"),
        "path": (Measure("path_hops"), "_hops"),
        "tree": (Measure("broker_ut"), "_ut"),
        "broker_to_subscriber": (Measure("last_hop_ut"), "_ut"),
        "queue_ceiling": (Measure(QUEUE), "_copies"),
        "publications": (Measure("publications"), ""),
        "pub_messages": (Measure("pub_copies"), ""),
        "ack_messages": (Measure("ack_copies"), ""),
        "sub_messages": (Measure("sub_copies"), ""),
        "uns_messages": (Measure("uns_copies"), ""),
        "forwarders": (Measure("forwarders"), ""),
        "false_positives": (Measure("false_positives"), ""),
        "expected": (Measure("expected"), ""),
        "lost": (Measure("lost"), ""),
    }


def _row(args: argparse.Namespace, point: Point, estimates: dict[str, Estimate]) -> dict[str, object]:
    row: dict[str, object] = {
        "system": point.system, **point.parameters, "scenario": point.scenario, "seed": args.seed,
        "runs": args.runs,
    }  # fmt: skip
    units = {name: unit for name, (_, unit) in _measures().items()}
    for name, one in estimates.items():
        row[f"{name}_mean{units[name]}"] = one.value
        row[f"{name}_ci95{units[name]}"] = one.ci95
    return row
