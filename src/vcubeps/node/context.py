"""What all parts of one node share: who it is, its settings, the time of the input at hand, timers and outputs."""

from __future__ import annotations

from vcubeps.mixing import mix64
from vcubeps.node.outputs import WARNING, AnyOutput, Log
from vcubeps.node.settings import ClusterSettings
from vcubeps.node.timers import Timers


class Context:
    """Invariant: `now_s` does not go back."""

    __slots__ = ("_draws", "_seed", "id", "is_dirty", "now_s", "outputs", "settings", "stores", "timers")

    def __init__(self, settings: ClusterSettings, node: int, seed: int, now_s: float) -> None:
        self.settings = settings
        self.id = node
        self.now_s = now_s
        """When the input at hand was made, on the shell's clock."""
        self.timers = Timers()
        self.outputs: list[AnyOutput] = []
        self.stores = 0
        """Incarnations among the outputs that have to be stored before what follows."""
        self.is_dirty = False
        """Something waits for the end of the turn."""
        self._seed = seed
        self._draws = 0

    def draw(self) -> float:
        """The next of a sequence of numbers in 0…1 that looks random and follows from the node's seed."""
        self._draws += 1
        return mix64(self._seed + self._draws) / (1 << 64)

    def log(self, level: int, text: str) -> None:
        self.outputs.append(Log(level, f"node {self.id}: {text}"))

    def warn(self, text: str) -> None:
        self.log(WARNING, text)
