"""What happens to a subscription besides messages, and to a node, as typed values."""

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
    crashed: bool = False
    """Whether it counts as crashed; otherwise it has left."""


class Gap(msgspec.Struct, frozen=True):
    """Publications may be missing here; those that come after it are in causal order among themselves.

    The other nodes had taken this one for crashed; it has subscribed again.
    """

    topic: str
    reason: str
    after: dict[int, int] = msgspec.field(default_factory=dict)
    """Where it goes on, source → counter: of each, publications up to this one do not come any more, and those after it
    do."""


class Disconnected(msgspec.Struct, frozen=True):
    """The subscription had `slow="disconnect"`, was not read fast enough, and has ended."""

    topic: str
    waiting: int
    """Messages that had not been read; they still can be."""


Event: TypeAlias = Joined | Left | Gap | Disconnected
"""Of a subscription."""


class Suspected(msgspec.Struct, frozen=True):
    """`node` does not answer; others are asked whether they reach it."""

    node: int
    silent_s: float
    asked: tuple[int, ...]


class Crashed(msgspec.Struct, frozen=True):
    """This node takes `incarnation` of `node` for crashed: it has found that out, or others have told it."""

    node: int
    incarnation: int
    evidence: str


class Recovered(msgspec.Struct, frozen=True):
    """`incarnation` of `node` takes part from now on."""

    node: int
    incarnation: int


class LifeChanged(msgspec.Struct, frozen=True):
    """This node is at another stage of its life: starting, up, isolated, closing, closed or failed."""

    life: str
    reason: str


NodeEvent: TypeAlias = Suspected | Crashed | Recovered | LifeChanged
"""Of a node."""
