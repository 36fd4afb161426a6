"""The rounds of one system at one workload, and their medians."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field

from peers.measurement import Result

Value = Callable[[Result], float]


@dataclass
class Row:
    """One line of a table."""

    mode: str
    size: int
    system: str
    variant: str
    title: str
    results: list[Result] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """Why rounds gave no result."""

    def median(self, value: Value) -> float:
        return statistics.median(map(value, self.results))

    def extremes(self, value: Value) -> tuple[float, float]:
        values = [value(result) for result in self.results]
        return min(values), max(values)

    @property
    def missing(self) -> int:
        """Deliveries that never came, in all rounds: a median would hide one bad round."""
        return sum(result.missing for result in self.results)

    @property
    def loss(self) -> float:
        """Their share in what should have been delivered."""
        return self.missing / sum(result.missing + result.delivered for result in self.results)

    @property
    def late(self) -> int:
        return sum(result.late for result in self.results)

    @property
    def duplicates(self) -> int:
        return sum(result.duplicates for result in self.results)

    @property
    def faultless(self) -> bool:
        """Whether every message came to everyone exactly once and in the order of its source."""
        return not (self.missing or self.late or self.duplicates or self.failures)


def cpu_us(result: Result) -> float:
    return result.cpu_us


def rate(result: Result) -> float:
    return result.rate


def p50_us(result: Result) -> float:
    return result.p50_us if result.p50_us is not None else float("inf")


def p99_us(result: Result) -> float:
    return result.p99_us if result.p99_us is not None else float("inf")


def compared(mode: str) -> Value:
    """What systems are compared by in this mode."""
    return p50_us if mode == "latency" else cpu_us


def reference(rows: list[Row], mode: str, size: int, system: str) -> Row | None:
    """The row of a system without losses, if it was measured."""
    for row in rows:
        if (row.mode, row.size, row.system) == (mode, size, system) and row.results:
            return row
    return None
