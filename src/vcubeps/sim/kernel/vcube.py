"""VCube-PS with a membership that does not change, compiled: one event per copy, exact, any number of topics.

All views are equal then, so trees come from the membership of the topic, and the amended and the
published algorithm send the same messages and hold the same barriers (a delivered message always
stands for its own barrier; `unpruned` keeps what it stands for). Barriers and what a node has
delivered are bit sets over the publications of a topic.
"""

from __future__ import annotations

import numpy as np

from vcubeps.sim import trace as rows
from vcubeps.sim.kernel.trees import nearest_members
from vcubeps.sim.kernel.vcube_static import CHAIN_MASK, DONE, HOP_BITS, simulate
from vcubeps.sim.kernel.wheel import make_wheel
from vcubeps.sim.measurements import Measurements, trimmed
from vcubeps.sim.network import Delays
from vcubeps.sim.workload import Workload

_FIRST_SPAN_UT = 4096


def run(
    workload: Workload,
    delays: Delays,
    seed: int,
    *,
    protocol: str = "amended",
    ordered: bool = True,
    trace: bool = False,
) -> tuple[Measurements, rows.Trace | None]:
    """Simulate; without `ordered` no barriers are kept and a reception is a delivery."""
    span = _FIRST_SPAN_UT
    while span <= delays.flight_ut + delays.transmission_ut:
        span *= 2
    while True:
        attempt = _Attempt(workload, delays, seed, protocol, ordered, trace, span)
        if attempt.run() == DONE:
            return attempt.measurements(), attempt.trace() if trace else None
        span *= 4


