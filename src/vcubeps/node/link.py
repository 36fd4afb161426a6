"""The way to one other node: reliable, whatever becomes of connections. Made on demand, one connection at most."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from struct import Struct

from vcubeps.node.connection import NOBODY, Connection, Stage
from vcubeps.node.context import Context
from vcubeps.node.frames import HEADER_BYTES, RECEIVED, Kind, frame, pack_header
from vcubeps.node.greeting import Cause, Greeting, Identity, Refusal, Refused
from vcubeps.node.outputs import DEBUG, Abort, Close, Dial, Write, WriteAll
from vcubeps.node.retransmission import TELL_BYTES, Inbox, Outbox
from vcubeps.node.timers import Timer

_SMALL_BYTES = 32 << 10
"""A message up to here is worth joining with its header; parts up to here in all are joined before they are written:
beyond, the copy costs more than it saves."""

_RELAYED = Struct(">III?")
"""What comes before a frame inside a RELAY: the node that it is for, the node that it is from, the channel, and
whether the sender is the one who dialled it."""
RELAYED_BYTES = HEADER_BYTES + _RELAYED.size
pack_relayed, unpack_relayed = _RELAYED.pack, _RELAYED.unpack_from

LONG_AGO_S = float("-inf")


class Ways:
    """What the links of one node share: what is to be written at the end of the turn, and who is told of what.

    Invariants: a link is in `dirty` if it may have something to write. `connections` are those that have not ended,
    but for direct ones that are being dialled; a relayed one is in `relayed` too.
    """

    __slots__ = (
        "congested",
        "connections",
        "dead_here",
        "dirty",
        "identity",
        "links",
        "on_message",
        "on_round_trip",
        "owing",
        "relayed",
        "resent",
    )

    def __init__(
        self,
        identity: Identity,
        on_message: Callable[[int, memoryview], None],
        on_round_trip: Callable[[int, float, bool], None],
        dead_here: Callable[[int], int],
    ) -> None:
        self.identity = identity
        self.on_message = on_message
        """Takes in what another node has sent, in a buffer that is used again."""
        self.on_round_trip = on_round_trip
        """Is told that another node has answered, when it was asked, and whether it had to answer at once."""
        self.dead_here = dead_here
        """The newest incarnation of another node that this one holds for crashed."""
        self.links: dict[int, Link] = {}
        self.connections: dict[Connection, None] = {}
        """Those that are there; a dictionary because sets have no order."""
        self.relayed: dict[tuple[int, bool, int], Connection] = {}
        """(node, whether this side dialled, channel) → the connection with it through another."""
        self.dirty: dict[Link, None] = {}
        self.owing: dict[Link, None] = {}
        """Links whose other side has not been told of all that it sent."""
        self.congested: set[int] = set()
        """Nodes whose links hold more than they may."""
        self.resent = 0
        """Messages sent again after a connection was lost."""

    def is_paused_by(self, relay: int) -> bool:
        """Whether nothing more may be written now that is to go through `relay`."""
        connection = self.links[relay].connection
        return connection is None or connection.is_paused

    def ended(self, connection: Connection) -> None:
        """It is no more, whoever has ended it."""
        connection.stage = Stage.ENDED
        if connection.deadline is not None:
            connection.deadline.cancel()
        self.connections.pop(connection, None)
        if connection.via != NOBODY:
            self.relayed.pop((connection.other, connection.is_dialled, connection.channel), None)


class Link:
    """Invariants: numbers in `outbox` and `inbox` belong to this node's instance and `instance` of the other.

    Either side dials when it has something to say. Where both do at once, the connection that the node with
    the smaller id dialled is the one that stays.
    """

    __slots__ = (
        "_asked_at_s", "_asked_number", "_at_once_bytes_max", "_attempt", "_banned", "_burst_bytes_max", "_by_relay",
        "_bytes_max", "_connected_at_s", "_context", "_greetings", "_greetings_heard", "_pause_s", "_retry", "_ways",
        "address", "arrived",
        "connection", "gone", "heard_at_s", "inbox", "incarnation", "instance", "is_wanted", "other", "outbox",
        "problem", "round_trip_at_s", "tells",
    )  # fmt: skip

    def __init__(self, context: Context, ways: Ways, other: int, address: str) -> None:
        self._context = context
        self._ways = ways
        self.other = other
        self.address = address
        limits = context.settings.limits
        self._bytes_max = limits.link_bytes_max
        self._burst_bytes_max = limits.burst_bytes_max
        self.outbox = Outbox(min(limits.burst_bytes_max, limits.frame_bytes_max) - RELAYED_BYTES)
        self._at_once_bytes_max = min(self.outbox.bytes_max, _SMALL_BYTES)
        self.inbox = Inbox()
        self.instance = 0
        """Of the other node; 0 before the first greeting."""
        self.incarnation = -1
        """Newest of the other node that has greeted; −1 before the first greeting."""
        self.gone = -1
        """Newest incarnation of the other node that said goodbye."""
        self.arrived = -1
        """Newest incarnation of the other node that this one has heard of, from it or from others."""
        self.connection: Connection | None = None
        """The one in use, which is open."""
        self._attempt: Connection | None = None
        """A direct one that this side is dialling, or has greeted on and has not been answered."""
        self._by_relay: Connection | None = None
        """A relayed one on which this side has greeted and has not been answered."""
        self._greetings = 0
        """Number of the last greeting that this side made."""
        self._greetings_heard = 0
        """Number of the last greeting of `instance` that was acted on."""
        self.problem: Refusal | None = None
        """Why the other node will not talk to this one, as it said last; None once it does."""
        self._banned: tuple[int, Refusal] | None = None
        """Instance that broke the protocol, and how: it is not listened to any more."""
        self.tells = False
        """What is written next also tells how far this side has received."""
        self.is_wanted = False
        """There has to be a connection although nothing waits to be sent: something may be expected of the other."""
        self._retry: Timer | None = None
        """Until the next attempt to connect."""
        self._pause_s = 0.0
        """Before the next attempt. It grows with each, and is forgotten when a connection has lasted."""
        self._connected_at_s = 0.0
        self.heard_at_s = LONG_AGO_S
        """When something of the other side arrived last."""
        self.round_trip_at_s = LONG_AGO_S
        """When that was sent which the other side, as `instance`, answered last."""
        self._asked_number = 0
        """A message whose acknowledgement will show that the other side lives; 0: none."""
        self._asked_at_s = 0.0

    # -- sending -------------------------------------------------------------------------------

    def send(self, target: int, head: bytes, tail: bytes, hurry: bool) -> None:
        """A message in two parts. `hurry`: write it at once, not at the end of the turn."""
        if target <= self.gone and self.has_ended():
            return  # it has said goodbye: whatever is said to that incarnation, or about it, reaches nobody
        connection, outbox = self.connection, self.outbox
        if (
            hurry
            and connection is not None
            and not connection.is_paused
            and connection.via == NOBODY
            and not outbox.unsent_size
            and len(head) + len(tail) <= self._at_once_bytes_max
        ):
            data = outbox.append_sent(target, head, tail)
            self._context.write(connection, data + self._told() if self.tells else data)
            if not self._asked_number:
                self._asked_number, self._asked_at_s = outbox.last, self._context.now_s
        else:
            outbox.append(target, head, tail)
            self._ways.dirty[self] = None
            self._context.is_dirty = True
        if outbox.size > self._bytes_max:
            self._ways.congested.add(self.other)

    def flush(self, tell: bool = False, all_of_it: bool = False) -> bool:
        """Write what waits, with one call; `tell` also says how far this side has received. Whether there is more: what
        is handed to the network at a time is bounded, since signs of life wait behind it."""
        connection = self.connection
        if connection is None:
            if self.outbox or self.is_wanted:
                self.dial()
            return False
        if connection.is_paused or (connection.via != NOBODY and self._ways.is_paused_by(connection.via)):
            return False
        inbox, outbox = self.inbox, self.outbox
        parts: list[bytes | memoryview] = []
        size = 0
        if outbox.unsent_size:
            parts, size = outbox.take_unsent(inf if all_of_it else self._burst_bytes_max)
        if size and not self._asked_number:
            self._asked_number, self._asked_at_s = outbox.last, self._context.now_s
        if inbox.untold_bytes >= TELL_BYTES or (
            (tell or (self.tells and parts)) and inbox.last != inbox.told
        ):
            parts += (self._told(), b"")
        if parts:
            self._write_frames(connection, parts, size)
        return bool(outbox.unsent_size)

    def mark(self) -> None:
        """There may be something to write at the end of the turn."""
        self._ways.dirty[self] = None
        self._context.is_dirty = True

    def owe(self) -> None:
        """The other side has not been told of all that it sent."""
        self._ways.owing[self] = None
        self._context.is_dirty = True

    def _told(self) -> bytes:
        """The frame that tells it."""
        self.tells = False
        self._ways.owing.pop(self, None)
        return frame(RECEIVED, self.inbox.tell())

    def say(self, kind: int, number: int = 0) -> bool:
        """Write a frame without a body at once; False if there is no connection."""
        if self.connection is None:
            return False
        self.write(self.connection, frame(kind, number))
        return True

    def write(self, connection: Connection, data: bytes) -> None:
        """One whole frame."""
        if connection.via == NOBODY:
            self._context.outputs.append(Write(connection, data))
        else:
            self._relay(connection, (data,))

    def _write_frames(self, connection: Connection, parts: list[bytes | memoryview], size: int) -> None:
        """`parts` are frames, two parts for each, of `size` bytes or a little more."""
        if connection.via != NOBODY:
            for frame_parts in zip(parts[::2], parts[1::2], strict=True):
                self._relay(connection, frame_parts)
        elif size <= _SMALL_BYTES:
            self._context.outputs.append(Write(connection, b"".join(parts)))
        else:
            self._context.outputs.append(WriteAll(connection, [part for part in parts if part]))

    def _relay(self, connection: Connection, parts: tuple[bytes | memoryview, ...]) -> None:
        head = pack_relayed(self.other, self._context.id, connection.channel, connection.is_dialled)
        self._ways.links[connection.via].relay(head, *parts)

    def relay(self, *parts: bytes | memoryview) -> None:
        """Write a RELAY on this link, whose other side is the one it is for, or passes it on. It is lost where there
        is no direct connection, or too much waits on it: those who speak will notice."""
        connection = self.connection
        if connection is None or connection.via != NOBODY or connection.is_paused:
            return
        size = sum(map(len, parts))
        head = pack_header(size, Kind.RELAY, 0)
        if size <= _SMALL_BYTES:
            self._context.outputs.append(Write(connection, b"".join((head, *parts))))
        else:
            self._context.outputs.append(WriteAll(connection, [head, *parts]))

    # -- receiving -----------------------------------------------------------------------------

    def on_message(self, number: int, body: memoryview) -> None:
        inbox, ways = self.inbox, self._ways
        if inbox.is_new(number, len(body)):
            ways.on_message(self.other, inbox.whole(body) if inbox.parts else body)
        if self not in ways.owing:
            self.owe()
        if inbox.untold_bytes >= TELL_BYTES:  # the other side may be waiting for room
            self.mark()

    def on_part(self, number: int, body: memoryview) -> None:
        if self.inbox.is_new(number, len(body)):
            self.inbox.add_part(bytes(body))
        self.owe()
        if self.inbox.untold_bytes >= TELL_BYTES:
            self.mark()

    def on_received(self, number: int) -> None:
        self.outbox.acknowledged(number)
        if 0 < self._asked_number <= number:
            self._asked_number = 0
            self._answered(self._asked_at_s, at_once=False)

    def on_pong(self, sent_at_s: float) -> None:
        """The other side has answered what was sent then."""
        self._answered(sent_at_s, at_once=True)

    def _answered(self, sent_at_s: float, at_once: bool) -> None:
        if sent_at_s > self.round_trip_at_s:
            self.round_trip_at_s = sent_at_s
            self._ways.on_round_trip(self.other, sent_at_s, at_once)

    def on_goodbye(self, incarnation: int) -> None:
        self.gone = max(self.gone, incarnation)
        self.is_wanted = False
        connection = self.connection
        if connection is not None:
            self._end(connection, Abort(connection))
        if self.has_ended():
            self.outbox.end(incarnation)
        else:
            self.outbox.restart(incarnation + 1)

    # -- connections come and go ---------------------------------------------------------------

    def dial(self) -> None:
        """Connect, unless that is under way, or a pause after the last attempt has to pass first."""
        if self._attempt is not None or (self._retry is not None and self._retry.is_pending):
            return
        timing = self._context.settings.timing
        connection = self._attempt = Connection(self.other, name=f"node {self.other}")
        connection.deadline = self._context.timers.at(
            self._context.now_s + timing.connect_timeout_s, lambda: self._give_up(connection)
        )
        self._pause_s = min(max(2 * self._pause_s, timing.reconnect_min_s), timing.reconnect_max_s)
        self._context.outputs.append(Dial(connection, self.address))

    def dial_by(self, relay: int) -> Connection:
        """Connect through `relay`, which reaches the other node; this one does not."""
        former = self._by_relay
        if former is not None:
            self._forget(former)
        if self.connection is not None:
            self._end(self.connection, Abort(self.connection))  # nothing comes through it any more
        name = f"node {self.other} by node {relay}"
        connection = Connection(self.other, name, relay, channel=self._greetings + 1)
        self._by_relay = connection
        self.greet(connection)
        return connection

    def _give_up(self, connection: Connection) -> None:
        self._context.outputs.append(Abort(connection))
        self.lost(connection)

    def greet(self, connection: Connection) -> None:
        """`connection`, which this side dialled, is there."""
        connection.stage = Stage.GREETING
        self.write(connection, self._greeting())

    def _greeting(self) -> bytes:
        self._greetings += 1
        return self._ways.identity.greeting(
            self.other, self.instance, self.inbox.last, self._greetings, self._ways.dead_here(self.other)
        )

    def admit(self, connection: Connection, greeting: Greeting) -> bool:
        """From now on `connection` is the one in use; raises Refused if it must not be. Whether the other node is
        another incarnation than before."""
        self._check(connection, greeting)
        if greeting.instance != self.instance:
            self.instance = greeting.instance
            self.round_trip_at_s = LONG_AGO_S
            self.outbox.restart(greeting.incarnation)
            self.inbox.restart()
        else:
            heard = greeting.heard_instance == self._ways.identity.instance
            self.outbox.resume(greeting.received if heard else 0)
            self._ways.resent += self.outbox.resent
            self.outbox.resent = 0
        self._greetings_heard = greeting.number
        self._asked_number = 0
        if not connection.is_dialled:
            self.write(connection, self._greeting())
        for former in (self.connection, self._attempt, self._by_relay):
            # One that is being dialled directly may be better than the one through a relay.
            if (
                former is not None
                and former is not connection
                and (connection.via == NOBODY or former is not self._attempt)
            ):
                self._end(former, Abort(former))
        self.connection, self._by_relay = connection, None
        if connection is self._attempt:
            self._attempt = None
        connection.stage = Stage.OPEN
        connection.other = self.other
        connection.reader.bytes_max = self._context.settings.limits.frame_bytes_max
        if connection.deadline is not None:
            connection.deadline.cancel()
        self.problem = None
        self._connected_at_s = self._context.now_s
        self.mark()
        if connection.via != NOBODY:
            self._retry_later(self._context.settings.timing.reconnect_max_s)
        is_newer = greeting.incarnation > self.incarnation
        self.incarnation = max(self.incarnation, greeting.incarnation)
        self._context.log(DEBUG, f"connected with {connection.name}")
        return is_newer

    def _check(self, connection: Connection, greeting: Greeting) -> None:
        me = self._context.id
        if self._banned is not None and self._banned[0] == greeting.instance:
            raise Refused(Cause.VIOLATION, f"{self._banned[1].reason}; start it again to be heard again")
        if greeting.instance == self.instance and greeting.incarnation <= self.gone:
            raise Refused(Cause.CLOSING, f"node {self.other} has said goodbye")
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
        own = self._attempt if connection.via == NOBODY else self._by_relay
        is_crossing = own is not None and own.stage is Stage.GREETING and not connection.is_dialled
        if is_crossing and me < self.other:
            raise Refused(Cause.COLLISION, f"node {me} is connecting to node {self.other} itself")

    def lost(self, connection: Connection) -> None:
        """`connection`, of this link, is no more, or could not be made."""
        if connection is self.connection:
            lasted_s = self._context.now_s - self._connected_at_s
            if lasted_s >= self._context.settings.timing.reconnect_max_s:
                self._pause_s = 0.0
            self.is_wanted = True
            self._context.log(DEBUG, f"lost the connection with {connection.name}")
        was_attempt = connection is self._attempt
        self._forget(connection)
        if was_attempt and (self.connection is None or self.connection.via != NOBODY):
            self._retry_later(self._pause_s * (0.5 + self._context.draw() / 2))
        self.mark()  # what waits, or may have been lost on the way, needs a new one

    def _retry_later(self, pause_s: float) -> None:
        if self._retry is not None:
            self._retry.cancel()
        self._retry = self._context.timers.at(self._context.now_s + pause_s, self._try_again)

    def _try_again(self) -> None:
        connection = self.connection
        if (connection is None and (self.outbox or self.is_wanted)) or (
            connection is not None and connection.via != NOBODY
        ):
            self.dial()

    def _end(self, connection: Connection, output: Abort | Close) -> None:
        """This side ends it; its loss is not told again."""
        if connection.via == NOBODY:
            self._context.outputs.append(output)
        self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        self._ways.ended(connection)
        if connection is self.connection:
            self.connection = None
            self._asked_number = 0
        if connection is self._attempt:
            self._attempt = None
        if connection is self._by_relay:
            self._by_relay = None

    def on_refused(self, refusal: Refusal) -> bool:
        """The other side ended the connection, or did not let it come about. Whether that is news."""
        if refusal.cause is Cause.COLLISION:
            return False
        is_news, self.problem = refusal != self.problem, refusal
        return is_news

    def ban(self, refusal: Refusal) -> None:
        self._banned = self.instance, refusal
        self.problem = refusal

    def end(self, connection: Connection, output: Abort | Close) -> None:
        """End `connection`, which is one of this link's; it is not missed."""
        self._end(connection, output)
        self.mark()

    def close(self) -> None:
        """Dial no more."""
        self.is_wanted = False
        if self._retry is not None:
            self._retry.cancel()
        if self._attempt is not None:
            self._end(self._attempt, Abort(self._attempt))

    def has_ended(self) -> bool:
        """Whether the other node has said goodbye and has not come back since, as far as is known."""
        return self.gone >= max(0, self.incarnation, self.arrived)

    def check(self) -> None:
        """Raise AssertionError if an invariant does not hold. For tests."""
        if self.connection is not None:
            assert self.connection.stage is Stage.OPEN, f"uses {self.connection}"
            assert self.connection.other == self.other, f"uses {self.connection} for node {self.other}"
        if self._attempt is not None:
            assert self._attempt.stage in (Stage.DIALLING, Stage.GREETING), f"attempts {self._attempt}"
