"""Causal order per topic, over every chain of publications and across rejoins of a node.

A publication's past is everything that its source had published or delivered before, and the
pasts of those, whether the source delivered them itself or not. A node that has delivered m
must never deliver something of m's past afterwards. A new incarnation knows nothing.
"""

from __future__ import annotations

from vcubeps.protocol.outputs import Deliver, Restarted, Started
from vcubeps.sim.explore.checkers.base import Checker, InputHandlers, Ledger, OutputHandlers, bits


class Causal(Checker):
    name = "causal"
    promise = "nothing is delivered after something that depends on it"

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._past: dict[str, list[int]] = {}
        # Per (topic, node): everything before its next publication, all that the deliveries so
        # far forbid it to deliver, and those deliveries.
        self._history: dict[tuple[str, int], int] = {}
        self._forbidden: dict[tuple[str, int], int] = {}
        self._delivered: dict[tuple[str, int], int] = {}

    def outputs(self) -> OutputHandlers:
        return {Started: self._on_started, Deliver: self._on_deliver, Restarted: self._on_restarted}

    def inputs(self) -> InputHandlers:
        return {"crash": self._forget}

    def _on_started(self, time: int, node: int, incarnation: int, output: Started) -> None:
        past = self._past.setdefault(output.topic, [])
        process = (output.topic, node)
        history = self._history.get(process, 0)
        for _ in output.items:
            bit = 1 << len(past)
            past.append(history)
            history |= bit
        self._history[process] = history

    def _on_deliver(self, time: int, node: int, incarnation: int, output: Deliver) -> None:
        facts = self.ledger.topic(output.topic)
        process = (output.topic, node)
        forbidden = self._forbidden.get(process, 0)
        history = self._history.get(process, 0)
        delivered = self._delivered.get(process, 0)
        for counter, _ in output.items:
            publication = facts.by_id.get((output.source, counter))
            if publication is None:
                continue  # a phantom; integrity reports it
            bit = publication.bit
            if forbidden & bit:
                pasts = self._past[output.topic]
                cause = next(index for index in bits(delivered) if pasts[index] & bit)
                text = f"delivered {publication} after {facts.publications[cause]}, which depends on it"
                self.report(time, node, f"{output.topic}: {text}")
            past = self._past[output.topic][publication.index]
            forbidden |= past
            history |= past | bit
            delivered |= bit
        self._forbidden[process] = forbidden
        self._history[process] = history
        self._delivered[process] = delivered

    def _on_restarted(self, time: int, node: int, incarnation: int, output: Restarted) -> None:
        self._forget(time, node, incarnation)

    def _forget(self, time: int, node: int, incarnation: int) -> None:
        for topic in self._past:
            self._history.pop((topic, node), None)
            self._forbidden.pop((topic, node), None)
            self._delivered.pop((topic, node), None)
