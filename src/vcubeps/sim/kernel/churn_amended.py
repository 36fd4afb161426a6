"""The amended protocol (`protocol/`) with a membership that changes, compiled: same events, same trace.

The crash-free part of it, one publication per batch. What makes it fast:

- The reports of a SUB do not travel. Each node writes its own into a row of the broadcast, and the joiner
  reads the row when all have answered. Only the order of the reports with a floor matters (it becomes the
  order of the joiner's past); they are chained as the acknowledgements pass up.
- A view is a row of codes, one per node: twice the counter of a member's subscription plus one, or twice
  the counter of the last known leave. One number is enough: a member's subscription is newer than any leave
  of it, and whoever is removed is removed by a leave that is newer than the subscription.
- How far a source was heard, barriers and all that `causality` keeps concern those nodes only that publish
  in this run, which have numbers of their own.

All orders that Python's dicts keep and that later decisions depend on are kept here: entries of a barrier,
sources in the hold-back, and who waits for whom.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from vcubeps.protocol.membership import fingerprint
from vcubeps.sim import trace as rows
from vcubeps.sim.kernel.amended_topic import (
    BARRIER,
    DELIVERED,
    DOUBTFUL,
    HAS_REPORTS,
    HELD,
    JOINING,
    KNOWN,
    LEAVING,
    MEMBER,
    MISSING_AT,
    OUTSIDE,
    close,
    deliver_all,
    gather_reports,
    hold_leave,
    joined,
    leaves_at_once,
    receive,
    report,
)
from vcubeps.sim.kernel.amended_topic import fingerprint as compiled_fingerprint
from vcubeps.sim.kernel.called import CALLED
from vcubeps.sim.kernel.churn import (
    ARRIVED,
    BARRIERS_USED,
    CHANGES,
    DELIVERIES,
    DONE,
    FALSE_POSITIVES,
    PUB,
    SLOT,
    STATUS,
    SUB,
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
    parts_of,
    send_ack,
    send_copy,
    take_slot,
    traced,
    write_row,
)
from vcubeps.sim.kernel.copies import luck_of_broadcast
from vcubeps.sim.kernel.hold_back import CELL, QUEUE, WAIT
from vcubeps.sim.kernel.member_bits import children_among, children_among_all, cluster_of
from vcubeps.sim.kernel.options import EVENT_LOOP
from vcubeps.sim.kernel.ordered_maps import (
    Maps,
    clear,
    first_key,
    make_maps,
    raise_entries,
    set_value,
)
from vcubeps.sim.kernel.prefetching import prefetch
from vcubeps.sim.kernel.wheel import Wheel
from vcubeps.sim.measurements import Measurements
from vcubeps.sim.network import Delays
from vcubeps.sim.workload import Workload

_NODE = np.dtype(
    [
        ("busy_until", np.int64),
        ("queue_total", np.int64),
        ("queue_copies", np.int32),
        ("phase", np.int32),
        ("closing", np.int32),
        ("wanted", np.int32),
        ("own", np.int32),  # counter of its subscription
        ("in_effect", np.int32),  # the same while its application may publish, else 0
        ("last_publication", np.int32),
        ("publisher", np.int32),  # its number among those that publish, −1 if it never does
        ("held_first", np.int32),  # queues of the hold-back, in the order of their creation
        ("held_last", np.int32),
        ("held_count", np.int32),
        ("waits_first", np.int32),
        ("waits_last", np.int32),
        ("covered", np.int32),  # whether its barrier covers what is doubtful
        ("digest", np.uint64),
        ("counter", np.int32),  # last one given out
        ("current", np.int32),  # the operation whose broadcast is under way, −1 if none
        ("queue_first", np.int32),  # publications and leaves that wait for it
        ("queue_last", np.int32),
        ("join", np.int32),  # the subscription that waits for them, −1 if none
    ],
    align=True,
)


class _World(NamedTuple):
    """All of a run."""

    dimension: int
    network: Network
    wheel: Wheel
    record: Record
    operations: Records
    nodes: Records
    slots: Records
    free: NDArray[np.int32]
    awaited: NDArray[np.uint32]
    """(slot, node) → a task: parent, acknowledgements missing (MISSING_AT), whether it is held until a leave
    takes effect (HELD), whether there are reports with a floor (HAS_REPORTS)."""
    recipients: NDArray[np.uint64]
    """Slot → bits, of a PUB or a UNS."""
    marks: NDArray[np.int32]
    """(slot, node) → the subscription that a PUB is addressed to."""
    addressed: NDArray[np.int32]
    """(slot, node) → see `churn.note_addressees`."""
    reports: Codes
    """(slot, node) → of a SUB: twice the counter that the node reported, plus one if it is a member; 0: none."""
    report_floor: NDArray[np.int32]
    """(slot, publisher)"""
    report_next: NDArray[np.int32]
    """(slot, publisher) → publisher whose report comes after this one's, of those with a floor."""
    report_ends: NDArray[np.int64]
    """(slot, node) → first and last publisher whose reports a task has gathered."""
    views: Codes
    """(node, other) → see above."""
    members: NDArray[np.uint64]
    """Node → bits of the members in its view."""
    received: NDArray[np.int32]
    """(node, publisher) → `Member.received`, where the publisher is a member."""
    heard: NDArray[np.int32]
    """(node, publisher) → `View.heard`."""
    floors: NDArray[np.int32]
    """(publisher, other) → `Member.floor` in the publisher's view."""
    past: Maps
    """(map · nodes + node, publisher) → counter."""
    barriers: NDArray[np.int32]
    """Rows (publisher, counter): the barriers of the operations, one after the other."""
    node_of: NDArray[np.int32]
    """Publisher → node."""
    cells: Records
    queues: Records
    waits: Records
    queue_of: NDArray[np.int32]
    """(node, publisher) → its queue in the node's hold-back, 0 if there is none. The queue of any other source
    need not be found: what such a source has under way is one leave."""
    children: NDArray[np.int64]
    """Scratch, as what follows."""
    stack: NDArray[np.int64]
    released: NDArray[np.int64]
    """Rows (slot, place in the order)."""


