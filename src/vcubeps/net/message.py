"""What the application receives, and how payloads are coded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count, repeat
from typing import Any

import msgspec

from vcubeps.protocol.batches import Batch
from vcubeps.protocol.errors import UsageError
from vcubeps.protocol.messages import Barrier
from vcubeps.protocol.outputs import Deliver


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


BYTES = Codec("bytes", _bytes_only, bytes)

CODECS: Mapping[str, Codec] = {
    "bytes": BYTES,
    "json": Codec("json", msgspec.json.encode, msgspec.json.decode),
    "msgpack": Codec("msgpack", msgspec.msgpack.encode, msgspec.msgpack.decode),
}


def codec_named(name: str) -> Codec:
    codec = CODECS.get(name)
    if codec is None:
        raise UsageError(f"there is no codec {name!r}: choose one of {', '.join(CODECS)}")
    return codec


class Origin(msgspec.Struct, frozen=True, gc=False):
    """What the publications of one batch share."""

    topic: str
    batch: Batch
    after: Barrier
    """What the first comes after; each later one comes after the one before it."""
    codec: Codec


class Message(msgspec.Struct, frozen=True, gc=False, eq=False):
    """One publication, delivered in causal order.

    ⟨source, counter⟩ identifies it within its topic's cluster; counters of a source ascend, with gaps.
    """

    source: int
    """The node that published it."""
    payload: bytes
    _place: int
    """In its batch."""
    _origin: Origin

    @property
    def topic(self) -> str:
        return self._origin.topic

    @property
    def counter(self) -> int:
        return self._origin.batch.counters[self._place]

    @property
    def value(self) -> Any:
        """The payload, decoded by the codec of the subscription; bytes without one.

        Raises `msgspec.DecodeError` if the publisher used another codec.
        """
        return self._origin.codec.decode(self.payload)

    @property
    def after(self) -> dict[int, int]:
        """The causal barrier: source → counter of its last publication that this one comes after.

        What those come after in turn is left out. An application can see from it what a message answers.
        """
        origin, place = self._origin, self._place
        return {self.source: origin.batch.counters[place - 1]} if place else dict(origin.after)

    @property
    def published_at(self) -> float:
        """When its publisher asked for it, by the publisher's clock, in seconds since 1970."""
        return self._origin.batch.time_ns(self._place) / 1e9

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[str, int, int, bytes]:
        return self.topic, self.source, self.counter, self.payload

    def __repr__(self) -> str:
        shown = self.payload if len(self.payload) <= 72 else self.payload[:60] + b"..."
        return (
            f"Message(topic={self.topic!r}, source={self.source}, counter={self.counter}, payload={shown!r})"
        )


def messages_of(batches: Iterable[Deliver], codec: Codec) -> list[Message]:
    """The publications of `batches`, in order."""
    messages: list[Message] = []
    for delivered in batches:
        source, payloads = delivered.source, delivered.batch.payloads
        origin = Origin(delivered.topic, delivered.batch, delivered.after, codec)
        if len(payloads) == 1:
            messages.append(Message(source, payloads[0], 0, origin))
        else:
            messages += map(Message, repeat(source), payloads, count(), repeat(origin))
    return messages
