"""A crash becomes final, and a node goes up, only where the nodes that are not dead are a quorum of the voters."""

from __future__ import annotations

from vcubeps.protocol.outputs import Restarted
from vcubeps.sim.explore.checkers.base import Checker, InputHandlers, Ledger, OutputHandlers, StandingLike


class Quorum(Checker):
    name = "quorum"
    promise = "crashes become final, and nodes go up, only with a quorum of the voters"

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._standing: dict[int, StandingLike] = {}

    def outputs(self) -> OutputHandlers:
        return {Restarted: self._on_restarted}

    def inputs(self) -> InputHandlers:
        return {"standing": self._on_standing, "up": self._on_up, "crash": self._forget}

    def _on_standing(self, time: int, node: int, incarnation: int, standing: StandingLike) -> None:
        before = self._standing.get(node)
        self._standing[node] = standing
        if standing.final != (before.final if before is not None else {}):
            # One input may tell of further crashes after it has made some final.
            self._judge(time, node, "made crashes final", standing.survivors)

    def _on_up(self, time: int, node: int, incarnation: int, living: frozenset[int]) -> None:
        self._judge(time, node, "went up", living)

    def _judge(self, time: int, node: int, what: str, living: frozenset[int]) -> None:
        voters = self.ledger.voters
        present = [voter for voter in voters if voter in living]
        if 2 * len(present) < len(voters) or (2 * len(present) == len(voters) and min(voters) not in present):
            self.report(time, node, f"{what} with only {present} of the voters {list(voters)}")

    def _on_restarted(self, time: int, node: int, incarnation: int, output: Restarted) -> None:
        self._forget(time, node, incarnation)

    def _forget(self, time: int, node: int, incarnation: int) -> None:
        self._standing.pop(node, None)
