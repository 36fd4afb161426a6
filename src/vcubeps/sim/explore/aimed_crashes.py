"""Crashes that random moments rarely hit: of a source and the node that had its copies; of an accuser nobody heard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from vcubeps.mixing import mix
from vcubeps.protocol.outputs import Deliver
from vcubeps.sim.explore.losses import Losses
from vcubeps.sim.explore.operations import USUAL_DELAY


class Nodes(Protocol):
    """What aimed crashes need of the world."""

    def after(self, delay: int, callback: Callable[[], object]) -> None: ...
    def crash(self, node: int, loss_of_256: int | None = None) -> bool:
        """Whether it has crashed."""

    def addressees(self, node: int) -> set[int]:
        """Nodes to which something of `node` is under way."""


class AimedCrashes:
    """`publish(node, topic)` makes the application of `node` publish."""

    def __init__(self, seed: int, losses: Losses, nodes: Nodes, publish: Callable[[int, str], None]) -> None:
        self._seed = seed
        self._losses = losses
        self._nodes = nodes
        self._publish = publish
        self._cue: dict[int, int] = {}
        """Node that is to crash soon → the crashed node whose publication it is to answer before."""
        self._accusation: dict[int, int] = {}
        """Node → number of the last message of the world when it was last told a falsehood."""

    def crashed(self, node: int) -> None:
        self._cue.pop(node, None)

    # -- a source, and a relay -------------------------------------------------------------------

    def with_relay(self, node: int, patience: int) -> None:
        """Crash a source so that of what it sent only the copies to one node survive. That one
        publishes on top of them and crashes too: the others get effects without causes."""
        reached = self._nodes.addressees(node)
        if not self._nodes.crash(node, loss_of_256=256) or not reached:
            return
        # The nearest is a leaf of the tree: it passes the copies on to nobody.
        relay = min(reached, key=lambda destination: destination ^ node)
        self._losses.spare(node, relay)
        self._cue[relay] = node
        self._nodes.after(patience, lambda: self._nodes.crash(relay))

    def on_deliver(self, time: int, node: int, incarnation: int, output: Deliver) -> None:
        if self._cue.get(node) == output.source:
            del self._cue[node]
            chance = mix(self._seed, 8, node, time)
            self._nodes.after(0, lambda: self._publish(node, output.topic))
            # Mostly before it hears of the source's crash and tells the others what it has.
            delay = 1 + chance % (USUAL_DELAY if chance >> 32 & 3 == 0 else 10)
            self._nodes.after(delay, lambda: self._nodes.crash(node, chance >> 34 & 64))

    # -- an accuser ------------------------------------------------------------------------------

    def accuses(self, node: int, number: int) -> None:
        """`node` has just been told a falsehood; `number` is of the last message sent."""
        self._accusation[node] = number

    def silenced(self, node: int) -> None:
        """Crash a node that suspects another falsely so that nobody hears of it from what it sent
        then, while what it did about it afterwards (left the other out) takes effect."""
        if node in self._accusation and self._nodes.crash(node, loss_of_256=0):
            self._losses.silence(node, self._accusation[node])
