"""What the kernels for a membership that changes have in common: operations, messages, and what is measured.

One topic. An *operation* is an input of the workload: a node subscribes, unsubscribes or publishes. While
its broadcast is under way it has a *slot*, a row of the arrays indexed (slot, node); slots are used again.
A node gets a broadcast at most once, so (slot, node) names a copy and its acknowledgement.

Everybody's view of everybody is kept, so memory grows with the square of the nodes (8 MB at 2,048).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from vcubeps.sim import trace
from vcubeps.sim.kernel.called import CALLED
from vcubeps.sim.kernel.copies import early
from vcubeps.sim.kernel.wheel import Wheel, make_wheel, push
from vcubeps.sim.measurements import Measurements, histogram, trimmed
from vcubeps.sim.network import Delays
from vcubeps.sim.workload import Workload

Records = NDArray[Any]
"""A structured array."""
Codes = NDArray[np.int16 | np.int32]
"""Small numbers, see `Setting.small_codes`."""

SUB, UNS, PUB, ACK = 0, 1, 2, 3
"""Kinds of operation and of message; also the places of their counts in `Record.counts`."""
FALSE_POSITIVES, EXPECTED, LOST, ARRIVED, STATUS = 4, 5, 6, 7, 8
RECEPTIONS, DELIVERIES, CHANGES = 9, 10, 11
"""Rows of the trace written."""
SLOTS_USED, SLOTS_FREE, SEQUENCE, BARRIERS_USED, CELLS_USED, CELLS_FREE = 12, 13, 14, 15, 16, 17
"""For the kernels' own use."""
COUNTS = 24

DONE, WHEEL_TOO_SHORT, TOO_FEW_SLOTS, TOO_FEW_CELLS, TOO_FEW_ENTRIES, HISTOGRAM_TOO_SHORT = range(6)
"""Values of STATUS."""

MAX_NODES = 1 << 16
_SENDER_AT, _HOPS_AT, _ACK_AT, _FLAG_AT, _SLOT_AT = 16, 32, 37, 38, 39

OPERATION = np.dtype(
    [
        ("time_ut", np.int64),
        ("started_ut", np.int64),
        ("acknowledged_ut", np.int64),  # −1 until it is
        ("digest", np.uint64),
        ("node", np.int32),
        ("kind", np.int32),
        ("publication", np.int32),  # number among the publications, −1 if it is none
        ("publisher", np.int32),  # number of the node among those that publish, −1 if it never does
        ("counter", np.int32),  # −1 until it has one
        ("slot", np.int32),  # −1 while its broadcast is not under way
        ("next", np.int32),  # operation that its node does after it, −1 if none waits
        ("barrier_start", np.int64),  # place of its first entry in `barriers`
        ("barrier_size", np.int32),
    ],
    align=True,
)

SLOT = np.dtype(
    [
        ("luck", np.uint64),
        ("sequence", np.int64),  # place of its start among the starts and subscriptions of the run
        ("operation", np.int32),
        ("source", np.int32),
        ("kind", np.int32),
        ("publisher", np.int32),
        ("counter", np.int32),
    ],
    align=True,
)


class Network(NamedTuple):
    """What a message costs; see `network.Delays`."""

    transmission_ut: int
    lead_ut: int
    """From the moment the transmitter turns to a message until its arrival, at the longest."""
    jitters: bool
    acks_queue: bool
    seed: int


class Record(NamedTuple):
    """What is measured."""

    counts: NDArray[np.int64]
    times: NDArray[np.int64]
    """Histograms of reception latency, delivery latency, causal wait."""
    hops: NDArray[np.int64]
    receptions: NDArray[np.int64]
    """Rows (time, node, operation), if a trace is wanted; so are those that follow."""
    deliveries: NDArray[np.int64]
    changes: NDArray[np.int64]


