"""One TCP connection to another node: greeting, then frames for the link it belongs to. Ends with a reason."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, cast

from vcubeps.node.frames import MESSAGE, PART, RECEIVED, FrameError, FrameReader, Kind, frame
from vcubeps.node.greeting import Cause, Refusal, Refused, read_refusal
from vcubeps.node.retransmission import NumberingError
from vcubeps.node.wire import WireError
from vcubeps.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from vcubeps.net.link import Link
    from vcubeps.net.mesh import Mesh

log = logging.getLogger(__name__)

_GREETING_BYTES_MAX = 4096
"""Of a frame from somebody who has not said who he is."""

_WRITE_BUFFER_BYTES = 1 << 20
"""What the transport may hold; the rest stays in the outbox, which is bounded."""

_GATHERED_BYTES = 32 << 10
"""Up to here parts are joined before they are written; beyond, the copy costs more than it saves."""

_KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
"""A host that vanished is noticed within half a minute although nothing is sent to it."""


class Connection(asyncio.BufferedProtocol):
    """Belongs to a link once both sides have greeted: from the start if this side dialled, for `other`."""

    __slots__ = (
        "_deadline",
        "_mesh",
        "_reader",
        "_transport",
        "dialled",
        "greeted",
        "link",
        "paused",
        "refusal",
    )

    def __init__(self, mesh: Mesh, dialled: Link | None = None) -> None:
        self._mesh = mesh
        self._reader = FrameReader(_GREETING_BYTES_MAX)
        self._transport: asyncio.Transport
        self._deadline: asyncio.TimerHandle | None = None
        self.dialled = dialled
        """The link that this side dialled for; None if the other side dialled."""
        self.link: Link | None = None
        """Set while the connection is the one that its link uses."""
        self.paused = False
        """The transport holds enough for now."""
        self.refusal: Refusal | None = None
        """What the other side said when it ended the connection."""
        self.greeted: asyncio.Future[bool] = mesh.loop.create_future()
        """Done when the link uses this connection (True), or it has ended before (False)."""

    # -- asyncio's side ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        sock = self._transport.get_extra_info("socket")
        # asyncio leaves this out where a socket was made without naming its protocol; writes are gathered here.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE:
            if hasattr(socket, option):  # not on every platform
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        self._mesh.connections.add(self)
        if self._mesh.is_closed:
            self.refuse(Refusal(Cause.CLOSING, "this node is being closed"))
            return
        timeout_s = self._mesh.timing.connect_timeout_s
        self._deadline = self._mesh.loop.call_later(timeout_s, self._too_late)
        if self.dialled is not None:
            self.dialled.greet(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.room

    def buffer_updated(self, nbytes: int) -> None:
        link, message = self.link, self._reader.sole_message(nbytes)
        self._mesh.begin_read(nbytes, message is not None)
        try:
            if message is not None and link is not None:
                link.on_message(*message)
            else:
                self._on_frames(nbytes)
        except Refused as refused:
            self.refuse(refused.refusal)
        except ProtocolViolation as violation:
            self._blame(Refusal(Cause.VIOLATION, f"it sent {violation.complaint}"))
        except (FrameError, WireError, NumberingError) as error:
            self._blame(Refusal(Cause.MALFORMED, f"it sent {error}"))
        except Exception as error:
            self._mesh.receiver.on_fault(error)
        finally:
            self._mesh.end_read()

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        if self.link is not None:
            self._mesh.mark(self.link)

    def connection_lost(self, error: Exception | None) -> None:
        self._mesh.connections.discard(self)
        if self._deadline is not None:
            self._deadline.cancel()
        if not self.greeted.done():
            self.greeted.set_result(False)
        self._detach()

    # -- the mesh's side -----------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """What is written on a connection that is closing is lost: its link is about to hear of that, and keeps what
        it sends."""
        if not self._transport.is_closing():
            self._transport.write(data)

    def write_all(self, parts: list[bytes | memoryview], size: int) -> None:
        """`parts`, `size` bytes in all or a little more, with one call."""
        if size <= _GATHERED_BYTES:
            self.write(b"".join(parts))
        elif not self._transport.is_closing():
            self._transport.writelines(parts)

    def refuse(self, refusal: Refusal) -> None:
        """Tell the other side why, and end."""
        self._mesh.count_refusal(refusal, self.peer_name)
        self.write(refusal.framed())
        self.close()

    def say_goodbye(self, incarnation: int) -> None:
        """The last frame. The other side ends the connection then: if this one did, with bytes in it that have not
        been read, the goodbye could be lost."""
        self.write(frame(Kind.GOODBYE, incarnation))
        self._detach()

    def close(self) -> None:
        """End once all that was written has left. The link does not use it any more."""
        self._transport.close()
        self._detach()

    def abort(self) -> None:
        """End at once."""
        self._transport.abort()
        self._detach()

    @property
    def unsent_bytes(self) -> int:
        return self._transport.get_write_buffer_size()

    @property
    def peer_name(self) -> str:
        """For logs: which node, or else which address."""
        link = self.link or self.dialled
        if link is not None:
            return f"node {link.other}"
        address = self._transport.get_extra_info("peername")
        return f"{address[0]}:{address[1]}" if address else "an unknown address"

    # -- inside --------------------------------------------------------------------------------

    def _detach(self) -> None:
        link, self.link = self.link, None
        if link is not None:
            link.on_lost(self)

    def _on_frames(self, nbytes: int) -> None:
        for kind, number, body in self._reader.received(nbytes):
            if kind == MESSAGE and self.link is not None:
                self.link.on_message(number, body)
            elif kind == RECEIVED and self.link is not None:
                self.link.on_received(number)
            elif kind == PART and self.link is not None:
                self.link.on_part(number, body)
            elif kind == Kind.REFUSAL:
                self._on_refusal(read_refusal(body))
                return
            elif kind == Kind.GOODBYE and self.link is not None:
                self.link.on_goodbye(number)
                return
            elif kind == Kind.GREETING and self.link is None:
                self._on_greeting(body)
            elif self._mesh.is_closed:
                if kind == Kind.GOODBYE:
                    self.abort()  # both have said it
            else:
                raise FrameError(f"a frame of kind {Kind(kind).name} out of place")
            if self._transport.is_closing():
                return

    def _on_greeting(self, body: memoryview) -> None:
        greeting = self._mesh.identity.check(body)
        if self.dialled is not None and greeting.node != self.dialled.other:
            raise Refused(
                Cause.WRONG_NODE,
                f"node {greeting.node} answered at the address of node {self.dialled.other}: "
                "correct the addresses in the cluster file",
            )
        link = self.dialled or self._mesh.link(greeting.node)
        link.admit(self, greeting)
        self.link = link
        if self._deadline is not None:
            self._deadline.cancel()
        self._reader.bytes_max = self._mesh.limits.frame_bytes_max
        if not self.greeted.done():
            self.greeted.set_result(True)

    def _on_refusal(self, refusal: Refusal) -> None:
        self.refusal = refusal
        link = self.link or self.dialled
        if link is not None:
            link.on_refused(refusal)
        self.abort()

    def _blame(self, refusal: Refusal) -> None:
        if self.link is not None:
            self.link.ban(refusal)
        self.refuse(refusal)

    def _too_late(self) -> None:
        if self.dialled is not None:
            self.abort()  # no fault of the other side; the link tries again
        else:
            self.refuse(Refusal(Cause.MALFORMED, "no greeting came in time"))
