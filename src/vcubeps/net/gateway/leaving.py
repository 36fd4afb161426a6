"""Subscriptions on their way out, which nobody waits for."""

from __future__ import annotations

import asyncio

from vcubeps.net.subscription import Subscription


class Leaving:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, subscription: Subscription) -> None:
        task = asyncio.create_task(subscription.close())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """All are left when it returns; that the other nodes know is not waited for."""
        await asyncio.sleep(0)  # the first step of each task leaves, the rest only waits
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
