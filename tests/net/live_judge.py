"""Live nodes judged by the explorer's checkers, through the observer that every machine has."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from vcubeps.net.node import Node
from vcubeps.protocol import Peer
from vcubeps.protocol.outputs import Deliver
from vcubeps.sim.explore.checkers import Monitor

Seen: TypeAlias = tuple[float, int, int, object]
"""Seconds on the machine's clock, which all its processes share; node; incarnation; what its peer was asked or said."""

CRASHED = "crashed"
"""In place of what a peer says: this incarnation is no more."""


class SeenPeer:
    """A peer as the checkers ask it. Addresses are in the cluster file, not in the peer."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._peer, name)

    def address_of(self, node: int) -> bytes:
        return b""


@dataclass
class AtRest:
    """The nodes when nothing moves any more."""

    time: int
    live_peers: Mapping[int, SeenPeer] = field(default_factory=dict)
    isolated: Collection[int] = ()


def violations(seen: list[Seen], living: Iterable[Node] = ()) -> list[str]:
    """What the checkers find in what nodes did; those that are `living` have nothing left to do.

    Each node's events are in their order; those of several processes are sorted by time.
    """
    monitor = Monitor()
    ordered = sorted(seen, key=lambda each: each[0])
    for number, (_, node, incarnation, what) in enumerate(ordered):
        if what == CRASHED:
            monitor.on_input("crash", number, node, incarnation)
        else:
            monitor.observe(number, node, incarnation, what)
    monitor.at_end(AtRest(len(ordered), {node.id: SeenPeer(node._shell.machine.peer) for node in living}))
    return [str(violation) for violation in monitor.violations]


def deliveries(seen: Iterable[Seen], node: int, topic: str) -> list[tuple[int, int, bytes]]:
    """Source, counter and payload, with its stamp, of what `node` delivered on `topic`."""
    return [
        (what.source, counter, payload)
        for _, at, _, what in seen
        if at == node and type(what) is Deliver and what.topic == topic
        for counter, payload in what.items
    ]
