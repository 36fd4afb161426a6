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
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from vcubeps.protocol.messages import Barrier, Publication, Unsubscription, incarnation_of

Ordered: TypeAlias = Publication | Unsubscription
"""What is subject to causal order."""


class Past:
    """What this node's next publication on the topic comes after.

    Invariants: `barrier` together with what its entries stand for covers everything delivered;
    whatever a delivered message depended on is in `delivered` or in `doubtful`. What is doubtful of a
    node is no less than what is delivered of it, or what is in `barrier`; and of whoever was known
    before, as much is doubtful or has been delivered. Nothing is kept of nodes that are absent: what they
    published has been delivered everywhere, or never will be.
    """

    __slots__ = ("_known_before", "_present", "barrier", "delivered", "doubtful")

    def __init__(self, known: Barrier, present: Mapping[int, int]) -> None:
        self._present = present
        """The other nodes that are not absent, as `LocalNode.known`."""
        self._known_before = known
        """All that this node had known of on this topic when its subscription took effect."""
        self.barrier: Barrier = {}
        self.doubtful: Barrier = {}
        """Dependencies that some member may not have been told of by what stands for them."""
        self.delivered: Barrier = {}
        """Source → counter of the last publication of it delivered here, own ones left out."""

    def learn(self, node: int, counter: int) -> None:
        """While joining: `node` had published up to `counter`."""
        raise_entries(self._known_before, {node: counter})

    def correct(self, node: int, counter: int) -> None:
        """While joining: `node`, a member, had published up to `counter` on this topic, whatever else was known."""
        self._known_before.pop(node, None)
        self.learn(node, counter)

    def begin(self) -> None:
        """Joined: the past is all that is known, and none of it may be left out yet."""
        # Some may have told this node of themselves, and be over by now.
        known = self._known_before = {
            node: counter for node, counter in self._known_before.items() if node in self._present
        }
        self.barrier, self.doubtful = dict(known), dict(known)

    def publish(self, me: int, counter: int) -> Barrier:
        """The barrier of a publication that this node makes now; the next one comes after it."""
        barrier = self.barrier
        self.barrier = {me: counter}
        return barrier

    def membership_grew(self) -> None:
        """The newcomer was not told of what is doubtful: the next publication tells it."""
        self.barrier.update(self.doubtful)

    def deliver(self, message: Publication, same_membership: bool) -> None:
        source, counter = message.source, message.counter
        barrier, doubtful, delivered = self.barrier, self.doubtful, self.delivered
        for node, needed in message.barrier.items():
            if delivered.get(node, 0) < needed and needed > doubtful.get(node, 0) and node in self._present:
                doubtful[node] = needed
            if same_membership:
                # Algorithm 2, line 89: the message stands for its own barrier.
                if node in barrier and barrier[node] <= needed:
                    del barrier[node]
            elif node in doubtful:
                barrier[node] = doubtful[node]
        delivered[source] = counter
        if not same_membership:
            doubtful[source] = max(counter, doubtful.get(source, counter))
        elif source in doubtful and doubtful[source] <= counter:
            del doubtful[source]
        barrier[source] = counter

    def forget(self, over: Mapping[int, int]) -> None:
        """What these incarnations published has been delivered everywhere, or never will be."""
        for kept in (self._known_before, self.barrier, self.doubtful, self.delivered):
            forget_entries(kept, over)

    def check(self, me: int) -> None:
        """As `LocalNode.check`, as far as it can be seen without the history."""
        assert me not in self.delivered and me not in self.doubtful, "own publications are kept as others'"
        absent = (self.delivered.keys() | self.doubtful.keys() | self.barrier.keys()) - {me, *self._present}
        assert not absent, f"keeps publications of {absent}, who are absent"
        for node, counter in self.doubtful.items():
            least = max(self.delivered.get(node, 0), self.barrier.get(node, 0))
            assert counter >= least, f"less is doubtful of node {node} than {least}"
        known = self.knowledge()
        assert all(known[node] >= counter for node, counter in self._known_before.items()), (
            "has forgotten what it knew"
        )
        for kept in (self.barrier, self.doubtful, self.delivered):
            assert all(counter > 0 for counter in kept.values()), f"depends on nothing: {kept}"

    def knowledge(self) -> Barrier:
        """All that this node knows of on this topic: where its next subscription starts from."""
        return {**self._known_before, **self.delivered, **self.doubtful}


def raise_entries(barrier: Barrier, other: Barrier) -> None:
    """Make `barrier` cover `other` too."""
    for node, counter in other.items():
        if counter > barrier.get(node, 0):
            barrier[node] = counter


def forget_entries(barrier: Barrier, over: Mapping[int, int]) -> None:
    """Leave out what these incarnations published."""
    for node, incarnation in over.items():
        if node in barrier and incarnation_of(barrier[node]) <= incarnation:
            del barrier[node]


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

    def wake(self, *blockers: int) -> Iterable[int]:
        """The sources whose heads waited for one of `blockers`; they must be looked at again."""
        waiting = self._waiting
        if not waiting:
            return ()
        return [source for blocker in blockers for source in waiting.pop(blocker, ())]

    def wake_all(self) -> list[int]:
        self._waiting.clear()
        return list(self.queues)

    def check(self, is_delivering: bool) -> None:
        """As `LocalNode.check`; `is_delivering`: what could be delivered has been."""
        assert all(self.queues.values()), "a queue is empty"
        registered = [source for waiting in self._waiting.values() for source in waiting]
        assert len(registered) == len(set(registered)), f"a source waits twice: {registered}"
        assert set(registered) <= self.queues.keys(), f"nothing is held back of some of {registered}"
        if is_delivering:
            assert set(registered) == self.queues.keys(), (
                f"of {sorted(self.queues)} only {registered} wait for something"
            )

    def clear(self) -> list[Ordered]:
        held = [message for queue in self.queues.values() for message in queue]
        self.queues.clear()
        self._waiting.clear()
        return held
