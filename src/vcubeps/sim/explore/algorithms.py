"""The algorithms that the explored world can run."""

from __future__ import annotations

from collections.abc import Mapping

from vcubeps.protocol.errors import UsageError
from vcubeps.protocol.outputs import Output
from vcubeps.sim.explore.checked import CheckedPeer
from vcubeps.sim.explore.peers import PeerFactory, PeerLike, Standing, WatchedPeer
from vcubeps.sim.published import PublishedPeer


class FaultFreePeer(PublishedPeer):
    """The published algorithm as a node of this world, in which it never fails."""

    incarnation = 0
    is_up = True

    def start(self) -> list[Output]:
        return []

    def hold(self, topic: str, payload: bytes) -> list[Output]:
        return self.publish(topic, payload)  # it knows no batches, so nothing waits

    def release(self, topic: str) -> list[Output]:
        return []

    def suspect(self, node: int, incarnation: int) -> list[Output]:
        raise UsageError("the published algorithm knows no crashes: explore it without faults")

    def greet(self, node: int) -> list[Output]:
        raise UsageError("the published algorithm knows no newcomers: explore it without arrivals")

    def restart(self) -> list[Output]:
        raise UsageError("the published algorithm knows no incarnations: explore it without faults")

    @property
    def present(self) -> Mapping[int, int]:
        return dict.fromkeys(self._nodes - {self.node}, 0)

    def isolate(self, isolated: bool) -> list[Output]:
        raise UsageError("the published algorithm knows no voters: explore it without faults")

    def known_incarnation(self, node: int) -> int:
        return 0

    def believes_dead(self, node: int) -> bool:
        return False

    def dead_incarnation(self, node: int) -> int:
        return -1

    def address_of(self, node: int) -> bytes:
        return b""

    def standing(self) -> Standing:
        return Standing({}, {}, frozenset(), frozenset())

    def standing_mark(self) -> tuple[object, object]:
        return None, None

    def can_subscribe(self, topic: str) -> bool:
        return not self.members(topic)

    def can_unsubscribe(self, topic: str) -> bool:
        return bool(self.members(topic))

    def can_publish(self, topic: str) -> bool:
        return bool(self.members(topic))


def _published(node: int, nodes: tuple[int, ...], **_: object) -> PeerLike:
    return FaultFreePeer(node, nodes)


ALGORITHMS: dict[str, PeerFactory] = {
    "amended": WatchedPeer,
    "checked": CheckedPeer,
    "published": _published,
}
"""Name of an algorithm → how to make its peers."""

FAULT_FREE = frozenset({"published"})
"""Algorithms for nodes that do not fail."""
