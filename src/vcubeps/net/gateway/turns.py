"""Who may write to a client when: a budget for each turn of the event loop, spent first come, first served.

The gateway lives in the loop of its node, whose links and detector have to get their turn whatever clients do. So what
is to be done for clients waits here, and each turn does as much of it as takes about a millisecond. Knows no clients
and no sockets.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

TURN_BYTES = 512 << 10
"""What may be written in one turn."""

GRANT_BYTES = 16 << 10
"""What every grant costs besides the bytes that are written: to wake a task takes as long as to write so many."""


class Waiting(Protocol):
    """Somebody with something to write."""

    @property
    def cost(self) -> int:
        """About how many bytes."""

    def go(self) -> None:
        """It is your turn: write now, or in the next turn of the loop, and enter again if you have more."""


class Turns:
    """Invariant: something has been spent in this turn while somebody waits, and then `_next` is scheduled."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        """`call_soon` calls a function in the next turn."""
        self._call_soon = call_soon
        self._queue: deque[Waiting] = deque()
        self._spent = 0
        """In this turn."""
        self._is_scheduled = False
        self._is_going_on = False

    def enter(self, waiting: Iterable[Waiting]) -> None:
        """They wait behind all who do already. It takes hardly longer for many than for one."""
        self._queue.extend(waiting)
        self._go_on()

    async def wait(self, cost: int = 0) -> None:
        """Until the caller may do something that costs so much; it does not yield if that is now."""
        if not self._queue and self._spent < TURN_BYTES:
            self._spend(cost)
            return
        caller = _Caller(cost)
        self.enter((caller,))
        await caller.turn

    def _go_on(self) -> None:
        if self._is_going_on:  # somebody whose turn it is has entered again
            return
        queue = self._queue
        self._is_going_on = True
        try:
            while queue and self._spent < TURN_BYTES:
                first = queue.popleft()
                self._spend(first.cost)
                first.go()
        finally:
            self._is_going_on = False

    def _spend(self, cost: int) -> None:
        self._spent += GRANT_BYTES + cost
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._next)

    def _next(self) -> None:
        self._is_scheduled = False
        self._spent = 0
        self._go_on()


class Steps:
    """Work that may be much, done step by step."""

    __slots__ = ("_step", "_turns")
    cost = 4 * GRANT_BYTES

    def __init__(self, step: Callable[[], bool], turns: Turns) -> None:
        """`step` does some of it, and says whether there is more."""
        self._step = step
        self._turns = turns

    def go(self) -> None:
        if self._step():
            self._turns.enter((self,))


class _Caller:
    """A task that waits."""

    __slots__ = ("cost", "turn")

    def __init__(self, cost: int) -> None:
        self.cost = cost
        self.turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def go(self) -> None:
        if not self.turn.done():  # it may have been cancelled
            self.turn.set_result(None)
