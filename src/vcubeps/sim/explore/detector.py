"""The failure detectors of the simulated world: who is told of whose crash, and when.

Every crash is reported, after a time of its own, to every node that lives and deals with the one that crashed; a node
that starts is told who is down. Who
cannot reach a node because of a cut takes it for crashed. Where nodes greet, as real ones do, a node that is back is
reported by its greeting and not otherwise, and only to a node that is up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from vcubeps.mixing import mix
from vcubeps.sim.explore.links import Links
from vcubeps.sim.explore.options import Options
from vcubeps.sim.explore.peers import PeerLike


@dataclass
class Lives:
    """Who lives, and as what."""

    incarnation: dict[int, int]
    crashes: dict[int, int]
    """Node → how often it has crashed."""
    peers: dict[int, PeerLike] = field(default_factory=dict)
    """Of the nodes that live."""
    down: dict[int, None] = field(default_factory=dict)
    """Those that crashed and have not recovered, in this order."""


class Detector:
    """`after(ticks, call)` makes the world call later; `suspect(observer, node, incarnation)` is the report."""

    def __init__(
        self,
        seed: int,
        options: Options,
        lives: Lives,
        links: Links,
        after: Callable[[int, Callable[[], None]], None],
        suspect: Callable[[int, int, int], None],
    ) -> None:
        self._seed = seed
        self._options = options
        self._lives = lives
        self._links = links
        self._after = after
        self._suspect = suspect
        self._connection: dict[tuple[int, int], tuple[int, int, int]] = {}
        """(receiver, sender) → the connection on which the sender has greeted: crashes of either so far, and cuts."""
        self._greeting: dict[tuple[int, int], int] = {}
        """(receiver, sender) → the incarnation that the sender has greeted as, in this life of the receiver."""

    def crashed(self, node: int) -> None:
        """Sooner or later all who live are told."""
        for other in self._options.nodes:
            self._greeting.pop((node, other), None)
        for observer in self._lives.peers:
            self._report_crash(observer, node)

    def started(self, observer: int) -> None:
        for node in self._lives.incarnation:
            if node in self._lives.down or self._is_outlived(observer, node):
                self._report_crash(observer, node)

    def met(self, observer: int, node: int) -> None:
        """`observer` has heard of a node, or has something for it: it finds out if there is nobody."""
        if node in self._lives.down or self._is_outlived(observer, node):
            self._report_crash(observer, node)

    def _is_outlived(self, observer: int, node: int) -> bool:
        """Whether `observer` deals with a node that is gone, and another one with a lower incarnation has its id."""
        peer = self._lives.peers.get(observer)
        return peer is not None and peer.known_incarnation(node) > self._lives.incarnation[node]

    def _report_crash(self, observer: int, node: int) -> None:
        incarnations = self._lives.incarnation
        incarnation = incarnations[node]
        chance = mix(self._seed, 7, observer, node, incarnation, incarnations[observer])

        def report() -> None:
            peer = self._lives.peers.get(observer)
            if peer is None or peer.believes_dead(node):
                return  # whoever does not deal with a node is not told of its crash
            if self._is_outlived(observer, node):
                self._suspect(observer, node, peer.known_incarnation(node))
            elif not self._options.greetings or incarnations[node] == incarnation:
                self._suspect(observer, node, incarnation)

        self._after(1 + chance % self._options.detector_delay, report)

    def arrived(self, node: int, sender: int) -> None:
        """A message of `sender` arrives at `node`. Whoever connects says first which incarnation it is."""
        lives = self._lives
        connection = lives.crashes[sender], lives.crashes[node], self._links.cuts
        if self._connection.get((node, sender)) == connection:
            return
        self._connection[node, sender] = connection
        incarnation = lives.incarnation[sender]
        if incarnation > self._greeting.get((node, sender), -1):
            self._greeting[node, sender] = incarnation
            if incarnation and lives.peers[node].is_up:
                self._suspect(node, sender, incarnation - 1)

    def cut(self) -> None:
        """The links have just been cut: each of a pair that is severed takes the other for crashed after a while."""
        nodes = set(self._options.nodes)  # shrinking may have left some out
        for observer, node in sorted(self._links.severed):
            if {observer, node} <= nodes:
                self._report_unreachable(observer, node, self._links.cuts, 0)

    def _report_unreachable(self, observer: int, node: int, cut: int, times: int) -> None:
        """Again and again until the cut is healed: the observer, or what it knows of the node, may be another then."""
        chance = mix(self._seed, 10, observer, node, cut, times)

        def report() -> None:
            if self._links.cuts != cut:
                return
            peer = self._lives.peers.get(observer)
            if peer is not None:
                known, greeted = peer.known_incarnation(node), self._greeting.get((observer, node), -1)
                if greeted > known or not peer.believes_dead(node):
                    self._suspect(observer, node, max(0, known, greeted))
            self._report_unreachable(observer, node, cut, times + 1)

        self._after(1 + chance % self._options.detector_delay, report)
