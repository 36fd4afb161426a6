"""Exactly once, in order, over connections that break: numbers, a buffer of what may have to be sent again.

No sockets here. Each direction between two instances of two nodes has one `Outbox` at the sender and one
`Inbox` at the receiver; both outlive connections.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import cast

from vcubeps.node.frames import HEADER_BYTES, KIND_AT, MESSAGE, PART, pack_header

MESSAGE_BYTES_MAX = 1 << 30
"""Of a message that comes in parts."""


TELL_BYTES = 256 << 10
"""So much may arrive before the other side is told; less is told after a while. It keeps what it has not been told."""

_MESSAGE_BYTES = 2 << 10
"""What a message weighs in that besides its body."""


class NumberingError(ValueError):
    """The other side broke the rules of numbering."""


class Outbox:
    """Messages to one other node that it has not acknowledged.

    Invariants: `_kept` holds the frames numbered `first` … `last` in order, of which the first `_sent` have
    been handed to the present connection; `size` is the sum of their bytes, and `unsent_size` that of the rest.
    The second parts of the frames of a message in parts are views of its tail, and `_heads` has its head while the last
    of them is kept.
    """

    __slots__ = ("_heads", "_kept", "_sent", "bytes_max", "first", "last", "resent", "size", "unsent_size")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        """Of one frame's body; a message that is larger leaves in parts."""
        self._kept: deque[tuple[int, bytes, bytes | memoryview]] = deque()
        """Incarnation that the message is meant for; the frame in two parts, of which the second may be shared with
        other links: header and head of the message, tail of the message."""
        self._heads: dict[int, bytes] = {}
        """Number of the last frame of a message in parts → head of the message."""
        self.first = 1
        self._sent = 0
        self.last = 0
        self.size = 0
        self.unsent_size = 0
        self.resent = 0
        """Frames that were handed to more than one connection."""

    def __len__(self) -> int:
        return len(self._kept)

    def append(self, target: int, head: bytes, tail: bytes = b"") -> None:
        """A message in two parts."""
        size = len(head) + len(tail)
        if size > self.bytes_max:
            self._append_parts(target, head, tail)
        else:
            self._append(target, pack_header(size, MESSAGE, self.last + 1) + head, tail)

    def append_sent(self, target: int, head: bytes, tail: bytes) -> bytes:
        """The frame of a message that the present connection is given at once: nothing is unsent before it, and it
        is not larger than a frame."""
        self.last += 1
        first = pack_header(len(head) + len(tail), MESSAGE, self.last) + head
        self._kept.append((target, first, tail))
        self._sent += 1
        data = first + tail if tail else first
        self.size += len(data)
        return data

    def _append(self, target: int, first: bytes, second: bytes | memoryview) -> None:
        """A frame."""
        self.last += 1
        self._kept.append((target, first, second))
        size = len(first) + len(second)
        self.size += size
        self.unsent_size += size

    def _append_parts(self, target: int, head: bytes, tail: bytes) -> None:
        """The tail is shared with other links, and stays as it is."""
        if len(head) >= self.bytes_max:
            head, tail = b"", head + tail
        room, rest, first = self.bytes_max - len(head), memoryview(tail), head
        while rest:
            part, rest = rest[:room], rest[room:]
            size = len(first) + len(part)
            self._append(target, pack_header(size, PART if rest else MESSAGE, self.last + 1) + first, part)
            room, first = self.bytes_max, b""
        if head:
            self._heads[self.last] = head

    def take_unsent(self, bytes_max: float = inf) -> tuple[list[bytes | memoryview], int]:
        """What the present connection has not been given yet, two parts for each frame, and the bytes of it; from now
        on it has. Beyond `bytes_max` no more is begun."""
        kept, unsent = self._kept, len(self._kept) - self._sent
        parts: list[bytes | memoryview] = []
        size = 0
        # From the end: a deque finds its middle slowly, and what is unsent is what came last.
        for index in range(-unsent, 0):
            _, first, second = kept[index]
            parts.append(first)
            parts.append(second)
            size += len(first) + len(second)
            if size >= bytes_max:
                break
        self._sent += len(parts) // 2
        self.unsent_size -= size
        return parts, size

    def acknowledged(self, number: int) -> None:
        """The other node has received everything up to `number`."""
        if number > self.last:
            raise NumberingError(
                f"an acknowledgement of message {number}, but the last one sent was {self.last}"
            )
        kept = self._kept
        while self.first <= number:
            _, first, second = kept.popleft()
            self.size -= len(first) + len(second)
            if self._heads:
                self._heads.pop(self.first, None)
            self.first += 1
            if self._sent:
                self._sent -= 1

    def resume(self, received: int) -> None:
        """A new connection to the same instance, which has received everything up to `received`, or more: an
        acknowledgement that it made later, on the connection before or by a relay, may have overtaken its greeting."""
        self.acknowledged(received)
        self.resent += self._sent
        self._sent = 0
        self.unsent_size = self.size

    def restart(self, incarnation: int) -> None:
        """The other node is another instance now: what was meant for an earlier incarnation has nobody to go to."""
        self._renumber(lambda target: target < 0 or target >= incarnation)

    def end(self, incarnation: int) -> None:
        """That incarnation has ended in good order: only what is meant for a later one has somebody to go to."""
        self._renumber(lambda target: target > incarnation)

    def _renumber(self, is_wanted: Callable[[int], bool]) -> None:
        old, self._kept = enumerate(self._kept, self.first), deque()
        heads, self._heads = self._heads, {}
        self.first, self._sent, self.last, self.size, self.unsent_size = 1, 0, 0, 0, 0
        for number, (target, first, second) in old:
            if is_wanted(target) and first[KIND_AT] == MESSAGE:
                if isinstance(second, memoryview):  # the last part of a message, and a view of the tail
                    self.append(target, heads.get(number, b""), cast(bytes, second.obj))
                else:
                    self.append(target, first[HEADER_BYTES:], second)


