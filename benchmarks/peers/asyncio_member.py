"""Members on an event loop, and the two tasks that drive them: one publishes, the other receives."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from peers.place import Place
from peers.session import GREETING, TICK, Report, Session


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's, which is the faster one, where it is installed."""
    if importlib.util.find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = importlib.import_module("uvloop").new_event_loop()
    return loop


class AsyncioMember(ABC):
    """A process of a system whose library is made for asyncio."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.deliver: Callable[[Sequence[bytes]], None] | None = None
        """Set where latency counts: a library that calls back in the loop then gives this at once what comes, as the
        callback is the application; else `receive_batch` hands over batches, which costs less."""

    @abstractmethod
    async def open(self) -> None:
        """Connect and subscribe; others may come later."""

    @abstractmethod
    async def publish(self, payload: bytes) -> None:
        """Publish; wait while there is no room."""

    @abstractmethod
    async def receive_batch(self) -> Sequence[bytes]:
        """All payloads that are there; when there are none, or `deliver` is given them, wait."""

    @abstractmethod
    async def close(self) -> None:
        """Leave at once, without sending what is still queued."""

    def run(self, session: Session, report: Callable[[Report], None]) -> None:
        """Take part in a run from the first hello to the end."""
        if session.timed:
            self.deliver = session.take
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(self._run(session, report))

    async def _run(self, session: Session, report: Callable[[Report], None]) -> None:
        await self.open()
        try:
            async with asyncio.TaskGroup() as tasks:
                woken = asyncio.Event()
                receiver = tasks.create_task(self._receive(session, woken))
                ticker = tasks.create_task(_tick(woken))
                await self._greet(session)
                await asyncio.sleep(session.until_start())
                session.start()
                await self._work(session, woken)
                report(session.report())
                while not session.closing:
                    await asyncio.sleep(TICK)
                receiver.cancel()
                ticker.cancel()
        finally:
            await self.close()

    async def _receive(self, session: Session, woken: asyncio.Event) -> None:
        while True:
            session.take(await self.receive_batch())
            if session.awaits_deliveries:
                woken.set()

    async def _greet(self, session: Session) -> None:
        while session.greeting():
            await self.publish(session.hello())
            await asyncio.sleep(GREETING)

    async def _work(self, session: Session, woken: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        while not session.over:
            woken.clear()
            for _ in range(session.due()):
                await self.publish(session.payload())
                session.sent()
            pause = session.pause()
            if not pause or not session.awaits_deliveries:
                await asyncio.sleep(pause)
                continue
            if pause < TICK:
                loop.call_later(pause, woken.set)
            await woken.wait()


async def _tick(woken: asyncio.Event) -> None:
    """Look at the board from time to time: one timer for all, as one for every wait would cost more than the wait."""
    while True:
        await asyncio.sleep(TICK)
        woken.set()
