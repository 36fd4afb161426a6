"""The clients of `gateway.py`: many WebSocket connections in one process, which take little time themselves."""

from __future__ import annotations

import asyncio
import base64
import os
import struct
import time
from multiprocessing.connection import Connection
from typing import cast

from vcubeps.net.loops import run

TOPIC = "room"
PHASE_S = 60.0
"""How long clients wait for what they should get."""


class Client(asyncio.BufferedProtocol):
    """A WebSocket client that looks at the first bytes of each frame only, so that it takes little time itself."""

    _buffer = memoryview(bytearray(256 << 10))
    """One for all: what is in it is looked at before anybody else gets bytes."""

    def __init__(self, encoding: str, reads: bool, messages: int) -> None:
        self._encoding, self._reads, self._messages = encoding, reads, messages
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[bool] = loop.create_future()
        """Whether it was let in, when it is subscribed."""
        self.complete: asyncio.Future[None] = loop.create_future()
        self.counters: list[int] = []
        self.others: list[bytes] = []
        """The beginnings of frames that are no messages."""
        self._is_open = False
        self._head = b""
        """What has come of the head of a frame, or of the answer to the handshake."""
        self._skip = 0
        """Bytes of the frame that are still to come and not to be looked at."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(
            asyncio.Transport, transport
        )  # of another loop, it need not be one
        key = base64.b64encode(os.urandom(16)).decode()
        transport.write(
            b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + key.encode() + b"\r\n\r\n"
        )

    def get_buffer(self, _: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, count: int) -> None:
        data = self._buffer[:count]
        while data:
            taken = min(self._skip, len(data))
            self._skip -= taken
            data = data[taken:]
            if not data:
                return
            wanted = (200 if self._is_open else 2000) - len(self._head)
            self._head += bytes(data[:wanted])
            data = data[wanted:]
            while self._head and not self._skip and self._next():
                pass

    def _next(self) -> bool:
        """Take a frame from the head, if there is enough of it."""
        if not self._is_open:
            answer, end, rest = self._head.partition(b"\r\n\r\n")
            if end:
                self._head = rest
                self._opened(b" 101 " in answer)
            return bool(end)
        head = self._head
        if len(head) < 10 and len(head) < 2 + head[1]:
            return False
        start, length = 2, head[1]
        if length == 126:
            start, length = 4, struct.unpack_from(">H", head, 2)[0]
        elif length == 127:
            start, length = 10, struct.unpack_from(">Q", head, 2)[0]
        if len(head) < min(start + length, 200):
            return False
        self._on_frame(head[start : start + length])
        self._head = head[start + length :]
        self._skip = max(0, start + length - len(head))
        return True

    def _opened(self, let_in: bool) -> None:
        if not let_in:
            self._transport.abort()
            self.ready.set_result(False)
            return
        self._is_open = True
        asked = f'{{"op":"subscribe","topic":"{TOPIC}","encoding":"{self._encoding}"}}'.encode()
        self._transport.write(bytes((0x81, 0x80 | len(asked))) + bytes(4) + asked)  # masked with zeros

    def _on_frame(self, beginning: bytes) -> None:
        if not beginning.startswith(b'{"event":"message"'):
            self.others.append(beginning)
            if beginning.startswith(b'{"event":"subscribed"'):
                self.ready.set_result(True)
                if not self._reads:
                    self._transport.pause_reading()
            return
        self.counters.append(int(beginning.partition(b'"counter":')[2].partition(b",")[0]))
        if len(self.counters) == self._messages:
            self.complete.set_result(None)

    def read_on(self) -> None:
        self._transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        for future in (self.ready, self.complete):
            if not future.done():
                future.set_exception(ConnectionError(f"a client's connection ended: {error}"))
                future.exception()

    def close(self) -> None:
        self._transport.abort()


def be_clients(port: int, count: int, messages: int, line: Connection) -> None:
    os.nice(5)
    run(_read(port, count, messages, line))


async def _read(port: int, count: int, messages: int, line: Connection) -> None:
    loop, gate = asyncio.get_running_loop(), asyncio.Semaphore(20)

    async def connect(number: int) -> Client:
        encoding, reads = ("text", "base64")[number // 2 % 2], number % 2 == 0
        async with gate:
            while True:
                _, client = await loop.create_connection(
                    lambda: Client(encoding, reads, messages), "127.0.0.1", port
                )
                if await client.ready:
                    return client
                await asyncio.sleep(0.05)  # `/healthz` may have had the last place

    clients = await asyncio.gather(*(connect(number) for number in range(count)))
    line.send("subscribed")
    readers, sleepers = clients[::2], clients[1::2]
    await asyncio.wait([client.complete for client in readers], timeout=PHASE_S)
    line.send("read")
    await loop.run_in_executor(None, line.recv)
    for client in sleepers:
        client.read_on()
    await asyncio.wait([client.complete for client in sleepers], timeout=PHASE_S)
    expected = max((client.counters for client in clients), key=len)
    right = len(expected) == messages and expected == sorted(set(expected))
    wrong = sum(not right or client.counters != expected for client in clients)
    for client in clients:
        client.close()
    await asyncio.sleep(0)
    line.send((wrong, time.process_time()))
