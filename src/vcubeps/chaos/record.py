"""What was written down of a chaos run: enough to judge it again. Data only."""

from __future__ import annotations

from pathlib import Path

import msgspec

from vcubeps.chaos.plan import Fault

FILE = "timeline.json"
TRACE, LOGS, STATE, NODES = "trace", "logs", "state", "nodes"
"""Folders beside it."""


class Options(msgspec.Struct, frozen=True):
    """What determines the plan, and the load."""

    seed: int
    nodes: int
    seconds: float
    per_minute: float
    kinds: tuple[str, ...]
    publications_per_s: float


class Done(msgspec.Struct):
    """A fault that was carried out. Times are seconds since all nodes were up."""

    fault: Fault
    begin_s: float
    end_s: float | None = None
    """None: it was not healed, since the run ended."""


class Crash(msgspec.Struct, frozen=True):
    """A node took another one for crashed."""

    at_s: float
    by: int
    node: int
    incarnation: int
    evidence: str


class Restart(msgspec.Struct, frozen=True):
    """A node went on as a new incarnation, in the same process."""

    at_s: float
    node: int
    incarnation: int
    reason: str

    def __str__(self) -> str:
        return f"{self.at_s:8.1f} s      node {self.node} starts again as incarnation {self.incarnation}: {self.reason}"


class Problem(msgspec.Struct, frozen=True):
    """Something that must not happen, seen as it happened."""

    kind: str
    text: str


class Record(msgspec.Struct):
    """The whole run."""

    options: Options
    plan: list[Fault]
    done: list[Done] = []
    pulses: dict[int, list[tuple[float, float]]] = {}
    """Node → of each of its publications to all: when it was published, and acknowledged; in this order."""
    ups: dict[int, list[float]] = {}
    """Node → when each of its processes was let in."""
    crashes: list[Crash] = []
    restarts: list[Restart] = []
    problems: list[Problem] = []
    settled_s: float | None = None
    """When all nodes were there again after the last fault."""
    last_healed_s: float = 0.0
    ended_s: float = 0.0
    unknown: int = 0
    """Publications whose acknowledgement will never be known."""
    isolated: int = 0
    """Calls that were refused because the node was isolated."""
    published: int = 0
    delivered: int = 0
    """As the applications that lived at the end counted."""
    was_interrupted: bool = False

    def write(self, directory: Path) -> None:
        (directory / FILE).write_bytes(msgspec.json.encode(self))


def read(directory: Path) -> Record:
    """Raises OSError or msgspec.MsgspecError if there is none."""
    return msgspec.json.decode((directory / FILE).read_bytes(), type=Record)
