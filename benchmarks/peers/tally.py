"""Check what a member is delivered: every number of every source, exactly once, in the order of its source."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterable, Sequence

from peers.payload import HELLO, read_all, read_number


class Tally:
    """What process `me` has been delivered so far; only what others published counts as a delivery."""

    def __init__(self, me: int, processes: int, timed: bool) -> None:
        self._me = me
        self._next = [0] * processes
        """For every source, one more than the highest number delivered."""
        self._missing: list[set[int]] = [set() for _ in range(processes)]
        """For every source, the numbers below that which have not come."""
        self.heard: set[int] = set()
        """The others whose hello has come."""
        self.late = 0
        """Deliveries after one with a higher number of the same source."""
        self.duplicates = 0
        self.latencies_ns = array("q")
        self.take = self._take_timed if timed else self._take

    def _take(self, payloads: Iterable[bytes]) -> None:
        expected = self._next  # a local name: this loop runs for every delivery of every system
        for payload in payloads:
            source, number = read_number(payload)
            if expected[source] == number:
                expected[source] = number + 1
            else:
                self._unexpected(source, number)

    def _take_timed(self, payloads: Iterable[bytes]) -> None:
        now = time.monotonic_ns()
        for payload in payloads:
            source, number, sent_ns = read_all(payload)
            if source != self._me and number != HELLO:
                self.latencies_ns.append(now - sent_ns)
            if self._next[source] == number:
                self._next[source] = number + 1
            else:
                self._unexpected(source, number)

    def _unexpected(self, source: int, number: int) -> None:
        if source == self._me:
            return  # a member's own messages are none of the deliveries that are compared
        if number == HELLO:
            self.heard.add(source)
        elif number > self._next[source]:
            self._missing[source].update(range(self._next[source], number))
            self._next[source] = number + 1
        elif number in self._missing[source]:
            self._missing[source].remove(number)
            self.late += 1
        else:
            self.duplicates += 1

    def reached(self) -> int:
        """So many messages of every other process have come, or have been overtaken by one that has."""
        return min(number for source, number in enumerate(self._next) if source != self._me)

    def delivered(self) -> int:
        """Different messages of others that have come."""
        return sum(
            number - len(missing)
            for source, (number, missing) in enumerate(zip(self._next, self._missing, strict=True))
            if source != self._me
        )

    def complete(self, published: Sequence[int]) -> bool:
        """Whether all has come, if the processes published so many messages each."""
        return self.delivered() == sum(published) - published[self._me]
