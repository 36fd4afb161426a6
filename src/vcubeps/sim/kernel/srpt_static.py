"""The event loop of SRPT-S and SRPT-B without changes of membership; `srpt` prepares its arrays.

A *slot* is a (topic, node), topic · nodes + node. `tree[slot]` describes what the node does in the
topic's tree: the subcubes it forwards to as bits, bit s−1 for subcube s, so that a child's slot is
slot ⊕ bit; which of these children are leaves; how many children; whether it is a member.

An event is one integer: publication, slot of the destination, and whether it is an acknowledgement.
Nobody waits for acknowledgements, so while they do not queue there are none (`srpt` counts them),
and an arrival that then causes nothing, at a leaf or at a broker's subscriber, is noted when the
copy is sent.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from vcubeps.sim.kernel.copies import early, luck_of_broadcast
from vcubeps.sim.kernel.options import EVENT_LOOP
from vcubeps.sim.kernel.wheel import CHUNK_BITS, push, release

LEAVES_AT, CHILDREN_AT, MEMBER_AT = 20, 40, 45
_SUBCUBES = (1 << LEAVES_AT) - 1
_CHILDREN = (1 << MEMBER_AT - CHILDREN_AT) - 1

TOO_SMALL = -1
_MOST_CHILDREN = LEAVES_AT


@njit(**EVENT_LOOP)
def simulate(  # type: ignore[no-untyped-def]
    head, position, pool, link,
    dimension, slot_bits, tree, roots,
    publish_ut, source, topic, counter, luck,
    latest_ut, transmission_ut, seed, jitters, acks_queue,
    awaited, busy_until, queue_total, latency,
    brokers, first_subscriber, subscribers, second_busy_until, broker_ut, last_hop_ut,
    traced, row_ut, row_event,
):  # fmt: skip
    """How many rows there are, or TOO_SMALL.

    `latest_ut` is what a copy takes at the longest once its turn has come. `brokers` and the three
    arrays after it are None without brokers, and so their code is not compiled.
    """
    publications = len(publish_ut)
    if publications == 0:
        return 0
    span = len(head)
    horizon = publish_ut[0] + len(latency)
    chunks = len(link) - 1
    slot_mask = (1 << slot_bits) - 1
    node_mask = (1 << dimension) - 1
    leaves_mask = 0 if acks_queue else _SUBCUBES
    rows = 0
    last = now = publish_ut[0]
    published = 0
    while True:
        if now > last:
            if published == publications:
                return rows
            now = publish_ut[published]
        limit = min(now + span, horizon)
        bucket = now & (span - 1)
        chunk = np.int64(0)
        while True:
            # Events place … end − 1 of the pool are next. No bucket has chunk 0: it is for a publication
            # that is at its root already.
            if published < publications and publish_ut[published] == now:
                root = roots[topic[published]]
                luck[published] = luck_of_broadcast(seed, source[published], counter[published])
                event = (published << slot_bits | topic[published] << dimension | root) << 1
                published += 1
                if source[published - 1] != root:
                    at = now + latest_ut
                    if at >= limit or link[-1] + 1 >= chunks:
                        return TOO_SMALL
                    last = max(last, at)
                    if jitters:
                        at -= early(luck[published - 1], root, False)
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
                event = pool[np.uint64(place)]
                place += 1
                publication = event >> 1 + slot_bits
                slot = (event >> 1) & slot_mask
                node = slot & node_mask
                # Unsigned indices spare the test for negative ones.
                at_node = np.uint64(node)
                of_publication = np.uint64(publication)
                if event & 1 == 0:
                    word = tree[np.uint64(slot)]
                    asked_ut = publish_ut[of_publication]
                    origin = source[of_publication]
                    if word >> MEMBER_AT and brokers is None:
                        if node != origin:
                            latency[np.uint64(now - asked_ut)] += 1
                        if traced:
                            row_ut[rows] = now
                            row_event[rows] = event
                            rows += 1
                    children = (word >> CHILDREN_AT) & _CHILDREN
                    if children:
                        turn = max(now, busy_until[at_node])
                        at_latest = turn + latest_ut
                        end_ut = at_latest + (children - 1) * transmission_ut
                        if end_ut >= limit or link[-1] + _MOST_CHILDREN >= chunks:
                            return TOO_SMALL
                        last = max(last, end_ut)
                        ahead = turn - now
                        if transmission_ut != 1:
                            ahead = (ahead + transmission_ut - 1) // transmission_ut
                        queue_total[at_node] += children * ahead + (children * (children + 1) >> 1)
                        busy_until[at_node] = turn + children * transmission_ut
                        subcubes = word & _SUBCUBES
                        leaves = word >> LEAVES_AT & leaves_mask
                        while subcubes:
                            bit = subcubes & -subcubes
                            subcubes ^= bit
                            at = at_latest
                            if jitters:
                                at -= early(luck[of_publication], node ^ bit, False)
                            if leaves & bit:
                                if node ^ bit != origin:
                                    latency[np.uint64(at - asked_ut)] += 1
                                if traced:
                                    row_ut[rows] = at
                                    row_event[rows] = event ^ bit << 1
                                    rows += 1
                            else:
                                push(head, position, pool, link, at, event ^ bit << 1)
                            at_latest += transmission_ut
                    if brokers is not None:  # noqa: SIM102 (in exactly this form numba can leave it out)
                        if node < brokers:
                            broker_ut[now - asked_ut] += 1
                            turn = max(now, second_busy_until[node])
                            here = (slot >> dimension) * brokers + node
                            for index in range(first_subscriber[here], first_subscriber[here + 1]):
                                subscriber = subscribers[index]
                                if subscriber == origin:
                                    continue
                                at = turn + latest_ut
                                if at >= limit or link[-1] + 1 >= chunks:
                                    return TOO_SMALL
                                turn += transmission_ut
                                children += 1
                                if acks_queue:
                                    last = max(last, at)
                                if jitters:
                                    at -= early(luck[of_publication], subscriber, False)
                                latency[np.uint64(at - asked_ut)] += 1
                                last_hop_ut[at - now] += 1
                                if traced:
                                    row_ut[rows] = at
                                    row_event[rows] = event ^ (node ^ subscriber) << 1
                                    rows += 1
                                if acks_queue:
                                    push(head, position, pool, link, at, event ^ (node ^ subscriber) << 1)
                            second_busy_until[node] = turn
                    if not acks_queue:
                        continue
                    if children:
                        awaited[np.uint64(publication << dimension | node)] = children
                        continue
                else:
                    pair = np.uint64(publication << dimension | node)
                    awaited[pair] -= 1
                    if awaited[pair]:
                        continue
                # Everybody below has it: acknowledge to whom it came from.
                root = roots[slot >> dimension]
                if node == root:
                    continue
                parent = root ^ ((node ^ root) & (node ^ root) - 1)
                if brokers is not None:  # noqa: SIM102
                    if node >= brokers:
                        parent = node & brokers - 1
                turn = max(now, busy_until[at_node])
                busy_until[at_node] = turn + transmission_ut
                at = turn + latest_ut
                if at >= limit or link[-1] + 1 >= chunks:
                    return TOO_SMALL
                last = max(last, at)
                if jitters:
                    at -= early(luck[of_publication], parent, True)
                push(head, position, pool, link, at, (event | 1) ^ (node ^ parent) << 1)
        now += 1
