"""The published algorithm (`sim.published`) with a membership that changes, compiled: same events, same trace.

What makes it fast:

- A view is a row of codes, one per node, that grow with the counter of the operation they stand for, so
  UPDATE (lines 75–82) is a maximum; next to it a row of bits has the members, for CHILDREN.
- The set that an acknowledgement carries (lines 95–98) is not carried. The subtree of a child reached
  through cluster s lies in an aligned block of 2^(s−1) nodes, and all of it has answered when the child
  does; so what the set holds is what the nodes of that block have put into `reported`, a row per
  broadcast, since.
- A barrier is a set of publications, and a node's own is a row of bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from vcubeps.sim import trace as rows
from vcubeps.sim.kernel.called import CALLED
from vcubeps.sim.kernel.churn import (
    ARRIVED,
    BARRIERS_USED,
    CELLS_FREE,
    CELLS_USED,
    CHANGES,
    DELIVERIES,
    DONE,
    FALSE_POSITIVES,
    PUB,
    SEQUENCE,
    SLOT,
    STATUS,
    SUB,
    TOO_FEW_CELLS,
    TOO_FEW_ENTRIES,
    UNS,
    Capacity,
    Codes,
    Network,
    Record,
    Records,
    Setting,
    count_expected,
    first_place,
    free_slot,
    in_flight,
    measured,
    next_place,
    note_addressees,
    note_delivery,
    note_reception,
    parts_of,
    send_ack,
    send_copy,
    take_slot,
    traced,
    write_row,
)
from vcubeps.sim.kernel.copies import luck_of_broadcast
from vcubeps.sim.kernel.member_bits import (
    children_among,
    children_among_all,
    cluster_of,
    drop,
    put,
    trailing_zeros,
)
from vcubeps.sim.kernel.options import EVENT_LOOP
from vcubeps.sim.kernel.prefetching import prefetch
from vcubeps.sim.kernel.wheel import Wheel
from vcubeps.sim.measurements import Measurements
from vcubeps.sim.network import Delays
from vcubeps.sim.workload import Workload

_NODE = np.dtype(
    [
        ("busy_until", np.int64),
        ("queue_total", np.int64),
        ("queue_copies", np.int64),
        ("viewed_since", np.int64),  # when, in the sense of SLOT.sequence, its view was last begun anew
        ("own", np.int32),  # code of its own entry in its view, 0 if it is not subscribed
        ("in_effect", np.int32),  # the same, once its subscription is in effect
        ("counter", np.int32),  # next one to give out
        ("publisher", np.int32),
        ("queue_first", np.int32),  # br_queue: operations
        ("queue_last", np.int32),
        ("task_first", np.int32),
        ("pending_first", np.int32),  # pending: cells
        ("pending_last", np.int32),
    ],
    align=True,
)

_TASK = np.dtype([("operation", np.int32), ("next", np.int32)], align=True)
"""START_MSG_PROPAGATION: what it broadcasts, −1 while it waits for something, and the node's next task."""

_CELL = np.dtype([("received_ut", np.int64), ("operation", np.int32), ("next", np.int32)], align=True)
"""A publication received and not yet delivered."""


class _World(NamedTuple):
    """All of a run."""

    dimension: int
    prune: bool
    network: Network
    wheel: Wheel
    record: Record
    operations: Records
    nodes: Records
    tasks: Records
    """Task → see _TASK. A task is named by the SUB that created it, or len(operations) + node at the beginning."""
    slots: Records
    free: NDArray[np.int32]
    awaited: NDArray[np.uint32]
    """(slot, node) → `acks`: the parent, and from bit 16 on the clusters that have not answered."""
    reported: Codes
    """(slot, node) → code of the entry that the node put into its acknowledgement, 0 if none."""
    addressed: NDArray[np.int32]
    """(slot, node) → see `churn.note_addressees`."""
    views: Codes
    """(node, other) → code of the entry of the other, 0 if there is none; see `_code`."""
    members: NDArray[np.uint64]
    """Node → bits of the others whose entry is a SUB."""
    first_rec: NDArray[np.int32]
    """(node, publisher) → counter, −1 if there is none."""
    last_delvs: NDArray[np.int32]
    causal_barrier: NDArray[np.uint64]
    """Node → bits of publications."""
    barriers: NDArray[np.int32]
    """Publications: the barriers of the operations, one after the other."""
    operation_of: NDArray[np.int32]
    """Publication → operation."""
    cells: Records
    children: NDArray[np.int64]
    """Scratch."""


