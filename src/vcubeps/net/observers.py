"""Who watches a node at work: what it counts, and what it writes down."""

from __future__ import annotations

import time

from vcubeps.net.measures import DELIVERED_MAX, OWN, Measures
from vcubeps.net.message import stamp_ns
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
        """Topic → when the application asked for the join or leave under way."""

    def asked(self, topic: str) -> None:
        """The application joins or leaves `topic`."""
        self._asked[topic] = time.time_ns()

    def __call__(self, now_s: float, node: int, incarnation: int, what: object) -> None:
        now_ns, tracer = time.time_ns(), self.tracer
        if type(what) is Deliver:
            self._delivered(what, now_ns)
            if tracer is not None:
                tracer.delivered(what, now_ns)
        elif type(what) is Received:
            self._measures.topic(what.topic).receptions += len(what.counters)
            if not what.at_once:
                self._arrivals[what.topic, what.source, what.counters[-1]] = now_ns
            if tracer is not None:
                tracer.received(what, now_ns)
        elif type(what) is Started:
            self._measures.topic(what.topic).publications += len(what.items)
            if tracer is not None:
                tracer.started(what, now_ns)
        elif type(what) is Restarted:
            self._measures.restarts += 1
            self._arrivals.clear()
            if tracer is not None:
                tracer.restarted(now_ns)
        elif tracer is None:
            return
        elif type(what) is Accepted:
            tracer.published(what.topic, what.counter, now_ns)
        elif type(what) is Acknowledged:
            tracer.acknowledged(what.topic, what.counter, now_ns)
        elif type(what) is Subscribed:
            tracer.joined(what.topic, self._asked.get(what.topic, now_ns), now_ns)
        elif type(what) is Unsubscribed:
            tracer.left(what.topic, self._asked.get(what.topic, now_ns), now_ns)

    def _delivered(self, batch: Deliver, now_ns: int) -> None:
        measures, items = self._measures, batch.items
        measures.topic(batch.topic).deliveries += len(items)
        came_ns = now_ns
        if self._arrivals:
            came_ns = self._arrivals.pop((batch.topic, batch.source, items[-1][0]), now_ns)
        latency_ns = OWN if batch.source == self._node else max(0, now_ns - stamp_ns(items[0][1]))
        measures.delivered.append((latency_ns, now_ns - came_ns, len(batch.after), len(items)))
        if len(measures.delivered) >= DELIVERED_MAX:
            measures.sort_in()
