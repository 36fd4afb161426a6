"""Distinct whole numbers, numbered 0, 1, … in ascending order, and found again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_ROOM = 4
"""A table of all numbers between the least and the greatest is used if it has at most so many times their count."""


class Index:
    """
    >>> index = Index(np.array([7, 3, 7]))
    >>> index.values.tolist(), index.of(np.array([7, 5, 3])).tolist()
    ([3, 7], [1, -1, 0])
    """

    values: Ints
    """The distinct ones, ascending."""
    _low: int
    _table: NDArray[np.int32] | None
    """Value − low → its number, −1 if it has none; None: the values are searched."""

    def __init__(self, values: Ints) -> None:
        self._low = int(values.min()) if len(values) else 0
        span = int(values.max()) - self._low + 1 if len(values) else 0
        if span > _ROOM * len(values) + 1024:
            self.values, self._table = np.unique(values), None
            return
        present = np.zeros(span, np.bool_)
        present[values - self._low] = True
        self.values = np.flatnonzero(present) + self._low
        self._table = np.where(present, np.cumsum(present, dtype=np.int32) - 1, np.int32(-1)).astype(np.int32)

    def __len__(self) -> int:
        return len(self.values)

    def of(self, values: Ints) -> Ints:
        """The number of each, −1 if it has none."""
        if not len(self.values):
            return np.full(len(values), -1, np.int64)
        if self._table is None:
            numbers = np.searchsorted(self.values, values)
            numbers[numbers == len(self.values)] = 0
            return np.where(self.values[numbers] == values, numbers, -1)
        # As unsigned numbers, those below the least are beyond the greatest.
        places = (values - self._low).view(np.uint64)
        inside = places < len(self._table)
        if inside.all():
            return self._table[places].astype(np.int64)
        return np.where(inside, self._table[np.where(inside, places, 0)], -1).astype(np.int64)
