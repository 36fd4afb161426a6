"""What should not have happened in a chaos run, besides what the audit of its traces finds. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from types import MappingProxyType

from vcubeps.chaos.record import Done, Problem, Record
from vcubeps.chaos.recovery import BACK_WITHIN_S, back_s

STALL_MAX_S = 10.0
"""So long at most a node that lives, with a quorum in reach, may go without an acknowledgement."""
RESTARTS_PER_FAULT = 1
"""So often at most a fault makes a node start again whom it has happened to."""
_LATE_S = 30.0
"""So long after a fault it may still be the reason: restarts wait for each other."""

KINDS: Mapping[str, str] = MappingProxyType(
    {
        "stuck": "nodes that lived, with a quorum in reach, did not go on",
        "gone": "a node did not come back after a fault",
        "restart": "a node started again and no fault explains it",
        "ended": "a process ended by itself, or could not be ended in good order",
        "order": "an application read something again, or after what was published later",
        "view": "at the end nodes disagreed on who is there",
        "violation": "a node got messages that no correct node sends",
    }
)
"""What is found here → its meaning."""


def findings(record: Record) -> list[Problem]:
    return [
        *record.problems,
        *_unsettled(record),
        *_not_back(record),
        *_stalls(record),
        *_unexplained(record),
    ]


def _unsettled(record: Record) -> Iterator[Problem]:
    if record.settled_s is None and not record.was_interrupted:
        yield Problem(
            "stuck", f"after the last fault, healed at {record.last_healed_s:.1f} s, not all nodes went on"
        )


def _not_back(record: Record) -> Iterator[Problem]:
    for done in record.done:
        if done.end_s is None:
            continue
        for node in done.fault.victims:
            if min(back_s(record, done, node), record.ended_s) > done.end_s + BACK_WITHIN_S:
                yield Problem("gone", f"node {node} was not back {BACK_WITHIN_S:g} s after {_told(done)}")


def _stalls(record: Record) -> Iterator[Problem]:
    for node in range(record.options.nodes):
        acknowledged = [acknowledged_s for _, acknowledged_s in record.pulses[node]]
        for begin_s, end_s in _owed(record, node):
            inside = [begin_s, *(at_s for at_s in acknowledged if begin_s < at_s < end_s), end_s]
            for earlier_s, later_s in pairwise(inside):
                if later_s - earlier_s > STALL_MAX_S:
                    yield Problem(
                        "stuck",
                        f"node {node} had nothing acknowledged from {earlier_s:.1f} s to {later_s:.1f} s "
                        f"(limit {STALL_MAX_S:g} s), though a quorum was in its reach",
                    )


def _owed(record: Record, node: int) -> Iterator[tuple[float, float]]:
    """When `node` was to go on: from when to when nothing had happened to it that keeps it from that."""
    harmed = [
        (done.begin_s, back_s(record, done, node))
        for done in record.done
        if node in done.fault.away(record.options.nodes)
    ]
    free_s = 0.0
    for begin_s, until_s in sorted(harmed):
        if begin_s > free_s:
            yield free_s, begin_s
        free_s = max(free_s, until_s)
    if record.ended_s > free_s:
        yield free_s, record.ended_s


def _unexplained(record: Record) -> Iterator[Problem]:
    count = record.options.nodes
    used: Counter[tuple[int, int]] = Counter()
    for restart in record.restarts:
        reasons = [
            done.fault.number
            for done in record.done
            if restart.node in done.fault.may_restart(count)
            and done.begin_s
            <= restart.at_s
            <= (record.ended_s if done.end_s is None else done.end_s) + _LATE_S
        ]
        reason = next((each for each in reasons if used[each, restart.node] < RESTARTS_PER_FAULT), None)
        if reason is None:
            yield Problem(
                "restart",
                f"node {restart.node} started again at {restart.at_s:.1f} s, as incarnation {restart.incarnation} "
                f"({restart.reason}), and no fault explains it",
            )
        else:
            used[reason, restart.node] += 1


def _told(done: Done) -> str:
    return f"fault {done.fault.number} ({done.fault}) at {done.begin_s:.1f} s"
