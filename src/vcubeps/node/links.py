"""All links of one node: connections that come, speak and go, frames that arrive, and the end of a turn, when
everything that waits is written.

They carry messages, as bytes, exactly once between two living incarnations; what they say is the receiver's business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from math import ceil
from typing import Protocol

from vcubeps.node.connection import NOBODY, Connection, Stage
from vcubeps.node.context import Context
from vcubeps.node.frames import MESSAGE, PART, RECEIVED, FrameError, Kind, OutOfPlace, frame, read_whole
from vcubeps.node.greeting import Cause, Identity, Refusal, Refused, read_refusal
from vcubeps.node.link import RELAYED_BYTES, Link, Ways, unpack_relayed
from vcubeps.node.outputs import DEBUG, WARNING, Abort, Close, Write
from vcubeps.node.retransmission import NumberingError
from vcubeps.node.wire import WireError
from vcubeps.protocol.errors import ProtocolViolation

_TELL_AGAIN_S, _TOLD_MAX = 60.0, 1000

_LITTLE_BYTES = 4096

_MISDEEDS = (Refused, ProtocolViolation, NumberingError, FrameError, WireError)
"""What is raised where the other side sends something that must not be."""

_MICROSECONDS = 1e6
"""Per second: a PING's number is the time at which it was sent, so that nothing has to be kept of it."""

_RELAYED_AT = RELAYED_BYTES - len(frame(Kind.RELAY))
"""Where the frame begins in the body of a RELAY."""


class Receiver(Protocol):
    """What the links tell their node."""

    def on_greeted(self, other: int, incarnation: int, is_newer: bool, dead: int) -> None:
        """`other` is connected as `incarnation`, newer than before or not, and holds the incarnations of this node up
        to `dead` for crashed."""

    def on_goodbye(self, other: int, incarnation: int) -> None:
        """That incarnation of `other` has ended in good order."""

    def on_round_trip(self, other: int, sent_at_s: float, at_once: bool) -> None:
        """`other` has answered what was sent then, and had to do so `at_once`: what is just received is acknowledged
        after a while."""

    def on_probe(self, asker: int, target: int) -> None:
        """`asker` wants to know whether this node reaches `target`."""

    def on_probed(self, helper: int, target: int) -> None:
        """`helper` has reached `target`."""

    def on_room(self) -> None:
        """Some link has room again."""

    def on_fatal(self, refusal: Refusal) -> None:
        """Another node refuses this one for good."""

    def dead_here(self, other: int) -> int:
        """The newest incarnation of `other` that this node holds for crashed; −1 if there is none."""


