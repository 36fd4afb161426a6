"""16 nodes in processes of their own, with the default timings: how soon a node that dies or hangs is found out.

    python benchmarks/detection.py [--nodes 16] [--rounds 5] [--load-minutes 10]

In each round one process is killed (kill -9), or stopped (SIGSTOP), while the others are idle, or all publish on one
topic as fast as they may. Measured from the signal: when the first node takes it for crashed, and for how long the
topic stands still at most. Then: what an idle node costs. Then full load for minutes, in which nobody may be taken for
crashed falsely. Exit code 0 only if every limit holds.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import vcubeps

DETECTED_S, STALL_S, IDLE_SHARE = 2.5, 3.0, 0.005


@dataclass
class Seen:
    """What one node saw."""

    crashes: list[tuple[float, int, str]] = field(default_factory=list)
    """When, whom, on what evidence."""
    suspected: int = 0
    stall_s: float = 0.0
    """Longest time between two deliveries of others' publications, after the signal."""
    cpu_s: float = 0.0
    lasted_s: float = 0.0
    deliveries: int = 0


async def live(node: vcubeps.Node, directory: Path, busy: bool) -> Seen:
    """Until the file `stop` is there. `signalled` is there from the moment that something happens to a node."""
    seen = Seen()
    tasks = [asyncio.create_task(_listen(node, seen))]
    if busy:
        tasks.append(asyncio.create_task(_talk(node, seen, directory)))
    began_s, cpu_s = time.monotonic(), time.process_time()
    (directory / f"ready-{node.id}").touch()
    while not (directory / "stop").exists():
        await asyncio.sleep(0.2)
    seen.cpu_s, seen.lasted_s = time.process_time() - cpu_s, time.monotonic() - began_s
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return seen


async def _listen(node: vcubeps.Node, seen: Seen) -> None:
    async for event in node.events():
        if isinstance(event, vcubeps.Crashed):
            seen.crashes.append((time.monotonic(), event.node, event.evidence))
        elif isinstance(event, vcubeps.Suspected):
            seen.suspected += 1


async def _talk(node: vcubeps.Node, seen: Seen, directory: Path) -> None:
    last_s = time.monotonic()

    def delivered(message: vcubeps.Message) -> None:
        nonlocal last_s
        if message.source == node.id:
            return
        now_s = time.monotonic()
        seen.deliveries += 1
        if now_s - last_s > 0.2 and (directory / "signalled").exists():
            seen.stall_s = max(seen.stall_s, now_s - last_s)
        last_s = now_s

    with contextlib.suppress(vcubeps.NodeError):
        async with node.subscribe("hot", on_message=delivered) as room:
            while True:
                await room.publish(b"x" * 64)
                await asyncio.sleep(0)


@dataclass
class Round:
    detected_s: float
    stall_s: float
    falsely: int
    """Nodes that live and were taken for crashed."""


async def one_round(nodes: int, kind: int | None, busy: bool, seconds: float) -> tuple[Round, list[Seen]]:
    """`kind` is the signal; None: nothing happens."""
    victim = nodes - 1
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        cluster = vcubeps.LocalCluster(nodes, processes=True, detection=vcubeps.Detection())
        async with cluster:
            for worker in cluster._workers:
                worker.stop_watching()  # or the end of a process would be told at once
            running = asyncio.create_task(cluster.run(live, directory, busy))
            while not all((directory / f"ready-{node}").exists() for node in range(nodes)):
                await asyncio.sleep(0.05)
            await asyncio.sleep(3.0)
            at_s = time.monotonic()
            if kind is not None:
                (directory / "signalled").touch()
                os.kill(cluster.pids[victim], kind)
            await asyncio.sleep(seconds)
            (directory / "stop").touch()
            if kind == signal.SIGSTOP:
                os.kill(cluster.pids[victim], signal.SIGCONT)
            if kind == signal.SIGKILL:
                seen = await _survivors(cluster, running)
            else:
                seen = [each for node, each in enumerate(await running) if kind is None or node != victim]
    until_s = at_s + seconds  # later, a node that was stopped may have been heard of again
    crashes = [(when_s, node) for each in seen for when_s, node, _ in each.crashes if when_s < until_s]
    found = [when_s - at_s for when_s, node in crashes if node == victim and kind is not None]
    falsely = sum(node != victim or kind is None for _, node in crashes)
    return Round(min(found, default=float("inf")), max(each.stall_s for each in seen), falsely), seen


async def _survivors(cluster: vcubeps.LocalCluster, running: asyncio.Task[list[Seen]]) -> list[Seen]:
    """`run` raises because a process has ended; what the others returned is kept by their workers."""
    results: list[Seen] = []
    with contextlib.suppress(vcubeps.WorkerFailed):
        await running
    for worker in cluster._workers:
        results += list(worker.last.values()) if isinstance(worker.last, dict) else []
    return results


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5, help="of each kind (default: %(default)s)")
    parser.add_argument(
        "--load-minutes", type=float, default=10.0, help="of full load (default: %(default)s)"
    )
    arguments = parser.parse_args()
    holds = True
    for kind, name in ((signal.SIGKILL, "kill -9"), (signal.SIGSTOP, "SIGSTOP")):
        for busy in (False, True):
            rounds = [
                asyncio.run(one_round(arguments.nodes, kind, busy, 6.0))[0] for _ in range(arguments.rounds)
            ]
            detected = [each.detected_s for each in rounds]
            stalls = [each.stall_s for each in rounds]
            falsely = sum(each.falsely for each in rounds)
            holds &= max(detected) <= DETECTED_S and max(stalls) <= STALL_S and not falsely
            print(
                f"{name}, {'busy' if busy else 'idle'}: found out after {statistics.median(detected):.2f} s (longest "
                f"{max(detected):.2f}, limit {DETECTED_S}), "
                + (f"topic stood still {max(stalls):.2f} s at most (limit {STALL_S}), " if busy else "")
                + f"{falsely} taken for crashed falsely",
                flush=True,
            )
    _, seen = asyncio.run(one_round(arguments.nodes, None, False, 20.0))
    share = statistics.median(each.cpu_s / each.lasted_s for each in seen)
    holds &= share <= IDLE_SHARE
    print(f"idle: {100 * share:.2f} % of a processor per node (limit {100 * IDLE_SHARE:g} %)", flush=True)
    load, seen = asyncio.run(one_round(arguments.nodes, None, True, 60.0 * arguments.load_minutes))
    holds &= not load.falsely
    deliveries = sum(each.deliveries for each in seen)
    print(
        f"{arguments.load_minutes:g} minutes of full load: {deliveries} deliveries, {load.falsely} nodes taken for "
        f"crashed ({sum(each.suspected for each in seen)} suspicions that others did not share)"
    )
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
