"""The event queue of the kernels: a wheel of one bucket per unit of time, each a chain of chunks in one flat pool.

Events of one bucket come out in the order in which they were put in, which is the order of the
reference simulation. An event is one integer; what its bits mean is the kernel's business.

A wheel is four arrays: `head` (bucket → its first chunk), `position` (bucket → where its next event
goes in `pool`, 0 if it is empty), `pool` (events, in chunks of `CHUNK`), `link` (chunk → the next of
its chain, or of the free list). Chunk 0 is never used; `link[0]` heads the free list and `link[-1]`
is the number of chunks ever used.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

CHUNK_BITS = 6
CHUNK = 1 << CHUNK_BITS


class Wheel(NamedTuple):
    """The arrays, as the kernels take them."""

    head: NDArray[np.int32]
    position: NDArray[np.int64]
    pool: NDArray[Any]  # of int32 or int64
    link: NDArray[np.int32]


def make_wheel(span_ut: int, events: int, kind: type[np.int32 | np.int64] = np.int64) -> Wheel:
    """For events at most `span_ut` ahead (a power of two), of which at most `events` wait at a time."""
    chunks = events // CHUNK + span_ut + 2
    link = np.empty(chunks + 1, np.int32)
    link[0] = 0
    link[-1] = 1
    return Wheel(
        np.empty(span_ut, np.int32),
        np.zeros(span_ut, np.int64),
        np.empty(chunks << CHUNK_BITS, kind),
        link,
    )


@njit(cache=True, nogil=True)
def push(head, position, pool, link, time, event):  # type: ignore[no-untyped-def]
    # Unsigned indices spare the test for negative ones.
    bucket = np.uint64(time & (len(head) - 1))
    place = position[bucket]
    if place & (CHUNK - 1) == 0:
        chunk = np.int64(link[0])
        if chunk:
            link[0] = link[np.uint64(chunk)]
        else:
            chunk = np.int64(link[-1])
            link[-1] = chunk + 1
        if place == 0:
            head[bucket] = chunk
        else:
            link[np.uint64((place >> CHUNK_BITS) - 1)] = chunk
        place = chunk << CHUNK_BITS
    pool[np.uint64(place)] = event
    position[bucket] = place + 1


@njit(cache=True, nogil=True)
def release(link, chunk):  # type: ignore[no-untyped-def]
    link[chunk] = link[0]
    link[0] = chunk


@njit(cache=True, nogil=True)
def first_place(head, position, bucket):  # type: ignore[no-untyped-def]
    """Where in the wheel's pool the first event of a bucket is, 0 if it has none."""
    return np.int64(head[bucket]) << CHUNK_BITS if position[bucket] else np.int64(0)


@njit(cache=True, nogil=True)
def next_place(position, link, bucket, place):  # type: ignore[no-untyped-def]
    """Where the event after that at `place` is; 0, and the bucket is empty again, if there is none.

    To be asked when the event at `place` has been dealt with: it may have put others into the bucket. The ends
    of two chunks must not be compared before: the first of a chain may begin where the last one ends.
    """
    place += 1
    if place & (CHUNK - 1) == 0 or place == position[bucket]:
        chunk = (place - 1) >> CHUNK_BITS
        if place == position[bucket]:
            position[bucket] = 0
            place = np.int64(0)
        else:
            place = np.int64(link[chunk]) << CHUNK_BITS
        release(link, chunk)
    return place
