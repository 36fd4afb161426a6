"""What may happen to the nodes of a chaos run: names, meanings, how often. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Kind(NamedTuple):
    """One kind of fault."""

    meaning: str
    weight: int
    """How often it comes in each round of the plan."""


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "kill": Kind("one or two processes are killed (kill -9), and started again", 3),
        "stop": Kind("one or two processes are stopped, and continued (SIGSTOP, SIGCONT)", 3),
        "close": Kind("a node is ended in good order (SIGTERM), and started again", 2),
        "rolling": Kind("some nodes are restarted one after the other, each when the one before is back", 1),
        "isolate": Kind("a node and all others do not reach each other", 2),
        "one-way": Kind("what a node sends does not arrive, at one other node or at all", 2),
        "pair": Kind("two nodes do not reach each other, and all others reach both", 2),
        "halves": Kind("the network is cut in two: the side with a quorum goes on", 1),
        "thirds": Kind("the network is cut in three, and no side has a quorum: nobody goes on", 1),
        "many": Kind("more than half of the processes are killed at once, and started again", 1),
        "reset": Kind("all connections of a node are reset at once", 1),
        "slow": Kind("the application of a node reads slowly", 2),
    }
)
"""Name → what it is."""

CUTS = frozenset({"isolate", "one-way", "pair", "halves", "thirds"})
"""Those that keep nodes apart while all live."""
ALONE = frozenset({"rolling", "halves", "thirds", "many"})
"""Those that nothing else is mixed with: they take a quorum away, or come near it."""
MANNERS = ("silent", "refused")
"""How a cut looks: nothing passes and nobody is told, or connections are reset and new ones refused."""
