"""SRPT-S with changes of membership, compiled: the model of `vcubeps.sim.srpt`, event by event.

A *message* is a publication or a change that its node has asked for. From the root on it is *under
way* and has a row of its own in two arrays, which the next message gets when the root has all
acknowledgements: `tree`, the tree that it carries, and `awaited`, the acknowledgements that each
node still waits for. A tree is a set of bits in the order of a binary heap: bit (nodes + i) >> l
tells whether the aligned block of 2^l nodes around i has somebody to reach.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from vcubeps.sim import trace as rows
from vcubeps.sim.kernel.copies import early, luck_of_broadcast
from vcubeps.sim.kernel.options import EVENT_LOOP
from vcubeps.sim.kernel.wheel import CHUNK_BITS, make_wheel, push, release
from vcubeps.sim.measurements import Measurements, trimmed
from vcubeps.sim.network import Delays
from vcubeps.sim.workload import Ints, Workload

_PUB, _SUB, _UNS, _ACK = 0, 1, 2, 3
"""Kinds of messages, and where their copies are counted in `totals`."""
_FALSE_POSITIVES, _EXPECTED, _LOST, _ARRIVALS, _MESSAGES, _RECEPTION_ROWS, _CHANGE_ROWS, _TOTALS = range(
    4, 12
)
_TO_ROOT, _COPY, _ACKNOWLEDGEMENT = 0, 1, 2
"""Kinds of events: the message arrives at its root, a copy at a node of the tree, or an acknowledgement."""
_IN_AUDIENCE, _HAS_RECEIVED = 1, 2
_DONE, _TOO_SMALL = 0, 1
_MOST_CHILDREN = 20

_FIRST_SPAN_MAX_UT = 1 << 16
_FIRST_WAITING = 1 << 20


def run(
    workload: Workload, delays: Delays, seed: int, *, trace: bool = False
) -> tuple[Measurements, rows.Trace | None]:
    """Simulate; the same measurements and, on request, the same trace as `SrptReference`."""
    scale = 1
    while True:
        attempt = _Attempt(workload, delays, seed, trace, scale)
        if attempt.succeeds():
            return attempt.measurements(), attempt.trace() if trace else None
        scale *= 4


class _Attempt:
    """One run, with buffers of a size that depends on `scale`."""

    def __init__(self, load: Workload, delays: Delays, seed: int, trace: bool, scale: int) -> None:
        self._load, self._delays, self._seed, self._traced = load, delays, seed, trace
        messages = len(load.change_ut) + len(load.publish_ut)
        backlog = min(messages * (load.dimension + 1) * delays.transmission_ut, _FIRST_SPAN_MAX_UT)
        self._span = 1 << (scale * backlog + delays.wait_ut + delays.flight_ut + 1).bit_length()
        self._waiting = _FIRST_WAITING * scale
        inputs_ut = np.concatenate((load.change_ut, load.publish_ut))
        self._first_ut = int(inputs_ut.min(initial=0))
        duration = int(inputs_ut.max(initial=0)) - self._first_ut
        self._latency = np.zeros(duration + 4 * scale * self._span, np.int64)
        self._hops = np.zeros(load.dimension + 2, np.int64)
        self._queue_total = np.zeros(load.nodes, np.int64)
        self._queue_copies = np.zeros(load.nodes, np.int64)
        self._kind = np.empty(messages, np.int64)
        self._topic = np.empty(messages, np.int64)
        self._source = np.empty(messages, np.int64)
        self._counter = np.empty(messages, np.int64)
        self._asked_ut = np.empty(messages, np.int64)
        most_rows = len(load.publish_ut) * load.nodes if trace else 0
        self._reception_ut = np.empty(most_rows, np.int64)
        self._reception_event = np.empty(most_rows, np.int64)
        self._change_ut = np.empty(messages, np.int64)
        self._change_message = np.empty(messages, np.int64)
        self._totals = np.zeros(_TOTALS, np.int64)

    def succeeds(self) -> bool:
        load, delays = self._load, self._delays
        messages, pairs = len(self._kind), load.topics * load.nodes
        known = _heaps(load)
        status = _simulate(
            *make_wheel(self._span, self._waiting),
            load.dimension, load.roots, self._first_ut,
            load.change_ut, load.change_node, load.change_topic, load.change_joins,
            load.publish_ut, load.publish_node, load.publish_topic,
            delays.wait_ut + delays.flight_ut, delays.transmission_ut,
            np.uint64(self._seed % (1 << 64)), delays.jitters, delays.acks == "queued",
            self._kind, self._topic, self._source, self._counter, self._asked_ut,
            np.empty(messages, np.uint64), np.empty(messages, np.int64), np.zeros(messages, np.bool_),
            np.empty(messages, np.int64), np.empty(messages, np.int64),
            np.empty(messages, np.int64), np.empty(messages * known.shape[1], np.int64),
            np.zeros(messages * load.nodes, np.int8),
            load.members.sum(axis=0), load.members.ravel().copy(), load.members.ravel().copy(),
            np.zeros(pairs, np.int64), np.zeros(pairs, np.int64),
            known.ravel(), known.shape[1], np.zeros(pairs, np.int64),
            np.zeros(len(load.publish_ut) * load.nodes, np.int8),
            np.zeros(load.nodes, np.int64), self._queue_total, self._queue_copies,
            self._latency, self._hops, self._totals,
            self._traced, self._reception_ut, self._reception_event, self._change_ut, self._change_message,
        )  # fmt: skip
        return bool(status == _DONE)

    def measurements(self) -> Measurements:
        totals = self._totals.tolist()
        latency = trimmed(self._latency)
        return Measurements(
            reception_ut=latency,
            delivery_ut=latency.copy(),
            causal_wait_ut=trimmed(latency.sum(keepdims=True)),
            path_hops=trimmed(self._hops),
            queue_total=self._queue_total,
            queue_copies=self._queue_copies,
            publications=int((self._kind[: totals[_MESSAGES]] == _PUB).sum()),
            pub_copies=totals[_PUB],
            ack_copies=totals[_ACK],
            sub_copies=totals[_SUB],
            uns_copies=totals[_UNS],
            false_positives=totals[_FALSE_POSITIVES],
            expected=totals[_EXPECTED],
            lost=totals[_LOST],
            events=totals[_ARRIVALS],
        )

    def trace(self) -> rows.Trace:
        result = rows.Trace()
        published = np.flatnonzero(self._kind[: self._totals[_MESSAGES]] == _PUB)
        for topic, source, counter, time in self._columns(
            published, self._topic, self._source, self._counter, self._asked_ut
        ):
            result.publications.append(rows.Publication(topic, source, counter, time, time, ()))
        count = self._totals[_RECEPTION_ROWS]
        event = self._reception_event[:count] >> 2
        message = event >> self._load.dimension
        places = zip(
            self._reception_ut[:count].tolist(), (event & self._load.nodes - 1).tolist(), strict=True
        )
        names = self._columns(message, self._topic, self._source, self._counter)
        for (time, node), (topic, source, counter) in zip(places, names, strict=True):
            arrival = rows.Arrival(time, node, topic, source, counter)
            result.deliveries.append(arrival)
            if node != source:
                result.receptions.append(arrival)
        count = self._totals[_CHANGE_ROWS]
        names = self._columns(
            self._change_message[:count], self._source, self._topic, self._kind, self._asked_ut
        )
        for time, (node, topic, kind, asked) in zip(self._change_ut[:count].tolist(), names, strict=True):
            result.membership.append(rows.Change(time, node, topic, kind == _SUB, asked))
        return result

    @staticmethod
    def _columns(index: Ints, *columns: Ints) -> list[tuple[int, ...]]:
        return list(zip(*(column[index].tolist() for column in columns), strict=True))


def _heaps(load: Workload) -> Ints:
    """(topic, word) → the tree of the first members as bits, as above."""
    heap = np.zeros((load.topics, max(2 * load.nodes, 64)), np.bool_)
    level = load.members
    while True:
        width = level.shape[1]
        heap[:, width : 2 * width] = level
        if width == 1:
            return np.packbits(heap, axis=1, bitorder="little").view("<i8").astype(np.int64)
        level = level[:, 0::2] | level[:, 1::2]


@njit(**EVENT_LOOP)
def _set_reached(heap, base, nodes, node, is_reached):  # type: ignore[no-untyped-def]
    """Put a node into the tree that begins at word `base`, or take it out."""
    index = nodes + node
    reached = np.int64(is_reached)
    while index:
        bit = np.int64(1) << (index & 63)
        if reached:
            heap[base + (index >> 6)] |= bit
        else:
            heap[base + (index >> 6)] &= ~bit
        sibling = index ^ 1
        if index > 1:
            reached |= (heap[base + (sibling >> 6)] >> (sibling & 63)) & 1
        index >>= 1


@njit(**EVENT_LOOP)
def _simulate(  # type: ignore[no-untyped-def]
    head, position, pool, link,
    dimension, roots, first_ut,
    change_ut, change_node, change_topic, change_joins,
    publish_ut, publish_node, publish_topic,
    latest_ut, transmission_ut, seed, jitters, acks_queue,
    kind, topic, source, counter, asked_ut,
    luck, asked_as, ends_subscription, published_as, row,
    free_rows, tree, awaited,
    counters, wishes, members, latest_change, last_leave,
    known, words, known_change,
    audience, busy_until, queue_total, queue_copies,
    latency, hops, totals,
    traced, reception_ut, reception_event, change_row_ut, change_row_message,
):  # fmt: skip
    """_DONE or _TOO_SMALL. The names are those of `SrptReference` and `_Message`; pairs (topic, node) are
    indices topic · nodes + node, and `published_as` is a publication's number among the publications."""
    nodes = 1 << dimension
    span = len(head)
    chunks = len(link) - 1
    horizon = first_ut + len(latency)
    changes, publications = len(change_ut), len(publish_ut)
    changed = published = inputs = messages = 0
    free = rows = 0
    last = now = first_ut
    while True:
        if now > last:
            if changed == changes and published == publications:
                totals[_MESSAGES] = messages
                return _DONE
            now = horizon
            if changed < changes:
                now = min(now, change_ut[changed])
            if published < publications:
                now = min(now, publish_ut[published])
        limit = min(now + span, horizon)
        bucket = now & (span - 1)
        chunk = np.int64(0)
        while True:
            # Events place … end − 1 of the pool are next. No bucket has chunk 0: it is for a message that
            # is at its root already.
            is_change = changed < changes and change_ut[changed] == now
            if is_change or (published < publications and publish_ut[published] == now):
                inputs += 1
                if is_change:
                    of_topic, node = change_topic[changed], change_node[changed]
                    joins = change_joins[changed]
                    changed += 1
                    pair = of_topic * nodes + node
                    if wishes[pair] == joins:
                        continue
                    wishes[pair] = joins
                    latest_change[pair] = counters[node] + 1
                    kind[messages] = _SUB if joins else _UNS
                    if not joins:
                        ends_subscription[messages] = members[pair]
                        members[pair] = False
                        last_leave[pair] = inputs
                else:
                    of_topic, node = publish_topic[published], publish_node[published]
                    published += 1
                    pair = of_topic * nodes + node
                    if not members[pair]:
                        continue
                    kind[messages] = _PUB
                    published_as[messages] = published - 1
                    for other in range(nodes):
                        if members[of_topic * nodes + other] and other != node:
                            audience[(published - 1) * nodes + other] = _IN_AUDIENCE
                counters[node] += 1
                topic[messages] = of_topic
                source[messages] = node
                counter[messages] = counters[node]
                asked_ut[messages] = now
                asked_as[messages] = inputs
                luck[messages] = luck_of_broadcast(seed, node, counters[node])
                root = roots[of_topic]
                event = (messages << dimension | root) << 2 | _TO_ROOT
                messages += 1
                if node != root:
                    totals[_ARRIVALS] += 1
                    at = now + latest_ut
                    if at >= limit or link[-1] + 1 >= chunks:
                        return _TOO_SMALL
                    last = max(last, at)
                    if jitters:
                        at -= early(luck[messages - 1], root, False)
                    push(head, position, pool, link, at, event)
                    continue
                pool[0] = event
                place = np.int64(0)
                end = np.int64(1)
            else:
                # What arrives in no time joins the bucket while it is being emptied.
                end = position[bucket]
                if end == 0:
                    break
                if chunk == 0:
                    chunk = np.int64(head[bucket])
                    place = chunk << CHUNK_BITS
                elif place == end:
                    release(link, chunk)
                    position[bucket] = 0
                    break
                elif place == (chunk + 1) << CHUNK_BITS:
                    following = np.int64(link[chunk])
                    release(link, chunk)
                    chunk = following
                    place = chunk << CHUNK_BITS
                if (end - 1) >> CHUNK_BITS != chunk:
                    end = (chunk + 1) << CHUNK_BITS
            while place < end:
                event = pool[place]
                place += 1
                what = event & 3
                message = event >> 2 + dimension
                node = (event >> 2) & (nodes - 1)
                of_kind = kind[message]
                of_topic = topic[message]
                origin = source[message]
                root = roots[of_topic]
                if what == _TO_ROOT:
                    base = of_topic * words
                    if of_kind != _PUB:
                        if ends_subscription[message]:
                            change_row_ut[totals[_CHANGE_ROWS]] = now
                            change_row_message[totals[_CHANGE_ROWS]] = message
                            totals[_CHANGE_ROWS] += 1
                        pair = of_topic * nodes + origin
                        if counter[message] < known_change[pair]:
                            continue
                        known_change[pair] = counter[message]
                        _set_reached(known, base, nodes, origin, True)
                    if free:
                        free -= 1
                        row[message] = free_rows[free]
                    else:
                        row[message] = rows
                        rows += 1
                    for word in range(words):
                        tree[row[message] * words + word] = known[base + word]
                    if of_kind == _UNS:
                        _set_reached(known, base, nodes, origin, False)
                here = row[message] * nodes + node
                if what == _ACKNOWLEDGEMENT:
                    awaited[here] -= 1
                    if awaited[here]:
                        continue
                else:
                    pair = of_topic * nodes + node
                    if of_kind == _PUB:
                        if not wishes[pair]:
                            totals[_FALSE_POSITIVES] += 1
                        if members[pair]:
                            if node != origin:
                                audience[published_as[message] * nodes + node] |= _HAS_RECEIVED
                                latency[now - asked_ut[message]] += 1
                                distance = node ^ root
                                path = 1 if origin != root else 0
                                while distance:
                                    distance &= distance - 1
                                    path += 1
                                hops[path] += 1
                            if traced:
                                reception_ut[totals[_RECEPTION_ROWS]] = now
                                reception_event[totals[_RECEPTION_ROWS]] = event
                                totals[_RECEPTION_ROWS] += 1
                    elif of_kind == _SUB and node == origin and latest_change[pair] == counter[message]:
                        members[pair] = True
                        change_row_ut[totals[_CHANGE_ROWS]] = now
                        change_row_message[totals[_CHANGE_ROWS]] = message
                        totals[_CHANGE_ROWS] += 1
                    base = row[message] * words
                    stands_for = (node ^ root) & -(node ^ root)
                    if node == root:
                        stands_for = nodes
                    if link[-1] + _MOST_CHILDREN >= chunks:
                        return _TOO_SMALL
                    turn = max(now, busy_until[node])
                    children = 0
                    level = 0
                    while 1 << level < stands_for:
                        child = node ^ 1 << level
                        block = (nodes + child) >> level
                        level += 1
                        if (tree[base + (block >> 6)] >> (block & 63)) & 1 == 0:
                            continue
                        at = turn + latest_ut
                        if at >= limit:
                            return _TOO_SMALL
                        last = max(last, at)
                        turn += transmission_ut
                        children += 1
                        if of_kind == _PUB:
                            queue_total[node] += (turn - now + transmission_ut - 1) // transmission_ut
                            queue_copies[node] += 1
                        if jitters:
                            at -= early(luck[message], child, False)
                        push(head, position, pool, link, at, (message << dimension | child) << 2 | _COPY)
                    if children:
                        busy_until[node] = turn
                        totals[of_kind] += children
                        totals[_ARRIVALS] += children
                        awaited[here] = children
                        continue
                if node != root:
                    # Everybody below has it: acknowledge to whom it came from.
                    parent = root ^ ((node ^ root) & (node ^ root) - 1)
                    turn = now
                    if acks_queue:
                        turn = max(now, busy_until[node])
                        busy_until[node] = turn + transmission_ut
                    at = turn + latest_ut
                    if at >= limit or link[-1] + 1 >= chunks:
                        return _TOO_SMALL
                    last = max(last, at)
                    totals[_ACK] += 1
                    totals[_ARRIVALS] += 1
                    if jitters:
                        at -= early(luck[message], parent, True)
                    push(
                        head,
                        position,
                        pool,
                        link,
                        at,
                        (message << dimension | parent) << 2 | _ACKNOWLEDGEMENT,
                    )
                    continue
                free_rows[free] = row[message]
                free += 1
                if of_kind == _PUB:
                    for other in range(nodes):
                        noted = audience[published_as[message] * nodes + other]
                        left = last_leave[of_topic * nodes + other] > asked_as[message]
                        if noted & _IN_AUDIENCE and not left:
                            totals[_EXPECTED] += 1
                            if not noted & _HAS_RECEIVED:
                                totals[_LOST] += 1
        now += 1
