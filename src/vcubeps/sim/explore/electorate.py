"""The part of the simulated world that there is only where voters decide: cuts that add up, pauses, probes.

It also tells the checkers whom each node holds dead, after every input that changes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from vcubeps.protocol.outputs import Arrived, Departed, Output, Up
from vcubeps.sim.explore.checkers import Monitor
from vcubeps.sim.explore.detector import Lives
from vcubeps.sim.explore.peers import PeerLike
from vcubeps.sim.explore.probes import ROUND_TRIP, Driver, Probes
from vcubeps.sim.explore.reach import Pairs
from vcubeps.sim.explore.voting import Voting


class World(Driver, Protocol):
    """What the electorate makes the world do."""

    def reroute(self, severed: Pairs) -> None: ...
    def recover(self, node: int) -> None: ...
    def again(self, event: tuple[Any, ...]) -> None: ...


class Electorate:
    def __init__(
        self, seed: int, voting: Voting, nodes: tuple[int, ...], lives: Lives, world: World, monitor: Monitor
    ) -> None:
        self._voting = voting
        self._lives = lives
        self._world = world
        self._monitor = monitor
        self.probes = Probes(seed, voting, nodes, lives, world)
        self._kept: dict[int, list[tuple[Any, ...]]] = {}
        """Paused node → what has arrived there meanwhile."""
        self._marks: dict[int, tuple[object, object]] = {}

    # -- faults ----------------------------------------------------------------------------------

    def cut(self, pairs: Pairs, ticks: int) -> None:
        self._for_a_while(self.probes.reach.cuts, pairs, ticks)

    def lose_probes(self, pairs: Pairs, ticks: int) -> None:
        self._for_a_while(self.probes.reach.lost_probes, pairs, ticks)

    def _for_a_while(self, active: list[Pairs], pairs: Pairs, ticks: int) -> None:
        def heal() -> None:
            active.remove(pairs)
            self._changed(self.probes.changed)

        active.append(pairs)
        self._changed(self.probes.changed)
        self._world.after(ticks, heal)

    def pause(self, node: int, ticks: int) -> None:
        if node not in self._lives.peers or node in self._kept:
            return
        kept = self._kept[node] = []
        self._changed(lambda: self.probes.stop(node))

        def go_on() -> None:
            if self._kept.get(node) is not kept:
                return  # it has crashed meanwhile
            del self._kept[node]
            self._changed(lambda: self.probes.go_on(node))
            for event in kept:
                self._world.again(event)

        self._world.after(ticks, go_on)

    def is_paused(self, node: int) -> bool:
        return node in self._kept

    def keep(self, node: int, event: tuple[Any, ...]) -> None:
        self._kept[node].append(event)

    def _changed(self, change: Callable[[], None]) -> None:
        """Messages go where the probes go."""
        before = self.probes.reach.severed
        change()
        if self.probes.reach.severed != before:
            self._world.reroute(self.probes.reach.severed)

    # -- lives -----------------------------------------------------------------------------------

    def crashed(self, node: int) -> None:
        self._kept.pop(node, None)
        self._marks.pop(node, None)
        self._changed(lambda: self.probes.crashed(node))

    def started(self, node: int) -> None:
        self._changed(lambda: self.probes.started(node))
        self.noted(node, ())

    def noted(self, node: int, outputs: Sequence[Output]) -> None:
        """`node` has had an input: tell the probes and the checkers whom it holds dead, if that has changed."""
        peer = self._lives.peers[node]
        incarnation = self._lives.incarnation[node]
        if peer.incarnation != incarnation:
            return  # it starts again, and these outputs are still the old incarnation's
        mark, last = peer.standing_mark(), self._marks.get(node)
        if last is None or mark[0] is not last[0] or mark[1] != last[1]:
            self._marks[node] = mark
            self.probes.noted(node)
            self._monitor.on_input("standing", self._world.time, node, incarnation, peer.standing())
        if any(type(output) is Up for output in outputs):
            living = _living_when_up(peer, outputs) | {node}
            self._monitor.on_input("up", self._world.time, node, incarnation, living)

    # -- rest ------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Nothing moves any more: bring nodes back until a quorum lives, and let time pass for the silent ones."""
        for node in [voter for voter in self._voting.voters if voter in self._lives.down]:
            if not self.probes.has_quorum():
                self._world.recover(node)
        for node in list(self._lives.peers):
            self._world.after(
                self._voting.suspicion + ROUND_TRIP,
                lambda x=node: self.probes.check(x),  # type: ignore[misc]
            )


def _living_when_up(peer: PeerLike, outputs: Sequence[Output]) -> frozenset[int]:
    """With whom a node has gone up: those present now, but for what has changed in the same input since."""
    living = set(peer.present)
    for output in reversed(outputs):
        if type(output) is Up:
            break
        if type(output) is Departed:
            living.add(output.node)
        elif type(output) is Arrived:
            living.discard(output.node)
    return frozenset(living)
