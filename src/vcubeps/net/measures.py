"""What a node counts. Plain integers that the hot path raises; whoever shows them asks for a copy."""

from __future__ import annotations


class Histogram:
    """Counts of whole numbers by size: bucket k holds those below 2**k and not below 2**(k-1); 0 in bucket 0.

    >>> latencies_us = Histogram()
    >>> for value in (0, 1, 5, 6, 300):
    ...     latencies_us.add(value)
    >>> latencies_us.count, latencies_us.total, latencies_us.quantile(0.5)
    (5, 312, 7)
    """

    __slots__ = ("buckets", "count", "total")

    SIZE = 64

    def __init__(self) -> None:
        self.buckets = [0] * self.SIZE
        self.count = 0
        self.total = 0

    def add(self, value: int, times: int = 1) -> None:
        if value < 0 or value >> (self.SIZE - 1):
            value = 0 if value < 0 else (1 << self.SIZE - 1) - 1
        self.buckets[value.bit_length()] += times
        self.count += times
        self.total += value * times

    def quantile(self, share: float) -> int:
        """The upper end of the bucket in which that share of all values is reached; 0 if there are none."""
        wanted, seen = share * self.count, 0
        for bucket, count in enumerate(self.buckets):
            seen += count
            if count and seen >= wanted:
                return (1 << bucket) - 1
        return 0


class TopicMeasures:
    """Of one topic at one node, since the node started."""

    __slots__ = ("deliveries", "publications", "receptions")

    def __init__(self) -> None:
        self.publications = 0
        self.receptions = 0
        """Publications of others that arrived."""
        self.deliveries = 0

    def add(self, other: TopicMeasures) -> None:
        self.publications += other.publications
        self.receptions += other.receptions
        self.deliveries += other.deliveries


_LEFT_TOPICS_MAX = 1000
"""Topics that the node is not in any more and whose counts are still shown one by one."""

OWN = -1
"""Instead of the latency of a publication that its own node delivers."""

DELIVERED_MAX = 64
"""Batches that may wait to be sorted in."""

LEFT_TOPICS = "(topics left earlier)"


class Measures:
    """Of one node, since it started. What is in the histograms is complete after `sort_in`."""

    __slots__ = (
        "_left", "barrier_entries", "batch_items", "causal_wait_us", "delivered", "disconnected_slow", "held_acks",
        "latency_us", "restarts", "topics", "usage_errors", "violations",
    )  # fmt: skip

    def __init__(self) -> None:
        self.delivered: list[tuple[int, int, int, int]] = []
        """Batches that are not in the histograms yet: nanoseconds since publication (−1: an own one) and since
        reception, entries of the barrier, items. Many are sorted in together: for a batch that comes alone, to find
        its place in four histograms would take longer than to hand it over."""
        self.topics: dict[str, TopicMeasures] = {}
        self._left: dict[str, None] = {}
        self.latency_us = Histogram()
        """From publish to delivery here, of others' publications; each counts as the oldest of its batch."""
        self.causal_wait_us = Histogram()
        """From reception to delivery, of others' publications."""
        self.barrier_entries = Histogram()
        """Of each batch delivered."""
        self.batch_items = Histogram()
        """Publications in each batch delivered."""
        self.violations = 0
        """Messages of other nodes that no correct node would send."""
        self.usage_errors = 0
        """Calls of the application that were refused."""
        self.held_acks = 0
        """Acknowledgements that waited because the application did not read fast enough."""
        self.disconnected_slow = 0
        self.restarts = 0
        """Times that this node went on as its next incarnation."""

    def sort_in(self) -> None:
        delivered, self.delivered = self.delivered, []
        at_once, shapes = 0, dict[tuple[int, int], int]()  # most are alike, and added together
        for latency_ns, wait_ns, entries, items in delivered:
            if latency_ns != OWN:
                self.latency_us.add(latency_ns // 1000, items)
                if wait_ns:
                    self.causal_wait_us.add(wait_ns // 1000, items)
                else:
                    at_once += items
            shapes[entries, items] = shapes.get((entries, items), 0) + 1
        if at_once:
            self.causal_wait_us.add(0, at_once)
        for (entries, items), times in shapes.items():
            self.barrier_entries.add(entries, times)
            self.batch_items.add(items, times)

    def topic(self, name: str) -> TopicMeasures:
        """Of a topic that the node enters."""
        self._left.pop(name, None)
        return self.topics.setdefault(name, TopicMeasures())

    def leave(self, name: str) -> None:
        """The node has left a topic. Of many such, the counts of the first to be left become one."""
        self._left[name] = None
        if len(self._left) > _LEFT_TOPICS_MAX:
            oldest = next(iter(self._left))
            del self._left[oldest]
            self.topics.setdefault(LEFT_TOPICS, TopicMeasures()).add(self.topics.pop(oldest))
