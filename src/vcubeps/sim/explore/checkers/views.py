"""At rest all members of a topic see the same members: those who live and are subscribed, with
the counter of their present subscription; and who is no member sees none."""

from __future__ import annotations

from vcubeps.sim.explore.checkers.base import Checker, WorldAtEnd, bits


class Views(Checker):
    name = "views"
    promise = "at rest all members see the same, right members"

    def at_end(self, world: WorldAtEnd) -> None:
        for topic, facts in self.ledger.topics.items():
            members = {node: facts.counters[node] for node in bits(facts.subscribed)}
            for node, peer in world.live_peers.items():
                view = peer.members(topic)
                expected = members if node in members else {}
                if view != expected:
                    self.report(world.time, node, f"{topic}: sees {_show(view)} instead of {_show(expected)}")


def _show(view: dict[int, int]) -> str:
    return "{" + ", ".join(f"{node}@{view[node]}" for node in sorted(view)) + "}"
