"""All links of one node, its listening socket, and the end of a loop turn, when everything that waits is written.

It carries messages, as bytes, exactly once between two living incarnations; what they say is the receiver's
business.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import secrets
import socket
from collections import Counter
from collections.abc import Mapping
from typing import Protocol

from vcubeps.net.connection import Connection
from vcubeps.net.link import Link
from vcubeps.node.greeting import Identity, Refusal
from vcubeps.node.retransmission import Outbox
from vcubeps.node.settings import Limits, Timing, host_and_port

log = logging.getLogger(__name__)

_TURNS_TO_APPEAR = 5
"""Turns of the loop until a connection that it accepted before it stopped listening has certainly been made."""


_TELL_AGAIN_S, _TOLD_MAX = 60.0, 1000

_LITTLE_BYTES = 4096


class ListenError(OSError):
    """The node's address cannot be listened on; the text says why and what to do."""


class Receiver(Protocol):
    """What the mesh tells its node."""

    def on_message(self, other: int, body: memoryview) -> None:
        """A message, in a buffer that is used again. May raise WireError or ProtocolViolation: it is cut off."""

    def on_incarnation(self, other: int, incarnation: int) -> None:
        """`other` is a newer incarnation than before."""

    def on_gone(self, other: int, incarnation: int) -> None:
        """That incarnation of `other` has ended in good order."""

    def on_unreachable(self, other: int, incarnation: int) -> None:
        """`other` has been out of reach for longer than is allowed. Told again at every further attempt."""

    def on_uncongested(self) -> None:
        """Some link has room again."""

    def on_fatal(self, refusal: Refusal) -> None:
        """Another node refuses this one for good."""

    def on_fault(self, error: Exception) -> None:
        """A fault in this program came to light while something that had arrived was handled."""

    def end_of_turn(self) -> None:
        """Everything that happened in this turn of the loop has been handled: the last time to send in it."""


