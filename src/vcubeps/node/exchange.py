"""Between a node's peer, its links and its application: what arrives is given to the peer, and what the peer says is
carried out.

Whoever observes the node is told here of everything that the peer is asked and tells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

from vcubeps.node.backoff import Backoff
from vcubeps.node.context import Context
from vcubeps.node.greeting import Identity
from vcubeps.node.inputs import Join, Leave, Publish
from vcubeps.node.links import Links
from vcubeps.node.memberships import Memberships
from vcubeps.node.obituaries import Obituaries
from vcubeps.node.outputs import Recovered, Store
from vcubeps.node.timers import Timer
from vcubeps.node.wire import Wire
from vcubeps.protocol import Peer
from vcubeps.protocol.errors import ProtocolViolation, UsageError
from vcubeps.protocol.messages import Ack, Copy, Publication
from vcubeps.protocol.outputs import (
    Accepted,
    Acknowledged,
    Arrived,
    Deliver,
    Departed,
    IdTaken,
    MemberJoined,
    MemberLeft,
    Output,
    Received,
    Restarted,
    RestartReason,
    Send,
    Started,
    Subscribed,
    Unsubscribed,
    Up,
)

Observer: TypeAlias = Callable[[float, int, int, object], None]
"""Is told of everything that a node's peer is asked and tells: time, node, incarnation, what."""

_WHY_RESTARTED = {
    RestartReason.DECLARED_CRASHED: "the other nodes took node {node} for crashed",
    RestartReason.CAME_UP_APART: "node {node} had started without other nodes that lived",
    RestartReason.NO_QUORUM: "node {node} was left with less than a quorum of the voters",
    RestartReason.ASKED: "node {node} was asked to start again",
}


class Owner(Protocol):
    """What the node does when its peer says that something has changed."""

    def on_up(self) -> None:
        """The others have let it in."""

    def on_restarted(self, reason: str, lost: Mapping[str, int]) -> None:
        """It goes on as a new incarnation, which has to be stored first. `lost`: topic → publications that were under
        way, of which it will never be known who has received them."""

    def on_departed(self, other: int) -> None:
        """Nothing more comes from the incarnation of `other` that this node deals with."""

    def on_used_up(self) -> None:
        """No incarnation of this node is left."""


