"""What one copy costs, compiled: the same delays and the same luck as `network` has."""

from __future__ import annotations

import numpy as np
from numba import njit

_M1 = np.uint64(0x9E3779B97F4A7C15)
_M2 = np.uint64(0xD1B54A32D192ED03)
_M3 = np.uint64(0x8CB92BA72F3D8DD7)
_M4 = np.uint64(0xA24BAED4963EE407)
_M5 = np.uint64(0x9FB21C651E98DF25)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)


@njit(cache=True, nogil=True)
def luck_of_broadcast(seed, source, counter):  # type: ignore[no-untyped-def]
    """The part of `network.coin` that all copies of a broadcast share."""
    return np.uint64(seed) * _M1 + np.uint64(source) * _M2 + np.uint64(counter) * _M3


@njit(cache=True, nogil=True)
def early(luck, destination, is_ack):  # type: ignore[no-untyped-def]
    """0 or 1: how much earlier than at the latest a copy arrives (`network.coin`)."""
    x = luck + np.uint64(destination) * _M4
    if is_ack:
        x += _M5
    x = (x ^ (x >> np.uint64(30))) * _MIX1
    x = (x ^ (x >> np.uint64(27))) * _MIX2
    return np.int64((x >> np.uint64(40)) & np.uint64(1))