@dataclass(slots=True)
class Capacity:
    """Sizes that are guessed: too small a one is found out by the kernel, and the run is made again."""

    span_ut: int
    slots: int
    cells: int
    """Messages held back at all nodes."""
    entries: int
    """Of all barriers that are kept."""
    times: int

    def grow(self, status: int) -> None:
        if status == WHEEL_TOO_SHORT:
            self.span_ut *= 4
        elif status == TOO_FEW_SLOTS:
            self.slots *= 4
        elif status == TOO_FEW_CELLS:
            self.cells *= 4
        elif status == TOO_FEW_ENTRIES:
            self.entries *= 4
        else:
            self.times *= 4


class Setting:
    """A workload and delays, as the kernels take them."""

    def __init__(self, workload: Workload, delays: Delays, seed: int) -> None:
        if workload.topics != 1:
            raise ValueError(f"this kernel simulates one topic, got {workload.topics}: run them one by one")
        if workload.answers_after:
            raise ValueError("nobody answers in this kernel: leave answers_after at 0")
        nodes = workload.nodes
        if not 2 <= nodes <= MAX_NODES or nodes & (nodes - 1):
            raise ValueError(f"nodes are a power of two from 2 to {MAX_NODES}, got {nodes}: choose another")
        self.nodes = nodes
        self.dimension = workload.dimension
        self.members = workload.members[0]
        self.operations = _operations(workload)
        self.publishers = np.unique(workload.publish_node)
        self.publications = len(workload.publish_ut)
        self.network = Network(
            delays.transmission_ut,
            delays.wait_ut + delays.flight_ut,
            delays.jitters,
            delays.acks == "queued",
            seed,
        )

    def first_capacity(self) -> Capacity:
        span = 4096
        while span <= 2 * self.network.lead_ut:
            span *= 2
        slots = min(len(self.operations), max(256, 2 * self.nodes)) + 1
        # No latency exceeds the length of the run, which is little more than that of its inputs.
        times = int(self.operations["time_ut"].max(initial=0)) + (1 << 16)
        return Capacity(span, slots, 1 << 20, 1 << 20, times)

    def small_codes(self) -> type[np.int16 | np.int32]:
        """For twice the counters that a node may come to. What takes the time is to reach them in memory."""
        per_node = int(np.bincount(self.operations["node"], minlength=self.nodes).max())
        return np.int16 if per_node < 1 << 13 else np.int32

    def member_bits(self) -> NDArray[np.uint64]:
        """Node → bits of the members other than itself that it knows when the run begins."""
        bits = np.zeros((self.nodes, -(-self.nodes // 64)), np.uint64)
        members = np.flatnonzero(self.members)
        for node in members.tolist():
            bits[members, node >> 6] |= np.uint64(1 << (node & 63))
            bits[node, node >> 6] &= ~np.uint64(1 << (node & 63))
        return bits

    def publisher_of_node(self) -> NDArray[np.int64]:
        """−1 for a node that never publishes."""
        numbers = np.full(self.nodes, -1, np.int64)
        numbers[self.publishers] = np.arange(len(self.publishers))
        return numbers

    def wheel(self, capacity: Capacity) -> Wheel:
        # A copy and its acknowledgement are never under way at the same time.
        return make_wheel(capacity.span_ut, capacity.slots * self.nodes)

    def record(self, capacity: Capacity, traced: bool) -> Record:
        rows = (self.publications * self.nodes, 3) if traced else (0, 3)
        return Record(
            np.zeros(COUNTS, np.int64),
            np.zeros((3, capacity.times), np.int64),
            np.zeros(32, np.int64),
            np.empty(rows, np.int64),
            np.empty(rows, np.int64),
            np.empty((len(self.operations) if traced else 0, 3), np.int64),
        )


def _operations(workload: Workload) -> Records:
    changes, publications = len(workload.change_ut), len(workload.publish_ut)
    operations = np.zeros(changes + publications, OPERATION)
    operations["time_ut"] = np.concatenate((workload.change_ut, workload.publish_ut))
    operations["node"] = np.concatenate((workload.change_node, workload.publish_node))
    operations["kind"] = np.concatenate(
        (np.where(workload.change_joins, SUB, UNS), np.full(publications, PUB, np.int64))
    )
    operations["publication"] = np.concatenate((np.full(changes, -1), np.arange(publications)))
    publishers = np.unique(workload.publish_node)
    place = np.searchsorted(publishers, operations["node"])
    found = np.append(publishers, -1)[place] == operations["node"]
    operations["publisher"] = np.where(found, place, -1)
    operations["counter"] = operations["slot"] = operations["next"] = -1
    operations["started_ut"] = operations["acknowledged_ut"] = -1
    # The reference's order: by time, changes before publications, each in the order of its arrays.
    return operations[np.argsort(operations["time_ut"], kind="stable")]


def measured(record: Record, nodes: Records, barriers: list[trace.Publication]) -> Measurements:
    """Of a run whose publications are `barriers`."""
    counts = record.counts.tolist()
    return Measurements(
        reception_ut=trimmed(record.times[0]),
        delivery_ut=trimmed(record.times[1]),
        causal_wait_ut=trimmed(record.times[2]),
        barrier_entries=histogram([len(row.barrier) for row in barriers]),
        path_hops=trimmed(record.hops),
        queue_total=nodes["queue_total"].astype(np.int64),
        queue_copies=nodes["queue_copies"].astype(np.int64),
        publications=len(barriers),
        pub_copies=counts[PUB],
        ack_copies=counts[ACK],
        sub_copies=counts[SUB],
        uns_copies=counts[UNS],
        false_positives=counts[FALSE_POSITIVES],
        expected=counts[EXPECTED],
        lost=counts[LOST],
        events=counts[ARRIVED],
    )


def acknowledged(operations: Records) -> list[int]:
    """When each was, as the trace tells it: `Publication.acknowledged_ut`."""
    if (operations["kind"] == PUB).all():
        return [-1] * len(operations)
    times: list[int] = operations["acknowledged_ut"].tolist()
    return times


def traced(record: Record, operations: Records, publications: list[trace.Publication]) -> trace.Trace:
    """The rows that the kernel wrote, in the order of events."""
    source, counter = operations["node"].tolist(), operations["counter"].tolist()
    joins, asked = (operations["kind"] == SUB).tolist(), operations["time_ut"].tolist()
    counts = record.counts

    def arrivals(rows: NDArray[np.int64]) -> list[trace.Arrival]:
        return [trace.Arrival(time, node, 0, source[o], counter[o]) for time, node, o in rows.tolist()]

    return trace.Trace(
        publications,
        arrivals(record.receptions[: counts[RECEPTIONS]]),
        arrivals(record.deliveries[: counts[DELIVERIES]]),
        [
            trace.Change(time, node, 0, joins[o], asked[o])
            for time, node, o in record.changes[: counts[CHANGES]].tolist()
        ],
    )


# -- compiled --------------------------------------------------------------------------------------


@njit(**CALLED)
def as_event(destination, sender, hops, is_ack, flag, slot):  # type: ignore[no-untyped-def]
    """A message of the broadcast in that slot: a copy, with the hops behind it, or an acknowledgement, with a flag."""
    return (
        destination
        | sender << _SENDER_AT
        | hops << _HOPS_AT
        | is_ack << _ACK_AT
        | flag << _FLAG_AT
        | slot << _SLOT_AT
    )


@njit(**CALLED)
def parts_of(event):  # type: ignore[no-untyped-def]
    """The arguments of `as_event`."""
    return (
        event & 0xFFFF,
        (event >> _SENDER_AT) & 0xFFFF,
        (event >> _HOPS_AT) & 31,
        (event >> _ACK_AT) & 1,
        (event >> _FLAG_AT) & 1,
        event >> _SLOT_AT,
    )


@njit(**CALLED)
def send_copy(network, nodes, counts, wheel, now, node, child, hops, kind, slot, luck):  # type: ignore[no-untyped-def]
    """A copy of a broadcast of that kind, which arrives after so many hops."""
    counts[kind] += 1
    turn = max(now, nodes[node].busy_until)
    nodes[node].busy_until = turn + network.transmission_ut
    if kind == PUB:
        waiting_ut = turn + network.transmission_ut - now
        nodes[node].queue_copies += 1
        nodes[node].queue_total += -(-waiting_ut // network.transmission_ut)
    ahead = turn - now + network.lead_ut
    if network.jitters:
        ahead -= early(luck, child, False)
    if ahead < len(wheel.head):
        event = as_event(child, node, hops, 0, 0, slot)
        push(wheel.head, wheel.position, wheel.pool, wheel.link, now + ahead, event)
    else:
        counts[STATUS] = WHEEL_TOO_SHORT


@njit(**CALLED)
def send_ack(network, nodes, counts, wheel, now, node, parent, flag, slot, luck):  # type: ignore[no-untyped-def]
    counts[ACK] += 1
    ahead = network.lead_ut
    if network.acks_queue:
        turn = max(now, nodes[node].busy_until)
        nodes[node].busy_until = turn + network.transmission_ut
        ahead += turn - now
    if network.jitters:
        ahead -= early(luck, parent, True)
    if ahead < len(wheel.head):
        event = as_event(parent, node, 0, 1, flag, slot)
        push(wheel.head, wheel.position, wheel.pool, wheel.link, now + ahead, event)
    else:
        counts[STATUS] = WHEEL_TOO_SHORT


@njit(**CALLED)
def in_flight(counts):  # type: ignore[no-untyped-def]
    return counts[SUB] + counts[UNS] + counts[PUB] + counts[ACK] - counts[ARRIVED]


@njit(**CALLED)
def take_slot(counts, free):  # type: ignore[no-untyped-def]
    """A free slot; the last one, whatever it holds, if there is none (the run is void then)."""
    if counts[SLOTS_FREE]:
        counts[SLOTS_FREE] -= 1
        return np.int64(free[counts[SLOTS_FREE]])
    slot = counts[SLOTS_USED]
    if slot == len(free) - 1:
        counts[STATUS] = TOO_FEW_SLOTS
    else:
        counts[SLOTS_USED] += 1
    return slot


@njit(**CALLED)
def free_slot(counts, free, slot):  # type: ignore[no-untyped-def]
    if slot < len(free) - 1:
        free[counts[SLOTS_FREE]] = slot
        counts[SLOTS_FREE] += 1


@njit(**CALLED)
def count_time(record, which, time_ut):  # type: ignore[no-untyped-def]
    if time_ut < record.times.shape[1]:
        record.times[which, time_ut] += 1
    else:
        record.counts[STATUS] = HISTOGRAM_TOO_SHORT


@njit(**CALLED)
def write_row(rows, counts, which, now, node, subject):  # type: ignore[no-untyped-def]
    """A row of the trace, if there is one."""
    if len(rows):
        row = counts[which]
        counts[which] += 1
        rows[row, 0] = now
        rows[row, 1] = node
        rows[row, 2] = subject


@njit(**CALLED)
def note_reception(record, operations, now, node, operation, hops):  # type: ignore[no-untyped-def]
    count_time(record, 0, now - operations[operation].time_ut)
    record.hops[hops] += 1
    write_row(record.receptions, record.counts, RECEPTIONS, now, node, operation)


@njit(**CALLED)
def note_delivery(record, operations, now, node, operation, received_ut):  # type: ignore[no-untyped-def]
    """At a node other than the source."""
    count_time(record, 1, now - operations[operation].time_ut)
    count_time(record, 2, now - received_ut)
    write_row(record.deliveries, record.counts, DELIVERIES, now, node, operation)


@njit(**CALLED)
def note_addressees(nodes, addressed, slot, source):  # type: ignore[no-untyped-def]
    """A publication starts: keep whose subscription is in effect, by the subscription's mark."""
    for node in range(len(nodes)):
        addressed[slot, node] = nodes[node].in_effect
    addressed[slot, source] = 0


@njit(**CALLED)
def count_expected(nodes, addressed, counts, slot):  # type: ignore[no-untyped-def]
    """A publication is acknowledged by all; nodes that received it have turned their marks negative."""
    for node in range(len(nodes)):
        mark = addressed[slot, node]
        if mark and abs(mark) == nodes[node].in_effect:
            counts[EXPECTED] += 1
            counts[LOST] += mark > 0
