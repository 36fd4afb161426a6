"""A TCP proxy on the way from one node to another: cuts, delays, holds and reorders connections, by script.

Reordering is holding an older connection while newer ones pass, and letting it go later.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket

_CHUNK_BYTES = 1 << 16


class Passage:
    """One connection through a proxy, with one pump for each direction."""

    def __init__(self, way: Way, near: asyncio.StreamWriter, is_held: bool) -> None:
        self._way = way
        self._near = near
        self._far: asyncio.StreamWriter | None = None
        self._forth, self._back = asyncio.Event(), asyncio.Event()
        """Whether bytes from, and to, the node that dialled pass."""
        if not is_held:
            self.release()

    def hold(self) -> None:
        """Bytes that come from now on wait."""
        self._forth.clear()
        self._back.clear()

    def hold_answers(self) -> None:
        self._back.clear()

    def release(self) -> None:
        self._forth.set()
        self._back.set()

    def cut(self) -> None:
        """Both ends lose the connection; what was passed on before still arrives."""
        for writer in (self._near, self._far):
            if writer is not None:
                writer.close()

    def lose_at_dialler(self) -> None:
        """The node that dialled loses the connection; the other hears nothing of it until `release`."""
        self.hold()
        self._near.transport.abort()

    def lose_at_listener(self) -> None:
        self.hold()
        assert self._far is not None
        self._far.transport.abort()

    async def carry(self, near: asyncio.StreamReader, host: str, port: int) -> None:
        try:
            far, self._far = await asyncio.open_connection(host, port)
        except OSError:
            self._near.close()
            return
        try:
            pumps = [
                asyncio.create_task(self._pump(near, self._far, self._forth)),
                asyncio.create_task(self._pump(far, self._near, self._back)),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        finally:
            self.cut()

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, is_open: asyncio.Event
    ) -> None:
        way = self._way
        with contextlib.suppress(OSError):
            while chunk := await source.read(_CHUNK_BYTES):
                await is_open.wait()
                if way.delay_s:
                    await asyncio.sleep(way.delay_s)
                allowed = chunk if way.budget_bytes is None else chunk[: way.budget_bytes]
                sink.write(allowed)
                way.carried_bytes += len(allowed)
                if way.budget_bytes is not None:
                    way.budget_bytes -= len(allowed)
                    if len(allowed) < len(chunk) or way.budget_bytes == 0:
                        way.cuts += 1
                        way.budget_bytes = None
                        return
                await sink.drain()
            await is_open.wait()  # the end of a held connection is held too


class Way:
    """The way from one node to another's listening address. All faults are set by its attributes and methods."""

    def __init__(self) -> None:
        self.delay_s = 0.0
        """Before each chunk is passed on."""
        self.budget_bytes: int | None = None
        """After so many bytes, of both directions together, the connection that carries them is cut."""
        self.cuts = 0
        """How often that has happened."""
        self.carried_bytes = 0
        self.holds_new = False
        """Whether connections that are made from now on are held."""
        self.holds_answers = False
        """Whether only what comes back on them is held."""
        self.is_blocked = False
        """Whether connections that are made from now on are ended at once."""
        self.passages: list[Passage] = []
        """Living connections, oldest first."""
        self.accepted = 0
        self._target = ("", 0)
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._sock = socket.socket()
        self._sock.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._sock.getsockname()[1]}"

    async def open(self, host: str, port: int) -> None:
        self._target = host, port
        self._server = await asyncio.start_server(self._on_connection, sock=self._sock)

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.accepted += 1
        if self.is_blocked:
            writer.transport.abort()
            self._tasks.discard(task)
            return
        passage = Passage(self, writer, self.holds_new)
        if self.holds_answers:
            passage.hold_answers()
        self.passages.append(passage)
        try:
            await passage.carry(reader, *self._target)
        except asyncio.CancelledError:
            pass  # the proxy is closed; asyncio's streams would log the cancellation
        finally:
            passage.cut()
            self.passages.remove(passage)
            self._tasks.discard(task)

    def cut(self) -> None:
        for passage in list(self.passages):
            passage.cut()

    def hold(self) -> None:
        """Nothing passes, on old and new connections; nothing is lost either."""
        self.holds_new = True
        for passage in self.passages:
            passage.hold()

    def release(self) -> None:
        self.holds_new = self.holds_answers = False
        for passage in self.passages:
            passage.release()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._sock.close()
        self.is_blocked = True
        for _ in range(5):  # connections that the server has just accepted get their tasks
            await asyncio.sleep(0)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)


class Proxies:
    """One way for each ordered pair of `count` nodes."""

    def __init__(self, count: int) -> None:
        self.ways = {(one, other): Way() for one in range(count) for other in range(count) if one != other}

    def between(self, one: int, other: int) -> tuple[Way, Way]:
        """Both ways of a pair: which of them a connection takes depends on who dials."""
        return self.ways[one, other], self.ways[other, one]

    async def close(self) -> None:
        await asyncio.gather(*(way.close() for way in self.ways.values()))
