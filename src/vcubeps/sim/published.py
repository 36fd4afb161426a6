"""Algorithms 1 and 2 of the paper as published: the object of study, never a thing to run a system on.

`PublishedPeer` follows the algorithms line by line, flaws included (`tests/paper/` shows each flaw on a
trace), and has the inputs and outputs of the amended peer, so that both run in the same world. It must
not be repaired. Only what cannot be executed as printed is read charitably:

- line 2 initialises `last_delvs` and `causal_barrier` too; `delv`, which nothing reads, is left out, and
  `msg` (lines 3, 33) is `msgs`;
- line 48 empties `m′.data`, not the payload of the message in hand;
- lines 55–59 look for ⟨s, t, c⟩, the order in which lines 30 and 51 store it;
- line 93 takes from a copy of the barrier, so that line 89 still has it (`prune=False` reads it by
  reference: the barrier is empty when line 89 comes to prune with it);
- line 97 reports the counter of the subscription in the view.

A task is state and never blocks: `wait until` is a field. The handler of a received message runs to its
end before a START_MSG_PROPAGATION task goes on, and CO_BROADCAST before the task that it creates.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from vcubeps.cube import children, dimension, subcube
from vcubeps.protocol.batches import Batch
from vcubeps.protocol.errors import ProtocolViolation, UsageError
from vcubeps.protocol.limits import check_payload, check_topic
from vcubeps.protocol.messages import Barrier
from vcubeps.protocol.outputs import (
    Accepted,
    Acknowledged,
    Deliver,
    MemberJoined,
    MemberLeft,
    Output,
    Received,
    Send,
    Started,
    Subscribed,
    Unsubscribed,
)

Identifier: TypeAlias = tuple[int, int]
"""⟨s, c⟩: source and counter of a message."""


class Entry(NamedTuple):
    """⟨n, o, rc⟩: the latest operation of a node on a topic, and the node's counter at that time."""

    node: int
    operation: Literal["SUB", "UNS"]
    counter: int


class Message(msgspec.Struct, frozen=True):
    topic: str
    source: int
    counter: int


class Pub(Message, frozen=True, tag="PUB"):
    payload: bytes
    barrier: frozenset[Identifier] = frozenset()


class Sub(Message, frozen=True, tag="SUB"):
    pass


class Uns(Message, frozen=True, tag="UNS"):
    pass


class Ack(Message, frozen=True, tag="ACK"):
    """Acknowledges ⟨source, topic, counter⟩; `members` is what its subtree reports of itself."""

    members: frozenset[Entry] = frozenset()


Broadcast: TypeAlias = Pub | Sub | Uns
View: TypeAlias = dict[int, Entry]


@dataclass
class _Awaited:
    """⟨k, nb, ⟨s, t, c, mem⟩⟩ of `acks`; the parent of an own broadcast is None (⊥)."""

    parent: int | None
    missing: int
    members: frozenset[Entry] = frozenset()


@dataclass(eq=False)
class _Task:
    """One START_MSG_PROPAGATION: blocked in line 15 without a message, in line 31 with one."""

    message: Broadcast | None = None


@dataclass
class _Topic:
    """The variables indexed by topic. `pending` is not_delvs[t] together with its messages in msgs."""

    view: View = field(default_factory=dict)
    first_rec: dict[int, int] = field(default_factory=dict)
    last_delvs: dict[int, int] = field(default_factory=dict)
    causal_barrier: set[Identifier] = field(default_factory=set)
    pending: list[Pub] = field(default_factory=list)
    br_queue: deque[Broadcast] = field(default_factory=deque)
    tasks: list[_Task] = field(default_factory=list)


