"""Cuts of the network that are aimed at voters: which pairs are severed, when, and what goes on meanwhile.

They are drawn apart from everything else in a schedule. The moments that matter lie where contact ends, where suspicion
begins and where the cut is healed, so cuts last about as long as these limits, and life goes on around them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from random import Random

from vcubeps.mixing import mix
from vcubeps.sim.explore.operations import TOPICS, USUAL_DELAY, Operation
from vcubeps.sim.explore.options import Options
from vcubeps.sim.explore.voting import Voting


def draw_cuts(seed: int, options: Options, voting: Voting, begin: int, end: int) -> list[Operation]:
    """The operations of all shapes; the first begin between `begin` and `end`, the others follow."""
    draw = _Draw(Random(mix(seed, 14)), options, voting, begin, end)
    for shape in sorted(voting.shapes):
        draw.shape(shape)
    return draw.operations


class _Draw:
    def __init__(self, rng: Random, options: Options, voting: Voting, begin: int, end: int) -> None:
        self.rng = rng
        self.options = options
        self.voting = voting
        self.begin = begin
        self.end = end
        self.operations: list[Operation] = []

    def shape(self, name: str) -> None:
        draws: Mapping[str, Callable[[int], None]] = {
            "sides": self._sides,
            "three sides": self._three_sides,
            "cascade": self._cascade,
            "flapping": self._flapping,
            "pairs": self._pairs,
            "overlap": self._overlap,
            "one way": self._one_way,
            "lost probes": self._lost_probes,
            "pause": self._pause,
            "cut and crash": self._cut_and_crash,
        }
        for _ in range(self.rng.choice((1, 1, 2))):
            if self.rng.random() < 0.6:
                # Clear of what came before.
                time = self.end = self.end + 3 * self.voting.suspicion + 10 * USUAL_DELAY
            else:
                time = self.rng.randint(self.begin, max(self.begin + USUAL_DELAY, self.end))
            draws[name](time)

    # Shapes.

    def _sides(self, time: int) -> None:
        self._cut(time, self._duration(), _islands(self._split(2)))

    def _three_sides(self, time: int) -> None:
        self._cut(time, self._duration(), _islands(self._split(3)))

    def _cascade(self, time: int) -> None:
        """One more of these while the earlier ones last; some end in between."""
        for _ in range(self.rng.choice((2, 3, 4))):
            self._cut(time, self._duration(), _islands(self._split(2)))
            time += self.rng.randint(0, self.voting.suspicion)

    def _flapping(self, time: int) -> None:
        text = _islands(self._split(self.rng.choice((2, 2, 3))))
        for _ in range(self.rng.choice((2, 4, 6))):
            if self.rng.random() < 0.3:
                text = _islands(self._split(2))
            ticks = self.rng.choice((self.voting.contact // 2, self.voting.contact, self.voting.suspicion))
            ticks = self.rng.randint(ticks // 2, 2 * ticks)
            self._cut(time, ticks, text)
            time += ticks + self.rng.randint(1, self.rng.choice((50, 300, self.voting.contact)))

    def _pairs(self, time: int) -> None:
        one, *others = self._shuffled()
        if self.rng.random() < 0.5:
            pairs = [(one, other) for other in others[: self.rng.randint(1, len(others))]]
        else:
            group = [one, *others[: self.rng.randint(1, len(others))]]
            pairs = [(x, y) for x, y in product(group, group) if x < y and self.rng.random() < 0.7]
        self._cut(time, self._duration(), " ".join(f"{x}/{y}" for x, y in pairs))

    def _overlap(self, time: int) -> None:
        """Two sides that would both be majorities with those between them."""
        nodes = self._shuffled()
        between = self.rng.randint(1, max(1, len(nodes) // 3))
        rest = nodes[between:]
        half = max(1, len(rest) // 2)
        self._cut(time, self._duration(), " ".join(f"{x}/{y}" for x, y in product(rest[:half], rest[half:])))

    def _one_way(self, time: int) -> None:
        one, other = self._split(2)
        self._cut(time, self._duration(), " ".join(f"{x}>{y}" for x, y in product(one, other)))

    def _lost_probes(self, time: int) -> None:
        one, other = self._split(2)
        pairs = [(x, y) for x, y in product(one, other) if self.rng.random() < 0.8]
        text = " ".join(f"{x}/{y}" for x, y in pairs)
        self._add(time, "lose-probes", self.options.nodes[0], text, self._duration())
        self._live(time, self.operations[-1].other)

    def _pause(self, time: int) -> None:
        nodes = self._shuffled()
        for node in nodes[: self.rng.randint(1, max(1, len(nodes) // 2))]:
            self._add(time + self.rng.randint(0, USUAL_DELAY), "pause", node, "", self._duration())
        if self.rng.random() < 0.4:
            self._cut(time + self.rng.randint(0, self.voting.suspicion), self._duration(), self._any_text())
        else:
            self._live(time, self._duration())

    def _cut_and_crash(self, time: int) -> None:
        ticks = self._duration()
        self._cut(time, ticks, self._any_text())
        if not self.options.crashes:
            return
        for node in self._shuffled()[: self.rng.choice((1, 1, 2, 3))]:
            moment = time + self.rng.randint(-self.voting.contact, ticks + self.voting.contact)
            kind = self.rng.choice(("crash", "reboot", "reboot", "stop"))
            self._add(max(0, moment), kind, node)
            if kind != "reboot" and self.options.recover:
                self._add(max(0, moment) + self.rng.randint(1, 2 * self.voting.suspicion), "recover", node)

    # Draws.

    def _any_text(self) -> str:
        shape = self.rng.choice(("sides", "three", "one way"))
        if shape == "one way":
            one, other = self._split(2)
            return " ".join(f"{x}>{y}" for x, y in product(one, other))
        return _islands(self._split(2 if shape == "sides" else 3))

    def _shuffled(self) -> list[int]:
        return self.rng.sample(self.options.nodes, len(self.options.nodes))

    def _split(self, parts: int) -> list[list[int]]:
        """The nodes in so many parts, of any or of about equal size; fewer if there are not enough nodes."""
        nodes = self._shuffled()
        parts = min(parts, len(nodes))
        if self.rng.random() < 0.5:
            borders = [len(nodes) * part // parts for part in range(1, parts)]
        else:
            borders = sorted(self.rng.sample(range(1, len(nodes)), parts - 1))
        return [nodes[low:high] for low, high in zip([0, *borders], [*borders, len(nodes)], strict=True)]

    def _duration(self) -> int:
        """About as long as contact lasts, as suspicion takes, or longer."""
        ticks = self.rng.choice((self.voting.contact, self.voting.suspicion, 2 * self.voting.suspicion))
        return self.rng.randint(ticks // 2, 2 * ticks)

    def _cut(self, time: int, ticks: int, text: str) -> None:
        if text:
            self._add(time, "cut", self.options.nodes[0], text, ticks)
            self._live(time, ticks)

    def _live(self, time: int, ticks: int) -> None:
        """Publications and joins while it lasts, and soon after; some joins of a topic that nobody is in yet."""
        topics = TOPICS[: self.options.topics]
        for _ in range(self.rng.choice((2, 5, 10))):
            moment = time + self.rng.randint(0, ticks + 10 * USUAL_DELAY)
            node, topic = self.rng.choice(self.options.nodes), self.rng.choice(topics)
            if self.rng.random() < 0.6:
                self._add(moment, "publish", node, topic, self.rng.choice((1, 1, 3)))
            elif self.options.joins:
                self._add(moment, "subscribe", node, topic)

    def _add(self, time: int, kind: str, node: int, topic: str = "", other: int = 0) -> None:
        self.operations.append(Operation(time, kind, node, topic, other))


def _islands(parts: Iterable[Iterable[int]]) -> str:
    return "|".join(" ".join(map(str, sorted(part))) for part in parts)
