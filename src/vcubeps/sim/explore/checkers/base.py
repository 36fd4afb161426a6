"""What all checkers share: the form of a violation, the facts they judge by, and how they are fed.

A checker says for which outputs and inputs it wants to be called; nothing else reaches it.
Nodes are also bits of an integer (1 << node), publications of a topic too (1 << index), so that
sets of them cost one machine operation to join or intersect.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol

from vcubeps.protocol.outputs import Output, Restarted, Started, Subscribed

VIOLATIONS_MAX = 5
"""Violations that one checker keeps of one schedule; the first is the one that matters."""


class Violation(NamedTuple):
    """One broken promise."""

    checker: str
    time: int
    node: int
    text: str

    def __str__(self) -> str:
        return f"{self.checker}: t={self.time} node {self.node}: {self.text}"


class PeerAtEnd(Protocol):
    """What the checkers ask a peer when the schedule is over."""

    @property
    def incarnation(self) -> int: ...
    @property
    def is_up(self) -> bool: ...
    def members(self, topic: str) -> dict[int, int]: ...
    def footprint(self) -> dict[str, int]: ...
    def retained(self, topic: str) -> set[str]: ...
    @property
    def present(self) -> Mapping[int, int]: ...
    def known_incarnation(self, node: int) -> int: ...
    def believes_dead(self, node: int) -> bool: ...
    def address_of(self, node: int) -> bytes: ...


class StandingLike(Protocol):
    """Whom a node holds dead, as `vcubeps.sim.explore.peers.Standing`."""

    @property
    def dead(self) -> dict[int, int]: ...
    @property
    def final(self) -> dict[int, int]: ...
    @property
    def living(self) -> frozenset[int]: ...
    @property
    def survivors(self) -> frozenset[int]: ...


class WorldAtEnd(Protocol):
    """The world when nothing moves any more."""

    @property
    def time(self) -> int: ...
    @property
    def live_peers(self) -> Mapping[int, PeerAtEnd]: ...
    @property
    def isolated(self) -> Collection[int]: ...


class Publication:
    """A publication from its Started on."""

    __slots__ = ("bit", "counter", "incarnation", "index", "payload", "source", "subscribers")

    def __init__(
        self, index: int, source: int, incarnation: int, item: tuple[int, bytes], subscribers: int
    ) -> None:
        self.index = index
        self.bit = 1 << index
        self.source = source
        self.incarnation = incarnation
        self.counter, self.payload = item
        self.subscribers = subscribers
        """Bits of the nodes that were subscribed when it was Started."""

    def __str__(self) -> str:
        return f"⟨{self.source}, {self.counter}⟩"


class TopicFacts:
    """What happened on one topic."""

    __slots__ = ("by_id", "counters", "delivered", "ended", "publications", "subscribed", "wanted")

    def __init__(self) -> None:
        self.publications: list[Publication] = []
        self.by_id: dict[tuple[int, int], Publication] = {}
        self.subscribed = 0
        """Bits of the nodes whose subscription is in effect."""
        self.wanted = 0
        """Bits of the nodes that asked to be subscribed and did not take it back."""
        self.counters: dict[int, int] = {}
        """Node → counter of its last subscription in effect."""
        self.ended: dict[int, int] = {}
        """Node → number of publications when its last subscription ended."""
        self.delivered: dict[int, int] = {}
        """Node → bits of the publications that its present incarnation delivered; integrity keeps it."""

    def end_subscription(self, node: int) -> None:
        bit = 1 << node
        self.wanted &= ~bit
        self.subscribed &= ~bit
        self.ended[node] = len(self.publications)

    def stable_subscribers(self, publication: Publication) -> list[int]:
        """Nodes subscribed before the publication was Started and ever since."""
        candidates = publication.subscribers & self.subscribed
        return [node for node in bits(candidates) if self.ended.get(node, 0) <= publication.index]


class Ledger:
    """Facts about the whole schedule, kept once for all checkers."""

    def __init__(
        self, voters: tuple[int, ...] = (), contact: int = 0, winners: frozenset[int] = frozenset()
    ) -> None:
        self.voters = voters
        """Who decides when the network is cut; empty: nobody does."""
        self.contact = contact
        """Ticks that an answered probe counts as contact."""
        self.winners = winners
        """Nodes that no cut makes start again."""
        self.topics: dict[str, TopicFacts] = {}
        self.dead: set[tuple[int, int]] = set()
        """(node, incarnation) that crashed or was forced to restart."""

    def topic(self, name: str) -> TopicFacts:
        facts = self.topics.get(name)
        if facts is None:
            facts = self.topics[name] = TopicFacts()
        return facts

    def on_started(self, time: int, node: int, incarnation: int, output: Started) -> None:
        facts = self.topic(output.topic)
        for item in output.items:
            publication = Publication(len(facts.publications), node, incarnation, item, facts.subscribed)
            facts.publications.append(publication)
            facts.by_id[node, publication.counter] = publication

    def on_subscribe(self, time: int, node: int, incarnation: int, topic: str) -> None:
        self.topic(topic).wanted |= 1 << node

    def on_unsubscribe(self, time: int, node: int, incarnation: int, topic: str) -> None:
        self.topic(topic).end_subscription(node)

    def on_subscribed(self, time: int, node: int, incarnation: int, output: Subscribed) -> None:
        facts = self.topic(output.topic)
        facts.subscribed |= 1 << node
        facts.counters[node] = output.counter

    def on_crash(self, time: int, node: int, incarnation: int) -> None:
        self.dead.add((node, incarnation))
        for facts in self.topics.values():
            facts.end_subscription(node)
            facts.delivered.pop(node, None)

    def on_restarted(self, time: int, node: int, incarnation: int, output: Restarted) -> None:
        self.on_crash(time, node, incarnation)


OutputHandlers = dict[type[Output], Callable[[int, int, int, Any], None]]
"""Type of output → handler(time, node, incarnation, output); of Restarted, the incarnation that ended."""

InputHandlers = dict[str, Callable[..., None]]
"""Name of input → handler(time, node, incarnation, …): subscribe(topic), unsubscribe(topic),
publish(topic, payload), crash(), error(exception). Where voters decide, before the outputs of an input:
standing(StandingLike) whenever the node has declared a crash or made one final, up(nodes not dead there) when it has
gone up."""


class Checker:
    """One promise, watched. Subclasses override what they need."""

    name: ClassVar[str]
    promise: ClassVar[str]

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.violations: list[Violation] = []

    def outputs(self) -> OutputHandlers:
        return {}

    def inputs(self) -> InputHandlers:
        return {}

    def at_end(self, world: WorldAtEnd) -> None:
        """Called once, when nothing moves any more."""

    def at_overrun(self, world: WorldAtEnd) -> None:
        """Called instead of `at_end` if the world was stopped because it did not come to rest."""

    def report(self, time: int, node: int, text: str) -> None:
        if len(self.violations) < VIOLATIONS_MAX:
            self.violations.append(Violation(self.name, time, node, text))


def note_final(since: dict[int, tuple[int, int]], time: int, final: Mapping[int, int]) -> None:
    """Keep when the crash of the newest incarnation of each node became final: node → (incarnation, time)."""
    for node, newest in final.items():
        if newest > since.get(node, (-1, 0))[0]:
            since[node] = newest, time


def bits(mask: int) -> list[int]:
    """The positions of the ones, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
