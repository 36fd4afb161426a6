"""The operations of one node on one topic: which one is under way, and which wait for it."""

from __future__ import annotations

from collections import deque

from vcubeps.protocol.batches import Waiting
from vcubeps.protocol.dissemination import ROOT, Task
from vcubeps.protocol.messages import Unsubscription
from vcubeps.protocol.topic import MEMBER, Topic


class Join:
    """Queued: subscribe."""


class Leave:
    """Queued: unsubscribe."""


class Worker:
    """All that one node keeps of one topic name, as long as there is anything to do.

    Invariants: `wanted` is what the application asked for last; a join in `queue` stands at its
    end, behind a leave that is queued or under way unless the node is isolated and the leave has ended.
    What is in `waiting` was asked for before what is in `queue`: nothing can be published while a join or
    leave waits.
    """

    __slots__ = ("current", "pumping", "queue", "sent_twice", "topic", "waiting", "wanted")

    def __init__(self) -> None:
        self.wanted = False
        self.waiting = Waiting()
        """Publications."""
        self.queue: deque[Join | Leave] = deque()
        self.current: Task | None = None
        """The broadcast under way."""
        self.pumping = False
        """`_pump` is at work: a broadcast that ends at once returns to it instead of starting the next."""
        self.topic: Topic | None = None
        self.sent_twice = False
        """A crash made somebody send the SUB of this subscription, or of one before it, again: a stale copy of it may
        turn up later."""

    def check(self) -> None:
        """As `LocalNode.check`."""
        joins = [place for place, operation in enumerate(self.queue) if type(operation) is Join]
        leaves = [place for place, operation in enumerate(self.queue) if type(operation) is Leave]
        assert joins in ([], [len(self.queue) - 1]), "a join is not at the end of the queue"
        if joins:
            is_leaving = self.current is not None and type(self.current.broadcast) is Unsubscription
            assert is_leaving or leaves or self.topic is None, "a join waits for no leave"
        is_open = self.topic is not None and not self.topic.closing
        assert self.wanted == (is_open or bool(joins)), "the topic is not what the application asked for last"
        assert not self.pumping, "still starts broadcasts"
        if self.current is not None:
            task = self.current
            assert self.topic is not None, "a broadcast is under way on a topic that has been left"
            assert task.parent == ROOT and not task.finished, (
                "the broadcast under way is not an own one in progress"
            )
        self.waiting.check()
        assert not self.waiting or self.topic is not None, "publications wait on a topic that has been left"
        if self.topic is not None:
            self.topic.check()

    def is_member(self) -> bool:
        """Whether the subscription is in effect and has not been ended."""
        topic = self.topic
        return topic is not None and topic.phase is MEMBER and not topic.closing

    def is_idle(self) -> bool:
        """Whether there is nothing to do: what is wanted is queued or has a topic, and so has what is under way."""
        return not (self.queue or self.topic)
