"""If the source of a publication died, all who were subscribed before it and stay deliver it, or none.

Agreement is not uniform: a node that died may have delivered what no survivor does.
"""

from __future__ import annotations

from vcubeps.sim.explore.checkers.base import Checker, WorldAtEnd


class Agreement(Checker):
    name = "agreement"
    promise = "of a source that died, all who stay deliver a publication or none"

    def at_end(self, world: WorldAtEnd) -> None:
        for topic, facts in self.ledger.topics.items():
            for publication in facts.publications:
                if (publication.source, publication.incarnation) not in self.ledger.dead:
                    continue
                stable = facts.stable_subscribers(publication)
                missing = [n for n in stable if not facts.delivered.get(n, 0) & publication.bit]
                if missing and len(missing) < len(stable):
                    others = sorted(set(stable) - set(missing))
                    self.report(
                        world.time,
                        missing[0],
                        f"{topic}: {missing} never delivered {publication}, {others} did",
                    )
