"""The way to one other node: reliable, whatever becomes of connections. Made on demand, one connection at most."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING

from vcubeps.net.connection import Connection
from vcubeps.node.frames import RECEIVED, frame
from vcubeps.node.greeting import Cause, Greeting, Refusal, Refused
from vcubeps.node.retransmission import TELL_BYTES, Inbox, Outbox
from vcubeps.node.settings import host_and_port

if TYPE_CHECKING:
    from vcubeps.net.mesh import Mesh

log = logging.getLogger(__name__)

_SMALL_BYTES = 32 << 10
"""Of a message that is worth joining with its header. A frame holds more in any case."""


class Link:
    """Invariants: numbers in `outbox` and `inbox` belong to this node's instance and `instance` of the other.

    Either side dials when it has something to send. Where both do at once, the connection that the node with
    the smaller id dialled is the one that stays.
    """

    __slots__ = (
        "_attempt", "_banned", "_bytes_max", "_connected_at_s", "_greetings", "_greetings_heard", "_mesh", "_pause_s",
        "_progress", "_progress_at_s", "_task", "_unreachable_since", "arrived", "connection", "gone", "inbox",
        "incarnation", "instance", "is_missed", "other", "outbox", "problem",
    )  # fmt: skip

    def __init__(self, mesh: Mesh, other: int) -> None:
        self._mesh = mesh
        self.other = other
        self._bytes_max = mesh.limits.link_bytes_max
        self.outbox = Outbox(mesh.limits.frame_bytes_max)
        self.inbox = Inbox()
        self.instance = 0
        """Of the other node; 0 before the first greeting."""
        self.incarnation = -1
        """Newest of the other node that has greeted; −1 before the first greeting."""
        self.connection: Connection | None = None
        self._greetings = 0
        """Number of the last greeting that this side made."""
        self._greetings_heard = 0
        """Number of the last greeting of `instance` that was acted on."""
        self.problem: Refusal | None = None
        """Why the other node will not talk to this one, as it said last; None once it does."""
        self._banned: tuple[int, Refusal] | None = None
        """Instance that broke the protocol, and how: it is not listened to any more."""
        self.gone = -1
        """Newest incarnation of the other node that said goodbye."""
        self.arrived = -1
        """Newest incarnation of the other node that this one has heard of, from it or from others."""
        self.is_missed = False
        """The connection was lost. This node may wait for something from the other even if it has nothing for it."""
        self._task: asyncio.Task[None] | None = None
        self._attempt: Connection | None = None
        """A connection on which this side has greeted and has not been answered yet."""
        self._pause_s = 0.0
        """Before the next attempt to connect. It grows with each, and is forgotten when a connection has lasted."""
        self._connected_at_s = 0.0
        self._unreachable_since: float | None = None
        self._progress: tuple[int, int, int] | None = None
        """How far the present connection had got when that was looked at last, if anything waits on it."""
        self._progress_at_s = 0.0
        """Since when it has not got further."""

    # -- sending -------------------------------------------------------------------------------

    def send(self, target: int, body: bytes, now: bool) -> None:
        """`now`: write it at once, not at the end of the turn."""
        if target <= self.gone and self.has_ended():
            return  # it has said goodbye: whatever is said to that incarnation, or about it, reaches nobody
        connection, outbox = self.connection, self.outbox
        if (
            now
            and connection is not None
            and not connection.paused
            and not outbox.unsent_size
            and len(body) <= _SMALL_BYTES
        ):
            connection.write(outbox.append_sent(target, body))
        else:
            outbox.append(target, body)
            self._mesh.mark(self)
        if outbox.size > self._bytes_max:
            self._mesh.congested.add(self.other)

    def flush(self, tell: bool = False) -> None:
        """Write what waits, with one call; `tell` also says how far this side has received."""
        connection = self.connection
        if connection is None:
            if self.outbox or self.is_missed:
                self._dial()
            return
        if connection.paused:
            return
        inbox, outbox = self.inbox, self.outbox
        size = outbox.unsent_size
        parts = outbox.take_unsent() if size else []
        if inbox.untold_bytes >= TELL_BYTES or (tell and inbox.last != inbox.told):
            parts.append(frame(RECEIVED, inbox.tell()))
        if parts:
            connection.write_all(parts, size)

    def greet(self, connection: Connection) -> None:
        """`connection`, which this side dialled, is there."""
        if self.connection is not None:
            connection.abort()  # the other side was faster
        else:
            self._attempt = connection
            connection.write(self._greeting())

    def _greeting(self) -> bytes:
        self._greetings += 1
        return self._mesh.identity.greeting(self.other, self.instance, self.inbox.last, self._greetings)

    # -- receiving -----------------------------------------------------------------------------

    def on_message(self, number: int, body: memoryview) -> None:
        inbox = self.inbox
        if inbox.is_new(number, len(body)):
            self._mesh.receiver.on_message(self.other, inbox.whole(body) if inbox.parts else body)
        if self not in self._mesh.owing:
            self._mesh.owe_acknowledgement(self)
        if inbox.untold_bytes >= TELL_BYTES:  # the other side may be waiting for room
            self._mesh.mark(self)

    def on_part(self, number: int, body: memoryview) -> None:
        if self.inbox.is_new(number, len(body)):
            self.inbox.add_part(bytes(body))
        self._mesh.owe_acknowledgement(self)
        if self.inbox.untold_bytes >= TELL_BYTES:
            self._mesh.mark(self)

    def on_received(self, number: int) -> None:
        self.outbox.acknowledged(number)
        self._mesh.watch(self)

    def on_goodbye(self, incarnation: int) -> None:
        self.gone = max(self.gone, incarnation)
        self.is_missed = False
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.link = None
            connection.abort()
        if self.has_ended():
            self.outbox.end(incarnation)
        else:
            self.outbox.restart(incarnation + 1)
        self._mesh.watch(self)
        self._mesh.receiver.on_gone(self.other, incarnation)

    # -- connections come and go ---------------------------------------------------------------

    def admit(self, connection: Connection, greeting: Greeting) -> None:
        """From now on `connection` is the one in use; raises Refused if it must not be."""
        self._check(connection, greeting)
        if greeting.instance != self.instance:
            self.instance = greeting.instance
            self.outbox.restart(greeting.incarnation)
            self.inbox.restart()
        else:
            heard = greeting.heard_instance == self._mesh.identity.instance
            self.outbox.resume(greeting.received if heard else 0)
            self._mesh.count_resent(self.outbox)
        self._greetings_heard = greeting.number
        if connection.dialled is None:
            connection.write(self._greeting())
        others, self.connection = (self.connection, self._attempt), connection
        for other in others:
            if other is not None and other is not connection:
                other.link = None
                other.abort()
        self.problem = None
        self.is_missed = False
        self._connected_at_s = self._mesh.loop.time()
        self._unreachable_since = self._progress = None
        self._mesh.mark(self)
        self._mesh.watch(self)
        if greeting.incarnation > self.incarnation:
            self.incarnation = greeting.incarnation
            self._mesh.receiver.on_incarnation(self.other, greeting.incarnation)
        log.debug("node %d: connected with node %d", self._mesh.identity.node, self.other)

    def _check(self, connection: Connection, greeting: Greeting) -> None:
        me = self._mesh.identity.node
        if self._banned is not None and self._banned[0] == greeting.instance:
            raise Refused(Cause.VIOLATION, f"{self._banned[1].reason}; start it again to be heard again")
        if greeting.instance == self.instance and greeting.number <= self._greetings_heard:
            raise Refused(Cause.COLLISION, f"node {self.other} has made another connection since")
        if greeting.incarnation < self.incarnation or (
            greeting.instance != self.instance
            and greeting.incarnation == self.incarnation
            and self.connection is None
        ):
            raise Refused(
                Cause.STALE,
                f"node {self.other} says that it is incarnation {greeting.incarnation}, which has been used up to "
                f"{self.incarnation}: start it as incarnation {self.incarnation + 1}",
            )
        if greeting.instance != self.instance and greeting.incarnation == self.incarnation:
            raise Refused(
                Cause.TAKEN, f"node {self.other} runs already, with another process: give each its own id"
            )
        if self._attempt is not None and connection.dialled is None and me < self.other:
            raise Refused(Cause.COLLISION, f"node {me} is connecting to node {self.other} itself")

    def on_lost(self, connection: Connection) -> None:
        if self.connection is connection:
            self.connection = None
            self.is_missed = True
            if self._mesh.loop.time() - self._connected_at_s >= self._mesh.timing.reconnect_max_s:
                self._pause_s = 0.0
            self._mesh.mark(self)  # what waits, or may have been lost on the way, needs a new one
            log.debug("node %d: lost the connection with node %d", self._mesh.identity.node, self.other)

    def on_refused(self, refusal: Refusal) -> None:
        """The other side ended the connection, or did not let it come about."""
        if refusal.cause is not Cause.COLLISION:
            is_news, self.problem = refusal != self.problem, refusal
            self._mesh.on_refused(self.other, refusal, is_news)

    def ban(self, refusal: Refusal) -> None:
        self._banned = self.instance, refusal
        self.problem = refusal

    # -- dialling ------------------------------------------------------------------------------

    def _dial(self) -> None:
        if self._task is None and not self._mesh.is_closed:
            self._task = self._mesh.loop.create_task(self._dial_until_connected())
            self._task.add_done_callback(self._dialled)

    def _dialled(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error(
                "node %d: dialling node %d failed", self._mesh.identity.node, self.other, exc_info=error
            )
        if self.connection is None and (self.outbox or self.is_missed):
            self._mesh.mark(self)

    async def _dial_until_connected(self) -> None:
        timing, loop = self._mesh.timing, self._mesh.loop
        if self._unreachable_since is None:
            self._unreachable_since = loop.time()
        while not self.is_connected():
            if self._pause_s:
                await asyncio.sleep(self._pause_s * random.uniform(0.5, 1.0))
                if self.is_connected():
                    return
            self._pause_s = min(max(2 * self._pause_s, timing.reconnect_min_s), timing.reconnect_max_s)
            try:
                async with asyncio.timeout(timing.connect_timeout_s):
                    host, port = host_and_port(self._mesh.addresses[self.other])
                    _, connection = await loop.create_connection(
                        lambda: Connection(self._mesh, dialled=self), host, port
                    )
                    await connection.greeted
            except (OSError, TimeoutError, ValueError) as error:  # ValueError: the host has no valid name
                log.debug("node %d: cannot reach node %d: %s", self._mesh.identity.node, self.other, error)
            finally:
                if self._attempt is not None and self._attempt is not self.connection:
                    self._attempt.abort()
                self._attempt = None
            if not self.is_connected():
                self._note_unreachable()

    def _note_unreachable(self) -> None:
        since_s = self._unreachable_since
        if since_s is not None and self._mesh.loop.time() - since_s >= self._mesh.timing.unreachable_after_s:
            self._mesh.receiver.on_unreachable(self.other, max(0, self.incarnation))

    def check_progress(self, now_s: float) -> None:
        """End a connection whose other side has stopped taking anything in: it hangs, or its host has vanished.

        Dialling then shows whether it can be reached at all.
        """
        connection = self.connection
        if connection is None or not self.outbox:
            self._progress = None
            return
        progress = self.outbox.first, self.inbox.last, connection.unsent_bytes
        if progress != self._progress:
            self._progress, self._progress_at_s = progress, now_s
        elif now_s - self._progress_at_s >= self._mesh.timing.unreachable_after_s:
            log.warning("node %d: node %d does not answer any more", self._mesh.identity.node, self.other)
            connection.abort()
            self._unreachable_since = self._progress_at_s

    def is_connected(self) -> bool:
        return self.connection is not None

    def has_ended(self) -> bool:
        """Whether the other node has said goodbye and has not come back since, as far as is known."""
        return self.gone >= max(0, self.incarnation, self.arrived)

    def stop_dialling(self) -> asyncio.Task[None] | None:
        """The attempt that was under way, for the caller to wait for its end."""
        if self._task is not None:
            self._task.cancel()
        return self._task
