"""What the application receives, and how payloads are stamped and coded."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from vcubeps.node.settings import STAMP_BYTES
from vcubeps.protocol.errors import UsageError
from vcubeps.protocol.messages import Barrier
from vcubeps.protocol.outputs import Deliver

_STAMP = struct.Struct(">Q")
assert _STAMP.size == STAMP_BYTES


def stamped(payload: bytes, now_ns: int) -> bytes:
    """`payload` as it travels: with the time of publication before it."""
    return _STAMP.pack(now_ns) + payload


def stamp_ns(data: bytes) -> int:
    """When `data` was published; 0 if it is too short to say so."""
    return int(_STAMP.unpack_from(data)[0]) if len(data) >= STAMP_BYTES else 0


@dataclass(frozen=True, slots=True)
class Codec:
    """How values become payloads and back."""

    name: str
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]

    def refusal(self, value: object, error: Exception) -> UsageError:
        """Why `value` cannot be published."""
        if isinstance(error, UsageError):
            return error
        return UsageError(
            f"{type(value).__name__} cannot be encoded as {self.name}: {error}; publish another value"
        )


def _bytes_only(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    raise UsageError(
        f'a payload is bytes, got {type(value).__name__}: encode it, or subscribe with codec="json" or codec="msgpack"'
    )


CODECS: Mapping[str, Codec] = {
    "bytes": Codec("bytes", _bytes_only, bytes),
    "json": Codec("json", msgspec.json.encode, msgspec.json.decode),
    "msgpack": Codec("msgpack", msgspec.msgpack.encode, msgspec.msgpack.decode),
}


def codec_named(name: str) -> Codec:
    codec = CODECS.get(name)
    if codec is None:
        raise UsageError(f"there is no codec {name!r}: choose one of {', '.join(CODECS)}")
    return codec


class Message(msgspec.Struct, frozen=True, gc=False):
    """One publication, delivered in causal order.

    ⟨source, counter⟩ identifies it within its topic's cluster; counters of a source ascend, with gaps.
    """

    topic: str
    source: int
    """The node that published it."""
    counter: int
    _stamped: bytes
    _comes_after: Barrier | int
    """The barrier, or in a batch the counter of the one before it."""
    _codec: Codec

    @property
    def payload(self) -> bytes:
        return self._stamped[STAMP_BYTES:]

    @property
    def value(self) -> Any:
        """The payload, decoded by the codec of the subscription; bytes without one.

        Raises `msgspec.DecodeError` if the publisher used another codec.
        """
        return self._codec.decode(self._stamped[STAMP_BYTES:])

    @property
    def after(self) -> dict[int, int]:
        """The causal barrier: source → counter of its last publication that this one comes after.

        What those come after in turn is left out. An application can see from it what a message answers.
        """
        before = self._comes_after
        return {self.source: before} if isinstance(before, int) else dict(before)

    @property
    def published_at(self) -> float:
        """When its publisher asked for it, by the publisher's clock, in seconds since 1970."""
        return stamp_ns(self._stamped) / 1e9

    def __repr__(self) -> str:
        shown = self.payload if len(self._stamped) <= 80 else self.payload[:60] + b"..."
        return (
            f"Message(topic={self.topic!r}, source={self.source}, counter={self.counter}, payload={shown!r})"
        )


def messages_of(batches: Iterable[Deliver], codec: Codec) -> list[Message]:
    """The publications of `batches`, in order."""
    messages: list[Message] = []
    append = messages.append
    for batch in batches:
        topic, source = batch.topic, batch.source
        before: Barrier | int = batch.after
        for counter, data in batch.items:
            append(Message(topic, source, counter, data, before, codec))
            before = counter
    return messages