def run(
    workload: Workload, delays: Delays, seed: int, *, prune: bool = True, trace: bool = False
) -> tuple[Measurements, rows.Trace | None]:
    """Simulate; without `prune` barriers are those of the `unpruned` reading."""
    setting = Setting(workload, delays, seed)
    capacity = setting.first_capacity()
    while True:
        world = _make_world(setting, capacity, prune, trace)
        status = _run(world)
        if status == DONE:
            break
        capacity.grow(status)
    publications = _publications(world)
    measurements = measured(world.record, world.nodes, publications)
    return measurements, traced(world.record, world.operations, publications) if trace else None


def _make_world(setting: Setting, capacity: Capacity, prune: bool, trace: bool) -> _World:
    count = setting.nodes
    slots = capacity.slots
    publishers = max(1, len(setting.publishers))
    members = np.flatnonzero(setting.members)
    code = 2 + 1  # of a SUB with counter 0

    nodes = np.zeros(count, _NODE)
    for name in ("queue_first", "queue_last", "task_first", "pending_first", "pending_last"):
        nodes[name] = -1
    nodes["publisher"] = setting.publisher_of_node()
    nodes["own"][members] = nodes["in_effect"][members] = code
    nodes["counter"][members] = 1
    nodes["task_first"][members] = len(setting.operations) + members
    tasks = np.full(len(setting.operations) + count, -1, np.dtype((np.int32, 2))).view(_TASK)[:, 0]

    codes = setting.small_codes()
    views = np.zeros((count, count), codes)
    views[np.ix_(members, members)] = code
    np.fill_diagonal(views, 0)
    operations = setting.operations.copy()
    operation_of = np.flatnonzero(operations["kind"] == PUB)
    order = np.argsort(operations["publication"][operation_of])
    return _World(
        setting.dimension,
        prune,
        setting.network,
        setting.wheel(capacity),
        setting.record(capacity, trace),
        operations,
        nodes,
        tasks,
        np.zeros(slots, SLOT),
        np.empty(slots, np.int32),
        np.empty((slots, count), np.uint32),
        np.empty((slots, count), codes),
        np.empty((slots, count), np.int32),
        views,
        setting.member_bits(),
        np.full((count, publishers), -1, np.int32),
        np.full((count, publishers), -1, np.int32),
        np.zeros((count, -(-setting.publications // 64) or 1), np.uint64),
        np.empty(capacity.entries, np.int32),
        operation_of[order].astype(np.int32),
        np.empty(capacity.cells, _CELL),
        np.empty(32, np.int64),
    )


def _publications(world: _World) -> list[rows.Publication]:
    """Those that started, in that order; of each source the last entry of the barrier, as outputs show it."""
    operations = world.operations
    source, counter = operations["node"].tolist(), operations["counter"].tolist()
    found = []
    for o in world.operation_of.tolist():
        operation = operations[o]
        if operation["started_ut"] < 0:
            continue
        start, size = int(operation["barrier_start"]), int(operation["barrier_size"])
        entries = world.operation_of[world.barriers[start : start + size]].tolist()
        barrier = dict(sorted((source[e], counter[e]) for e in entries))
        row = rows.Publication(
            0,
            source[o],
            counter[o],
            int(operation["time_ut"]),
            int(operation["started_ut"]),
            tuple(barrier.items()),
        )
        found.append(row)
    return sorted(found, key=lambda row: row.started_ut)


# -- compiled --------------------------------------------------------------------------------------


@njit(**CALLED)
def _code(kind, counter):  # type: ignore[no-untyped-def]
    """An entry as a number: larger for a larger counter, odd for a SUB; 0 is left for no entry."""
    return (counter << 1 | (kind == SUB)) + 2


@njit(**CALLED)
def _is_sub(code):  # type: ignore[no-untyped-def]
    return code & 1


@njit(**CALLED)
def _clusters_of(node, children, found):  # type: ignore[no-untyped-def]
    """The clusters of the children, as bits."""
    clusters = np.int64(0)
    for k in range(found):
        clusters |= np.int64(1) << (cluster_of(node, children[k]) - 1)
    return clusters


@njit(**CALLED)
def _learn(views, members, node, other, code):  # type: ignore[no-untyped-def]
    """UPDATE with one entry."""
    if code > views[node, other]:
        views[node, other] = code
        if _is_sub(code):
            put(members, node, other)
        else:
            drop(members, node, other)


@njit(**CALLED)
def _learn_block(views, members, reported, node, slot, first, size):  # type: ignore[no-untyped-def]
    """UPDATE with what the nodes first … first + size − 1 reported."""
    news = 0
    for other in range(first, first + size):
        news += reported[slot, other] > views[node, other]
    if news:
        for other in range(first, first + size):
            _learn(views, members, node, other, reported[slot, other])


@njit(**CALLED)
def _learn_answers(views, members, reported, node, slot, clusters, missing):  # type: ignore[no-untyped-def]
    """UPDATE with what all clusters but the missing ones reported; nothing, where nobody was asked."""
    for s in range(clusters):
        if not missing >> s & 1:
            size = 1 << s
            _learn_block(views, members, reported, node, slot, (node ^ size) & ~(size - 1), size)


@njit(**CALLED)
def _report(nodes, first_rec, reported, node, publisher, slot):  # type: ignore[no-untyped-def]
    """Lines 96–97."""
    own = nodes[node].own
    if own and (publisher < 0 or first_rec[node, publisher] < 0):
        reported[slot, node] = own


@njit(**EVENT_LOOP)
def _run(world):  # type: ignore[no-untyped-def]
    """The event loop. Of what happens often only the delivery of publications is elsewhere."""
    operations, nodes, slots, network, wheel = (
        world.operations,
        world.nodes,
        world.slots,
        world.network,
        world.wheel,
    )
    awaited, reported, views, members, first_rec = (
        world.awaited,
        world.reported,
        world.views,
        world.members,
        world.first_rec,
    )
    children, counts = world.children, world.record.counts
    now = np.int64(0)
    upcoming = np.int64(0)
    while True:
        if in_flight(counts) == 0:
            if upcoming == len(operations):
                return counts[STATUS]
            now = operations[upcoming].time_ut
        while upcoming < len(operations) and operations[upcoming].time_ut == now:
            _take_input(world, now, upcoming)
            upcoming += 1

        bucket = now & (len(wheel.head) - 1)
        place = first_place(wheel.head, wheel.position, bucket)
        while place:
            me, sender, hops, acknowledges, _, slot = parts_of(wheel.pool[place])
            soon = parts_of(
                wheel.pool[(place & ~63) | ((place + 4) & 63)]
            )  # nonsense at the end of the bucket
            if 0 <= soon[5] < len(slots):
                prefetch(awaited, soon[5], soon[0])
                prefetch(views, soon[0], np.int64(slots[soon[5]].source))
            counts[ARRIVED] += 1
            kind, luck = np.int64(slots[slot].kind), slots[slot].luck
            source, publisher = np.int64(slots[slot].source), np.int64(slots[slot].publisher)
            own = nodes[me].own
            cluster = cluster_of(me, sender)
            if acknowledges:
                # Lines 54–61, and 69–70 at a subscriber.
                state = np.int64(awaited[slot, me]) & ~(np.int64(1) << (cluster + 15))
                awaited[slot, me] = state
                is_last = state < 1 << 16
                if is_last and me != source:
                    _report(nodes, first_rec, reported, me, publisher, slot)
                    send_ack(network, nodes, counts, wheel, now, me, state & 0xFFFF, 0, slot, luck)
                if own:
                    if nodes[me].viewed_since < slots[slot].sequence:
                        # It has taken in the earlier answers already.
                        size = np.int64(1) << (cluster - 1)
                        _learn_block(views, members, reported, me, slot, sender & ~(size - 1), size)
                    else:
                        clusters = world.dimension if me == source else cluster_of(me, state & 0xFFFF) - 1
                        _learn_answers(views, members, reported, me, slot, clusters, state >> 16)
                if is_last and me == source:
                    _acknowledged(world, now, slot)
            else:
                # Lines 40–53.
                if kind == SUB:
                    found = children_among_all(me, cluster - 1, children)
                else:
                    found = children_among(members, me, me, cluster - 1, children)
                if found:
                    awaited[slot, me] = sender | _clusters_of(me, children, found) << 16
                    for k in range(found):
                        send_copy(
                            network, nodes, counts, wheel, now, me, children[k], hops + 1, kind, slot, luck
                        )
                else:
                    _report(nodes, first_rec, reported, me, publisher, slot)
                    send_ack(network, nodes, counts, wheel, now, me, sender, 0, slot, luck)
                # Lines 62–74.
                if kind == PUB:
                    if own:
                        _receive(world, now, me, slot, hops)
                    else:
                        counts[FALSE_POSITIVES] += 1
                elif own:
                    _learn(views, members, me, source, _code(kind, slots[slot].counter))
                    if kind == UNS and publisher >= 0:
                        first_rec[me, publisher] = -1
            place = next_place(wheel.position, wheel.link, bucket, place)
        if counts[STATUS]:
            return counts[STATUS]
        now += 1


# Algorithm 1.


@njit(**CALLED)
def _take_input(world, now, o):  # type: ignore[no-untyped-def]
    """If the node can do it now (see `Workload`)."""
    operations, nodes, counts = world.operations, world.nodes, world.record.counts
    me, kind = np.int64(operations[o].node), operations[o].kind
    if kind == SUB:
        if nodes[me].own:
            return
        nodes[me].own = _code(SUB, nodes[me].counter)
        counts[SEQUENCE] += 1
        nodes[me].viewed_since = counts[SEQUENCE]
        world.views[me, :] = 0
        world.members[me, :] = 0
        _add_task(world, me, o)
    elif not nodes[me].in_effect:
        return
    elif kind == UNS:
        nodes[me].own = nodes[me].in_effect = 0
    operations[o].counter = nodes[me].counter
    nodes[me].counter += 1
    if nodes[me].queue_first < 0:
        nodes[me].queue_first = o
    else:
        operations[nodes[me].queue_last].next = o
    nodes[me].queue_last = o
    _run_tasks(world, now, me)


@njit(**CALLED)
def _add_task(world, me, task):  # type: ignore[no-untyped-def]
    """Algorithm 2, lines 10–11: behind those that there are."""
    nodes, tasks = world.nodes, world.tasks
    last = nodes[me].task_first
    if last < 0:
        nodes[me].task_first = task
        return
    while tasks[last].next >= 0:
        last = tasks[last].next
    tasks[last].next = task


# Algorithm 2, lines 13–36.


@njit(**CALLED)
def _run_tasks(world, now, me):  # type: ignore[no-untyped-def]
    """Let the tasks of the node run until all are blocked, always the oldest that can go on."""
    operations, nodes, tasks = world.operations, world.nodes, world.tasks
    task = np.int64(nodes[me].task_first)
    while task >= 0:
        o = np.int64(tasks[task].operation)
        if o < 0 and nodes[me].queue_first >= 0:
            _start(world, now, me, task)
            task = np.int64(nodes[me].task_first)
        elif o >= 0 and operations[o].slot < 0:
            tasks[task].operation = -1
            _finish(world, now, me, task, o)
            task = np.int64(nodes[me].task_first)
        else:
            task = np.int64(tasks[task].next)


@njit(**CALLED)
def _start(world, now, me, task):  # type: ignore[no-untyped-def]
    """Lines 15–30."""
    operations, nodes, slots, counts = world.operations, world.nodes, world.slots, world.record.counts
    o = np.int64(nodes[me].queue_first)
    nodes[me].queue_first = operations[o].next
    world.tasks[task].operation = o
    kind, counter, publisher = np.int64(operations[o].kind), operations[o].counter, operations[o].publisher
    slot = take_slot(counts, world.free)
    operations[o].slot = slot
    operations[o].started_ut = now
    counts[SEQUENCE] += 1
    slots[slot].sequence = counts[SEQUENCE]
    slots[slot].luck = luck_of_broadcast(world.network.seed, me, counter)
    slots[slot].operation = o
    slots[slot].source = me
    slots[slot].kind = kind
    slots[slot].publisher = publisher
    slots[slot].counter = counter
    world.reported[slot, :] = 0
    if kind == PUB:
        if world.first_rec[me, publisher] < 0:
            world.first_rec[me, publisher] = counter
        _take_barrier(world, me, o)
        write_row(world.record.deliveries, counts, DELIVERIES, now, me, o)
        world.last_delvs[me, publisher] = counter
        note_addressees(nodes, world.addressed, slot, me)
    if kind == SUB:
        found = children_among_all(me, world.dimension, world.children)
    else:
        found = children_among(world.members, me, me, world.dimension, world.children)
    world.awaited[slot, me] = _clusters_of(me, world.children, found) << 16
    for k in range(found):
        send_copy(
            world.network,
            nodes,
            counts,
            world.wheel,
            now,
            me,
            world.children[k],
            1,
            kind,
            slot,
            slots[slot].luck,
        )
    if found == 0:
        _end_broadcast(world, slot)


@njit(**CALLED)
def _acknowledged(world, now, slot):  # type: ignore[no-untyped-def]
    """The last acknowledgement of a broadcast has reached its source."""
    _end_broadcast(world, slot)
    _run_tasks(world, now, np.int64(world.slots[slot].source))


@njit(**CALLED)
def _end_broadcast(world, slot):  # type: ignore[no-untyped-def]
    counts, o = world.record.counts, world.slots[slot].operation
    if world.operations[o].kind == PUB:
        count_expected(world.nodes, world.addressed, counts, slot)
    world.operations[o].slot = -1
    free_slot(counts, world.free, slot)


@njit(**CALLED)
def _finish(world, now, me, task, o):  # type: ignore[no-untyped-def]
    """Lines 31–36."""
    nodes, tasks, record = world.nodes, world.tasks, world.record
    kind = world.operations[o].kind
    if kind == SUB:
        if nodes[me].own == _code(SUB, world.operations[o].counter):
            nodes[me].in_effect = nodes[me].own
            write_row(record.changes, record.counts, CHANGES, now, me, 1)
    elif kind == UNS:
        while nodes[me].pending_first >= 0:
            _remove_pending(world, me, np.int64(-1), np.int64(nodes[me].pending_first))
        world.first_rec[me, :] = -1
        write_row(record.changes, record.counts, CHANGES, now, me, 0)
        if nodes[me].queue_first < 0:
            if nodes[me].task_first == task:
                nodes[me].task_first = tasks[task].next
                return
            before = nodes[me].task_first
            while tasks[before].next != task:
                before = tasks[before].next
            tasks[before].next = tasks[task].next


@njit(**CALLED)
def _take_barrier(world, me, o):  # type: ignore[no-untyped-def]
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
def _receive(world, now, me, slot, hops):  # type: ignore[no-untyped-def]
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
    _check_delivery(world, now, me)


@njit(**CALLED)
def _remove_pending(world, me, before, cell):  # type: ignore[no-untyped-def]
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
def _check_delivery(world, now, me):  # type: ignore[no-untyped-def]
    """Lines 83–89."""
    operations, cells = world.operations, world.cells
    before, cell = np.int64(-1), np.int64(world.nodes[me].pending_first)
    while cell >= 0:
        o = np.int64(cells[cell].operation)
        if not _is_satisfied(world, me, o):
            before, cell = cell, np.int64(cells[cell].next)
            continue
        note_delivery(world.record, operations, now, me, o, cells[cell].received_ut)
        _remove_pending(world, me, before, cell)
        world.last_delvs[me, operations[o].publisher] = operations[o].counter
        if world.prune:
            start = operations[o].barrier_start
            for entry in range(start, start + operations[o].barrier_size):
                drop(world.causal_barrier, me, np.int64(world.barriers[entry]))
        put(world.causal_barrier, me, operations[o].publication)
        before, cell = np.int64(-1), np.int64(world.nodes[me].pending_first)


@njit(**CALLED)
def _is_satisfied(world, me, o):  # type: ignore[no-untyped-def]
    """Lines 90–94."""
    operations = world.operations
    start = operations[o].barrier_start
    for entry in range(start, start + operations[o].barrier_size):
        needed = operations[world.operation_of[world.barriers[entry]]]
        s, c = needed.publisher, needed.counter
        if world.last_delvs[me, s] < c and world.first_rec[me, s] <= c:
            return False
    return True
