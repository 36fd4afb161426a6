"""Sixty-four well-mixed bits from integers: for digests and for decisions that must be the same everywhere.

Not for adversaries: whoever knows the function can find collisions.
"""

from __future__ import annotations

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix64(x: int) -> int:
    """The finalizer of splitmix64; `x` may have any size or sign."""
    x &= MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def mix(*values: int) -> int:
    """A hash of the values and of their order."""
    state = 0
    for value in values:
        state = mix64(state + value + GOLDEN)
    return state
