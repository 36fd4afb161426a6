"""The virtual hypercube: who is whose neighbour, and which tree a message follows (paper, section 2).

Node i sorts all other nodes into subcubes, which the paper calls clusters. Subcube s holds the 2^(s-1) nodes
whose highest bit that differs from i is bit s-1, and the paper's recursive order of a subcube,

    c(i, s) = i ^ 2^(s-1)  followed by  c(i ^ 2^(s-1), k)  for k = 1 … s-1,

is the order of increasing x ^ i: its k-th node is i ^ 2^(s-1) ^ k. Everything here rests on that one
fact, so nothing builds the recursive lists. Subcubes are positions, present or not; which nodes are
present is always an argument, and any subset of the positions will do.

Pure functions of integers. This module knows no message, no topic and no failure, and imports
nothing of this package.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet

MAX_DIMENSION = 20
"""Largest cube: 2^20 positions."""


def dimension(nodes: int) -> int:
    """Dimension of the smallest cube with positions for the identifiers 0 … nodes - 1.

    >>> dimension(8), dimension(9), dimension(1)
    (3, 4, 0)
    """
    if not 1 <= nodes <= 1 << MAX_DIMENSION:
        raise ValueError(
            f"a cube has 1 to {1 << MAX_DIMENSION} nodes, got {nodes}: choose a number in that range"
        )
    return (nodes - 1).bit_length()


def subcube(i: int, j: int) -> int:
    """Index of the subcube of i that holds j; 0 if j is i, which is in no subcube of its own.

    >>> [subcube(0, j) for j in range(8)]
    [0, 1, 2, 2, 3, 3, 3, 3]
    """
    # A negative number stays negative when shifted, so one test covers both ends of the range.
    if (i | j) >> MAX_DIMENSION:
        _check_node(i, MAX_DIMENSION)
        _check_node(j, MAX_DIMENSION)
    return (i ^ j).bit_length()


def subcube_members(i: int, s: int) -> Iterator[int]:
    """The positions of subcube s of node i, in the subcube's order, one at a time.

    >>> list(subcube_members(2, 3))
    [6, 7, 4, 5]
    """
    _check_node(i, MAX_DIMENSION)
    _check_subcube(s, MAX_DIMENSION)
    return map((i ^ 1 << s - 1).__xor__, range(1 << s - 1))


def first_member(i: int, s: int, members: MemberSet | AbstractSet[int]) -> int | None:
    """The first node of subcube s of i that is in `members`, or None.

    O(s) on a MemberSet, O(size) on any other set.

    >>> first_member(2, 3, {0, 2, 3, 5, 7})
    7
    """
    if isinstance(members, MemberSet):
        return members.first(i, s)
    _check_node(i, MAX_DIMENSION)
    _check_subcube(s, MAX_DIMENSION)
    return min((x for x in members if (x ^ i).bit_length() == s), key=i.__xor__, default=None)


def children(i: int, members: MemberSet | AbstractSet[int], h: int) -> list[int]:
    """The children of i in a tree over `members`: the first member of each subcube 1 … h that has one.

    O(h²) on a MemberSet, O(size · log size) on any other set.

    >>> children(2, {0, 2, 3, 5, 7}, 3)
    [3, 0, 7]
    """
    if isinstance(members, MemberSet):
        _check_height(h, members.dimension)
        firsts = (members.first(i, s) for s in range(1, h + 1))
        return [x for x in firsts if x is not None]
    _check_node(i, MAX_DIMENSION)
    _check_height(h, MAX_DIMENSION)
    inside = [x for x in members if 0 < x ^ i < 1 << h]
    return [group[0] for group in subtrees(i, inside, h)]


def subtrees(i: int, recipients: Collection[int], h: int) -> list[list[int]]:
    """What each child of i has to serve so that all of `recipients` are reached.

    One list per subcube that has a recipient, by increasing subcube, each in the subcube's order:
    element 0 is the child, the rest is the work it passes on with h = subcube - 1. The recipients
    are distinct and all lie in subcubes 1 … h of i; one that does not is an error, because
    dropping it here would lose a message.

    >>> subtrees(2, {0, 3, 5, 7}, 3)
    [[3], [0], [7, 5]]
    """
    if not recipients:
        return []
    # A forwarding peer calls this for every message, mostly near a leaf.
    if len(recipients) == 1:
        (only,) = recipients
        if not 0 < only ^ i < 1 << h:
            raise _misplaced(i, recipients, h)
        return [[only]]

    distance = i.__xor__
    ordered = sorted(recipients, key=distance)
    # Ordered by distance, only the two ends can be out of place.
    if ordered[0] ^ i <= 0 or (ordered[-1] ^ i) >> h:
        raise _misplaced(i, recipients, h)
    groups = []
    end = len(ordered)
    while end:
        nearest = 1 << (ordered[end - 1] ^ i).bit_length() - 1
        start = bisect_left(ordered, nearest, 0, end, key=distance)
        groups.append(ordered[start:end])
        end = start
    groups.reverse()
    return groups


def spanning_tree(source: int, members: Iterable[int], dimension: int) -> list[tuple[int, int]]:
    """Edges (parent, child) of the tree from `source` to all other `members`.

    In the order in which copies are queued if all nodes work in step: breadth first, and each
    node's copies by increasing subcube. The source need not be a member.

    >>> spanning_tree(2, {0, 2, 3, 5, 7}, 3)
    [(2, 3), (2, 0), (2, 7), (7, 5)]
    """
    present = MemberSet(dimension, members)
    _check_node(source, dimension)
    edges = []
    waiting = deque([(source, dimension)])
    while waiting:
        parent, h = waiting.popleft()
        for s in range(1, h + 1):
            child = present.first(parent, s)
            if child is not None:
                edges.append((parent, child))
                waiting.append((child, s - 1))
    return edges


def tree_depth(edges: Iterable[tuple[int, int]]) -> int:
    """Hops to the farthest node of a tree whose edges are listed parents first; 0 without edges.

    >>> tree_depth([(2, 3), (2, 0), (2, 7), (7, 5)])
    2
    """
    hops: dict[int, int] = {}
    for parent, child in edges:
        hops[child] = hops.get(parent, 0) + 1
    return max(hops.values(), default=0)


class MemberSet:
    """A set of nodes of one cube that finds the first member of a subcube in O(log N).

    A complete binary tree over all positions, in one flat array: entry 1 is the root, entry n has
    children 2n and 2n + 1, the leaf of node x is entry 2^dimension + x, and an entry is 1 if a
    member lies below it. A subcube is a subtree of it, and the subcube's order prefers, at every
    level, the side that agrees with i. It takes 2^(dimension + 1) bytes however few the members.

    >>> members = MemberSet(3, [7, 0, 5, 3, 2])
    >>> list(members), len(members), 4 in members
    ([0, 2, 3, 5, 7], 5, False)
    >>> members.first(2, 3)
    7
    """

    __slots__ = ("_count", "_leaves", "_occupied", "dimension")

    def __init__(self, dimension: int, members: Iterable[int] = ()) -> None:
        if not 0 <= dimension <= MAX_DIMENSION:
            raise ValueError(
                f"a cube has dimension 0 to {MAX_DIMENSION}, got {dimension}: choose one in that range"
            )
        self.dimension = dimension
        self._leaves = 1 << dimension
        self._occupied = bytearray(2 * self._leaves)
        self._count = 0
        for x in members:
            self.add(x)

    def add(self, x: int) -> None:
        _check_node(x, self.dimension)
        occupied = self._occupied
        entry = self._leaves + x
        if occupied[entry]:
            return
        self._count += 1
        while entry and not occupied[entry]:
            occupied[entry] = 1
            entry >>= 1

    def discard(self, x: int) -> None:
        if x not in self:
            return
        occupied = self._occupied
        self._count -= 1
        entry = self._leaves + x
        occupied[entry] = 0
        while entry > 1 and not occupied[entry ^ 1]:
            entry >>= 1
            occupied[entry] = 0

    def first(self, i: int, s: int) -> int | None:
        """The first member of subcube s of node i, or None."""
        _check_node(i, self.dimension)
        _check_subcube(s, self.dimension)
        occupied = self._occupied
        nearest = self._leaves + (i ^ 1 << s - 1)
        entry = nearest >> s - 1
        if not occupied[entry]:
            return None
        for level in range(s - 2, -1, -1):
            entry = 2 * entry + (nearest >> level & 1)
            if not occupied[entry]:
                entry ^= 1
        return entry - self._leaves

    def __contains__(self, x: object) -> bool:
        return isinstance(x, int) and 0 <= x < self._leaves and self._occupied[self._leaves + x] == 1

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        """The members, ascending."""
        entry = self._occupied.find(1, self._leaves)
        while entry >= 0:
            yield entry - self._leaves
            entry = self._occupied.find(1, entry + 1)

    def __repr__(self) -> str:
        return f"<MemberSet of {self._count} of {self._leaves} nodes>"


def _check_node(x: int, dimension: int) -> None:
    if not 0 <= x < 1 << dimension:
        raise ValueError(
            f"node {x} is outside 0 to {(1 << dimension) - 1}: "
            f"use an identifier of a cube of dimension {dimension}"
        )


def _check_subcube(s: int, dimension: int) -> None:
    if not 1 <= s <= dimension:
        raise ValueError(f"subcube {s} is outside 1 to {dimension}: use one of the cube's subcubes")


def _check_height(h: int, dimension: int) -> None:
    if not 0 <= h <= dimension:
        raise ValueError(
            f"height {h} is outside 0 to {dimension}: use the index of the last subcube to serve"
        )


def _misplaced(i: int, recipients: Iterable[int], h: int) -> ValueError:
    stray = next(x for x in recipients if not 0 < x ^ i < 1 << h)
    return ValueError(
        f"recipient {stray} is not in subcubes 1 to {h} of node {i}: pass only nodes this subtree serves"
    )
