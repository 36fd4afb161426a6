"""What a node's peer is asked, for those who observe it: what it answers is told as the protocol's outputs."""

from __future__ import annotations

import msgspec


class Join(msgspec.Struct, frozen=True):
    """The peer is asked for the membership of `topic`."""

    topic: str


class Publish(msgspec.Struct, frozen=True):
    """The peer is asked to publish `payload`, which it accepts."""

    topic: str
    payload: bytes


class Leave(msgspec.Struct, frozen=True):
    """The peer is asked to leave `topic`."""

    topic: str
