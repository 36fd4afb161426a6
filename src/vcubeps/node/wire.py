"""Messages of the protocol ↔ bytes. Types are checked here, values by the core.

A broadcast is encoded, or cut out of what was received, once; its copies share the bytes, so a node that
forwards never encodes a payload again.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from vcubeps.protocol.messages import (
    Ack,
    AnyMessage,
    Ask,
    Broadcast,
    Copy,
    Fence,
    Final,
    Flush,
    Hello,
    Incarnations,
    IsFinal,
    Over,
    Publication,
    Recipients,
    Taken,
    Welcome,
)


class WireError(ValueError):
    """The bytes are no message."""


class _CopyOnWire(msgspec.Struct, frozen=True, array_like=True, tag="COPY"):
    """`Copy` with its broadcast still, or already, in bytes."""

    origin: int
    target: int
    hop: int
    broadcast: msgspec.Raw
    recipients: Recipients | None
    fresh: Incarnations


_OnWire: TypeAlias = (
    _CopyOnWire | Ask | Ack | Flush | IsFinal | Final | Over | Hello | Welcome | Taken | Fence
)


_NOTHING = msgspec.Raw()

_SMALL_BYTES = 4096
"""A message up to here is quicker encoded anew for every child than taken apart and put together."""


def _is_small(broadcast: Broadcast) -> bool:
    return type(broadcast) is not Publication or (
        len(broadcast.items) == 1 and len(broadcast.items[0][1]) <= _SMALL_BYTES
    )


class Wire:
    """One node's encoder and decoder.

    Invariant: `_raw` is `_broadcast` in bytes. It is the one last seen: what a node forwards in answer to a
    copy, or sends to several children, comes right after. It may lie in the buffer of a connection, which is
    used again: `forget` ends that.
    """

    __slots__ = (
        "_broadcast",
        "_buffer",
        "_decode",
        "_decode_broadcast",
        "_decode_keeping_broadcast",
        "_encode",
        "_encode_into",
        "_raw",
        "remembers",
    )

    def __init__(self) -> None:
        encoder = msgspec.msgpack.Encoder()
        self._encode = encoder.encode
        self._encode_into = encoder.encode_into
        self._buffer = bytearray()
        """What is large grows here, in memory that is there already, and is copied once."""
        self._decode = msgspec.msgpack.Decoder(AnyMessage).decode
        self._decode_keeping_broadcast = msgspec.msgpack.Decoder(_OnWire).decode
        self._decode_broadcast = msgspec.msgpack.Decoder(Broadcast).decode
        self._broadcast: object = None
        self._raw = _NOTHING
        self.remembers = False
        """Whether there is something to forget."""

    def encode(self, message: AnyMessage) -> bytes:
        if type(message) is not Copy or _is_small(message.broadcast):
            return self._encode(message)
        if message.broadcast is not self._broadcast:
            self._raw = msgspec.Raw(self._encoded(message.broadcast))
            self._broadcast = message.broadcast
            self.remembers = True
        return self._encoded(
            _CopyOnWire(
                message.origin, message.target, message.hop, self._raw, message.recipients, message.fresh
            )
        )

    def _encoded(self, value: object) -> bytes:
        self._encode_into(value, self._buffer)
        return bytes(self._buffer)

    def forget(self) -> None:
        """The buffer of what was decoded last is given back."""
        self._broadcast = None
        self._raw = _NOTHING
        self.remembers = False

    def decode(self, body: bytes | memoryview) -> AnyMessage:
        try:
            if len(body) <= _SMALL_BYTES:
                small: AnyMessage = self._decode(body)
                return small
            message: _OnWire = self._decode_keeping_broadcast(body)
            if not isinstance(message, _CopyOnWire):
                return message
            broadcast = self._decode_broadcast(message.broadcast)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise WireError(f"a message that cannot be read: {error}") from None
        self._broadcast, self._raw, self.remembers = broadcast, message.broadcast, True
        return Copy(message.origin, message.target, message.hop, broadcast, message.recipients, message.fresh)
