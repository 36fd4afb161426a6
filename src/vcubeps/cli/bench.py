"""`vcubeps bench`: how fast the live network is on this machine."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from vcubeps.cli import node_processes
from vcubeps.cli.common import Subparsers, integer

if TYPE_CHECKING:
    from vcubeps.cli.bench_load import Measured

MODES = ("saturation", "flood", "latency")
_LATENCY_RATE = 50.0
"""Messages per second of each node in the mode latency."""

DESCRIPTION = """\
Measure the live network here: node processes on loopback, one hot topic, all publish and subscribe.

saturation: as fast as a window of 256 messages allows. flood: as fast as publish
takes them. latency: 50 messages per second of each node. In every mode each
node checks that every message of every other came once and in order."""

EPILOG = """\
examples:
  $ vcubeps bench
  $ vcubeps bench --mode saturation --size 1024 --messages 50000 --json

Beside ZeroMQ, Zenoh, NATS and Redis in one run: python benchmarks/pubsub.py (in the source tree).

Exit code: 0 nothing was lost, 1 something was, 2 it could not be run."""


def register(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "bench",
        help="speed of the live network on this machine",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument(
        "--nodes", type=integer(2, 64), default=8, metavar="N", help="node processes (default: 8)"
    )
    parser.add_argument(
        "--mode", action="append", choices=MODES, help="may be repeated (default: all of them)"
    )
    parser.add_argument(
        "--size",
        action="append",
        type=integer(12, 1 << 19),
        metavar="BYTES",
        help="of a payload; may be repeated (default: 64 and 1024)",
    )
    parser.add_argument(
        "--messages",
        type=integer(1, 10_000_000),
        default=10_000,
        metavar="N",
        help="of each node in saturation and flood; one in 50 of them for latency (default: 10000)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per measurement")


def run(args: argparse.Namespace) -> int:
    lost = 0
    for mode in args.mode or MODES:
        for size in args.size or (64, 1024):
            row = node_processes.run(_measure(args.nodes, mode, size, args.messages))
            lost += row["misplaced"]
            print(json.dumps(row) if args.json else _in_words(row), flush=True)
    return 1 if lost else 0


async def _measure(nodes: int, mode: str, size: int, messages: int) -> dict[str, Any]:
    from vcubeps.cli.bench_load import load  # noqa: PLC0415
    from vcubeps.net.cluster import LocalCluster  # noqa: PLC0415

    if mode == "latency":
        messages = max(1, messages // 50)
    async with LocalCluster(nodes, processes=True, name="bench") as cluster:
        measured = await cluster.run(load, mode, size, messages, _LATENCY_RATE)
    return _row(mode, size, measured)


def _row(mode: str, size: int, measured: list[Measured]) -> dict[str, Any]:
    deliveries = sum(each.delivered for each in measured)
    wall_s = max(each.wall_s for each in measured)
    latencies_us = sorted(latency for each in measured for latency in each.latencies_us)
    return {
        "mode": mode,
        "size_bytes": size,
        "nodes": len(measured),
        "publications": sum(each.published for each in measured),
        "deliveries": deliveries,
        "misplaced": sum(each.misplaced for each in measured),
        "deliveries_per_s": round(deliveries / wall_s),
        "cpu_us_per_delivery": round(sum(each.cpu_s for each in measured) / deliveries * 1e6, 3),
        "latency_us_p50": latencies_us[len(latencies_us) // 2] if latencies_us else None,
        "latency_us_p99": latencies_us[int(len(latencies_us) * 0.99)] if latencies_us else None,
    }


def _in_words(row: dict[str, Any]) -> str:
    words = (
        f"{row['mode']:<10} {row['size_bytes']:>5} B  {row['deliveries']:>10,} deliveries, "
        f"{row['misplaced']} lost or out of place, {row['deliveries_per_s']:>9,} per second, "
        f"CPU {row['cpu_us_per_delivery']:.2f} µs each"
    )
    if row["latency_us_p50"] is not None:
        words += f", latency p50 {row['latency_us_p50']:,} µs, p99 {row['latency_us_p99']:,} µs"
    return words
