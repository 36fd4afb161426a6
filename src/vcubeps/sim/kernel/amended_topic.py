"""A topic as its members hold it, compiled (`protocol.topic`, `membership`, `causality`): for `churn_amended`."""

from __future__ import annotations

import numpy as np
from numba import njit

from vcubeps.sim.kernel.called import CALLED
from vcubeps.sim.kernel.churn import (
    CHANGES,
    PUB,
    SEQUENCE,
    UNS,
    note_delivery,
    note_reception,
    send_ack,
    write_row,
)
from vcubeps.sim.kernel.hold_back import (
    CELLS_USED,
    RELEASED,
    append,
    block,
    give_back,
    pop,
    take_cell,
    wake,
)
from vcubeps.sim.kernel.member_bits import drop, put
from vcubeps.sim.kernel.ordered_maps import delete, raise_entries, set_value

OUTSIDE, JOINING, MEMBER, LEAVING = 0, 1, 2, 3
"""Phases; outside, a node holds no topic."""

KNOWN, BARRIER, DOUBTFUL, DELIVERED = 0, 1, 2, 3
"""Maps of `causality.Past`; outside, the first is the worker's knowledge."""

MISSING_AT, HELD, HAS_REPORTS = 16, 1 << 24, 1 << 25
"""Parts of a task, above its parent: acknowledgements missing, whether a leave holds it, whether it has gathered
reports with a floor."""

# -- reports of a SUB (`protocol.topic`) ------------------------------------------------------


@njit(**CALLED)
def report(world, me, slot):  # type: ignore[no-untyped-def]
    """A SUB has reached a node that is in the topic: take the joiner in and report. 1 if there is a floor."""
    nodes, slots = world.nodes, world.slots
    publisher = nodes[me].publisher
    if nodes[me].phase == LEAVING:
        floor = nodes[me].last_publication
        world.reports[slot, me] = 2 * nodes[me].own
    else:
        source, counter = np.int64(slots[slot].source), np.int64(slots[slot].counter)
        code = np.int64(world.views[me, source])
        if not code & 1 and code >> 1 >= counter:
            return 0
        if code >> 1 < counter:
            if code & 1:
                _remove(world, me, source)
            _add(world, me, source, counter, counter)
        floor = world.floors[publisher, source] if publisher >= 0 else 0
        world.reports[slot, me] = 2 * nodes[me].own + 1
    if publisher >= 0:
        world.report_floor[slot, publisher] = floor
    if floor == 0:
        return 0
    world.report_next[slot, publisher] = -1
    world.report_ends[slot, me] = publisher << 32 | publisher
    return 1


@njit(**CALLED)
def gather_reports(report_next, report_ends, slot, me, child, state):  # type: ignore[no-untyped-def]
    """The child's reports come after those that the task has."""
    ends = report_ends[slot, child]
    if state & HAS_REPORTS:
        report_next[slot, report_ends[slot, me] & 0xFFFFFFFF] = ends >> 32
        ends = (report_ends[slot, me] & ~0xFFFFFFFF) | (ends & 0xFFFFFFFF)
    report_ends[slot, me] = ends
    return state | HAS_REPORTS


@njit(**CALLED)
def joined(world, now, me, slot):  # type: ignore[no-untyped-def]
    nodes, past, record, count = world.nodes, world.past, world.record, len(world.nodes)
    for other in range(count):
        report = np.int64(world.reports[slot, other])
        if report:
            _take_report(world, me, slot, other, report >> 1, report & 1)
    known, barrier, doubtful = KNOWN * count + me, BARRIER * count + me, DOUBTFUL * count + me
    if world.awaited[slot, me] & HAS_REPORTS:
        publisher = world.report_ends[slot, me] >> 32
        while publisher >= 0:
            floor = world.report_floor[slot, publisher]
            if floor > past.values[known, publisher]:
                set_value(past, known, publisher, floor)
            publisher = np.int64(world.report_next[slot, publisher])
    if nodes[me].publisher >= 0:
        delete(past, known, np.int64(nodes[me].publisher))
    raise_entries(past, barrier, known)
    raise_entries(past, doubtful, known)
    nodes[me].covered = 1
    _take_in_what_came_while_joining(world, now, me)
    nodes[me].phase = MEMBER
    if not nodes[me].closing:
        nodes[me].in_effect = nodes[me].own
        write_row(record.changes, record.counts, CHANGES, now, me, world.slots[slot].operation)
    if nodes[me].held_count:
        deliver_all(world, now, me)


