"""One topic as this node's application has it: who reads it, what waits for what. Bookkeeping; sends nothing."""

from __future__ import annotations

import enum
from collections import deque

from vcubeps.node.settings import Limits
from vcubeps.protocol.batches import Batch
from vcubeps.protocol.outputs import Deliver, Received


class Stage(enum.Enum):
    """Of this node's membership of a topic."""

    OUT = "out"
    JOINING = "joining"
    IN = "in"
    LEAVING = "leaving"


IN = Stage.IN
"""By this name on the path of every publication."""

ALONE_S = 0.001
"""Publications with less between them are likely to come in bursts, which should leave as batches."""


class Reader:
    """What is known here of one subscription of the application.

    `backlog` messages of `backlog_bytes` have been delivered to it and not been read.
    """

    __slots__ = ("backlog", "backlog_bytes", "bytes_max", "ends_if_slow", "keeps", "messages_max")

    def __init__(
        self, messages_max: int, bytes_max: int, *, keeps: bool = True, ends_if_slow: bool = False
    ) -> None:
        self.messages_max = messages_max
        self.bytes_max = bytes_max
        self.keeps = keeps
        """Whether messages wait here to be read; otherwise they are handed over, or not wanted."""
        self.ends_if_slow = ends_if_slow
        """Whether it is ended when more waits than may; otherwise the publishers of the topic wait."""
        self.backlog = 0
        self.backlog_bytes = 0

    def is_behind(self, share: float) -> bool:
        """Whether that share of what may wait here waits."""
        return self.backlog >= share * self.messages_max or self.backlog_bytes >= share * self.bytes_max

    @property
    def is_too_slow(self) -> bool:
        return self.ends_if_slow and (self.backlog > self.messages_max or self.backlog_bytes > self.bytes_max)


class LocalTopic:
    """All readers of one node share one membership of a topic.

    Invariants: there are no `readers` when OUT or LEAVING; `unacknowledged` own publications, of
    `unacknowledged_bytes`, have been accepted and not been acknowledged, and those of them that have left are in
    `_started`, batch by batch.
    """

    __slots__ = (
        "_arrivals", "_came_alone", "_first", "_last", "_limits", "_pending_bytes", "_published_at_s", "_started",
        "full", "gap", "held_acks", "is_gated", "is_waited_for", "name", "pending", "readers", "stage",
        "unacknowledged", "unacknowledged_bytes",
    )  # fmt: skip

    def __init__(self, name: str, limits: Limits) -> None:
        self.name = name
        self._limits = limits
        self.stage = Stage.OUT
        self.readers: list[Reader] = []
        self.gap: str | None = None
        """Why the membership was void, if readers have to be told when it is there again."""
        self.unacknowledged = 0
        self.unacknowledged_bytes = 0
        self._started: deque[tuple[int, int, int]] = deque()
        """Last counter, publications and bytes of each batch."""
        self._first = self._last = 0
        """Between these counters, both included, lie all that are not acknowledged, and none that are."""
        self._published_at_s = float("-inf")
        """When the application published last."""
        self._came_alone = True
        """Whether that was long after the time before."""
        self.pending = 0
        """Publications received and not yet delivered."""
        self._pending_bytes = 0
        self._arrivals: dict[tuple[int, int], int] = {}
        """⟨source, counter⟩ of a batch received and not yet delivered → its bytes."""
        self.full = False
        """More waits here than may: acknowledgements of further publications are held."""
        self.is_gated = False
        """Some acknowledgements of this topic are, or will be, in `held_acks`."""
        self.held_acks: list[tuple[int, int, bytes]] = []
        """Destination, incarnation, bytes."""
        self.is_waited_for = False
        """A publication was refused for want of room: the shell is told when it may be tried again."""

    # -- how much waits ------------------------------------------------------------------------

    def weigh(self) -> None:
        """Find out anew whether too much waits. Once full, half of it has to go before it is not."""
        self.full = self.is_behind(0.5 if self.full else 1.0)

    def is_behind(self, share: float = 1.0) -> bool:
        """Whether that share of what may wait here waits, for its past or to be read."""
        limits = self._limits
        return (
            any(each.keeps and not each.ends_if_slow and each.is_behind(share) for each in self.readers)
            or self.pending >= share * limits.queue_messages_max
            or self._pending_bytes >= share * limits.queue_bytes_max
        )

    def has_room(self) -> bool:
        """Whether the application may publish, as far as this topic is concerned."""
        limits = self._limits
        return (
            self.stage is IN
            and not self.full
            and self.unacknowledged < limits.unacknowledged_max
            and self.unacknowledged_bytes < limits.unacknowledged_bytes_max
        )

    # -- what the core says --------------------------------------------------------------------

    def received(self, batch: Received, size: int) -> None:
        """It has to wait for its past."""
        self.pending += len(batch.batch)
        self._pending_bytes += size
        self._arrivals[batch.source, batch.batch.first] = size
        if (
            self.pending >= self._limits.queue_messages_max
            or self._pending_bytes >= self._limits.queue_bytes_max
        ):
            self.weigh()

    def size_of(self, batch: Deliver) -> int:
        """The bytes of a batch that has waited and is delivered now."""
        size = self._arrivals.pop((batch.source, batch.batch.first), None)
        if size is None:  # the application has left in between
            return 0
        self.pending -= len(batch.batch)
        self._pending_bytes -= size
        return size

    def published(self, counter: int, size: int, now_s: float) -> bool:
        """The application's publication has been accepted. Whether it comes alone, as the one before it did: then it
        need not wait for company."""
        if not self.unacknowledged:
            self._first = counter
        self._last = counter
        self.unacknowledged += 1
        self.unacknowledged_bytes += size
        came_alone, self._came_alone = self._came_alone, now_s - self._published_at_s > ALONE_S
        self._published_at_s = now_s
        return came_alone and self._came_alone

    def started(self, batch: Batch) -> None:
        """Own publications have left."""
        self._started.append((batch.last, len(batch), sum(map(len, batch.payloads))))

    def acknowledged(self, counter: int) -> None:
        self._first = counter + 1
        started = self._started
        while started and started[0][0] <= counter:
            _, count, size = started.popleft()
            self.unacknowledged -= count
            self.unacknowledged_bytes -= size

    def void(self) -> tuple[int, int]:
        """The membership, and what was under way with it, is no more. The publications that were not acknowledged are
        those from the first of these counters to the last; 0 if there are none."""
        lost = (self._first, self._last) if self.unacknowledged else (0, 0)
        self.unacknowledged = self.unacknowledged_bytes = 0
        self._started.clear()
        self.held_acks.clear()
        self.is_gated = False
        self.closed()
        return lost

    def closed(self) -> None:
        """Nothing more is delivered in this membership: what was received and not delivered is gone."""
        self.pending = self._pending_bytes = 0
        self._arrivals.clear()
        self.weigh()

    def check(self) -> None:
        """Raise AssertionError if an invariant does not hold. For tests."""
        if self.stage in (Stage.OUT, Stage.LEAVING):
            assert not self.readers, f"{self.name} is {self.stage.value} and has readers"
        assert self.unacknowledged >= sum(count for _, count, _ in self._started), (
            "more have left than waited"
        )
        assert not self.unacknowledged or self._first <= self._last, "what is not acknowledged lies nowhere"
