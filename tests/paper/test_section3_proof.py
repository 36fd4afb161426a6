"""Section 3.4, the proof: its lemmas and theorems as properties of the amended protocol.

Seeded random runs without crashes, with joins, leaves, rejoins, bursts and answers, in which any message in
flight may be the next to arrive: links are as unordered as the paper's model allows. Each property is judged
from the log of what the nodes were asked, told, sent and received, never from a peer's inner state.

The paper states reception for Sub_p, the subscribers that enough others are aware of; the amended source fixes
the recipients of m instead and says who they are (`Started.recipients`), so here Sub_p is that set.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from random import Random
from typing import NamedTuple

import pytest

from vcubeps.protocol.messages import Ack, Barrier, Broadcast, Copy, Publication, Subscription
from vcubeps.protocol.outputs import (
    Accepted,
    Acknowledged,
    Deliver,
    Received,
    Started,
    Subscribed,
    Unsubscribed,
)
from vcubeps.protocol.peer import Peer
from wire import Call, InFlight, Wire

T = "t"
SEEDS = range(90)
STATIC_SEEDS = range(1_000, 1_030)

MESSAGES_MAX = 20_000
"""A run that has not come to rest after so many messages never will; lemma 2 reports it."""

ANSWERS_MAX = 40
"""Answers to answers would otherwise never end."""


class MessageId(NamedTuple):
    """⟨source, counter⟩ of one publication, or of a whole broadcast."""

    source: int
    counter: int


class Run:
    """One random run, come to rest. `log` is the wire's: (node, call or output) in order.

    `arrivals` are the messages in the order of their arrival, `offered` the payloads that were to be published.
    """

    def __init__(self, seed: int, *, dynamic: bool) -> None:
        self.seed = seed
        self._rng = rng = Random(seed)
        self._dynamic = dynamic
        size = rng.choice((4, 4, 8, 8, 16))
        # Every third run has holes: identifiers without a node.
        self.nodes = sorted(rng.sample(range(2 * size), size)) if seed % 3 == 0 else list(range(size))
        self.wire = Wire(Peer, self.nodes)
        self.log = self.wire.log
        self.arrivals: list[InFlight] = []
        self.offered: dict[MessageId, bytes] = {}
        self._newest_first = rng.choice((0.0, 0.3, 0.7))
        self._answers_left = rng.choice((0, ANSWERS_MAX))
        self._begin()
        for _ in range(rng.randint(15, 40)):
            self._act(rng.choice(self.nodes))
            self._deliver(rng.choice((0, 0, 1, 2, 5, 20)))
        self._deliver(MESSAGES_MAX)

    def _begin(self) -> None:
        """Some, or with static membership all, are members before anything is published."""
        for node in self.nodes:
            if not self._dynamic or self._rng.random() < 0.5:
                self.wire.subscribe(node, T)
        self._deliver(MESSAGES_MAX)

    def _act(self, node: int) -> None:
        rng, peer, wire = self._rng, self.wire.peers[node], self.wire
        if self._dynamic and peer.can_subscribe(T):
            wire.subscribe(node, T)
        elif self._dynamic and rng.random() < 0.2:
            wire.unsubscribe(node, T)
            if rng.random() < 0.5:
                wire.subscribe(node, T)
        else:
            for _ in range(rng.choice((1, 1, 1, 4))):
                self._publish(node)

    def _publish(self, node: int) -> None:
        if self.wire.peers[node].can_publish(T):
            payload = b"%d of %d" % (len(self.offered), node)
            said = len(self.wire.outputs[node])
            self.wire.publish(node, T, payload)
            [accepted] = [o for o in self.wire.outputs[node][said:] if isinstance(o, Accepted)]
            self.offered[MessageId(node, accepted.counter)] = payload

    def _deliver(self, messages: int) -> None:
        rng, in_flight = self._rng, self.wire.in_flight
        for _ in range(messages):
            if not in_flight:
                return
            newest = rng.random() < self._newest_first
            chosen = in_flight.pop(-1 if newest else rng.randrange(len(in_flight)))
            in_flight.insert(0, chosen)  # the wire delivers from the front
            self.arrivals.append(chosen)
            said = len(self.log)
            self.wire.step()
            for node, output in self.log[said:]:
                if isinstance(output, Deliver) and self._answers_left and rng.random() < 0.2:
                    self._answers_left -= 1
                    self._publish(node)

    # What the log says.

    def started(self) -> Iterator[tuple[MessageId, Started]]:
        """Own broadcasts as they begin; a batch is known by its last counter."""
        for node, event in self.log:
            if isinstance(event, Started):
                yield MessageId(node, event.items[-1][0]), event

    def pasts(self) -> dict[MessageId, set[MessageId]]:
        """Publication → all that causally precedes its publishing, by delivery and publication alone."""
        past_of: dict[MessageId, set[MessageId]] = {}
        past_at: defaultdict[int, set[MessageId]] = defaultdict(set)
        for node, event in self.log:
            if isinstance(event, Started):
                for counter, _ in event.items:
                    past_of[MessageId(node, counter)] = set(past_at[node])
                    past_at[node].add(MessageId(node, counter))
            elif isinstance(event, Deliver):
                for counter, _ in event.items:
                    message = MessageId(event.source, counter)
                    past_at[node] |= past_of[message] | {message}
        return past_of

    def barriers(self) -> dict[MessageId, Barrier]:
        """Publication → its barrier; inside a batch each depends on the one before."""
        found: dict[MessageId, Barrier] = {}
        for (source, _), start in self.started():
            barrier = start.barrier
            for counter, _ in start.items:
                found[MessageId(source, counter)] = barrier
                barrier = {source: counter}
        return found

    def own_of_earlier_subscriptions(self) -> dict[MessageId, set[MessageId]]:
        """Publication → those of its source that were published before its present subscription."""
        found: dict[MessageId, set[MessageId]] = {}
        own: defaultdict[int, set[MessageId]] = defaultdict(set)
        earlier: defaultdict[int, set[MessageId]] = defaultdict(set)
        for node, event in self.log:
            if isinstance(event, Subscribed):
                earlier[node] = set(own[node])
            elif isinstance(event, Started):
                published = {MessageId(node, counter) for counter, _ in event.items}
                found |= dict.fromkeys(published, earlier[node])
                own[node] |= published
        return found

    def subscribed_at_the_end(self) -> dict[int, int]:
        """Node → counter of its subscription, if it is in effect and the node has not asked to leave."""
        subscribed: dict[int, int] = {}
        for node, event in self.log:
            match event:
                case Subscribed(_, counter):
                    subscribed[node] = counter
                case Call("unsubscribe"):
                    subscribed.pop(node, None)
        return subscribed

    def copies(self) -> dict[MessageId, list[InFlight]]:
        """Broadcast → its copies that arrived, in order."""
        found: defaultdict[MessageId, list[InFlight]] = defaultdict(list)
        for arrival in self.arrivals:
            if isinstance(arrival.message, Copy):
                found[identity(arrival.message.broadcast)].append(arrival)
        return found

    def intended(self) -> dict[MessageId, set[int]]:
        """Broadcast → the nodes that its source meant it for: Sub_p without the source."""
        found = {message: set(start.recipients) for message, start in self.started()}
        for message, copies in self.copies().items():
            if isinstance(copies[0].message.broadcast, Subscription):
                found[message] = set(self.nodes) - {message.source}
        return found


def identity(broadcast: Broadcast) -> MessageId:
    return MessageId(broadcast.source, broadcast.counter)


def run_of(seed: int, *, dynamic: bool) -> Run:
    try:
        return Run(seed, dynamic=dynamic)
    except Exception as error:
        raise AssertionError(f"seed {seed}: the run broke off: {error}") from error


@cache
def dynamic_runs() -> list[Run]:
    return [run_of(seed, dynamic=True) for seed in SEEDS]


@cache
def static_runs() -> list[Run]:
    return [run_of(seed, dynamic=False) for seed in STATIC_SEEDS]


def all_runs() -> list[Run]:
    return dynamic_runs() + static_runs()


def holds_in(runs: Iterable[Run], judge: Callable[[Run], Iterator[str]]) -> None:
    for run in runs:
        for complaint in judge(run):
            pytest.fail(f"seed {run.seed}, {len(run.nodes)} nodes: {complaint}")


# The runs themselves.


def test_runs_contain_what_the_lemmas_speak_of() -> None:
    """Joins and leaves beside publications, batches, deep pasts, and publications that had to wait."""
    found: Counter[str] = Counter()
    for run in dynamic_runs():
        kinds = [type(event) for _, event in run.log]
        found["joins during publications"] += Started in kinds[: len(kinds) - kinds[::-1].index(Subscribed)]
        found["leaves"] += Unsubscribed in kinds
        found["batches"] += any(len(start.items) > 1 for _, start in run.started())
        found["relays"] += any(copy.source != message.source for message, copy in all_copies(run))
        found["deep pasts"] += max(map(len, run.pasts().values()), default=0) > 20
        found["waits"] += any(True for _ in waits(run))

    assert len(found) == 6
    assert min(found.values()) >= len(SEEDS) // 3, found


def all_copies(run: Run) -> Iterator[tuple[MessageId, InFlight]]:
    for message, copies in run.copies().items():
        for copy in copies:
            yield message, copy


def waits(run: Run) -> Iterator[tuple[int, MessageId]]:
    """Publications that were received, and delivered only when something else had arrived."""
    for (node, event), (next_node, next_event) in zip(run.log, run.log[1:], strict=False):
        if isinstance(event, Received) and (next_node, type(next_event)) != (node, Deliver):
            yield node, MessageId(event.source, event.counters[-1])


# Lemmas 1 to 4: dissemination.


def test_lemma_1_every_recipient_that_the_source_fixed_receives_the_message_exactly_once() -> None:
    def judge(run: Run) -> Iterator[str]:
        copies = run.copies()
        for message, recipients in run.intended().items():
            reached = Counter(copy.destination for copy in copies.get(message, []))
            if reached != Counter(recipients):
                yield f"{message} is for {sorted(recipients)} and reached {sorted(reached.elements())}"

    holds_in(all_runs(), judge)


def test_lemma_1_the_message_travels_over_a_tree_no_deeper_than_the_dimension() -> None:
    def judge(run: Run) -> Iterator[str]:
        dimension = max(run.nodes).bit_length()
        for message, copies in run.copies().items():
            depth = {message.source: 0}
            for copy in copies:
                if copy.source not in depth:
                    yield f"{copy.source} passed {message} on before it had received it"
                    return
                depth[copy.destination] = depth[copy.source] + 1
            if max(depth.values()) > dimension:
                yield f"{message} took {max(depth.values())} hops in a cube of dimension {dimension}"

    holds_in(all_runs(), judge)


def test_lemma_2_the_propagation_ends_after_one_copy_and_one_acknowledgement_per_recipient() -> None:
    def judge(run: Run) -> Iterator[str]:
        copies = sum(map(len, run.copies().values()))
        acknowledgements = sum(isinstance(arrival.message, Ack) for arrival in run.arrivals)
        if not copies == acknowledgements == len(run.arrivals) / 2:
            yield f"{copies} copies, {acknowledgements} acknowledgements, {len(run.arrivals)} messages"
        if run.wire.in_flight:
            yield f"still in flight: {run.wire.in_flight}"

    holds_in(all_runs(), judge)


def test_lemma_3_every_queued_publication_is_broadcast_once_in_order_and_acknowledged() -> None:
    def judge(run: Run) -> Iterator[str]:
        for node in run.nodes:
            outputs = run.wire.outputs[node]
            accepted = [output.counter for output in outputs if isinstance(output, Accepted)]
            batches = [output.items for output in outputs if isinstance(output, Started)]
            acknowledged = [output.counter for output in outputs if isinstance(output, Acknowledged)]
            if [counter for items in batches for counter, _ in items] != accepted:
                yield f"node {node} accepted {accepted} and broadcast {batches}"
            if [items[-1][0] for items in batches] != acknowledged:
                yield f"node {node} broadcast {batches} and had {acknowledged} acknowledged"

    holds_in(all_runs(), judge)


def test_lemma_3_every_queued_subscription_and_leave_is_broadcast() -> None:
    """Unless the application takes it back: a join that is still queued, a Subscribed after unsubscribe."""

    def judge(run: Run) -> Iterator[str]:
        for node in run.nodes:
            calls = [event.name for who, event in run.log if who == node and isinstance(event, Call)]
            done = [o for o in run.wire.outputs[node] if isinstance(o, Subscribed | Unsubscribed)]
            if calls and isinstance(done[-1], Subscribed) != (calls[-1] == "subscribe"):
                yield f"node {node} was last asked to {calls[-1]} and last said {done[-1]}"

    holds_in(dynamic_runs(), judge)


def test_lemma_4_everyone_becomes_aware_of_who_is_subscribed_and_who_is_not() -> None:
    def judge(run: Run) -> Iterator[str]:
        subscribed = run.subscribed_at_the_end()
        for node, peer in run.wire.peers.items():
            expected = subscribed if node in subscribed else {}
            if peer.members(T) != expected:
                yield f"node {node} sees {peer.members(T)} and not {expected}"

    holds_in(all_runs(), judge)


# Lemma 5: integrity.


def test_lemma_5_nothing_is_delivered_twice() -> None:
    def judge(run: Run) -> Iterator[str]:
        delivered: Counter[tuple[int, MessageId]] = Counter(deliveries(run))
        for (node, message), times in delivered.items():
            if times > 1:
                yield f"node {node} delivered {message} {times} times"

    holds_in(all_runs(), judge)


def test_lemma_5_nothing_is_delivered_that_was_not_published_before() -> None:
    def judge(run: Run) -> Iterator[str]:
        published: dict[MessageId, bytes] = {}
        for node, event in run.log:
            if isinstance(event, Started):
                for counter, payload in event.items:
                    published[MessageId(node, counter)] = payload
                    if run.offered[MessageId(node, counter)] != payload:
                        yield f"{MessageId(node, counter)} was published altered: {payload!r}"
            elif isinstance(event, Deliver):
                for counter, payload in event.items:
                    if published.get(MessageId(event.source, counter)) != payload:
                        yield f"node {node} delivered {payload!r} as {MessageId(event.source, counter)}"

    holds_in(all_runs(), judge)


def test_lemma_5_only_subscribers_deliver() -> None:
    def judge(run: Run) -> Iterator[str]:
        subscribers: set[int] = set()
        for node, event in run.log:
            match event:
                case Subscribed():
                    subscribers.add(node)
                case Call("unsubscribe"):
                    subscribers.discard(node)
                case Deliver() if node not in subscribers:
                    yield f"node {node} delivered {event} without being subscribed"

    holds_in(dynamic_runs(), judge)


def deliveries(run: Run) -> Iterator[tuple[int, MessageId]]:
    for node, event in run.log:
        if isinstance(event, Deliver):
            for counter, _ in event.items:
                yield node, MessageId(event.source, counter)


# Lemma 6 and theorem 1: causal order.


def test_lemma_6_every_dependency_is_in_the_barrier_or_behind_an_entry_that_stands_for_it() -> None:
    """An entry stands for the publications of its source up to it, and for their barriers in turn.

    What the source itself published in an earlier subscription needs no entry: its leave was acknowledged by
    all only when they had delivered that, and the new subscription waited for the leave (amendments 5 and 7).
    """

    def judge(run: Run) -> Iterator[str]:
        pasts, settled = run.pasts(), run.own_of_earlier_subscriptions()
        counters_of: defaultdict[int, list[int]] = defaultdict(list)
        stands_for: dict[MessageId, set[MessageId]] = {}
        # Barriers name only what was published before, so the order of publishing will do.
        for message, barrier in run.barriers().items():
            covered: set[MessageId] = set()
            for source, last in barrier.items():
                for counter in counters_of[source]:
                    if counter <= last:
                        covered |= stands_for[MessageId(source, counter)] | {MessageId(source, counter)}
            stands_for[message] = covered
            counters_of[message.source].append(message.counter)
            if missing := pasts[message] - covered - settled[message]:
                yield f"the barrier {barrier} of {message} does not cover {sorted(missing)}"

    holds_in(all_runs(), judge)


def test_lemma_6_with_static_membership_the_barrier_is_exactly_the_direct_dependencies() -> None:
    """The causal barrier as section 2.3 defines it: the immediate predecessors and nothing else."""

    def judge(run: Run) -> Iterator[str]:
        pasts = run.pasts()
        for message, barrier in run.barriers().items():
            indirect = set().union(*(pasts[earlier] for earlier in pasts[message]))
            direct = dict(pasts[message] - indirect)
            if barrier != direct:
                yield f"the barrier of {message} is {barrier}, its direct dependencies are {direct}"

    holds_in(static_runs(), judge)


def test_theorem_1_nothing_is_delivered_after_what_causally_follows_it() -> None:
    def judge(run: Run) -> Iterator[str]:
        pasts = run.pasts()
        too_late: defaultdict[int, set[MessageId]] = defaultdict(set)
        for node, message in deliveries(run):
            if message in too_late[node]:
                yield f"node {node} delivered {message} after something that depends on it"
            too_late[node] |= pasts[message]

    holds_in(all_runs(), judge)


# Lemma 7 and theorem 2: liveness.


def test_lemma_7_every_received_publication_is_delivered_if_the_receiver_stays() -> None:
    def judge(run: Run) -> Iterator[str]:
        waiting: set[tuple[int, MessageId]] = set()
        for node, event in run.log:
            match event:
                case Received():
                    waiting |= {(node, MessageId(event.source, counter)) for counter in event.counters}
                case Deliver():
                    waiting -= {(node, MessageId(event.source, counter)) for counter, _ in event.items}
                case Call("unsubscribe"):
                    waiting = {entry for entry in waiting if entry[0] != node}
        if waiting:
            yield f"received and never delivered: {sorted(waiting)}"

    holds_in(all_runs(), judge)


def test_theorem_2_every_recipient_that_stays_delivers_the_publication() -> None:
    """A copy names the subscription of each recipient: who still has that one at the end has stayed.

    A joiner whose subscription was not in effect yet may be a recipient too, and must deliver if it stays.
    """

    def judge(run: Run) -> Iterator[str]:
        stayed, delivered = run.subscribed_at_the_end().items(), set(deliveries(run))
        for message, (_, _, copy, _) in all_copies(run):
            if isinstance(copy.broadcast, Publication):
                for node, _ in copy.recipients.items() & stayed:
                    if (node, message) not in delivered:
                        yield f"node {node} never delivered {message}"

    holds_in(all_runs(), judge)


def test_theorem_2_the_source_delivers_its_own_publication_unless_it_has_left() -> None:
    def judge(run: Run) -> Iterator[str]:
        left: set[int] = set()
        delivered = set(deliveries(run))
        for node, event in run.log:
            match event:
                case Subscribed():
                    left.discard(node)
                case Call("unsubscribe"):
                    left.add(node)
                case Started() if node not in left:
                    for counter, _ in event.items:
                        if (node, MessageId(node, counter)) not in delivered:
                            yield f"node {node} never delivered its own {counter}"

    holds_in(all_runs(), judge)


def test_theorem_2_every_subscriber_is_among_the_recipients() -> None:
    """Whoever was told Subscribed before m was published, and had not left, is in Sub_p of m."""

    def judge(run: Run) -> Iterator[str]:
        subscribers: set[int] = set()
        for node, event in run.log:
            match event:
                case Subscribed():
                    subscribers.add(node)
                case Call("unsubscribe"):
                    subscribers.discard(node)
                case Started():
                    forgotten = subscribers - {node, *event.recipients}
                    if forgotten:
                        yield f"node {node} published {event.items[-1][0]} without {sorted(forgotten)}"

    holds_in(all_runs(), judge)
