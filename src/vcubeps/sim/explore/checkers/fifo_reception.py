"""A node receives the publications of one source on one topic in the order of their counters."""

from __future__ import annotations

from vcubeps.protocol.outputs import Received, Restarted
from vcubeps.sim.explore.checkers.base import Checker, InputHandlers, Ledger, OutputHandlers


class FifoReception(Checker):
    name = "fifo_reception"
    promise = "a source's publications are received in their order"

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._last: dict[int, dict[tuple[str, int], int]] = {}

    def outputs(self) -> OutputHandlers:
        return {Received: self._on_received, Restarted: self._on_restarted}

    def inputs(self) -> InputHandlers:
        return {"crash": self._forget}

    def _on_received(self, time: int, node: int, incarnation: int, output: Received) -> None:
        heard = self._last.setdefault(node, {})
        link = (output.topic, output.source)
        last = heard.get(link, -1)
        for counter in output.counters:
            if counter <= last:
                self.report(
                    time,
                    node,
                    f"{output.topic}: received ⟨{output.source}, {counter}⟩ after ⟨{output.source}, {last}⟩",
                )
            last = counter
        heard[link] = last

    def _on_restarted(self, time: int, node: int, incarnation: int, output: Restarted) -> None:
        self._forget(time, node, incarnation)

    def _forget(self, time: int, node: int, incarnation: int) -> None:
        self._last.pop(node, None)
