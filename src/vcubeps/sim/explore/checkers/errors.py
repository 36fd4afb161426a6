"""No input of a correct world makes a peer raise."""

from __future__ import annotations

from vcubeps.sim.explore.checkers.base import Checker, InputHandlers


class Errors(Checker):
    name = "errors"
    promise = "no peer raises an exception"

    def inputs(self) -> InputHandlers:
        return {"error": self._on_error}

    def _on_error(self, time: int, node: int, incarnation: int, error: Exception) -> None:
        self.report(time, node, f"{type(error).__name__}: {error}")
