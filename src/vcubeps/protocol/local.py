"""What all parts of one peer share: who it is, its counters, who is present, whom it believes alive, its outputs."""

from __future__ import annotations

from collections.abc import Mapping

from vcubeps.mixing import mix64
from vcubeps.protocol.errors import UsageError
from vcubeps.protocol.limits import (
    COUNTERS_PER_INCARNATION,
    COUNTERS_RESERVED,
    MAX_GRAVES,
    MAX_STAMP,
)
from vcubeps.protocol.messages import AnyMessage, Card, Incarnations, incarnation_of
from vcubeps.protocol.outputs import Arrived, Departed, Output, RestartReason, Send
from vcubeps.protocol.voters import Voters


class StartAgain(Exception):
    """Raised inside a peer that finds out that its incarnation must end; the peer goes on as a newer one."""

    def __init__(self, reason: RestartReason, ended: int = -1, told_by: frozenset[int] = frozenset()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.ended = ended
        """Incarnations of this node up to here are no more, say others."""
        self.told_by = told_by
        """Who says so, where this node may not know him any more."""


class LocalNode:
    """One incarnation of one node, and the others as it sees them.

    A node is *absent* (the baseline: nothing is kept of it but the last incarnation that it had, if it had any), it
    *lives*, or it is *dead* until its crash is over, when it is absent again.

    Invariants: `known` are the nodes that are not absent, `dead` and `living` divide them, and `dead[x] >= known[x]`;
    who deals with an incarnation has done with those before it. `final[x] <= dead[x]`; `fresh` is exactly what is
    dead and not final. `digest` is that of `living`.
    """

    __slots__ = (
        "_forgotten", "_graves", "card", "cards", "changes", "clock", "counter", "counter_max", "dead", "digest",
        "final", "fresh", "hops", "incarnation", "isolated", "known", "living", "me", "outputs", "up", "voters",
    )  # fmt: skip

    def __init__(
        self,
        me: int,
        card: Card,
        known: Incarnations,
        up: bool,
        voters: Voters | None,
        isolated: bool = False,
    ) -> None:
        self.me = me
        self.card = card
        """How this node introduces itself."""
        self.incarnation = card.incarnation
        self.counter = self.incarnation * COUNTERS_PER_INCARNATION
        """Last counter given out: one per subscription, leave and publication, over all topics."""
        self.counter_max = self.counter + COUNTERS_PER_INCARNATION - COUNTERS_RESERVED
        """From here on the rest are needed to leave every topic."""
        self.hops = 0
        """Last hop number given out."""
        self.clock = 0
        """Lamport time."""
        self.up = up
        """Admitted by the others; the first incarnations know each other from the start."""
        self.known = known
        """Node → newest incarnation of it that this node deals with."""
        self.living: Incarnations = dict(known)
        """What of `known` has not been declared crashed."""
        self.digest = digest_of(known)
        self.changes = 0
        """How often an incarnation has been declared dead, replaced or forgotten."""
        self.cards: dict[int, Card] = {}
        """Cards of nodes that were there from the start, have introduced themselves, or were introduced by others."""
        self.dead: Incarnations = {}
        """Node → newest incarnation of it declared crashed, until that is over."""
        self.final: Incarnations = {}
        """Node → newest incarnation whose crash every survivor has flushed to this node."""
        self.fresh: Incarnations = {}
        self._graves: Incarnations = {}
        """Absent node → its last incarnation. Oldest first; beyond a limit they are merged into `_forgotten`."""
        self._forgotten = -1
        """All incarnations up to this one, of any absent node that has no grave, are no more."""
        self.voters = voters
        """Who decides when the network is cut; None: everybody goes on."""
        self.isolated = isolated
        """This node is in contact with no quorum, says the driver: it starts nothing."""
        self.outputs: list[Output] = []

    # -- counters ------------------------------------------------------------------------------

    def next_counter(self) -> int:
        self.counter += 1
        return self.counter

    def check_counters_left(self) -> None:
        """Refuse what would need a counter while there are enough left to leave every topic."""
        if self.counter >= self.counter_max:
            raise UsageError(
                f"incarnation {self.incarnation} of node {self.me} has used up its {COUNTERS_PER_INCARNATION} "
                f"counters: restart the node"
            )

    def tick(self) -> int:
        # It stops at the limit, which only a liar can have brought about, lest this node be blamed for his stamp.
        self.clock = min(self.clock + 1, MAX_STAMP)
        return self.clock

    # -- outputs -------------------------------------------------------------------------------

    def emit(self, output: Output) -> None:
        self.outputs.append(output)

    def send(self, destination: int, message: AnyMessage) -> None:
        self.outputs.append(Send(destination, message))

    # -- who is there --------------------------------------------------------------------------

    def ended(self, node: int) -> int:
        """The newest incarnation of `node` that is no more, as far as is known here; −1 if there was none."""
        if node in self.dead:
            return self.dead[node]
        known = self.known.get(node)
        return self._graves.get(node, self._forgotten) if known is None else known - 1

    def ended_finally(self, node: int) -> int:
        """As `ended`, but only those whose crash is final here."""
        if node in self.fresh:
            return self.final.get(node, self.known[node] - 1)
        return self.ended(node)

    def is_of_the_dead(self, source: int, counter: int) -> bool:
        """Whether ⟨source, counter⟩ was issued by an incarnation that is no more."""
        return incarnation_of(counter) <= self.ended(source)

    def deal_with(self, node: int, card: Card) -> None:
        """`node` is there as the incarnation on its card; those before it are no more."""
        self.changes += 1
        self._strike(node)
        self.dead.pop(node, None)
        self.final.pop(node, None)
        self._graves.pop(node, None)
        self.known[node] = self.living[node] = card.incarnation
        self.digest ^= fingerprint(node, card.incarnation)
        self.keep_card(node, card)
        if node in self.fresh:
            self._renew_fresh()
        self.emit(Arrived(node, card.incarnation, card.address))

    def keep_card(self, node: int, card: Card) -> None:
        if card.identity or card.address:
            self.cards[node] = card
        else:
            self.cards.pop(node, None)

    def renew_card(self, node: int, card: Card) -> None:
        """`node`, which this one deals with already, has introduced itself, or somebody else has."""
        if not card.identity and not card.address:
            return
        address = self.card_of(node).address
        self.cards[node] = card
        if card.address != address:
            self.emit(Arrived(node, card.incarnation, card.address))

    def card_of(self, node: int) -> Card:
        """What is known of `node`, to introduce it to others."""
        card = self.cards.get(node)
        return card if card is not None else Card(self.known[node])

    def is_settled(self) -> bool:
        """Whether every crash known here is final here."""
        return not self.fresh

    def has_quorum(self) -> bool:
        """Whether the nodes that are not dead here are a quorum of the voters."""
        return self.voters is None or self.voters.is_quorum(self.living.keys() | {self.me})

    def unknown_crashes(self, reported: Mapping[int, int]) -> Incarnations:
        """What of `reported` is news to this node, itself excepted."""
        return {
            node: incarnation
            for node, incarnation in reported.items()
            if incarnation > self.ended(node) and node != self.me
        }

    def declare_dead(self, crashes: Mapping[int, int]) -> None:
        """These incarnations, not known as ended, have crashed."""
        self.changes += 1
        for node, incarnation in crashes.items():
            self._strike(node)
            self._graves.pop(node, None)
            self.known.setdefault(node, incarnation)
            self.dead[node] = incarnation
        self._renew_fresh()

    def settle(self) -> None:
        """Every known crash is final from now on."""
        self.final = dict(self.dead)
        self._renew_fresh()

    def forget(self, crashes: Mapping[int, int]) -> None:
        """All incarnations up to these, none of which lives or is dead and not final here, are over; nodes whose newest
        known one is among them are absent from now on."""
        self.changes += 1
        for node, incarnation in crashes.items():
            if node in self.dead and self.dead[node] <= incarnation:
                del self.known[node], self.dead[node], self.final[node]
                self.cards.pop(node, None)
            if incarnation > self.ended(node):
                self.bury(node, incarnation)

    def bury(self, node: int, incarnation: int) -> None:
        """`node`, which is absent, has been there as `incarnation`."""
        self._graves[node] = incarnation
        if len(self._graves) > MAX_GRAVES:
            oldest = next(iter(self._graves))
            self._forgotten = max(self._forgotten, self._graves.pop(oldest))

    def inherit(self, older: LocalNode) -> None:
        """Take over what an older incarnation of this node knew of others that outlives it: how to reach them. Whom it
        held for dead does not: it may have been wrong, and others may go on with them."""
        self.cards = older.cards

    def _strike(self, node: int) -> None:
        """From the living, if it is there."""
        incarnation = self.living.pop(node, None)
        if incarnation is not None:
            self.digest ^= fingerprint(node, incarnation)
            self.emit(Departed(node, incarnation))

    def _renew_fresh(self) -> None:
        # A new dict each time: messages in flight share the old one.
        self.fresh = {x: newest for x, newest in self.dead.items() if self.final.get(x, -1) < newest}

    def check(self) -> None:
        """Raise AssertionError if an invariant does not hold. For tests."""
        assert self.dead.keys() | self.living.keys() == self.known.keys(), "known is neither dead nor living"
        assert not self.dead.keys() & self.living.keys(), "both dead and living"
        for node, newest in self.living.items():
            assert newest == self.known[node], (
                f"node {node} lives as {newest}, dealt with is {self.known[node]}"
            )
        for node, newest in self.dead.items():
            assert newest >= self.known[node], (
                f"incarnation {newest} of {node} is dead and was dealt with already"
            )
        for node, newest in self.final.items():
            assert newest <= self.dead.get(node, -1), f"node {node} is final as {newest} and not dead"
        not_final = {x: newest for x, newest in self.dead.items() if newest > self.final.get(x, -1)}
        assert self.fresh == not_final, f"fresh is {self.fresh}, dead and not final is {not_final}"
        assert not self._graves.keys() & self.known.keys(), "a node that is there has a grave"
        assert len(self._graves) <= MAX_GRAVES, "too many graves"
        assert self.cards.keys() <= self.known.keys(), "keeps cards of absent nodes"
        assert self.me not in self.known, "counts itself among the others"
        assert self.digest == digest_of(self.living), "the digest is not that of the living"
        assert incarnation_of(self.counter) == self.incarnation, "counters ran over"


def fingerprint(node: int, incarnation: int) -> int:
    """64 well-mixed bits of one incarnation; the digest of a set of them is their xor."""
    return mix64(node * 0x9E3779B97F4A7C15 + incarnation * 0xD1B54A32D192ED03 + 0x2545F4914F6CDD1D)


def digest_of(incarnations: Mapping[int, int]) -> int:
    digest = 0
    for node, incarnation in incarnations.items():
        digest ^= fingerprint(node, incarnation)
    return digest


def merge_newest(into: Incarnations, other: Mapping[int, int]) -> None:
    """Keep the newer incarnation of each node."""
    for node, incarnation in other.items():
        if incarnation > into.get(node, -1):
            into[node] = incarnation
