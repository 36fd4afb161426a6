"""Clusters of real nodes, small, with a trace, and what their applications saw."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path

import vcubeps
from vcubeps.net.subscription import Receipt, Subscription

Seen = dict[tuple[int, str], list[tuple[int, int]]]
"""(node, topic) → (source, counter) of the messages read, in order."""

ROUNDS = 4


def discuss(trace: Path) -> Seen:
    """Nodes talk in two rooms; node 3 comes late and leaves early, node 1 leaves and comes back."""
    return asyncio.run(_discuss(trace))


async def _discuss(trace: Path) -> Seen:
    seen: Seen = defaultdict(list)
    async with vcubeps.LocalCluster(4, trace_dir=trace) as cluster:
        room = {node: await cluster[node].subscribe("room") for node in range(3)}
        side = {node: await cluster[node].subscribe("side") for node in (0, 3)}
        for _ in range(ROUNDS):
            await _everybody_answers(room, seen)
        await _everybody_answers(side, seen)
        room[3] = await cluster[3].subscribe("room")
        await _everybody_answers(room, seen)
        burst = [await room[3].publish(b"one of many") for _ in range(20)]
        await _read_up_to(room, burst[-1], seen)
        await burst[-1].acknowledged()
        await room.pop(3).close()
        await room.pop(1).close()
        await _everybody_answers(room, seen)
        room[1] = await cluster[1].subscribe("room")
        await _everybody_answers(room, seen)
    return dict(seen)


async def _everybody_answers(room: dict[int, Subscription], seen: Seen) -> None:
    """Each one publishes when it has read what the one before it has said."""
    for subscription in list(room.values()):
        receipt = await subscription.publish(b"I think so too")
        await _read_up_to(room, receipt, seen)
        await receipt.acknowledged()


async def _read_up_to(room: dict[int, Subscription], last: Receipt, seen: Seen) -> None:
    for node, subscription in room.items():
        heard = seen[node, subscription.topic]
        while (last.source, last.counter) not in heard:
            message = await subscription.receive()
            heard.append((message.source, message.counter))


async def say_hello(node: vcubeps.Node) -> None:
    """For nodes in other processes, which can import it from here."""
    async with node.subscribe("room") as room:
        receipt = await room.publish(b"hello")
        await receipt.acknowledged()
