"""What POST /topics/{topic} and GET /topics/{topic}/members answer."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class Published(msgspec.Struct, frozen=True):
    """A publication that was accepted; ⟨source, counter⟩ identifies it."""

    topic: str
    source: int
    counter: int
    acknowledged: Annotated[
        bool, Meta(description="whether every subscriber has received it; false if that was not asked for")
    ]


class MembersOf(msgspec.Struct, frozen=True):
    """The nodes that are members of a topic."""

    topic: str
    members: tuple[int, ...]
