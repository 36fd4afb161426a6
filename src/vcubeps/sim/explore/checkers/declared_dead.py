"""What a node starts after a quorum has declared it dead takes no effect, once its contact has run out.

Nobody can stop a node that has not been told: a topic may have no member but itself, and then its publication is
acknowledged as soon as it is made. What stops it is isolation. The voters that have declared it dead refuse it from
then on, and every quorum has one of them: its contact with a quorum ends within `Voting.contact`. So a publication
that it starts later than that is never acknowledged, and a subscription that it asks for later never in effect, as long
as an incarnation lives at which its crash is final.

Within that time it may happen, and only if somebody has suspected a node that others were in contact with.
"""

from __future__ import annotations

from vcubeps.protocol.outputs import Acknowledged, Restarted, Started, Subscribed
from vcubeps.sim.explore.checkers.base import (
    Checker,
    InputHandlers,
    Ledger,
    OutputHandlers,
    StandingLike,
    note_final,
)


class DeclaredDead(Checker):
    name = "declared_dead"
    promise = (
        "what a node starts after a quorum has declared it dead, and its contact has run out, takes no effect"
    )

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._final: dict[int, dict[int, tuple[int, int]]] = {}
        """Node that lives → node → newest incarnation whose crash is final there, and since when."""
        self._late: set[tuple[int, int, str]] = set()
        """(node, counter, topic) of publications that were started too late."""
        self._late_joins: set[tuple[int, int, str]] = set()
        """(node, incarnation, topic) of subscriptions that were asked for too late."""

    def outputs(self) -> OutputHandlers:
        return {
            Started: self._on_started,
            Acknowledged: self._on_acknowledged,
            Subscribed: self._on_subscribed,
            Restarted: self._on_restarted,
        }

    def inputs(self) -> InputHandlers:
        return {"standing": self._on_standing, "subscribe": self._on_subscribe, "crash": self._forget}

    def _on_standing(self, time: int, node: int, incarnation: int, standing: StandingLike) -> None:
        note_final(self._final.setdefault(node, {}), time, standing.final)

    def _is_late(self, time: int, node: int, incarnation: int) -> bool:
        return any(
            incarnation <= final[node][0] and final[node][1] + self.ledger.contact < time
            for final in self._final.values()
            if node in final
        )

    def _on_started(self, time: int, node: int, incarnation: int, output: Started) -> None:
        if self._is_late(time, node, incarnation):
            self._late.update((node, counter, output.topic) for counter, _ in output.items)

    def _on_acknowledged(self, time: int, node: int, incarnation: int, output: Acknowledged) -> None:
        if (node, output.counter, output.topic) in self._late:
            self.report(
                time,
                node,
                f"{output.topic}: ⟨{node}, {output.counter}⟩ was acknowledged, though it was started long after the "
                f"crash of its source had become final",
            )

    def _on_subscribe(self, time: int, node: int, incarnation: int, topic: str) -> None:
        if self._is_late(time, node, incarnation):
            self._late_joins.add((node, incarnation, topic))

    def _on_subscribed(self, time: int, node: int, incarnation: int, output: Subscribed) -> None:
        if (node, incarnation, output.topic) in self._late_joins:
            self.report(
                time,
                node,
                f"{output.topic}: subscribed, though its crash had become final long before it asked",
            )

    def _on_restarted(self, time: int, node: int, incarnation: int, output: Restarted) -> None:
        self._forget(time, node, incarnation)

    def _forget(self, time: int, node: int, incarnation: int) -> None:
        self._final.pop(node, None)
