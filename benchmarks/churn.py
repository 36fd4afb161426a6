"""64 nodes in 8 processes, 16 topics: how fast subscriptions take effect, and whether load with joins and leaves holds.

    python benchmarks/churn.py [--seconds 60] [--rate 4] [--keep DIR]

At rest every node subscribes to its first topic, one node after the other; then all to the rest at once. Under load
every node publishes on its topics and now and then leaves one and joins another. The traces are audited on Spark.
Exit code 0 only if the subscriptions at rest took at most 2 s each and the audit found nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

import vcubeps

TOPICS_OF_EACH = 4
"""Topics that a node is in at a time."""
LIMIT_S = 2.0


@dataclass
class Seen:
    """What one node measured."""

    joins_s: list[float] = field(default_factory=list)
    leaves_s: list[float] = field(default_factory=list)
    published: int = 0
    delivered: int = 0


def topic_named(number: int) -> str:
    return f"topic-{number}"


async def subscribe_first(node: vcubeps.Node, turn: int, topics: int) -> float | None:
    """If it is this node's turn: how long its first subscription takes."""
    if node.id != turn:
        return None
    started_s = time.monotonic()
    _kept[node.id] = {node.id % topics: await node.subscribe(topic_named(node.id % topics))}
    return time.monotonic() - started_s


_kept: dict[int, dict[int, vcubeps.Subscription]] = {}
"""Node → topic → its subscription, from one step to the next."""


async def subscribe_rest(node: vcubeps.Node, topics: int) -> float:
    """How long it takes until this node is in all its topics, while all other nodes join theirs."""
    mine = _kept[node.id]
    wanted = [(node.id + 5 * step) % topics for step in range(1, TOPICS_OF_EACH)]
    started_s = time.monotonic()
    joined = await asyncio.gather(*(node.subscribe(topic_named(topic)) for topic in wanted))
    mine.update(zip(wanted, joined, strict=True))
    return time.monotonic() - started_s


async def load(node: vcubeps.Node, seconds: float, topics: int, rate: float, seed: int) -> Seen:
    """Publish, read, leave and join for a while; in the end leave everything."""
    seen, chance, mine = Seen(), random.Random(seed * 1000 + node.id), _kept.pop(node.id)
    readers = {topic: asyncio.create_task(_read(subscription, seen)) for topic, subscription in mine.items()}
    end_s = time.monotonic() + seconds
    changes = asyncio.create_task(_change(node, mine, readers, topics, chance, seen, end_s))
    while time.monotonic() < end_s:
        await asyncio.sleep(chance.expovariate(rate))
        subscription = mine.get(chance.choice(list(mine)))
        if subscription is not None:
            try:
                await subscription.publish(chance.randbytes(64))
                seen.published += 1
            except vcubeps.SubscriptionClosed:
                pass  # left meanwhile
    await changes
    await asyncio.gather(*(subscription.close() for subscription in mine.values()))
    await asyncio.gather(*readers.values())
    return seen


async def _change(node, mine, readers, topics, chance, seen, end_s) -> None:
    while time.monotonic() + 1 < end_s:
        await asyncio.sleep(chance.uniform(1, 5))
        old = chance.choice(list(mine))
        new = chance.choice([topic for topic in range(topics) if topic not in mine])
        started_s = time.monotonic()
        await mine.pop(old).close()
        seen.leaves_s.append(time.monotonic() - started_s)
        await readers.pop(old)
        started_s = time.monotonic()
        mine[new] = await node.subscribe(topic_named(new))
        seen.joins_s.append(time.monotonic() - started_s)
        readers[new] = asyncio.create_task(_read(mine[new], seen))


async def _read(subscription: vcubeps.Subscription, seen: Seen) -> None:
    async for _ in subscription:
        seen.delivered += 1


async def run(arguments: argparse.Namespace, trace: str) -> bool:
    async with vcubeps.LocalCluster(
        arguments.nodes, processes=arguments.processes, trace_dir=trace, name="churn"
    ) as cluster:
        first_s = []
        for turn in range(arguments.nodes):
            results = await cluster.run(subscribe_first, turn, arguments.topics)
            first_s.append(next(result for result in results if result is not None))
        together_s = await cluster.run(subscribe_rest, arguments.topics)
        seen = await cluster.run(load, arguments.seconds, arguments.topics, arguments.rate, arguments.seed)
    joins_s = [s for each in seen for s in each.joins_s]
    leaves_s = [s for each in seen for s in each.leaves_s]
    print(f"{arguments.nodes} nodes in {arguments.processes} processes, {arguments.topics} topics")
    print(f"subscriptions at rest, one after the other: {_spread(first_s)}")
    print(f"{TOPICS_OF_EACH - 1} more of every node, all at once: {_spread(together_s)}")
    print(f"under load for {arguments.seconds:g} s: joins {_spread(joins_s)}; leaves {_spread(leaves_s)}")
    print(
        f"{sum(e.published for e in seen):,} publications, {sum(e.delivered for e in seen):,} deliveries read"
    )
    return max(first_s) <= LIMIT_S


def _spread(seconds: list[float]) -> str:
    ordered = sorted(seconds) or [0.0]
    return f"{len(seconds)}, median {ordered[len(ordered) // 2] * 1000:.1f} ms, longest {ordered[-1] * 1000:.0f} ms"


def audit(trace: str) -> bool:
    done = subprocess.run(
        [sys.executable, "-m", "vcubeps", "audit", trace, "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 2:
        sys.exit(done.stderr)
    answer = json.loads(done.stdout)
    print(
        f"audit: {answer['publications']:,} publications, {answer['deliveries']:,} deliveries, "
        f"{answer['dependency_checks']:,} dependencies checked; found {answer['findings']}"
    )
    return done.returncode == 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--topics", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument(
        "--rate", type=float, default=4, help="publications per second of each node (default: 4)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", metavar="DIR", help="write the trace there and keep it")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        directory = given.keep or place
        fast = asyncio.run(run(given, directory))
        clean = audit(directory)
    sys.exit(0 if fast and clean else 1)