class Mesh:
    """Invariant: a link is in `_dirty` if it may have something to write; then a turn's end is scheduled."""

    def __init__(
        self,
        cluster: str,
        node: int,
        addresses: Mapping[int, str],
        incarnation: int,
        limits: Limits,
        timing: Timing,
        receiver: Receiver,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.limits = limits
        self.timing = timing
        self.receiver = receiver
        self.addresses = addresses
        instance = secrets.randbits(63) | 1
        self.identity = Identity(cluster, node, frozenset(addresses) - {node}, instance, incarnation)
        self.links: dict[int, Link] = {}
        self.connections: set[Connection] = set()
        self.congested: set[int] = set()
        """Nodes whose links hold more than they may."""
        self.is_closed = False
        self.refused: Counter[str] = Counter()
        """Connections that this node ended, by cause."""
        self.refused_by_others: Counter[str] = Counter()
        self.resent = 0
        """Messages sent again after a connection was lost."""
        self._told: dict[tuple[str, str], float] = {}
        """Whom this node refused, and why → when that was logged last."""
        self._server: asyncio.Server | None = None
        self._dirty: dict[Link, None] = {}
        self._turn_scheduled = False
        self._is_reading = False
        """Something has arrived on a connection and is being handled: a turn's end is scheduled at `end_read`."""
        self.reads_little = False
        """Then: it is one small message. What it causes should be written at once; where more arrives at a time, there
        is more to gain from fewer writes."""
        self.owing: dict[Link, None] = {}
        """Links whose other side has not been told of all that it sent. While there are any, a timer runs."""
        self._owing_timer: asyncio.TimerHandle | None = None
        self._progress_timer: asyncio.TimerHandle | None = None

    async def listen(self, address: str, sock: socket.socket | None = None) -> None:
        """Take connections on `address`, or on `sock`, which listens already."""

        def accept() -> Connection:
            return Connection(self)

        try:
            if sock is not None:
                self._server = await self.loop.create_server(accept, sock=sock)
            else:
                host, port = host_and_port(address)
                self._server = await self.loop.create_server(accept, host, port)
        except OSError as error:
            problem = f"node {self.identity.node} cannot listen on {address}: "
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

    # -- links ---------------------------------------------------------------------------------

    def link(self, other: int) -> Link:
        """To that node; made when it is asked for first."""
        link = self.links.get(other)
        if link is None:
            link = self.links[other] = Link(self, other)
            if self._progress_timer is None:
                self._check_progress()
        return link

    def watch(self, link: Link) -> None:
        """`link` may have room again."""
        if link.other in self.congested and link.outbox.size <= self.limits.link_bytes_max // 2:
            self.congested.discard(link.other)
            self.receiver.on_uncongested()

    # -- the end of a turn ---------------------------------------------------------------------

    def mark(self, link: Link) -> None:
        """`link` may have something to write."""
        self._dirty[link] = None
        if not self._is_reading:
            self.wake()

    def begin_read(self, size: int, is_alone: bool) -> None:
        """Something has arrived on one connection; `is_alone`: just one message."""
        self._is_reading = True
        self.reads_little = is_alone and size <= _LITTLE_BYTES

    def end_read(self) -> None:
        """What had arrived on one connection has been handled."""
        self._is_reading = self.reads_little = False
        if self._dirty:
            self.wake()

    def wake(self) -> None:
        """Let this turn of the loop end with `end_of_turn` and with a write on every link that needs one."""
        if not self._turn_scheduled:
            self._turn_scheduled = True
            self.loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        try:
            self.receiver.end_of_turn()
        finally:
            self._turn_scheduled = False
        dirty, self._dirty = self._dirty, {}
        for link in dirty:
            link.flush()

    def owe_acknowledgement(self, link: Link) -> None:
        """Messages have arrived: the other side is told after a while at the latest."""
        if not self.owing:
            self._owing_timer = self.loop.call_later(self.timing.acknowledge_within_s, self._acknowledge)
        self.owing[link] = None

    def _acknowledge(self) -> None:
        owing, self.owing = self.owing, {}
        for link in owing:
            link.flush(tell=True)
            if link.is_connected() and link.inbox.told != link.inbox.last:
                self.owe_acknowledgement(link)  # nothing could be written now

    def _check_progress(self) -> None:
        now_s = self.loop.time()
        for link in self.links.values():
            link.check_progress(now_s)
        self._progress_timer = self.loop.call_later(self.timing.unreachable_after_s / 4, self._check_progress)

    # -- what goes wrong -----------------------------------------------------------------------

    def count_refusal(self, refusal: Refusal, who: str) -> None:
        self.refused[refusal.cause.value] += 1
        # Whoever is refused tries again: once a minute is enough to read of it.
        told, now_s = (who.partition(":")[0], refusal.reason), self.loop.time()
        repeated = now_s - self._told.get(told, -_TELL_AGAIN_S) < _TELL_AGAIN_S
        level = logging.DEBUG if repeated or refusal.cause.is_harmless else logging.WARNING
        log.log(level, "node %d refused %s: %s", self.identity.node, who, refusal.reason)
        if not repeated:
            if len(self._told) >= _TOLD_MAX:
                self._told.clear()
            self._told[told] = now_s

    def on_refused(self, other: int, refusal: Refusal, is_news: bool) -> None:
        if self.is_closed:
            return
        self.refused_by_others[refusal.cause.value] += 1
        level = logging.WARNING if is_news and not refusal.cause.is_harmless else logging.DEBUG
        log.log(level, "node %d was refused by node %d: %s", self.identity.node, other, refusal.reason)
        if refusal.cause.is_fatal:
            self.receiver.on_fatal(refusal)

    def count_resent(self, outbox: Outbox) -> None:
        self.resent += outbox.resent
        outbox.resent = 0

    def problems(self) -> dict[int, str]:
        """Node → why there is no connection with it although there should be."""
        return {
            other: link.problem.reason if link.problem else f"out of reach at {self.addresses[other]}"
            for other, link in sorted(self.links.items())
            if link.connection is None and (link.outbox or link.problem or link.is_missed)
        }

    # -- the end -------------------------------------------------------------------------------

    async def _stop_listening(self) -> None:
        """Asyncio leaves a connection open for ever that it accepted in the turn before the server was closed."""
        if self._server is None:
            return
        for sock in self._server.sockets:
            self.loop.remove_reader(sock.fileno())
        for _ in range(_TURNS_TO_APPEAR):
            await asyncio.sleep(0)
        self._server.close()

    async def close(self, within_s: float) -> None:
        """Give what waits its time to be acknowledged, say goodbye, and end every connection and task."""
        deadline_s = self.loop.time() + within_s
        await self._stop_listening()
        while self.loop.time() < deadline_s and any(
            link.connection is not None and link.outbox for link in self.links.values()
        ):
            await asyncio.sleep(0.005)
        self.is_closed = True
        for timer in (self._owing_timer, self._progress_timer):
            if timer is not None:
                timer.cancel()
        attempts = [task for link in self.links.values() if (task := link.stop_dialling()) is not None]
        for connection in list(self.connections):
            if connection.link is not None:
                connection.link.flush()
                connection.say_goodbye(self.identity.incarnation)
            else:
                connection.abort()
        await asyncio.gather(*attempts, return_exceptions=True)
        while self.connections and self.loop.time() < deadline_s + 0.2:
            await asyncio.sleep(0.005)
        for connection in list(self.connections):
            connection.abort()
        if self._server is not None:
            await self._server.wait_closed()
        await asyncio.sleep(0)  # aborted transports report their loss in the next turn
