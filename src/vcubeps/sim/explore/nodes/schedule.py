"""From a seed and a setup to an explicit list of operations in virtual time.

As with peers, a schedule is a wish list: what makes no sense when its time comes is left out, so that any subset of
the operations is a schedule too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from random import Random
from typing import NamedTuple

from vcubeps.sim.explore.nodes.faults import stream
from vcubeps.sim.explore.nodes.setup import Setup
from vcubeps.sim.explore.operations import TOPICS

BEGIN_S = 1.0
"""By then the nodes have met, usually."""


class Operation(NamedTuple):
    """Something that happens at `at_s`; of what lasts, for `for_s`."""

    at_s: float
    kind: str
    """subscribe, unsubscribe, publish, bulk, start, kill, vanish, stop, close, cut, reset, narrow, deaf, stuck, slow,
    slow-disk, disk-failure, old-disk, clock, other-file or declare-dead."""
    node: int = -1
    text: str = ""
    """subscribe, unsubscribe, publish, bulk: the topic; cut: who is kept apart, as `operations.severed` reads it."""
    for_s: float = 0.0
    number: int = 1
    """publish: how many; bulk: of how many bytes; reset, declare-dead: the other node; old-disk: how many incarnations
    are missing on it."""

    @property
    def ends_s(self) -> float:
        return self.at_s + self.for_s

    def __str__(self) -> str:
        lasting = f" for {self.for_s:.3f} s" if self.for_s else ""
        if self.kind == "cut":
            return f"t={self.at_s:.3f} cut{lasting}: {self.text}"
        count = f" ×{self.number}" if self.kind == "publish" and self.number > 1 else ""
        if self.kind == "bulk":
            count = f" of {self.number} bytes"
        elif self.kind == "reset":
            count = f" of its connection with {self.number}"
        elif self.kind == "declare-dead":
            count = f" {self.number}"
        elif self.kind == "old-disk":
            count = f", {self.number} behind"
        return f"t={self.at_s:.3f} node {self.node}: {f'{self.kind} {self.text}'.rstrip()}{count}{lasting}"


def draw_operations(seed: int, setup: Setup) -> list[Operation]:
    """The operations of schedule `seed`, in order of time."""
    draw = _Draw(setup, lambda name: stream(seed, f"{name}: operations"))
    draw.starts()
    draw.applications()
    for name in sorted(setup.faults - {"late"}):
        draw.fault(name)
    draw.epilogue()
    return sorted(draw.operations)


class _Draw:
    def __init__(self, setup: Setup, stream: Callable[[str], Random]) -> None:
        self._stream = stream
        self.rng = stream("")
        """The chances of what is being drawn."""
        self.setup = setup
        self.nodes = setup.nodes
        self.topics = TOPICS[: setup.topics]
        self.operations: list[Operation] = []
        self.end_s = BEGIN_S
        self._limit_s = setup.detection.suspect_after_s

    def starts(self) -> None:
        """Nodes start at nearly the same time; a late one when it counts as crashed, or nearly so."""
        rng, of_late = self._stream("starts"), self._stream("late")
        late = of_late.choice(self.nodes) if "late" in self.setup.faults else None
        for node in self.nodes:
            at_s = rng.uniform(0.0, rng.choice((0.0, 0.1, 0.8)))
            if node == late:
                at_s = self.setup.detection.start_within_s * of_late.uniform(0.5, 1.5) + self._limit_s
            self._add(at_s, "start", node)
        for topic in self.topics:
            for node in rng.sample(self.nodes, rng.randint(1, len(self.nodes))):
                self._add(rng.uniform(0.5, BEGIN_S), "subscribe", node, topic)

    def applications(self) -> None:
        rng, at_s = self._stream("applications"), BEGIN_S
        self.rng = rng
        for _ in range(self.setup.operations):
            at_s += rng.expovariate(1.0 / self.setup.gap_s)
            self._application(at_s)
        self.end_s = max(self.end_s + 2 * self._limit_s, at_s)

    def _application(self, at_s: float) -> None:
        rng = self.rng
        kind = rng.choices(("publish", "subscribe", "unsubscribe"), (6.0, 2.0, 1.0))[0]
        count = rng.choice((1, 1, 2, 5)) if kind == "publish" else 1
        self._add(at_s, kind, rng.choice(self.nodes), rng.choice(self.topics), number=count)

    def fault(self, name: str) -> None:
        faults: Mapping[str, Callable[[float], None]] = {
            "kill": self._kill,
            "vanish": self._vanish,
            "stop": self._stop,
            "close": self._close,
            "rolling": self._rolling,
            "sides": self._sides,
            "pairs": self._pairs,
            "one-way": self._one_way,
            "flapping": self._flapping,
            "reset": self._reset,
            "narrow": self._lasting("narrow"),
            "bulk": self._bulk,
            "deaf": self._lasting("deaf"),
            "stuck": self._lasting("stuck"),
            "slow-disk": self._lasting("slow-disk"),
            "slow": self._lasting("slow"),
            "disk-failure": self._disk_failure,
            "old-disk": self._old_disk,
            "clock": self._lasting("clock"),
            "other-file": self._other_file,
            "declare-dead": self._declare_dead,
        }
        self.rng = self._stream(name)
        for _ in range(self.rng.choice((1, 1, 2))):
            faults[name](self.rng.uniform(0.5, self.end_s))

    def epilogue(self) -> None:
        """Life goes on after the last fault: what it broke must show."""
        self.rng = self._stream("epilogue")
        at_s = max(operation.ends_s for operation in self.operations) + self.rng.choice(
            (0.0, 0.2, self._limit_s)
        )
        for _ in range(3):
            at_s += self.rng.expovariate(1.0 / 0.05)
            self._application(at_s)

    # Faults.

    def _kill(self, at_s: float) -> None:
        for node in self._some():
            self._add(at_s, "kill", node)
            self._start_again(at_s, node)
            at_s += self.rng.choice((0.0, 0.01, 0.3))

    def _vanish(self, at_s: float) -> None:
        node = self._one()
        self._add(at_s, "vanish", node)
        self._start_again(at_s, node)

    def _stop(self, at_s: float) -> None:
        for node in self._some():
            self._add(at_s, "stop", node, for_s=self._while_s())

    def _close(self, at_s: float) -> None:
        for node in self._some():
            self._add(at_s, "close", node)
            self._start_again(at_s + self.rng.choice((0.0, 2.5)), node)
            at_s += self.rng.choice((0.0, 0.05, 0.5))

    def _rolling(self, at_s: float) -> None:
        for node in self.nodes:
            self._add(at_s, "close", node)
            at_s += self.rng.uniform(0.1, 2.5)
            self._add(at_s, "start", node)
            at_s += self.rng.uniform(0.0, 1.0)

    def _sides(self, at_s: float) -> None:
        self._add(at_s, "cut", text=self._islands(), for_s=self._while_s())

    def _pairs(self, at_s: float) -> None:
        pairs = [
            f"{x}/{y}"
            for x, y in (self.rng.sample(self.nodes, 2) for _ in range(self.rng.choice((1, 1, 2, 4))))
        ]
        for_s = 4 * self._limit_s if self.rng.random() < 0.25 else self._while_s()
        self._add(at_s, "cut", text=" ".join(pairs), for_s=for_s)

    def _one_way(self, at_s: float) -> None:
        node = self._one()
        others = [other for other in self.nodes if other != node]
        to = self.rng.sample(others, self.rng.choice((1, len(others))))
        self._add(at_s, "cut", text=" ".join(f"{node}>{other}" for other in to), for_s=self._while_s())

    def _flapping(self, at_s: float) -> None:
        text = self._islands()
        for _ in range(self.rng.choice((3, 5))):
            for_s = self._limit_s * self.rng.uniform(0.1, 1.6)
            self._add(at_s, "cut", text=text, for_s=for_s)
            at_s += for_s + self._limit_s * self.rng.uniform(0.05, 1.0)

    def _reset(self, at_s: float) -> None:
        for _ in range(self.rng.choice((1, 3, 10))):
            one, other = self.rng.sample(self.nodes, 2)
            self._add(at_s, "reset", one, number=other)
            at_s += self.rng.expovariate(1.0 / 0.2)

    def _bulk(self, at_s: float) -> None:
        node, topic = self._one(), self.rng.choice(self.topics)
        if self.rng.random() < 0.7:
            self._add(min(at_s, BEGIN_S), "subscribe", node, topic)
        for _ in range(self.rng.choice((1, 3, 8))):
            self._add(at_s, "bulk", node, topic, number=self.rng.choice((3_000, 10_000, 40_000, 150_000)))
            at_s += self.rng.choice((0.0, 0.0, 0.02, 0.2))

    def _lasting(self, kind: str) -> Callable[[float], None]:
        return lambda at_s: self._add(at_s, kind, self._one(), for_s=self._while_s())

    def _disk_failure(self, at_s: float) -> None:
        """It matters only if the node has to start again."""
        node = self._one()
        for_s = 6 * self._limit_s
        self._add(at_s, "disk-failure", node, for_s=for_s)
        self._add(at_s + 0.01, "stop", node, for_s=3 * self._limit_s)
        self._add(at_s + for_s + 0.1, "start", node)

    def _other_file(self, at_s: float) -> None:
        node = self._one()
        self._add(at_s, "kill", node)
        self._add(at_s + 0.1, "other-file", node, for_s=self._while_s())

    def _old_disk(self, at_s: float) -> None:
        """For less time than it takes to go up without the others."""
        node = self._one()
        self._add(at_s, "kill", node)
        at_s += self.rng.choice((0.001, 0.1, self._limit_s))
        self._add(
            at_s, "old-disk", node, for_s=self.rng.uniform(0.3, 1.5), number=self.rng.choice((1, 1, 2, 99))
        )

    def _declare_dead(self, at_s: float) -> None:
        """Once, or by somebody who does not give up."""
        one, other = self.rng.sample(self.nodes, 2)
        for _ in range(self.rng.choice((1, 1, 2, 8))):
            self._add(at_s, "declare-dead", one, number=other)
            at_s += self.rng.choice((0.02, 0.1, 0.3))

    def _start_again(self, at_s: float, node: int) -> None:
        if self.rng.random() < 0.85:
            self._add(at_s + self.rng.choice((0.001, 0.05, self._while_s())), "start", node)

    # Draws.

    def _one(self) -> int:
        return self.rng.choice(self.nodes)

    def _some(self) -> list[int]:
        return self.rng.sample(self.nodes, min(len(self.nodes), self.rng.choice((1, 1, 1, 2, 3))))

    def _while_s(self) -> float:
        """Shorter and longer than it takes to be suspected."""
        return (
            self._limit_s * self.rng.choice((0.1, 0.5, 0.8, 1.0, 1.3, 1.8, 2.5)) * self.rng.uniform(0.8, 1.2)
        )

    def _islands(self) -> str:
        shuffled = self.rng.sample(self.nodes, len(self.nodes))
        parts = min(len(shuffled), self.rng.choice((2, 2, 2, 3)))
        places = sorted(self.rng.sample(range(1, len(shuffled)), parts - 1))
        bounds = [0, *places, len(shuffled)]
        return "|".join(" ".join(map(str, sorted(shuffled[low:high]))) for low, high in pairwise(bounds))

    def _add(
        self, at_s: float, kind: str, node: int = -1, text: str = "", for_s: float = 0.0, number: int = 1
    ) -> None:
        self.operations.append(Operation(round(at_s, 6), kind, node, text, round(for_s, 6), number))
