"""Publications that travel together, as columns: what there is of each of many must not cost an object each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import pack, unpack_from

import msgspec

TIME_BYTES = 8
"""Of each time in `Batch.times`."""


class Batch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One or more publications of one source on one topic, in order.

    >>> batch_of([(7, b"a"), (8, b"b")])
    Batch(first=7, payloads=(b'a', b'b'), scattered=(), times=b'')
    >>> batch_of([(7, b"a"), (9, b"b")]).counters
    (7, 9)
    """

    first: int
    """Counter of the first."""
    payloads: tuple[bytes, ...]
    """Never empty."""
    scattered: tuple[int, ...] = ()
    """Counters of all, ascending, unless they are consecutive: its source has published on other topics meanwhile."""
    times: bytes = b""
    """When each was asked for, by the clock of its publisher: nanoseconds since 1970, `TIME_BYTES` each, big-endian.
    Empty if nobody has said."""

    def __len__(self) -> int:
        return len(self.payloads)

    @property
    def last(self) -> int:
        """Counter of the last."""
        return self.scattered[-1] if self.scattered else self.first + len(self.payloads) - 1

    @property
    def counters(self) -> Sequence[int]:
        return self.scattered or range(self.first, self.first + len(self.payloads))

    @property
    def items(self) -> tuple[tuple[int, bytes], ...]:
        """Counter and payload of each, for who looks at one after the other."""
        return tuple(zip(self.counters, self.payloads, strict=True))

    def time_ns(self, place: int) -> int:
        """When the publication at `place` was asked for; 0 if nobody has said."""
        return int(unpack_from(">Q", self.times, TIME_BYTES * place)[0]) if self.times else 0


class Waiting(msgspec.Struct):
    """Publications that have been accepted and have not left, in order.

    Invariants: the columns are equally long; `size` is the sum of the bytes of the payloads.
    """

    counters: list[int] = []
    payloads: list[bytes] = []
    times_ns: list[int] = []
    size: int = 0

    def __len__(self) -> int:
        return len(self.counters)

    def take(self, items_max: int, bytes_max: int) -> Batch:
        """The first of them, as many as may leave together: one at least."""
        counters, payloads, times_ns = self.counters, self.payloads, self.times_ns
        count = len(counters)
        if count <= items_max and self.size <= bytes_max:
            self.counters, self.payloads, self.times_ns, self.size = [], [], [], 0
            return _batch(counters, payloads, times_ns)
        count, size = 1, len(payloads[0])
        while count < min(items_max, len(payloads)) and size + len(payloads[count]) <= bytes_max:
            size += len(payloads[count])
            count += 1
        batch = _batch(counters[:count], payloads[:count], times_ns[:count])
        del counters[:count], payloads[:count], times_ns[:count]
        self.size -= size
        return batch

    def check(self) -> None:
        """As `LocalNode.check`."""
        assert len(self.counters) == len(self.payloads) == len(self.times_ns), "columns of different lengths"
        assert self.size == sum(map(len, self.payloads)), "a wrong size of what waits"


def batch_of(items: Iterable[tuple[int, bytes]]) -> Batch:
    """The publications with these counters and payloads."""
    counters, payloads = zip(*items, strict=True)
    return _batch(counters, payloads, [0])


def _batch(counters: Sequence[int], payloads: Sequence[bytes], times_ns: Sequence[int]) -> Batch:
    first = counters[0]
    are_consecutive = counters[-1] - first == len(counters) - 1
    times = pack(f">{len(times_ns)}Q", *times_ns) if any(times_ns) else b""
    return Batch(first, tuple(payloads), () if are_consecutive else tuple(counters), times)
