"""The published algorithm (`sim.published`) with a membership that changes, compiled: same events, same trace.

What makes it fast:

- A view is a row of codes, one per node, that grow with the counter of the operation they stand for, so
  UPDATE (lines 75–82) is a maximum; next to it a row of bits has the members, for CHILDREN.
- The set that an acknowledgement carries (lines 95–98) is not carried. The subtree of a child reached
  through subcube s lies in an aligned block of 2^(s−1) nodes, and all of it has answered when the child
  does; so what the set holds is what the nodes of that block have put into `reported`, a row per
  broadcast, since.
- A barrier is a set of publications, and a node's own is a row of bits.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from vcubeps.sim import trace as rows
from vcubeps.sim.kernel.called import CALLED
from vcubeps.sim.kernel.churn import (
    ARRIVED,
    CHANGES,
    DELIVERIES,
    DONE,
    FALSE_POSITIVES,
    PUB,
    SEQUENCE,
    STATUS,
    SUB,
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
from vcubeps.sim.kernel.member_bits import (
    children_among,
    children_among_all,
    subcube_of,
)
from vcubeps.sim.kernel.options import EVENT_LOOP
from vcubeps.sim.kernel.prefetching import prefetch
from vcubeps.sim.kernel.published_topic import (
    code,
    learn,
    learn_answers,
    learn_block,
    receive,
    remove_pending,
    report,
    take_barrier,
)
from vcubeps.sim.kernel.published_world import make_world, publications_of
from vcubeps.sim.kernel.wheel import first_place, next_place
from vcubeps.sim.measurements import Measurements
from vcubeps.sim.network import Delays
from vcubeps.sim.workload import Workload


def run(
    workload: Workload, delays: Delays, seed: int, *, prune: bool = True, trace: bool = False
) -> tuple[Measurements, rows.Trace | None]:
    """Simulate; without `prune` barriers are those of the `unpruned` reading."""
    setting = Setting(workload, delays, seed)
    capacity = setting.first_capacity()
    while True:
        world = make_world(setting, capacity, prune, trace)
        status = _run(world)
        if status == DONE:
            break
        capacity.grow(status)
    publications = publications_of(world)
    measurements = measured(world.record, world.nodes, publications)
    return measurements, traced(world.record, world.operations, publications) if trace else None


@njit(**CALLED)
def _subcubes_of(node, children, found):  # type: ignore[no-untyped-def]
    """The subcubes of the children, as bits."""
    subcubes = np.int64(0)
    for k in range(found):
        subcubes |= np.int64(1) << (subcube_of(node, children[k]) - 1)
    return subcubes


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
            subcube = subcube_of(me, sender)
            if acknowledges:
                # Lines 54–61, and 69–70 at a subscriber.
                state = np.int64(awaited[slot, me]) & ~(np.int64(1) << (subcube + 15))
                awaited[slot, me] = state
                is_last = state < 1 << 16
                if is_last and me != source:
                    report(nodes, first_rec, reported, me, publisher, slot)
                    send_ack(network, nodes, counts, wheel, now, me, state & 0xFFFF, 0, slot, luck)
                if own:
                    if nodes[me].viewed_since < slots[slot].sequence:
                        # It has taken in the earlier answers already.
                        size = np.int64(1) << (subcube - 1)
                        learn_block(views, members, reported, me, slot, sender & ~(size - 1), size)
                    else:
                        subcubes = world.dimension if me == source else subcube_of(me, state & 0xFFFF) - 1
                        learn_answers(views, members, reported, me, slot, subcubes, state >> 16)
                if is_last and me == source:
                    _acknowledged(world, now, slot)
            else:
                # Lines 40–53.
                if kind == SUB:
                    found = children_among_all(me, subcube - 1, children)
                else:
                    found = children_among(members, me, me, subcube - 1, children)
                if found:
                    awaited[slot, me] = sender | _subcubes_of(me, children, found) << 16
                    for k in range(found):
                        send_copy(
                            network, nodes, counts, wheel, now, me, children[k], hops + 1, kind, slot, luck
                        )
                else:
                    report(nodes, first_rec, reported, me, publisher, slot)
                    send_ack(network, nodes, counts, wheel, now, me, sender, 0, slot, luck)
                # Lines 62–74.
                if kind == PUB:
                    if own:
                        receive(world, now, me, slot, hops)
                    else:
                        counts[FALSE_POSITIVES] += 1
                elif own:
                    learn(views, members, me, source, code(kind, slots[slot].counter))
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
        nodes[me].own = code(SUB, nodes[me].counter)
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
        take_barrier(world, me, o)
        write_row(world.record.deliveries, counts, DELIVERIES, now, me, o)
        world.last_delvs[me, publisher] = counter
        note_addressees(nodes, world.addressed, slot, me)
    if kind == SUB:
        found = children_among_all(me, world.dimension, world.children)
    else:
        found = children_among(world.members, me, me, world.dimension, world.children)
    world.awaited[slot, me] = _subcubes_of(me, world.children, found) << 16
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
        _end_broadcast(world, now, slot)


@njit(**CALLED)
def _acknowledged(world, now, slot):  # type: ignore[no-untyped-def]
    """The last acknowledgement of a broadcast has reached its source."""
    _end_broadcast(world, now, slot)
    _run_tasks(world, now, np.int64(world.slots[slot].source))


@njit(**CALLED)
def _end_broadcast(world, now, slot):  # type: ignore[no-untyped-def]
    counts, o = world.record.counts, world.slots[slot].operation
    if world.operations[o].kind == PUB:
        count_expected(world.nodes, world.addressed, counts, slot)
    world.operations[o].slot = -1
    world.operations[o].acknowledged_ut = now
    free_slot(counts, world.free, slot)


@njit(**CALLED)
def _finish(world, now, me, task, o):  # type: ignore[no-untyped-def]
    """Lines 31–36."""
    nodes, tasks, record = world.nodes, world.tasks, world.record
    kind = world.operations[o].kind
    if kind == SUB:
        if nodes[me].own == code(SUB, world.operations[o].counter):
            nodes[me].in_effect = nodes[me].own
            write_row(record.changes, record.counts, CHANGES, now, me, o)
    elif kind == UNS:
        while nodes[me].pending_first >= 0:
            remove_pending(world, me, np.int64(-1), np.int64(nodes[me].pending_first))
        world.first_rec[me, :] = -1
        write_row(record.changes, record.counts, CHANGES, now, me, o)
        if nodes[me].queue_first < 0:
            if nodes[me].task_first == task:
                nodes[me].task_first = tasks[task].next
                return
            before = nodes[me].task_first
            while tasks[before].next != task:
                before = tasks[before].next
            tasks[before].next = tasks[task].next
