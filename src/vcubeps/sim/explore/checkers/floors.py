"""What a subscription says will not come does not: it begins after its floors."""

from __future__ import annotations

from vcubeps.protocol.messages import Barrier
from vcubeps.protocol.outputs import Deliver, Subscribed
from vcubeps.sim.explore.checkers.base import Checker, OutputHandlers


class Floors(Checker):
    name = "floors"
    promise = "nothing is delivered that a subscription has said would not come"

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._floors: dict[tuple[str, int], Barrier] = {}
        """Of the last subscription of a node to a topic."""

    def outputs(self) -> OutputHandlers:
        return {Subscribed: self._on_subscribed, Deliver: self._on_deliver}

    def _on_subscribed(self, time: int, node: int, incarnation: int, output: Subscribed) -> None:
        self._floors[output.topic, node] = output.floors

    def _on_deliver(self, time: int, node: int, incarnation: int, output: Deliver) -> None:
        floor = self._floors.get((output.topic, node), {}).get(output.source, 0)
        if output.batch.first <= floor:
            self.report(
                time,
                node,
                f"{output.topic}: delivered ⟨{output.source}, {output.batch.first}⟩, and ⟨{output.source}, {floor}⟩ "
                "was not to come, nor anything before it",
            )
