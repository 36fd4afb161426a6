"""Who was subscribed before a publication was started, and stays, delivers it.

Required only if the source's incarnation lives to the end; `agreement` judges the others.
"""

from __future__ import annotations

from vcubeps.sim.explore.checkers.base import Checker, WorldAtEnd


class Completeness(Checker):
    name = "completeness"
    promise = "who was subscribed before a publication, and stays, delivers it"

    def at_end(self, world: WorldAtEnd) -> None:
        for topic, facts in self.ledger.topics.items():
            for publication in facts.publications:
                if (publication.source, publication.incarnation) in self.ledger.dead:
                    continue
                for node in facts.stable_subscribers(publication):
                    if not facts.delivered.get(node, 0) & publication.bit:
                        self.report(world.time, node, f"{topic}: never delivered {publication}")
