"""What runs in a node's process: the node, and an application that publishes, reads, comes and goes.

    python -m vcubeps.chaos.application FILE ID SEED PUBLICATIONS_PER_S

Reports go to stdout and commands come from stdin, a line of JSON each; the end of stdin ends the process at once.
All nodes are on the topic `pulse` all the time, and publish there a few times a second: what is acknowledged there
is the sign that everybody goes on. The rooms carry the load; some nodes leave them and come back.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import random
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from vcubeps.chaos import reports
from vcubeps.mixing import mix
from vcubeps.net import events, loops
from vcubeps.net.errors import Isolated, NodeError, Unacknowledged
from vcubeps.net.node import Node
from vcubeps.net.opening import open_node
from vcubeps.net.subscription import Receipt, Subscription

PULSE = "pulse"
PULSE_S = 0.25
"""Between two publications of a node on it."""
ROOMS = ("room-0", "room-1", "room-2", "room-3")
_STAYS_S, _IS_AWAY_S = 20.0, 5.0
"""How long a node that comes and goes stays on average, and is away."""
_QUEUE = 64
"""Messages that may wait in a room to be read: few, so that slow readers are felt."""
_SLOWLY_S = 0.2
"""Of one that reads slowly, between two messages."""
_AGAIN_S = 0.2
"""Before the next attempt of a node that is isolated."""
_PAYLOAD_BYTES = 100
_DIES_WITH_PARENT = 1
"""PR_SET_PDEATHSIG."""


class Application:
    """The application of one node."""

    def __init__(self, node: Node, seed: int, per_s: float) -> None:
        self._node = node
        self._random = random.Random(mix(seed, node.id, node.incarnation))
        self._per_s = per_s
        self._is_quiet = asyncio.Event()
        self._slow_until_s = 0.0
        self._last: dict[tuple[str, int], int] = {}
        """Topic and source → counter of what was read last."""
        self._receipts: dict[str, Receipt] = {}
        """Topic → the last one."""
        self._unknown = self._isolated = self._published = self._delivered = 0
        self._waiting: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            group.create_task(self._tell_unknown())
            group.create_task(self._pulse())
            for place, room in enumerate(ROOMS):
                if (self._node.id + place) % 2 == 0:
                    group.create_task(self._room(room, place >= len(ROOMS) // 2))

    def hush(self) -> None:
        """Publish nothing more."""
        self._is_quiet.set()

    async def obey(self, command: reports.Command) -> None:
        if isinstance(command, reports.ReadSlowly):
            self._slow_until_s = time.monotonic() + command.for_s
        elif isinstance(command, reports.BeQuiet):
            self.hush()
            await self._drain()
            say(
                reports.Quiet(
                    time.monotonic(),
                    self._node.members(PULSE),
                    self._node.status().counts.violations,
                    self._published,
                    self._delivered,
                )
            )

    # -- what it does --------------------------------------------------------------------------

    async def _pulse(self) -> None:
        """Never waits for the pulse before: each is acknowledged by itself."""
        pulse = await self._patiently(lambda: _subscribed(self._node, PULSE, None))
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read(pulse, may_be_slow=False))
            while not self._is_quiet.is_set():
                published_s = time.monotonic()
                with contextlib.suppress(Isolated):
                    receipt = self._receipts[PULSE] = await self._publish(pulse)
                    waiting = asyncio.create_task(self._acknowledged(receipt, published_s))
                    self._waiting.add(waiting)
                    waiting.add_done_callback(self._waiting.discard)
                await self._pause(PULSE_S)

    async def _acknowledged(self, receipt: Receipt, published_s: float) -> None:
        try:
            await receipt.acknowledged()
        except Unacknowledged:
            self._unknown += 1
        else:
            say(reports.Pulse(published_s, time.monotonic()))

    async def _room(self, room: str, comes_and_goes: bool) -> None:
        while not self._is_quiet.is_set():
            subscription = await self._patiently(lambda: _subscribed(self._node, room, _QUEUE))
            until_s = time.monotonic() + self._random.expovariate(1 / _STAYS_S) if comes_and_goes else None
            async with asyncio.TaskGroup() as group:
                reading = group.create_task(self._read(subscription, may_be_slow=True))
                while not self._is_quiet.is_set() and (until_s is None or time.monotonic() < until_s):
                    await self._pause(self._random.expovariate(self._per_s))
                    with contextlib.suppress(Isolated):
                        self._receipts[room] = await self._publish(subscription)
                if self._is_quiet.is_set():
                    return  # it goes on reading until the node is closed
                await subscription.close()
                await reading
            await self._pause(self._random.expovariate(1 / _IS_AWAY_S))

    async def _publish(self, subscription: Subscription) -> Receipt:
        try:
            receipt = await subscription.publish(self._random.randbytes(_PAYLOAD_BYTES))
        except Isolated:
            self._isolated += 1
            raise
        self._published += 1
        return receipt

    async def _patiently(self, subscribe: Callable[[], Awaitable[Subscription]]) -> Subscription:
        while True:
            try:
                return await subscribe()
            except Isolated:
                self._isolated += 1
                await asyncio.sleep(_AGAIN_S)

    async def _pause(self, for_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_quiet.wait(), for_s)

    async def _read(self, subscription: Subscription, *, may_be_slow: bool) -> None:
        async for message in subscription:
            self._delivered += 1
            place = subscription.topic, message.source
            before = self._last.get(place, -1)
            if message.counter <= before:
                say(
                    reports.Wrong(
                        time.monotonic(),
                        f"read ⟨{message.source}, {message.counter}⟩ on {subscription.topic!r} after counter {before}",
                    )
                )
            self._last[place] = message.counter
            if may_be_slow and time.monotonic() < self._slow_until_s:
                await asyncio.sleep(_SLOWLY_S)

    async def _drain(self) -> None:
        for receipt in self._receipts.values():
            with contextlib.suppress(Unacknowledged):
                await receipt.acknowledged()
        await asyncio.gather(*self._waiting)

    # -- what it tells -------------------------------------------------------------------------

    async def _watch(self) -> None:
        async for event in self._node.events():
            now_s = time.monotonic()
            if isinstance(event, events.Crashed):
                say(reports.Crash(now_s, event.node, event.incarnation, event.evidence))
            elif isinstance(event, events.LifeChanged):
                say(reports.Life(now_s, event.life, self._node.incarnation, event.reason))

    async def _tell_unknown(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            if self._unknown or self._isolated:
                say(reports.Unknown(time.monotonic(), self._unknown, self._isolated))
                self._unknown = self._isolated = 0


async def _subscribed(node: Node, topic: str, queue: int | None) -> Subscription:
    return await node.subscribe(topic, queue_messages_max=queue)


def say(report: reports.Report) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.flush()


# -- the process -----------------------------------------------------------------------------------


async def serve(file: str, number: int, seed: int, per_s: float) -> None:
    """Until it is told to end, by command or by SIGTERM."""
    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    commands: asyncio.Queue[reports.Command] = asyncio.Queue()
    listening = asyncio.create_task(_listen(commands, ending))
    opening = asyncio.create_task(_opened(file, number))
    await _first(opening, ending)
    if opening.done():
        await _live(opening.result(), Application(opening.result(), seed, per_s), commands, ending)
    for task in (opening, listening):
        task.cancel()
    await asyncio.gather(opening, listening, return_exceptions=True)


async def _live(
    node: Node, application: Application, commands: asyncio.Queue[reports.Command], ending: asyncio.Event
) -> None:
    say(reports.Up(time.monotonic(), node.incarnation))
    work = asyncio.create_task(application.run())
    obeying = asyncio.create_task(_obey(application, commands))
    failing = asyncio.create_task(node.wait_failed())
    await _first(work, obeying, failing, ending)
    application.hush()
    if failing.done():
        say(reports.Failed(time.monotonic(), str(failing.result())))
    for task in (work, obeying):
        if task.done():
            say(reports.Failed(time.monotonic(), f"the application failed: {task.exception()!r}"))
    unacknowledged = ""
    try:
        await node.close()
    except NodeError as error:
        unacknowledged = str(error)
    work.cancel()
    obeying.cancel()
    failing.cancel()
    await asyncio.gather(work, obeying, failing, return_exceptions=True)
    say(reports.Closed(time.monotonic(), unacknowledged))


async def _opened(file: str, number: int) -> Node:
    return await open_node(file, number)


async def _first(*awaited: asyncio.Task[Any] | asyncio.Event) -> None:
    """Wait for one of them."""
    waits = [asyncio.create_task(each.wait()) for each in awaited if isinstance(each, asyncio.Event)]
    await asyncio.wait(
        [*(each for each in awaited if not isinstance(each, asyncio.Event)), *waits],
        return_when=asyncio.FIRST_COMPLETED,
    )
    for wait in waits:
        wait.cancel()


async def _listen(commands: asyncio.Queue[reports.Command], ending: asyncio.Event) -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    decoder: msgspec.json.Decoder[reports.Command] = msgspec.json.Decoder(reports.Command)
    while line := await reader.readline():
        command = decoder.decode(line)
        if isinstance(command, reports.Close):
            ending.set()
        else:
            commands.put_nowait(command)
    os._exit(1)  # who started it is no more


async def _obey(application: Application, commands: asyncio.Queue[reports.Command]) -> None:
    while True:
        await application.obey(await commands.get())


def _die_with_parent() -> None:
    """A process that is stopped would not notice that nobody is left to continue it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)


def main() -> None:
    file, number, seed, per_s = sys.argv[1:]
    _die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("vcubeps").setLevel(logging.INFO)
    loops.run(serve(file, int(number), int(seed), float(per_s)))


if __name__ == "__main__":
    main()
