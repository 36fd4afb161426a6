"""SRPT-S and SRPT-B, compiled. `run` is the entry; what changes of membership need is in `srpt_churn`."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vcubeps.sim import trace as rows
from vcubeps.sim.kernel import srpt_churn
from vcubeps.sim.kernel.srpt_static import CHILDREN_AT, LEAVES_AT, MEMBER_AT, TOO_SMALL, simulate
from vcubeps.sim.kernel.wheel import make_wheel
from vcubeps.sim.measurements import Histogram, Measurements, trimmed
from vcubeps.sim.network import Delays
from vcubeps.sim.srpt import check
from vcubeps.sim.workload import Ints, Workload

_FIRST_SPAN_MAX_UT = 1 << 17
_FIRST_WAITING_MAX = 1 << 22
_SPARE_EVENTS = 1 << 12
"""Room for the kernel's check, which is for the largest burst that there can be."""


def run(
    workload: Workload, delays: Delays, seed: int, *, trace: bool = False
) -> tuple[Measurements, rows.Trace | None]:
    """Simulate; the same measurements and, on request, the same trace as `SrptReference`."""
    check(workload, delays)
    if len(workload.change_ut):
        return srpt_churn.run(workload, delays, seed, trace=trace)
    plan = _Plan(workload, delays)
    scale = 1
    while True:
        attempt = _Attempt(plan, delays, seed, trace, scale)
        if attempt.succeeds():
            return attempt.measurements(), attempt.trace() if trace else None
        scale *= 4


class _Plan:
    """What is known before anything is simulated, because membership does not change."""

    def __init__(self, load: Workload, delays: Delays) -> None:
        self.load = load
        by_member = load.members[load.publish_topic, load.publish_node]
        self.publish_ut = load.publish_ut[by_member]
        self.source = load.publish_node[by_member]
        self.topic = load.publish_topic[by_member]
        self.counter = load.members.sum(axis=0)[self.source] + _nth_of_its_value(self.source)
        self.in_tree = load.brokers or load.nodes
        self.per_topic = np.bincount(self.topic, minlength=load.topics)
        self.subcubes, self.reached = _trees(load)
        self.children = np.bitwise_count(self.subcubes).astype(np.int64)
        self.queue_copies = np.zeros(load.nodes, np.int64)
        self.queue_copies[: self.in_tree] = self.per_topic @ self.children
        self.tree_copies = int(self.queue_copies.sum())
        self.receptions = int((self.per_topic * (load.members.sum(axis=1) - 1)).sum())
        self.hops_to_root = int((self.source != load.roots[self.topic]).sum())
        self.first_subscriber, self.subscribers = _attached(load)
        per_broker = int(np.diff(self.first_subscriber).max(initial=0)) if load.brokers else 0
        acks = len(self.source) if delays.acks == "queued" else 0
        self.longest_queue = max(int(self.queue_copies.max()), per_broker * len(self.source)) + acks
        """No queue can become longer."""

    @cached_property
    def tree(self) -> Ints:
        """Slot → what its node does in its topic's tree, as `srpt_static` wants it."""
        load = self.load
        words = load.members.astype(np.int64) << MEMBER_AT
        of_tree = words[:, : self.in_tree]
        of_tree |= self.subcubes | self.children << CHILDREN_AT
        if not load.brokers:
            is_leaf = self.subcubes == 0
            for s in range(load.dimension):
                of_tree |= (self.subcubes & 1 << s) * _across(is_leaf, 1 << s) << LEAVES_AT
        return words.ravel()

    def path_hops(self) -> Histogram:
        """All members receive every publication but their own, on the only path there is."""
        load = self.load
        in_tree = np.arange(load.nodes) & self.in_tree - 1
        hops = np.bitwise_count(in_tree ^ load.roots[:, None]).astype(np.int64) + (load.brokers > 0)
        from_elsewhere = (self.source != load.roots[self.topic]).astype(np.int64)
        longest = load.dimension + 3
        counts = -np.bincount(hops[self.topic, self.source] + from_elsewhere, minlength=longest)
        for topic, members in enumerate(load.members):
            to_members = np.bincount(hops[topic][members], minlength=longest)
            publications = self.per_topic[topic]
            elsewhere = int(from_elsewhere[self.topic == topic].sum())
            counts += (publications - elsewhere) * to_members
            counts[1:] += elsewhere * to_members[:-1]
        return trimmed(counts)