@njit(**CALLED)
def _take_report(world, me, slot, other, counter, is_member):  # type: ignore[no-untyped-def]
    views, publisher = world.views, world.nodes[other].publisher
    code = np.int64(views[me, other])
    if not is_member:
        if code & 1 and code >> 1 <= counter:
            _remove(world, me, other)
            views[me, other] = 2 * counter
        elif not code & 1 and code >> 1 < counter:
            views[me, other] = 2 * counter
        return
    floor = np.int64(world.report_floor[slot, publisher]) if publisher >= 0 else 0
    if code & 1 and code >> 1 == counter:
        if publisher >= 0 and world.received[me, publisher] < floor:
            world.received[me, publisher] = floor
    elif code >> 1 < counter:
        if code & 1:
            _remove(world, me, other)
        _add(world, me, other, counter, max(counter, floor))


@njit(**CALLED)
def _take_in_what_came_while_joining(world, now, me):  # type: ignore[no-untyped-def]
    nodes, cells, queues = world.nodes, world.cells, world.queues
    queue = np.int64(nodes[me].held_first)
    nodes[me].held_first = nodes[me].held_last = nodes[me].held_count = 0
    world.queue_of[me, :] = 0
    while queue:
        cell = np.int64(queues[queue].first)
        while cell:
            following = np.int64(cells[cell].next)
            o = np.int64(cells[cell].operation)
            if world.operations[o].kind == UNS:
                append(world, me, cell)
            elif _is_news(world, me, o, True):
                note_reception(world.record, world.operations, now, me, o, np.int64(cells[cell].hops))
                cells[cell].received_ut = now
                append(world, me, cell)
            else:
                give_back(cells, cell)
            cell = following
        following = np.int64(queues[queue].next)
        give_back(queues, queue)
        queue = following


# -- views (`protocol.membership`) --------------------------------------------------------------


@njit(**CALLED)
def fingerprint(node, counter):  # type: ignore[no-untyped-def]
    """`membership.fingerprint`."""
    x = np.uint64(node) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(counter) * np.uint64(0xD1B54A32D192ED03)
    x += np.uint64(0x632BE59BD9B4E019)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(**CALLED)
def _add(world, me, other, counter, received):  # type: ignore[no-untyped-def]
    nodes, count = world.nodes, len(world.nodes)
    world.views[me, other] = 2 * counter + 1
    put(world.members, me, other)
    nodes[me].digest ^= fingerprint(other, counter)
    publisher = nodes[other].publisher
    if publisher >= 0:
        world.received[me, publisher] = received
    if nodes[me].publisher >= 0:
        world.floors[nodes[me].publisher, other] = nodes[me].last_publication
    if not nodes[me].covered:
        raise_entries(world.past, BARRIER * count + me, DOUBTFUL * count + me)
        nodes[me].covered = 1


@njit(**CALLED)
def _remove(world, me, other):  # type: ignore[no-untyped-def]
    """The caller puts something else in its place in the view."""
    nodes = world.nodes
    drop(world.members, me, other)
    nodes[me].digest ^= fingerprint(other, world.views[me, other] >> 1)
    publisher = nodes[other].publisher
    if publisher >= 0 and world.heard[me, publisher] < world.received[me, publisher]:
        world.heard[me, publisher] = world.received[me, publisher]


@njit(**CALLED)
def _apply_leave(world, me, other, counter):  # type: ignore[no-untyped-def]
    code = np.int64(world.views[me, other])
    if code >> 1 < counter:
        if code & 1:
            _remove(world, me, other)
        world.views[me, other] = 2 * counter


# -- reception and delivery (`protocol.topic`, `protocol.causality`) ----------------------------


@njit(**CALLED)
def receive(world, now, me, slot, hops):  # type: ignore[no-untyped-def]
    """A publication has reached a node that is in the topic."""
    nodes, cells = world.nodes, world.cells
    if nodes[me].phase == LEAVING or nodes[me].closing or world.marks[slot, me] != nodes[me].own:
        return
    o = np.int64(world.slots[slot].operation)
    if nodes[me].phase == MEMBER:
        if not _is_news(world, me, o, False):
            return
        world.addressed[slot, me] = -world.addressed[slot, me]
        note_reception(world.record, world.operations, now, me, o, hops)
        if nodes[me].held_count == 0 and _blocker(world, me, o) < 0:
            _deliver(world, now, me, o, now)
            return
    cell = take_cell(cells, world.record.counts, CELLS_USED)
    if cell == 0:
        return
    cells[cell].operation = o
    cells[cell].received_ut = now
    cells[cell].hops = hops
    _hold(world, now, me, cell)


