"""The hold-back of all nodes, compiled (`protocol.causality.HoldBack`): received and not yet delivered.

Lists in three pools of cells; in all of them 0 is the end, and cell 0 heads the free ones. Sources are found by
their number among those that publish. The queue of any other source need not be found: what such a source has
under way is one leave.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from vcubeps.sim.kernel.called import CALLED
from vcubeps.sim.kernel.churn import STATUS, TOO_FEW_CELLS

CELLS_USED, QUEUES_USED, WAITS_USED, RELEASED = 18, 19, 20, 21
"""In `counts`: cells ever used of each pool, and acknowledgements of leaves to send."""

CELL = np.dtype(
    [
        ("received_ut", np.int64),
        ("sequence", np.int64),  # of a leave: its place in the order of arrivals
        ("operation", np.int32),
        ("hops", np.int32),
        ("next", np.int32),
    ],
    align=True,
)
"""A message."""

QUEUE = np.dtype(
    [
        ("source", np.int32),
        ("publisher", np.int32),
        ("first", np.int32),
        ("last", np.int32),
        ("next", np.int32),
        ("previous", np.int32),
    ],
    align=True,
)
"""The messages of one source in one node's hold-back."""

WAIT = np.dtype([("queue", np.int32), ("blocker", np.int32), ("next", np.int32)], align=True)
"""In one node's hold-back the head of a queue waits for another source."""


@njit(**CALLED)
def take_cell(pool, counts, used):  # type: ignore[no-untyped-def]
    """A free cell; 0 if there is none. There are as many queues and waits as messages, so only those run out."""
    cell = np.int64(pool[0].next)
    if cell:
        pool[0].next = pool[cell].next
        return cell
    if counts[used] == len(pool) - 1:
        counts[STATUS] = TOO_FEW_CELLS
        return np.int64(0)
    counts[used] += 1
    return counts[used]


@njit(**CALLED)
def give_back(pool, cell):  # type: ignore[no-untyped-def]
    pool[cell].next = pool[0].next
    pool[0].next = cell


@njit(**CALLED)
def append(world, me, cell):  # type: ignore[no-untyped-def]
    """`HoldBack.append`: whether the message became the head of its source's queue."""
    nodes, cells, queues = world.nodes, world.cells, world.queues
    operation = world.operations[cells[cell].operation]
    publisher = np.int64(operation.publisher)
    cells[cell].next = 0
    queue = np.int64(world.queue_of[me, publisher]) if publisher >= 0 else 0
    if queue:
        cells[queues[queue].last].next = cell
        queues[queue].last = cell
        return False
    queue = take_cell(queues, world.record.counts, QUEUES_USED)
    if publisher >= 0:
        world.queue_of[me, publisher] = queue
    queues[queue].source = operation.node
    queues[queue].publisher = publisher
    queues[queue].first = queues[queue].last = cell
    queues[queue].next = 0
    queues[queue].previous = nodes[me].held_last
    if nodes[me].held_first:
        queues[nodes[me].held_last].next = queue
    else:
        nodes[me].held_first = queue
    nodes[me].held_last = queue
    nodes[me].held_count += 1
    return True


@njit(**CALLED)
def pop(world, me, queue):  # type: ignore[no-untyped-def]
    """Take the first message from a queue; the queue, or 0 if that was the last one."""
    nodes, cells, queues = world.nodes, world.cells, world.queues
    cell = np.int64(queues[queue].first)
    queues[queue].first = cells[cell].next
    give_back(cells, cell)
    if queues[queue].first:
        return queue
    before, after = queues[queue].previous, queues[queue].next
    if before:
        queues[before].next = after
    else:
        nodes[me].held_first = after
    if after:
        queues[after].previous = before
    else:
        nodes[me].held_last = before
    if queues[queue].publisher >= 0:
        world.queue_of[me, queues[queue].publisher] = 0
    nodes[me].held_count -= 1
    give_back(queues, queue)
    return np.int64(0)


@njit(**CALLED)
def block(world, me, queue, blocker):  # type: ignore[no-untyped-def]
    nodes, waits = world.nodes, world.waits
    wait = take_cell(waits, world.record.counts, WAITS_USED)
    waits[wait].queue = queue
    waits[wait].blocker = blocker
    waits[wait].next = 0
    if nodes[me].waits_first:
        waits[nodes[me].waits_last].next = wait
    else:
        nodes[me].waits_first = wait
    nodes[me].waits_last = wait


@njit(**CALLED)
def wake(world, me, blocker, height):  # type: ignore[no-untyped-def]
    """Put the queues whose heads waited for `blocker` on the stack; its new height."""
    nodes, waits = world.nodes, world.waits
    before = np.int64(0)
    wait = np.int64(nodes[me].waits_first)
    while wait:
        following = np.int64(waits[wait].next)
        if waits[wait].blocker == blocker:
            world.stack[height] = waits[wait].queue
            height += 1
            if before:
                waits[before].next = following
            else:
                nodes[me].waits_first = following
            if nodes[me].waits_last == wait:
                nodes[me].waits_last = before
            give_back(waits, wait)
        else:
            before = wait
        wait = following
    return height
