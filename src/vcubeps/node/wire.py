"""Messages of the protocol ↔ bytes. Types are checked here, values by the core.

A message is bytes in two parts, a head and a tail. The tail of a copy is its broadcast, which is encoded, or cut out of
what was received, once: all copies share these bytes, so a node never encodes a payload again, nor copies it.
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


class _CopyHead(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="COPY"):
    """`Copy` without its broadcast, which comes last."""

    origin: int
    target: int
    hop: int
    recipients: Recipients | None
    fresh: Incarnations


class _CopyOnWire(_CopyHead, frozen=True, array_like=True, gc=False, tag="COPY"):
    """`Copy` with its broadcast still in bytes."""

    broadcast: msgspec.Raw


_LENGTH = bytes([0x90 + 1 + len(_CopyOnWire.__struct_fields__)])
"""How the bytes of a `Copy` begin: an array of so many elements, its tag included. A `_CopyHead` has one less."""


_OnWire: TypeAlias = (
    _CopyOnWire | Ask | Ack | Flush | IsFinal | Final | Over | Hello | Welcome | Taken | Fence
)


_SMALL_BYTES = 4096
"""A message up to here is quicker encoded anew for every child than taken apart and put together."""


class Wire:
    """One node's encoder and decoder.

    Invariant: `_tail` or `_raw` is `_broadcast` in bytes. It is the one last seen: what a node forwards in answer to a
    copy, or sends to several children, comes right after. `_raw` may lie in the buffer of a connection, which is
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
        "_tail",
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
        self._raw: msgspec.Raw | None = None
        self._tail = b""
        self.remembers = False
        """Whether there is something to forget."""

    def encode(self, message: AnyMessage) -> tuple[bytes, bytes]:
        """Head and tail; a small message has all of it in its head."""
        if type(message) is not Copy:
            return self._encode(message), b""
        broadcast = message.broadcast
        if type(broadcast) is not Publication or (
            len(broadcast.batch.payloads) == 1 and len(broadcast.batch.payloads[0]) <= _SMALL_BYTES
        ):
            return self._encode(message), b""
        if broadcast is not self._broadcast:
            self._encode_into(broadcast, self._buffer)
            self._broadcast, self._raw, self._tail = broadcast, None, bytes(self._buffer)
            self.remembers = True
        elif self._raw is not None:
            self._tail, self._raw = bytes(self._raw), None
        head = self._encode(
            _CopyHead(message.origin, message.target, message.hop, message.recipients, message.fresh)
        )
        return _LENGTH + head[1:], self._tail

    def forget(self) -> None:
        """The buffer of what was decoded last is given back."""
        self._broadcast = self._raw = None
        self._tail = b""
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
        return Copy(message.origin, message.target, message.hop, message.recipients, message.fresh, broadcast)
