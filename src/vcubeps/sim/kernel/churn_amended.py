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

import numpy as np
from numba import njit

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
from vcubeps.sim.kernel.amended_world import make_world, publications_of
from vcubeps.sim.kernel.called import CALLED
from vcubeps.sim.kernel.churn import (
    ARRIVED,
    BARRIERS_USED,
    CHANGES,
    DELIVERIES,
    DONE,
    FALSE_POSITIVES,
    PUB,
    STATUS,
    SUB,
    TOO_FEW_ENTRIES,
    UNS,
    Setting,
    count_expected,
    free_slot,
    in_flight,
    measured,
    note_addressees,
    parts_of,
    send_ack,
    send_copy,
    take_slot,
    traced,
    write_row,
)
from vcubeps.sim.kernel.copies import luck_of_broadcast
from vcubeps.sim.kernel.member_bits import children_among, children_among_all, subcube_of
from vcubeps.sim.kernel.options import EVENT_LOOP
from vcubeps.sim.kernel.ordered_maps import (
    clear,
    first_key,
    raise_entries,
    set_value,
)
from vcubeps.sim.kernel.prefetching import prefetch
from vcubeps.sim.kernel.wheel import first_place, next_place
from vcubeps.sim.measurements import Measurements
from vcubeps.sim.network import Delays
from vcubeps.sim.workload import Workload


def run(
    workload: Workload, delays: Delays, seed: int, *, trace: bool = False
) -> tuple[Measurements, rows.Trace | None]:
    setting = Setting(workload, delays, seed)
    capacity = setting.first_capacity()
    while True:
        world = make_world(setting, capacity, trace)
        status = _run(world)
        if status == DONE:
            break
        capacity.grow(status)
    publications = publications_of(world)
    measurements = measured(world.record, world.nodes, publications)
    return measurements, traced(world.record, world.operations, publications) if trace else None


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

            subcubes = subcube_of(me, sender) - 1
            phase = nodes[me].phase
            flag = np.int64(0)
            if kind == SUB:
                if phase != OUTSIDE:
                    flag = report(world, me, slot)
                    if phase == MEMBER and nodes[me].held_count:
                        deliver_all(world, now, me)
                found = children_among_all(me, subcubes, children)
            else:
                found = children_among(recipients, slot, me, subcubes, children)
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
    world.operations[o].acknowledged_ut = now
    if kind == PUB:
        count_expected(nodes, world.addressed, record.counts, slot)
    elif kind == SUB:
        joined(world, now, me, slot)
    else:
        _left(world, me)
        write_row(record.changes, record.counts, CHANGES, now, me, o)
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
