"""What was acknowledged is delivered by every member that was subscribed when it was started, and stays.

It holds whether or not the source lives on, and under suspicion too: whoever has not received a publication when it is
acknowledged has been declared dead by a quorum, and so has to start again.

Nothing is asked of a member that had just given up the source: where its crash is final, nothing of it is taken in
any more. Its publications may still be acknowledged for a while, by others who were declared dead like itself;
`declared_dead` says for how long, and why.
"""

from __future__ import annotations

from vcubeps.protocol.outputs import Acknowledged, Restarted, Started
from vcubeps.sim.explore.checkers.base import (
    Checker,
    InputHandlers,
    Ledger,
    OutputHandlers,
    StandingLike,
    WorldAtEnd,
    note_final,
)


class AcknowledgedArrives(Checker):
    name = "acknowledged"
    promise = (
        "what was acknowledged is delivered by every member that stays and had not just given up its source"
    )

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._acknowledged: dict[tuple[int, int, str], int] = {}
        """(node, incarnation, topic) → counter of its last publication that was acknowledged."""
        self._final: dict[int, dict[int, tuple[int, int]]] = {}
        """Node → node → newest incarnation whose crash is final there, and since when."""
        self._given_up: dict[tuple[int, int], int] = {}
        """Publication ⟨source, counter⟩ → bits of the nodes that had just given up its source when it was started."""

    def outputs(self) -> OutputHandlers:
        if not self.ledger.voters:
            return {}
        return {
            Started: self._on_started,
            Acknowledged: self._on_acknowledged,
            Restarted: self._on_restarted,
        }

    def inputs(self) -> InputHandlers:
        return {"standing": self._on_standing, "crash": self._forget}

    def _on_standing(self, time: int, node: int, incarnation: int, standing: StandingLike) -> None:
        note_final(self._final.setdefault(node, {}), time, standing.final)

    def _on_started(self, time: int, node: int, incarnation: int, output: Started) -> None:
        without = 0
        for other, final in self._final.items():
            newest, since = final.get(node, (-1, 0))
            if newest >= incarnation and time <= since + self.ledger.contact:
                without |= 1 << other
        if without:
            self._given_up.update({(node, counter): without for counter, _ in output.items})

    def _on_acknowledged(self, time: int, node: int, incarnation: int, output: Acknowledged) -> None:
        self._acknowledged[node, incarnation, output.topic] = output.counter

    def _on_restarted(self, time: int, node: int, incarnation: int, output: Restarted) -> None:
        self._forget(time, node, incarnation)

    def _forget(self, time: int, node: int, incarnation: int) -> None:
        self._final.pop(node, None)

    def at_end(self, world: WorldAtEnd) -> None:
        for topic, facts in self.ledger.topics.items():
            for publication in facts.publications:
                source = publication.source, publication.incarnation, topic
                if publication.counter > self._acknowledged.get(source, -1):
                    continue
                without = self._given_up.get((publication.source, publication.counter), 0)
                for node in facts.stable_subscribers(publication):
                    if not (facts.delivered.get(node, 0) & publication.bit or without >> node & 1):
                        self.report(
                            world.time,
                            node,
                            f"{topic}: never delivered {publication}, which was acknowledged",
                        )
