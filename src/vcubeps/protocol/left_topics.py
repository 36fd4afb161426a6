"""What one node keeps of topics that it has left, for the next subscription to them; bounded, however many they were.

Of the topics left last it is kept one by one. What was kept of those left before is merged into one: counters of a
node ascend over all topics, so the largest covers every topic. More than is needed only makes a message wait for what
comes anyway, because a joiner is told by each member up to where it has published on the topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from vcubeps.protocol.causality import forget_entries, raise_entries
from vcubeps.protocol.limits import MAX_LEFT_TOPICS
from vcubeps.protocol.messages import Barrier


class Remains(NamedTuple):
    """What is kept of a topic."""

    knowledge: Barrier
    """What the next subscription must come after."""
    gone: int = 0
    """Counter of the last leave, if a crash made somebody send the subscription before it twice: to tell joiners who
    may have seen a stale copy of that; 0 otherwise."""
    is_exact: bool = True
    """Whether it is about this topic alone."""


class LeftTopics:
    """The topics that one node has left.

    Invariants: at most `MAX_LEFT_TOPICS` are kept one by one, and of each there is something to keep.
    """

    __slots__ = ("_merged", "_topics")

    def __init__(self) -> None:
        self._topics: dict[str, Remains] = {}
        """Left longest ago first."""
        self._merged = Remains({})
        """Of all that were left before; exact if there are none."""

    def __len__(self) -> int:
        return len(self._topics)

    def put(self, name: str, knowledge: Barrier, gone: int) -> None:
        """The topic has just been left."""
        if knowledge or gone:
            self._topics[name] = Remains(knowledge, gone)
            if len(self._topics) > MAX_LEFT_TOPICS:
                self._merge(self._topics.pop(next(iter(self._topics))))

    def take(self, name: str) -> Remains:
        """The topic is joined again, or for the first time: what is kept of it is the caller's."""
        remains = self._topics.pop(name, None)
        return (
            remains if remains is not None else self._merged._replace(knowledge=dict(self._merged.knowledge))
        )

    def gone(self, name: str) -> int:
        """As `Remains.gone`."""
        return self._topics.get(name, self._merged).gone

    def forget(self, over: Mapping[int, int]) -> None:
        """These crashes are over."""
        for name, remains in [*self._topics.items(), ("", self._merged)]:
            forget_entries(remains.knowledge, over)
            if name and not remains.knowledge and not remains.gone:
                del self._topics[name]

    def check(self) -> None:
        """As `LocalNode.check`."""
        assert len(self._topics) <= MAX_LEFT_TOPICS, "keeps more of left topics than it may"
        assert all(remains.knowledge or remains.gone for remains in self._topics.values()), (
            "keeps nothing of a topic"
        )

    def _merge(self, remains: Remains) -> None:
        raise_entries(self._merged.knowledge, remains.knowledge)
        self._merged = Remains(self._merged.knowledge, max(self._merged.gone, remains.gone), is_exact=False)
