"""What each machine's disk says of its node's incarnations: at once, soon, late, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from vcubeps.sim.explore.nodes.agenda import Agenda
from vcubeps.sim.explore.nodes.process import Process
from vcubeps.sim.explore.nodes.setup import Setup
from vcubeps.sim.explore.nodes.streams import Streams

_SLOW_S = 2.0


class Disks:
    def __init__(
        self, setup: Setup, agenda: Agenda, streams: Streams, has_fault: Callable[[str, int], bool]
    ) -> None:
        self._last = dict.fromkeys(setup.nodes, -1)
        """Node → newest incarnation that is stored."""
        self._is_instant = setup.has_instant_disk
        self._agenda = agenda
        self._streams = streams
        self._has_fault = has_fault

    def next(self, node: int) -> int:
        """The incarnation to start as, stored before anything is done."""
        self._last[node] += 1
        return self._last[node]

    def used_before(self, node: int, behind: int) -> int | None:
        """The incarnation that a node would start as if the disk were as it was `behind` incarnations ago; None if it
        has never run."""
        return max(0, self._last[node] + 1 - behind) if self._last[node] >= 0 else None

    def store(self, process: Process, incarnation: int) -> None:
        is_slow = self._has_fault("slow-disk", process.node)
        if self._is_instant and not is_slow:
            self._stored(process, incarnation)
        else:
            delay_s = self._streams.delay_s() + (_SLOW_S if is_slow else 0.0)
            stored = partial(self._stored, process, incarnation)
            self._agenda.after(delay_s, process.when_it_runs, stored)

    def _stored(self, process: Process, incarnation: int) -> None:
        if not process.is_alive:
            return
        if self._has_fault("disk-failure", process.node):
            process.store_failed()
        else:
            # One with an older disk writes to that one: the right disk stays as it is.
            self._last[process.node] = max(incarnation, self._last[process.node])
            process.stored()
