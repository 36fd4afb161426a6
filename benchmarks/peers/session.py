"""One member's part in a run: what every system does alike, whatever style it is written in."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from peers.board import Board
from peers.payload import HELLO, SMALLEST, payload
from peers.plan import Plan, Workload, plan_for
from peers.tally import Tally

TICK = 0.05
"""Look at the board at least every so many seconds."""
GREETING = 0.05
"""Seconds from one hello to the next."""


@dataclass(frozen=True)
class Report:
    """What a member measured between the start and the end of a run."""

    cpu_seconds: float
    published: int
    delivered: int
    late: int
    duplicates: int
    last_delivery_ns: int
    latencies_ns: bytes


class Session:
    """The workload of process `me`, and what has come of it so far."""

    def __init__(self, me: int, workload: Workload, board: Board) -> None:
        self._me = me
        self._workload = workload
        self._board = board
        self._padding = bytes(workload.size - SMALLEST)
        self.timed = workload.mode == "latency"
        """Whether the time from publication to delivery is measured."""
        self._tally = Tally(me, workload.processes, self.timed)
        self._plan: Plan
        self._published = 0
        self._finished = False
        self._cpu_at_start = 0.0
        self._last_delivery_ns = 0

    # -- before the start --

    def hello(self) -> bytes:
        return payload(self._me, HELLO, 0, self._padding)

    def greeting(self) -> bool:
        """Note whether all others have been heard; whether the start is still unknown, so that a hello is due."""
        self._board.ready[self._me] = len(self._tally.heard) == self._workload.processes - 1
        return self._board.start_ns == 0

    def until_start(self) -> float:
        """Seconds to sleep before the call of `start`."""
        return max(0.0, (self._board.start_ns - time.monotonic_ns()) / 1e9)

    def start(self) -> None:
        """CPU time counts from now on."""
        self._plan = plan_for(self._workload, self._me, self._board.start_ns, self._tally.reached)
        self._cpu_at_start = time.process_time()

    # -- until the end --

    @property
    def awaits_deliveries(self) -> bool:
        """Whether what is delivered may allow to publish more."""
        return self._workload.mode == "saturation"

    @property
    def over(self) -> bool:
        return self._board.over

    def due(self) -> int:
        """How many messages to publish now; after each that the system took, call `sent`."""
        if self._finished:
            if min(self._board.published) >= 0:
                self._board.done[self._me] = self._tally.complete(self._board.published)
            return 0
        number = self._plan.due(time.monotonic_ns(), self._published)
        if number is not None:
            return number
        self._finished = True
        self._board.published[self._me] = self._published
        return 0

    def payload(self) -> bytes:
        return payload(self._me, self._published, time.monotonic_ns(), self._padding)

    def sent(self) -> None:
        self._published += 1

    def pause(self) -> float:
        """Seconds until `due` may say something new although nothing was delivered; never above TICK."""
        if self._finished:
            return TICK
        return min(TICK, max(0.0, self._plan.pause_ns(time.monotonic_ns(), self._published) / 1e9))

    def take(self, arrived: Sequence[bytes]) -> None:
        """Check what was delivered, if anything."""
        if arrived:
            self._tally.take(arrived)
            self._last_delivery_ns = time.monotonic_ns()
            self._board.progress[self._me] += len(arrived)

    # -- after the end --

    def report(self) -> Report:
        return Report(
            cpu_seconds=time.process_time() - self._cpu_at_start,
            published=self._published,
            delivered=self._tally.delivered(),
            late=self._tally.late,
            duplicates=self._tally.duplicates,
            last_delivery_ns=self._last_delivery_ns,
            latencies_ns=self._tally.latencies_ns.tobytes(),
        )

    @property
    def closing(self) -> bool:
        return self._board.closing
