"""THE audit that every live test ends with: what nodes did, in order → violations of what is promised.

Pure: lists in, sentences out. What is promised is in docs/concepts.md. One process, or processes of one machine:
times are comparable.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TypeAlias

from vcubeps.net.tracer import NOBODY_ASKED_NS

Barrier: TypeAlias = dict[int, int]


@dataclass(frozen=True)
class Joined:
    """The subscription of `node` to `topic` is in effect everywhere."""

    at_ns: int
    node: int
    topic: str


@dataclass(frozen=True)
class Left:
    """The application, or the loss of an incarnation, ended the membership at `asked_ns`; known at `at_ns`."""

    at_ns: int
    node: int
    topic: str
    asked_ns: int


@dataclass(frozen=True)
class Started:
    """`node` publishes ⟨counter, payload⟩ pairs, the first of which comes after `barrier`."""

    at_ns: int
    node: int
    topic: str
    items: tuple[tuple[int, bytes], ...]
    barrier: Barrier


@dataclass(frozen=True)
class Delivered:
    at_ns: int
    node: int
    topic: str
    source: int
    items: tuple[tuple[int, bytes], ...]
    after: Barrier


@dataclass(frozen=True)
class Acknowledged:
    """All publications of `node` on `topic` up to `counter`."""

    at_ns: int
    node: int
    topic: str
    counter: int


@dataclass(frozen=True)
class Ended:
    """The node crashed, was closed, or goes on as another incarnation: what it knew is void."""

    at_ns: int
    node: int


@dataclass(frozen=True)
class Suspected:
    """Some node takes `node` for crashed, though it may live.

    What this incarnation publishes from now on may pass by those who know that already.
    """

    at_ns: int
    node: int


Event: TypeAlias = Joined | Left | Started | Delivered | Acknowledged | Ended | Suspected


@dataclass
class _Publication:
    at_ns: int
    payload: bytes
    past: Barrier
    """Source → its last publication that this one comes after, transitively; and itself."""
    after: Barrier
    is_acknowledged: bool = False


@dataclass
class _Membership:
    joined_ns: int
    delivered_ns: int = 0
    """When it delivered last."""
    expected: dict[int, int] = field(default_factory=dict)
    """Source → index of its next publication that must come."""


class Audit:
    """Feed it the events of all nodes; each node's in the order in which they happened."""

    def __init__(self, events: list[Event]) -> None:
        self.violations: list[str] = []
        self._events = sorted(events, key=lambda event: event.at_ns)  # stable: a node's order stays
        self._publications: dict[tuple[str, int, int], _Publication] = {}
        self._by_source: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        """Counters that must reach every member, ascending."""
        self._open: dict[tuple[str, int], _Membership] = {}
        self._known: defaultdict[tuple[str, int], Barrier] = defaultdict(dict)
        """What a node has delivered or published, with all that this comes after."""
        self._delivered: set[tuple[str, int, int, int]] = set()

    def run(self) -> list[str]:
        self._note_publications()
        for event in self._events:
            if isinstance(event, Delivered):
                self._on_delivered(event)
            elif isinstance(event, Started):
                self._on_started(event)
            elif isinstance(event, Joined):
                self._open[event.topic, event.node] = _Membership(event.at_ns)
            elif isinstance(event, Left):
                self._on_left(event)
            elif isinstance(event, Ended):
                self._on_ended(event.node)
        sources: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for (topic, source), counters in self._by_source.items():
            if counters:
                sources[topic].append((source, counters[-1]))
        for (topic, node), membership in self._open.items():
            for source, last in sources[topic]:
                self._check_complete(topic, node, membership, source, last, "at the end")
        return self.violations

    # -- publications --------------------------------------------------------------------------

    def _note_publications(self) -> None:
        settled: defaultdict[tuple[str, int], int] = defaultdict(int)
        """How many publications of a source are acknowledged, or cannot be any more."""
        suspected: set[int] = set()
        for event in self._events:
            if isinstance(event, Started):
                after = event.barrier
                for counter, payload in event.items:
                    name = event.topic, event.node, counter
                    if name in self._publications:
                        self._violated(f"{_shown(*name)} was published twice")
                    self._publications[name] = _Publication(event.at_ns, payload, {}, dict(after))
                    after = {event.node: counter}
                    if event.node not in suspected:
                        self._by_source[event.topic, event.node].append(counter)
            elif isinstance(event, Suspected):
                suspected.add(event.node)
            elif isinstance(event, Acknowledged):
                key = event.topic, event.node
                counters = self._by_source[key]
                while settled[key] < len(counters) and counters[settled[key]] <= event.counter:
                    self._publications[(*key, counters[settled[key]])].is_acknowledged = True
                    settled[key] += 1
            elif isinstance(event, Ended):
                suspected.discard(event.node)
                for key, counters in self._by_source.items():
                    if key[1] == event.node:
                        settled[key] = len(counters)
        for (topic, source), counters in self._by_source.items():
            counters[:] = [c for c in counters if self._publications[topic, source, c].is_acknowledged]

    # -- what happens, in order ----------------------------------------------------------------

    def _on_started(self, event: Started) -> None:
        known = self._known[event.topic, event.node]
        _merge(known, event.barrier)
        for counter, _ in event.items:
            past = self._publications[event.topic, event.node, counter].past
            past.update(known)
            past[event.node] = counter
            known[event.node] = counter

    def _on_delivered(self, event: Delivered) -> None:
        topic, node, source = event.topic, event.node, event.source
        membership = self._open.get((topic, node))
        after = event.after
        for counter, payload in event.items:
            shown = _shown(topic, source, counter)
            publication = self._publications.get((topic, source, counter))
            if publication is None:
                self._violated(f"node {node} delivered {shown}, which nobody published")
                continue
            if publication.payload != payload:
                self._violated(f"node {node} delivered {shown} with another payload")
            if publication.after != after:
                self._violated(f"node {node} delivered {shown} after {after}, not {publication.after}")
            after = {source: counter}
            if membership is None:
                self._violated(f"node {node} delivered {shown} outside of a subscription")
                continue
            membership.delivered_ns = event.at_ns
            self._check_order(topic, node, source, counter)
            self._check_past(topic, node, membership, publication, source, counter)
            self._delivered.add((topic, node, source, counter))
            if source != node:
                _merge(self._known[topic, node], publication.past)

    def _check_order(self, topic: str, node: int, source: int, counter: int) -> None:
        shown = _shown(topic, source, counter)
        if (topic, node, source, counter) in self._delivered:
            self._violated(f"node {node} delivered {shown} twice")
        elif source != node and counter <= self._known[topic, node].get(source, 0):
            later = max(
                (c for t, n, s, c in self._delivered if (t, n, s) == (topic, node, source)), default=0
            )
            if later > counter:
                self._violated(f"node {node} delivered {shown} after {later} of the same source")
            else:
                self._violated(f"node {node} delivered {shown} after something that comes after it")

    def _check_past(
        self,
        topic: str,
        node: int,
        membership: _Membership,
        publication: _Publication,
        source: int,
        counter: int,
    ) -> None:
        for other, last in publication.past.items():
            before = last if other != source else counter - 1
            self._check_complete(
                topic, node, membership, other, before, f"before {_shown(topic, source, counter)}"
            )

    def _check_complete(
        self, topic: str, node: int, membership: _Membership, source: int, last: int, when: str
    ) -> None:
        """All of `source` up to `last` that was published since the node joined has been delivered."""
        counters = self._by_source.get((topic, source), [])
        index = membership.expected.get(source)
        if index is None:
            index = 0
            while (
                index < len(counters)
                and self._publications[topic, source, counters[index]].at_ns <= membership.joined_ns
            ):
                index += 1
        while index < len(counters) and counters[index] <= last:
            if (topic, node, source, counters[index]) not in self._delivered:
                self._violated(
                    f"node {node} has not delivered {_shown(topic, source, counters[index])} {when}"
                )
            index += 1
        membership.expected[source] = index

    def _on_left(self, event: Left) -> None:
        membership = self._open.pop((event.topic, event.node), None)
        if (
            membership is not None
            and event.asked_ns != NOBODY_ASKED_NS
            and membership.delivered_ns > event.asked_ns
        ):
            self._violated(f"node {event.node} delivered on {event.topic} after it had left")

    def _on_ended(self, node: int) -> None:
        for topic, member in list(self._open):
            if member == node:
                del self._open[topic, member]
        for topic, other in list(self._known):
            if other == node:
                del self._known[topic, other]

    def _violated(self, sentence: str) -> None:
        self.violations.append(sentence)


def _merge(known: Barrier, more: Barrier) -> None:
    for source, counter in more.items():
        if counter > known.get(source, 0):
            known[source] = counter


def _shown(topic: str, source: int, counter: int) -> str:
    return f"{topic}⟨{source}, {counter}⟩"
