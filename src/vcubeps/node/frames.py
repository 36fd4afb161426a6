"""Frames on a connection between two nodes: how bytes are cut into them. No sockets here.

A frame is a header (bytes of the body, kind, number) and a body. The number is that of the message in a
MESSAGE or PART, of the last one received in a RECEIVED, the incarnation in a GOODBYE, a time in
PING and PONG, a node in PROBE and PROBED, and 0 otherwise.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator
from typing import TypeAlias

PROTOCOL_VERSION = 3
"""Of everything that travels between nodes; nodes with another one are refused."""

_HEADER = struct.Struct(">IBQ")
HEADER_BYTES = _HEADER.size
pack_header = _HEADER.pack
"""What comes before a body, given its bytes, kind and number."""
_unpack_header = _HEADER.unpack_from
KIND_AT = 4
"""Where a header has the kind."""


class Kind(enum.IntEnum):
    GREETING = 1
    """First frame of both sides: who I am."""
    REFUSAL = 2
    """Why I end this connection; the last frame on it."""
    MESSAGE = 3
    """One message of the protocol."""
    RECEIVED = 4
    """All messages up to this number have arrived."""
    GOODBYE = 5
    """This incarnation ends here, in good order."""
    PART = 6
    """Bytes of a message that is larger than a frame; a MESSAGE has the rest of it."""
    PING = 7
    """Answer with a PONG of the same number."""
    PONG = 8
    """I live, and have got the PING of this number."""
    PROBE = 9
    """Ping the node of this number for me, and say if it answers."""
    PROBED = 10
    """The node of this number has answered me, since you asked."""
    RELAY = 11
    """A frame between two nodes that do not reach each other, through this one or for it."""


MESSAGE, RECEIVED, PART = int(Kind.MESSAGE), int(Kind.RECEIVED), int(Kind.PART)
"""By these names on the path of every message: to look a member of an enumeration up takes longer than to compare."""

_KINDS = frozenset(map(int, Kind))

Frame: TypeAlias = tuple[int, int, memoryview]
"""Kind, number, body. The body is valid until the next frame is asked for."""


class FrameError(ValueError):
    """The bytes are no frames of this protocol."""


class OutOfPlace(FrameError):
    """A frame that must not come at this stage of a connection."""


def frame(kind: int, number: int = 0, body: bytes = b"") -> bytes:
    """
    >>> frame(Kind.RECEIVED, 7).hex()
    '00000000040000000000000007'
    """
    return pack_header(len(body), kind, number) + body


def read_whole(data: memoryview) -> Frame:
    """The frame that `data` is."""
    if len(data) < HEADER_BYTES:
        raise FrameError("a frame that is cut off")
    size, kind, number = _unpack_header(data)
    if kind not in _KINDS or size != len(data) - HEADER_BYTES:
        raise FrameError(f"a frame of kind {kind} and {size} bytes that has {len(data) - HEADER_BYTES}")
    return kind, number, data[HEADER_BYTES:]


class FrameReader:
    """Cuts a stream of bytes into frames, in the buffer that they were received into.

    Nothing is copied, and large buffers are kept while they are needed: allocating one for every frame costs
    more than all that is done with it.

    Invariants: `_buffer[:_filled]` is the beginning of a frame that is not whole yet, `room` the rest of it.
    """

    __slots__ = ("_buffer", "_filled", "bytes_max", "room")

    USUAL_BYTES = 256 << 10

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        """Of one frame's body."""
        self._buffer = memoryview(bytearray(8 << 10))
        self._filled = 0
        self.room = self._buffer
        """Where the next bytes of the stream go; never empty. Then tell `received` how many there were."""

    def sole_message(self, count: int) -> tuple[int, memoryview, int] | None:
        """Number and body, if `count` more bytes are just one whole MESSAGE, with or without a RECEIVED behind it, and
        the number of that, or -1: nearly always while little arrives at a time. None if they are not, and it is up to
        `received` to tell what they are."""
        buffer = self._buffer
        if self._filled or not HEADER_BYTES <= count < len(buffer) <= self.USUAL_BYTES:
            return None
        size, kind, number = _unpack_header(buffer)
        end = HEADER_BYTES + size
        if kind != MESSAGE or size > self.bytes_max:
            return None
        if end == count:
            return number, buffer[HEADER_BYTES:end], -1
        if end + HEADER_BYTES != count:
            return None
        size, kind, received = _unpack_header(buffer, end)
        return (number, buffer[HEADER_BYTES:end], received) if kind == RECEIVED and not size else None

    def received(self, count: int) -> Iterator[Frame]:
        """The frames that `count` more bytes complete. Raises FrameError where the stream goes wrong, after those
        before it."""
        buffer, start, end = self._buffer, 0, self._filled + count
        needed = HEADER_BYTES
        while end - start >= HEADER_BYTES:
            size, kind, number = _unpack_header(buffer, start)
            if kind not in _KINDS:
                raise FrameError(f"a frame of kind {kind}, which does not exist")
            if size > self.bytes_max:
                raise FrameError(f"a frame of {size} bytes, the limit is {self.bytes_max}")
            body = start + HEADER_BYTES
            if end - body < size:
                needed = HEADER_BYTES + size
                break
            start = body + size
            yield kind, number, buffer[body:start]
        if start == end < len(buffer) <= self.USUAL_BYTES:
            self._filled = 0
            self.room = buffer
        else:
            self._keep(start, end, needed)

    def _keep(self, start: int, end: int, needed: int) -> None:
        """Bring what is left to the front of a buffer with room for the rest of its frame, and for more."""
        old, left = self._buffer, end - start
        size = len(old)
        if needed > size or end == size > left:
            size = max(needed, min(2 * size, self.USUAL_BYTES))  # more than this buffer holds comes at a time
        elif left == 0 and size > self.USUAL_BYTES:
            size = self.USUAL_BYTES
        if size != len(old):
            self._buffer = memoryview(bytearray(size))
        if start or size != len(old):
            self._buffer[:left] = old[start:end]
        self._filled = left
        self.room = self._buffer[left:]
