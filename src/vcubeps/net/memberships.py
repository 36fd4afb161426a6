"""Joining and leaving: the subscriptions of one node's application, and the memberships of topics behind them.

All subscriptions of a node to a topic share one membership: it is asked for with the first and left with the last.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from vcubeps.net.events import Gap
from vcubeps.net.message import Codec
from vcubeps.net.subscription import OnMessage, Slow, Subscription
from vcubeps.net.topics import LocalTopic, Stage
from vcubeps.net.tracer import NOBODY_ASKED_NS
from vcubeps.protocol.limits import check_topic
from vcubeps.protocol.outputs import Subscribed, Unsubscribed

if TYPE_CHECKING:
    from vcubeps.net.runtime import Runtime


class Memberships:
    """Of one node."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._settings = runtime.settings
        self._peer = runtime.peer
        self._topics = runtime.topics
        self.too_slow: list[Subscription] = []
        """Subscriptions to end when the outputs at hand have been carried out."""

    async def join(
        self,
        name: str,
        codec: Codec,
        slow: Slow,
        reads: bool,
        on_message: OnMessage | None,
        messages_max: int | None,
    ) -> Subscription:
        """A new subscription to topic `name`, in effect everywhere."""
        self._runtime.check_alive()
        check_topic(name)
        await self._runtime.wait_until_up()
        topic = self._topics.get(name)
        limits = self._settings.limits
        if topic is None:
            topic = self._topics[name] = LocalTopic(name, self._runtime.measures.topic(name), limits)
        subscription = Subscription(
            self._runtime,
            topic,
            codec,
            slow,
            reads,
            on_message,
            messages_max or limits.queue_messages_max,
            limits.queue_bytes_max,
        )
        topic.subscriptions.append(subscription)
        if topic.stage in (Stage.OUT, Stage.LEAVING):
            self._ask_to_join(topic)
        try:
            await self._wait_joined(topic)
            subscription.check_open()
        except BaseException:
            self.detach(subscription)
            raise
        return subscription

    async def _wait_joined(self, topic: LocalTopic) -> None:
        while topic.stage is Stage.JOINING:
            if topic.joined is None:
                topic.joined = asyncio.get_running_loop().create_future()
            await asyncio.shield(topic.joined)
        self._runtime.check_alive()

    def _ask_to_join(self, topic: LocalTopic) -> None:
        topic.stage = Stage.JOINING
        topic.join_asked_ns = time.time_ns()
        if self._peer.is_up:
            self._runtime.carry_out(self._peer.subscribe(topic.name))

    def on_subscribed(self, output: Subscribed) -> None:
        topic = self._topics[output.topic]
        topic.stage = Stage.IN
        if (tracer := self._runtime.tracer) is not None:
            tracer.joined(topic.name, topic.join_asked_ns, time.time_ns())
        topic.wake_joiners()
        topic.wake_publishers()

    async def leave(self, subscription: Subscription) -> None:
        """End `subscription`; with the last one of its topic, leave the topic."""
        topic = subscription._topic
        self.detach(subscription)
        if topic.stage is Stage.LEAVING and not self._runtime.mesh.is_closed:
            if topic.left is None:
                topic.left = asyncio.get_running_loop().create_future()
            await asyncio.wait([topic.left], timeout=self._settings.timing.close_within_s)

    def give_up(self, subscription: Subscription) -> None:
        """It is too slow, and has asked not to slow others."""
        if subscription not in self.too_slow:
            self.too_slow.append(subscription)

    def end_slow(self) -> None:
        """End the subscriptions that are too slow."""
        while self.too_slow:
            self._disconnect(self.too_slow.pop())

    def _disconnect(self, subscription: Subscription) -> None:
        self._runtime.measures.disconnected_slow += 1
        subscription.end_as_slow()
        self.detach(subscription)

    def detach(self, subscription: Subscription) -> None:
        topic = subscription._topic
        if subscription not in topic.subscriptions:
            return
        topic.subscriptions.remove(subscription)
        if not subscription.is_closed:
            subscription.end()
        self._runtime.flow.relieve(topic)
        topic.wake_publishers()
        if topic.subscriptions or self._runtime.failure is not None:
            return
        topic.closed()
        topic.weigh()
        self._runtime.flow.relieve(topic)
        topic.stage = Stage.LEAVING
        topic.leave_asked_ns = time.time_ns()
        if self._peer.can_unsubscribe(topic.name):
            self._runtime.carry_out(self._peer.unsubscribe(topic.name))
        else:
            self._out(topic)  # this node is not up: the join had not been asked for yet

    def on_unsubscribed(self, output: Unsubscribed) -> None:
        topic = self._topics[output.topic]
        if (tracer := self._runtime.tracer) is not None:
            tracer.left(topic.name, topic.leave_asked_ns, time.time_ns())
        if topic.stage is Stage.LEAVING:
            self._out(topic)
        else:
            topic.wake_leavers()  # somebody has asked to join again meanwhile

    def _out(self, topic: LocalTopic) -> None:
        topic.stage = Stage.OUT
        topic.wake_leavers()
        topic.wake_joiners()
        if not topic.subscriptions:
            self._topics.pop(topic.name, None)
            self._runtime.measures.leave(topic.name)

    # -- crashes of this node, as the others see it --------------------------------------------

    def void(self, reason: str) -> None:
        """The others took this node for crashed: its memberships are gone; its subscriptions wait for new ones."""
        for topic in list(self._topics.values()):
            if (tracer := self._runtime.tracer) is not None:
                tracer.left(topic.name, NOBODY_ASKED_NS, time.time_ns())
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

    def renew(self) -> None:
        """This node is up again: ask for the memberships that its subscriptions wait for."""
        for topic in list(self._topics.values()):
            if topic.subscriptions and not self._peer.can_unsubscribe(topic.name):
                self._ask_to_join(topic)
