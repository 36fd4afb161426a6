"""The gateway as a whole: it listens, lets clients in up to its limit, and ends them when the node closes."""

from __future__ import annotations

import asyncio
import errno
import logging
from typing import cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from vcubeps.net.errors import ListenError
from vcubeps.net.gateway.http import CLIENTS_MAX, Doors, counting
from vcubeps.net.gateway.shared import Shared
from vcubeps.net.gateway.websocket import CLOSE_WITHIN_S
from vcubeps.net.node import Node
from vcubeps.node.settings import host_and_port

OPERATORS_MAX = 64
"""Connections above `CLIENTS_MAX` that are let in to be told so, or to ask how the node is doing."""

_KEEPALIVE_S = 75.0
"""A connection that asks for nothing, or does not get to the end of its question, is closed after this."""

_library_log = logging.getLogger("vcubeps.net.gateway.library")
_library_log.addFilter(
    lambda record: not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))
)  # bad input of strangers: they are answered, and it is counted


class Gateway:
    """Serves from `start` to `close`, also while the node is not up yet."""

    def __init__(self, node: Node) -> None:
        self.shared = Shared(node)
        self._doors = Doors(self.shared)
        self.application = self._doors.application()
        self._runner = web.AppRunner(
            self.application,
            handler_cancellation=True,
            keepalive_timeout=_KEEPALIVE_S,
            shutdown_timeout=CLOSE_WITHIN_S / 3,
            access_log_class=counting(self.shared),
            logger=_library_log,
        )
        self._server: asyncio.Server | None = None

    @classmethod
    async def start(cls, node: Node, address: str) -> Gateway:
        """Serve `node` on `address`, HOST:PORT."""
        gateway = cls(node)
        await gateway._runner.setup()
        server = gateway._runner.server
        assert server is not None
        gateway.shared.connections = lambda: len(server.connections)
        try:
            await gateway._listen(address)
        except BaseException:
            await gateway._runner.cleanup()
            raise
        return gateway

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def _listen(self, address: str) -> None:
        host, port = host_and_port(address)
        try:
            self._server = await self.shared.loop.create_server(self._admit, host, port)
        except OSError as error:
            problem = f"the gateway of node {self.shared.node.id} cannot listen on {address}: "
            if error.errno == errno.EADDRINUSE:
                raise ListenError(
                    problem
                    + "the port is in use; stop the program that has it (perhaps this node runs already), or give the "
                    "gateway another address in the cluster file"
                ) from None
            raise ListenError(
                problem + f"{error.strerror or error}; give an address of this machine, as `gateway`"
            ) from None

    def _admit(self) -> asyncio.Protocol:
        if self.shared.clients >= CLIENTS_MAX + OPERATORS_MAX:
            return _TurnedAway()
        assert self._runner.server is not None
        return self._runner.server()

    async def close(self) -> None:
        """End every client, and leave the topics that were theirs."""
        shared = self.shared
        if shared.is_closing:
            return
        shared.is_closing = True
        if self._server is not None:
            self._server.close()
        server = self._runner.server
        transports = [] if server is None else [each.transport for each in server.connections]
        sessions = [asyncio.create_task(session.close()) for session in shared.sessions]
        await self._doors.end_requests(CLOSE_WITHIN_S)
        if sessions:
            await asyncio.wait(sessions, timeout=CLOSE_WITHIN_S)
        await shared.publishers.close()
        await self._runner.cleanup()
        for transport in transports:
            # It may have been closed and wait for a client that takes nothing. One that has written all is gone
            # already, and asyncio cannot abort it any more.
            if transport is not None and (not transport.is_closing() or transport.get_write_buffer_size()):
                transport.abort()
        await shared.leaving.close()


class _TurnedAway(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).abort()  # of another loop, it need not be an instance
