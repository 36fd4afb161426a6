"""What a crash destroys of the messages under way: any part of them, or the part that an aimed fault names."""

from __future__ import annotations

from collections.abc import Iterable

from vcubeps.mixing import mix

_LOSS_OF_256 = (0, 64, 128, 256)
"""How many of 256 messages under way a crash destroys; one of these per crash."""


class Losses:
    def __init__(self, seed: int, nodes: Iterable[int]) -> None:
        self._seed = seed
        self._loss = dict.fromkeys(nodes, 0)
        """Crashed node → how many of 256 of its messages are lost."""
        self._spared: dict[int, int] = {}
        """Crashed node → the node to which nothing that it had sent is lost."""
        self._silenced: dict[int, int] = {}
        """Crashed node → number of a message; nothing that it sent up to there survives."""

    def crashed(self, node: int, crashes: int, loss_of_256: int | None) -> None:
        """For the so-manieth time; None: how much is lost is a matter of chance."""
        self._spared.pop(node, None)
        self._silenced.pop(node, None)
        if loss_of_256 is None:
            loss_of_256 = _LOSS_OF_256[mix(self._seed, 4, node, crashes) & 3]
        self._loss[node] = loss_of_256

    def spare(self, node: int, destination: int) -> None:
        """What `node`, which has just crashed, had sent to `destination` arrives."""
        self._spared[node] = destination

    def silence(self, node: int, number: int) -> None:
        """Nothing that `node`, which has just crashed, had sent up to this message arrives."""
        self._silenced[node] = number

    def is_lost(self, sender: int, destination: int, number: int, luck: int) -> bool:
        """Whether a message that was under way when its sender crashed is among the lost ones."""
        if self._spared.get(sender) == destination:
            return False
        return luck < self._loss[sender] or number <= self._silenced.get(sender, 0)