@njit(**CALLED)
def _is_news(world, me, o, is_addressed):  # type: ignore[no-untyped-def]
    """`Topic._accept`: not received before, and meant for this subscription; notes that it has been received."""
    operation = world.operations[o]
    publisher, counter = operation.publisher, operation.counter
    code = world.views[me, operation.node]
    if code & 1 and code >> 1 < counter:
        if counter <= world.received[me, publisher]:
            return False
        world.received[me, publisher] = counter
        return True
    if not is_addressed or counter <= world.heard[me, publisher]:
        return False
    world.heard[me, publisher] = counter
    return True


@njit(**CALLED)
def leaves_at_once(world, me, slot):  # type: ignore[no-untyped-def]
    """Whether a leave can take effect here now, which it then does.

    What would go into the hold-back and come out again at once does not go there.
    """
    nodes, slots = world.nodes, world.slots
    source, counter = np.int64(slots[slot].source), np.int64(slots[slot].counter)
    if nodes[me].phase == OUTSIDE:
        return True
    if nodes[me].phase == LEAVING or nodes[me].closing:
        _apply_leave(world, me, source, counter)
        return True
    code = world.views[me, source]
    if not code & 1 and code >> 1 >= counter:
        return True
    if nodes[me].phase == JOINING or nodes[me].held_count:
        return False
    if _blocker(world, me, np.int64(slots[slot].operation)) >= 0:
        return False
    _apply_leave(world, me, source, counter)
    return True


@njit(**CALLED)
def hold_leave(world, now, me, slot):  # type: ignore[no-untyped-def]
    cells, counts = world.cells, world.record.counts
    world.awaited[slot, me] |= HELD
    cell = take_cell(cells, counts, CELLS_USED)
    if cell == 0:
        return
    counts[SEQUENCE] += 1
    cells[cell].operation = world.slots[slot].operation
    cells[cell].sequence = counts[SEQUENCE]
    _hold(world, now, me, cell)


@njit(**CALLED)
def _hold(world, now, me, cell):  # type: ignore[no-untyped-def]
    """Put a message into the hold-back; deliver what can be."""
    if append(world, me, cell):
        world.stack[0] = world.nodes[me].held_last
        _deliver_from(world, now, me, np.int64(1))


@njit(**CALLED)
def _blocker(world, me, o):  # type: ignore[no-untyped-def]
    """`Topic._blocker`: a node, −1 if none."""
    operations, nodes, views, barriers = world.operations, world.nodes, world.views, world.barriers
    others_pending = nodes[me].held_count > 1
    start = operations[o].barrier_start
    for entry in range(start, start + operations[o].barrier_size):
        publisher, needed = barriers[entry, 0], barriers[entry, 1]
        if world.received[me, publisher] < needed or others_pending:
            source = np.int64(world.node_of[publisher])
            if source == me:
                continue
            if world.received[me, publisher] < needed and views[me, source] & 1:
                return source
            if others_pending:
                queue = world.queue_of[me, publisher]
                if queue:
                    head = world.cells[world.queues[queue].first].operation
                    if operations[head].counter <= needed:
                        return source
    return np.int64(-1)


@njit(**CALLED)
def _deliver(world, now, me, o, received_ut):  # type: ignore[no-untyped-def]
    """`Past.deliver`, and to the application."""
    operations, nodes, past, barriers = world.operations, world.nodes, world.past, world.barriers
    count = len(nodes)
    barrier, doubtful, delivered = BARRIER * count + me, DOUBTFUL * count + me, DELIVERED * count + me
    values = past.values
    same_membership = operations[o].digest == nodes[me].digest
    start = operations[o].barrier_start
    for entry in range(start, start + operations[o].barrier_size):
        publisher, needed = np.int64(barriers[entry, 0]), barriers[entry, 1]
        if (
            values[delivered, publisher] < needed
            and publisher != nodes[me].publisher
            and needed > values[doubtful, publisher]
        ):
            set_value(past, doubtful, publisher, needed)
        if same_membership:
            if values[barrier, publisher] <= needed:
                delete(past, barrier, publisher)
        else:
            kept = values[doubtful, publisher]
            if kept >= needed and kept > values[barrier, publisher]:
                set_value(past, barrier, publisher, kept)
    source, counter = np.int64(operations[o].publisher), operations[o].counter
    set_value(past, delivered, source, counter)
    if not same_membership:
        set_value(past, doubtful, source, max(counter, values[doubtful, source]))
    elif values[doubtful, source] <= counter:
        delete(past, doubtful, source)
    set_value(past, barrier, source, counter)
    nodes[me].covered = 0
    note_delivery(world.record, operations, now, me, o, received_ut)


