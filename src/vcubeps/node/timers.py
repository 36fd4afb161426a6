"""What a node wants to do later. Time is what the shell says it is; the same times give the same order."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from math import inf


class Timer:
    """Something to do at a certain time, unless it is cancelled before."""

    __slots__ = ("_call", "is_pending")

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self.is_pending = True

    def cancel(self) -> None:
        self.is_pending = False

    def _run(self) -> None:
        self.is_pending = False
        self._call()


class Timers:
    """All timers of one node.

    >>> timers = Timers()
    >>> _ = timers.at(2.0, lambda: print("second"))
    >>> timers.at(1.0, lambda: print("first")).is_pending
    True
    >>> timers.next_s
    1.0
    >>> timers.run(3.0)
    first
    second
    >>> timers.next_s
    inf

    Invariant: no timer that is pending is due before `next_s`.
    """

    __slots__ = ("_heap", "_number", "next_s")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._number = 0
        """Of the last timer: those of one time run in the order in which they were set."""
        self.next_s = inf
        """When the next one may be due. It may be one that was cancelled: then nothing happens at that time."""

    def at(self, time_s: float, call: Callable[[], None]) -> Timer:
        timer = Timer(call)
        self._number += 1
        heappush(self._heap, (time_s, self._number, timer))
        self.next_s = self._heap[0][0]
        return timer

    def run(self, now_s: float) -> None:
        """Those that are due."""
        heap = self._heap
        while heap and (heap[0][0] <= now_s or not heap[0][2].is_pending):
            timer = heappop(heap)[2]
            if timer.is_pending:
                timer._run()
        self.next_s = heap[0][0] if heap else inf
