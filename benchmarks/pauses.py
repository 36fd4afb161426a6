"""Processor time of a delivery when publications come one by one, by the pause between them.

    python benchmarks/pauses.py

Eight nodes in one process; each publication is delivered and acknowledged everywhere before the pause begins, so the
work is the same for every pause. What differs is how much of it the processor's caches still hold when it begins.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time

from rich.console import Console
from rich.table import Table

import vcubeps
from vcubeps.net.loops import run

NODES = 8
PAUSES_MS = (0.0, 1.0, 2.0, 5.0, 20.0)


async def measure(publications: int, rounds: int) -> dict[float, list[float]]:
    """Pause in milliseconds → processor time of a delivery in microseconds, in each round."""
    found: dict[float, list[float]] = {pause_ms: [] for pause_ms in PAUSES_MS}
    async with vcubeps.LocalCluster(NODES) as cluster:
        members = [
            await cluster[node].subscribe("hot", on_message=lambda message: None) for node in range(NODES)
        ]
        for turn in range(rounds + 1):
            for pause_ms, costs in found.items():
                started_s = time.process_time()
                for number in range(publications):
                    receipt = await members[number % NODES].publish(b"x" * 64)
                    await receipt.acknowledged()
                    if pause_ms:
                        await asyncio.sleep(pause_ms / 1000)
                cost_us = (time.process_time() - started_s) * 1e6 / (publications * (NODES - 1))
                if turn:  # the first one only warms up
                    costs.append(cost_us)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--publications", type=int, default=200, help="for every pause in every round (200)")
    parser.add_argument("--rounds", type=int, default=3, help="of all pauses in turn; medians are shown (3)")
    options = parser.parse_args()
    if min(options.publications, options.rounds) < 1:
        parser.error("give 1 or more of publications and rounds")
    found = run(measure(options.publications, options.rounds))
    table = Table("pause", "CPU µs per delivery", "range", title=f"{NODES} nodes in one process, 64 B")
    for pause_ms, costs in found.items():
        table.add_row(
            f"{pause_ms:g} ms", f"{statistics.median(costs):.0f}", f"{min(costs):.0f}–{max(costs):.0f}"
        )
    Console().print(table)


if __name__ == "__main__":
    main()
