"""From a seed to a list of faults: when, what, whom, for how long. Pure, so the same seed gives the same plan.

Nearly all the time the plan leaves a quorum of living nodes that reach each other, so that progress is owed. Only
`thirds` and `many` take it away, for seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from random import Random

import msgspec

from vcubeps.chaos.faults import ALONE, CUTS, KINDS, MANNERS
from vcubeps.mixing import mix
from vcubeps.protocol.voters import Voters

NODES_MIN, NODES_MAX = 3, 64
FIRST_S = 1.0
"""Before it nothing happens."""
QUIET_S = 3.0
"""Nor at the end."""
SLACK_S = 6.0
"""So long after the end of a fault its victims do not count for a quorum, nor are harmed again: they come back."""

_ROLLING_MAX = 6
_ROLLING_EACH_S = 5.0
"""About how long a node takes to end, start, and be let in; what it does take, the conductor sees."""
_TRIES = 20


class Fault(msgspec.Struct, frozen=True):
    """Something that happens at `at_s` and lasts `for_s`."""

    number: int
    at_s: float
    kind: str
    nodes: tuple[int, ...]
    """Whom it happens to. Of a pair, both; of sides, the first side: the one that goes on, if any does."""
    for_s: float = 0.0
    sides: tuple[tuple[int, ...], ...] = ()
    """The other sides of a cut."""
    manner: str = ""
    """How a cut looks."""

    @property
    def ends_s(self) -> float:
        return self.at_s + self.for_s

    def severed(self) -> frozenset[tuple[int, int]]:
        """From whom to whom nothing passes meanwhile."""
        groups = (self.nodes, *self.sides)
        if self.kind == "pair":
            groups = (self.nodes[:1], self.nodes[1:])
        if self.kind not in CUTS:
            return frozenset()
        forth = {
            (one, other)
            for place, group in enumerate(groups)
            for following in groups[place + 1 :]
            for one in group
            for other in following
        }
        return frozenset(forth if self.kind == "one-way" else forth | {(b, a) for a, b in forth})

    def away(self, count: int) -> frozenset[int]:
        """Those of `count` nodes that cannot take part meanwhile, or need not."""
        if self.kind in ("thirds", "many"):
            return frozenset(range(count))
        if self.kind == "halves":
            return frozenset(self.sides[0])
        if self.kind in ("kill", "stop", "close", "isolate", "rolling"):
            return frozenset(self.nodes)
        if self.kind == "one-way" and len(self.sides[0]) > 1:
            return frozenset(self.nodes)
        return frozenset()

    @property
    def victims(self) -> tuple[int, ...]:
        """Whom it happens to, and who have to come back from it."""
        if self.kind == "halves":
            return self.sides[0]
        if self.kind == "thirds":
            return tuple(sorted((*self.nodes, *(node for side in self.sides for node in side))))
        return self.nodes

    def may_restart(self, count: int) -> frozenset[int]:
        """Those that it may make start again as a new incarnation, in the same process."""
        return self.away(count) if self.kind in (*CUTS, "stop", "many") else frozenset()

    def __str__(self) -> str:
        lasting = f" for {self.for_s:.1f} s" if self.for_s else ""
        return f"{self.kind} {_who(self)}{lasting}{f', {self.manner}' if self.manner else ''}"


def _who(fault: Fault) -> str:
    """
    >>> _who(Fault(0, 1.0, "halves", (0, 1), 6.0, ((2, 3),), "silent"))
    '0 1|2 3'
    """
    first, others = _listed(fault.nodes), [_listed(side) for side in fault.sides]
    if fault.kind in ("halves", "thirds"):
        return "|".join([first, *others])
    if fault.kind == "one-way":
        return f"{first} > {'all' if len(fault.sides[0]) > 1 else others[0]}"
    return "/".join(map(str, fault.nodes)) if fault.kind == "pair" else first


def _listed(nodes: Iterable[int]) -> str:
    return " ".join(map(str, nodes))


def is_quorum(nodes: Collection[int], count: int) -> bool:
    """Whether `nodes` are a quorum where all of `count` nodes vote."""
    return Voters(range(count)).is_quorum(nodes)


def draw(seed: int, count: int, seconds: float, per_minute: float, kinds: Collection[str]) -> list[Fault]:
    """The faults of `seconds` on `count` nodes, in order of time, about `per_minute`.

    Kinds come in rounds, so that a plan that is long enough has every one.

    >>> for fault in draw(1, 4, 40.0, 8.0, ["kill", "pair"]):
    ...     print(f"{fault.at_s:.1f} s: {fault}")
    5.6 s: pair 0/3 for 6.1 s, silent
    8.4 s: kill 2 for 0.3 s
    18.7 s: kill 2 for 1.9 s
    23.5 s: kill 1 for 1.0 s
    26.8 s: pair 2/0 for 1.0 s, silent
    """
    return _Draw(Random(mix(seed, 41)), count, seconds, per_minute, sorted(kinds)).faults()


class _Draw:
    def __init__(
        self, rng: Random, count: int, seconds: float, per_minute: float, kinds: Sequence[str]
    ) -> None:
        self._rng = rng
        self._count = count
        self._nodes = range(count)
        self._until_s = seconds - QUIET_S
        self._gap_s = 60.0 / per_minute
        self._kinds = kinds
        self._faults: list[Fault] = []
        self._deck: list[str] = []

    def faults(self) -> list[Fault]:
        at_s = FIRST_S
        while True:
            at_s += self._rng.uniform(0.1, 1.9) * self._gap_s
            fault = self._fault(self._kind(), at_s)
            if fault.ends_s > self._until_s:
                return self._faults
            self._faults.append(fault)
            at_s = fault.at_s

    def _kind(self) -> str:
        if not self._deck:
            self._deck = [kind for kind in self._kinds for _ in range(KINDS[kind].weight)]
            self._rng.shuffle(self._deck)
        return self._deck.pop()

    def _fault(self, kind: str, at_s: float) -> Fault:
        """The first of some drawn ones that leaves a quorum beside what happens meanwhile; else later."""
        while True:
            for _ in range(_TRIES):
                fault = self._drawn(kind, round(at_s, 3))
                if self._fits(fault):
                    return fault
            at_s += 1.0

    def _fits(self, fault: Fault) -> bool:
        meanwhile = [other for other in self._faults if other.ends_s + SLACK_S > fault.at_s]
        if any(fault.kind in ALONE or other.kind in ALONE for other in meanwhile):
            return False
        if any(not set(fault.victims).isdisjoint(other.victims) for other in meanwhile):
            return False
        if fault.kind in ALONE:
            return True
        # Who may be apart from the rest: those that are away, and one of each pair, as if no relay helped.
        apart = set(fault.away(self._count)) | self._half_of_a_pair(fault)
        for other in meanwhile:
            apart |= other.away(self._count) | self._half_of_a_pair(other)
        return is_quorum(set(self._nodes) - apart, self._count)

    @staticmethod
    def _half_of_a_pair(fault: Fault) -> set[int]:
        return (
            {max(fault.nodes)}
            if fault.kind == "pair" or (fault.sides and len(fault.sides[0]) == 1)
            else set()
        )

    def _drawn(self, kind: str, at_s: float) -> Fault:
        number = len(self._faults)
        nodes, sides = self._whom(kind)
        for_s = round(self._while_s(kind, len(nodes)), 3)
        manner = self._rng.choice(MANNERS) if kind in CUTS else ""
        return Fault(number, at_s, kind, nodes, for_s, sides, manner)

    def _whom(self, kind: str) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
        rng, count = self._rng, self._count
        shuffled = rng.sample(self._nodes, count)
        one = shuffled[0]
        if kind in ("kill", "stop"):
            return tuple(shuffled[: rng.choice((1, 1, 2))]), ()
        if kind == "rolling":
            return tuple(shuffled[: min(_ROLLING_MAX, max(1, count // 2))]), ()
        if kind == "many":
            return tuple(sorted(shuffled[: count // 2 + 1])), ()
        if kind == "pair":
            return tuple(shuffled[:2]), ()
        if kind == "isolate":
            return (one,), (tuple(sorted(shuffled[1:])),)
        if kind == "one-way":
            return (one,), (tuple(sorted(shuffled[1 : rng.choice((2, count))])),)
        if kind == "halves":
            sides = [tuple(sorted(shuffled[: count // 2])), tuple(sorted(shuffled[count // 2 :]))]
            sides.sort(key=lambda side: not is_quorum(side, count))
            return sides[0], (sides[1],)
        if kind == "thirds":
            low, high = count // 3, 2 * count // 3
            parts = sorted(
                tuple(sorted(part)) for part in (shuffled[:low], shuffled[low:high], shuffled[high:])
            )
            if any(is_quorum(part, count) for part in parts):  # of four nodes, two may be
                return self._whom(kind)
            return parts[0], tuple(parts[1:])
        return (one,), ()

    def _while_s(self, kind: str, victims: int) -> float:
        """Shorter and longer than it takes to be suspected."""
        rng = self._rng
        if kind == "reset":
            return 0.0
        if kind == "rolling":
            return victims * _ROLLING_EACH_S
        if kind == "many":
            return rng.uniform(0.3, 2.0)
        if kind == "thirds":
            return rng.uniform(2.0, 5.0)
        if kind == "halves":
            return rng.uniform(4.0, 9.0)
        if kind == "slow":
            return rng.uniform(2.0, 8.0)
        return float(rng.choice((0.3, 1.0, 2.0, 3.0, 6.0, 10.0)) * rng.uniform(0.8, 1.2))
