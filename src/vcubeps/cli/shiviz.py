"""A trace as a log for ShiViz, the page that draws space-time diagrams: what happened where, with vector clocks.

The events of a node are in the order of their positions and times; a vector clock is made of that, and of what each
publication comes after. Nothing here reads or writes a file.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple, TypeAlias

PARSER = r"(?<host>\S+) (?<clock>\{.*\})\n(?<event>.*)"
"""How ShiViz is to read the log: two lines for each event."""
DELIMITER = r"^=== (?<trace>.*) ===$"
"""What stands between two runs; ShiViz calls them executions."""

Identity: TypeAlias = tuple[int, int, int]
"""Topic, source, counter."""
Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = Mapping[str, Sequence[Row]]
"""Table → its rows."""
Clock: TypeAlias = dict[str, int]


class Event(NamedTuple):
    """One event of one node."""

    time_ut: int
    text: str
    publishes: Identity | None = None
    after: tuple[Identity, ...] = ()
    """Publications of this or other nodes that it comes after."""


def header(is_one_run: bool) -> Iterator[str]:
    """The first two lines of a file for ShiViz: it takes its two expressions from there."""
    yield PARSER
    yield "" if is_one_run else DELIMITER


def run_title(run: int) -> str:
    return f"=== run {run} ==="


def log_lines(rows: Rows, topic_text: Callable[[int], str]) -> Iterator[str]:
    """The log of one run; `topic_text` is how a topic is called in it."""
    published = {_identity(row) for row in rows["publications"]}
    nodes = _events(rows, topic_text)
    for node, clock, event in _with_clocks(nodes, published):
        yield f"{_host(node)} {json.dumps(clock)}"
        yield event.text


def _host(node: int) -> str:
    return f"node{node}"


def _identity(row: Row) -> Identity:
    return row["topic"], row["source"], row["counter"]


# -- what each node did, in order ------------------------------------------------------------------


def _events(rows: Rows, topic_text: Callable[[int], str]) -> dict[int, list[Event]]:
    """Node → its events."""

    def text(what: str, row: Row) -> str:
        return f"{what} ⟨{row['source']}, {row['counter']}⟩ on {topic_text(row['topic'])}"

    nodes: defaultdict[int, _Node] = defaultdict(_Node)
    for row in sorted(rows["publications"], key=lambda row: (row["started_ut"], row["counter"])):
        barrier = tuple((row["topic"], entry["source"], entry["counter"]) for entry in row["barrier"])
        after = ", ".join(f"⟨{source}, {counter}⟩" for _, source, counter in barrier)
        said = text("published", row) + (f" after {after}" if after else "")
        nodes[row["source"]].publications.append(Event(row["started_ut"], said, _identity(row), barrier))
    for table, what in (("receptions", "received"), ("deliveries", "delivered")):
        for row in sorted(rows[table], key=lambda row: row["position"]):
            event = Event(row["time_ut"], text(what, row), None, (_identity(row),))
            nodes[row["node"]].arrivals[table].append(event)
    for time_ut, leaves, topic, node in sorted(
        {(row["time_ut"], not row["joins"], row["topic"], row["node"]) for row in rows["membership"]}
    ):
        if time_ut >= 0:  # who was a member before the run has not done anything
            said = f"{'left' if leaves else 'joined'} {topic_text(topic)}"
            nodes[node].changes[leaves].append(Event(time_ut, said))
    return {number: list(node.in_order()) for number, node in sorted(nodes.items())}


class _Node:
    """The events of one node, kind by kind, each kind in order."""

    def __init__(self) -> None:
        self.publications: list[Event] = []
        self.arrivals: dict[str, list[Event]] = {"receptions": [], "deliveries": []}
        self.changes: dict[bool, list[Event]] = {False: [], True: []}

    def in_order(self) -> Iterator[Event]:
        """All of them by time; at one moment, those first that others may come from.

        A node delivers its own publication when it publishes it, so that shows their order where times do not.
        """
        joins, leaves = self.changes[False], self.changes[True]
        kinds = [joins, self.arrivals["receptions"], self.arrivals["deliveries"], self.publications, leaves]
        next_of = [0] * len(kinds)
        deliveries, publications = 2, 3
        waiting = {event.publishes for event in self.publications}
        heap = [(events[0].time_ut, kind) for kind, events in enumerate(kinds) if events]
        heapify(heap)

        def take(kind: int) -> Event:
            event = kinds[kind][next_of[kind]]
            next_of[kind] += 1
            waiting.discard(event.publishes)
            return event

        while heap:
            _, kind = heappop(heap)
            if next_of[kind] == len(kinds[kind]):
                continue  # its last ones were taken out of turn
            if kind == deliveries:
                [delivered] = kinds[kind][next_of[kind]].after
                while delivered in waiting:
                    yield take(publications)
            yield take(kind)
            if next_of[kind] < len(kinds[kind]):
                heappush(heap, (kinds[kind][next_of[kind]].time_ut, kind))


# -- clocks ----------------------------------------------------------------------------------------


def _with_clocks(
    nodes: Mapping[int, Sequence[Event]], published: set[Identity]
) -> Iterator[tuple[int, Clock, Event]]:
    """Each event after those it comes after, otherwise by time; with its vector clock.

    A host's own entry counts its events. What comes after something that nobody published, or in a trace that
    contradicts itself after something that comes later, comes after nothing.
    """
    clocks: dict[int, Clock] = {node: {_host(node): 0} for node in nodes}
    at: dict[Identity, Clock] = {}
    """Clocks of the publications so far."""
    next_of = dict.fromkeys(nodes, 0)
    ready = [(events[0].time_ut, node) for node, events in nodes.items() if events]
    heapify(ready)
    blocked: dict[int, Identity] = {}
    """Node → publication that its next event waits for."""
    waiting: defaultdict[Identity, list[int]] = defaultdict(list)
    while ready or blocked:
        if ready:
            _, node = heappop(ready)
            event = nodes[node][next_of[node]]
            missing = next((one for one in event.after if one in published and one not in at), None)
            if missing is not None:
                blocked[node] = missing
                waiting[missing].append(node)
                continue
        else:
            node = min(blocked, key=lambda node: nodes[node][next_of[node]].time_ut)
            event = nodes[node][next_of[node]]
            waiting[blocked.pop(node)].remove(node)
        clock = clocks[node]
        for identity in event.after:
            for host, count in at.get(identity, {}).items():
                if count > clock.get(host, 0):
                    clock[host] = count
        clock[_host(node)] += 1
        yield node, clock, event
        if event.publishes is not None:
            at[event.publishes] = dict(clock)
            for other in waiting.pop(event.publishes, ()):
                del blocked[other]
                heappush(ready, (nodes[other][next_of[other]].time_ut, other))
        next_of[node] += 1
        if next_of[node] < len(nodes[node]):
            heappush(ready, (nodes[node][next_of[node]].time_ut, node))
