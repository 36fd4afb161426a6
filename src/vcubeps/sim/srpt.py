"""SRPT-S, the paper's comparison: one tree per topic, rooted at one node, for all publishers (section 4).

The tree is the cube's binomial tree at the root, pruned to the paths that reach subscribers; nodes on
such a path that are not subscribers forward without wanting the message. A publisher sends to the root
first, past its own queue, and gets its own message back through the tree. Membership does not change
here. The order of events is that of `reference`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from vcubeps.cube import cluster
from vcubeps.sim import trace
from vcubeps.sim.network import Delays, Transmitters
from vcubeps.sim.workload import Workload


class SrptReference:
    """One run. After `run`, `trace` and the counters tell what happened."""

    def __init__(self, workload: Workload, delays: Delays, seed: int) -> None:
        self.trace = trace.Trace()
        self.copies: Counter[str] = Counter()
        """PUB and ACK → how many were sent on the tree; the hop to the root is not counted."""
        self.queue_lengths: list[list[int]] = [[] for _ in range(workload.nodes)]
        """Node → length of its send queue just after each PUB copy was put in, that copy included."""
        self.forwarders: list[int] = []
        """Topic → nodes of its tree that are not subscribers."""
        self._workload = workload
        self._acks_queue = delays.acks == "queued"
        self._transmitters = Transmitters(delays, seed, workload.nodes)
        self._reached = [_blocks_with_members(members) for members in workload.members]
        self._now = 0
        self._number = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._counters = workload.members.sum(axis=0).tolist()
        """Node → last counter given out; subscribing took one per topic, as in `reference`."""
        self._awaited: dict[tuple[int, int, int], int] = {}
        """(node, source, counter) → acknowledgements that the node still waits for."""

    def run(self) -> SrptReference:
        load = self._workload
        for topic in range(load.topics):
            self.forwarders.append(self._count_forwarders(topic))
        for index, time in enumerate(load.publish_ut):
            node, topic = int(load.publish_node[index]), int(load.publish_topic[index])
            self._at(int(time), partial(self._publish, node, topic))
        while self._events:
            self._now, _, action = heappop(self._events)
            action()
        return self

    def children(self, node: int, topic: int, clusters: int) -> list[int]:
        """First nodes of those clusters 1…`clusters` of `node` in which somebody subscribes."""
        reached = self._reached[topic]
        neighbours = ((s, node ^ 1 << s - 1) for s in range(1, clusters + 1))
        return [neighbour for s, neighbour in neighbours if reached[s - 1][neighbour >> s - 1]]

    def _publish(self, node: int, topic: int) -> None:
        self._counters[node] += 1
        counter = self._counters[node]
        row = trace.Publication(topic, node, counter, self._now, self._now, ())
        self.trace.publications.append(row)
        root = int(self._workload.roots[topic])
        to_root = partial(self._receive, root, root, topic, node, counter)
        if node == root:
            to_root()
            return
        self._at(
            self._transmitters.send(self._now, node, root, node, counter, is_ack=False, queued=False), to_root
        )

    def _receive(self, node: int, sender: int, topic: int, source: int, counter: int) -> None:
        if node != source and self._workload.members[topic, node]:
            arrival = trace.Arrival(self._now, node, topic, source, counter)
            self.trace.receptions.append(arrival)
            self.trace.deliveries.append(arrival)
        is_root = node == sender
        clusters = self._workload.dimension if is_root else cluster(node, sender) - 1
        children = self.children(node, topic, clusters)
        for child in children:
            self._send(
                node, child, source, counter, partial(self._receive, child, node, topic, source, counter)
            )
        if children:
            self._awaited[node, source, counter] = len(children)
        elif not is_root:
            self._acknowledge(node, sender, topic, source, counter)

    def _acknowledge(self, node: int, parent: int, topic: int, source: int, counter: int) -> None:
        self.copies["ACK"] += 1
        arrival = self._transmitters.send(
            self._now, node, parent, source, counter, is_ack=True, queued=self._acks_queue
        )
        self._at(arrival, partial(self._receive_ack, parent, topic, source, counter))

    def _receive_ack(self, node: int, topic: int, source: int, counter: int) -> None:
        key = (node, source, counter)
        self._awaited[key] -= 1
        if self._awaited[key]:
            return
        del self._awaited[key]
        root = int(self._workload.roots[topic])
        if node != root:
            distance = node ^ root
            self._acknowledge(node, root ^ (distance & (distance - 1)), topic, source, counter)

    def _send(self, node: int, child: int, source: int, counter: int, action: Callable[[], None]) -> None:
        self.copies["PUB"] += 1
        arrival = self._transmitters.send(self._now, node, child, source, counter, is_ack=False, queued=True)
        self.queue_lengths[node].append(self._transmitters.queue_length(self._now, node))
        self._at(arrival, action)

    def _count_forwarders(self, topic: int) -> int:
        members = self._workload.members[topic]
        root = int(self._workload.roots[topic])
        waiting = [(root, self._workload.dimension)]
        forwarders = 0
        while waiting:
            node, clusters = waiting.pop()
            forwarders += not members[node]
            waiting += [(c, cluster(c, node) - 1) for c in self.children(node, topic, clusters)]
        return forwarders

    def _at(self, time: int, action: Callable[[], None]) -> None:
        self._number += 1
        heappush(self._events, (time, self._number, action))


def _blocks_with_members(members: NDArray[np.bool_]) -> list[list[bool]]:
    """[l][b]: whether the aligned block b of 2^l nodes has a member."""
    levels = [members]
    while len(levels[-1]) > 1:
        levels.append(levels[-1][0::2] | levels[-1][1::2])
    return [level.tolist() for level in levels]