class Inbox:
    """Messages from one other node."""

    __slots__ = ("_parts_size", "duplicates", "last", "parts", "told", "untold_bytes")

    def __init__(self) -> None:
        self.last = 0
        """Everything up to here has been received."""
        self.told = 0
        """What the other side has been told of that."""
        self.untold_bytes = 0
        """What the messages in between weigh."""
        self.duplicates = 0
        self.parts: list[bytes] = []
        """Of the message that is under way."""
        self._parts_size = 0

    def is_new(self, number: int, size: int) -> bool:
        """Whether message `number` of `size` bytes, just arrived, has not been seen before."""
        if number == self.last + 1:
            self.last = number
            self.untold_bytes += _MESSAGE_BYTES + size
            return True
        if number <= self.last:
            self.duplicates += 1
            # That it was told was lost with a connection: it has to be told again.
            self.told = min(self.told, number - 1)
            return False
        raise NumberingError(f"message {number} where {self.last + 1} should follow")

    def tell(self) -> int:
        """What the other side is told now."""
        self.told = self.last
        self.untold_bytes = 0
        return self.last

    def add_part(self, body: bytes) -> None:
        self._parts_size += len(body)
        if self._parts_size > MESSAGE_BYTES_MAX:
            raise NumberingError(
                f"a message of {self._parts_size} bytes or more, the limit is {MESSAGE_BYTES_MAX}"
            )
        self.parts.append(body)

    def whole(self, end: memoryview) -> memoryview:
        """The message that came in parts and ends with `end`."""
        message = memoryview(b"".join((*self.parts, end)))
        self.parts.clear()
        self._parts_size = 0
        return message

    def restart(self) -> None:
        self.last = self.told = self.untold_bytes = self._parts_size = 0
        self.parts.clear()