def run(
    workload: Workload, delays: Delays, seed: int, *, trace: bool = False
) -> tuple[Measurements, rows.Trace | None]:
    setting = Setting(workload, delays, seed)
    capacity = setting.first_capacity()
    while True:
        world = _make_world(setting, capacity, trace)
        status = _run(world)
        if status == DONE:
            break
        capacity.grow(status)
    publications = _publications(world)
    measurements = measured(world.record, world.nodes, publications)
    return measurements, traced(world.record, world.operations, publications) if trace else None


def _make_world(setting: Setting, capacity: Capacity, trace: bool) -> _World:
    count, slots = setting.nodes, capacity.slots
    publishers = max(1, len(setting.publishers))
    members = np.flatnonzero(setting.members)
    codes = setting.small_codes()

    nodes = np.zeros(count, _NODE)
    for name in ("current", "queue_first", "queue_last", "join"):
        nodes[name] = -1
    nodes["publisher"] = setting.publisher_of_node()
    nodes["covered"] = 1
    nodes["phase"][members] = MEMBER
    for name in ("wanted", "own", "in_effect", "counter"):
        nodes[name][members] = 1
    prints = np.array([fingerprint(node, 1) for node in members.tolist()], np.uint64)
    nodes["digest"][members] = np.bitwise_xor.reduce(prints) if len(prints) else 0

    views = np.zeros((count, count), codes)
    views[np.ix_(members, members)] = 2 * 1 + 1
    np.fill_diagonal(views, 0)
    received = np.zeros((count, publishers), np.int32)
    received[:, np.flatnonzero(setting.members[setting.publishers])] = 1

    cells, queues, waits = (np.empty(capacity.cells, kind) for kind in (CELL, QUEUE, WAIT))
    for pool in (cells, queues, waits):
        pool["next"][0] = 0
    return _World(
        setting.dimension,
        setting.network,
        setting.wheel(capacity),
        setting.record(capacity, trace),
        setting.operations.copy(),
        nodes,
        np.zeros(slots, SLOT),
        np.empty(slots, np.int32),
        np.empty((slots, count), np.uint32),
        np.empty((slots, -(-count // 64)), np.uint64),
        np.empty((slots, count), np.int32),
        np.empty((slots, count), np.int32),
        np.empty((slots, count), codes),
        np.empty((slots, publishers), np.int32),
        np.empty((slots, publishers), np.int32),
        np.empty((slots, count), np.int64),
        views,
        setting.member_bits(),
        received,
        np.zeros((count, publishers), np.int32),
        np.zeros((publishers, count), np.int32),
        make_maps(4 * count, publishers),
        np.empty((capacity.entries, 2), np.int32),
        np.append(setting.publishers, 0).astype(np.int32),
        cells,
        queues,
        waits,
        np.zeros((count, publishers), np.int32),
        np.empty(32, np.int64),
        np.empty(2 * count, np.int64),
        np.empty((slots, 2), np.int64),
    )


def _publications(world: _World) -> list[rows.Publication]:
    """Those that started, in that order."""
    found = []
    for operation in world.operations[world.operations["kind"] == PUB]:
        if operation["started_ut"] < 0:
            continue
        start, size = int(operation["barrier_start"]), int(operation["barrier_size"])
        entries = world.barriers[start : start + size]
        barrier = sorted(zip(world.node_of[entries[:, 0]].tolist(), entries[:, 1].tolist(), strict=True))
        source, counter = int(operation["node"]), int(operation["counter"])
        asked, started = int(operation["time_ut"]), int(operation["started_ut"])
        found.append(rows.Publication(0, source, counter, asked, started, tuple(barrier)))
    return sorted(found, key=lambda row: row.started_ut)


# -- compiled: the event loop ------------------------------------------------------------------------


@njit(**EVENT_LOOP)
def _run(world):  # type: ignore[no-untyped-def]
    operations, nodes, slots, network, wheel = (
        world.operations,
        world.nodes,
        world.slots,
        world.network,
        world.wheel,
    )
    awaited, views, recipients, children = world.awaited, world.views, world.recipients, world.children
    counts = world.record.counts
    now = np.int64(0)
    upcoming = np.int64(0)
    while True:
        if in_flight(counts) == 0:
            if upcoming == len(operations):
                return counts[STATUS]
            now = operations[upcoming].time_ut
        while upcoming < len(operations) and operations[upcoming].time_ut == now:
            if _take_input(world, now, upcoming):
                _pump(world, now, np.int64(operations[upcoming].node), np.int64(-1))
            upcoming += 1

        bucket = now & (len(wheel.head) - 1)
        place = first_place(wheel.head, wheel.position, bucket)
        while place:
            me, sender, hops, acknowledges, flag, slot = parts_of(wheel.pool[place])
            soon = parts_of(
                wheel.pool[(place & ~63) | ((place + 4) & 63)]
            )  # nonsense at the end of the bucket
            if 0 <= soon[5] < len(slots):
                prefetch(awaited, soon[5], soon[0])
                prefetch(views, soon[0], np.int64(slots[soon[5]].source))
            counts[ARRIVED] += 1
            kind, luck, source = np.int64(slots[slot].kind), slots[slot].luck, np.int64(slots[slot].source)
            if acknowledges:
                state = np.int64(awaited[slot, me]) - (1 << MISSING_AT)
                if flag:
                    state = gather_reports(world.report_next, world.report_ends, slot, me, sender, state)
                awaited[slot, me] = state
                if (state >> MISSING_AT) & 31 == 0 and not state & HELD:
                    if me == source:
                        _pump(world, now, me, slot)
                    else:
                        flag = np.int64((state & HAS_REPORTS) != 0)
                        send_ack(network, nodes, counts, wheel, now, me, state & 0xFFFF, flag, slot, luck)
                place = next_place(wheel.position, wheel.link, bucket, place)
                continue

            clusters = cluster_of(me, sender) - 1
            phase = nodes[me].phase
            flag = np.int64(0)
            if kind == SUB:
                if phase != OUTSIDE:
                    flag = report(world, me, slot)
                    if phase == MEMBER and nodes[me].held_count:
                        deliver_all(world, now, me)
                found = children_among_all(me, clusters, children)
            else:
                found = children_among(recipients, slot, me, clusters, children)
            if found:
                awaited[slot, me] = sender | found << MISSING_AT | flag * HAS_REPORTS
                for k in range(found):
                    send_copy(network, nodes, counts, wheel, now, me, children[k], hops + 1, kind, slot, luck)
            elif kind != UNS:
                send_ack(network, nodes, counts, wheel, now, me, sender, flag, slot, luck)
            if kind == PUB:
                counts[FALSE_POSITIVES] += nodes[me].wanted == 0
                if phase != OUTSIDE:
                    receive(world, now, me, slot, hops)
            elif kind == UNS:
                if found == 0:
                    awaited[slot, me] = sender
                if leaves_at_once(world, me, slot):
                    if found == 0:
                        send_ack(network, nodes, counts, wheel, now, me, sender, 0, slot, luck)
                else:
                    hold_leave(world, now, me, slot)
            place = next_place(wheel.position, wheel.link, bucket, place)
        if counts[STATUS]:
            return counts[STATUS]
        now += 1


# -- compiled: what the application asks for, and own broadcasts (`protocol.broadcasts`) -----------------


@njit(**CALLED)
def _take_input(world, now, o):  # type: ignore[no-untyped-def]
    """Queue it, if the node can do it now (see `Workload`); whether it is queued."""
    operations, nodes = world.operations, world.nodes
    me, kind = np.int64(operations[o].node), operations[o].kind
    if kind == SUB:
        if nodes[me].wanted:
            return False
        nodes[me].wanted = 1
        nodes[me].join = o
        return True
    if kind == UNS:
        if not nodes[me].wanted:
            return False
        nodes[me].wanted = nodes[me].in_effect = 0
        if nodes[me].join >= 0:
            nodes[me].join = -1
            return False
        close(world, now, me)
    else:
        if not nodes[me].in_effect:
            return False
        operations[o].counter = _next_counter(nodes, me)
    _enqueue(world, me, o)
    return True


@njit(**CALLED)
def _next_counter(nodes, me):  # type: ignore[no-untyped-def]
    nodes[me].counter += 1
    return nodes[me].counter


@njit(**CALLED)
def _enqueue(world, me, o):  # type: ignore[no-untyped-def]
    nodes = world.nodes
    if nodes[me].queue_first < 0:
        nodes[me].queue_first = o
    else:
        world.operations[nodes[me].queue_last].next = o
    nodes[me].queue_last = o


@njit(**CALLED)
def _pump(world, now, me, acknowledged):  # type: ignore[no-untyped-def]
    """End the node's broadcast `acknowledged` (−1: there is none), then start what waits until one goes on."""
    operations, nodes = world.operations, world.nodes
    while True:
        if acknowledged >= 0:
            _finished(world, now, me, acknowledged)
            acknowledged = np.int64(-1)
        if nodes[me].current >= 0:
            return
        o = np.int64(nodes[me].queue_first)
        if o >= 0:
            nodes[me].queue_first = operations[o].next
        else:
            o = np.int64(nodes[me].join)
            nodes[me].join = -1
            if o < 0:
                return
        slot = take_slot(world.record.counts, world.free)
        if operations[o].kind == SUB:
            _start_join(world, me, o, slot)
        elif operations[o].kind == PUB:
            _start_publication(world, now, me, o, slot)
        else:
            _start_leave(world, me, o)
        if _fan_out(world, now, me, o, slot) == 0:
            acknowledged = slot


@njit(**CALLED)
def _start_join(world, me, o, slot):  # type: ignore[no-untyped-def]
    nodes, past, count = world.nodes, world.past, len(world.nodes)
    counter = _next_counter(nodes, me)
    world.operations[o].counter = counter
    publisher = nodes[me].publisher
    nodes[me].own = counter
    nodes[me].phase = JOINING
    nodes[me].closing = 0
    nodes[me].covered = 1
    nodes[me].last_publication = past.values[KNOWN * count + me, publisher] if publisher >= 0 else 0
    nodes[me].digest = compiled_fingerprint(me, counter)
    world.views[me, :] = 0
    world.members[me, :] = 0
    world.received[me, :] = 0
    world.heard[me, :] = 0
    for which in (BARRIER, DOUBTFUL, DELIVERED):
        clear(past, which * count + me)
    world.reports[slot, :] = 0


@njit(**CALLED)
def _start_publication(world, now, me, o, slot):  # type: ignore[no-untyped-def]
    nodes, operations, record = world.nodes, world.operations, world.record
    counter, barrier = operations[o].counter, BARRIER * len(nodes) + me
    _copy_barrier(world, me, o)
    clear(world.past, barrier)
    set_value(world.past, barrier, np.int64(nodes[me].publisher), counter)
    nodes[me].covered = 0
    nodes[me].last_publication = counter
    operations[o].digest = nodes[me].digest
    if not nodes[me].closing:
        write_row(record.deliveries, record.counts, DELIVERIES, now, me, o)
    note_addressees(nodes, world.addressed, slot, me)
    for other in range(len(nodes)):
        code = world.views[me, other]
        world.marks[slot, other] = code >> 1 if code & 1 else 0


@njit(**CALLED)
def _start_leave(world, me, o):  # type: ignore[no-untyped-def]
    world.operations[o].counter = _next_counter(world.nodes, me)
    world.nodes[me].phase = LEAVING
    _copy_barrier(world, me, o)


@njit(**CALLED)
def _copy_barrier(world, me, o):  # type: ignore[no-untyped-def]
    """Into the operation."""
    operations, counts, barriers, past = world.operations, world.record.counts, world.barriers, world.past
    row, keys = BARRIER * len(world.nodes) + me, past.values.shape[1] - 1
    used = operations[o].barrier_start = counts[BARRIERS_USED]
    key = first_key(past, row)
    while key < keys:
        if used == len(barriers):
            counts[STATUS] = TOO_FEW_ENTRIES
            break
        barriers[used, 0] = key
        barriers[used, 1] = past.values[row, key]
        used += 1
        key = np.int64(past.following[row, key])
    operations[o].barrier_size = used - counts[BARRIERS_USED]
    counts[BARRIERS_USED] = used


@njit(**CALLED)
def _fan_out(world, now, me, o, slot):  # type: ignore[no-untyped-def]
    """Start the broadcast of an operation; how many copies the source sends."""
    operations, slots, children = world.operations, world.slots, world.children
    kind = np.int64(operations[o].kind)
    luck = luck_of_broadcast(world.network.seed, me, operations[o].counter)
    world.nodes[me].current = o
    operations[o].slot = slot
    operations[o].started_ut = now
    slots[slot].luck = luck
    slots[slot].operation = o
    slots[slot].source = me
    slots[slot].kind = kind
    slots[slot].publisher = operations[o].publisher
    slots[slot].counter = operations[o].counter
    if kind == SUB:
        found = children_among_all(me, world.dimension, children)
    else:
        for word in range(world.members.shape[1]):
            world.recipients[slot, word] = world.members[me, word]
        found = children_among(world.recipients, slot, me, world.dimension, children)
    world.awaited[slot, me] = found << MISSING_AT
    counts, nodes = world.record.counts, world.nodes
    for k in range(found):
        send_copy(world.network, nodes, counts, world.wheel, now, me, children[k], 1, kind, slot, luck)
    return found


@njit(**CALLED)
def _finished(world, now, me, slot):  # type: ignore[no-untyped-def]
    """An own broadcast is acknowledged by all."""
    nodes, record = world.nodes, world.record
    o = world.slots[slot].operation
    kind = world.slots[slot].kind
    nodes[me].current = -1
    if kind == PUB:
        count_expected(nodes, world.addressed, record.counts, slot)
    elif kind == SUB:
        joined(world, now, me, slot)
    else:
        _left(world, me)
        write_row(record.changes, record.counts, CHANGES, now, me, 0)
    world.operations[o].slot = -1
    free_slot(record.counts, world.free, slot)


@njit(**CALLED)
def _left(world, me):  # type: ignore[no-untyped-def]
    nodes, past, count = world.nodes, world.past, len(world.nodes)
    known = KNOWN * count + me
    raise_entries(past, known, DELIVERED * count + me)
    raise_entries(past, known, DOUBTFUL * count + me)
    if nodes[me].last_publication:
        set_value(past, known, np.int64(nodes[me].publisher), nodes[me].last_publication)
    nodes[me].phase = OUTSIDE
