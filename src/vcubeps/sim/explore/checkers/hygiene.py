"""A node that is not subscribed to a topic, at rest, has nothing to do for it any more.

What a later subscription needs is kept elsewhere, and bounded (`protocol.left_topics`).
"""

from __future__ import annotations

from vcubeps.sim.explore.checkers.base import Checker, WorldAtEnd


class Hygiene(Checker):
    name = "hygiene"
    promise = "a node that left keeps only what a later subscription needs"

    def at_end(self, world: WorldAtEnd) -> None:
        for topic, facts in self.ledger.topics.items():
            for node, peer in world.live_peers.items():
                if facts.wanted >> node & 1:
                    continue
                surplus = peer.retained(topic)
                if surplus:
                    self.report(world.time, node, f"{topic}: left it, but keeps {', '.join(sorted(surplus))}")
