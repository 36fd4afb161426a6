"""What a message of the benchmark looks like: who sent it, its number, when, and padding up to the size."""

from __future__ import annotations

import struct
from collections.abc import Callable

TAG = b"hot "
"""Every payload begins with it: ZeroMQ has no topics apart from the first bytes of a message."""
HELLO = 0xFFFF_FFFF
"""The number of the messages by which members find out, before the start, that they reach one another."""

_HEADER = struct.Struct("<4sIIQ")
SMALLEST = _HEADER.size

read_number: Callable[[bytes], tuple[int, int]] = struct.Struct("<4xII").unpack_from
"""The source and the number."""
read_all: Callable[[bytes], tuple[int, int, int]] = struct.Struct("<4xIIQ").unpack_from
"""The source, the number, and the time in nanoseconds of the monotonic clock."""


def payload(source: int, number: int, sent_ns: int, padding: bytes) -> bytes:
    """The message, `SMALLEST` bytes longer than its padding."""
    return _HEADER.pack(TAG, source, number, sent_ns) + padding
