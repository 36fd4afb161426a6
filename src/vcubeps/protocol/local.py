"""What all parts of one peer share: who it is, its counters, whom it believes alive, its outputs."""

from __future__ import annotations

from collections.abc import Mapping

from vcubeps.protocol.limits import COUNTERS_PER_INCARNATION, MAX_STAMP
from vcubeps.protocol.messages import AnyMessage, Incarnations, incarnation_of
from vcubeps.protocol.outputs import Output, RestartReason, Send
from vcubeps.protocol.voters import Voters


class StartAgain(Exception):
    """Raised inside a peer that finds out that its incarnation must end; the peer goes on as the next one."""

    def __init__(self, reason: RestartReason) -> None:
        super().__init__(reason)
        self.reason = reason


class LocalNode:
    """One incarnation of one node.

    Invariants: `dead` and `final` only grow and `final[x] <= dead[x]`; `fresh` is exactly what
    is dead and not final; `dead[x] >= known[x] - 1`: who deals with an incarnation has done with
    those before it. A map without an entry means incarnation 0 for `known`, none (−1) for `dead`
    and `final`.
    """

    __slots__ = (
        "clock", "counter", "dead", "dimension", "final", "fresh",
        "hops", "incarnation", "isolated", "known", "me", "nodes", "outputs", "up", "voters",
    )  # fmt: skip

    def __init__(
        self,
        me: int,
        nodes: frozenset[int],
        dimension: int,
        incarnation: int,
        known: Incarnations,
        voters: Voters | None,
        isolated: bool = False,
    ) -> None:
        self.me = me
        self.nodes = nodes
        self.dimension = dimension
        self.incarnation = incarnation
        self.counter = incarnation * COUNTERS_PER_INCARNATION
        """Last counter given out: one per subscription, leave and publication, over all topics."""
        self.hops = incarnation * COUNTERS_PER_INCARNATION
        """Last hop number given out."""
        self.clock = 0
        """Lamport time."""
        self.up = incarnation == 0
        """Admitted by the others; the first incarnations know each other from the start."""
        self.known = known
        """Node → newest incarnation of it that this node deals with."""
        self.dead: Incarnations = {node: newest - 1 for node, newest in known.items() if newest}
        """Node → newest incarnation of it declared crashed."""
        self.final: Incarnations = {}
        """Node → newest incarnation whose crash every survivor has flushed to this node."""
        self.fresh: Incarnations = dict(self.dead)
        self.voters = voters
        """Who decides when the network is cut; None: everybody goes on."""
        self.isolated = isolated
        """This node is in contact with no quorum, says the driver: it starts nothing."""
        self.outputs: list[Output] = []

    def next_counter(self) -> int:
        self.counter += 1
        return self.counter

    def tick(self) -> int:
        # It stops at the limit, which only a liar can have brought about, lest this node be blamed for his stamp.
        self.clock = min(self.clock + 1, MAX_STAMP)
        return self.clock

    def emit(self, output: Output) -> None:
        self.outputs.append(output)

    def send(self, destination: int, message: AnyMessage) -> None:
        self.outputs.append(Send(destination, message))

    def known_incarnation(self, node: int) -> int:
        return self.known.get(node, 0)

    def is_dead(self, node: int) -> bool:
        """Whether the incarnation of `node` that this node deals with has been declared crashed."""
        return self.dead.get(node, -1) >= self.known.get(node, 0)

    def is_of_the_dead(self, source: int, counter: int) -> bool:
        """Whether ⟨source, counter⟩ was issued by an incarnation that has been declared crashed."""
        return incarnation_of(counter) <= self.dead.get(source, -1)

    def has_quorum(self) -> bool:
        """Whether the nodes that are not dead here are a quorum of the voters."""
        return self.voters is None or self.voters.is_quorum(
            {node for node in self.nodes if not self.is_dead(node)}
        )

    def is_settled(self) -> bool:
        """Whether every crash known here is final here."""
        return not self.fresh

    def unknown_crashes(self, reported: Mapping[int, int]) -> Incarnations:
        """What of `reported` is news to this node, itself excepted."""
        dead = self.dead
        return {
            node: incarnation
            for node, incarnation in reported.items()
            if incarnation > dead.get(node, -1) and node != self.me
        }

    def declare_dead(self, crashes: Mapping[int, int]) -> None:
        for node, incarnation in crashes.items():
            if incarnation > self.dead.get(node, -1):
                self.dead[node] = incarnation
        self._renew_fresh()

    def settle(self) -> None:
        """Every known crash is final from now on."""
        self.final = dict(self.dead)
        self._renew_fresh()

    def check(self) -> None:
        """Raise AssertionError if an invariant does not hold. For tests."""
        for node, newest in self.final.items():
            assert newest <= self.dead.get(node, -1), f"node {node} is final as {newest} and not dead"
        not_final = {x: newest for x, newest in self.dead.items() if newest > self.final.get(x, -1)}
        assert self.fresh == not_final, f"fresh is {self.fresh}, dead and not final is {not_final}"
        for node, newest in self.known.items():
            assert self.dead.get(node, -1) >= newest - 1, (
                f"deals with incarnation {newest} of {node}, not done before"
            )
        assert self.me not in self.known and self.me not in self.dead, "counts itself among the others"
        assert incarnation_of(self.counter) == incarnation_of(self.hops) == self.incarnation, (
            "counters ran over"
        )

    def _renew_fresh(self) -> None:
        # A new dict each time: messages in flight share the old one.
        self.fresh = {
            node: incarnation
            for node, incarnation in self.dead.items()
            if self.final.get(node, -1) < incarnation
        }


def merge_newest(into: Incarnations, other: Mapping[int, int]) -> None:
    """Keep the newer incarnation of each node."""
    for node, incarnation in other.items():
        if incarnation > into.get(node, -1):
            into[node] = incarnation
