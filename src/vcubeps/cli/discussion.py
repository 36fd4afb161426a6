"""What each node of `vcubeps demo` does: a discussion group in which members answer each other, come and go.

In a module of its own, because the processes of the nodes import it.
"""

from __future__ import annotations

import asyncio
import random
import time
from array import array
from dataclasses import dataclass, field

from vcubeps.net.message import Message
from vcubeps.net.node import Node
from vcubeps.net.subscription import Subscription

TOPIC = "discussion"

_ANSWERS_OF_EACH = 0.6
"""How many answers a post gets on average, over all members: below 1, or the discussion would grow for ever."""

_POSTS_PER_S = 12.0
"""New questions of one member."""


@dataclass
class Part:
    """What one node saw."""

    published: int = 0
    delivered: int = 0
    joins: int = 0
    leaves: int = 0
    early_answers: int = 0
    """Answers delivered before what they answer, although that was delivered later."""
    latencies_us: array[int] = field(default_factory=lambda: array("q"))
    """From publish to delivery, of others' posts."""
    barriers: array[int] = field(default_factory=lambda: array("q"))
    """Entries of each post's causal barrier."""


async def discuss(node: Node, seconds: float, seed: int) -> Part:
    """Take part for `seconds`; every third node stays, the others come later, leave in the middle or come back."""
    part = Part()
    chance = random.Random(seed * 1_000_003 + node.id)
    begun_s = time.monotonic()
    for begin, end in _times_of(node.id, seconds):
        await asyncio.sleep(max(0.0, begun_s + begin - time.monotonic()))
        async with node.subscribe(TOPIC, codec="json") as group:
            part.joins += 1
            await _stay(node, group, part, chance, begun_s + end)
        part.leaves += 1
    return part


def _times_of(node: int, seconds: float) -> list[tuple[float, float]]:
    """From when to when a node is a member."""
    if node % 3 == 0:
        return [(0.0, seconds)]
    if node % 3 == 1:
        return [(0.0, seconds * 0.45), (seconds * 0.6, seconds)]
    return [(seconds * 0.25, seconds * 0.8)]


async def _stay(node: Node, group: Subscription, part: Part, chance: random.Random, end_s: float) -> None:
    reading = asyncio.create_task(_read_and_answer(node, group, part, chance))
    try:
        receipt = None
        while (left_s := end_s - time.monotonic()) > 0:
            receipt = await group.publish(
                {"text": f"question {part.published} of node {node.id}", "to": None}
            )
            part.published += 1
            await asyncio.sleep(min(chance.expovariate(_POSTS_PER_S), left_s))
        if receipt is not None:
            await receipt.acknowledged()
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _read_and_answer(node: Node, group: Subscription, part: Part, chance: random.Random) -> None:
    seen: set[tuple[int, int]] = set()
    awaited: set[tuple[int, int]] = set()
    """What was answered here and had not been seen: from before this node came, or else out of order."""
    async for message in group:
        part.delivered += 1
        part.barriers.append(len(message.after))
        if message.source != node.id:
            part.latencies_us.append(int((time.time() - message.published_at) * 1e6))
        this = message.source, message.counter
        seen.add(this)
        part.early_answers += this in awaited
        if (answered := _answered(message)) is not None and answered not in seen:
            awaited.add(answered)
        if chance.random() < _ANSWERS_OF_EACH / max(1, len(group.members)):
            await group.publish({"text": f"node {node.id} answers", "to": list(this)})
            part.published += 1


def _answered(message: Message) -> tuple[int, int] | None:
    to = message.value["to"]
    return None if to is None else (to[0], to[1])
