"""What stories of crashes on the wire are made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vcubeps.protocol.messages import Copy, Flush, Publication, Subscription, Unsubscription
from vcubeps.protocol.peer import Peer
from wire import InFlight, Wire

T = "t"


def members_of(nodes: Iterable[int], among: Iterable[int] | None = None) -> Wire:
    """A wire whose `nodes` are subscribed; `among` are all its nodes, if there are others."""
    members = list(nodes)
    wire = Wire(Peer, members if among is None else among)
    for node in members:
        wire.subscribe(node, T)
        wire.run()
    return wire


def lose(wire: Wire, source: int, destination: int | None = None) -> None:
    """Destroy what `source` has in flight, to `destination` only or to all."""

    def lost(entry: InFlight) -> bool:
        return entry.source == source and destination in (None, entry.destination)

    wire.in_flight = [entry for entry in wire.in_flight if not lost(entry)]


def crash_without_a_trace(wire: Wire, *nodes: int) -> None:
    for node in nodes:
        wire.crash(node)
        lose(wire, node)


def report(wire: Wire, *crashed: int) -> None:
    """The detectors of all that live report these nodes, as of the incarnations that the wire counts."""
    for observer in sorted(wire.peers):
        for node in crashed:
            wire.suspect(observer, node, wire.incarnations[node])
    wire.run()


def is_publication(message: Any) -> bool:
    return isinstance(message, Copy) and isinstance(message.broadcast, Publication)


def publication_of(source: int) -> Any:
    """Whether a message is a copy of a publication of `source`."""
    return lambda message: is_publication(message) and message.broadcast.source == source


def is_subscription(message: Any) -> bool:
    return isinstance(message, Copy) and isinstance(message.broadcast, Subscription)


def is_leave(message: Any) -> bool:
    return isinstance(message, Copy) and isinstance(message.broadcast, Unsubscription)


def at_work(wire: Wire) -> dict[int, dict[str, int]]:
    """What the living nodes still wait for."""
    footprints = {node: peer.footprint() for node, peer in wire.peers.items()}
    busy = {node: {what: n for what, n in found.items() if n} for node, found in footprints.items()}
    return {node: found for node, found in busy.items() if found}


def is_flush(message: Any) -> bool:
    return isinstance(message, Flush)
