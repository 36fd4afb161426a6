"""How a command that runs an event loop ends: at Ctrl-C or SIGTERM, in order, and at the second one at once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

INTERRUPTED = 130
END_WITHIN_S = 1.5
"""How long a command that talks to a gateway may take to say goodbye to it."""

_Result = TypeVar("_Result")


def run(main: Coroutine[Any, Any, _Result], end_within_s: float | None = END_WITHIN_S) -> _Result:
    """The result of `main`. The first signal cancels it and raises KeyboardInterrupt when it has cleaned up.

    If that takes longer than `end_within_s`, or at a second signal, the process ends at once.
    """
    from vcubeps.net import loops  # noqa: PLC0415 - for the commands that need it

    try:
        return loops.run(_guarded(main, end_within_s))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _guarded(main: Coroutine[Any, Any, _Result], end_within_s: float | None) -> _Result:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(main)
    signals: list[int] = []

    def on_signal(number: int) -> None:
        signals.append(number)
        if len(signals) > 1:
            os._exit(INTERRUPTED)
        task.cancel()
        if end_within_s is not None:
            loop.call_later(end_within_s, os._exit, INTERRUPTED)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)
    return await task
