"""A cut makes only nodes start again that are not on the side of a quorum.

`vcubeps.sim.explore.winners` says who is, in schedules in which nothing else could make a node start again.
"""

from __future__ import annotations

from vcubeps.protocol.outputs import Restarted
from vcubeps.sim.explore.checkers.base import Checker, OutputHandlers


class Winner(Checker):
    name = "winner"
    promise = "a cut makes no node start again that is on the side of a quorum"

    def outputs(self) -> OutputHandlers:
        return {Restarted: self._on_restarted} if self.ledger.winners else {}

    def _on_restarted(self, time: int, node: int, incarnation: int, output: Restarted) -> None:
        if node in self.ledger.winners:
            self.report(time, node, f"starts again as {output.incarnation}: {output.reason}")
