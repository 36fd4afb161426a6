"""Which nodes decide when the network is cut: of any two groups of nodes that are apart at most one is a quorum."""

from __future__ import annotations

from collections.abc import Container, Iterable

from vcubeps.protocol.errors import UsageError


class Voters:
    """A configured set of nodes. Nobody else counts, and nobody stops counting because it is down.

    A quorum is more than half of them, or exactly half if the smallest is among these.

    >>> four = Voters([0, 1, 2, 3])
    >>> four.is_quorum({0, 2}), four.is_quorum({1, 2}), four.is_quorum({1, 2, 3})
    (True, False, True)
    """

    __slots__ = ("_nodes", "_smallest")

    def __init__(self, nodes: Iterable[int]) -> None:
        self._nodes = frozenset(nodes)
        if not self._nodes:
            raise UsageError("without voters there is no quorum: name some nodes, or give none at all")
        self._smallest = min(self._nodes)

    def __contains__(self, node: int) -> bool:
        return node in self._nodes

    def is_quorum(self, nodes: Container[int]) -> bool:
        present = sum(voter in nodes for voter in self._nodes)
        return 2 * present > len(self._nodes) or (2 * present == len(self._nodes) and self._smallest in nodes)
