"""Rows that behave like Python's dicts of counters, compiled: a key keeps its place until it is deleted.

Keys are 0 … K − 1 and values positive; 0 stands for a key that is not there. Each row is a ring through its
keys in order, from column K and back to it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from vcubeps.sim.kernel.called import CALLED


class Maps(NamedTuple):
    values: NDArray[np.int32]
    following: NDArray[np.int32]
    preceding: NDArray[np.int32]


def make_maps(rows: int, keys: int) -> Maps:
    maps = Maps(
        np.zeros((rows, keys + 1), np.int32),
        np.empty((rows, keys + 1), np.int32),
        np.empty((rows, keys + 1), np.int32),
    )
    maps.following[:, keys] = maps.preceding[:, keys] = keys
    return maps


@njit(**CALLED)
def first_key(maps, row):  # type: ignore[no-untyped-def]
    """The number of keys, if there is none."""
    return np.int64(maps.following[row, maps.values.shape[1] - 1])


@njit(**CALLED)
def set_value(maps, row, key, value):  # type: ignore[no-untyped-def]
    if maps.values[row, key] == 0:
        ring = maps.values.shape[1] - 1
        last = maps.preceding[row, ring]
        maps.following[row, last] = key
        maps.preceding[row, key] = last
        maps.following[row, key] = ring
        maps.preceding[row, ring] = key
    maps.values[row, key] = value


@njit(**CALLED)
def delete(maps, row, key):  # type: ignore[no-untyped-def]
    """If it is there."""
    if maps.values[row, key]:
        before, after = maps.preceding[row, key], maps.following[row, key]
        maps.following[row, before] = after
        maps.preceding[row, after] = before
        maps.values[row, key] = 0


@njit(**CALLED)
def clear(maps, row):  # type: ignore[no-untyped-def]
    ring = maps.values.shape[1] - 1
    key = first_key(maps, row)
    while key < ring:
        maps.values[row, key] = 0
        key = np.int64(maps.following[row, key])
    maps.following[row, ring] = maps.preceding[row, ring] = ring


@njit(**CALLED)
def raise_entries(maps, row, other):  # type: ignore[no-untyped-def]
    """`protocol.causality.raise_entries`: make `row` cover row `other` too."""
    ring = maps.values.shape[1] - 1
    key = first_key(maps, other)
    while key < ring:
        if maps.values[other, key] > maps.values[row, key]:
            set_value(maps, row, key, maps.values[other, key])
        key = np.int64(maps.following[other, key])
