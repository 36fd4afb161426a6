"""What a node tells whoever writes down what happened (`trace`), in nanoseconds since 1970."""

from __future__ import annotations

from typing import Protocol

from vcubeps.protocol.outputs import Deliver, Received, Started

NOBODY_ASKED_NS = 0
"""Given as the time of the request where a membership ended otherwise: others may have done without this node before
it knew, so nothing of that membership can be judged."""


class Tracer(Protocol):
    """Called on the path of every batch: it must be quick."""

    def published(self, topic: str, counter: int, now_ns: int) -> None: ...
    def started(self, batch: Started, now_ns: int) -> None: ...
    def acknowledged(self, topic: str, counter: int, now_ns: int) -> None: ...
    def received(self, batch: Received, now_ns: int) -> None: ...
    def delivered(self, batch: Deliver, now_ns: int) -> None: ...
    def joined(self, topic: str, asked_ns: int, now_ns: int) -> None: ...
    def leaving(self, topic: str, asked_ns: int) -> None:
        """The application has asked to leave it, and is delivered nothing any more; `left` follows if all goes well."""

    def left(self, topic: str, asked_ns: int, now_ns: int) -> None:
        """Nothing, if it had not joined."""

    def restarted(self, now_ns: int) -> None:
        """It was taken for crashed: all memberships are over, those too whose leave was under way."""

    async def close(self) -> None: ...
