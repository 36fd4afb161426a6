"""What a schedule consists of: operations in virtual time, and the notation for cuts of the network."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

TOPICS = ("a", "b", "c")

USUAL_DELAY = 100
"""Longest usual delay of a message, in ticks."""

SLOW_FACTOR_MAX = 40
"""A slow message of a heavy-tailed link takes at most this many times its usual delay."""

_LASTING = frozenset({"cut", "lose-probes", "pause"})
"""Kinds of operations whose `other` says for how long."""


class Operation(NamedTuple):
    """Something that happens at `time` at `node`."""

    time: int
    kind: str
    """subscribe, unsubscribe, publish, arrive, depart, crash, crash-relay, crash-silenced, stop, recover, recover-any,
    reboot, restart, suspect, report-stale, linger, cut, lose-probes or pause."""
    node: int
    topic: str = ""
    """cut, lose-probes: who is kept apart, as `severed` reads them."""
    other: int = 0
    """publish: how many at once; suspect: the node that `node` takes for crashed; report-stale: the node of whose
    last crash it is told; crash-relay: ticks after which a node that gets its copies has crashed too; cut,
    lose-probes, pause: ticks until it is over."""

    @property
    def ends(self) -> int:
        """When it is over: a cut when it is healed."""
        return self.time + self.other if self.kind in _LASTING else self.time

    def __str__(self) -> str:
        match self.kind:
            case "publish":
                what = f"publish {self.topic}" + (f" ×{self.other}" if self.other > 1 else "")
            case "suspect":
                what = f"suspect {self.other}"
            case "arrive":
                what = "comes through seeds"
            case "depart":
                what = "leaves for good"
            case "report-stale":
                what = f"is told that the previous incarnation of {self.other} crashed"
            case "cut":
                return f"t={self.time} the network is cut for {self.other} ticks: {self.topic}"
            case "lose-probes":
                return f"t={self.time} probes get lost for {self.other} ticks: {self.topic}"
            case "pause":
                what = f"is stopped for {self.other} ticks"
            case "restart":
                what = "is told to start again"
            case "linger":
                what = (
                    "the next copy of a SUB or UNS that has passed two relays comes late; the first may crash"
                )
            case "stop":
                what = "says goodbye and stops"
            case "crash-silenced":
                what = "crash, and nothing it sent when it suspected last arrives"
            case "crash-relay":
                what = f"crash, and within {self.other} ticks a node that gets its copies"
            case _:
                what = f"{self.kind} {self.topic}".rstrip()
        return f"t={self.time} node {self.node}: {what}"


def severed(text: str) -> frozenset[tuple[int, int]]:
    """Pairs of nodes that a cut keeps apart: islands as 0 3|1, single pairs as 0/1 2/5, both in both orders;
    0>1 is what 0 sends to 1 alone.

    >>> sorted(severed("0 3|1"))
    [(0, 1), (1, 0), (1, 3), (3, 1)]
    >>> sorted(severed("0/1 2/5"))
    [(0, 1), (1, 0), (2, 5), (5, 2)]
    >>> sorted(severed("0>1 2>5"))
    [(0, 1), (2, 5)]
    """
    if "|" in text:
        islands = [[int(node) for node in island.split()] for island in text.split("|")]
        pairs = [(x, y) for one, other in combinations(islands, 2) for x in one for y in other]
    elif ">" in text:
        return frozenset((int(x), int(y)) for x, y in (pair.split(">") for pair in text.split()))
    else:
        pairs = [(int(x), int(y)) for x, y in (pair.split("/") for pair in text.split())]
    return frozenset(pairs) | frozenset((y, x) for x, y in pairs)
