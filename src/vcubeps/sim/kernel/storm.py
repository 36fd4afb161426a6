"""VCube-PS at full speed: everyone is a member of the one topic, each node publishes at most once, no barriers.

Nothing about the trees is stored: with r = node ⊕ source, the node passes a copy on to node ⊕ 2^k for
every k below the lowest set bit of r, and its own copy came from source ⊕ (r & (r − 1)). An event is
one integer: publication, node, and whether it is an acknowledgement. The sizes of the queues are summed
once per burst of copies, and the lengths of the paths follow from the shape of the tree.
"""

from __future__ import annotations

from math import comb

import numpy as np
from numba import njit

from vcubeps.sim.kernel.copies import early, luck_of_broadcast
from vcubeps.sim.kernel.options import EVENT_LOOP
from vcubeps.sim.kernel.wheel import first_place, make_wheel, next_place, push
from vcubeps.sim.measurements import Histogram, Measurements, trimmed
from vcubeps.sim.network import Delays
from vcubeps.sim.workload import Workload

_DONE, _WHEEL_TOO_SHORT, _HISTOGRAM_TOO_SHORT = 0, 1, 2
_FIRST_SPAN_UT = 1024


def is_storm(workload: Workload) -> bool:
    """Whether this kernel can run it."""
    return (
        workload.topics == 1
        and workload.nodes > 1
        and not len(workload.change_ut)
        and not workload.answers_after
        and bool(workload.members.all())
        and len(np.unique(workload.publish_node)) == len(workload.publish_node)
    )


def run(workload: Workload, delays: Delays, seed: int, *, protocol: str = "amended") -> Measurements:
    counter = 2 if protocol == "amended" else 1  # of a publication after a subscription, as each counts
    nodes, publications = workload.nodes, len(workload.publish_ut)
    with_acks = delays.acks == "queued"
    copies = publications * (nodes - 1)
    event_bits = workload.dimension + 1 + publications.bit_length()
    luck = np.array(
        [luck_of_broadcast(seed, int(node), counter) for node in workload.publish_node]
        if delays.jitters
        else [0],
        np.uint64,
    )
    # Usually enough: a node has sent about as many copies, and acknowledgements, as there are publications.
    span = _FIRST_SPAN_UT
    while span <= delays.flight_ut + (2 if with_acks else 1) * publications * delays.transmission_ut:
        span *= 2
    while True:
        wheel = make_wheel(span, copies * (2 if with_acks else 1), np.int32 if event_bits < 31 else np.int64)
        reception_ut = np.zeros(8 * span, np.int64)
        queue_total, queue_copies = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
        status = simulate(
            workload.dimension, delays.wait_ut + delays.flight_ut, delays.transmission_ut,
            delays.jitters, luck, with_acks,
            workload.publish_ut, workload.publish_node,
            wheel.head, wheel.position, wheel.pool, wheel.link,
            np.zeros(nodes, np.int64), np.zeros((publications, nodes) if with_acks else (1, 1), np.int8),
            reception_ut, queue_total, queue_copies,
        )  # fmt: skip
        if status == _DONE:
            break
        span *= 4
    return Measurements(
        reception_ut=trimmed(reception_ut),
        delivery_ut=trimmed(reception_ut),
        path_hops=_path_hops(workload.dimension, publications),
        queue_total=queue_total,
        queue_copies=queue_copies,
        publications=publications,
        pub_copies=copies,
        ack_copies=copies,
        expected=copies,
        events=2 * copies,
    )


def _path_hops(dimension: int, publications: int) -> Histogram:
    """A node at k hops differs from the source in k bits."""
    hops = [0] + [publications * comb(dimension, k) for k in range(1, dimension + 1)]
    return np.array(hops, np.int64)


@njit(**EVENT_LOOP)
def simulate(  # type: ignore[no-untyped-def]
    dimension, flight_ut, transmission_ut, jitters, luck, with_acks,
    publish_ut, publish_node,
    head, position, pool, link,
    busy_until, awaited,
    reception_ut, queue_total, queue_copies,
):  # fmt: skip
    span = len(head)
    longest = len(reception_ut)
    node_mask = (np.int64(1) << dimension) - 1
    message_at = dimension + 1
    ack_bit = np.int64(1) << dimension
    publications = len(publish_ut)
    next_publication = np.int64(0)
    in_flight = np.int64(0)
    now = np.int64(0)
    while next_publication < publications or in_flight:
        if in_flight == 0:
            now = publish_ut[next_publication]
        bucket = np.uint64(now & (span - 1))
        place = np.int64(-1)
        while True:
            # Who does something: the source of the next publication, or whoever gets the next event.
            is_ack = False
            if next_publication < publications and publish_ut[next_publication] == now:
                message = next_publication
                next_publication += 1
                node = publish_node[np.uint64(message)]
                distance = np.int64(0)
            else:
                is_new = place < 0
                place = (
                    first_place(head, position, bucket)
                    if is_new
                    else next_place(position, link, bucket, place)
                )
                if place == 0:
                    break
                event = np.int64(pool[np.uint64(place)])
                in_flight -= 1
                message = event >> message_at
                node = event & node_mask
                distance = node ^ publish_node[np.uint64(message)]
                if event & ack_bit:
                    awaited[np.uint64(message), np.uint64(node)] -= 1
                    if awaited[np.uint64(message), np.uint64(node)] or distance == 0:
                        continue
                    is_ack = True
                else:
                    latency = now - publish_ut[np.uint64(message)]
                    if latency >= longest:
                        return _HISTOGRAM_TOO_SHORT
                    reception_ut[np.uint64(latency)] += 1
                    if distance & 1:
                        if not with_acks:
                            continue
                        is_ack = True
            # It sends: an acknowledgement to its parent, or a copy to each child.
            turn = max(now, busy_until[np.uint64(node)])
            backlog = turn - now
            bit = np.int64(1)
            sent = np.int64(0)
            carried = message << message_at
            while True:
                if is_ack:
                    destination = node ^ distance ^ (distance & (distance - 1))
                    event = carried | ack_bit | destination
                else:
                    destination = node ^ bit
                    event = carried | destination
                arrival = turn + flight_ut
                if jitters:
                    arrival -= early(luck[np.uint64(message)], destination, is_ack)
                if arrival - now >= span:
                    return _WHEEL_TOO_SHORT
                if bit == 1 and not with_acks:
                    # Its first child passes nothing on: what happens there is known now.
                    latency = arrival - publish_ut[np.uint64(message)]
                    if latency >= longest:
                        return _HISTOGRAM_TOO_SHORT
                    reception_ut[np.uint64(latency)] += 1
                    turn += transmission_ut
                    sent += 1
                    bit <<= 1
                    if distance & bit or bit > node_mask:
                        break
                    continue
                push(head, position, pool, link, arrival, event)
                turn += transmission_ut
                sent += 1
                bit <<= 1
                if is_ack or distance & bit or bit > node_mask:
                    break
            busy_until[np.uint64(node)] = turn
            in_flight += sent if with_acks else sent - 1
            if is_ack:
                continue
            if transmission_ut != 1:
                backlog = (backlog + transmission_ut - 1) // transmission_ut
            queue_copies[np.uint64(node)] += sent
            queue_total[np.uint64(node)] += sent * backlog + (sent * (sent + 1) >> 1)
            if with_acks:
                awaited[np.uint64(message), np.uint64(node)] = sent
        now += 1
    return _DONE
