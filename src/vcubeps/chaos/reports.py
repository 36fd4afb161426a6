"""What a node's process tells the conductor, a line of JSON each, and what it is told. Data only.

Times are seconds on the machine's monotonic clock, which all its processes share.
"""

from __future__ import annotations

import msgspec


class Up(msgspec.Struct, frozen=True, tag=True):
    """The node takes part, for the first time in this process."""

    at_s: float
    incarnation: int


class Pulse(msgspec.Struct, frozen=True, tag=True):
    """A publication to all nodes has been acknowledged."""

    published_s: float
    acknowledged_s: float


class Unknown(msgspec.Struct, frozen=True, tag=True):
    """Publications whose acknowledgement will never be known, and calls that raised Isolated."""

    at_s: float
    publications: int
    isolated: int


class Crash(msgspec.Struct, frozen=True, tag=True):
    """This node takes another one for crashed."""

    at_s: float
    node: int
    incarnation: int
    evidence: str


class Life(msgspec.Struct, frozen=True, tag=True):
    """The node is at another stage of its life."""

    at_s: float
    life: str
    incarnation: int
    reason: str


class Wrong(msgspec.Struct, frozen=True, tag=True):
    """The application saw what it must never see."""

    at_s: float
    text: str


class Quiet(msgspec.Struct, frozen=True, tag=True):
    """Nothing is published any more, and all that was is acknowledged, or never will be."""

    at_s: float
    members: tuple[int, ...]
    """Of the topic that all nodes are on, as this one sees it."""
    violations: int
    """Messages that no correct node would send."""
    published: int
    delivered: int


class Closed(msgspec.Struct, frozen=True, tag=True):
    """The node has ended in good order."""

    at_s: float
    unacknowledged: str
    """What it could not get acknowledged, in words; empty: nothing."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The node can do nothing any more."""

    at_s: float
    reason: str


Report = Up | Pulse | Unknown | Crash | Life | Wrong | Quiet | Closed | Failed


class ReadSlowly(msgspec.Struct, frozen=True, tag=True):
    """For so long."""

    for_s: float


class BeQuiet(msgspec.Struct, frozen=True, tag=True):
    """Publish nothing more, and say when all is acknowledged."""


class Close(msgspec.Struct, frozen=True, tag=True):
    """End in good order."""


Command = ReadSlowly | BeQuiet | Close
