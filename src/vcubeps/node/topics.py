"""One topic as this node's application has it: who reads it, what waits for what. Bookkeeping; sends nothing."""

from __future__ import annotations

import enum
from collections import deque

from vcubeps.node.settings import Limits
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

    Invariants: there are no `readers` when OUT or LEAVING; `sent` holds the counters of own publications that
    are not acknowledged, ascending, and `sent_bytes` is their size.
    """

    __slots__ = (
        "_arrivals", "_came_alone", "_limits", "_pending_bytes", "_published_at_s", "_sent_sizes", "full", "gap",
        "held_acks", "is_gated", "is_waited_for", "name", "pending", "readers", "sent", "sent_bytes", "stage",
    )  # fmt: skip

    def __init__(self, name: str, limits: Limits) -> None:
        self.name = name
        self._limits = limits
        self.stage = Stage.OUT
        self.readers: list[Reader] = []
        self.gap: str | None = None
        """Why the membership was void, if readers have to be told when it is there again."""
        self.sent: deque[int] = deque()
        self._sent_sizes: deque[int] = deque()
        self.sent_bytes = 0
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
            and len(self.sent) < limits.unacknowledged_max
            and self.sent_bytes < limits.unacknowledged_bytes_max
        )

    # -- what the core says --------------------------------------------------------------------

    def received(self, batch: Received, size: int) -> None:
        """It has to wait for its past."""
        self.pending += len(batch.counters)
        self._pending_bytes += size
        self._arrivals[batch.source, batch.counters[-1]] = size
        if (
            self.pending >= self._limits.queue_messages_max
            or self._pending_bytes >= self._limits.queue_bytes_max
        ):
            self.weigh()

    def size_of(self, batch: Deliver) -> int:
        """The bytes of a batch that has waited and is delivered now."""
        size = self._arrivals.pop((batch.source, batch.items[-1][0]), None)
        if size is None:  # the application has left in between
            return 0
        self.pending -= len(batch.items)
        self._pending_bytes -= size
        return size

    def delivered(self, count: int, size: int) -> bool:
        """So much goes to each reader. Whether some of it waits to be read."""
        waits = False
        for reader in self.readers:
            if reader.keeps:
                reader.backlog += count
                reader.backlog_bytes += size
                waits = True
        return waits

    def comes_alone(self, now_s: float) -> bool:
        """Whether a publication made now comes alone, as the one before it did: then it need not wait for company."""
        came_alone, self._came_alone = self._came_alone, now_s - self._published_at_s > ALONE_S
        self._published_at_s = now_s
        return came_alone and self._came_alone

    def published(self, counter: int, size: int) -> None:
        self.sent.append(counter)
        self._sent_sizes.append(size)
        self.sent_bytes += size

    def acknowledged(self, counter: int) -> None:
        sent = self.sent
        while sent and sent[0] <= counter:
            sent.popleft()
            self.sent_bytes -= self._sent_sizes.popleft()

    def void(self) -> tuple[int, int]:
        """The membership, and what was under way with it, is no more. First and last of the publications that were not
        acknowledged; 0 if there are none."""
        lost = (self.sent[0], self.sent[-1]) if self.sent else (0, 0)
        self.sent.clear()
        self._sent_sizes.clear()
        self.sent_bytes = 0
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
        assert self.sent_bytes == sum(self._sent_sizes) and len(self.sent) == len(self._sent_sizes)
        assert list(self.sent) == sorted(self.sent), "own publications are out of order"
