"""Causal order of one topic: the barrier of the next publication, and the hold-back of what came too early.

A publication carries a *barrier*: for some sources, the last publication that must be
delivered first. Barriers stay small because a delivered message stands for its own barrier
(Algorithm 2, line 89). That is sound only between nodes with the same membership: a node that
joined later may never get the message that stands for the others (flaw h), so whatever may
have been hidden from somebody is kept as *doubtful* and goes into barriers again when the
membership differs or grows.
"""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

from vcubeps.protocol.messages import Publication, Unsubscription
from vcubeps.protocol.outputs import Barrier

Ordered: TypeAlias = Publication | Unsubscription
"""What is subject to causal order."""


class Past:
    """What this node's next publication on the topic comes after.

    Invariants: `barrier` together with what its entries stand for covers everything delivered;
    every entry of `barrier` and `doubtful` is at most the one in `known` for its source.
    """

    __slots__ = ("barrier", "delivered", "doubtful", "known")

    def __init__(self, known: Barrier) -> None:
        self.known = known
        """Everything this node has ever known of on this topic; survives a leave, for the next join."""
        self.barrier: Barrier = {}
        self.doubtful: Barrier = {}
        """Dependencies that some member may not have been told of by what stands for them."""
        self.delivered: Barrier = {}
        """Source → counter of the last publication of it delivered here."""

    def learn(self, node: int, counter: int) -> None:
        if counter > self.known.get(node, 0):
            self.known[node] = counter

    def begin(self, me: int) -> None:
        """Joined: the past is all that is known, and none of it may be left out yet."""
        self.known.pop(me, None)
        self.barrier = dict(self.known)
        self.doubtful = dict(self.known)

    def publish(self, me: int, counter: int) -> Barrier:
        """The barrier of a publication that this node makes now; the next one comes after it."""
        barrier = self.barrier
        self.known[me] = counter
        self.barrier = {me: counter}
        return barrier

    def membership_grew(self) -> None:
        """The newcomer was not told of what is doubtful: the next publication tells it."""
        barrier = self.barrier
        for node, counter in self.doubtful.items():
            if counter > barrier.get(node, 0):
                barrier[node] = counter

    def deliver(self, me: int, message: Publication, same_membership: bool) -> None:
        source, counter = message.source, message.counter
        known, barrier, doubtful, delivered = self.known, self.barrier, self.doubtful, self.delivered
        for node, needed in message.barrier.items():
            if needed > known.get(node, 0):
                known[node] = needed
            if node != me and delivered.get(node, 0) < needed and needed > doubtful.get(node, 0):
                doubtful[node] = needed
        if counter > known.get(source, 0):
            known[source] = counter
        delivered[source] = counter
        if same_membership:
            # Algorithm 2, line 89: the message stands for its own barrier.
            for node, needed in message.barrier.items():
                if node in barrier and barrier[node] <= needed:
                    del barrier[node]
            if source in doubtful and doubtful[source] <= counter:
                del doubtful[source]
        else:
            for node, needed in message.barrier.items():
                kept = doubtful.get(node, -1)
                if kept >= needed and kept > barrier.get(node, 0):
                    barrier[node] = kept
            doubtful[source] = counter
        barrier[source] = counter


class HoldBack:
    """Received and not yet delivered, per source in order of reception.

    Invariants: no queue is empty; a source whose head is blocked is registered under exactly
    one blocker, so a delivery wakes only those that waited for it and nothing is rescanned.
    """

    __slots__ = ("_waiting", "queues")

    def __init__(self) -> None:
        self.queues: dict[int, deque[Ordered]] = {}
        self._waiting: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return sum(map(len, self.queues.values()))

    def append(self, message: Ordered) -> bool:
        """Whether the message became the head of its source's queue."""
        queue = self.queues.get(message.source)
        if queue is None:
            self.queues[message.source] = deque((message,))
            return True
        queue.append(message)
        return False

    def tail(self, source: int) -> Ordered | None:
        queue = self.queues.get(source)
        return queue[-1] if queue else None

    def pop(self, source: int) -> Ordered:
        queue = self.queues[source]
        message = queue.popleft()
        if not queue:
            del self.queues[source]
        return message

    def block(self, source: int, blocker: int) -> None:
        waiting = self._waiting.get(blocker)
        if waiting is None:
            self._waiting[blocker] = [source]
        else:
            waiting.append(source)

    def wake(self, blocker: int) -> list[int]:
        """The sources whose heads waited for `blocker`; they must be looked at again."""
        return self._waiting.pop(blocker, [])

    def wake_all(self) -> list[int]:
        self._waiting.clear()
        return list(self.queues)

    def clear(self) -> list[Ordered]:
        held = [message for queue in self.queues.values() for message in queue]
        self.queues.clear()
        self._waiting.clear()
        return held
