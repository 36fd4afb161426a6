"""Nodes that come later: who starts how, whom a newcomer asks first, and what it does if nobody answers."""

from __future__ import annotations

from collections.abc import Callable

from vcubeps.mixing import mix
from vcubeps.sim.explore.detector import Lives
from vcubeps.sim.explore.operations import USUAL_DELAY
from vcubeps.sim.explore.options import Options
from vcubeps.sim.explore.peers import PeerFactory, PeerLike

PATIENCE = 20 * USUAL_DELAY
"""After so many ticks a newcomer that is not up asks somebody else."""

INCARNATIONS_DRAWN = 16
"""A newcomer begins with one of so many incarnations, and not with one that has been used under its id: real ones draw
from so many that they never do."""

ATTEMPTS_MAX = 40
"""So often, lest a schedule never end in which there is nobody left to let it in."""


class Arrivals:
    """`after(ticks, call)` makes the world call later; `ask(node, seed)` makes a newcomer say Hello to `seed`."""

    def __init__(
        self,
        seed: int,
        options: Options,
        lives: Lives,
        make_peer: PeerFactory,
        after: Callable[[int, Callable[[], None]], None],
        ask: Callable[[int, int], None],
    ) -> None:
        self._seed = seed
        self._founders = options.founders
        self._lives = lives
        self._make_peer = make_peer
        self._after = after
        self._ask = ask
        self._acquainted: dict[int, set[int]] = {node: set(options.founders) for node in options.founders}
        """Node → all that it has ever known of, itself included: that is in its state directory."""
        self._been_up: set[int] = set(options.founders)
        """Nodes that come back to those they know; one that was never let in comes through seeds again."""
        self._identity: dict[int, int] = {}
        """Node → identity of whoever has come under this id last; founders have none."""
        self._used: set[tuple[int, int]] = set()
        """(node, incarnation) that has been there."""
        self._looking: set[int] = set()
        """Nodes that look around from time to time."""
        self._count = 0

    def founder(self, node: int) -> PeerLike:
        """The peer of a node that starts with the others."""
        addresses = {other: self._address(other) for other in self._founders}
        return self._make_peer(node, nodes=self._founders, addresses=addresses)

    def returned(self, node: int) -> PeerLike | None:
        """The peer of a node that starts again; None if it was never let in and there is nobody whom it could ask."""
        incarnation, identity = self._lives.incarnation[node] + 1, self._identity.get(node, 0)
        there = self._some_who_are_up(node) or tuple(self._lives.peers)
        if node in self._been_up:
            # Those it knew may all have left meanwhile: an operator names one who is there.
            nodes = sorted({*self._acquainted[node], *there[:1]})
            address = self._address(node)
            return self._make_peer(
                node, nodes=nodes, incarnation=incarnation, identity=identity, address=address
            )
        return self._make_newcomer(node, there, incarnation) if there else None

    def newcomer(self, node: int) -> PeerLike | None:
        """The peer of a node that comes for the first time, or of another one under the id of one that has left; None
        if there is nobody whom it could ask."""
        seeds = self._some_who_are_up(node)
        if not seeds:
            return None
        self._count += 1
        self._identity[node] = mix(self._seed, 14, node, self._count) | 1
        self._acquainted[node] = {node}
        self._been_up.discard(node)
        incarnation = mix(self._seed, 15, node, self._count) % INCARNATIONS_DRAWN
        while (node, incarnation) in self._used:
            incarnation += INCARNATIONS_DRAWN
        self._lives.incarnation[node] = incarnation
        self._lives.down.pop(node, None)
        return self._make_newcomer(node, seeds, incarnation)

    def started(self, node: int, incarnation: int) -> None:
        self._used.add((node, incarnation))

    def _make_newcomer(self, node: int, seeds: tuple[int, ...], incarnation: int) -> PeerLike:
        peer = self._make_peer(
            node,
            seeds=seeds,
            incarnation=incarnation,
            identity=self._identity[node],
            address=self._address(node),
        )
        self._after(PATIENCE, lambda: self._ask_again(node, peer, ATTEMPTS_MAX))
        return peer

    def _address(self, node: int) -> bytes:
        """Another one for every life of the node."""
        return b"%d#%d" % (node, self._lives.crashes[node])

    def met(self, node: int, other: int) -> None:
        """`node` deals with `other` from now on."""
        self._acquainted[node].add(other)

    def went_up(self, node: int, founded: bool) -> None:
        self._been_up.add(node)
        if founded:
            self.lost_sight(node)

    def lost_sight(self, node: int) -> None:
        """`node` holds another for crashed. Whoever could have brought it together with those who come to the other may
        be gone, too."""
        if self._identity and node not in self._looking:
            self._looking.add(node)
            self._look_around_later(node, self._lives.peers[node], ATTEMPTS_MAX)

    def _look_around_later(self, node: int, peer: PeerLike, attempts: int) -> None:
        self._after(PATIENCE, lambda: self._look_around(node, peer, attempts))

    def _look_around(self, node: int, peer: PeerLike, attempts: int) -> None:
        """As long as there are newcomers whom a node does not know, it is told of one of them. Founders know each
        other, and have to find each other without help."""
        others = [x for x in self._lives.peers if x not in {node, *peer.present} and x in self._identity]
        if self._lives.peers.get(node) is not peer or not others or not attempts:
            self._looking.discard(node)
            return
        if peer.is_up:
            self._ask(node, others[attempts % len(others)])
        self._look_around_later(node, peer, attempts - 1)

    def _some_who_are_up(self, node: int) -> tuple[int, ...]:
        up = [other for other, peer in self._lives.peers.items() if peer.is_up and other != node]
        chance = mix(self._seed, 13, node, self._count, len(up))
        start = chance % max(1, len(up))
        return tuple((up[start:] + up[:start])[: 1 + (chance >> 32) % 3])

    def _ask_again(self, node: int, peer: PeerLike, attempts: int) -> None:
        if self._lives.peers.get(node) is not peer or peer.is_up or not attempts:
            return
        self._count += 1
        for other in self._some_who_are_up(node)[:1]:
            self._ask(node, other)
        self._after(PATIENCE, lambda: self._ask_again(node, peer, attempts - 1))