class Exchange:
    """Invariant: while a restart is put off (`_pausing`), what the new incarnation says is in `_kept`."""

    def __init__(
        self,
        context: Context,
        peer: Peer,
        identity: Identity,
        owner: Owner,
        observe: Observer | None,
        tells_all: bool,
    ) -> None:
        self._context = context
        self._peer = peer
        self._identity = identity
        self._owner = owner
        self._observe = observe
        self._tells_all = tells_all and observe is not None
        """Of each publication as it is accepted, and of receptions that are deliveries too."""
        self._links: Links
        self._congested: set[int]
        """Nodes whose links hold more than they may."""
        self.memberships = Memberships(context, self, self._send_bytes)
        self.obituaries = Obituaries(context)
        self._wire = Wire()
        self._frame_bytes = 0
        """Size of the message that is being handled."""
        self._copy = -1, -1
        """Sender and hop of the last copy of a publication: the one that is being handled, where one is received."""
        self.is_over = False
        """What arrives is not listened to any more: what it caused, nobody would listen to."""
        self._releasable: dict[str, None] = {}
        """Topics with publications that wait for the end of the turn."""
        self._backoff = Backoff()
        self._pausing: Timer | None = None
        self._kept: list[Output] = []
        self._has_restarted = self._has_come_up = False
        """The outputs at hand say that the peer starts again, or has been let in."""
        self.restarts = 0
        self.violations = 0
        self._carriers: dict[type, Callable[[Any], None]] = {
            Deliver: self._on_deliver,
            Received: self._on_received,
            Acknowledged: self._on_acknowledged,
            Subscribed: self.memberships.on_subscribed,
            Unsubscribed: lambda output: self.memberships.on_unsubscribed(output.topic),
            MemberJoined: self._pass_on,
            MemberLeft: self._on_member_left,
            Arrived: self._on_arrived,
            Departed: self._on_departed,
            Up: self._on_up,
            Restarted: self._on_restarted,
            Started: self._on_started,
            IdTaken: lambda _: owner.on_used_up(),
        }

    def attach(self, links: Links) -> None:
        """Before anything else."""
        self._links, self._congested = links, links.congested

    # -- observers -----------------------------------------------------------------------------

    def observe(self, observer: Observer) -> None:
        """From now on `observer` is told too."""
        self._tells_all = True
        first = self._observe
        if first is None:
            self._observe = observer
            return

        def both(now_s: float, node: int, incarnation: int, what: object) -> None:
            first(now_s, node, incarnation, what)
            observer(now_s, node, incarnation, what)

        self._observe = both

    def ignore_observers(self) -> None:
        """Nobody is told any more."""
        self._observe, self._tells_all = None, False

    def _tell(self, what: object) -> None:
        assert self._observe is not None
        # The incarnation that these outputs are of: the peer may have started again since.
        self._observe(self._context.now_s, self._context.id, self._identity.incarnation, what)

    # -- what arrives, and what the application asks -------------------------------------------

    def on_message(self, other: int, body: memoryview) -> None:
        if self.is_over:
            return
        self._frame_bytes = len(body)
        message = self._wire.decode(body)
        try:
            if type(message) is Copy and type(message.broadcast) is Publication:
                self._copy = other, message.hop
                topic = self.memberships.topics.get(message.broadcast.topic)
                if topic is not None and topic.full:
                    self.memberships.gate(topic, other, message.hop)
            outputs = self._peer.receive(other, message, self._frame_bytes)
            if outputs:
                self.carry_out(outputs, self._links.reads_little)
        except ProtocolViolation:
            self.violations += 1
            raise
        finally:
            if self._wire.remembers:
                self._wire.forget()

    def publish(self, name: str, payload: bytes, time_ns: int) -> int:
        """The counter of a publication that is accepted; 0 if it has to wait, and `Room` says when to try again."""
        topic, congested, peer = self.memberships.topics.get(name), self._congested, self._peer
        if topic is None:
            raise UsageError(f"cannot publish on {name!r} without a subscription: subscribe first")
        if not topic.has_room() or (congested and not congested.isdisjoint(peer.members(name))):
            topic.is_waited_for = True
            return 0
        counter = peer.accept(name, payload, time_ns)
        comes_alone = topic.published(counter, len(payload), self._context.now_s)
        if self._tells_all:
            self._tell(Publish(name, payload))
            self._tell(Accepted(name, counter))
        if comes_alone:
            self.carry_out(peer.release(name), hurry=True)
        else:
            self._releasable[name] = None
            self._context.is_dirty = True
        return counter

    def release(self) -> None:
        """The turn ends: what has waited for company leaves."""
        releasable, self._releasable = self._releasable, {}
        for name in releasable:
            self.carry_out(self._peer.release(name), hurry=True)

    def join(self, topic: str) -> None:
        if self._observe is not None:
            self._tell(Join(topic))
        self.carry_out(self._peer.subscribe(topic))

    def leave(self, topic: str) -> None:
        if self._observe is not None:
            self._tell(Leave(topic))
        self.carry_out(self._peer.unsubscribe(topic))

    def may_join(self, topic: str) -> bool:
        return self._peer.can_subscribe(topic)

    def is_joined(self, topic: str) -> bool:
        return self._peer.can_unsubscribe(topic)

    # -- what the peer says --------------------------------------------------------------------

    def carry_out(self, outputs: list[Output], hurry: bool = False) -> None:
        """`hurry`: copies are written at once, before this node's application gets its turn. An acknowledgement comes
        after what is delivered: that may be too much to acknowledge it."""
        if self._pausing is not None:
            self._kept += outputs
            return
        answer: Send | None = None
        waits_to_be_read = False
        remaining = iter(outputs)
        output: Any
        for output in remaining:
            kind = type(output)
            if kind is Send:
                if answer is None and type(output.message) is Ack:
                    answer = output
                else:
                    self._send(output, hurry)
                continue
            if kind is Received and output.at_once:
                batch: Any = next(remaining)
                if self._tells_all:
                    self._tell(output)
                if self._observe is not None:
                    self._tell(batch)
                topic = self.memberships.topics[batch.topic]
                waits_to_be_read |= self.memberships.deliver(topic, batch, self._frame_bytes)
                if topic.full:
                    self.memberships.gate(topic, *self._copy)
            else:
                if self._observe is not None:
                    self._tell(output)
                self._carriers[kind](output)
                if kind is Restarted and self._is_pausing():
                    self._kept += remaining
        if answer is not None:
            self._send(answer, hurry and not waits_to_be_read)
        if self._has_come_up:
            self._has_come_up = False
            self._owner.on_up()
        if self._has_restarted:
            self._has_restarted = False
            # The new incarnation of the peer has not heard those who said goodbye to the one before.
            for link in self._links:
                if link.has_ended():
                    self.carry_out(self._peer.suspect(link.other, link.gone))

    def _send(self, output: Send, hurry: bool) -> None:
        message = output.message
        head, tail = self._wire.encode(message)
        if (
            self.memberships.gates
            and type(message) is Ack
            and self.memberships.holds(output.destination, message, head)
        ):
            return
        link = self._links.by_node.get(output.destination) or self._links.link(output.destination)
        link.send(message.target, head, tail, hurry)

    def _send_bytes(self, destination: int, target: int, head: bytes, tail: bytes) -> None:
        self._links.link(destination).send(target, head, tail, hurry=False)

    def _on_received(self, batch: Received) -> None:
        self.memberships.topics[batch.topic].received(batch, self._frame_bytes)

    def _on_deliver(self, batch: Deliver) -> None:
        topic = self.memberships.topics[batch.topic]
        is_own = batch.source == self._context.id
        size = sum(map(len, batch.batch.payloads)) if is_own else topic.size_of(batch)
        self.memberships.deliver(topic, batch, size)

    def _on_started(self, output: Started) -> None:
        self.memberships.topics[output.topic].started(output.batch)

    def _on_acknowledged(self, output: Acknowledged) -> None:
        topic = self.memberships.topics[output.topic]
        topic.acknowledged(output.counter)
        self._context.outputs.append(output)
        self.memberships.wake(topic)

    def _pass_on(self, output: MemberJoined) -> None:
        self._context.outputs.append(output)

    def _on_member_left(self, output: MemberLeft) -> None:
        self._context.outputs.append(output)
        # The way to it may have been what they wait for.
        self.memberships.wake(self.memberships.topics[output.topic])

    def _on_up(self, _: Up) -> None:
        self._has_come_up = True

    def _on_arrived(self, output: Arrived) -> None:
        """Others may have met it before it speaks to this node."""
        link = self._links.link(output.node)
        link.arrived = max(link.arrived, output.incarnation)
        self.obituaries.came_back(output.node)
        self._context.outputs.append(Recovered(output.node, output.incarnation))

    def _on_departed(self, output: Departed) -> None:
        self.obituaries.departed(output.node, output.incarnation)
        if self._links.link(output.node).incarnation <= output.incarnation:
            self._owner.on_departed(output.node)

    # -- the next incarnation ------------------------------------------------------------------

    def _on_restarted(self, output: Restarted) -> None:
        context = self._context
        context.outputs.append(Store(output.incarnation))
        context.stores += 1
        self._links.begin_anew(output.incarnation)
        self.restarts += 1
        self._has_restarted = True
        self._releasable.clear()
        reason = _WHY_RESTARTED[output.reason].format(node=context.id)
        context.warn(f"{reason}; it goes on as incarnation {output.incarnation}")
        self._owner.on_restarted(reason, self.memberships.void(reason))
        pause_s = self._backoff.restarted(context.now_s)
        if pause_s:
            context.warn(
                f"it has started again {self._backoff.recent} times within a minute: it waits for {pause_s:g} s"
            )
            self._pausing = context.timers.at(context.now_s + pause_s, self._go_on)

    def _is_pausing(self) -> bool:
        return self._pausing is not None

    def _go_on(self) -> None:
        """A restart was put off until now."""
        self._pausing = None
        kept, self._kept = self._kept, []
        self.carry_out(kept)
