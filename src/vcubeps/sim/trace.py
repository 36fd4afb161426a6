"""What happened in a run, event by event: the rows that the trace tables hold.

The same rows whoever wrote them: reference simulation, kernel, or a live node.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Publication(NamedTuple):
    """⟨source, counter⟩ identifies it."""

    topic: int
    source: int
    counter: int
    published_ut: int
    """When the application asked for it."""
    started_ut: int
    """When its broadcast began."""
    barrier: tuple[tuple[int, int], ...]
    """(source, counter) of what it comes after, ascending."""
    acknowledged_ut: int = -1
    """When the last acknowledgement reached the source; −1: not known. Known in every run of VCube-PS in which
    memberships change: only there does it say from whom a reception could be expected."""


class Arrival(NamedTuple):
    """A reception or a delivery."""

    time_ut: int
    node: int
    topic: int
    source: int
    counter: int


class Change(NamedTuple):
    """A subscription that took effect, or a leave that has become known to all."""

    time_ut: int
    node: int
    topic: int
    joins: bool
    asked_ut: int
    """When the application asked for it."""


@dataclass(slots=True)
class Trace:
    """All rows of one run, each list in the order of events."""

    publications: list[Publication] = field(default_factory=list)
    receptions: list[Arrival] = field(default_factory=list)
    """At members other than the source."""
    deliveries: list[Arrival] = field(default_factory=list)
    """The source's own included."""
    membership: list[Change] = field(default_factory=list)
