"""Links of the simulated world: how long each message takes, and who cannot reach whom for a while.

A link loses nothing between two that live. What is sent across a cut waits until the cut is healed, as it waits in the
outbox of a real link, and is gone if its sender crashes before. What is sent to a node that has said goodbye is gone
too, until something of its next incarnation arrives: the outbox of a real link takes nothing for it meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from vcubeps.mixing import mix
from vcubeps.protocol.messages import ANY_INCARNATION, AnyMessage, Copy, Publication
from vcubeps.sim.explore.operations import SLOW_FACTOR_MAX, USUAL_DELAY
from vcubeps.sim.explore.options import Options

_MASK = (1 << 64) - 1
_MULTIPLIER = 6364136223846793005
_INCREMENT = 1442695040888963407


class Waiting(NamedTuple):
    """A message that waits for a cut to be healed."""

    source: int
    destination: int
    message: AnyMessage


class Links:
    """All links of one world.

    Invariant: `waiting` holds only messages between nodes that are `severed`.
    """

    __slots__ = (
        "_busy",
        "_fifo",
        "_slow_of_256",
        "_state",
        "cuts",
        "goodbyes",
        "lingering",
        "severed",
        "waiting",
    )

    def __init__(self, seed: int, options: Options) -> None:
        nodes = options.nodes
        self._fifo = options.fifo
        self._slow_of_256 = options.slow_of_256
        # Every link has a generator of its own: its n-th message takes the same time whatever
        # happens on other links.
        self._state = {src: {dst: mix(seed, 2, src, dst) for dst in nodes} for src in nodes}
        self._busy = {src: dict.fromkeys(nodes, 0) for src in nodes}
        self.severed: frozenset[tuple[int, int]] = frozenset()
        """Pairs of nodes of which the first cannot reach the second now."""
        self.cuts = 0
        """How often the network has been cut or healed."""
        self.waiting: list[Waiting] = []
        self.goodbyes: dict[tuple[int, int], int] = {}
        """(node, other) → incarnation as which `other` said goodbye to `node`, to which it has not spoken since."""
        self.lingering: set[int] = set()
        """Nodes to which the next copy of a SUB or UNS that has passed two relays takes as long as any message may."""

    def lingers(self, parent: int, destination: int, message: AnyMessage) -> bool:
        """Whether `message`, caused by one of `parent`, comes very late; the next one does not, until that is said
        again. Never on FIFO links, where all that follows would come late too."""
        if (
            destination not in self.lingering
            or self._fifo
            or parent < 0
            or type(message) is not Copy
            or type(message.broadcast) is Publication
            or parent == message.broadcast.source
        ):
            return False
        self.lingering.discard(destination)
        return True

    def arrival(self, time: int, source: int, destination: int) -> tuple[int, int]:
        """When a message that leaves at `time` arrives, and 8 random bits that go with it."""
        state = self._state[source]
        chance = state[destination] = (state[destination] * _MULTIPLIER + _INCREMENT) & _MASK
        chance >>= 24
        delay = 1 + (chance >> 16) % USUAL_DELAY
        if chance >> 8 & 255 < self._slow_of_256:
            delay *= 5 + chance % (SLOW_FACTOR_MAX - 4)
        arrival = time + delay
        if self._fifo:
            busy = self._busy[source]
            if arrival <= busy[destination]:
                arrival = busy[destination] + 1
            busy[destination] = arrival
        return arrival, chance & 255

    def cut(self, severed: frozenset[tuple[int, int]]) -> list[Waiting]:
        """From now on these pairs cannot reach each other. Returns what has waited and may leave now."""
        self.severed = severed
        self.cuts += 1
        waiting, self.waiting = self.waiting, []
        free: list[Waiting] = []
        for each in waiting:
            (self.waiting if (each.source, each.destination) in severed else free).append(each)
        return free

    def forget(self, source: int) -> None:
        """`source` has crashed, and what it had not got out with it; what it had heard, too."""
        self.waiting = [each for each in self.waiting if each.source != source]
        self.goodbyes = {pair: gone for pair, gone in self.goodbyes.items() if pair[0] != source}

    def say_goodbye(self, node: int, incarnation: int, others: Iterable[int]) -> list[int]:
        """`node` ends in good order. Returns those whom it tells: all that it reaches."""
        told = [other for other in others if other != node and (node, other) not in self.severed]
        for other in told:
            self.goodbyes[other, node] = incarnation
        return told

    def is_dropped(self, source: int, destination: int, message: AnyMessage, known: int) -> bool:
        """Whether `message` is meant for an incarnation that has said goodbye, or for any, and `source` knows of none
        after it; `known` is the newest that it knows."""
        gone = self.goodbyes.get((source, destination), ANY_INCARNATION - 1)
        return message.target <= gone and known <= gone
