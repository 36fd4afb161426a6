"""The sockets of one node: its connections as asyncio has them, between the machine and the network.

What the machine asks of a connection is done here, and what happens to one is told to it. Decides nothing.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Mapping
from typing import Any

from vcubeps.net.clock import now_s
from vcubeps.net.errors import ListenError
from vcubeps.net.transport import Transport
from vcubeps.node import outputs as out
from vcubeps.node.connection import Connection
from vcubeps.node.lifecycle import Life
from vcubeps.node.machine import Machine
from vcubeps.node.settings import host_and_port

log = logging.getLogger("vcubeps.node")

_TURNS_TO_APPEAR = 5
"""Turns of the loop until a connection that it accepted before it stopped listening has certainly been made."""


class Sockets:
    """Invariant: `_transports` has every connection that is there and has not been ended from this side; `_dialling`
    has those that are being made."""

    def __init__(self, node: int, machine: Machine, carry_out: Callable[[], None]) -> None:
        """`carry_out` carries out what the machine has to say after an input."""
        self._node = node
        self._machine = machine
        self._loop = asyncio.get_running_loop()
        self.carry_out = carry_out
        self.received = machine.received
        """As transports call it."""
        self._transports: dict[Connection, Transport] = {}
        self._dialling: dict[Connection, asyncio.Task[None]] = {}
        self._server: asyncio.Server | None = None
        self.carriers: Mapping[type, Callable[[Any], None]] = {
            out.Write: self._write_later,
            out.WriteAll: self._write_all,
            out.Dial: self._dial,
            out.Close: lambda o: self._end(o.connection, abort=False),
            out.Abort: lambda o: self._end(o.connection, abort=True),
        }
        """How each output that is about connections is carried out."""

    # -- what happens --------------------------------------------------------------------------

    async def listen(self, address: str, sock: socket.socket | None = None) -> None:
        """Take connections on `address`, or on `sock`, which listens already."""
        try:
            if sock is not None:
                self._server = await self._loop.create_server(lambda: Transport(self), sock=sock)
            else:
                host, port = host_and_port(address)
                self._server = await self._loop.create_server(lambda: Transport(self), host, port)
        except OSError as error:
            problem = f"node {self._node} cannot listen on {address}: "
            if error.errno == errno.EADDRINUSE:
                raise ListenError(
                    problem
                    + "the port is in use; stop the program that has it (perhaps this node runs already), or "
                    "give the node another address in the cluster file"
                ) from None
            raise ListenError(
                problem
                + f"{error.strerror or error}; give an address of this machine, as `address` or `listen`"
            ) from None

    def on_made(self, transport: Transport) -> Connection:
        connection = transport.connection
        if connection is None:
            connection = self._machine.accepted(transport.peer_name, now_s())
            self._transports[connection] = transport
        else:
            self._transports[connection] = transport
            self._machine.opened(connection, now_s())
        self.carry_out()
        return connection

    def on_writable(self, connection: Connection) -> None:
        self._machine.writable(connection, now_s())
        self.carry_out()

    def on_lost(self, transport: Transport) -> None:
        connection = transport.connection
        if connection is not None and self._transports.pop(connection, None) is not None:
            self._machine.lost(connection, now_s())
            self.carry_out()

    # -- what the machine asks -----------------------------------------------------------------

    # What is written on a connection that is closing is lost: its link is about to hear of that, and keeps what it
    # sends.

    def write(self, connection: Connection, data: bytes) -> None:
        """At once."""
        transport = self._transports.get(connection)
        if transport is not None and not transport.socket.is_closing():
            transport.socket.write(data)

    def _write_later(self, output: out.Write) -> None:
        # It may have failed since that was decided, in the course of what the application did.
        if self._machine.life is not Life.FAILED:
            self.write(output.connection, output.data)

    def _write_all(self, output: out.WriteAll) -> None:
        if self._machine.life is Life.FAILED:
            return
        transport = self._transports.get(output.connection)
        if transport is not None and not transport.socket.is_closing():
            transport.socket.writelines(output.parts)

    def _end(self, connection: Connection, abort: bool) -> None:
        transport = self._transports.pop(connection, None)
        if transport is not None:
            transport.abort() if abort else transport.close()
        dialling = self._dialling.pop(connection, None)
        if dialling is not None:
            dialling.cancel()

    def _dial(self, output: out.Dial) -> None:
        if self._machine.life is Life.FAILED:
            return
        task = self._loop.create_task(self._connect(output.connection, output.address))
        self._dialling[output.connection] = task

    async def _connect(self, connection: Connection, address: str) -> None:
        try:
            host, port = host_and_port(address)
            await self._loop.create_connection(lambda: Transport(self, connection), host, port)
        except (OSError, ValueError) as error:  # ValueError: the host has no valid name
            log.debug("node %d: cannot reach %s: %s", self._node, address, error)
            self._machine.lost(connection, now_s())
            self.carry_out()
        finally:
            self._dialling.pop(connection, None)

    # -- the end -------------------------------------------------------------------------------

    async def stop_listening(self) -> None:
        """Asyncio leaves a connection open for ever that it accepted in the turn before the server was closed."""
        if self._server is None:
            return
        for sock in self._server.sockets:
            self._loop.remove_reader(sock.fileno())
        for _ in range(_TURNS_TO_APPEAR):
            await asyncio.sleep(0)
        self._server.close()

    async def close(self) -> None:
        """End every connection that is left, after `stop_listening`."""
        for dialling in list(self._dialling.values()):
            dialling.cancel()
        for transport in list(self._transports.values()):
            transport.abort()
        if self._server is not None:
            await self._server.wait_closed()
        await asyncio.sleep(0)  # aborted transports report their loss in the next turn
