"""One TCP connection: bytes between a socket and the node's machine. Decides nothing."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Protocol, cast

from vcubeps.net.clock import now_s
from vcubeps.node.connection import Connection

_WRITE_BUFFER_BYTES = 128 << 10
"""What the transport may hold when it is given more; the rest stays in the link's outbox, which is bounded, and where
signs of life overtake it."""

_UNSENT_BYTES = 128 << 10
"""What the system keeps beyond what is on its way. By default that is some megabytes, behind which signs of life would
wait where the network is slow."""

_KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
"""A host that vanished lets go of its sockets within half a minute although nothing is sent to it."""


class Driver(Protocol):
    """What a transport tells."""

    def on_made(self, transport: Transport) -> Connection: ...
    @property
    def received(self) -> Callable[[Connection, int, float], None]:
        """So many bytes have been put into the room of a connection, at a time; `carry_out` follows."""

    def carry_out(self) -> None: ...
    def on_writable(self, connection: Connection) -> None: ...
    def on_lost(self, transport: Transport) -> None: ...


class Transport(asyncio.BufferedProtocol):
    """`connection` is what the machine calls it: given if this side dials."""

    __slots__ = ("_carry_out", "_driver", "_received", "connection", "socket")

    def __init__(self, driver: Driver, connection: Connection | None = None) -> None:
        self._driver = driver
        self._received, self._carry_out = driver.received, driver.carry_out
        self.socket: asyncio.Transport
        self.connection = connection

    # -- asyncio's side ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.socket = cast(asyncio.Transport, transport)
        self.socket.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        sock = self.socket.get_extra_info("socket")
        # asyncio leaves this out where a socket was made without naming its protocol; writes are gathered before.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):  # of Linux and macOS
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
        for option, value in _KEEPALIVE:
            if hasattr(socket, option):  # not on every platform
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        self.connection = self._driver.on_made(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.connection.reader.room  # type: ignore[union-attr]

    def buffer_updated(self, nbytes: int) -> None:
        self._received(self.connection, nbytes, now_s())  # type: ignore[arg-type]
        self._carry_out()

    def pause_writing(self) -> None:
        assert self.connection is not None
        self.connection.is_paused = True

    def resume_writing(self) -> None:
        assert self.connection is not None
        self._driver.on_writable(self.connection)

    def connection_lost(self, error: Exception | None) -> None:
        self._driver.on_lost(self)

    # -- the node's side -----------------------------------------------------------------------

    def close(self) -> None:
        """End once all that was written has left."""
        self.socket.close()

    def abort(self) -> None:
        """End at once."""
        self.socket.abort()

    @property
    def peer_name(self) -> str:
        address = self.socket.get_extra_info("peername")
        return f"{address[0]}:{address[1]}" if address else "an unknown address"
