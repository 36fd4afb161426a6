"""What a schedule has if a quorum of the nodes decides: the voters, the limits of their probes, the shapes of cuts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from vcubeps.mixing import mix

SHAPES: Mapping[str, str] = {
    "sides": "two sides that do not reach each other",
    "three sides": "three of them",
    "cascade": "one cut after the other while the earlier ones last",
    "flapping": "a cut that comes and goes",
    "pairs": "some pairs that do not reach each other while all others do",
    "overlap": "two sides with nodes between them that reach both",
    "one way": "what some nodes send does not arrive, what they are sent does",
    "lost probes": "probes get lost, messages do not",
    "pause": "a process is stopped for a while",
    "cut and crash": "nodes crash, stop and come back while the network is cut",
}
"""What happens to the network of such a schedule; most have several of these."""

AGE_MAX = 0.5
"""Oldest answer of a node that answers, as a part of `Voting.contact`."""


@dataclass(frozen=True, slots=True)
class Voting:
    voters: tuple[int, ...]
    relays: bool
    """Two nodes that do not reach each other talk through a third that reaches both."""
    contact: int
    """Ticks after which an answered probe counts as contact no more."""
    suspicion: int
    """Ticks of silence after which a node is taken for crashed: more than `contact`."""
    hasty: bool
    """A node that is back in contact blames those who were silent while it was not, at once."""
    shapes: frozenset[str]
    """Names of `SHAPES` in this schedule."""

    def without(self, node: int) -> Voting:
        """The same among fewer nodes; the last voter stays."""
        rest = tuple(voter for voter in self.voters if voter != node)
        return replace(self, voters=rest or self.voters)


def draw_voting(seed: int, nodes: tuple[int, ...]) -> Voting:
    rng = Random(mix(seed, 13))
    count = rng.choice((2, 3, 4, 5))
    some = tuple(sorted(rng.sample(nodes, min(count, len(nodes)))))
    contact = rng.choice((300, 300, 600, 1500))
    return Voting(
        voters=nodes if rng.random() < 0.7 else some,
        relays=rng.random() < 0.5,
        contact=contact,
        suspicion=contact * rng.choice((5, 6, 8, 12)) // 4,
        hasty=rng.random() < 0.2,
        shapes=frozenset(rng.sample(sorted(SHAPES), rng.choice((1, 1, 1, 2, 2, 3)))),
    )
