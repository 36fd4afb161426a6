"""The reference simulation: peers of `protocol/`, or of the published algorithm, on the delay model.

Exact and slow: it is the judge of the kernel. At equal times the workload's inputs come first
(changes, then publications, each in the order of its arrays), then everything else in the order in
which it was caused. Of the workload's inputs, those that a peer cannot take at that moment are left
out (`Workload` says which).
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from functools import partial
from heapq import heappop, heappush
from itertools import count, groupby
from typing import Any

import numpy as np

from vcubeps.protocol.messages import Ack, Barrier, Broadcast, Copy, Publication, Subscription, Unsubscription
from vcubeps.protocol.outputs import (
    Accepted,
    Acknowledged,
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
from vcubeps.sim.measurements import Measurements, histogram
from vcubeps.sim.network import Delays, Transmitters
from vcubeps.sim.published import Pub, PublishedPeer
from vcubeps.sim.workload import Workload

PROTOCOLS = ("amended", "published", "unpruned")
"""`unpruned` is the published algorithm with line 93 read so that line 89 prunes nothing."""

Identifier = tuple[int, int]
"""⟨source, counter⟩ of a broadcast."""


def _smallest_subtree_first(outputs: list[Output]) -> Iterator[Output]:
    """The outputs with the copies of each broadcast in the paper's order, by increasing subcube (line 27)."""
    for _, together in groupby(outputs, _broadcast_of):
        run = list(together)
        yield from reversed(run) if _broadcast_of(run[0]) is not None else run


def _broadcast_of(output: Output) -> Identifier | None:
    """What is sent, if `output` is a copy of the amended protocol."""
    if type(output) is not Send or type(output.message) is not Copy:
        return None
    broadcast = output.message.broadcast
    return broadcast.source, broadcast.counter


