"""How long it took after each fault until everybody went on. Pure: made from what was written down.

A node *goes on* when a publication of it to all nodes, published after the moment in question, is acknowledged: every
member has received it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property

import msgspec

from vcubeps.chaos.record import Done, Record

BACK_WITHIN_S = 60.0
"""A node that has not come back so long after a fault has not come back."""


class Recovery(msgspec.Struct, frozen=True):
    """How one fault was overcome; None: not, or there is nothing to say."""

    detected_s: float | None
    """From its beginning until the first of the others took a victim for crashed."""
    living_s: float | None
    """From its beginning until all went on who lived and reached each other."""
    back_s: float | None
    """From its end until all whom it had happened to went on."""


class Pulses:
    """When the nodes went on, quickly asked."""

    def __init__(self, record: Record) -> None:
        self._record = record

    @cached_property
    def _sorted(self) -> dict[int, tuple[list[float], list[float]]]:
        """Node → when published, and the earliest acknowledgement of this or any later one."""
        found: dict[int, tuple[list[float], list[float]]] = {}
        for node, pulses in self._record.pulses.items():
            ordered = sorted(pulses)
            earliest: list[float] = []
            for _, acknowledged_s in reversed(ordered):
                earliest.append(min(acknowledged_s, earliest[-1]) if earliest else acknowledged_s)
            found[node] = [published_s for published_s, _ in ordered], earliest[::-1]
        return found

    def goes_on_s(self, node: int, after_s: float) -> float | None:
        """When `node` went on, after a moment."""
        published, earliest = self._sorted.get(node, ([], []))
        place = bisect_left(published, after_s)
        return earliest[place] if place < len(published) else None

    def acknowledged(self, node: int) -> list[float]:
        return sorted(acknowledged_s for _, acknowledged_s in self._record.pulses.get(node, ()))


def recoveries(record: Record) -> list[Recovery]:
    """One for each fault that was carried out."""
    pulses = Pulses(record)
    return [recovery(record, pulses, done) for done in record.done]


def recovery(record: Record, pulses: Pulses, done: Done) -> Recovery:
    living = [pulses.goes_on_s(node, done.begin_s) for node in survivors(record, pulses, done)]
    back = (
        [pulses.goes_on_s(node, done.end_s) for node in done.fault.victims] if done.end_s is not None else []
    )
    return Recovery(
        _detected_s(record, done), _latest(living, done.begin_s), _latest(back, done.end_s or 0.0)
    )


def survivors(record: Record, pulses: Pulses, done: Done) -> list[int]:
    """Those that are to go on in spite of the fault, and that nothing else happens to before they do."""
    count = record.options.nodes
    away = set(done.fault.away(count))
    for other in record.done:
        if other is done:
            continue
        for node in other.fault.away(count) - away:
            goes_on_s = pulses.goes_on_s(node, done.begin_s)
            if other.begin_s < (goes_on_s or record.ended_s) and _back_s(pulses, other, node) > done.begin_s:
                away.add(node)
    return [node for node in range(count) if node not in away]


def _back_s(pulses: Pulses, done: Done, node: int) -> float:
    """Until when a node counts as harmed."""
    if done.end_s is None:
        return float("inf")
    goes_on_s = pulses.goes_on_s(node, done.end_s)
    return float("inf") if goes_on_s is None else goes_on_s


def _latest(times_s: Sequence[float | None], since_s: float) -> float | None:
    if not times_s or any(time_s is None for time_s in times_s):
        return None
    return max(time_s for time_s in times_s if time_s is not None) - since_s


def _detected_s(record: Record, done: Done) -> float | None:
    victims = set(done.fault.away(record.options.nodes))
    until_s = (done.end_s or done.begin_s) + 1.0
    times_s = [
        crash.at_s
        for crash in record.crashes
        if crash.node in victims and crash.by not in victims and done.begin_s <= crash.at_s <= until_s
    ]
    return min(times_s) - done.begin_s if times_s else None