@njit(**CALLED)
def deliver_all(world, now, me):  # type: ignore[no-untyped-def]
    """`Topic.deliver_all` of a member."""
    nodes, queues, waits = world.nodes, world.queues, world.waits
    wait = np.int64(nodes[me].waits_first)
    while wait:
        following = np.int64(waits[wait].next)
        give_back(waits, wait)
        wait = following
    nodes[me].waits_first = nodes[me].waits_last = 0
    height = np.int64(0)
    queue = nodes[me].held_first
    while queue:
        world.stack[height] = queue
        height += 1
        queue = queues[queue].next
    _deliver_from(world, now, me, height)


@njit(**CALLED)
def _deliver_from(world, now, me, height):  # type: ignore[no-untyped-def]
    """`Topic.deliver_from`; the queues of its sources are the first `height` of the stack.

    Then the acknowledgements of the leaves that took effect on the way.
    """
    nodes, operations, cells, queues, stack = (
        world.nodes,
        world.operations,
        world.cells,
        world.queues,
        world.stack,
    )
    counts = world.record.counts
    if nodes[me].phase != MEMBER or nodes[me].closing:
        return
    for k in range(height):
        height = wake(world, me, np.int64(queues[stack[k]].source), height)
    while height:
        height -= 1
        queue = stack[height]
        source = np.int64(queues[queue].source)
        while queue:
            cell = np.int64(queues[queue].first)
            o = np.int64(cells[cell].operation)
            blocker = _blocker(world, me, o)
            if blocker >= 0:
                block(world, me, queue, blocker)
                break
            received_ut = cells[cell].received_ut
            queue = pop(world, me, queue)
            if operations[o].kind == PUB:
                _deliver(world, now, me, o, received_ut)
            else:
                _apply_leave(world, me, source, np.int64(operations[o].counter))
                world.released[counts[RELEASED], 0] = operations[o].slot
                counts[RELEASED] += 1
            height = wake(world, me, source, height)
    if counts[RELEASED]:
        _release(world, now, me)


@njit(**CALLED)
def _release(world, now, me):  # type: ignore[no-untyped-def]
    """Send the acknowledgements of the leaves that have taken effect."""
    counts, awaited = world.record.counts, world.awaited
    for k in range(counts[RELEASED]):
        slot = world.released[k, 0]
        state = np.int64(awaited[slot, me]) & ~HELD
        awaited[slot, me] = state
        if (state >> MISSING_AT) & 31 == 0:
            luck = world.slots[slot].luck
            send_ack(world.network, world.nodes, counts, world.wheel, now, me, state & 0xFFFF, 0, slot, luck)
    counts[RELEASED] = 0


@njit(**CALLED)
def close(world, now, me):  # type: ignore[no-untyped-def]
    """`Topic.close`, and the acknowledgements of leaves, in the order in which they arrived."""
    nodes, operations, cells, queues, waits = (
        world.nodes,
        world.operations,
        world.cells,
        world.queues,
        world.waits,
    )
    released, held = world.released, 0
    nodes[me].closing = 1
    wait = np.int64(nodes[me].waits_first)
    while wait:
        following = np.int64(waits[wait].next)
        give_back(waits, wait)
        wait = following
    nodes[me].waits_first = nodes[me].waits_last = 0
    queue = np.int64(nodes[me].held_first)
    while queue:
        cell = np.int64(queues[queue].first)
        o = np.int64(cells[cell].operation)
        if operations[o].kind == UNS:
            _apply_leave(world, me, np.int64(operations[o].node), np.int64(operations[o].counter))
            place = held
            while place > 0 and released[place - 1, 1] > cells[cell].sequence:
                released[place, 0] = released[place - 1, 0]
                released[place, 1] = released[place - 1, 1]
                place -= 1
            released[place, 0] = operations[o].slot
            released[place, 1] = cells[cell].sequence
            held += 1
        pop(world, me, queue)
        queue = np.int64(nodes[me].held_first)
    world.record.counts[RELEASED] = held
    _release(world, now, me)
