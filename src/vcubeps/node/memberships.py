"""The topics of one node's application: joining, leaving, and who waits when more waits than may.

All readers of a node share one membership of a topic: it is asked for with the first and left with the last.

Back-pressure. A node whose application reads too slowly holds its acknowledgements of further publications on that
topic. The protocol lets a source start its next batch only when the one before is acknowledged by all, so the
publishers of that topic, and nobody else, come to a halt. For the core a held acknowledgement is a slow link.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from vcubeps.node.context import Context
from vcubeps.node.outputs import Delivered, Gap, Joined, Left, Room, TooSlow, Voided
from vcubeps.node.topics import LocalTopic, Reader, Stage
from vcubeps.protocol.messages import Ack
from vcubeps.protocol.outputs import Deliver, Subscribed


class Membership(Protocol):
    """What the protocol does for memberships."""

    def join(self, topic: str) -> None: ...
    def leave(self, topic: str) -> None: ...
    def may_join(self, topic: str) -> bool: ...
    def is_joined(self, topic: str) -> bool: ...


class Memberships:
    """The topics that one node is in, or is about to be."""

    __slots__ = ("_context", "_core", "_send", "gates", "held_acks", "topics")

    def __init__(
        self, context: Context, core: Membership, send: Callable[[int, int, bytes, bytes], None]
    ) -> None:
        """`send` puts bytes on the link to a node, for one of its incarnations."""
        self._context = context
        self._core = core
        self._send = send
        self.topics: dict[str, LocalTopic] = {}
        self.gates: dict[tuple[int, int], LocalTopic] = {}
        """(node, hop) of copies whose acknowledgement is to be held, because their topic was full."""
        self.held_acks = 0
        """Acknowledgements that have waited because the application did not read fast enough."""

    def __iter__(self) -> Iterator[LocalTopic]:
        return iter(list(self.topics.values()))

    # -- joining and leaving -------------------------------------------------------------------

    def subscribe(self, name: str, reader: Reader) -> None:
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = LocalTopic(name, self._context.settings.limits)
        topic.readers.append(reader)
        if topic.stage in (Stage.OUT, Stage.LEAVING):
            topic.stage = Stage.JOINING
            if self._core.may_join(name):
                self._core.join(name)
        elif topic.stage is Stage.IN:
            self._context.outputs.append(Joined(name))

    def unsubscribe(self, name: str, reader: Reader) -> None:
        topic = self.topics.get(name)
        if topic is None or reader not in topic.readers:
            return
        topic.readers.remove(reader)
        self.relieve(topic)
        if topic.readers:
            return
        topic.closed()
        self.relieve(topic)
        topic.stage = Stage.LEAVING
        topic.gap = None
        if self._core.is_joined(name):
            self._core.leave(name)
        else:
            self._out(topic)  # this node is not up: the join had not been asked for yet

    def on_subscribed(self, output: Subscribed) -> None:
        topic = self.topics[output.topic]
        topic.stage = Stage.IN
        if topic.gap is not None:
            self._context.outputs.append(Gap(topic.name, topic.gap, output.floors))
            topic.gap = None
        self._context.outputs.append(Joined(topic.name))
        self.wake(topic)

    def on_unsubscribed(self, name: str) -> None:
        topic = self.topics[name]
        if topic.stage is Stage.LEAVING:
            self._out(topic)
        else:
            self._context.outputs.append(Left(name))  # somebody has asked to join again meanwhile

    def _out(self, topic: LocalTopic) -> None:
        topic.stage = Stage.OUT
        del self.topics[topic.name]
        self._context.outputs.append(Left(topic.name))

    def void(self, reason: str) -> dict[str, int]:
        """The others took this node for crashed: its memberships are gone; its readers wait for new ones. Returns how
        many publications of each topic were not acknowledged."""
        self.gates.clear()
        lost = {topic.name: topic.unacknowledged for topic in self if topic.unacknowledged}
        for topic in self:
            first, last = topic.void()
            self._context.outputs.append(Voided(topic.name, first, last, reason))
            if not topic.readers:
                self._out(topic)
            else:
                if topic.stage is Stage.IN:
                    topic.gap = reason
                topic.stage = Stage.JOINING
        return lost

    def renew(self) -> None:
        """This node is up again: ask for the memberships that its readers wait for."""
        for topic in self:
            if topic.stage is Stage.JOINING and self._core.may_join(topic.name):
                self._core.join(topic.name)

    # -- delivering ----------------------------------------------------------------------------

    def deliver(self, topic: LocalTopic, batch: Deliver, size: int) -> bool:
        """Whether it waits to be read."""
        self._context.outputs.append(Delivered(batch, size))
        waits = is_behind = False
        count = len(batch.batch.payloads)
        for reader in topic.readers:
            if reader.keeps:
                waits = True
                reader.backlog += count
                reader.backlog_bytes += size
                if reader.backlog >= reader.messages_max or reader.backlog_bytes >= reader.bytes_max:
                    is_behind = True
        if is_behind:
            for reader in [each for each in topic.readers if each.is_too_slow]:
                self._context.outputs.append(TooSlow(topic.name, reader))
        if is_behind or topic.full:
            self.relieve(topic)
        return waits

    # -- back-pressure -------------------------------------------------------------------------

    def gate(self, topic: LocalTopic, sender: int, hop: int) -> None:
        """A publication has come although `topic` is full: its acknowledgement is to be held."""
        self.gates[sender, hop] = topic
        topic.is_gated = True

    def holds(self, destination: int, ack: Ack, body: bytes) -> bool:
        """Whether an acknowledgement is kept for now."""
        topic = self.gates.pop((destination, ack.hop), None)
        if topic is None:
            return False
        topic.held_acks.append((destination, ack.target, body))
        self.held_acks += 1
        return True

    def relieve(self, topic: LocalTopic) -> None:
        """Less may wait in `topic` than before: let its publishers go on if it is not full any more."""
        topic.weigh()
        if topic.full:
            return
        self.wake(topic)
        if not topic.is_gated:
            return
        topic.is_gated = False
        for key in [key for key, gated in self.gates.items() if gated is topic]:
            del self.gates[key]
        held, topic.held_acks = topic.held_acks, []
        for destination, target, body in held:
            self._send(destination, target, body, b"")

    def wake(self, topic: LocalTopic) -> None:
        """Publications that have waited may be tried again."""
        if topic.is_waited_for:
            topic.is_waited_for = False
            self._context.outputs.append(Room(topic.name))

    def wake_all(self) -> None:
        for topic in self:
            self.wake(topic)

    def check(self) -> None:
        """Raise AssertionError if an invariant does not hold. For tests."""
        for topic in self:
            topic.check()
        for topic in self.gates.values():
            assert topic.is_gated and self.topics.get(topic.name) is topic, "a gate of a topic that is open"
