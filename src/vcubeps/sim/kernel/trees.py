"""Where a node sends a copy, compiled: the first member of a subcube, from a table per topic.

`nearest[l][i]` is the member of the aligned block of 2^l nodes around i that comes first in the
cube's order from i, −1 if there is none. The first member of c(i, s) is then nearest[s−1][i ⊕ 2^(s−1)].
Where everyone is a member there is no table: the first node of c(i, s) is i ⊕ 2^(s−1) itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def nearest_members(members: NDArray[np.bool_]) -> NDArray[np.int32]:
    """(level, node) → see above.

    >>> nearest_members(np.array([True, False, False, True])).tolist()
    [[0, -1, -1, 3], [0, 0, 3, 3], [0, 0, 3, 3]]
    """
    nodes = len(members)
    identity = np.arange(nodes, dtype=np.int32)
    level = np.where(members, identity, np.int32(-1)).astype(np.int32)
    levels = [level]
    half = 1
    while half < nodes:
        other = level[identity ^ half]
        level = np.where(level >= 0, level, other)
        levels.append(level)
        half *= 2
    return np.stack(levels)
