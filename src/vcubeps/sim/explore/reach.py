"""Who reaches whom now: the matrix of cuts that last, of probes that get lost, and of nodes that run.

Where nodes relay for each other, two that do not reach each other are joined by any third that reaches both, in both
directions; a relayed message is not relayed again.
"""

from __future__ import annotations

from collections.abc import Iterable

Pairs = frozenset[tuple[int, int]]
"""Of nodes: what the first sends to the second does not arrive."""


class Reach:
    """`cuts` and `lost_probes` may be changed at will; call `renew` afterwards, and when other nodes run."""

    __slots__ = ("_nodes", "_probed", "_relays", "cuts", "lost_probes", "severed")

    def __init__(self, nodes: Iterable[int], relays: bool) -> None:
        self._nodes = tuple(nodes)
        self._relays = relays
        self.cuts: list[Pairs] = []
        self.lost_probes: list[Pairs] = []
        self.severed: Pairs = frozenset()
        """Pairs of nodes of which the first cannot send to the second, by a relay neither."""
        self._probed: dict[int, int] = {}
        """Node → bits of the nodes that answer its probes without a relay."""
        self.renew(self._nodes)

    def renew(self, running: Iterable[int]) -> None:
        """These nodes run: they answer probes, and relay."""
        awake = list(running)
        cut = frozenset[tuple[int, int]]().union(*self.cuts)
        direct = self._round_trips(awake, cut)
        self._probed = self._round_trips(awake, cut.union(*self.lost_probes)) if self.lost_probes else direct
        self.severed = frozenset(
            (x, y) for x, y in cut if not (self._relays and direct.get(x, 0) & direct.get(y, 0))
        )

    @staticmethod
    def _round_trips(awake: list[int], cut: Pairs) -> dict[int, int]:
        everybody = sum(1 << node for node in awake)
        reached = {node: everybody & ~(1 << node) for node in awake}
        for x, y in cut:
            if x in reached and y in reached:
                reached[x] &= ~(1 << y)
                reached[y] &= ~(1 << x)
        return reached

    def answers(self, observer: int, node: int) -> bool:
        """Whether `node` answers a probe of `observer`: both run, and both ways are open."""
        ours, theirs = self._probed.get(observer), self._probed.get(node)
        if ours is None or theirs is None:
            return False
        return bool(ours >> node & 1 or (self._relays and ours & theirs))
