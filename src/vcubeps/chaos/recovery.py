"""How long it took after each fault until everybody went on. Pure: made from what was written down.

A node *goes on* when a publication of it to all nodes, published after the moment in question, is acknowledged: every
member has received it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import inf
from operator import itemgetter

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


def goes_on_s(record: Record, node: int, after_s: float) -> float | None:
    """When `node` went on, after a moment. What is published later is acknowledged later."""
    pulses = record.pulses[node]
    place = bisect_left(pulses, after_s, key=itemgetter(0))
    return pulses[place][1] if place < len(pulses) else None


def recoveries(record: Record) -> list[Recovery]:
    """One for each fault that was carried out."""
    return [recovery(record, done) for done in record.done]


def recovery(record: Record, done: Done) -> Recovery:
    living = [goes_on_s(record, node, done.begin_s) for node in survivors(record, done)]
    back = [] if done.end_s is None else [goes_on_s(record, node, done.end_s) for node in done.fault.victims]
    return Recovery(
        _detected_s(record, done), _latest(living, done.begin_s), _latest(back, done.end_s or 0.0)
    )


def is_overcome(record: Record, done: Done) -> bool:
    """Whether all go on who are to, as far as is known by now."""
    found = recovery(record, done)
    return found.back_s is not None and (found.living_s is not None or not survivors(record, done))


def survivors(record: Record, done: Done) -> list[int]:
    """Those that are to go on in spite of the fault, and that nothing else happens to before they do."""
    count = record.options.nodes
    away = set(done.fault.away(count))
    for other in record.done:
        is_long_ago = other.end_s is not None and other.end_s + BACK_WITHIN_S < done.begin_s
        if other is done or is_long_ago:
            continue
        for node in other.fault.away(count) - away:
            goes_on = goes_on_s(record, node, done.begin_s)
            begins_before = goes_on is None or other.begin_s < goes_on
            if begins_before and back_s(record, other, node) > done.begin_s:
                away.add(node)
    return [node for node in range(count) if node not in away]


def back_s(record: Record, done: Done, node: int) -> float:
    """Until when a node counts as harmed by a fault."""
    goes_on = None if done.end_s is None else goes_on_s(record, node, done.end_s)
    return inf if goes_on is None else goes_on


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