class _Attempt:
    """One run, with buffers of a size that depends on `scale`."""

    def __init__(self, plan: _Plan, delays: Delays, seed: int, trace: bool, scale: int) -> None:
        self._plan, self._delays, self._seed, self._traced = plan, delays, seed, trace
        publications, brokers = len(plan.source), plan.load.brokers
        backlog = min(plan.longest_queue * delays.transmission_ut, scale * _FIRST_SPAN_MAX_UT)
        self._span = 1 << (backlog + delays.wait_ut + delays.flight_ut + 1).bit_length()
        copies = plan.tree_copies + (plan.receptions if brokers else 0)
        waiting = min(2 * copies + publications, scale * _FIRST_WAITING_MAX)
        self._waiting = waiting + _SPARE_EVENTS * scale
        duration = int(plan.publish_ut[-1] - plan.publish_ut[0]) if publications else 0
        hops = 2 * (plan.load.dimension + 3)  # to the last leaf and back
        longest = duration + scale * (2 * self._span + hops * (delays.wait_ut + delays.flight_ut))
        self._latency = np.zeros(longest, np.int64)
        self._broker_ut = np.zeros(longest if brokers else 1, np.int64)
        self._last_hop_ut = np.zeros(self._span if brokers else 1, np.int64)
        self._queue_total = np.zeros(plan.load.nodes, np.int64)
        self._slot_bits = max(1, (plan.load.topics * plan.load.nodes - 1).bit_length())
        self._row_ut = np.empty(plan.receptions + publications if trace else 0, np.int64)
        self._row_event = np.empty_like(self._row_ut)
        self._rows = 0

    def succeeds(self) -> bool:
        plan, delays = self._plan, self._delays
        load, publications = plan.load, len(plan.source)
        acks_queue = delays.acks == "queued"
        awaited = np.zeros(
            publications * load.nodes if acks_queue else 1, np.int64 if load.brokers else np.int8
        )
        with_brokers = (
            load.brokers,
            plan.first_subscriber,
            plan.subscribers,
            np.zeros(load.brokers, np.int64),
        )
        self._rows = simulate(
            *make_wheel(self._span, self._waiting),
            load.dimension, self._slot_bits, plan.tree, load.roots,
            plan.publish_ut, plan.source, plan.topic, plan.counter, np.zeros(publications, np.uint64),
            delays.wait_ut + delays.flight_ut, delays.transmission_ut,
            np.uint64(self._seed % (1 << 64)), delays.jitters, acks_queue,
            awaited, np.zeros(load.nodes, np.int64), self._queue_total, self._latency,
            *(with_brokers if load.brokers else (None, None, None, None)),
            self._broker_ut, self._last_hop_ut,
            self._traced, self._row_ut, self._row_event,
        )  # fmt: skip
        return self._rows != TOO_SMALL

    def measurements(self) -> Measurements:
        plan, load = self._plan, self._plan.load
        copies = plan.tree_copies + (plan.receptions if load.brokers else 0)
        unwanted = np.zeros(load.topics, np.int64)
        if not load.brokers:
            unwanted += (plan.reached & ~load.members).sum(axis=1)
        latency = trimmed(self._latency)
        return Measurements(
            reception_ut=latency,
            delivery_ut=latency.copy(),
            causal_wait_ut=trimmed(np.array([plan.receptions])),
            path_hops=plan.path_hops(),
            broker_ut=trimmed(self._broker_ut),
            last_hop_ut=trimmed(self._last_hop_ut),
            queue_total=self._queue_total,
            queue_copies=plan.queue_copies,
            publications=len(plan.source),
            pub_copies=copies,
            ack_copies=copies,
            false_positives=int(unwanted @ plan.per_topic),
            forwarders=int(unwanted.sum()),
            expected=plan.receptions,
            events=2 * copies + plan.hops_to_root,
        )

    def trace(self) -> rows.Trace:
        plan, result = self._plan, rows.Trace()
        columns = (plan.topic, plan.source, plan.counter, plan.publish_ut)
        for topic, source, counter, time in zip(*(column.tolist() for column in columns), strict=True):
            result.publications.append(rows.Publication(topic, source, counter, time, time, ()))
            if plan.load.brokers:
                result.deliveries.append(rows.Arrival(time, source, topic, source, counter))
        events = self._row_event[: self._rows] >> 1
        publication = events >> self._slot_bits
        names = (plan.topic[publication], plan.source[publication], plan.counter[publication])
        places = (self._row_ut[: self._rows], events & plan.load.nodes - 1)
        for row in zip(*(column.tolist() for column in places + names), strict=True):
            arrival = rows.Arrival(*row)
            result.deliveries.append(arrival)
            if arrival.node != arrival.source:
                result.receptions.append(arrival)
        return result


def _nth_of_its_value(values: Ints) -> Ints:
    """How often each value has occurred so far, itself included.

    >>> _nth_of_its_value(np.array([7, 3, 7, 7])).tolist()
    [1, 1, 2, 3]
    """
    order = np.argsort(values, kind="stable")
    of_value = values[order]
    first = np.searchsorted(of_value, of_value)
    result = np.empty_like(values)
    result[order] = np.arange(len(values)) - first + 1
    return result


def _trees(load: Workload) -> tuple[Ints, NDArray[np.bool_]]:
    """(topic, node) → subcubes that the node forwards to, as bits; and whether it is in the tree.

    With x = node ⊕ root, a node has its copies through the subcube of x's lowest bit, so it stands for
    the aligned block of that many nodes and forwards to the subcubes within it that have a member.
    """
    nodes = load.brokers or load.nodes
    members = np.ones((load.topics, nodes), np.bool_) if load.brokers else load.members
    distance = np.arange(nodes) ^ load.roots[:, None]
    stands_for = np.where(distance == 0, nodes, distance & -distance)
    subcubes = np.zeros((load.topics, nodes), np.int64)
    in_tree = distance == 0
    has_member = members
    bit = 1
    while bit < nodes:
        in_tree |= (stands_for == bit) & has_member
        across = _across(has_member, bit)
        subcubes |= ((stands_for > bit) & across) * np.int64(bit)
        has_member = has_member | across
        bit *= 2
    subcubes[~in_tree] = 0
    return subcubes, in_tree


def _across(values: NDArray[np.bool_], bit: int) -> NDArray[np.bool_]:
    """(topic, node) → the value of (topic, node ⊕ bit)."""
    return values.reshape(len(values), -1, 2, bit)[:, :, ::-1].reshape(values.shape)


def _attached(load: Workload) -> tuple[Ints, Ints]:
    """For each topic and broker: where its subscribers begin in the second array, which has them all."""
    if not load.brokers:
        return np.zeros(1, np.int64), np.zeros(0, np.int64)
    topic, node = load.members.nonzero()
    at = topic * load.brokers + node % load.brokers
    # Stable, so that a broker's subscribers stay in ascending order.
    order = np.argsort(at, kind="stable")
    sizes = np.bincount(at, minlength=load.topics * load.brokers)
    return np.concatenate(([0], np.cumsum(sizes))), node[order]
