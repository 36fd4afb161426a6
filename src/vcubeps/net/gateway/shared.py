"""What all clients of one gateway share: the node, its topics, the ways to publish, the counts. Knows no HTTP."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from vcubeps.net.errors import NodeError, Unacknowledged
from vcubeps.net.gateway.leaving import Leaving
from vcubeps.net.gateway.refusals import Cause, Refused
from vcubeps.net.gateway.topics import Topics
from vcubeps.net.gateway.turns import Turns
from vcubeps.net.node import Node
from vcubeps.net.status import health_of
from vcubeps.net.subscription import Receipt, Subscription
from vcubeps.protocol.errors import UsageError
from vcubeps.protocol.limits import check_topic

PUBLISHING_IDLE_S = 60.0
"""How long the node stays a member of a topic for clients that only publish to it, after their last one."""

PUBLISHING_TOPICS_MAX = 1000
"""Topics that clients may publish to within that time."""

_SWEEP_S = 5.0
"""How often idle ones are looked for."""


class Session(Protocol):
    """A WebSocket connection."""

    @property
    def subscriptions(self) -> int:
        """How many it has."""

    async def close(self) -> None: ...


class Shared:
    def __init__(self, node: Node) -> None:
        self.node = node
        self.shell = node._shell
        self.loop = asyncio.get_running_loop()
        self.refusals: Counter[str] = Counter()
        self.sessions: set[Session] = set()
        """WebSocket connections."""
        self.connections: Callable[[], int] = int
        """How many there are, of any kind: set by the server."""
        self.is_closing = False
        self.leaving = Leaving()
        self.operations = Turns(self.loop.call_soon)
        """Of what clients ask for on the WebSocket."""
        self.turns = Turns(self.loop.call_soon)
        """Of what they are told on it. Has a budget of its own, so that who asks does not wait for all who listen."""
        self.topics = Topics(self.shell, self.leaving, self.turns)
        self.publishers = Publishers(node, self.leaving)
        self._started_s = self.loop.time()

    @property
    def uptime_s(self) -> float:
        """Of the gateway, which starts with its node."""
        return self.loop.time() - self._started_s

    @property
    def clients(self) -> int:
        return self.connections()

    def check_up(self) -> None:
        """Raises Refused if the node cannot serve at present."""
        health = health_of(self.shell)
        if health.reason is not None:
            raise Refused(503, Cause.NOT_UP, health.reason)

    async def publish(self, topic: str, payload: bytes) -> Receipt:
        """Accepted, or refused with the reason. Waits while the topic is under back-pressure."""
        self.check_topic(topic)
        self.check_size(len(payload))
        self.check_up()
        try:
            return await self.publishers.publish(topic, payload)
        except NodeError as error:
            raise Refused(503, Cause.NOT_UP, str(error)) from None

    async def wait_acknowledged(self, receipt: Receipt) -> None:
        try:
            await receipt.acknowledged()
        except Unacknowledged as error:
            raise Refused(503, Cause.UNACKNOWLEDGED, str(error)) from None

    def members(self, topic: str) -> tuple[int, ...]:
        self.check_topic(topic)
        members = self.node.members(topic)
        if self.node.id not in members:
            raise Refused(
                404,
                Cause.NOT_A_MEMBER,
                f"node {self.node.id} is not a member of {topic[:50]!r}, so it does not know its members: subscribe or "
                "publish to it here, or ask a node that is",
            )
        return members

    def check_topic(self, topic: str) -> None:
        try:
            check_topic(topic)
        except UsageError as error:
            raise Refused(400, Cause.TOPIC, str(error)) from None

    def check_size(self, size_bytes: int) -> None:
        limit = self.shell.settings.limits.payload_bytes_max
        if size_bytes > limit:
            raise Refused(
                413,
                Cause.TOO_LARGE,
                f"payload has {size_bytes} bytes, the limit is {limit} (limits.payload_bytes_max): send it in parts",
            )


class _Publisher:
    __slots__ = ("joined", "used_s", "users")

    def __init__(self, joined: asyncio.Task[Subscription]) -> None:
        self.joined = joined
        self.users = 0
        self.used_s = 0.0


class Publishers:
    """Memberships for clients that publish, one per topic, kept while they are in use and a little longer.

    Invariant: while there is any, a sweep is scheduled.
    """

    def __init__(self, node: Node, leaving: Leaving) -> None:
        self._node = node
        self._leaving = leaving
        self._loop = asyncio.get_running_loop()
        self._publishers: dict[str, _Publisher] = {}
        self._sweep: asyncio.TimerHandle | None = None

    async def publish(self, topic: str, payload: bytes) -> Receipt:
        publisher = self._publishers.get(topic) or self._join(topic)
        publisher.users += 1
        try:
            joined = publisher.joined
            subscription = joined.result() if joined.done() else await asyncio.shield(joined)
            return await subscription.publish(payload)
        except BaseException:
            if publisher.joined.done() and self._publishers.get(topic) is publisher and _is_void(publisher):
                del self._publishers[topic]
            raise
        finally:
            publisher.users -= 1
            publisher.used_s = self._loop.time()

    def sweep(self, now_s: float) -> None:
        """Leave the topics that have been idle for too long."""
        for topic, publisher in list(self._publishers.items()):
            if not publisher.users and now_s - publisher.used_s >= PUBLISHING_IDLE_S:
                del self._publishers[topic]
                self._end(publisher)
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        if self._publishers:
            self._schedule()

    async def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        publishers, self._publishers = list(self._publishers.values()), {}
        for publisher in publishers:
            self._end(publisher)
        await asyncio.gather(*(publisher.joined for publisher in publishers), return_exceptions=True)

    def _join(self, topic: str) -> _Publisher:
        if len(self._publishers) >= PUBLISHING_TOPICS_MAX:
            raise Refused(
                503,
                Cause.TOO_MANY,
                f"clients of this gateway have published to {PUBLISHING_TOPICS_MAX} topics within "
                f"{PUBLISHING_IDLE_S:g} s, which is the most: use fewer topics, or another node",
            )

        async def join() -> Subscription:
            return await self._node.subscribe(topic, reads=False)

        task = self._loop.create_task(join())
        task.add_done_callback(_retrieve)
        publisher = self._publishers[topic] = _Publisher(task)
        self._schedule()
        return publisher

    def _schedule(self) -> None:
        if self._sweep is None:
            self._sweep = self._loop.call_later(_SWEEP_S, lambda: self.sweep(self._loop.time()))

    def _end(self, publisher: _Publisher) -> None:
        if not publisher.joined.done():
            publisher.joined.cancel()
        elif not _is_void(publisher):
            self._leaving.start(publisher.joined.result())


def _is_void(publisher: _Publisher) -> bool:
    """Whether it can publish no more: its join failed, or its subscription has ended."""
    joined = publisher.joined
    return joined.cancelled() or joined.exception() is not None or joined.result().is_closed


def _retrieve(task: asyncio.Task[Subscription]) -> None:
    """Whoever waits raises the error of a join; nobody may be left to."""
    if not task.cancelled():
        task.exception()
