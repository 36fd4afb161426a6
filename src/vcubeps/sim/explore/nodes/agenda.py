"""Virtual time: what is to happen when, in one order."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any


class Agenda:
    """What happens at one and the same time happens in the order in which it was put down.

    >>> agenda = Agenda()
    >>> agenda.after(2.0, print, "second")
    >>> agenda.after(1.0, print, "first")
    >>> agenda.run_until(3.0)
    first
    second
    >>> agenda.now_s
    3.0
    """

    __slots__ = ("_heap", "_number", "now_s")

    def __init__(self) -> None:
        self.now_s = 0.0
        self._heap: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._number = 0

    def at(self, at_s: float, call: Callable[..., object], *arguments: Any) -> None:
        self._number = number = self._number + 1
        heappush(self._heap, (at_s, number, call, arguments))

    def after(self, seconds: float, call: Callable[..., object], *arguments: Any) -> None:
        self._number = number = self._number + 1
        heappush(self._heap, (self.now_s + seconds, number, call, arguments))

    def run_until(self, at_s: float) -> None:
        heap = self._heap
        while heap and heap[0][0] <= at_s:
            self.now_s, _, call, arguments = heappop(heap)
            call(*arguments)
        self.now_s = at_s


class Clock:
    """One machine's: it goes a little too fast or too slow, and jumps when the machine has slept."""

    __slots__ = ("_agenda", "_ahead_s", "_rate")

    def __init__(self, agenda: Agenda, ahead_s: float, rate: float) -> None:
        self._agenda = agenda
        self._ahead_s = ahead_s
        self._rate = rate

    def now_s(self) -> float:
        return self._ahead_s + self._agenda.now_s * self._rate

    def when_s(self, shown_s: float) -> float:
        """The time at which it shows that, if it does not jump; or now, if it has."""
        return max(self._agenda.now_s, (shown_s - self._ahead_s) / self._rate + 1e-9)

    def jump(self, seconds: float) -> None:
        self._ahead_s += seconds
