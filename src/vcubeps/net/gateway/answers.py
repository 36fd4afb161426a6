"""What the doors for topics and nodes answer."""

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


class DeclaredDead(msgspec.Struct, frozen=True):
    """The others are told that `node` has crashed."""

    node: int


class MembersOf(msgspec.Struct, frozen=True):
    """The nodes that are members of a topic."""

    topic: str
    members: tuple[int, ...]
