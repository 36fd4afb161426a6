"""SRPT, the paper's comparison: one tree per topic, rooted at one node, for all publishers (section 4).

SRPT-S: the tree is the cube's binomial tree at the root, pruned to the paths that reach subscribers;
nodes on such a path that are not subscribers forward without wanting the message. A publisher sends
to the root first, past its own queue, and gets its own message back through the tree.

SRPT-B (`Workload.brokers`): the tree consists of all brokers and of nothing else. A broker that
receives a publication also sends it to the subscribers attached to it, the publisher excepted,
through a second transmitter of its own. Every copy is acknowledged, the subscribers' too; a broker
acknowledges when both its children and its subscribers have. Brokers are the system's own, not
forwarders: what they receive is no false positive. Memberships do not change here.

Changes of membership (SRPT-S). Who joins or leaves sends a SUB or UNS to the root, past its queue
like a publication, and the root sends it down the tree, through the same transmitters and
acknowledged like a publication. Every message carries the tree that the root saw when the message
passed the root: for a SUB with the path to the joining node, for a UNS still with the path to the
leaving one. Relays therefore need no view of their own. That is the simplest model that is faithful
to a single tree: the root alone decides who is in it, all changes pass the root's queue (the cost
that section 4.5 is about), and no relay can lose a message by knowing less than the root.
- A SUB takes effect when its node has it back through the tree, unless the node has asked to leave
  since; a UNS when the root has it, if there was a subscription in effect to end. In the trace a SUB
  that was overtaken by its own UNS therefore does not appear, nor does that UNS.
- The root ignores a change that a later change of the same node has overtaken.
- A node receives as a member while its subscription is in effect and it has not asked to leave; it is
  a false positive if it has not asked to subscribe, or has asked to leave. The node that waits for its
  SUB is neither.
- Publications by nodes that are not members in this sense are skipped, and so is a change to what a
  node has asked for already.

There is no causal order here: a reception is a delivery. The order of events is that of `reference`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from vcubeps.cube import subcube
from vcubeps.sim import trace
from vcubeps.sim.measurements import Measurements, histogram
from vcubeps.sim.network import Delays, Transmitters
from vcubeps.sim.workload import Workload

_Blocks = list[list[bool]]
"""[l][b]: whether the aligned block b of 2^l nodes has somebody whom a tree must reach."""


@dataclass(slots=True)
class _Message:
    """What passes the root: a publication or a change of membership. ⟨source, counter⟩ identifies it."""

    kind: str
    topic: int
    source: int
    counter: int
    asked_ut: int
    input: int
    """Its number among the inputs, to tell what was asked for before it and what after it."""
    ends_subscription: bool = False
    """Of a UNS: whether its node was a member."""
    audience: list[int] = field(default_factory=list)
    """Of a publication: members when it began, the source excepted."""
    receivers: set[int] = field(default_factory=set)
    blocks: _Blocks = field(default_factory=list)
    """The tree that it follows."""


def check(workload: Workload, delays: Delays) -> None:
    """Raise ValueError if SRPT cannot run this."""
    nodes, brokers = workload.nodes, workload.brokers
    if nodes < 1 or nodes & nodes - 1:
        raise ValueError(f"the nodes must be a power of two, got {nodes}")
    if workload.answers_after:
        raise ValueError(f"SRPT has no answers, got answers_after={workload.answers_after}: leave it 0")
    if delays.transmission_ut < 1:
        raise ValueError(f"a copy takes at least 1 u.t. to transmit, got {delays.transmission_ut}")
    if delays.flight_ut < delays.jitters:
        raise ValueError(
            f"a copy cannot arrive before it is sent: a flight of {delays.flight_ut} u.t. is too short"
        )
    if len(workload.roots) != workload.topics:
        raise ValueError(
            f"each of the {workload.topics} topics needs a root, got {len(workload.roots)} roots"
        )
    in_tree = brokers or nodes
    if workload.topics and not 0 <= workload.roots.min() <= workload.roots.max() < in_tree:
        raise ValueError(f"roots must be nodes 0 to {in_tree - 1}, got {workload.roots.tolist()}")
    if not brokers:
        return
    if brokers & brokers - 1 or not 0 < brokers <= nodes:
        raise ValueError(f"the brokers must be a power of two, at most {nodes}, got {brokers}")
    if workload.members[:, :brokers].any():
        raise ValueError(f"brokers are no members: nodes 0 to {brokers - 1} must not be members")
    if len(workload.change_ut):
        raise ValueError("with brokers memberships do not change: leave the changes out")


class SrptReference:
    """One run. After `run`, `trace`, the counters and `measurements` tell what happened."""

    def __init__(self, workload: Workload, delays: Delays, seed: int) -> None:
        check(workload, delays)
        self.trace = trace.Trace()
        self.copies: Counter[str] = Counter()
        """Kind (PUB, SUB, UNS, ACK) → how many were sent; the hop to the root is not counted."""
        self.queue_lengths: list[list[int]] = [[] for _ in range(workload.nodes)]
        """Node → length of its send queue just after each PUB copy was put in, that copy included; a
        broker's queue towards its subscribers is not in here."""
        self.forwarders: list[int] = []
        """Topic → nodes of its first tree that are not subscribers; with brokers 0."""
        self.false_positives = 0
        self.expected = 0
        self.lost = 0
        self._workload = workload
        self._in_tree = workload.brokers or workload.nodes
        self._acks_queue = delays.acks == "queued"
        self._transmitters = Transmitters(delays, seed, workload.nodes)
        self._to_subscribers = Transmitters(delays, seed, workload.brokers)
        self._now = 0
        self._number = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._inputs = 0
        self._arrivals = 0
        self._counters: list[int] = workload.members.sum(axis=0).tolist()
        """Node → last counter given out; subscribing took one per topic, as in `reference`."""
        self._wishes = workload.members.copy()
        """(topic, node) → whether the node has asked to subscribe and not to leave."""
        self._members = workload.members.copy()
        """(topic, node) → whether that subscription is in effect."""
        self._latest_change = np.zeros(workload.members.shape, np.int64)
        """(topic, node) → counter of the last change that the node has asked for."""
        self._last_leave = np.zeros(workload.members.shape, np.int64)
        """(topic, node) → number of the input by which the node asked to leave."""
        self._known = workload.members.copy()
        """(topic, node) → membership as the root has it."""
        self._known_change = np.zeros(workload.members.shape, np.int64)
        """(topic, node) → counter of the last change that the root has."""
        self._awaited: dict[tuple[int, int, int], int] = {}
        """(node, source, counter) → acknowledgements that the node still waits for."""
        self._latencies: list[int] = []
        self._hops: list[int] = []
        self._broker_ut: list[int] = []
        self._last_hop_ut: list[int] = []

    def run(self) -> SrptReference:
        load = self._workload
        for topic in range(load.topics):
            self.forwarders.append(0 if load.brokers else self._count_forwarders(topic))
        for index, joins in enumerate(load.change_joins):
            node, topic = int(load.change_node[index]), int(load.change_topic[index])
            self._at(int(load.change_ut[index]), partial(self._change, node, topic, bool(joins)))
        for index, time in enumerate(load.publish_ut):
            node, topic = int(load.publish_node[index]), int(load.publish_topic[index])
            self._at(int(time), partial(self._publish, node, topic))
        while self._events:
            self._now, _, action = heappop(self._events)
            action()
        return self

    def measurements(self) -> Measurements:
        latencies = histogram(self._latencies)
        return Measurements(
            reception_ut=latencies,
            delivery_ut=latencies.copy(),
            causal_wait_ut=histogram([0] * len(self._latencies)),
            path_hops=histogram(self._hops),
            broker_ut=histogram(self._broker_ut),
            last_hop_ut=histogram(self._last_hop_ut),
            queue_total=np.array([sum(lengths) for lengths in self.queue_lengths], np.int64),
            queue_copies=np.array([len(lengths) for lengths in self.queue_lengths], np.int64),
            publications=len(self.trace.publications),
            pub_copies=self.copies["PUB"],
            ack_copies=self.copies["ACK"],
            sub_copies=self.copies["SUB"],
            uns_copies=self.copies["UNS"],
            false_positives=self.false_positives,
            forwarders=0 if len(self._workload.change_ut) else sum(self.forwarders),
            expected=self.expected,
            lost=self.lost,
            events=self._arrivals,
        )

    # -- inputs --------------------------------------------------------------------------------

    def _change(self, node: int, topic: int, joins: bool) -> None:
        self._inputs += 1
        if self._wishes[topic, node] == joins:
            return
        message = self._new_message("SUB" if joins else "UNS", node, topic)
        self._wishes[topic, node] = joins
        self._latest_change[topic, node] = message.counter
        if not joins:
            message.ends_subscription = bool(self._members[topic, node])
            self._members[topic, node] = False
            self._last_leave[topic, node] = self._inputs
        self._send_to_root(message)

    def _publish(self, node: int, topic: int) -> None:
        self._inputs += 1
        if not self._members[topic, node]:
            return
        message = self._new_message("PUB", node, topic)
        message.audience = [n for n in self._members[topic].nonzero()[0].tolist() if n != node]
        row = trace.Publication(topic, node, message.counter, self._now, self._now, ())
        self.trace.publications.append(row)
        if self._workload.brokers:
            # Its broker sends the message to the others only, so the source has it from itself.
            self.trace.deliveries.append(trace.Arrival(self._now, node, topic, node, message.counter))
        self._send_to_root(message)

    def _new_message(self, kind: str, node: int, topic: int) -> _Message:
        self._counters[node] += 1
        return _Message(kind, topic, node, self._counters[node], self._now, self._inputs)

    def _send_to_root(self, message: _Message) -> None:
        root = self._root(message)
        if message.source == root:
            self._pass_root(message)
            return
        arrival = self._transmitters.send(
            self._now, message.source, root, message.source, message.counter, is_ack=False, queued=False
        )
        self._arrives(arrival, partial(self._pass_root, message))

    def _at(self, time: int, action: Callable[[], None]) -> None:
        self._number += 1
        heappush(self._events, (time, self._number, action))

    # -- the root ------------------------------------------------------------------------------

    def _root(self, message: _Message) -> int:
        return int(self._workload.roots[message.topic])

    def _pass_root(self, message: _Message) -> None:
        known = self._known[message.topic]
        if message.kind != "PUB":
            if message.ends_subscription:
                self._note_change(message)
            if message.counter < self._known_change[message.topic, message.source]:
                return
            self._known_change[message.topic, message.source] = message.counter
            known[message.source] = True
        everyone = np.ones(self._in_tree, np.bool_)
        message.blocks = _blocks(everyone if self._workload.brokers else known)
        if message.kind == "UNS":
            known[message.source] = False
        root = self._root(message)
        self._receive(root, root, message)

    def _complete(self, message: _Message) -> None:
        """The root has all acknowledgements."""
        for node in message.audience:
            if self._last_leave[message.topic, node] < message.input:
                self.expected += 1
                self.lost += node not in message.receivers

    # -- the tree ------------------------------------------------------------------------------

    def _receive(self, node: int, sender: int, message: _Message) -> None:
        if message.kind == "PUB":
            self._note_publication(node, message)
        elif message.kind == "SUB" and node == message.source:
            self._take_effect(message)
        is_root = node == sender
        subcubes = (self._in_tree - 1).bit_length() if is_root else subcube(node, sender) - 1
        children = _children(node, subcubes, message.blocks)
        for child in children:
            self._send(node, child, message)
        subscribers = self._subscribers(node, message)
        for subscriber in subscribers:
            self._send_to_subscriber(node, subscriber, message)
        awaited = len(children) + len(subscribers)
        if awaited:
            self._awaited[node, message.source, message.counter] = awaited
        elif is_root:
            self._complete(message)
        else:
            self._acknowledge(node, sender, message)

    def _take_effect(self, message: _Message) -> None:
        if self._latest_change[message.topic, message.source] == message.counter:
            self._members[message.topic, message.source] = True
            self._note_change(message)

    def _send(self, node: int, child: int, message: _Message) -> None:
        self.copies[message.kind] += 1
        arrival = self._transmitters.send(
            self._now, node, child, message.source, message.counter, is_ack=False, queued=True
        )
        if message.kind == "PUB":
            self.queue_lengths[node].append(self._transmitters.queue_length(self._now, node))
        self._arrives(arrival, partial(self._receive, child, node, message))

    def _acknowledge(self, node: int, parent: int, message: _Message) -> None:
        self.copies["ACK"] += 1
        arrival = self._transmitters.send(
            self._now, node, parent, message.source, message.counter, is_ack=True, queued=self._acks_queue
        )
        self._arrives(arrival, partial(self._receive_ack, parent, message))

    def _receive_ack(self, node: int, message: _Message) -> None:
        key = (node, message.source, message.counter)
        self._awaited[key] -= 1
        if self._awaited[key]:
            return
        del self._awaited[key]
        root = self._root(message)
        if node == root:
            self._complete(message)
        else:
            distance = node ^ root
            self._acknowledge(node, root ^ (distance & (distance - 1)), message)

    def _arrives(self, time: int, action: Callable[[], None]) -> None:
        self._arrivals += 1
        self._at(time, action)

    # -- brokers -------------------------------------------------------------------------------

    def _subscribers(self, node: int, message: _Message) -> list[int]:
        """Whom `node` has to send the message to if it is a broker."""
        load = self._workload
        attached = range(load.brokers + node, load.nodes, load.brokers) if load.brokers else range(0)
        return [n for n in attached if self._members[message.topic, n] and n != message.source]

    def _send_to_subscriber(self, broker: int, node: int, message: _Message) -> None:
        self.copies["PUB"] += 1
        arrival = self._to_subscribers.send(
            self._now, broker, node, message.source, message.counter, is_ack=False, queued=True
        )
        self._last_hop_ut.append(arrival - self._now)
        self._arrives(arrival, partial(self._receive_from_broker, node, broker, message))

    def _receive_from_broker(self, node: int, broker: int, message: _Message) -> None:
        self._note_reception(node, (broker ^ self._root(message)).bit_count() + 1, message)
        self._acknowledge(node, broker, message)

    # -- what is noted -------------------------------------------------------------------------

    def _note_publication(self, node: int, message: _Message) -> None:
        """A node of the tree has it."""
        if self._workload.brokers:
            self._broker_ut.append(self._now - message.asked_ut)
            return
        self.false_positives += not self._wishes[message.topic, node]
        if self._members[message.topic, node]:
            self._note_reception(node, (node ^ self._root(message)).bit_count(), message)

    def _note_reception(self, node: int, hops_from_root: int, message: _Message) -> None:
        arrival = trace.Arrival(self._now, node, message.topic, message.source, message.counter)
        self.trace.deliveries.append(arrival)
        if node == message.source:
            return
        self.trace.receptions.append(arrival)
        message.receivers.add(node)
        self._latencies.append(self._now - message.asked_ut)
        self._hops.append(hops_from_root + (message.source != self._root(message)))

    def _note_change(self, message: _Message) -> None:
        joins = message.kind == "SUB"
        row = trace.Change(self._now, message.source, message.topic, joins, message.asked_ut)
        self.trace.membership.append(row)

    def _count_forwarders(self, topic: int) -> int:
        members = self._workload.members[topic]
        blocks = _blocks(members)
        waiting = [(int(self._workload.roots[topic]), self._workload.dimension)]
        forwarders = 0
        while waiting:
            node, subcubes = waiting.pop()
            forwarders += not members[node]
            waiting += [(c, subcube(c, node) - 1) for c in _children(node, subcubes, blocks)]
        return forwarders


def _children(node: int, subcubes: int, blocks: _Blocks) -> list[int]:
    """First nodes of those subcubes 1…`subcubes` of `node` in which there is somebody to reach."""
    neighbours = ((s, node ^ 1 << s - 1) for s in range(1, subcubes + 1))
    return [neighbour for s, neighbour in neighbours if blocks[s - 1][neighbour >> s - 1]]


def _blocks(reached: NDArray[np.bool_]) -> _Blocks:
    levels = [reached]
    while len(levels[-1]) > 1:
        levels.append(levels[-1][0::2] | levels[-1][1::2])
    return [level.tolist() for level in levels]