class PublishedPeer:
    """Node i of Algorithms 1 and 2. Every input returns what it caused, in order."""

    def __init__(self, node: int, nodes: Iterable[int], *, prune: bool = True) -> None:
        self._nodes = frozenset(nodes)
        if node not in self._nodes:
            raise UsageError(f"node {node} is not among its nodes {sorted(self._nodes)}: add it")
        self.node = node
        self._dimension = dimension(max(self._nodes) + 1)
        self._prune = prune
        self._counter = 0  # Algorithm 1, line 2
        self._topics: defaultdict[str, _Topic] = defaultdict(_Topic)  # lines 2–3 of both algorithms
        self._acks: dict[tuple[int, str, int], _Awaited] = {}
        self._out: list[Output] = []

    # Algorithm 1: the application's interface. UsageError stands for NOK.

    def subscribe(self, topic: str) -> list[Output]:
        """Algorithm 1, lines 4–9."""
        check_topic(topic)
        if self._is_subscribed(topic):
            raise UsageError(f"node {self.node} is subscribed to {topic!r} already: unsubscribe first")
        self._topics[topic].view = {self.node: Entry(self.node, "SUB", self._counter)}
        self._co_broadcast(Sub(topic, self.node, self._counter))
        return self._flush(topic)

    def unsubscribe(self, topic: str) -> list[Output]:
        """Algorithm 1, lines 10–15."""
        check_topic(topic)
        self._require_subscription(topic)
        del self._topics[topic].view[self.node]
        self._co_broadcast(Uns(topic, self.node, self._counter))
        return self._flush(topic)

    def publish(self, topic: str, payload: bytes) -> list[Output]:
        """Algorithm 1, lines 16–20."""
        check_topic(topic)
        check_payload(payload)
        self._require_subscription(topic)
        self._out.append(Accepted(topic, self._counter))
        self._co_broadcast(Pub(topic, self.node, self._counter, payload))
        return self._flush(topic)

    # Algorithm 2, lines 5–36: broadcasts of this node.

    def _co_broadcast(self, message: Broadcast) -> None:
        self._counter += 1  # line 9; the caller has put the counter into the message (lines 6–8)
        topic = self._topics[message.topic]
        if isinstance(message, Sub):
            topic.tasks.append(_Task())  # lines 10–11: next to a task that has not ended yet, if any
        topic.br_queue.append(message)  # line 12

    def _flush(self, topic: str) -> list[Output]:
        """Let the tasks of `topic` run until all are blocked; hand over what the input has caused."""
        while (task := self._runnable(self._topics[topic])) is not None:
            if task.message is None:
                self._start(topic, task)
            else:
                self._finish(topic, task, task.message)
        caused, self._out = self._out, []
        return caused

    def _runnable(self, topic: _Topic) -> _Task | None:
        """The oldest task that can go on. All take from the same br_queue, so any free one may be next."""
        for task in topic.tasks:
            m = task.message
            if topic.br_queue if m is None else (m.source, m.topic, m.counter) not in self._acks:
                return task
        return None

    def _start(self, topic: str, task: _Task) -> None:
        """Lines 15–30."""
        state = self._topics[topic]
        m = state.br_queue.popleft()
        if isinstance(m, Pub):
            m = msgspec.structs.replace(m, barrier=frozenset(state.causal_barrier))  # line 21
            batch, barrier = Batch(m.counter, (m.payload,)), _as_barrier(m.barrier)
            state.first_rec.setdefault(self.node, m.counter)  # lines 17–18
            self._out.append(Started(topic, batch, barrier, ()))
            self._out.append(Deliver(topic, self.node, batch, barrier))  # line 19: subscribed or not
            state.last_delvs[self.node] = m.counter  # line 20
            state.causal_barrier = {(self.node, m.counter)}  # line 22
        chd = self._children(m, self._dimension)  # lines 23–26
        self._send(chd, m)  # lines 27–28
        if chd:
            self._acks[m.source, m.topic, m.counter] = _Awaited(None, len(chd))  # lines 29–30
        task.message = m

    def _finish(self, topic: str, task: _Task, m: Broadcast) -> None:
        """Lines 31–36, once no acknowledgement of m is awaited."""
        state = self._topics[topic]
        task.message = None
        if isinstance(m, Pub):
            self._out.append(Acknowledged(topic, m.counter))
        elif isinstance(m, Sub):
            if state.view.get(self.node) == Entry(self.node, "SUB", m.counter):
                self._out.append(Subscribed(topic, m.counter))
        else:
            state.pending.clear()  # line 33
            state.first_rec.clear()  # line 34
            self._out.append(Unsubscribed(topic))
            if not state.br_queue:
                state.tasks.remove(task)  # lines 35–36

    # Algorithm 2, lines 37–74: task HANDLE_RECEIVED_MSG.

    def receive(self, sender: int, message: object) -> list[Output]:
        if sender == self.node or sender not in self._nodes:
            raise ProtocolViolation(sender, f"a message, but node {self.node} has no link to it")
        if isinstance(message, Ack):
            message = self._pass_ack_up(sender, message)
        elif isinstance(message, Pub | Sub | Uns):
            self._pass_on(sender, message)
        else:
            raise ProtocolViolation(sender, f"a {type(message).__name__}, expected Pub, Sub, Uns or Ack")
        if self._is_subscribed(message.topic):  # line 62
            self._take_note(message)
        return self._flush(message.topic)

    def _pass_on(self, sender: int, m: Broadcast) -> None:
        """Lines 40–53."""
        chd = self._children(m, subcube(self.node, sender) - 1)  # lines 41–44
        if not chd:  # lines 45–49: a leaf
            self._send_ack(sender, Ack(m.topic, m.source, m.counter))
            return
        self._acks[m.source, m.topic, m.counter] = _Awaited(sender, len(chd))  # line 51
        self._send(chd, m)  # lines 52–53

    def _send(self, destinations: Iterable[int], m: Message) -> None:
        # Its messages are not those of the amended protocol; only its own peers get them.
        self._out.extend(Send(k, m) for k in destinations)  # type: ignore[arg-type]

    def _pass_ack_up(self, sender: int, m: Ack) -> Ack:
        """Lines 54–61; returns m with the members gathered so far, as line 70 finds it."""
        key = (m.source, m.topic, m.counter)
        awaited = self._acks.get(key)  # line 55
        if awaited is None:
            raise ProtocolViolation(sender, f"an acknowledgement of {key}, which awaits none")
        m = msgspec.structs.replace(m, members=m.members | awaited.members)  # line 57
        if awaited.missing > 1:
            self._acks[key] = _Awaited(awaited.parent, awaited.missing - 1, m.members)  # lines 58–59
            return m
        del self._acks[key]  # line 56
        return m if awaited.parent is None else self._send_ack(awaited.parent, m)  # lines 60–61

    def _take_note(self, m: Message) -> None:
        """Lines 63–74, at a subscriber."""
        state = self._topics[m.topic]
        if isinstance(m, Pub):
            state.first_rec.setdefault(m.source, m.counter)  # lines 64–65
            state.pending.append(m)  # lines 66–67
            self._out.append(Received(m.topic, m.source, Batch(m.counter, (m.payload,))))
            self._check_delivery(m.topic)  # line 68
        elif isinstance(m, Ack):
            self._set_view(m.topic, update(state.view, m.members))  # lines 69–70
        else:
            operation: Literal["SUB", "UNS"] = "SUB" if isinstance(m, Sub) else "UNS"
            self._set_view(m.topic, update(state.view, {Entry(m.source, operation, m.counter)}))  # line 72
            if isinstance(m, Uns):
                state.first_rec.pop(m.source, None)  # lines 73–74

    def _check_delivery(self, topic: str) -> None:
        """Lines 83–89."""
        state = self._topics[topic]
        while m := next((m for m in state.pending if self._is_satisfied(state, m)), None):  # line 84
            batch = Batch(m.counter, (m.payload,))
            self._out.append(Deliver(topic, m.source, batch, _as_barrier(m.barrier)))  # line 85
            state.pending.remove(m)  # lines 86–87
            state.last_delvs[m.source] = m.counter  # line 88
            if self._prune:
                state.causal_barrier -= m.barrier  # line 89, with cb as it was before line 93
            state.causal_barrier.add((m.source, m.counter))  # line 89

    def _is_satisfied(self, state: _Topic, m: Pub) -> bool:
        """Lines 90–94: every dependency is delivered, or older than the first reception from its source."""
        return all(
            state.last_delvs.get(s, -1) >= c or state.first_rec.get(s, -1) > c  # line 92
            for s, c in m.barrier
        )

    def _send_ack(self, parent: int, m: Ack) -> Ack:
        """Lines 95–98."""
        state = self._topics[m.topic]
        if self._is_subscribed(m.topic) and m.source not in state.first_rec:  # line 96
            m = msgspec.structs.replace(m, members=m.members | {state.view[self.node]})  # line 97
        self._send([parent], m)  # line 98
        return m

    # Views.

    def _children(self, m: Broadcast, h: int) -> list[int]:
        """CHILDREN(i, *, h) for a SUB, CHILDREN(i, t, h) for the others (lines 23–26 and 41–44)."""
        return children(self.node, self._nodes if isinstance(m, Sub) else self._others(m.topic), h)

    def _others(self, topic: str) -> set[int]:
        """The members in the view, which may be out of date if this node has left."""
        return {e.node for e in self._topics[topic].view.values() if e.operation == "SUB"} - {self.node}

    def _set_view(self, topic: str, view: View) -> None:
        before = self._topics[topic].view
        self._topics[topic].view = view
        for node in sorted(view.keys() - {self.node}):
            old, new = before.get(node), view[node]
            if old == new:
                continue
            if old is not None and old.operation == "SUB":
                self._out.append(MemberLeft(topic, node))
            if new.operation == "SUB":
                self._out.append(MemberJoined(topic, node))

    def _is_subscribed(self, topic: str) -> bool:
        """⟨i, SUB, _⟩ ∈ view[t]"""
        return self.node in self._topics[topic].view

    def _require_subscription(self, topic: str) -> None:
        if not self._is_subscribed(topic):
            raise UsageError(f"node {self.node} is not subscribed to {topic!r}: subscribe first")

    # For checkers.

    def members(self, topic: str) -> dict[int, int]:
        """Node → counter of its subscription, this node included; empty if this node is not subscribed."""
        if not self._is_subscribed(topic):
            return {}
        view = self._topics[topic].view
        return {e.node: e.counter for e in sorted(view.values()) if e.operation == "SUB"}

    def footprint(self) -> dict[str, int]:
        """Work in progress; all 0 when nothing is under way."""
        topics = self._topics.values()
        return {
            "acks": len(self._acks),
            "broadcasts": sum(task.message is not None for t in topics for task in t.tasks),
            "queued": sum(len(t.br_queue) for t in topics),
            "pending": sum(len(t.pending) for t in topics),
        }

    def retained(self, topic: str) -> set[str]:
        """Names of the state of `topic` that is still held although this node is not subscribed to it."""
        if self._is_subscribed(topic):
            return set()
        state = self._topics[topic]
        held = {
            "view": state.view,
            "first_rec": state.first_rec,
            "pending": state.pending,
            "queue": state.br_queue,
            "tasks": state.tasks,
            "knowledge": state.last_delvs or state.causal_barrier,
        }
        return {name for name, value in held.items() if value}


def update(known: View, news: Iterable[Entry]) -> View:
    """Lines 75–82: of two entries of a node the one with the larger counter stays, of equals the known one."""
    merged = dict(known)
    for entry in news:
        old = merged.get(entry.node)
        if old is None or entry.counter > old.counter:
            merged[entry.node] = entry
    return merged


def _as_barrier(identifiers: Iterable[Identifier]) -> Barrier:
    """A set of identifiers as outputs show it: the last one of each source."""
    return dict(sorted(identifiers))
