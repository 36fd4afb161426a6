"""One node at work: its peer fed from the mesh and the application, the peer's outputs carried out.

Everything happens in one thread of one event loop. A message causes no task switch: it is handled where it is
read, and what it causes is written at the end of the turn.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from vcubeps.net.config import ConfigError
from vcubeps.net.errors import NodeClosed, NodeError, NodeRefused
from vcubeps.net.events import Event, Joined, Left
from vcubeps.net.flow import FlowControl
from vcubeps.net.incarnation import IncarnationStore, VolatileIncarnation
from vcubeps.net.measures import DELIVERED_MAX, OWN, Measures
from vcubeps.net.memberships import Memberships
from vcubeps.net.mesh import Mesh
from vcubeps.net.message import stamp_ns, stamped
from vcubeps.net.subscription import Receipt, Subscription
from vcubeps.net.topics import LocalTopic, Stage
from vcubeps.net.tracer import NOBODY_ASKED_NS, Tracer
from vcubeps.node.greeting import Refusal
from vcubeps.node.settings import ClusterSettings
from vcubeps.node.wire import Wire
from vcubeps.protocol import Peer, ProtocolViolation
from vcubeps.protocol.messages import Ack, Copy, Publication
from vcubeps.protocol.outputs import (
    Accepted,
    Acknowledged,
    Arrived,
    Deliver,
    Departed,
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

log = logging.getLogger(__name__)


_WHY_RESTARTED = {
    RestartReason.DECLARED_CRASHED: "the other nodes took node {node} for crashed",
    RestartReason.CAME_UP_APART: "node {node} had started without other nodes that lived",
    RestartReason.NO_QUORUM: "node {node} was left with less than a quorum of the voters",
    RestartReason.ASKED: "node {node} was asked to start again",
}


class Runtime:
    """Implements what the mesh needs (`mesh.Receiver`) and what `Subscription` and `Node` stand on."""

    def __init__(
        self,
        settings: ClusterSettings,
        node: int,
        incarnations: IncarnationStore | VolatileIncarnation,
        tracer: Tracer | None = None,
    ) -> None:
        self.settings = settings
        self.id = node
        self.loop = asyncio.get_running_loop()
        self.measures = Measures()
        self.topics: dict[str, LocalTopic] = {}
        self.failure: Exception | None = None
        """Why this node can do nothing any more."""
        self.failed = asyncio.Event()
        self._is_closing = False
        self._incarnations = incarnations
        self.tracer = tracer
        incarnation = incarnations.next()
        self.peer = Peer(
            node, settings.ids, incarnation=incarnation, batch_items_max=settings.limits.batch_items_max
        )
        addresses = {each.id: each.address for each in settings.nodes}
        self.mesh = Mesh(
            settings.cluster, node, addresses, incarnation, settings.limits, settings.timing, receiver=self
        )
        self._wire = Wire()
        self._frame_bytes = 0
        """Size of the message that is being handled."""
        self._up = asyncio.Event()
        self._has_restarted = False
        """The outputs at hand say that the peer starts again."""
        self._releasable: dict[str, None] = {}
        """Topics with publications that wait for the end of the turn."""
        self.calls: deque[tuple[Subscription, Deliver]] = deque()
        """What the application's functions are to be given when the outputs at hand have been carried out."""
        self.flow = FlowControl(self)
        self.memberships = Memberships(self)
        self._carriers: dict[type, Callable[[Any], None]] = {
            Deliver: self._on_deliver,
            Received: self._on_received,
            Started: self._on_started,
            Acknowledged: self._on_acknowledged,
            Subscribed: self.memberships.on_subscribed,
            Unsubscribed: self.memberships.on_unsubscribed,
            MemberJoined: lambda output: self._tell(output.topic, Joined(output.topic, output.node)),
            MemberLeft: self._on_member_left,
            Arrived: self._on_arrived,
            Departed: lambda _: None,
            Up: self._on_up,
            Restarted: self._on_restarted,
        }

    async def start(self) -> None:
        """Begin. A node that ran before is let in by the others first; `wait_until_up` waits for that."""
        if self.peer.is_up:
            self._up.set()
        self.carry_out(self.peer.start())

    async def wait_until_up(self) -> None:
        await self._up.wait()
        self.check_alive()

    # -- what the mesh tells -------------------------------------------------------------------

    def on_message(self, other: int, body: memoryview) -> None:
        self._frame_bytes = len(body)
        message = self._wire.decode(body)
        try:
            if type(message) is Copy and type(message.broadcast) is Publication:
                topic = self.topics.get(message.broadcast.topic)
                if topic is not None and topic.full:
                    self.flow.gate(topic, other, message.hop)
            self.carry_out(self.peer.receive(other, message), self.mesh.reads_little)
        except ProtocolViolation:
            self.measures.violations += 1
            raise
        finally:
            if self._wire.remembers:
                self._wire.forget()

    def on_incarnation(self, other: int, incarnation: int) -> None:
        # So the one before it is no more. A node that is not up learns that in the course of being let in: told now,
        # it would take the other for dead, and go up without it.
        if incarnation > 0 and self.peer.is_up:
            self.carry_out(self.peer.suspect(other, incarnation - 1))

    def on_gone(self, other: int, incarnation: int) -> None:
        log.info("node %d: node %d has ended", self.id, other)
        self.carry_out(self.peer.suspect(other, incarnation))

    def on_unreachable(self, other: int, incarnation: int) -> None:
        # Other nodes may know of a newer one than has ever been connected with this node.
        outputs = self.peer.suspect(other, max(0, incarnation, self.peer.known_incarnation(other)))
        if outputs:
            log.warning(
                "node %d: node %d has been out of reach for %g s and counts as crashed",
                self.id, other, self.settings.timing.unreachable_after_s,
            )  # fmt: skip
        self.carry_out(outputs)

    def on_uncongested(self) -> None:
        for topic in self.topics.values():
            topic.wake_publishers()

    def on_fatal(self, refusal: Refusal) -> None:
        self._fail(NodeRefused(f"node {self.id} cannot take part: {refusal.reason}"))

    def end_of_turn(self) -> None:
        releasable = self._releasable
        if releasable:
            self._releasable = {}
            for name in releasable:
                self.carry_out(self.peer.release(name), hurry=True)

    # -- carrying out --------------------------------------------------------------------------

    def carry_out(self, outputs: list[Output], hurry: bool = False) -> None:
        """`hurry`: copies are written at once, before this node's application gets its turn; an acknowledgement after
        it."""
        answer: Send | None = None
        waits_to_be_read = False
        remaining = iter(outputs)
        output: Any
        for output in remaining:
            if type(output) is Send:
                if hurry and answer is None and type(output.message) is Ack:
                    answer = output
                else:
                    self._send(output, hurry)
            elif type(output) is Received and output.at_once:
                batch: Any = next(remaining)
                waits_to_be_read |= self._on_arrival(output, batch)
            else:
                self._carriers[type(output)](output)
        while self.calls:  # not before: the application may call back
            subscription, delivered = self.calls.popleft()
            subscription.call(delivered)
        if answer is not None:
            self._send(answer, hurry=not waits_to_be_read)
        if self.memberships.too_slow:
            self.memberships.end_slow()  # not before: what is left of the outputs speaks of their topics
        if self._has_restarted:
            self._has_restarted = False
            self._report_who_has_ended()

    def _send(self, output: Send, hurry: bool) -> None:
        message = output.message
        body = self._wire.encode(message)
        if self.flow.gates and type(message) is Ack and (output.destination, message.hop) in self.flow.gates:
            self.flow.hold(output.destination, message, body)
        else:
            self.mesh.link(output.destination).send(message.target, body, now=hurry)

    def _on_arrival(self, received: Received, batch: Deliver) -> bool:
        """Received and delivered at once: nearly always. Returns as `_hand_over`."""
        now_ns = time.time_ns()
        topic = self.topics[batch.topic]
        count = len(batch.items)
        topic.measures.receptions += count
        if self.tracer is not None:
            self.tracer.received(received, now_ns)
        return self._hand_over(topic, batch, self._frame_bytes, now_ns, 0)

    def _on_received(self, batch: Received) -> None:
        now_ns = time.time_ns()
        topic = self.topics[batch.topic]
        topic.received(batch, now_ns, self._frame_bytes)
        if self.tracer is not None:
            self.tracer.received(batch, now_ns)

    def _on_deliver(self, batch: Deliver) -> None:
        now_ns = time.time_ns()
        topic = self.topics[batch.topic]
        if batch.source == self.id:
            came_ns, size = now_ns, sum([len(data) for _, data in batch.items])
        else:
            came_ns, size = topic.arrival(batch, now_ns)
        self._hand_over(topic, batch, size, now_ns, now_ns - came_ns)

    def _hand_over(self, topic: LocalTopic, batch: Deliver, size: int, now_ns: int, waited_ns: int) -> bool:
        """Whether it waits to be read."""
        waits_to_be_read = False
        for subscription in topic.subscriptions:
            waits_to_be_read |= subscription.deliver(batch, size)
        items, delivered = batch.items, self.measures.delivered
        count = len(items)
        latency_ns = OWN if batch.source == self.id else max(0, now_ns - stamp_ns(items[0][1]))
        delivered.append((latency_ns, waited_ns, len(batch.after), count))
        if len(delivered) >= DELIVERED_MAX:
            self.measures.sort_in()
        topic.measures.deliveries += count
        if self.tracer is not None:
            self.tracer.delivered(batch, now_ns)
        if topic.full or (waits_to_be_read and topic.is_behind()):
            self.flow.relieve(topic)
        return waits_to_be_read

    def _on_started(self, batch: Started) -> None:
        if self.tracer is not None:
            self.tracer.started(batch, time.time_ns())

    def _on_acknowledged(self, output: Acknowledged) -> None:
        topic = self.topics[output.topic]
        topic.acknowledged(output.counter)
        if self.tracer is not None:
            self.tracer.acknowledged(output.topic, output.counter, time.time_ns())
        if topic.publish_waiters:
            topic.wake_publishers()

    def _on_member_left(self, output: MemberLeft) -> None:
        self._tell(output.topic, Left(output.topic, output.node))
        self.topics[output.topic].wake_publishers()  # the way to that node may have been what they wait for

    def _tell(self, name: str, event: Event) -> None:
        for subscription in self.topics[name].subscriptions:
            subscription.tell(event)

    def _on_arrived(self, output: Arrived) -> None:
        """Others may have met it before it speaks to this node."""
        link = self.mesh.link(output.node)
        link.arrived = max(link.arrived, output.incarnation)

    # -- crashes of this node, as the others see it --------------------------------------------

    def _on_restarted(self, output: Restarted) -> None:
        try:
            self._incarnations.store(output.incarnation)
        except ConfigError as error:  # to go on without would be to use its counters twice, some day
            self._fail(NodeError(f"node {self.id} cannot go on as incarnation {output.incarnation}: {error}"))
            return
        self.mesh.identity.incarnation = output.incarnation
        self.measures.restarts += 1
        self._up.clear()
        reason = _WHY_RESTARTED[output.reason].format(node=self.id)
        log.warning("node %d: %s; it goes on as incarnation %d", self.id, reason, output.incarnation)
        self.flow.gates.clear()
        self._releasable.clear()
        self.memberships.void(reason)
        self._has_restarted = True

    def _report_who_has_ended(self) -> None:
        """The new incarnation of this node's peer has not heard those who said goodbye to the one before."""
        for link in list(self.mesh.links.values()):
            if link.has_ended():
                self.carry_out(self.peer.suspect(link.other, link.gone))

    def _on_up(self, _: Up) -> None:
        self._up.set()
        self.memberships.renew()

    # -- publishing ----------------------------------------------------------------------------

    def publish(self, topic: LocalTopic, payload: bytes) -> Receipt:
        now_ns = time.time_ns()
        comes_alone = topic.comes_alone(now_ns)
        outputs = self.peer.publish(topic.name, stamped(payload, now_ns), more=not comes_alone)
        accepted = outputs[0]
        assert isinstance(accepted, Accepted)
        counter = accepted.counter
        topic.published(counter, len(payload))
        if self.tracer is not None:
            self.tracer.published(topic.name, counter, now_ns)
        if comes_alone:
            self.carry_out(outputs[1:], hurry=True)
        else:
            self._releasable[topic.name] = None
            self.mesh.wake()
        return Receipt(topic, self.id, counter)

    def refused(self, error: Exception) -> Exception:
        """`error`, for the caller to raise, counted."""
        self.measures.usage_errors += 1
        return error

    # -- looking in ----------------------------------------------------------------------------

    def members(self, name: str) -> tuple[int, ...]:
        return tuple(sorted(self.peer.members(name)))

    def problems(self) -> dict[int, str]:
        """Living nodes, as far as is known, that this one has something for and cannot reach, with the reason."""
        problems = self.mesh.problems()
        return {other: why for other, why in problems.items() if not self.peer.believes_dead(other)}

    def check_alive(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self._is_closing:
            raise self._closed_error()

    def _closed_error(self) -> NodeClosed:
        return NodeClosed(f"node {self.id} has been closed: open it again")

    # -- the end -------------------------------------------------------------------------------

    def _fail(self, error: Exception) -> None:
        if self.failure is not None:
            return
        self.failure = error
        self.failed.set()
        log.error("%s", error)
        self._up.set()  # whoever waits for it finds the failure
        for topic in self.topics.values():
            for subscription in tuple(topic.subscriptions):
                subscription.end(error)
            topic.fail(error)

    def on_fault(self, error: Exception) -> None:
        """Something happened that must not: what this node knows may be wrong, so it takes no further part."""
        log.error("node %d: a fault", self.id, exc_info=error)
        self._fail(NodeError(f"node {self.id} has a fault and takes no further part: {error!r}; see the log"))

    async def close(self) -> None:
        """Leave every topic, say goodbye, end everything; within `close_within_s` or a little more."""
        within_s = self.settings.timing.close_within_s
        deadline_s = self.loop.time() + within_s
        self._is_closing = True
        leaving = []
        for topic in list(self.topics.values()):
            for subscription in tuple(topic.subscriptions):
                self.memberships.detach(subscription)
            if topic.stage is Stage.LEAVING:
                topic.left = topic.left or self.loop.create_future()
                leaving.append(topic.left)
        if leaving and self.failure is None:
            await asyncio.wait(leaving, timeout=within_s * 0.8)
        if self.failure is None:
            self.failure = self._closed_error()
        self._up.set()
        for topic in list(self.topics.values()):
            if self.tracer is not None:
                self.tracer.left(topic.name, NOBODY_ASKED_NS, time.time_ns())
            topic.fail(self.failure)
        await self.mesh.close(max(0.0, deadline_s - self.loop.time()))
        if self.tracer is not None:
            await self.tracer.close()
        self._incarnations.close()
