"""One TCP connection: bytes between a socket and the node's machine. Decides nothing."""

from __future__ import annotations

import asyncio
import socket
from typing import Protocol, cast

from vcubeps.node.connection import Connection

_WRITE_BUFFER_BYTES = 1 << 20
"""What the transport may hold; the rest stays in the link's outbox, which is bounded."""

_KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
"""A host that vanished lets go of its sockets within half a minute although nothing is sent to it."""


class Driver(Protocol):
    """What a transport tells."""

    def on_made(self, transport: Transport) -> Connection: ...
    def on_bytes(self, connection: Connection, count: int) -> None: ...
    def on_writable(self, connection: Connection) -> None: ...
    def on_lost(self, transport: Transport) -> None: ...


class Transport(asyncio.BufferedProtocol):
    """`connection` is what the machine calls it: given if this side dials."""

    __slots__ = ("_driver", "_on_bytes", "_socket", "connection")

    def __init__(self, driver: Driver, connection: Connection | None = None) -> None:
        self._driver = driver
        self._on_bytes = driver.on_bytes
        self._socket: asyncio.Transport
        self.connection = connection

    # -- asyncio's side ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)
        self._socket.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        sock = self._socket.get_extra_info("socket")
        # asyncio leaves this out where a socket was made without naming its protocol; writes are gathered before.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE:
            if hasattr(socket, option):  # not on every platform
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        self.connection = self._driver.on_made(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.connection.reader.room  # type: ignore[union-attr]

    def buffer_updated(self, nbytes: int) -> None:
        self._on_bytes(self.connection, nbytes)  # type: ignore[arg-type]

    def pause_writing(self) -> None:
        assert self.connection is not None
        self.connection.is_paused = True

    def resume_writing(self) -> None:
        assert self.connection is not None
        self._driver.on_writable(self.connection)

    def connection_lost(self, error: Exception | None) -> None:
        self._driver.on_lost(self)

    # -- the node's side -----------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """What is written on a connection that is closing is lost: its link is about to hear of that, and keeps what
        it sends."""
        if not self._socket.is_closing():
            self._socket.write(data)

    def write_all(self, parts: list[bytes | memoryview]) -> None:
        if not self._socket.is_closing():
            self._socket.writelines(parts)

    def close(self) -> None:
        """End once all that was written has left."""
        self._socket.close()

    def abort(self) -> None:
        """End at once."""
        self._socket.abort()

    @property
    def peer_name(self) -> str:
        address = self._socket.get_extra_info("peername")
        return f"{address[0]}:{address[1]}" if address else "an unknown address"
