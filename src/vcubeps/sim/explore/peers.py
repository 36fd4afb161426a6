"""What the explored world needs of a peer, and the real one that lets the world see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from vcubeps.protocol.outputs import Accepted, Output
from vcubeps.protocol.peer import Peer


class Standing(NamedTuple):
    """Whom a node holds dead, and whom not."""

    dead: dict[int, int]
    """Node → newest incarnation of it that has been declared crashed."""
    final: dict[int, int]
    """The same, of the crashes that are final."""
    living: frozenset[int]
    """Nodes, itself included, that it deals with as incarnations that are not dead."""
    survivors: frozenset[int]
    """The same, of those whose crash is not final; those that it has just let in are among them."""


class PeerLike(Protocol):
    """A node's state machine, as the world sees it."""

    @property
    def incarnation(self) -> int: ...
    @property
    def is_up(self) -> bool: ...
    def start(self) -> list[Output]: ...
    def subscribe(self, topic: str) -> list[Output]: ...
    def unsubscribe(self, topic: str) -> list[Output]: ...
    def publish(self, topic: str, payload: bytes) -> list[Output]: ...
    def hold(self, topic: str, payload: bytes) -> list[Output]: ...
    def release(self, topic: str) -> list[Output]: ...
    def receive(self, sender: int, message: object) -> list[Output]: ...
    def suspect(self, node: int, incarnation: int) -> list[Output]: ...
    def isolate(self, isolated: bool) -> list[Output]: ...
    def can_subscribe(self, topic: str) -> bool: ...
    def can_unsubscribe(self, topic: str) -> bool: ...
    def can_publish(self, topic: str) -> bool: ...
    def members(self, topic: str) -> dict[int, int]: ...
    def footprint(self) -> dict[str, int]: ...
    def retained(self, topic: str) -> set[str]: ...
    def greet(self, node: int) -> list[Output]: ...
    def restart(self) -> list[Output]: ...
    @property
    def present(self) -> Mapping[int, int]: ...
    def known_incarnation(self, node: int) -> int: ...
    def believes_dead(self, node: int) -> bool: ...
    def dead_incarnation(self, node: int) -> int: ...
    def address_of(self, node: int) -> bytes: ...
    def standing(self) -> Standing: ...
    def standing_mark(self) -> tuple[object, object]: ...


PeerFactory = Callable[..., PeerLike]
"""Makes the peer of a node from what `Peer` takes."""


class WatchedPeer(Peer):
    """A peer that lets the world see whom it holds dead."""

    __slots__ = ()

    def hold(self, topic: str, payload: bytes) -> list[Output]:
        """`accept`, with its answer as an output."""
        return [Accepted(topic, self.accept(topic, payload))]

    def dead_incarnation(self, node: int) -> int:
        """Newest incarnation of `node` that is dead here; −1 if there is none."""
        return self._local.ended(node)

    def address_of(self, node: int) -> bytes:
        """Where `node`, this one or one that is present, can be reached, as far as is known here."""
        local = self._local
        return local.card.address if node == local.me else local.card_of(node).address

    def standing(self) -> Standing:
        local = self._local
        living = frozenset(local.living) | {local.me}
        return Standing(
            {node: newest for node in self._others if (newest := local.ended(node)) >= 0},
            # A node that boots makes nothing final: what it learns of is final elsewhere.
            {x: newest for x in self._others if local.up and (newest := local.ended_finally(x)) >= 0},
            living,
            living | local.fresh.keys(),
        )

    def standing_mark(self) -> tuple[object, object]:
        """Others than before, if a crash has been declared or become final since."""
        return self._local.fresh, self._local.changes

    @property
    def _others(self) -> frozenset[int]:
        return self._nodes - {self.node}
