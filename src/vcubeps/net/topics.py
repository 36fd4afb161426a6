"""One topic as this node's application has it: who subscribed, what waits for what. Bookkeeping; sends nothing."""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from typing import TYPE_CHECKING

from vcubeps.net.errors import Unacknowledged
from vcubeps.net.measures import TopicMeasures
from vcubeps.node.settings import Limits
from vcubeps.protocol.outputs import Deliver, Received

if TYPE_CHECKING:
    from vcubeps.net.subscription import Subscription


class Stage(enum.Enum):
    OUT = "out"
    JOINING = "joining"
    IN = "in"
    LEAVING = "leaving"


ALONE_NS = 1_000_000
"""Publications with less between them are likely to come in bursts, which should leave as batches."""

IN = Stage.IN
"""By this name on the path of every publication."""


class LocalTopic:
    """All subscriptions of one node to one topic share one membership.

    Invariants: `subscriptions` is empty when OUT or LEAVING; `sent` holds the counters of own publications that
    are not acknowledged, ascending, and `sent_bytes` is their size.
    """

    __slots__ = (
        "_ack_waiters", "_arrivals", "_came_alone", "_limits", "_pending_bytes", "_published_ns", "_sent_sizes",
        "_uncertain", "acknowledged_up_to", "full", "gated", "held_acks", "join_asked_ns", "joined",
        "leave_asked_ns", "left", "measures", "name", "pending", "publish_waiters", "sent", "sent_bytes", "stage",
        "subscriptions",
    )  # fmt: skip

    def __init__(self, name: str, measures: TopicMeasures, limits: Limits) -> None:
        self.name = name
        self.measures = measures
        self._limits = limits
        self.stage = Stage.OUT
        self.join_asked_ns = 0
        self.leave_asked_ns = 0
        """When the application asked for the join, or leave, under way or last done."""
        self.subscriptions: list[Subscription] = []
        self.joined: asyncio.Future[None] | None = None
        """While somebody waits for the join."""
        self.left: asyncio.Future[None] | None = None
        """While somebody waits for the leave."""
        self.sent: deque[int] = deque()
        self._sent_sizes: deque[int] = deque()
        self.sent_bytes = 0
        self._published_ns = 0
        """When the application published last."""
        self._came_alone = True
        """Whether that was long after the time before."""
        self.acknowledged_up_to = 0
        self._uncertain: list[tuple[int, int]] = []
        """Counters, from … to, of which it cannot be known any more whether all received them."""
        self._ack_waiters: list[tuple[int, asyncio.Future[None]]] = []
        self.publish_waiters: deque[asyncio.Future[None]] = deque()
        self.pending = 0
        """Publications received and not yet delivered."""
        self._pending_bytes = 0
        self._arrivals: dict[tuple[int, int], tuple[int, int]] = {}
        """⟨source, counter⟩ of a batch received and not yet delivered → when it came, its bytes."""
        self.full = False
        """More waits here than may: acknowledgements of further publications are held."""
        self.gated = False
        """Some acknowledgements of this topic are, or will be, in `held_acks`."""
        self.held_acks: list[tuple[int, int, bytes]] = []
        """Destination, incarnation, bytes."""

    # -- how much waits ------------------------------------------------------------------------

    def weigh(self) -> None:
        """Find out anew whether too much waits. Once full, half of it has to go before it is not."""
        self.full = self.is_behind(0.5 if self.full else 1.0)

    def is_behind(self, share: float = 1.0) -> bool:
        """Whether that share of what may wait here waits, for its past or to be read."""
        for each in self.subscriptions:
            if each.holds_publishers and (
                each.backlog >= share * each.messages_max or each.backlog_bytes >= share * each.bytes_max
            ):
                return True
        return (
            self.pending >= share * self._limits.queue_messages_max
            or self._pending_bytes >= share * self._limits.queue_bytes_max
        )

    # -- what the core says --------------------------------------------------------------------

    def received(self, batch: Received, now_ns: int, size: int) -> None:
        count = len(batch.counters)
        self.pending += count
        self._pending_bytes += size
        self.measures.receptions += count
        self._arrivals[batch.source, batch.counters[-1]] = now_ns, size
        if (
            self.pending >= self._limits.queue_messages_max
            or self._pending_bytes >= self._limits.queue_bytes_max
        ):
            self.weigh()

    def arrival(self, batch: Deliver, now_ns: int) -> tuple[int, int]:
        """When a batch that is delivered now had come, and its bytes."""
        arrival = self._arrivals.pop((batch.source, batch.items[-1][0]), None)
        if arrival is None:  # the application has left in between
            return now_ns, 0
        self.pending -= len(batch.items)
        self._pending_bytes -= arrival[1]
        return arrival

    def comes_alone(self, now_ns: int) -> bool:
        """Whether a publication made now comes alone, as the one before it did: then it need not wait for company."""
        came_alone, self._came_alone = self._came_alone, now_ns - self._published_ns > ALONE_NS
        self._published_ns = now_ns
        return came_alone and self._came_alone

    def published(self, counter: int, size: int) -> None:
        self.sent.append(counter)
        self._sent_sizes.append(size)
        self.sent_bytes += size
        self.measures.publications += 1

    def acknowledged(self, counter: int) -> None:
        sent = self.sent
        while sent and sent[0] <= counter:
            sent.popleft()
            self.sent_bytes -= self._sent_sizes.popleft()
        self.acknowledged_up_to = counter
        if self._ack_waiters:
            done = [waiter for waiter in self._ack_waiters if waiter[0] <= counter]
            self._ack_waiters = [waiter for waiter in self._ack_waiters if waiter[0] > counter]
            for _, future in done:
                if not future.done():
                    future.set_result(None)

    def forget(self, reason: str) -> None:
        """The membership, and what was under way with it, is void."""
        if self.sent:
            self._uncertain.append((self.sent[0], self.sent[-1]))
            self.sent.clear()
            self._sent_sizes.clear()
            self.sent_bytes = 0
        waiters, self._ack_waiters = self._ack_waiters, []
        for counter, future in waiters:
            if not future.done():
                future.set_exception(self._unknown(counter, reason))
                future.exception()  # whoever waits raises it; nobody may be left to
        self.closed()

    def closed(self) -> None:
        """Nothing more is delivered in this membership: what was received and not delivered is gone."""
        self.pending = self._pending_bytes = 0
        self._arrivals.clear()

    # -- who waits -----------------------------------------------------------------------------

    async def wait_acknowledged(self, counter: int) -> None:
        if self.acknowledged_up_to >= counter and not self._is_uncertain(counter):
            return
        if self._is_uncertain(counter):
            raise self._unknown(counter, "the node was taken for crashed, or closed, before")
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ack_waiters.append((counter, future))
        await future

    def _is_uncertain(self, counter: int) -> bool:
        return any(low <= counter <= high for low, high in self._uncertain)

    def _unknown(self, counter: int, reason: str) -> Unacknowledged:
        return Unacknowledged(
            f"whether everybody received publication {counter} on {self.name!r} is not known: {reason}"
        )

    async def wait_for_room(self) -> None:
        """Until `wake_publishers`."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.publish_waiters.append(future)
        await future

    def wake_leavers(self) -> None:
        left, self.left = self.left, None
        if left is not None and not left.done():
            left.set_result(None)

    def wake_joiners(self) -> None:
        joined, self.joined = self.joined, None
        if joined is not None and not joined.done():
            joined.set_result(None)

    def wake_publishers(self) -> None:
        waiters, self.publish_waiters = self.publish_waiters, deque()
        for future in waiters:
            if not future.done():
                future.set_result(None)

    def fail(self, error: Exception) -> None:
        """The node is at its end: everybody who waits is told so."""
        for future in (self.joined, self.left, *self.publish_waiters):
            if future is not None and not future.done():
                future.set_exception(error)
                future.exception()
        self.publish_waiters.clear()
        self.forget(str(error))
