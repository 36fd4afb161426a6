"""All that a run of `churn_published` keeps, and how it begins; nothing is compiled here."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vcubeps.sim import trace as rows
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
from vcubeps.sim.kernel.wheel import Wheel

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


class World(NamedTuple):
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
    """(slot, node) → `acks`: the parent, and from bit 16 on the subcubes that have not answered."""
    reported: Codes
    """(slot, node) → code of the entry that the node put into its acknowledgement, 0 if none."""
    addressed: NDArray[np.int32]
    """(slot, node) → see `churn.note_addressees`."""
    views: Codes
    """(node, other) → code of the entry of the other, 0 if there is none; see `published_topic.code`."""
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


def make_world(setting: Setting, capacity: Capacity, prune: bool, trace: bool) -> World:
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
    return World(
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


def publications_of(world: World) -> list[rows.Publication]:
    """Those that started, in that order; of each source the last entry of the barrier, as outputs show it."""
    operations = world.operations
    source, counter = operations["node"].tolist(), operations["counter"].tolist()
    found = []
    acknowledged_ut = acknowledged(operations)
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
            acknowledged_ut[o],
        )
        found.append(row)
    return sorted(found, key=lambda row: row.started_ut)
