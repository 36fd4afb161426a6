"""Sets of nodes as rows of bits, compiled, and the children of a node in a tree over such a set.

Bit x & 63 of word x >> 6 stands for node x. Seen from node i, a word whose bits are put in the order of
p = x ⊕ i has subcube s in its bits 2^(s−1) … 2^s − 1, so the first member of a subcube is its lowest bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numba.cpython.unsafe import numbers

from vcubeps.sim.kernel.called import CALLED

leading_zeros: Any = numbers.leading_zeros
trailing_zeros: Any = numbers.trailing_zeros
"""Of an unsigned number that is not 0."""

_ONE = np.uint64(1)
_SWAPS = tuple(
    np.uint64(mask)
    for mask in (
        0x5555555555555555,
        0x3333333333333333,
        0x0F0F0F0F0F0F0F0F,
        0x00FF00FF00FF00FF,
        0x0000FFFF0000FFFF,
        0x00000000FFFFFFFF,
    )
)


@njit(**CALLED)
def subcube_of(i, j):  # type: ignore[no-untyped-def]
    """`cube.subcube`."""
    return np.int64(64) - np.int64(leading_zeros(np.uint64(i ^ j)))


@njit(**CALLED)
def put(bits, row, node):  # type: ignore[no-untyped-def]
    bits[row, node >> 6] |= _ONE << np.uint64(node & 63)


@njit(**CALLED)
def drop(bits, row, node):  # type: ignore[no-untyped-def]
    bits[row, node >> 6] &= ~(_ONE << np.uint64(node & 63))


@njit(**CALLED)
def _as_seen_from(word, low):  # type: ignore[no-untyped-def]
    """Bit p of the result is bit p ⊕ low of `word`."""
    if low & 1:
        word = ((word & _SWAPS[0]) << np.uint64(1)) | ((word >> np.uint64(1)) & _SWAPS[0])
    if low & 2:
        word = ((word & _SWAPS[1]) << np.uint64(2)) | ((word >> np.uint64(2)) & _SWAPS[1])
    if low & 4:
        word = ((word & _SWAPS[2]) << np.uint64(4)) | ((word >> np.uint64(4)) & _SWAPS[2])
    if low & 8:
        word = ((word & _SWAPS[3]) << np.uint64(8)) | ((word >> np.uint64(8)) & _SWAPS[3])
    if low & 16:
        word = ((word & _SWAPS[4]) << np.uint64(16)) | ((word >> np.uint64(16)) & _SWAPS[4])
    if low & 32:
        word = (word << np.uint64(32)) | (word >> np.uint64(32))
    return word


@njit(**CALLED)
def children_among(bits, row, node, subcubes, children):  # type: ignore[no-untyped-def]
    """`cube.children`: puts the first member of each of the first `subcubes` into `children`; how many."""
    if subcubes == 0:
        return 0
    found = 0
    low = node & 63
    middle = node >> 6
    near = bits[row, middle] & ~(_ONE << np.uint64(low))
    if near:
        near = _as_seen_from(near, low)
        if subcubes < 6:
            near &= (_ONE << (_ONE << np.uint64(subcubes))) - _ONE
        while near:
            p = np.int64(trailing_zeros(near))
            children[found] = node ^ p
            found += 1
            if p >= 32:
                break
            below = _ONE << np.uint64(subcube_of(p, 0))  # first bit of the next subcube
            near &= ~((_ONE << below) - _ONE)
    for s in range(7, subcubes + 1):
        first = 1 << (s - 7)
        for q in range(first, 2 * first):
            word = bits[row, middle ^ q]
            if word:
                children[found] = node ^ (q << 6) ^ np.int64(trailing_zeros(_as_seen_from(word, low)))
                found += 1
                break
    return found


@njit(**CALLED)
def children_among_all(node, subcubes, children):  # type: ignore[no-untyped-def]
    """The same where every node is a member."""
    for s in range(subcubes):
        children[s] = node ^ (np.int64(1) << s)
    return subcubes
