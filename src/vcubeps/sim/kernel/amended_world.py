"""All that a run of `churn_amended` keeps, and how it begins; nothing is compiled here."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vcubeps.protocol.membership import fingerprint
from vcubeps.sim import trace as rows
from vcubeps.sim.kernel.amended_topic import (
    MEMBER,
)
from vcubeps.sim.kernel.churn import (
    PUB,
    SLOT,
    Capacity,
    Codes,
    Network,
    Record,
    Records,
    Setting,
    acknowledged,
)
from vcubeps.sim.kernel.hold_back import CELL, QUEUE, WAIT
from vcubeps.sim.kernel.ordered_maps import (
    Maps,
    make_maps,
)
from vcubeps.sim.kernel.wheel import Wheel

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


class World(NamedTuple):
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
    """(node, other) → a code; see `churn_amended`."""
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


def make_world(setting: Setting, capacity: Capacity, trace: bool) -> World:
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
    return World(
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


def publications_of(world: World) -> list[rows.Publication]:
    """Those that started, in that order."""
    found = []
    acknowledged_ut = acknowledged(world.operations)
    for o in np.flatnonzero(world.operations["kind"] == PUB).tolist():
        operation = world.operations[o]
        if operation["started_ut"] < 0:
            continue
        start, size = int(operation["barrier_start"]), int(operation["barrier_size"])
        entries = world.barriers[start : start + size]
        barrier = sorted(zip(world.node_of[entries[:, 0]].tolist(), entries[:, 1].tolist(), strict=True))
        source, counter = int(operation["node"]), int(operation["counter"])
        asked, started = int(operation["time_ut"]), int(operation["started_ut"])
        row = rows.Publication(0, source, counter, asked, started, tuple(barrier), acknowledged_ut[o])
        found.append(row)
    return sorted(found, key=lambda row: row.started_ut)
