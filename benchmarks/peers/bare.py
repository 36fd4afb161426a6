"""Bare sockets: what the same frames cost in Python without a system around them. A floor, not a peer.

Every process is connected with every other one. A publication is one frame to each; every receiver gives it to the
application and answers with an acknowledgement, as VCube-PS does for few recipients, and with as many bytes. Nothing is
ordered, kept or watched, and nobody waits for the acknowledgements.
"""

from __future__ import annotations

import asyncio
import socket
import struct

from peers.asyncio_member import AsyncioMember

_HEADER = struct.Struct(">IB")
_PUBLICATION, _ACKNOWLEDGEMENT = 1, 2
_ANSWER = _HEADER.pack(40, _ACKNOWLEDGEMENT) + bytes(40)
_ROOM_BYTES = 256 << 10
_PAUSE_S = 0.05
"""Before the next attempt to connect."""


class _Connection(asyncio.BufferedProtocol):
    def __init__(self, member: Member) -> None:
        self._member = member
        self._room = memoryview(bytearray(_ROOM_BYTES))
        self._filled = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.write = transport.write
        self._member.connections.append(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._room[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        room, start, end = self._room, 0, self._filled + nbytes
        while end - start >= _HEADER.size:
            size, kind = _HEADER.unpack_from(room, start)
            body = start + _HEADER.size
            if end - body < size:
                break
            start = body + size
            if kind == _PUBLICATION:
                self._member.take(bytes(room[body:start]))
                self.write(_ANSWER)
        room[: end - start] = room[start:end]
        self._filled = end - start


class Member(AsyncioMember):
    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self.connections: list[_Connection] = []
        self._arrived: list[bytes] = []
        self._some = asyncio.Event()
        ports, me = self.place.ports, self.place.me
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", ports[me])
        for port in ports[:me]:
            while not await self._connects(port):
                await asyncio.sleep(_PAUSE_S)
        while len(self.connections) < len(ports) - 1:
            await asyncio.sleep(_PAUSE_S)

    async def _connects(self, port: int) -> bool:
        try:
            await asyncio.get_running_loop().create_connection(lambda: _Connection(self), "127.0.0.1", port)
        except OSError:
            return False
        return True

    def take(self, payload: bytes) -> None:
        if self.deliver is not None:
            self.deliver([payload])
        else:
            self._arrived.append(payload)
            self._some.set()

    async def publish(self, payload: bytes) -> None:
        data = _HEADER.pack(len(payload), _PUBLICATION) + payload
        for connection in self.connections:
            connection.write(data)

    async def receive_batch(self) -> list[bytes]:
        await self._some.wait()
        self._some.clear()
        arrived, self._arrived = self._arrived, []
        return arrived

    async def close(self) -> None:
        self._server.close()
