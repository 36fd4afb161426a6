"""No split: of two incarnations that live and hold each other dead, at most one gets on.

Getting on is what others may rely on: a crash becomes final, a subscription takes effect, a publication is
acknowledged. Both may live, believe to be up and deliver what they have received; that lasts until one of them is told.

Why it holds: a crash is final where all who are not dead have flushed it, and they are a quorum. Two quorums share a
voter. It has declared one of the two dead before the other, and has sent no flush to it since. If that voter has
started again in between, its new incarnation counts only where the end of the old one is final, for which another voter
of both quorums has flushed.

An incarnation that has ended does not count. Nor does it count that others got on without one that was not up yet: if
it was declared dead while it booted, it may go up after all when those who did so have crashed and forgotten it. It
had taken part in nothing.
"""

from __future__ import annotations

from vcubeps.protocol.outputs import Acknowledged, Output, Restarted, Subscribed, Up
from vcubeps.sim.explore.checkers.base import Checker, InputHandlers, Ledger, OutputHandlers, StandingLike


class Split(Checker):
    name = "split"
    promise = "of two incarnations that live and hold each other dead, at most one gets on"

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._standing: dict[int, StandingLike] = {}
        self._final_since: dict[int, int] = {}
        """Node → when it last made a crash final."""
        self._without: dict[tuple[int, int], dict[int, int]] = {}
        """Incarnation that has got on → whom it held dead when it did so last, and had been up."""
        self._up: dict[int, int] = {}
        """Node → its newest incarnation that has been up; the first ones are from the start."""

    def outputs(self) -> OutputHandlers:
        return {
            Subscribed: self._on_output,
            Acknowledged: self._on_output,
            Restarted: self._on_restarted,
            Up: self._on_up,
        }

    def inputs(self) -> InputHandlers:
        return {"standing": self._on_standing, "crash": self._forget}

    def _on_standing(self, time: int, node: int, incarnation: int, standing: StandingLike) -> None:
        before = self._standing.get(node)
        self._standing[node] = standing
        if standing.final != (before.final if before is not None else {}):
            self._final_since[node] = time
            self._gets_on(time, node, incarnation, standing.final)

    def _on_output(self, time: int, node: int, incarnation: int, output: Output) -> None:
        standing = self._standing.get(node)
        if standing is not None:
            # One input may tell of further crashes after it has made some final, and so let this happen.
            is_due_to_it = self._final_since.get(node) == time
            self._gets_on(time, node, incarnation, standing.final if is_due_to_it else standing.dead)

    def _gets_on(self, time: int, node: int, incarnation: int, dead: dict[int, int]) -> None:
        without = {other: min(newest, self._up.get(other, 0)) for other, newest in dead.items()}
        if self._without.get((node, incarnation)) == without:
            return
        self._without[node, incarnation] = without
        for other, newest in dead.items():
            for its in range(newest + 1):
                if (other, its) in self.ledger.dead:
                    continue
                if self._without.get((other, its), {}).get(node, -1) >= incarnation:
                    self.report(
                        time,
                        node,
                        f"incarnation {incarnation} gets on without incarnation {its} of node {other}, "
                        f"which has got on without it",
                    )

    def _on_up(self, time: int, node: int, incarnation: int, output: Up) -> None:
        self._up[node] = output.incarnation

    def _on_restarted(self, time: int, node: int, incarnation: int, output: Restarted) -> None:
        self._forget(time, node, incarnation)

    def _forget(self, time: int, node: int, incarnation: int) -> None:
        self._standing.pop(node, None)
        self._final_since.pop(node, None)
