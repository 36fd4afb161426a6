"""Events for one listener: kept until they are read, the newest ones if they are many."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

_EVENTS_MAX = 4096

_Event = TypeVar("_Event")


class EventQueue(AsyncIterator[_Event], Generic[_Event]):
    """Several tasks may read from one: each event goes to one of them."""

    def __init__(self) -> None:
        self._events: deque[_Event] = deque(maxlen=_EVENTS_MAX)
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._ended = False

    def put(self, event: _Event) -> None:
        self._events.append(event)
        self._wake(1)

    def end(self) -> None:
        self._ended = True
        self._wake(len(self._waiters))

    async def __anext__(self) -> _Event:
        while not self._events:
            if self._ended:
                raise StopAsyncIteration
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        event = self._events.popleft()
        if self._events:  # whoever was woken for it may have been cancelled
            self._wake(1)
        return event

    def _wake(self, count: int) -> None:
        while count and self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1
