"""Nothing is delivered that was not published, none twice, and none altered."""

from __future__ import annotations

from vcubeps.protocol.outputs import Accepted, Deliver, Started
from vcubeps.sim.explore.checkers.base import Checker, InputHandlers, Ledger, OutputHandlers


class Integrity(Checker):
    name = "integrity"
    promise = "what is delivered was published, once, and is unaltered"

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._offered: dict[tuple[int, str], bytes] = {}
        self._accepted: dict[tuple[int, str, int], bytes] = {}

    def outputs(self) -> OutputHandlers:
        return {Accepted: self._on_accepted, Started: self._on_started, Deliver: self._on_deliver}

    def inputs(self) -> InputHandlers:
        return {"publish": self._on_publish}

    def _on_publish(self, time: int, node: int, incarnation: int, topic: str, payload: bytes) -> None:
        self._offered[node, topic] = payload

    def _on_accepted(self, time: int, node: int, incarnation: int, output: Accepted) -> None:
        payload = self._offered.pop((node, output.topic), None)
        if payload is None:
            self.report(
                time, node, f"{output.topic}: accepted ⟨{node}, {output.counter}⟩, which nobody offered"
            )
        else:
            self._accepted[node, output.topic, output.counter] = payload

    def _on_started(self, time: int, node: int, incarnation: int, output: Started) -> None:
        for counter, payload in output.items:
            accepted = self._accepted.pop((node, output.topic, counter), None)
            if accepted != payload:
                known = "never accepted" if accepted is None else f"accepted with payload {accepted!r}"
                self.report(
                    time, node, f"{output.topic}: started ⟨{node}, {counter}⟩ with {payload!r}, {known}"
                )

    def _on_deliver(self, time: int, node: int, incarnation: int, output: Deliver) -> None:
        facts = self.ledger.topic(output.topic)
        delivered = facts.delivered.get(node, 0)
        for counter, payload in output.items:
            publication = facts.by_id.get((output.source, counter))
            name = f"{output.topic}: delivered ⟨{output.source}, {counter}⟩"
            if publication is None:
                self.report(time, node, f"{name}, which was never published")
                continue
            if publication.payload != payload:
                self.report(time, node, f"{name} with {payload!r} instead of {publication.payload!r}")
            if output.source == node and publication.incarnation != incarnation:
                self.report(time, node, f"{name}, which an earlier incarnation published")
            if delivered & publication.bit:
                self.report(time, node, f"{name} twice")
            delivered |= publication.bit
        facts.delivered[node] = delivered
