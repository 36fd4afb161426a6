"""Back-pressure: who waits when more waits than may.

A node whose application reads too slowly holds its acknowledgements of further publications on that topic. The
protocol lets a source start its next batch only when the one before is acknowledged by all, so the publishers of that
topic, and nobody else, come to a halt. For the core a held acknowledgement is a slow link.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from vcubeps.net.topics import IN, LocalTopic
from vcubeps.protocol.errors import UsageError
from vcubeps.protocol.messages import Ack

if TYPE_CHECKING:
    from vcubeps.net.runtime import Runtime
    from vcubeps.net.subscription import Subscription

log = logging.getLogger(__name__)

_SLOW_WARNING_S = 5.0
"""How long a publication may wait for its own node's subscription to be read before that is logged."""


class FlowControl:
    """Of one node."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._limits = runtime.settings.limits
        self.gates: dict[tuple[int, int], LocalTopic] = {}
        """(node, hop) of copies whose acknowledgement is to be held, because their topic was full."""

    # -- this node's application is slow -------------------------------------------------------

    def gate(self, topic: LocalTopic, sender: int, hop: int) -> None:
        """A publication has come although `topic` is full: its acknowledgement is to be held."""
        self.gates[sender, hop] = topic
        topic.gated = True

    def hold(self, destination: int, ack: Ack, body: bytes) -> None:
        topic = self.gates.pop((destination, ack.hop))
        topic.held_acks.append((destination, ack.target, body))
        self._runtime.measures.held_acks += 1

    def relieve(self, topic: LocalTopic) -> None:
        """Less may wait in `topic` than before: let its publishers go on if it is not full any more."""
        topic.weigh()
        if topic.full:
            return
        topic.wake_publishers()
        if not topic.gated:
            return
        topic.gated = False
        for key in [key for key, gated in self.gates.items() if gated is topic]:
            del self.gates[key]
        held, topic.held_acks = topic.held_acks, []
        for destination, target, body in held:
            self._runtime.mesh.link(destination).send(target, body, now=False)

    # -- this node's application publishes -----------------------------------------------------

    def may_publish(self, topic: LocalTopic, payload: bytes) -> bool:
        """Whether a publication need not wait. Raises UsageError if the payload is too large."""
        limits = self._limits
        if len(payload) > limits.payload_bytes_max:
            raise self._runtime.refused(
                UsageError(
                    f"payload has {len(payload)} bytes, the limit is {limits.payload_bytes_max} "
                    "(limits.payload_bytes_max): send it in parts"
                )
            )
        if (
            topic.stage is not IN
            or topic.full
            or len(topic.sent) >= limits.unacknowledged_max
            or topic.sent_bytes >= limits.unacknowledged_bytes_max
        ):
            return False
        congested = self._runtime.mesh.congested
        return not congested or congested.isdisjoint(self._runtime.peer.members(topic.name))

    async def wait_to_publish(self, subscription: Subscription, topic: LocalTopic) -> None:
        warning = None
        if topic.full:
            loop = asyncio.get_running_loop()
            warning = loop.call_later(_SLOW_WARNING_S, self._warn_of_unread, subscription)
        try:
            while not self.may_publish(topic, b""):
                await topic.wait_for_room()
                self._runtime.check_alive()
                subscription.check_open()
        finally:
            if warning is not None:
                warning.cancel()

    def _warn_of_unread(self, subscription: Subscription) -> None:
        log.warning(
            "node %d: a publication on %r waits because %d messages of its own subscription are unread: read them in "
            "another task, or subscribe with reads=False",
            self._runtime.id, subscription.topic, subscription.backlog,
        )  # fmt: skip
