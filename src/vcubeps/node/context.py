"""What all parts of one node share: who it is, its settings, the time of the input at hand, timers and outputs."""

from __future__ import annotations

from collections.abc import Callable

from vcubeps.mixing import mix64
from vcubeps.node.connection import Connection
from vcubeps.node.outputs import WARNING, AnyOutput, Log, Write
from vcubeps.node.settings import ClusterSettings
from vcubeps.node.timers import Timers


class Context:
    """Invariant: `now_s` does not go back."""

    __slots__ = (
        "_draws", "_seed", "id", "is_dirty", "is_storing", "now_s", "outputs", "settings", "stores", "timers",
        "write_at_once",
    )  # fmt: skip

    def __init__(self, settings: ClusterSettings, node: int, seed: int, now_s: float) -> None:
        self.settings = settings
        self.id = node
        self.now_s = now_s
        """When the input at hand was made, on the shell's clock."""
        self.timers = Timers()
        self.outputs: list[AnyOutput] = []
        self.stores = 0
        """Incarnations among the outputs that have to be stored before what follows."""
        self.is_storing = False
        """The last one that was given out has not been stored yet."""
        self.write_at_once: Callable[[Connection, bytes], None] | None = None
        """If the shell has set it: carries out a `Write` while the input is being handled."""
        self.is_dirty = False
        """Something waits for the end of the turn."""
        self._seed = seed
        self._draws = 0

    def draw(self) -> float:
        """The next of a sequence of numbers in 0…1 that looks random and follows from the node's seed."""
        self._draws += 1
        return mix64(self._seed + self._draws) / (1 << 64)

    def write(self, connection: Connection, data: bytes) -> None:
        """At once, if that is possible: others wait for it, and what remains to be done here need not come first. Not
        before outputs that are to be carried out first."""
        if self.write_at_once is not None and not self.outputs and not self.is_storing:
            self.write_at_once(connection, data)
        else:
            self.outputs.append(Write(connection, data))

    def log(self, level: int, text: str) -> None:
        self.outputs.append(Log(level, f"node {self.id}: {text}"))

    def warn(self, text: str) -> None:
        self.log(WARNING, text)
