"""How long publications wait to be acknowledged at nodes that the faults of a schedule leave with a quorum.

They may have to wait until it is found out who does not answer, and by what way those can be reached that do. They
never have to wait until a cut is over.
"""

from __future__ import annotations

from collections import deque

from vcubeps.node.settings import Detection
from vcubeps.protocol.outputs import Accepted, Acknowledged

_FLUSH_S = 0.25
"""Until a crash that has been found out is final, or a relay speaks."""


class Progress:
    def __init__(self, nodes: frozenset[int], detection: Detection, cuts: int) -> None:
        """Each of the `cuts` may have to be found out; the limit of suspicion adapts to what round trips take."""
        self._nodes = nodes
        self._limit_s = 1.5 * cuts * detection.suspect_after_s + _FLUSH_S
        self._waiting: dict[tuple[int, str], deque[tuple[int, float]]] = {}
        """(node, topic) → counter of each publication that is not acknowledged, and when it was accepted."""

    def accepted(self, now_s: float, node: int, what: Accepted) -> None:
        if node in self._nodes:
            self._waiting.setdefault((node, what.topic), deque()).append((what.counter, now_s))

    def acknowledged(self, now_s: float, node: int, what: Acknowledged) -> float | None:
        """How long the oldest of them has waited, if that is too long."""
        waiting = self._waiting.get((node, what.topic))
        since_s = now_s
        while waiting and waiting[0][0] <= what.counter:
            since_s = min(since_s, waiting.popleft()[1])
        return now_s - since_s if now_s - since_s > self._limit_s else None
