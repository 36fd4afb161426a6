"""The reference simulation: peers of `protocol/`, or of the published algorithm, on the delay model.

Exact and slow: it is the judge of the kernel. At equal times the workload's inputs come first
(changes, then publications, each in the order of its arrays), then everything else in the order in
which it was caused.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from typing import Any

from vcubeps.protocol.messages import Ack, Broadcast, Copy, Publication, Subscription, Unsubscription
from vcubeps.protocol.outputs import (
    Accepted,
    Barrier,
    Deliver,
    Output,
    Received,
    Send,
    Started,
    Subscribed,
    Unsubscribed,
)
from vcubeps.protocol.peer import Peer
from vcubeps.sim import trace
from vcubeps.sim.network import Delays, Transmitters
from vcubeps.sim.published import PublishedPeer
from vcubeps.sim.workload import Workload

PROTOCOLS = ("amended", "published", "unpruned")
"""`unpruned` is the published algorithm with line 93 read so that line 89 prunes nothing."""


class Reference:
    """One run of VCube-PS. After `run`, `trace` and the counters tell what happened."""

    def __init__(self, workload: Workload, delays: Delays, seed: int, protocol: str = "amended") -> None:
        self.trace = trace.Trace()
        self.copies: Counter[str] = Counter()
        """Kind of message (PUB, SUB, UNS, ACK) → how many were sent."""
        self.queue_lengths: list[list[int]] = [[] for _ in range(workload.nodes)]
        """Node → length of its send queue just after each PUB copy was put in, that copy included."""
        self._workload = workload
        self._acks_queue = delays.acks == "queued"
        self._transmitters = Transmitters(delays, seed, workload.nodes)
        self._peers = _make_peers(protocol, workload.nodes)
        self._now = 0
        self._number = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._published: dict[tuple[int, int], int] = {}
        """⟨source, counter⟩ → when the application asked for it."""
        self._hops: dict[tuple[int, int], tuple[int, int]] = {}
        """(node, hop) → ⟨source, counter⟩ of the broadcast whose copy it is."""
        self._deliveries = [0] * workload.nodes
        self._has_spoken = [False] * workload.nodes

    def run(self) -> Reference:
        self._join_initial_members()
        self._schedule_inputs()
        while self._events:
            self._now, _, action = heappop(self._events)
            action()
        return self

    # -- inputs --------------------------------------------------------------------------------

    def _join_initial_members(self) -> None:
        """In no time and before the run: its traffic is not counted."""
        for topic, members in enumerate(self._workload.members):
            for node in members.nonzero()[0].tolist():
                pending = deque((node, output) for output in self._peers[node].subscribe(str(topic)))
                while pending:
                    sender, output = pending.popleft()
                    if isinstance(output, Send):
                        receiver = output.destination
                        caused = self._peers[receiver].receive(sender, output.message)
                        pending.extend((receiver, further) for further in caused)

    def _schedule_inputs(self) -> None:
        load = self._workload
        for index, joins in enumerate(load.change_joins):
            node, topic = int(load.change_node[index]), str(load.change_topic[index])
            change = self._subscribe if joins else self._unsubscribe
            self._at(int(load.change_ut[index]), partial(change, node, topic))
        for index, time in enumerate(load.publish_ut):
            node, topic = int(load.publish_node[index]), str(load.publish_topic[index])
            self._has_spoken[node] = True
            self._at(int(time), partial(self._publish, node, topic))

    def _subscribe(self, node: int, topic: str) -> None:
        self._carry_out(node, self._peers[node].subscribe(topic))

    def _unsubscribe(self, node: int, topic: str) -> None:
        self._carry_out(node, self._peers[node].unsubscribe(topic))

    def _publish(self, node: int, topic: str) -> None:
        self._carry_out(node, self._peers[node].publish(topic, b""))

    def _at(self, time: int, action: Callable[[], None]) -> None:
        self._number += 1
        heappush(self._events, (time, self._number, action))

    # -- outputs -------------------------------------------------------------------------------

    def _carry_out(self, node: int, outputs: list[Output]) -> None:
        now = self._now
        for output in outputs:
            match output:
                case Send(destination, message):
                    self._send(node, destination, message)
                case Accepted(counter=counter):
                    self._published[node, counter] = now
                case Started(topic, items, barrier):
                    self._note_started(node, int(topic), items[0][0], barrier)
                case Received(topic, source, counters):
                    self.trace.receptions.append(trace.Arrival(now, node, int(topic), source, counters[0]))
                case Deliver(topic, source, items):
                    self._note_delivered(node, topic, source, items[0][0])
                case Subscribed(topic):
                    self.trace.membership.append(trace.Change(now, node, int(topic), joins=True))
                case Unsubscribed(topic):
                    self.trace.membership.append(trace.Change(now, node, int(topic), joins=False))

    def _note_started(self, node: int, topic: int, counter: int, barrier: Barrier) -> None:
        published = self._published.pop((node, counter))
        row = trace.Publication(topic, node, counter, published, self._now, tuple(sorted(barrier.items())))
        self.trace.publications.append(row)

    def _note_delivered(self, node: int, topic: str, source: int, counter: int) -> None:
        self.trace.deliveries.append(trace.Arrival(self._now, node, int(topic), source, counter))
        if source == node or not self._workload.answers_after:
            return
        self._deliveries[node] += 1
        if self._deliveries[node] >= self._workload.answers_after and not self._has_spoken[node]:
            self._has_spoken[node] = True
            self._at(
                self._now + int(self._workload.answer_wait_ut[node]), partial(self._publish, node, topic)
            )

    def _send(self, node: int, destination: int, message: Any) -> None:
        kind, source, counter = self._identify(node, destination, message)
        self.copies[kind] += 1
        is_ack = kind == "ACK"
        arrival = self._transmitters.send(
            self._now,
            node,
            destination,
            source,
            counter,
            is_ack=is_ack,
            queued=self._acks_queue or not is_ack,
        )
        if kind == "PUB":
            self.queue_lengths[node].append(self._transmitters.queue_length(self._now, node))
        self._at(arrival, partial(self._receive, destination, node, message))

    def _receive(self, node: int, sender: int, message: object) -> None:
        self._carry_out(node, self._peers[node].receive(sender, message))

    def _identify(self, node: int, destination: int, message: Any) -> tuple[str, int, int]:
        """Kind of a message, and the broadcast ⟨source, counter⟩ that it belongs to."""
        if isinstance(message, Copy):
            broadcast = message.broadcast
            self._hops[node, message.hop] = (broadcast.source, broadcast.counter)
            return _KINDS[type(broadcast)], broadcast.source, broadcast.counter
        if isinstance(message, Ack):
            return "ACK", *self._hops.pop((destination, message.hop))
        return type(message).__name__.upper(), message.source, message.counter


_KINDS: dict[type[Broadcast], str] = {Publication: "PUB", Subscription: "SUB", Unsubscription: "UNS"}


def _make_peers(protocol: str, nodes: int) -> list[Any]:
    everyone = range(nodes)
    if protocol == "amended":
        return [Peer(node, everyone, batch_items_max=1) for node in everyone]
    return [PublishedPeer(node, everyone, prune=protocol == "published") for node in everyone]
