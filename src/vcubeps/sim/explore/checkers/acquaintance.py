"""At rest all who live deal with each other as the incarnations that they are, and know where to reach them: nobody is
alone, or sees ghosts."""

from __future__ import annotations

from vcubeps.sim.explore.checkers.base import Checker, WorldAtEnd


class Acquaintance(Checker):
    name = "acquaintance"
    promise = "at rest all who live deal with each other, and with nobody else"

    def at_end(self, world: WorldAtEnd) -> None:
        for node, peer in world.live_peers.items():
            ghosts = sorted(peer.present.keys() - world.live_peers.keys())
            if ghosts:
                self.report(world.time, node, f"deals with {ghosts}, who are not there")
            for other, its_peer in world.live_peers.items():
                if other != node and (
                    peer.known_incarnation(other) != its_peer.incarnation or peer.believes_dead(other)
                ):
                    self.report(
                        world.time,
                        node,
                        f"deals with incarnation {peer.known_incarnation(other)} of node {other}"
                        f"{', which it believes dead,' if peer.believes_dead(other) else ''} "
                        f"instead of {its_peer.incarnation}",
                    )
                elif other != node and peer.address_of(other) != its_peer.address_of(other):
                    self.report(
                        world.time,
                        node,
                        f"would look for node {other} at {peer.address_of(other)!r} instead of "
                        f"{its_peer.address_of(other)!r}",
                    )
