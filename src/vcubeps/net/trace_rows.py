"""Rows of a live trace between being collected and being written. Data only."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import repeat
from typing import NamedTuple

from vcubeps.protocol.messages import Barrier


class Broadcast(NamedTuple):
    """A batch of own publications."""

    counters: Sequence[int]
    published_ut: Sequence[int]
    started_ut: int
    barrier: Barrier
    """Of the first; each later one comes after the one before it."""


class Published(NamedTuple):
    topic: int
    broadcast: Broadcast
    acknowledged_ut: int


class Change(NamedTuple):
    topic: int
    time_ut: int
    joins: bool
    asked_ut: int


class Arrivals:
    """Receptions or deliveries, column by column."""

    __slots__ = ("counter", "source", "time_ut", "topic")

    def __init__(self) -> None:
        self.topic, self.source, self.counter, self.time_ut = (array("q") for _ in range(4))

    def add(self, topic: int, source: int, counters: Sequence[int], time_ut: int) -> None:
        count = len(counters)
        self.topic.extend(repeat(topic, count))
        self.source.extend(repeat(source, count))
        self.counter.extend(counters)
        self.time_ut.extend(repeat(time_ut, count))


class Collected:
    """Rows that wait for being written."""

    __slots__ = ("changes", "deliveries", "publications", "receptions", "rows", "topics")

    def __init__(self) -> None:
        self.topics: list[tuple[int, str]] = []
        self.publications: list[Published] = []
        self.receptions = Arrivals()
        self.deliveries = Arrivals()
        self.changes: list[Change] = []
        self.rows = 0
