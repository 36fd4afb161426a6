"""What each node of `vcubeps bench` does, in the processes of the nodes. Payloads carry source and number."""

from __future__ import annotations

import asyncio
import random
import struct
import time
from array import array
from dataclasses import dataclass, field

from vcubeps.net.node import Node
from vcubeps.net.subscription import Subscription

TOPIC = "hot"
WINDOW = 256
"""Closed loop: a node publishes its k-th message when it has message k − WINDOW of every other."""
_PATIENCE_S = 20.0
"""When nothing has come for so long, what is missing is lost."""
_MARK = struct.Struct(">IQ")
SMALLEST_BYTES = _MARK.size


@dataclass
class Measured:
    """By one node, from the start of its load to the last message."""

    cpu_s: float = 0.0
    wall_s: float = 0.0
    published: int = 0
    delivered: int = 0
    """Others' messages."""
    misplaced: int = 0
    """Messages that never came, or were not the next of their source: lost, twice, or out of order."""
    latencies_us: array[int] = field(default_factory=lambda: array("q"))


async def load(node: Node, mode: str, size: int, messages: int, rate: float) -> Measured:
    """Publish `messages` of `size` bytes and read those of all others, by the rules of `mode`."""
    async with node.subscribe(TOPIC) as hot:
        while len(hot.members) < len(node.nodes):  # all shall be there before the first message
            await asyncio.sleep(0.01)
        reader = _Reader(node, hot, messages, timed=mode == "latency")
        cpu_s, started_s = time.process_time(), time.monotonic()
        reading = asyncio.create_task(reader.read())
        publish = {"saturation": _windowed, "flood": _flood, "latency": _paced}[mode]
        try:
            await publish(hot, reader, node.id, bytes(size - SMALLEST_BYTES), messages, rate)
            measured = await reading
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        measured.published = messages
        measured.cpu_s, measured.wall_s = time.process_time() - cpu_s, time.monotonic() - started_s
        return measured


class _Reader:
    def __init__(self, node: Node, hot: Subscription, messages: int, timed: bool) -> None:
        self._me, self._hot, self._messages, self._timed = node.id, hot, messages, timed
        self._next = dict.fromkeys((other for other in node.nodes if other != node.id), 0)
        self.progress = asyncio.Event()
        self.has_ended = False
        self.gave_up = False
        """Nothing has come for too long: what is missing will not come."""

    def slowest(self) -> int:
        """So many messages of every other node have come."""
        return min(self._next.values(), default=self._messages)

    async def read(self) -> Measured:
        measured, expected, me = Measured(), self._next, self._me
        wanted = self._messages * len(expected)
        while measured.delivered < wanted:
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    batch = await self._hot.receive_batch()
            except TimeoutError:
                measured.misplaced += wanted - measured.delivered
                self.gave_up = True
                break
            for message in batch:
                if message.source == me:
                    continue
                source, number = _MARK.unpack_from(message.payload)
                measured.delivered += 1
                if expected[source] != number:
                    measured.misplaced += 1
                expected[source] = number + 1
                if self._timed:
                    measured.latencies_us.append(int((time.time() - message.published_at) * 1e6))
            self.progress.set()
        self.has_ended = True
        self.progress.set()
        return measured


async def _windowed(
    hot: Subscription, reader: _Reader, me: int, padding: bytes, messages: int, _rate: float
) -> None:
    number = 0
    while number < messages and not reader.gave_up:
        reader.progress.clear()
        allowed = messages if reader.has_ended else min(messages, reader.slowest() + WINDOW)
        while number < allowed:
            await hot.publish(_MARK.pack(me, number) + padding)
            number += 1
        if number < messages:
            await reader.progress.wait()


async def _flood(
    hot: Subscription, _reader: _Reader, me: int, padding: bytes, messages: int, _rate: float
) -> None:
    for number in range(messages):
        await hot.publish(_MARK.pack(me, number) + padding)


async def _paced(
    hot: Subscription, _reader: _Reader, me: int, padding: bytes, messages: int, rate: float
) -> None:
    chance = random.Random(me)
    await asyncio.sleep(chance.random() / rate)
    for number in range(messages):
        await hot.publish(_MARK.pack(me, number) + padding)
        await asyncio.sleep(chance.uniform(0.5, 1.5) / rate)
