"""What one node keeps by the published algorithm, compiled: its view, its barrier, what waits for delivery.

Lines 63–98 of Algorithm 2; `churn_published` has the rest.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from vcubeps.sim.kernel.called import CALLED
from vcubeps.sim.kernel.churn import (
    BARRIERS_USED,
    CELLS_FREE,
    CELLS_USED,
    STATUS,
    SUB,
    TOO_FEW_CELLS,
    TOO_FEW_ENTRIES,
    note_delivery,
    note_reception,
)
from vcubeps.sim.kernel.member_bits import (
    drop,
    put,
    trailing_zeros,
)


@njit(**CALLED)
def code(kind, counter):  # type: ignore[no-untyped-def]
    """An entry as a number: larger for a larger counter, odd for a SUB; 0 is left for no entry."""
    return (counter << 1 | (kind == SUB)) + 2


@njit(**CALLED)
def is_sub(code):  # type: ignore[no-untyped-def]
    return code & 1


@njit(**CALLED)
def learn(views, members, node, other, code):  # type: ignore[no-untyped-def]
    """UPDATE with one entry."""
    if code > views[node, other]:
        views[node, other] = code
        if is_sub(code):
            put(members, node, other)
        else:
            drop(members, node, other)


@njit(**CALLED)
def learn_block(views, members, reported, node, slot, first, size):  # type: ignore[no-untyped-def]
    """UPDATE with what the nodes first … first + size − 1 reported."""
    news = 0
    for other in range(first, first + size):
        news += reported[slot, other] > views[node, other]
    if news:
        for other in range(first, first + size):
            learn(views, members, node, other, reported[slot, other])


@njit(**CALLED)
def learn_answers(views, members, reported, node, slot, subcubes, missing):  # type: ignore[no-untyped-def]
    """UPDATE with what all subcubes but the missing ones reported; nothing, where nobody was asked."""
    for s in range(subcubes):
        if not missing >> s & 1:
            size = 1 << s
            learn_block(views, members, reported, node, slot, (node ^ size) & ~(size - 1), size)


@njit(**CALLED)
def report(nodes, first_rec, reported, node, publisher, slot):  # type: ignore[no-untyped-def]
    """Lines 96–97."""
    own = nodes[node].own
    if own and (publisher < 0 or first_rec[node, publisher] < 0):
        reported[slot, node] = own


@njit(**CALLED)
def take_barrier(world, me, o):  # type: ignore[no-untyped-def]
    """Lines 21–22."""
    operations, counts, barriers = world.operations, world.record.counts, world.barriers
    start = counts[BARRIERS_USED]
    used = start
    for w in range(world.causal_barrier.shape[1]):
        word = world.causal_barrier[me, w]
        while word:
            if used == len(barriers):
                counts[STATUS] = TOO_FEW_ENTRIES
                break
            barriers[used] = w << 6 | np.int64(trailing_zeros(word))
            used += 1
            word &= word - np.uint64(1)
        world.causal_barrier[me, w] = 0
    counts[BARRIERS_USED] = used
    operations[o].barrier_start = start
    operations[o].barrier_size = used - start
    put(world.causal_barrier, me, operations[o].publication)


# Lines 63–68 and 83–94.


@njit(**CALLED)
def receive(world, now, me, slot, hops):  # type: ignore[no-untyped-def]
    """A publication has reached a subscriber."""
    nodes, slots, cells, counts = world.nodes, world.slots, world.cells, world.record.counts
    publisher = slots[slot].publisher
    if world.first_rec[me, publisher] < 0:
        world.first_rec[me, publisher] = slots[slot].counter
    world.addressed[slot, me] = -world.addressed[slot, me]
    note_reception(world.record, world.operations, now, me, slots[slot].operation, hops)
    if counts[CELLS_FREE] > 0:
        cell = counts[CELLS_FREE]
        counts[CELLS_FREE] = cells[cell].next
    else:
        cell = counts[CELLS_USED] + 1  # cell 0 is no cell, so that 0 may stand for an empty list
        if cell == len(cells):
            counts[STATUS] = TOO_FEW_CELLS
            return
        counts[CELLS_USED] = cell
    cells[cell].operation = slots[slot].operation
    cells[cell].received_ut = now
    cells[cell].next = -1
    if nodes[me].pending_first < 0:
        nodes[me].pending_first = cell
    else:
        cells[nodes[me].pending_last].next = cell
    nodes[me].pending_last = cell
    check_delivery(world, now, me)


@njit(**CALLED)
def remove_pending(world, me, before, cell):  # type: ignore[no-untyped-def]
    nodes, cells, counts = world.nodes, world.cells, world.record.counts
    following = cells[cell].next
    if before < 0:
        nodes[me].pending_first = following
    else:
        cells[before].next = following
    if following < 0:
        nodes[me].pending_last = before
    cells[cell].next = counts[CELLS_FREE]
    counts[CELLS_FREE] = cell


@njit(**CALLED)
def check_delivery(world, now, me):  # type: ignore[no-untyped-def]
    """Lines 83–89."""
    operations, cells = world.operations, world.cells
    before, cell = np.int64(-1), np.int64(world.nodes[me].pending_first)
    while cell >= 0:
        o = np.int64(cells[cell].operation)
        if not is_satisfied(world, me, o):
            before, cell = cell, np.int64(cells[cell].next)
            continue
        note_delivery(world.record, operations, now, me, o, cells[cell].received_ut)
        remove_pending(world, me, before, cell)
        world.last_delvs[me, operations[o].publisher] = operations[o].counter
        if world.prune:
            start = operations[o].barrier_start
            for entry in range(start, start + operations[o].barrier_size):
                drop(world.causal_barrier, me, np.int64(world.barriers[entry]))
        put(world.causal_barrier, me, operations[o].publication)
        before, cell = np.int64(-1), np.int64(world.nodes[me].pending_first)


@njit(**CALLED)
def is_satisfied(world, me, o):  # type: ignore[no-untyped-def]
    """Lines 90–94."""
    operations = world.operations
    start = operations[o].barrier_start
    for entry in range(start, start + operations[o].barrier_size):
        needed = operations[world.operation_of[world.barriers[entry]]]
        s, c = needed.publisher, needed.counter
        if world.last_delvs[me, s] < c and world.first_rec[me, s] <= c:
            return False
    return True
