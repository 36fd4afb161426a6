"""A node that is not subscribed to a topic keeps of it only what a later subscription needs."""

from __future__ import annotations

from vcubeps.sim.explore.checkers.base import Checker, WorldAtEnd

MAY_REMAIN = frozenset({"knowledge", "gone"})
"""What was delivered and published (causal order holds across a rejoin), and the mark of a leave
that a repeated subscription message may otherwise undo."""


class Hygiene(Checker):
    name = "hygiene"
    promise = "a node that left keeps only what a later subscription needs"

    def at_end(self, world: WorldAtEnd) -> None:
        for topic, facts in self.ledger.topics.items():
            for node, peer in world.live_peers.items():
                if facts.wanted >> node & 1:
                    continue
                surplus = peer.retained(topic) - MAY_REMAIN
                if surplus:
                    self.report(world.time, node, f"{topic}: left it, but keeps {', '.join(sorted(surplus))}")
