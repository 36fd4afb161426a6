"""What is wrong for a while: cuts of the network, and faults of one node that last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from vcubeps.sim.explore.nodes.agenda import Agenda
from vcubeps.sim.explore.nodes.schedule import Operation
from vcubeps.sim.explore.nodes.streams import Streams
from vcubeps.sim.explore.operations import severed


class Conditions:
    def __init__(self, agenda: Agenda, streams: Streams, over: Callable[[Operation], None]) -> None:
        """`over` is called with what is over."""
        self._agenda = agenda
        self._streams = streams
        self._tell_over = over
        self._cuts: list[frozenset[tuple[int, int]]] = []
        self._active: Counter[tuple[str, int]] = Counter()
        """(fault, node) → how many of it are in force."""

    @property
    def is_cut(self) -> bool:
        return bool(self._cuts)

    def has_fault(self, kind: str, node: int) -> bool:
        return self._active[kind, node] > 0

    def begin(self, operation: Operation) -> None:
        """It lasts for its `for_s`."""
        if operation.kind == "cut":
            self._cuts.append(severed(operation.text))
            self._rewire()
        else:
            self._active[operation.kind, operation.node] += 1
            if operation.kind == "narrow":
                self._streams.narrow.add(operation.node)
        self._agenda.after(operation.for_s, self._end, operation)

    def _end(self, operation: Operation) -> None:
        kind, node = operation.kind, operation.node
        if kind == "cut":
            self._cuts.remove(severed(operation.text))
            self._rewire()
        else:
            self._active[kind, node] -= 1
            if kind == "narrow" and not self._active[kind, node]:
                self._streams.narrow.discard(node)
        self._tell_over(operation)

    def _rewire(self) -> None:
        self._streams.severed = frozenset().union(*self._cuts)
        self._streams.changed()
