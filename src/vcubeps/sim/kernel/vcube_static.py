"""The event loop of VCube-PS with a membership that does not change; `vcube` prepares its arrays.

An event is one integer: publication, node, and for a copy the subcubes that are left to serve and the hops so far.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from vcubeps.sim.kernel.copies import early, luck_of_broadcast
from vcubeps.sim.kernel.options import EVENT_LOOP
from vcubeps.sim.kernel.wheel import first_place, next_place, push

_PUB, _ACK, _ANSWER = 0, 1, 2
_KIND_BITS, HOP_BITS, _SUBCUBE_BITS, _NODE_BITS = 2, 5, 5, 21
_HOP_AT = _KIND_BITS
_SUBCUBE_AT = _HOP_AT + HOP_BITS
_NODE_AT = _SUBCUBE_AT + _SUBCUBE_BITS
_MESSAGE_AT = _NODE_AT + _NODE_BITS
_HOP_MASK, _SUBCUBE_MASK, _NODE_MASK = 31, 31, (1 << _NODE_BITS) - 1

_ALL_BUT_THE_SIGN = (1 << 63) - 1

DONE, _WHEEL_TOO_SHORT, _HISTOGRAM_TOO_SHORT = 0, 1, 2

CHAIN_MASK = 63
"""A node keeps what is blocked in so many chains, plus one, by the publication that it waits for."""


@njit(**EVENT_LOOP)
def simulate(  # type: ignore[no-untyped-def]
    dimension, topics, everyone, tables,
    flight_ut, transmission_ut, jitters, seed, acks_queue, with_acks,
    input_ut, input_node, input_topic,
    answers_after, answer_wait_ut, has_spoken, deliveries_of,
    last_counter,
    source_of, topic_of, counter_of, published, started, place_of, luck_of,
    under_way, waiting_first, waiting_last, waiting_next,
    ordered, prune, previous_of, last_of, message_at, first_word, end_word, words, offset, placed, seen, has, barrier,
    blocked_first, blocked, ready,
    head, position, pool, link,
    busy_until, awaited,
    reception_ut, delivery_ut, causal_wait_ut, path_hops,
    queue_total, queue_copies, totals,
    traced, received_rows, delivered_rows,
):  # fmt: skip
    span = len(head)
    longest = len(reception_ut)
    inputs = len(input_ut)
    next_input = np.int64(0)
    publications = np.int64(0)
    pub_copies = np.int64(0)
    ack_copies = np.int64(0)
    receptions = np.int64(0)
    deliveries = np.int64(0)
    in_flight = np.int64(0)
    blocked_free = np.int64(-1)
    blocked_used = np.int64(0)
    now = np.int64(0)
    while next_input < inputs or in_flight:
        if in_flight == 0:
            now = input_ut[next_input]
        bucket = np.uint64(now & (span - 1))
        place = np.int64(-1)
        begin = np.int64(-1)
        while True:
            # 1. Who does something: the source of a publication that may begin now, the application that
            # publishes, or whoever gets the next event.
            kind = _PUB
            publisher = np.int64(-1)
            hop = np.int64(0)
            answer_ut = np.int64(-1)
            if begin < 0:
                if next_input < inputs and input_ut[next_input] == now:
                    publisher = input_node[next_input]
                    subject = input_topic[next_input]
                    next_input += 1
                else:
                    if place < 0:
                        place = first_place(head, position, bucket)
                    else:
                        place = next_place(position, link, bucket, place)
                    if place == 0:
                        break
                    event = pool[np.uint64(place)]
                    in_flight -= 1
                    kind = event & 3
                    node = (event >> _NODE_AT) & _NODE_MASK
                    message = event >> _MESSAGE_AT
                    if kind == _ANSWER:
                        publisher = node
                        subject = np.int64(0)
                if publisher >= 0:
                    message = publications
                    publications += 1
                    last_counter[publisher] += 1
                    source_of[message] = publisher
                    topic_of[message] = subject
                    counter_of[message] = last_counter[publisher]
                    published[message] = now
                    luck_of[message] = luck_of_broadcast(seed, publisher, last_counter[publisher])
                    if with_acks:
                        pair = publisher * topics + subject
                        if under_way[pair]:
                            if waiting_first[pair] < 0:
                                waiting_first[pair] = message
                            else:
                                waiting_next[waiting_last[pair]] = message
                            waiting_last[pair] = message
                            continue
                        under_way[pair] = True
                    begin = message
                elif kind == _ACK:
                    awaited[np.uint64(message), np.uint64(node)] -= 1
                    if awaited[np.uint64(message), np.uint64(node)]:
                        continue
                    if node == source_of[message]:
                        pair = node * topics + topic_of[message]
                        begin = np.int64(waiting_first[pair])
                        if begin < 0:
                            under_way[pair] = False
                            continue
                        waiting_first[pair] = waiting_next[begin]
            # 2. What it does before it sends.
            if begin >= 0:
                message = begin
                begin = np.int64(-1)
                kind = _PUB
                node = source_of[message]
                subject = topic_of[message]
                subcubes = np.int64(dimension)
                started[message] = now
                at = placed[subject]
                place_of[message] = at
                placed[subject] = at + 1
                if ordered:
                    # Its barrier: what was delivered here since the last publication from here, and that one,
                    # without what the delivered ones stand for.
                    base = offset[subject]
                    count = words[subject]
                    pair = node * topics + subject
                    previous = last_of[pair]
                    previous_of[message] = previous
                    last_of[pair] = at
                    message_at[(base << 6) + at] = message
                    for word in range(count):
                        barrier[message, word] = has[node, base + word] & ~seen[node, base + word]
                    if previous >= 0:
                        barrier[message, previous >> 6] |= np.int64(1) << (previous & 63)
                    for word in range(count):
                        left = has[node, base + word] & ~seen[node, base + word]
                        other = word << 6
                        while left:
                            if left & 1:
                                standing = np.int64(message_at[(base << 6) + other])
                                if prune:
                                    for covered in range(count):
                                        barrier[message, covered] &= ~barrier[standing, covered]
                                elif previous_of[standing] >= 0:
                                    # A barrier names the last of each source.
                                    earlier = previous_of[standing]
                                    barrier[message, earlier >> 6] &= ~(np.int64(1) << (earlier & 63))
                            left = (left >> 1) & _ALL_BUT_THE_SIGN
                            other += 1
                    # It names recent publications: most words before and behind them are empty.
                    first = np.int64(0)
                    while first < count and barrier[message, first] == 0:
                        first += 1
                    end = count
                    while end > first and barrier[message, end - 1] == 0:
                        end -= 1
                    first_word[message] = first
                    end_word[message] = end
                    has[node, base + (at >> 6)] |= np.int64(1) << (at & 63)
                    for word in range(count):
                        seen[node, base + word] = has[node, base + word]
                if traced:
                    delivered_rows[0, deliveries] = now
                    delivered_rows[1, deliveries] = node
                    delivered_rows[2, deliveries] = message
                    deliveries += 1
            else:
                subject = topic_of[np.uint64(message)]
                subcubes = np.int64(0)
                if kind == _PUB:
                    subcubes = (event >> _SUBCUBE_AT) & _SUBCUBE_MASK
                    hop = (event >> _HOP_AT) & _HOP_MASK
                    latency = now - published[np.uint64(message)]
                    if latency >= longest:
                        return _HISTOGRAM_TOO_SHORT
                    reception_ut[np.uint64(latency)] += 1
                    path_hops[hop] += 1
                    if traced:
                        received_rows[0, receptions] = now
                        received_rows[1, receptions] = node
                        received_rows[2, receptions] = message
                    receptions += 1
                    if traced and not ordered:
                        delivered_rows[0, deliveries] = now
                        delivered_rows[1, deliveries] = node
                        delivered_rows[2, deliveries] = message
                        deliveries += 1
                    # `ready` is a stack of what may be deliverable: publication, since when it is here, and the
                    # first word of its barrier to look at.
                    ready[0, 0] = message
                    ready[1, 0] = now
                    ready[2, 0] = first_word[np.uint64(message)] if ordered else 0
                    height = np.int64(1) if ordered else np.int64(0)
                    while height:
                        height -= 1
                        candidate = ready[0, height]
                        since = ready[1, height]
                        base = offset[subject]
                        last_word = end_word[candidate]
                        # What it has covered before it was blocked stays covered.
                        word = ready[2, height]
                        lacks = np.int64(0)
                        while word < last_word:
                            lacks = (
                                barrier[np.uint64(candidate), np.uint64(word)]
                                & ~has[np.uint64(node), np.uint64(base + word)]
                            )
                            if lacks:
                                break
                            word += 1
                        if lacks:
                            # It waits for the first publication that it lacks.
                            at = word << 6
                            while lacks & 1 == 0:
                                lacks >>= 1
                                at += 1
                            if blocked_free >= 0:
                                entry = blocked_free
                                blocked_free = np.int64(blocked[2, entry])
                            else:
                                entry = blocked_used
                                blocked_used += 1
                            blocked[0, entry] = candidate
                            blocked[1, entry] = since
                            awaits = (base << 6) + at
                            blocked[2, entry] = blocked_first[node, awaits & CHAIN_MASK]
                            blocked[3, entry] = awaits
                            blocked_first[node, awaits & CHAIN_MASK] = entry
                            continue
                        at = place_of[candidate]
                        has[node, base + (at >> 6)] |= np.int64(1) << (at & 63)
                        # A wait for one's own acknowledgements counts too: it may exceed every reception's latency.
                        if now - published[candidate] >= longest:
                            return _HISTOGRAM_TOO_SHORT
                        delivery_ut[now - published[candidate]] += 1
                        causal_wait_ut[now - since] += 1
                        if traced:
                            delivered_rows[0, deliveries] = now
                            delivered_rows[1, deliveries] = node
                            delivered_rows[2, deliveries] = candidate
                            deliveries += 1
                        if answers_after and subject == 0:
                            deliveries_of[node] += 1
                            if deliveries_of[node] >= answers_after and not has_spoken[node]:
                                has_spoken[node] = True
                                answer_ut = now + answer_wait_ut[node]
                        # All that waited for it may be deliverable now.
                        awaits = (base << 6) + at
                        entry = np.int64(blocked_first[np.uint64(node), np.uint64(awaits & CHAIN_MASK)])
                        before = np.int64(-1)
                        while entry >= 0:
                            following = np.int64(blocked[2, entry])
                            if blocked[3, entry] != awaits:
                                before = entry
                            else:
                                ready[0, height] = blocked[0, entry]
                                ready[1, height] = blocked[1, entry]
                                ready[2, height] = at >> 6
                                height += 1
                                if before < 0:
                                    blocked_first[node, awaits & CHAIN_MASK] = following
                                else:
                                    blocked[2, before] = following
                                blocked[2, entry] = blocked_free
                                blocked_free = entry
                            entry = following
            # 3. What it sends: a copy to the first member of each subcube, or else an acknowledgement to
            # its parent; last, if it has heard enough, a note to itself that it will answer.
            turn = max(now, busy_until[np.uint64(node)])
            backlog = turn - now
            children = np.int64(0)
            subcube = np.int64(0)
            is_ack = kind == _ACK
            while True:
                if not is_ack:
                    # The next child, if there is one.
                    destination = np.int64(-1)
                    while subcube < subcubes and destination < 0:
                        destination = node ^ (np.int64(1) << subcube)
                        if not everyone:
                            destination = np.int64(
                                tables[np.uint64(subject), np.uint64(subcube), np.uint64(destination)]
                            )
                        subcube += 1
                    if destination >= 0:
                        children += 1
                        event = (
                            (message << _MESSAGE_AT)
                            | (destination << _NODE_AT)
                            | ((subcube - 1) << _SUBCUBE_AT)
                            | ((hop + 1) << _HOP_AT)
                        )
                    elif children == 0 and with_acks and hop:
                        is_ack = True
                    elif answer_ut >= 0:
                        event = (node << _NODE_AT) | _ANSWER
                    else:
                        break
                    is_answer = destination < 0 and not is_ack
                else:
                    is_answer = False
                if is_answer:
                    arrival = answer_ut
                    answer_ut = np.int64(-1)
                    subcube = subcubes
                else:
                    if is_ack:
                        source = source_of[message]
                        distance = source ^ node
                        destination = source ^ (distance & (distance - 1))
                        if not everyone:
                            # Walk down from the source until this node is the next.
                            destination = source
                            while True:
                                distance = destination ^ node
                                level = np.int64(-1)
                                while distance:
                                    distance >>= 1
                                    level += 1
                                child = np.int64(tables[subject, level, destination ^ (np.int64(1) << level)])
                                if child == node:
                                    break
                                destination = child
                        event = (message << _MESSAGE_AT) | (destination << _NODE_AT) | _ACK
                        ack_copies += 1
                    arrival = now + flight_ut
                    if acks_queue or not is_ack:
                        arrival = turn + flight_ut
                        turn += transmission_ut
                    if jitters:
                        arrival -= early(luck_of[message], destination, is_ack)
                if arrival - now >= span:
                    return _WHEEL_TOO_SHORT
                push(head, position, pool, link, arrival, event)
                in_flight += 1
                if is_ack:
                    if answer_ut < 0:
                        break
                    is_ack = False  # only a leaf gets here, and it has no children left to serve
                    hop = np.int64(0)
            if turn > now:
                busy_until[np.uint64(node)] = turn
            if children:
                if transmission_ut != 1:
                    backlog = (backlog + transmission_ut - 1) // transmission_ut
                queue_copies[np.uint64(node)] += children
                queue_total[np.uint64(node)] += children * backlog + (children * (children + 1) >> 1)
                pub_copies += children
                if with_acks:
                    awaited[np.uint64(message), np.uint64(node)] = children
            elif with_acks and kind == _PUB and node == source_of[message]:
                # Nobody else is in the topic: the broadcast is over, and the next one may begin.
                pair = node * topics + subject
                begin = np.int64(waiting_first[pair])
                if begin >= 0:
                    waiting_first[pair] = waiting_next[begin]
                else:
                    under_way[pair] = False
        now += 1
    totals[0] = publications
    totals[1] = pub_copies
    totals[2] = ack_copies
    totals[3] = receptions
    totals[4] = deliveries
    return DONE
