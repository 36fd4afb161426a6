"""At rest nothing is left half done.

Every accepted publication of a node that lives was started and acknowledged, every wish to
subscribe or unsubscribe came true, every recovered node came up, nobody is isolated, no peer has
work in progress, and the world came to rest at all.
"""

from __future__ import annotations

from vcubeps.protocol.outputs import Accepted, Acknowledged, Restarted, Started, Unsubscribed
from vcubeps.sim.explore.checkers.base import (
    Checker,
    InputHandlers,
    Ledger,
    OutputHandlers,
    WorldAtEnd,
    bits,
)


class Liveness(Checker):
    name = "liveness"
    promise = "at rest nothing is left half done"

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        # Per (node, topic): counter of the last publication accepted, started, acknowledged.
        self._accepted: dict[tuple[int, str], int] = {}
        self._started: dict[tuple[int, str], int] = {}
        self._acknowledged: dict[tuple[int, str], int] = {}
        self._leaving: set[tuple[int, str]] = set()

    def outputs(self) -> OutputHandlers:
        return {
            Accepted: self._on_accepted,
            Started: self._on_started,
            Acknowledged: self._on_acknowledged,
            Unsubscribed: self._on_unsubscribed,
            Restarted: self._on_restarted,
        }

    def inputs(self) -> InputHandlers:
        return {"unsubscribe": self._on_unsubscribe, "crash": self._forget}

    def _on_accepted(self, time: int, node: int, incarnation: int, output: Accepted) -> None:
        self._accepted[node, output.topic] = output.counter

    def _on_started(self, time: int, node: int, incarnation: int, output: Started) -> None:
        self._started[node, output.topic] = output.items[-1][0]

    def _on_acknowledged(self, time: int, node: int, incarnation: int, output: Acknowledged) -> None:
        self._acknowledged[node, output.topic] = output.counter

    def _on_unsubscribe(self, time: int, node: int, incarnation: int, topic: str) -> None:
        self._leaving.add((node, topic))

    def _on_unsubscribed(self, time: int, node: int, incarnation: int, output: Unsubscribed) -> None:
        self._leaving.discard((node, output.topic))

    def _on_restarted(self, time: int, node: int, incarnation: int, output: Restarted) -> None:
        self._forget(time, node, incarnation)

    def _forget(self, time: int, node: int, incarnation: int) -> None:
        for topic in self.ledger.topics:
            self._accepted.pop((node, topic), None)
            self._leaving.discard((node, topic))

    def at_overrun(self, world: WorldAtEnd) -> None:
        self.report(world.time, min(world.live_peers), "the nodes never stop sending")

    def at_end(self, world: WorldAtEnd) -> None:
        self._check_publications(world.time)
        self._check_subscriptions(world)
        for node, peer in world.live_peers.items():
            if not peer.is_up:
                self.report(world.time, node, f"incarnation {peer.incarnation} never came up")
            if node in world.isolated:
                self.report(world.time, node, "is isolated, though a quorum lives and nothing is cut")
            left = {what: count for what, count in peer.footprint().items() if count}
            if left:
                self.report(world.time, node, f"still at work: {left}")

    def _check_publications(self, time: int) -> None:
        for (node, topic), counter in self._accepted.items():
            if self._acknowledged.get((node, topic), -1) >= counter:
                continue
            begun = self._started.get((node, topic), -1) >= counter
            fate = "started but not acknowledged" if begun else "accepted but not started"
            self.report(time, node, f"{topic}: ⟨{node}, {counter}⟩ was {fate}")

    def _check_subscriptions(self, world: WorldAtEnd) -> None:
        for topic, facts in self.ledger.topics.items():
            for node in bits(facts.wanted & ~facts.subscribed):
                if node in world.live_peers:
                    self.report(world.time, node, f"{topic}: still not subscribed")
        for node, topic in sorted(self._leaving):
            self.report(world.time, node, f"{topic}: still not unsubscribed")