class Reference:
    """One run of VCube-PS. After `run`, `trace` and the counters tell what happened."""

    def __init__(self, workload: Workload, delays: Delays, seed: int, protocol: str = "amended") -> None:
        self.trace = trace.Trace()
        self.copies: Counter[str] = Counter()
        """Kind of message (PUB, SUB, UNS, ACK) → how many were sent."""
        self.queue_lengths: list[list[int]] = [[] for _ in range(workload.nodes)]
        """Node → length of its send queue just after each PUB copy was put in, that copy included."""
        self.arrived = 0
        """Messages that arrived."""
        self.false_positives = 0
        """PUB messages that arrived at nodes that are not subscribers."""
        self.expected = 0
        self.lost = 0
        """Both in the sense of `Measurements`."""
        self._workload = workload
        self._acks_queue = delays.acks == "queued"
        self._transmitters = Transmitters(delays, seed, workload.nodes)
        self._peers = _make_peers(protocol, workload.nodes)
        self._now = 0
        self._number = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._published: dict[Identifier, int] = {}
        """When the application asked for a publication."""
        self._hops: dict[tuple[int, int], Identifier] = {}
        """(node, hop) → the broadcast whose copy it is."""
        self._distance: dict[tuple[int, Identifier], int] = {}
        """(node, publication) → hops from the source to the node."""
        self._leaves_while_joining = protocol == "amended"
        """Whether a node may ask to leave before its subscription is in effect."""
        self._join_asked: dict[tuple[int, int], int] = {}
        """(topic, node) → when it last asked to subscribe."""
        self._leaves_asked: defaultdict[tuple[int, int], deque[int]] = defaultdict(deque)
        """(topic, node) → when it asked for the leaves that have not become known to all."""
        self._subscribers = [set(members.nonzero()[0].tolist()) for members in workload.members]
        """Topic → nodes that have asked to subscribe and not to leave."""
        self._subscription_numbers = count()
        self._in_effect = [{n: next(self._subscription_numbers) for n in s} for s in self._subscribers]
        """Topic → subscriber whose subscription is in effect → a number of that subscription."""
        self._row: dict[Identifier, int] = {}
        """Publication under way → its place in the trace."""
        self._addressees: dict[Identifier, dict[int, int]] = {}
        """Publication under way → what was in effect on its topic when its broadcast began."""
        self._received: set[tuple[int, Identifier]] = set()
        """(node, publication)"""
        self._deliveries = [0] * workload.nodes
        self._has_spoken = [False] * workload.nodes

    def run(self) -> Reference:
        self._join_initial_members()
        self._schedule_inputs()
        while self._events:
            self._now, _, action = heappop(self._events)
            action()
        return self

    def measurements(self) -> Measurements:
        """Of the run as it stands; `forwarders` is 0, because every node of a tree is in somebody's view."""
        rows = self.trace
        published = {(p.source, p.counter): p.published_ut for p in rows.publications}
        received = {(r.node, r.source, r.counter): r.time_ut for r in rows.receptions}
        others = [d for d in rows.deliveries if d.node != d.source]
        return Measurements(
            reception_ut=histogram([r.time_ut - published[r.source, r.counter] for r in rows.receptions]),
            delivery_ut=histogram([d.time_ut - published[d.source, d.counter] for d in others]),
            causal_wait_ut=histogram([d.time_ut - received[d.node, d.source, d.counter] for d in others]),
            barrier_entries=histogram([len(p.barrier) for p in rows.publications]),
            path_hops=histogram([self._distance[r.node, (r.source, r.counter)] for r in rows.receptions]),
            queue_total=np.array([sum(lengths) for lengths in self.queue_lengths], np.int64),
            queue_copies=np.array([len(lengths) for lengths in self.queue_lengths], np.int64),
            publications=len(rows.publications),
            pub_copies=self.copies["PUB"],
            ack_copies=self.copies["ACK"],
            sub_copies=self.copies["SUB"],
            uns_copies=self.copies["UNS"],
            false_positives=self.false_positives,
            expected=self.expected,
            lost=self.lost,
            events=self.arrived,
        )

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
            node, topic = int(load.change_node[index]), int(load.change_topic[index])
            change = self._subscribe if joins else self._unsubscribe
            self._at(int(load.change_ut[index]), partial(change, node, topic))
        for index, time in enumerate(load.publish_ut):
            node, topic = int(load.publish_node[index]), int(load.publish_topic[index])
            self._has_spoken[node] = True
            self._at(int(time), partial(self._publish, node, topic))

    def _subscribe(self, node: int, topic: int) -> None:
        if node not in self._subscribers[topic]:
            self._subscribers[topic].add(node)
            self._join_asked[topic, node] = self._now
            self._carry_out(node, self._peers[node].subscribe(str(topic)))

    def _unsubscribe(self, node: int, topic: int) -> None:
        can_leave = self._subscribers[topic] if self._leaves_while_joining else self._in_effect[topic]
        if node in can_leave:
            self._subscribers[topic].discard(node)
            self._in_effect[topic].pop(node, None)
            # A node that may leave while it joins, and has a leave under way, only takes back its wish to rejoin.
            if not (self._leaves_while_joining and self._leaves_asked[topic, node]):
                self._leaves_asked[topic, node].append(self._now)
            self._carry_out(node, self._peers[node].unsubscribe(str(topic)))

    def _publish(self, node: int, topic: int) -> None:
        if node in self._in_effect[topic]:
            self._carry_out(node, self._peers[node].publish(str(topic), b""))

    def _at(self, time: int, action: Callable[[], None]) -> None:
        self._number += 1
        heappush(self._events, (time, self._number, action))

    # -- outputs -------------------------------------------------------------------------------

    def _carry_out(self, node: int, outputs: list[Output]) -> None:
        now = self._now
        for output in _smallest_subtree_first(outputs):
            match output:
                case Send(destination, message):
                    self._send(node, destination, message)
                case Accepted(counter=counter):
                    self._published[node, counter] = now
                case Started(topic, batch, barrier):
                    self._note_started(node, int(topic), batch.first, barrier)
                case Received(topic, source, batch):
                    self.trace.receptions.append(trace.Arrival(now, node, int(topic), source, batch.first))
                    self._received.add((node, (source, batch.first)))
                case Deliver(topic, source, batch):
                    self._note_delivered(node, int(topic), source, batch.first)
                case Acknowledged(topic, counter):
                    self._note_acknowledged(int(topic), (node, counter))
                case Subscribed(topic):
                    asked = self._join_asked[int(topic), node]
                    self.trace.membership.append(trace.Change(now, node, int(topic), True, asked))
                    self._in_effect[int(topic)][node] = next(self._subscription_numbers)
                case Unsubscribed(topic):
                    asked = self._leaves_asked[int(topic), node].popleft()
                    self.trace.membership.append(trace.Change(now, node, int(topic), False, asked))

    def _note_started(self, node: int, topic: int, counter: int, barrier: Barrier) -> None:
        published = self._published.pop((node, counter))
        row = trace.Publication(topic, node, counter, published, self._now, tuple(sorted(barrier.items())))
        self._row[node, counter] = len(self.trace.publications)
        self.trace.publications.append(row)
        others = self._in_effect[topic].items()
        self._addressees[node, counter] = {other: number for other, number in others if other != node}

    def _note_acknowledged(self, topic: int, publication: Identifier) -> None:
        row = self._row.pop(publication)
        if len(self._workload.change_ut):
            acknowledged = self.trace.publications[row]._replace(acknowledged_ut=self._now)
            self.trace.publications[row] = acknowledged
        still = self._in_effect[topic]
        addressees = self._addressees.pop(publication).items()
        expected = [node for node, number in addressees if still.get(node) == number]
        self.expected += len(expected)
        self.lost += sum((node, publication) not in self._received for node in expected)

    def _note_delivered(self, node: int, topic: int, source: int, counter: int) -> None:
        self.trace.deliveries.append(trace.Arrival(self._now, node, topic, source, counter))
        if source == node or not self._workload.answers_after:
            return
        self._deliveries[node] += 1
        if self._deliveries[node] >= self._workload.answers_after and not self._has_spoken[node]:
            self._has_spoken[node] = True
            self._at(
                self._now + int(self._workload.answer_wait_ut[node]), partial(self._publish, node, topic)
            )

    def _send(self, node: int, destination: int, message: Any) -> None:
        kind, (source, counter) = self._identify(node, destination, message)
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
            before = self._distance.get((node, (source, counter)), 0)
            self._distance[destination, (source, counter)] = before + 1
        self._at(arrival, partial(self._receive, destination, node, message))

    def _receive(self, node: int, sender: int, message: Any) -> None:
        self.arrived += 1
        broadcast = message.broadcast if isinstance(message, Copy) else message
        if isinstance(broadcast, Publication | Pub):
            self.false_positives += node not in self._subscribers[int(broadcast.topic)]
        self._carry_out(node, self._peers[node].receive(sender, message))

    def _identify(self, node: int, destination: int, message: Any) -> tuple[str, Identifier]:
        """Kind of a message, and the broadcast that it belongs to."""
        if isinstance(message, Copy):
            broadcast = message.broadcast
            self._hops[node, message.hop] = (broadcast.source, broadcast.counter)
            return _KINDS[type(broadcast)], (broadcast.source, broadcast.counter)
        if isinstance(message, Ack):
            return "ACK", self._hops.pop((destination, message.hop))
        return type(message).__name__.upper(), (message.source, message.counter)


_KINDS: dict[type[Broadcast], str] = {Publication: "PUB", Subscription: "SUB", Unsubscription: "UNS"}


def _make_peers(protocol: str, nodes: int) -> list[Any]:
    everyone = range(nodes)
    if protocol == "amended":
        # As in the paper, there are no questions about recipients: every copy lists them.
        return [Peer(node, everyone, batch_items_max=1, listed_max=len(everyone)) for node in everyone]
    return [PublishedPeer(node, everyone, prune=protocol == "published") for node in everyone]
