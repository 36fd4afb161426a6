"""One node at work: its peer fed from the mesh and the application, the peer's outputs carried out.

Everything happens in one thread of one event loop. A message causes no task switch: it is handled where it is
read, and what it causes is written at the end of the turn.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from vcubeps.net.errors import NodeClosed, NodeRefused
from vcubeps.net.events import Event, Gap, Joined, Left
from vcubeps.net.flow import FlowControl
from vcubeps.net.handshake import Refusal
from vcubeps.net.incarnation import IncarnationStore, VolatileIncarnation
from vcubeps.net.measures import Measures
from vcubeps.net.mesh import Mesh
from vcubeps.net.message import Codec, stamp_ns, stamped
from vcubeps.net.settings import ClusterSettings
from vcubeps.net.subscription import Receipt, Slow, Subscription
from vcubeps.net.topics import LocalTopic, Stage
from vcubeps.net.tracer import NOBODY_ASKED_NS, Tracer
from vcubeps.net.wire import Wire
from vcubeps.protocol import Peer, ProtocolViolation
from vcubeps.protocol.limits import check_topic
from vcubeps.protocol.messages import Ack, Copy, Publication
from vcubeps.protocol.outputs import (
    Accepted,
    Acknowledged,
    Deliver,
    MemberJoined,
    MemberLeft,
    Output,
    Received,
    Restarted,
    Send,
    Started,
    Subscribed,
    Unsubscribed,
    Up,
)

log = logging.getLogger(__name__)


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
        self._incarnations = incarnations
        self._tracer = tracer
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
        self._releasable: dict[str, None] = {}
        """Topics with publications that wait for the end of the turn."""
        self.flow = FlowControl(self)
        self._carriers: dict[type, Callable[[Any], None]] = {
            Deliver: self._on_deliver,
            Received: self._on_received,
            Started: self._on_started,
            Acknowledged: self._on_acknowledged,
            Subscribed: self._on_subscribed,
            Unsubscribed: self._on_unsubscribed,
            MemberJoined: lambda output: self._tell(output.topic, Joined(output.topic, output.node)),
            MemberLeft: self._on_member_left,
            Up: self._on_up,
            Restarted: self._on_restarted,
        }

    async def start(self) -> None:
        """Begin. A node that ran before is let in by the others first; `wait_until_up` waits for that."""
        if self.peer.is_up:
            self._up.set()
        self._carry_out(self.peer.start())

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
            self._carry_out(self.peer.receive(other, message))
        except ProtocolViolation:
            self.measures.violations += 1
            raise
        finally:
            self._wire.forget()

    def on_incarnation(self, other: int, incarnation: int) -> None:
        # So the one before it is no more. A node that is not up learns that in the course of being let in: told now,
        # it would take the other for dead, and go up without it.
        if incarnation > 0 and self.peer.is_up:
            self._carry_out(self.peer.suspect(other, incarnation - 1))

    def on_gone(self, other: int, incarnation: int) -> None:
        log.info("node %d: node %d has ended", self.id, other)
        self._carry_out(self.peer.suspect(other, incarnation))

    def on_unreachable(self, other: int, incarnation: int) -> None:
        # Other nodes may know of a newer one than has ever been connected with this node.
        outputs = self.peer.suspect(other, max(incarnation, self.peer.known_incarnation(other)))
        if outputs:
            log.warning(
                "node %d: node %d has been out of reach for %g s and counts as crashed",
                self.id, other, self.settings.timing.unreachable_after_s,
            )  # fmt: skip
        self._carry_out(outputs)

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
                self._carry_out(self.peer.release(name))

    # -- carrying out --------------------------------------------------------------------------

    def _carry_out(self, outputs: list[Output]) -> None:
        mesh, gates, sends = self.mesh, self.flow.gates, True
        for output in outputs:
            if type(output) is Send:
                message: Any = output.message
                body = self._wire.encode(message)
                if gates and type(message) is Ack and (output.destination, message.hop) in gates:
                    self.flow.hold(output.destination, message, body)
                else:
                    mesh.send(output.destination, message.target, body, urgent=type(message) is Copy)
                continue
            if sends:
                sends = False
                mesh.hurry()  # others wait for what is forwarded; this node's application can wait for them
            self._carriers[type(output)](output)

    def _on_received(self, batch: Received) -> None:
        now_ns = time.time_ns()
        topic = self.topics[batch.topic]
        topic.received(batch, now_ns, self._frame_bytes)
        if self._tracer is not None:
            self._tracer.received(batch, now_ns)

    def _on_deliver(self, batch: Deliver) -> None:
        now_ns = time.time_ns()
        topic = self.topics[batch.topic]
        items, measures = batch.items, self.measures
        count = len(items)
        if batch.source == self.id:
            size = sum([len(data) for _, data in items])
        else:
            came_ns, size = topic.arrival(batch, now_ns)
            measures.causal_wait_us.add((now_ns - came_ns) // 1000, count)
            measures.latency_us.add((now_ns - stamp_ns(items[0][1])) // 1000, count)
        measures.barrier_entries.add(len(batch.after))
        measures.batch_items.add(count)
        topic.measures.deliveries += count
        if self._tracer is not None:
            self._tracer.delivered(batch, now_ns)
        for subscription in tuple(topic.subscriptions):
            subscription.deliver(batch, size)
        if topic.full or topic.is_behind():
            self.flow.relieve(topic)

    def _on_started(self, batch: Started) -> None:
        if self._tracer is not None:
            self._tracer.started(batch, time.time_ns())

    def _on_acknowledged(self, output: Acknowledged) -> None:
        topic = self.topics[output.topic]
        topic.acknowledged(output.counter)
        if self._tracer is not None:
            self._tracer.acknowledged(output.topic, output.counter, time.time_ns())
        if topic.publish_waiters:
            topic.wake_publishers()

    def _on_member_left(self, output: MemberLeft) -> None:
        self._tell(output.topic, Left(output.topic, output.node))
        self.topics[output.topic].wake_publishers()  # the way to that node may have been what they wait for

    def _tell(self, name: str, event: Event) -> None:
        for subscription in self.topics[name].subscriptions:
            subscription.tell(event)

    # -- joining and leaving -------------------------------------------------------------------

    async def join(
        self, name: str, codec: Codec, slow: Slow, reads: bool, messages_max: int | None
    ) -> Subscription:
        """A new subscription to topic `name`, in effect everywhere."""
        self.check_alive()
        check_topic(name)
        await self.wait_until_up()
        topic = self.topics.get(name)
        limits = self.settings.limits
        if topic is None:
            topic = self.topics[name] = LocalTopic(name, self.measures.topic(name), limits)
        subscription = Subscription(
            self, topic, codec, slow, reads, messages_max or limits.queue_messages_max, limits.queue_bytes_max
        )
        topic.subscriptions.append(subscription)
        if topic.stage in (Stage.OUT, Stage.LEAVING):
            self._ask_to_join(topic)
        try:
            await self._wait_joined(topic)
        except BaseException:
            self._detach(subscription)
            raise
        return subscription

    async def _wait_joined(self, topic: LocalTopic) -> None:
        while topic.stage is Stage.JOINING:
            if topic.joined is None:
                topic.joined = self.loop.create_future()
            await asyncio.shield(topic.joined)
        self.check_alive()

    def _ask_to_join(self, topic: LocalTopic) -> None:
        topic.stage = Stage.JOINING
        topic.join_asked_ns = time.time_ns()
        if self.peer.is_up:
            self._carry_out(self.peer.subscribe(topic.name))

    def _on_subscribed(self, output: Subscribed) -> None:
        topic = self.topics[output.topic]
        topic.stage = Stage.IN
        if self._tracer is not None:
            self._tracer.joined(topic.name, topic.join_asked_ns, time.time_ns())
        joined, topic.joined = topic.joined, None
        if joined is not None and not joined.done():
            joined.set_result(None)
        topic.wake_publishers()

    async def leave(self, subscription: Subscription) -> None:
        """End `subscription`; with the last one of its topic, leave the topic."""
        topic = subscription._topic
        self._detach(subscription)
        if topic.stage is Stage.LEAVING and not self.mesh.is_closed:
            if topic.left is None:
                topic.left = self.loop.create_future()
            await asyncio.wait([topic.left], timeout=self.settings.timing.close_within_s)

    def disconnect(self, subscription: Subscription) -> None:
        """It was too slow, and had asked not to slow others."""
        self.measures.disconnected_slow += 1
        subscription.end_as_slow()
        self._detach(subscription)

    def _detach(self, subscription: Subscription) -> None:
        topic = subscription._topic
        if subscription not in topic.subscriptions:
            return
        topic.subscriptions.remove(subscription)
        if not subscription.is_closed:
            subscription.end()
        self.flow.relieve(topic)
        topic.wake_publishers()
        if topic.subscriptions or self.failure is not None:
            return
        topic.closed()
        topic.weigh()
        self.flow.relieve(topic)
        topic.stage = Stage.LEAVING
        topic.leave_asked_ns = time.time_ns()
        if self.peer.can_unsubscribe(topic.name):
            self._carry_out(self.peer.unsubscribe(topic.name))
        else:
            self._out(topic)  # this node is not up: the join had not been asked for yet

    def _on_unsubscribed(self, output: Unsubscribed) -> None:
        topic = self.topics[output.topic]
        if self._tracer is not None:
            self._tracer.left(topic.name, topic.leave_asked_ns, time.time_ns())
        if topic.stage is Stage.LEAVING:
            self._out(topic)
        else:
            topic.wake_leavers()  # somebody has asked to join again meanwhile

    def _out(self, topic: LocalTopic) -> None:
        topic.stage = Stage.OUT
        topic.wake_leavers()
        if not topic.subscriptions:
            self.topics.pop(topic.name, None)
            self.measures.leave(topic.name)

    # -- crashes of this node, as the others see it --------------------------------------------

    def _on_restarted(self, output: Restarted) -> None:
        self._incarnations.store(output.incarnation)
        self.mesh.identity.incarnation = output.incarnation
        self.measures.restarts += 1
        self._up.clear()
        reason = f"the other nodes took node {self.id} for crashed"
        log.warning("node %d: %s; it goes on as incarnation %d", self.id, reason, output.incarnation)
        self.flow.gates.clear()
        self._releasable.clear()
        for topic in list(self.topics.values()):
            if self._tracer is not None:
                self._tracer.left(topic.name, NOBODY_ASKED_NS, time.time_ns())
            topic.forget(reason)
            topic.held_acks.clear()
            topic.gated = False
            topic.weigh()
            if not topic.subscriptions:
                self._out(topic)
                continue
            if topic.stage is Stage.IN:
                for subscription in topic.subscriptions:
                    subscription.tell(Gap(topic.name, reason))
            topic.stage = Stage.JOINING

    def _on_up(self, _: Up) -> None:
        self._up.set()
        for topic in list(self.topics.values()):
            if topic.subscriptions and not self.peer.can_unsubscribe(topic.name):
                self._ask_to_join(topic)

    # -- publishing ----------------------------------------------------------------------------

    def publish(self, topic: LocalTopic, payload: bytes) -> Receipt:
        now_ns = time.time_ns()
        accepted = self.peer.publish(topic.name, stamped(payload, now_ns), more=True)[0]
        assert isinstance(accepted, Accepted)
        counter = accepted.counter
        topic.published(counter, len(payload))
        if self._tracer is not None:
            self._tracer.published(topic.name, counter, now_ns)
        self._releasable[topic.name] = None
        self.mesh.wake()
        return Receipt(topic, self.id, counter)

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

    async def close(self) -> None:
        """Leave every topic, say goodbye, end everything; within `close_within_s` or a little more."""
        within_s = self.settings.timing.close_within_s
        deadline_s = self.loop.time() + within_s
        leaving = []
        for topic in list(self.topics.values()):
            for subscription in tuple(topic.subscriptions):
                self._detach(subscription)
            if topic.stage is Stage.LEAVING:
                topic.left = topic.left or self.loop.create_future()
                leaving.append(topic.left)
        if leaving and self.failure is None:
            await asyncio.wait(leaving, timeout=within_s * 0.8)
        if self.failure is None:
            self.failure = NodeClosed(f"node {self.id} has been closed: open it again")
        self._up.set()
        for topic in list(self.topics.values()):
            if self._tracer is not None:
                self._tracer.left(topic.name, NOBODY_ASKED_NS, time.time_ns())
            topic.fail(self.failure)
        await self.mesh.close(max(0.0, deadline_s - self.loop.time()))
        if self._tracer is not None:
            await self._tracer.close()
        self._incarnations.close()
