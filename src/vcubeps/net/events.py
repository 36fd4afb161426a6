"""What happens to a subscription besides messages, as typed values."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class Joined(msgspec.Struct, frozen=True):
    """`node` is a member of the topic from now on."""

    topic: str
    node: int


class Left(msgspec.Struct, frozen=True):
    """`node` is no longer a member of the topic."""

    topic: str
    node: int


class Gap(msgspec.Struct, frozen=True):
    """Publications may be missing here; those that come after it are in causal order among themselves.

    The other nodes had taken this one for crashed; it has subscribed again.
    """

    topic: str
    reason: str


class Disconnected(msgspec.Struct, frozen=True):
    """The subscription had `slow="disconnect"`, was not read fast enough, and has ended."""

    topic: str
    waiting: int
    """Messages that had not been read; they still can be."""


Event: TypeAlias = Joined | Left | Gap | Disconnected
