"""Decisions as hashes of what they are about, instead of draws from one shared stream.

Removing an operation from a schedule then leaves the delays and choices of the rest as they
were, which is what makes shrinking work.
"""

from __future__ import annotations

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


def mix(*values: int) -> int:
    """A 64-bit hash of the values (splitmix64 steps; not for adversaries)."""
    state = 0
    for value in values:
        state = (state + value + _GOLDEN) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state
