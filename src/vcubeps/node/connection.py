"""One connection as the node sees it: how far it has got, whose it is, and the bytes that are not a whole frame yet.

It decides nothing. A connection is direct, or *relayed*: then its frames travel inside those of the links with a third
node.
"""

from __future__ import annotations

import enum

from vcubeps.node.frames import FrameReader
from vcubeps.node.timers import Timer

GREETING_BYTES_MAX = 4096
"""Of a frame from somebody who has not said who he is."""

NOBODY = -1


class Stage(enum.Enum):
    """How far a connection has got."""

    DIALLING = 1
    """This side has asked for it."""
    GREETING = 2
    """It is there; who the other side is has not been settled."""
    OPEN = 3
    """Its link uses it."""
    ENDED = 4


class Connection:
    """`other` is the node that it is with: known from the start if this side dials, and from its greeting if not."""

    __slots__ = ("channel", "deadline", "is_dialled", "is_paused", "name", "other", "reader", "stage", "via")

    def __init__(self, other: int = NOBODY, name: str = "", via: int = NOBODY, channel: int = 0) -> None:
        self.other = other
        self.is_dialled = other != NOBODY
        self.channel = channel
        """Tells relayed connections between the same two nodes apart; the one who dials chooses it."""
        self.stage = Stage.DIALLING if self.is_dialled else Stage.GREETING
        self.name = name
        """Where it comes from, for logs."""
        self.via = via
        """The node that relays it; `NOBODY` for a direct one."""
        self.is_paused = False
        """Enough waits to be written for now, says the shell."""
        self.reader = FrameReader(GREETING_BYTES_MAX)
        self.deadline: Timer | None = None
        """By when it has to be open."""

    @property
    def is_ended(self) -> bool:
        return self.stage is Stage.ENDED

    @property
    def room(self) -> memoryview:
        """Where the shell puts the next bytes that arrive; never empty."""
        return self.reader.room

    def __repr__(self) -> str:
        way = f" by {self.via}" if self.via != NOBODY else ""
        return f"Connection({self.other}{way}, {self.stage.name.lower()})"
