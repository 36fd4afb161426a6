"""Who watches a node at work: what it counts, and what it writes down."""

from __future__ import annotations

from time import time_ns
from typing import Any

from vcubeps.net.measures import DELIVERED_MAX, OWN, Measures
from vcubeps.net.tracer import Tracer
from vcubeps.protocol.outputs import (
    Accepted,
    Acknowledged,
    Deliver,
    Received,
    Restarted,
    Started,
    Subscribed,
    Unsubscribed,
)


class Watch:
    """Measures, and a trace if there is one, of what a machine's peer is asked and tells."""

    def __init__(self, node: int, measures: Measures, tracer: Tracer | None) -> None:
        self._node = node
        self._measures = measures
        self.tracer = tracer
        self._arrivals: dict[tuple[str, int, int], int] = {}
        """⟨topic, source, counter⟩ of a batch that waits for its past → when it came."""
        self._asked: dict[str, int] = {}
        """Topic → when the application asked for the join under way."""
        self._leaving: dict[str, int] = {}
        """Topic → when it asked for the leave under way. It may have asked to join again since."""

    def joins(self, topic: str) -> None:
        """The application asks to join `topic`."""
        self._asked[topic] = time_ns()

    def leaves(self, topic: str) -> None:
        """The application asks to leave `topic`: nothing is delivered to it from now on."""
        asked_ns = self._leaving.setdefault(topic, time_ns())
        if self.tracer is not None:
            self.tracer.leaving(topic, asked_ns)

    def left(self, topic: str) -> None:
        """The node has left `topic`, and nobody wants to join it."""
        self._asked.pop(topic, None)
        self._leaving.pop(topic, None)
        for key in [key for key in self._arrivals if key[0] == topic]:
            del self._arrivals[key]

    def __call__(self, now_s: float, node: int, incarnation: int, what: Any) -> None:
        kind, tracer, now_ns = type(what), self.tracer, time_ns()
        if kind is Deliver:
            self._delivered(what, now_ns)
            if tracer is not None:
                tracer.delivered(what, now_ns)
        elif kind is Received:
            if not what.at_once:  # otherwise it is counted with its delivery
                self._measures.topic(what.topic).receptions += len(what.batch)
                self._arrivals[what.topic, what.source, what.batch.first] = now_ns
            if tracer is not None:
                tracer.received(what, now_ns)
        elif type(what) is Started:
            self._measures.topic(what.topic).publications += len(what.batch)
            if tracer is not None:
                tracer.started(what, now_ns)
        elif type(what) is Restarted:
            self._measures.restarts += 1
            self._arrivals.clear()
            self._leaving.clear()
            if tracer is not None:
                tracer.restarted(now_ns)
        elif tracer is None:
            return
        elif type(what) is Accepted:
            tracer.published(what.topic, what.counter, now_ns)
        elif type(what) is Acknowledged:
            tracer.acknowledged(what.topic, what.counter, now_ns)
        elif type(what) is Subscribed:
            self._leaving.pop(what.topic, None)
            tracer.joined(what.topic, self._asked.get(what.topic, now_ns), now_ns)
        elif type(what) is Unsubscribed:
            tracer.left(what.topic, self._leaving.pop(what.topic, now_ns), now_ns)

    def _delivered(self, batch: Deliver, now_ns: int) -> None:
        measures, columns = self._measures, batch.batch
        count = len(columns.payloads)
        topic = measures.topics.get(batch.topic) or measures.topic(batch.topic)
        topic.deliveries += count
        came_ns = self._arrivals and self._arrivals.pop((batch.topic, batch.source, columns.first), 0)
        if batch.source == self._node:
            latency_ns = OWN
        else:
            latency_ns = max(0, now_ns - columns.time_ns(0))
            if not came_ns:
                topic.receptions += count
        measures.delivered.append((latency_ns, now_ns - (came_ns or now_ns), len(batch.after), count))
        if len(measures.delivered) >= DELIVERED_MAX:
            measures.sort_in()
