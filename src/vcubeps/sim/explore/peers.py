"""What the explored world needs of a peer, and the algorithms that it can run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from vcubeps.protocol.errors import UsageError
from vcubeps.protocol.outputs import Output
from vcubeps.protocol.peer import Peer
from vcubeps.sim.published import PublishedPeer


class PeerLike(Protocol):
    """A node's state machine, as the world sees it."""

    @property
    def incarnation(self) -> int: ...
    @property
    def is_up(self) -> bool: ...
    def start(self) -> list[Output]: ...
    def subscribe(self, topic: str) -> list[Output]: ...
    def unsubscribe(self, topic: str) -> list[Output]: ...
    def publish(self, topic: str, payload: bytes, *, more: bool = False) -> list[Output]: ...
    def release(self, topic: str) -> list[Output]: ...
    def receive(self, sender: int, message: object) -> list[Output]: ...
    def suspect(self, node: int, incarnation: int) -> list[Output]: ...
    def can_subscribe(self, topic: str) -> bool: ...
    def can_unsubscribe(self, topic: str) -> bool: ...
    def can_publish(self, topic: str) -> bool: ...
    def members(self, topic: str) -> dict[int, int]: ...
    def footprint(self) -> dict[str, int]: ...
    def retained(self, topic: str) -> set[str]: ...
    def greet(self, node: int) -> list[Output]: ...
    @property
    def present(self) -> Mapping[int, int]: ...
    def known_incarnation(self, node: int) -> int: ...
    def believes_dead(self, node: int) -> bool: ...


PeerFactory = Callable[..., PeerLike]
"""Makes the peer of a node from what `Peer` takes."""


class FaultFreePeer(PublishedPeer):
    """The published algorithm as a node of this world, in which it never fails."""

    incarnation = 0
    is_up = True

    def start(self) -> list[Output]:
        return []

    def publish(self, topic: str, payload: bytes, *, more: bool = False) -> list[Output]:
        return super().publish(topic, payload)  # it knows no batches, so nothing waits

    def release(self, topic: str) -> list[Output]:
        return []

    def suspect(self, node: int, incarnation: int) -> list[Output]:
        raise UsageError("the published algorithm knows no crashes: explore it without faults")

    def greet(self, node: int) -> list[Output]:
        raise UsageError("the published algorithm knows no newcomers: explore it without arrivals")

    @property
    def present(self) -> Mapping[int, int]:
        return dict.fromkeys(self._nodes - {self.node}, 0)

    def known_incarnation(self, node: int) -> int:
        return 0

    def believes_dead(self, node: int) -> bool:
        return False

    def can_subscribe(self, topic: str) -> bool:
        return not self.members(topic)

    def can_unsubscribe(self, topic: str) -> bool:
        return bool(self.members(topic))

    def can_publish(self, topic: str) -> bool:
        return bool(self.members(topic))


class CheckedPeer(Peer):
    """A peer that checks after every input whether the invariants of its parts hold."""

    __slots__ = ()

    def _take_outputs(self) -> list[Output]:
        outputs = super()._take_outputs()
        self.check()
        return outputs


def _published(node: int, nodes: tuple[int, ...], **_: object) -> PeerLike:
    return FaultFreePeer(node, nodes)


ALGORITHMS: Mapping[str, PeerFactory] = {"amended": Peer, "checked": CheckedPeer, "published": _published}
"""Name of an algorithm → how to make its peers."""

FAULT_FREE = frozenset({"published"})
"""Algorithms for nodes that do not fail."""