class _Attempt:
    """The arrays of one run, for events at most `span` u.t. ahead and latencies below 4 · `span`."""

    def __init__(
        self,
        load: Workload,
        delays: Delays,
        seed: int,
        protocol: str,
        ordered: bool,
        trace: bool,
        span: int,
    ) -> None:
        if len(load.change_ut):
            raise ValueError("this kernel is for memberships that do not change")
        if load.answers_after and not ordered:
            raise ValueError("answers follow deliveries: they need the causal order")
        if not load.members[load.publish_topic, load.publish_node].all():
            raise ValueError("only members publish")
        self._load, self._delays, self._seed = load, delays, seed
        self._prune = protocol != "unpruned"
        self._ordered, self._traced, self._span = ordered, trace, span
        # The published algorithm numbers what a node does from 0, the amended one from 1.
        first_counter = 0 if protocol == "amended" else -1
        nodes, topics = load.nodes, load.topics
        sizes = load.members.sum(axis=1)
        extra = nodes if load.answers_after else 0
        self._capacity = capacity = len(load.publish_ut) + extra
        per_topic = np.bincount(load.publish_topic, minlength=topics)
        per_topic[0] += extra
        self._receptions = int((per_topic * np.maximum(sizes - 1, 0)).sum())
        words = (per_topic + 63) // 64 if ordered else np.zeros(topics, np.int64)
        self._words = words.astype(np.int64)
        self._offset = np.concatenate(([0], np.cumsum(self._words)))[:-1].astype(np.int64)
        # Nobody waits for an acknowledgement that is the only one of its source and topic and does not queue.
        pairs = load.publish_node * topics + load.publish_topic
        self._with_acks = delays.acks == "queued" or len(np.unique(pairs)) < len(pairs)
        self._everyone = bool(load.members.all())
        self._tables = (
            np.empty((1, 1, 1), np.int32)
            if self._everyone
            else np.stack([nearest_members(members) for members in load.members])
        )
        self._last_counter = load.members.sum(axis=0).astype(np.int64) + first_counter
        self.source = np.empty(capacity, np.int64)
        self.topic = np.empty(capacity, np.int64)
        self.counter = np.empty(capacity, np.int64)
        self.published = np.empty(capacity, np.int64)
        self.started = np.empty(capacity, np.int64)
        self.place = np.empty(capacity, np.int64)
        self.barrier = np.zeros((capacity, int(self._words.max(initial=0))), np.int64)
        histogram = 4 * span
        self.reception_ut = np.zeros(histogram, np.int64)
        self.delivery_ut = np.zeros(histogram, np.int64)
        self.wait_ut = np.zeros(histogram, np.int64)
        self.hops = np.zeros(1 << HOP_BITS, np.int64)
        self.queue_total = np.zeros(nodes, np.int64)
        self.queue_copies = np.zeros(nodes, np.int64)
        self.totals = np.zeros(8, np.int64)
        kept = self._receptions if trace else 0
        self.received = np.empty((3, kept), np.int64)
        self.delivered = np.empty((3, kept + capacity if trace else 0), np.int64)

    def run(self) -> int:
        load, delays = self._load, self._delays
        nodes, topics, capacity = load.nodes, load.topics, self._capacity
        has_spoken = np.zeros(nodes, np.bool_)
        has_spoken[load.publish_node] = True
        total_words = int(self._words.sum())
        pending = self._receptions if self._ordered else 0
        pairs = nodes * topics
        wheel = make_wheel(self._span, self._receptions * (2 if self._with_acks else 1) + 2 * nodes)
        answer_wait = load.answer_wait_ut if load.answers_after else np.empty(0, np.int64)
        waits = self._with_acks
        return int(
            simulate(
                load.dimension, topics, self._everyone, self._tables,
                delays.wait_ut + delays.flight_ut, delays.transmission_ut, delays.jitters,
                np.int64(self._seed), delays.acks == "queued", waits,
                load.publish_ut, load.publish_node, load.publish_topic,
                load.answers_after, answer_wait, has_spoken, np.zeros(nodes, np.int64),
                self._last_counter,
                self.source, self.topic, self.counter, self.published, self.started, self.place,
                np.zeros(capacity, np.uint64),
                np.zeros(pairs if waits else 1, np.bool_),
                np.full(pairs if waits else 1, -1, np.int32),
                np.full(pairs if waits else 1, -1, np.int32),
                np.full(capacity, -1, np.int32),
                self._ordered, self._prune,
                np.full(capacity, -1, np.int64), np.full(pairs if self._ordered else 1, -1, np.int64),
                np.zeros(64 * total_words, np.int32), np.zeros(capacity, np.int64), np.zeros(capacity, np.int64),
                self._words, self._offset, np.zeros(topics, np.int64),
                np.zeros((nodes, total_words), np.int64), np.zeros((nodes, total_words), np.int64),
                self.barrier,
                np.full((nodes if self._ordered else 1, CHAIN_MASK + 1), -1, np.int32),
                np.empty((4, pending), np.int64),
                np.empty((3, capacity + 1), np.int64),
                wheel.head, wheel.position, wheel.pool, wheel.link,
                np.zeros(nodes, np.int64),
                np.zeros((capacity, nodes) if waits else (1, 1), np.int8),
                self.reception_ut, self.delivery_ut, self.wait_ut, self.hops,
                self.queue_total, self.queue_copies, self.totals,
                self._traced, self.received, self.delivered,
            )
        )  # fmt: skip

    def measurements(self) -> Measurements:
        publications, pub_copies, ack_copies, receptions, *_ = self.totals.tolist()
        if not self._ordered:
            delivery, wait, entries = self.reception_ut, np.zeros(0, np.int64), np.zeros(0, np.int64)
        else:
            delivery, wait = self.delivery_ut, self.wait_ut
            bits = np.bitwise_count(self.barrier[:publications]).sum(axis=1, dtype=np.int64)
            entries = np.bincount(bits).astype(np.int64)
        if not self._with_acks:
            ack_copies = pub_copies
        return Measurements(
            reception_ut=trimmed(self.reception_ut),
            delivery_ut=trimmed(delivery),
            causal_wait_ut=trimmed(wait),
            barrier_entries=trimmed(entries),
            path_hops=trimmed(self.hops),
            queue_total=self.queue_total,
            queue_copies=self.queue_copies,
            publications=publications,
            pub_copies=pub_copies,
            ack_copies=ack_copies,
            expected=receptions,
            events=pub_copies + ack_copies,
        )

    def trace(self) -> rows.Trace:
        publications, _, _, receptions, deliveries, *_ = self.totals.tolist()
        result = rows.Trace()
        by_place = {
            (int(self.topic[m]), int(self.place[m])): (int(self.source[m]), int(self.counter[m]))
            for m in range(publications)
        }
        started = sorted(range(publications), key=lambda m: (self.started[m], m))
        for m in started:
            topic = int(self.topic[m])
            barrier = tuple(sorted(by_place[topic, bit] for bit in _bits(self.barrier[m])))
            result.publications.append(
                rows.Publication(
                    topic, int(self.source[m]), int(self.counter[m]),
                    int(self.published[m]), int(self.started[m]), barrier,
                )
            )  # fmt: skip
        for table, events in ((self.received[:, :receptions], result.receptions),
                              (self.delivered[:, :deliveries], result.deliveries)):  # fmt: skip
            for time, node, m in table.T.tolist():
                events.append(
                    rows.Arrival(time, node, int(self.topic[m]), int(self.source[m]), int(self.counter[m]))
                )
        return result


def _bits(words: np.ndarray) -> list[int]:
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).tolist()