class Links:
    """What is there of all links, and what each needs of the others, is in `_ways`."""

    __slots__ = (
        "_addresses", "_context", "_is_closed", "_is_over", "_owing_timer", "_receiver", "_told", "_ways",
        "by_node", "reads_little", "refused", "refused_by_others",
    )  # fmt: skip

    def __init__(
        self,
        context: Context,
        identity: Identity,
        addresses: Mapping[int, str],
        receiver: Receiver,
        on_message: Callable[[int, memoryview], None],
    ) -> None:
        """`on_message` takes in what another node has sent, in a buffer that is used again. It may raise WireError or
        ProtocolViolation: the sender is cut off."""
        self._context = context
        self._addresses = addresses
        self._receiver = receiver
        self._ways = Ways(identity, on_message, receiver.on_round_trip, receiver.dead_here)
        self.by_node = self._ways.links
        """Those there are."""
        self._is_closed = False
        """No more connections are made: this node has said goodbye, or ended."""
        self._is_over = False
        """Nothing is said any more."""
        self.refused: Counter[str] = Counter()
        """Connections that this node ended, by cause."""
        self.refused_by_others: Counter[str] = Counter()
        self._told: dict[tuple[str, str], float] = {}
        """Whom this node refused, and why → when that was logged last."""
        self._owing_timer = False
        """Whether one runs, by the end of which those that are owed it are told how far they have been received."""
        self.reads_little = False
        """What is being handled is one small message. What it causes should be written at once; where more arrives at a
        time, there is more to gain from fewer writes."""

    # -- looking in ----------------------------------------------------------------------------

    @property
    def connections(self) -> Collection[Connection]:
        """Those that are there, whether or not they are open."""
        return self._ways.connections

    @property
    def identity(self) -> Identity:
        return self._ways.identity

    @property
    def congested(self) -> set[int]:
        """Nodes whose links hold more than they may."""
        return self._ways.congested

    @property
    def resent(self) -> int:
        return self._ways.resent

    def __iter__(self) -> Iterator[Link]:
        return iter(list(self._ways.links.values()))

    def link(self, other: int) -> Link:
        """To that node; made when it is asked for first."""
        link = self.by_node.get(other)
        if link is None:
            link = self.by_node[other] = Link(
                self._context, self._ways, other, self._addresses.get(other, "")
            )
        return link

    def problems(self) -> dict[int, str]:
        """Node → why there is no connection with it although there should be."""
        return {
            other: link.problem.reason if link.problem else f"out of reach at {link.address}"
            for other, link in sorted(self._ways.links.items())
            if link.connection is None and (link.outbox or link.problem or link.is_wanted)
        }

    # -- connections come and go ---------------------------------------------------------------

    def accepted(self, connection: Connection) -> None:
        """Somebody has connected."""
        self._expect_greeting(connection)

    def _expect_greeting(self, connection: Connection) -> None:
        self._ways.connections[connection] = None
        if self._is_closed and not self._is_over:
            self._refuse(connection, Refusal(Cause.CLOSING, "this node is being closed"))
            return
        within_s = self._context.settings.timing.connect_timeout_s
        connection.deadline = self._context.timers.at(
            self._context.now_s + within_s,
            lambda: self._refuse(connection, Refusal(Cause.LATE, "no greeting came in time")),
        )

    def opened(self, connection: Connection) -> None:
        """What this side dialled is there."""
        if connection.is_ended:
            self._context.outputs.append(Abort(connection))
            return
        self._ways.connections[connection] = None
        link = self.link(connection.other)
        if link.connection is not None and link.connection.via == NOBODY:
            link.end(connection, Abort(connection))  # the other side was faster
        else:
            link.greet(connection)

    def lost(self, connection: Connection) -> None:
        """It is no more, or could not be made."""
        if connection.is_ended:
            return
        if connection.other != NOBODY:
            self.link(connection.other).lost(connection)
        else:
            self._ways.ended(connection)
        if connection.via == NOBODY:
            # What came through the other node does not come any more.
            for relayed in [each for each in self._ways.relayed.values() if each.via == connection.other]:
                self.lost(relayed)

    def _end(self, connection: Connection, output: Abort | Close) -> None:
        if connection.is_ended:
            return
        if connection.via != NOBODY:
            self.link(connection.other).lost(connection)
        elif connection.other != NOBODY:
            self._context.outputs.append(output)
            self.link(connection.other).lost(connection)
        else:
            self._context.outputs.append(output)
            self._ways.ended(connection)

    def writable(self, connection: Connection) -> None:
        """What waited on it has been written."""
        connection.is_paused = False
        if connection.stage is Stage.OPEN:
            self.link(connection.other).mark()
            for relayed in self._ways.relayed.values():
                if relayed.via == connection.other:
                    self.link(relayed.other).mark()

    def connect(self, other: int) -> None:
        """There should be a connection with `other`."""
        link = self.link(other)
        if link.connection is None and not self._is_closed and not link.has_ended():
            link.is_wanted = True
            link.dial()

    # -- frames arrive -------------------------------------------------------------------------

    def received(self, connection: Connection, count: int) -> None:
        """`count` bytes have arrived in the room of `connection`."""
        message = connection.reader.sole_message(count)
        if message is not None and connection.stage is Stage.OPEN:
            link = self._ways.links[connection.other]
            link.heard_at_s = self._context.now_s
            self.reads_little = count <= _LITTLE_BYTES
            number, body, received = message
            try:
                link.on_message(number, body)
                if received >= 0 and connection.stage is Stage.OPEN:
                    self._on_received(link, received)
            except _MISDEEDS as error:
                self._punish(connection, error)
            self.reads_little = False
        else:
            try:
                self._on_frames(connection, count)
            except _MISDEEDS as error:
                self._punish(connection, error)
            if connection.stage is Stage.OPEN:
                self._ways.links[connection.other].heard_at_s = self._context.now_s

    def _punish(self, connection: Connection, error: Exception) -> None:
        """Whoever sends what must not be is cut off."""
        if isinstance(error, Refused):
            self._refuse(connection, error.refusal)
        elif isinstance(error, ProtocolViolation):
            self._blame(connection, Refusal(Cause.VIOLATION, f"it sent {error.complaint}"))
        else:
            if connection.via != NOBODY and isinstance(error, NumberingError | OutOfPlace):
                self._end(
                    connection, Abort(connection)
                )  # the relay has dropped something: go on where that was
                return
            self._blame(connection, Refusal(Cause.MALFORMED, f"it sent {error}"))

    def _on_frames(self, connection: Connection, count: int) -> None:
        for kind, number, body in connection.reader.received(count):
            self._on_frame(connection, kind, number, body)
            if connection.is_ended:
                return

    def _on_frame(self, connection: Connection, kind: int, number: int, body: memoryview) -> None:
        if connection.stage is not Stage.OPEN:
            if kind == Kind.GREETING:
                self._on_greeting(connection, body)
            elif kind == Kind.REFUSAL:
                self._on_refusal(connection, read_refusal(body))
            else:
                raise _out_of_place(kind)
            return
        link = self._ways.links[connection.other]
        if kind == MESSAGE:
            link.on_message(number, body)
        elif kind == RECEIVED:
            self._on_received(link, number)
        elif kind == PART:
            link.on_part(number, body)
        elif kind == Kind.PING:
            link.say(Kind.PONG, number)
            if connection.via != NOBODY:  # a relay may have dropped it, and nobody would notice
                link.say(Kind.RECEIVED, link.inbox.last)
        elif kind == Kind.PONG:
            link.on_pong(min(number / _MICROSECONDS, self._context.now_s))
        elif kind == Kind.PROBE:
            self._receiver.on_probe(link.other, number)
        elif kind == Kind.PROBED:
            self._receiver.on_probed(link.other, number)
        elif kind == Kind.RELAY and connection.via == NOBODY:
            self._on_relay(link, body)
        elif kind == Kind.GOODBYE:
            self._on_goodbye(connection, link, number)
        elif kind == Kind.REFUSAL:
            self._on_refusal(connection, read_refusal(body))
        else:
            raise _out_of_place(kind)

    def _on_greeting(self, connection: Connection, body: memoryview) -> None:
        greeting = self._ways.identity.check(body)
        if connection.is_dialled and greeting.node != connection.other:
            raise Refused(
                Cause.WRONG_NODE,
                f"node {greeting.node} answered at the address of node {connection.other}: "
                "correct the addresses in the cluster file",
            )
        link = self.link(greeting.node)
        is_newer = link.admit(connection, greeting)
        link.heard_at_s = self._context.now_s
        self._watch(link)
        self._receiver.on_greeted(link.other, greeting.incarnation, is_newer, greeting.dead)

    def _on_received(self, link: Link, number: int) -> None:
        link.on_received(number)
        self._watch(link)

    def _on_goodbye(self, connection: Connection, link: Link, incarnation: int) -> None:
        link.on_goodbye(incarnation)
        self._watch(link)
        self._receiver.on_goodbye(link.other, incarnation)

    def _watch(self, link: Link) -> None:
        """`link` may have room again."""
        congested = self._ways.congested
        if link.other in congested and link.outbox.size <= self._context.settings.limits.link_bytes_max // 2:
            congested.discard(link.other)
            self._receiver.on_room()

    # -- through a third node ------------------------------------------------------------------

    def connect_by(self, other: int, relay: int) -> None:
        """`relay` reaches `other`, and this node does not."""
        if self._is_closed:
            return
        connection = self.link(other).dial_by(relay)
        self._ways.connections[connection] = None
        self._ways.relayed[other, True, connection.channel] = connection

    def _on_relay(self, link: Link, body: memoryview) -> None:
        """A frame through the other side of `link`, or for this node to pass on. One that has been passed on is not
        passed on again, so that none goes round in circles."""
        if len(body) < _RELAYED_AT:
            raise FrameError("a relayed frame that is cut off")
        destination, source, channel, from_dialler = unpack_relayed(body)
        if destination != self._context.id:
            if source == link.other and destination in self._ways.links:
                self._ways.links[destination].relay(bytes(body))
            return
        kind, number, inner = read_whole(body[_RELAYED_AT:])
        key = source, not from_dialler, channel
        connection = self._ways.relayed.get(key)
        if connection is None:
            if not from_dialler or kind != Kind.GREETING or source not in self._ways.identity.others:
                return
            connection = Connection(
                name=f"node {source} by node {link.other}", via=link.other, channel=channel
            )
            connection.other = source  # whom the answer goes to; whether it is that node, its greeting says
            self._ways.relayed[key] = connection
            self._expect_greeting(connection)
        try:
            self._on_frame(connection, kind, number, inner)
        except _MISDEEDS as error:
            self._punish(connection, error)
        if connection.stage is Stage.OPEN:
            self._ways.links[source].heard_at_s = self._context.now_s

    # -- the end of a turn ---------------------------------------------------------------------

    def end_turn(self) -> None:
        """Write what waits."""
        ways = self._ways
        unfinished: list[Link] = []
        while ways.dirty:
            dirty, ways.dirty = ways.dirty, {}
            for link in dirty:
                if (not self._is_closed or link.connection is not None) and link.flush():
                    unfinished.append(link)
        for link in unfinished:
            link.mark()
        if ways.owing and not self._owing_timer:
            self._owing_timer = True
            within_s = self._context.settings.timing.acknowledge_within_s
            self._context.timers.at(self._context.now_s + within_s / 2, self._acknowledge)

    def _acknowledge(self) -> None:
        """For half of the time a link waits for something to be written that can tell of what it has received; then
        that is written by itself."""
        self._owing_timer = False
        owing = self._ways.owing
        for link in list(owing):
            del owing[link]
            if link.tells and link.flush(tell=True):
                link.mark()
            if link.connection is not None and link.inbox.told != link.inbox.last:
                link.owe()
                link.tells = True

    def ping(self, other: int) -> None:
        """Ask `other` for a sign of life; connect first, if need be."""
        link = self.link(other)
        if not link.say(Kind.PING, ceil(self._context.now_s * _MICROSECONDS)):
            self.connect(other)

    def say(self, other: int, kind: Kind, number: int) -> bool:
        """Write a frame without a body; False if there is no connection."""
        return self.link(other).say(kind, number)

    # -- what goes wrong -----------------------------------------------------------------------

    def _refuse(self, connection: Connection, refusal: Refusal) -> None:
        """Tell the other side why, and end."""
        self._count_refusal(refusal, connection.name)
        link = self.link(connection.other) if connection.other != NOBODY else None
        if link is not None:
            link.write(connection, refusal.framed())
        elif connection.via == NOBODY:
            self._context.outputs.append(Write(connection, refusal.framed()))
        self._end(connection, Close(connection))

    def _blame(self, connection: Connection, refusal: Refusal) -> None:
        if connection.stage is Stage.OPEN:
            self.link(connection.other).ban(refusal)
        self._refuse(connection, refusal)

    def _count_refusal(self, refusal: Refusal, who: str) -> None:
        self.refused[refusal.cause.value] += 1
        # Whoever is refused tries again: once a minute is enough to read of it.
        told, now_s = (who.partition(":")[0], refusal.reason), self._context.now_s
        repeated = now_s - self._told.get(told, -_TELL_AGAIN_S) < _TELL_AGAIN_S
        level = DEBUG if repeated or refusal.cause.is_harmless else WARNING
        self._context.log(level, f"refused {who}: {refusal.reason}")
        if not repeated:
            if len(self._told) >= _TOLD_MAX:
                self._told.clear()
            self._told[told] = now_s

    def _on_refusal(self, connection: Connection, refusal: Refusal) -> None:
        other = connection.other
        self._end(connection, Abort(connection))
        if other == NOBODY or self._is_closed:
            return
        is_news = self.link(other).on_refused(refusal)
        self.refused_by_others[refusal.cause.value] += 1
        level = WARNING if is_news and not refusal.cause.is_harmless else DEBUG
        self._context.log(level, f"was refused by node {other}: {refusal.reason}")
        if refusal.cause.is_fatal:
            self._receiver.on_fatal(refusal)

    # -- the end -------------------------------------------------------------------------------

    @property
    def has_unacknowledged(self) -> bool:
        """Whether something that was sent to nodes that are connected has not been acknowledged."""
        return any(link.connection is not None and link.outbox for link in self._ways.links.values())

    def say_goodbye(self) -> None:
        """The last frames. The other side ends the connection then: if this one did, with bytes in it that have not
        been read, the goodbye could be lost."""
        self._is_closed = True
        for link in self._ways.links.values():
            if link.connection is not None:
                link.flush(all_of_it=True)
                link.say(Kind.GOODBYE, self.identity.incarnation)
            link.close()

    def begin_anew(self, incarnation: int) -> None:
        """This node goes on as `incarnation`. It greets everybody again: who has given up the one before must know that
        there is another, which counts as contact before it has been let in."""
        self.identity.incarnation = incarnation
        for connection in list(self.connections):
            self._end(connection, Abort(connection))

    def abort_all(self) -> None:
        """End every connection at once, and make none any more."""
        self._is_closed = self._is_over = True
        for link in self._ways.links.values():
            link.close()
        for connection in list(self.connections):
            self._end(connection, Abort(connection))
        for link in self._ways.links.values():
            link.close()
        self._ways.dirty.clear()
        self._ways.owing.clear()

    def check(self) -> None:
        """Raise AssertionError if an invariant does not hold. For tests."""
        for link in self._ways.links.values():
            link.check()
            if link.connection is not None and link.connection.via == NOBODY:
                assert link.connection in self.connections, f"{link.connection} is used and not counted"
        for connection in self.connections:
            assert not connection.is_ended, f"{connection} is kept"


def _out_of_place(kind: int) -> OutOfPlace:
    return OutOfPlace(f"a frame of kind {Kind(kind).name} out of place")
