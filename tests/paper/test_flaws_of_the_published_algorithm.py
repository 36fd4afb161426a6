"""Where Algorithms 1 and 2 break the paper's own claims: one minimal trace per flaw, on both algorithms.

`trace_x` scripts a run and returns what shows the flaw; the test says what the published algorithm makes of
it and what the amended one does. Then the whole run is judged from outside, from what the nodes were told
and what they delivered (`faults`), never from the barriers that the algorithms keep for themselves.

All links are FIFO in all traces, which is more than the paper's model promises. The slips in lines 48 and 55–59
have no trace: read to the letter they do not run at all, so `PublishedPeer` reads them charitably.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from vcubeps.protocol.errors import UsageError
from vcubeps.protocol.outputs import Deliver, Received, Started, Subscribed
from vcubeps.protocol.peer import Peer
from vcubeps.sim.published import PublishedPeer
from wire import Call, Wire

BLOCKED = "a received publication is never delivered"
UNFINISHED = "a broadcast is never acknowledged"
LOST = "a subscriber misses a publication"
CAUSAL_ORDER = "a publication is delivered after one that depends on it"
FIFO_RECEPTION = "publications of one source are received out of order"
WRONG_VIEW = "a view differs from who is subscribed"
AFTER_LEAVING = "a publication is delivered after unsubscribe"

T = "t"


@pytest.fixture
def wire(request: pytest.FixtureRequest) -> Wire:
    peer, size = request.param
    return Wire(peer, range(size))


def outcomes(
    size: int, *, published: Any, amended: Any, but: set[str]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test on N = `size` nodes of either algorithm; the published one shows the faults `but`."""
    return pytest.mark.parametrize(
        ("wire", "shown", "found"),
        [
            pytest.param((PublishedPeer, size), published, but, id="published"),
            pytest.param((Peer, size), amended, set(), id="amended"),
        ],
        indirect=["wire"],
    )


def subscribe_all(wire: Wire, *nodes: int) -> None:
    for node in nodes:
        wire.subscribe(node, T)
        wire.run()


# a: late joiners


def trace_a(wire: Wire) -> Any:
    """2 joins after m; m2, which depends on m, is the first it receives."""
    subscribe_all(wire, 0, 1)
    wire.publish(0, T, b"m")
    wire.run()
    subscribe_all(wire, 2)
    wire.publish(1, T, b"m2")
    wire.run()
    return wire.delivered[2]


@outcomes(4, published=[], amended=[(1, b"m2")], but={BLOCKED})
def test_a_late_joiner_waits_for_ever_for_what_it_will_never_receive(
    wire: Wire, shown: Any, found: set[str]
) -> None:
    """Against theorem 2: node 2 has no first_rec of 0, so line 92 never holds."""
    assert trace_a(wire) == shown
    assert faults(wire) == found


def trace_a_source_gone(wire: Wire) -> Any:
    """As trace a, but the source of m has left before 2 joins."""
    subscribe_all(wire, 0, 1)
    wire.publish(0, T, b"m")
    wire.run()
    wire.unsubscribe(0, T)
    wire.run()
    subscribe_all(wire, 2)
    wire.publish(1, T, b"m2")
    wire.run()
    return wire.delivered[2]


@outcomes(4, published=[], amended=[(1, b"m2")], but={BLOCKED})
def test_a_late_joiner_waits_for_ever_for_a_source_that_has_left(
    wire: Wire, shown: Any, found: set[str]
) -> None:
    assert trace_a_source_gone(wire) == shown
    assert faults(wire) == found


# b: forwarding by a node with another view than the source's


def trace_b0(wire: Wire) -> Any:
    """2 joins and its SUB is slow to 3; 0 knows 2 already and publishes through it."""
    subscribe_all(wire, 0, 3)
    wire.hold(2, 3)
    subscribe_all(wire, 2)
    wire.publish(0, T, b"m")
    wire.run()
    wire.release(2, 3)
    wire.run()
    return wire.delivered[3]


@outcomes(4, published=[], amended=[(0, b"m")], but={LOST})
def test_b0_stable_subscriber_loses_a_publication_to_a_joining_forwarder(
    wire: Wire, shown: Any, found: set[str]
) -> None:
    """Lines 44–49: 2 does not know 3 yet and acknowledges as a leaf."""
    assert trace_b0(wire) == shown
    assert faults(wire) == found


def trace_b1(wire: Wire) -> Any:
    """2 leaves and its UNS is slow to 0; 3 joins meanwhile; 0 publishes through 2."""
    subscribe_all(wire, 0, 2)
    wire.hold(2, 0)
    wire.unsubscribe(2, T)
    wire.run()
    subscribe_all(wire, 3)
    assert (3, T) in wire.subscribed
    wire.publish(0, T, b"m")
    wire.run()
    wire.release(2, 0)
    wire.run()
    return wire.delivered[3]


@outcomes(4, published=[], amended=[(0, b"m")], but={LOST})
def test_b1_new_subscriber_loses_a_publication_to_a_leaving_forwarder(
    wire: Wire, shown: Any, found: set[str]
) -> None:
    """Line 62: a node that has left ignores the SUB, though publications still go through it."""
    assert trace_b1(wire) == shown
    assert faults(wire) == found


def trace_b2(wire: Wire) -> Any:
    """1 subscribes and unsubscribes before its SUB is acknowledged."""
    subscribe_all(wire, 0)
    wire.hold(0, 1)
    subscribe_all(wire, 1)
    wire.unsubscribe(1, T)
    wire.release(0, 1)
    wire.run()
    return members(wire, 0)


@outcomes(2, published={0, 1}, amended={0}, but={WRONG_VIEW})
def test_b2_short_subscription_stays_in_the_views_of_others_for_ever(
    wire: Wire, shown: Any, found: set[str]
) -> None:
    """Against lemma 4. Line 62 discards the acknowledgement's view, so line 26 finds nobody to tell."""
    assert trace_b2(wire) == shown
    assert faults(wire) == found


def trace_b3(wire: Wire) -> Any:
    """3 joins and its SUB is slow to 2; 0's UNS goes through 2."""
    subscribe_all(wire, 0, 2)
    wire.hold(3, 2)
    subscribe_all(wire, 3)
    wire.unsubscribe(0, T)
    wire.run()
    wire.release(3, 2)
    wire.run()
    return members(wire, 3)


@outcomes(4, published={0, 2, 3}, amended={2, 3}, but={WRONG_VIEW})
def test_b3_leave_does_not_reach_a_joiner_that_the_forwarder_does_not_know(
    wire: Wire, shown: Any, found: set[str]
) -> None:
    """Against lemma 4: line 44 at node 2."""
    assert trace_b3(wire) == shown
    assert faults(wire) == found


# c: the dependency on a publication that stopped half-way


def trace_c(wire: Wire) -> Any:
    """SUB(3) has reached 0 and 1, not 2, through which 0 publishes m; then 1 publishes m2."""
    subscribe_all(wire, 0, 1, 2)
    wire.hold(3, 2)
    subscribe_all(wire, 3)
    wire.publish(0, T, b"m")
    wire.run()
    wire.release(3, 2)
    wire.run()
    assert (3, T) in wire.subscribed
    wire.publish(1, T, b"m2")
    wire.run()
    return wire.delivered[3]


@outcomes(4, published=[], amended=[(0, b"m"), (1, b"m2")], but={BLOCKED})
def test_c_publication_that_a_forwarder_stopped_blocks_what_depends_on_it(
    wire: Wire, shown: Any, found: set[str]
) -> None:
    """3 was in the source's view when m was published and never gets m, nor m2, which waits for m."""
    assert trace_c(wire) == shown
    assert faults(wire) == found


# d: leaving and subscribing again


def trace_d1(wire: Wire) -> Any:
    """0 subscribes again while a publication and the UNS are still queued."""
    subscribe_all(wire, 0, 1)
    wire.hold(0, 1)
    wire.publish(0, T, b"m1")
    wire.publish(0, T, b"m2")
    wire.unsubscribe(0, T)
    wire.subscribe(0, T)
    wire.release(0, 1)
    wire.run()
    return wire.delivered[1]


@outcomes(2, published=[(0, b"m1")], amended=[(0, b"m1"), (0, b"m2")], but={LOST})
def test_d1_queued_publication_goes_to_nobody_after_a_rejoin(wire: Wire, shown: Any, found: set[str]) -> None:
    """Algorithm 1, line 6 empties the view that line 26 needs for what is still in br_queue."""
    assert trace_d1(wire) == shown
    assert faults(wire) == found


def trace_d2(wire: Wire) -> Any:
    """0 leaves and rejoins; its UNS (0→3) is slow and its SUB (0→2→3) overtakes it."""
    subscribe_all(wire, 0, 3)
    wire.publish(0, T, b"m1")
    wire.run()
    wire.hold(0, 3)
    wire.unsubscribe(0, T)
    subscribe_all(wire, 0)
    wire.release(0, 3)
    wire.run()
    seen = members(wire, 0)
    wire.publish(0, T, b"m2")
    wire.run()
    return seen, wire.delivered[3]


@outcomes(
    4,
    published=({0}, [(0, b"m1")]),
    amended=({0, 3}, [(0, b"m1"), (0, b"m2")]),
    but={WRONG_VIEW, LOST},
)
def test_d2_member_stays_hidden_from_a_node_whose_sub_overtook_its_uns(
    wire: Wire, shown: Any, found: set[str]
) -> None:
    """Line 11 starts a second task; line 96 silences 3, whose first_rec of 0 line 74 has not removed yet."""
    assert trace_d2(wire) == shown
    assert faults(wire) == found


def trace_d3(wire: Wire) -> Any:
    """0 leaves, rejoins and publishes m2 while its m1 is slow on 5→7; m2 goes 0→7."""
    subscribe_all(wire, 0, 5, 7)
    wire.hold(5, 7)
    wire.publish(0, T, b"m1")
    wire.run()
    wire.unsubscribe(0, T)
    subscribe_all(wire, 0)
    wire.publish_when_allowed(0, T, b"m2")
    wire.run()
    wire.release(5, 7)
    wire.run()
    return wire.delivered[7]


@outcomes(
    8,
    published=[(0, b"m2"), (0, b"m1")],
    amended=[(0, b"m1"), (0, b"m2")],
    but={FIFO_RECEPTION, CAUSAL_ORDER, WRONG_VIEW},
)
def test_d3_two_tasks_have_two_publications_of_one_source_under_way(
    wire: Wire, shown: Any, found: set[str]
) -> None:
    """Against section 3.2.2: the second task does not wait for the acknowledgements of the first.

    Line 96 hides 5, which has m1 already, from 0: that is why m2 takes another path.
    """
    assert trace_d3(wire) == shown
    assert faults(wire) == found


def trace_d4(wire: Wire) -> Any:
    """0 leaves while its second publication is queued."""
    subscribe_all(wire, 0, 1)
    wire.hold(0, 1)
    wire.publish(0, T, b"m1")
    wire.publish(0, T, b"m2")
    wire.unsubscribe(0, T)
    wire.release(0, 1)
    wire.run()
    return wire.delivered[0], wire.delivered[1]


@outcomes(
    2,
    published=([(0, b"m1"), (0, b"m2")], [(0, b"m1"), (0, b"m2")]),
    amended=([(0, b"m1")], [(0, b"m1"), (0, b"m2")]),
    but={AFTER_LEAVING},
)
def test_d4_own_queued_publication_is_delivered_after_unsubscribe_returned(
    wire: Wire, shown: Any, found: set[str]
) -> None:
    """Against section 3.3, "it no longer delivers messages related to the topic": line 19 does not ask."""
    assert trace_d4(wire) == shown
    assert faults(wire) == found


def trace_d5(wire: Wire) -> Any:
    """y is slow on 1→3; 0 has it, publishes m, leaves, rejoins and publishes m8."""
    subscribe_all(wire, 0, 1, 2, 3)
    wire.hold(1, 3)
    wire.publish(1, T, b"y")
    wire.run()
    wire.publish(0, T, b"m")
    wire.run()
    wire.unsubscribe(0, T)
    wire.run()
    subscribe_all(wire, 0)
    wire.publish_when_allowed(0, T, b"m8")
    wire.run()
    wire.release(1, 3)
    wire.run()
    return wire.delivered[2]


@outcomes(
    4,
    published=[(0, b"m8"), (1, b"y"), (0, b"m")],
    amended=[(1, b"y"), (0, b"m"), (0, b"m8")],
    but={CAUSAL_ORDER},
)
def test_d5_causal_order_breaks_when_a_source_rejoins(wire: Wire, shown: Any, found: set[str]) -> None:
    """Against theorem 1: line 74 forgets the first_rec of 0, and m8 becomes its first though m is pending."""
    assert trace_d5(wire) == shown
    assert faults(wire) == found


def trace_d6(wire: Wire) -> Any:
    """0 rejoins while an acknowledgement of its UNS is slow on 7→0; x is pending at 0 when it comes."""
    subscribe_all(wire, 0, 2, 3, 7)
    wire.hold(7, 0)
    wire.unsubscribe(0, T)
    subscribe_all(wire, 0)
    rejoined_early = (0, T) in wire.subscribed
    if not rejoined_early:
        wire.release(7, 0)
        wire.run()
    wire.hold(2, 0)
    wire.publish(2, T, b"y")
    wire.run()
    wire.publish(3, T, b"x")
    wire.run()
    if rejoined_early:
        wire.release(7, 0)
        wire.run()
    wire.release(2, 0)
    wire.run()
    return wire.delivered[0]


@outcomes(8, published=[(2, b"y")], amended=[(2, b"y"), (3, b"x")], but={LOST})
def test_d6_end_of_the_old_leave_wipes_what_the_new_subscription_received(
    wire: Wire, shown: Any, found: set[str]
) -> None:
    """Lines 33–34 run when the UNS is acknowledged, whatever has been subscribed since."""
    assert trace_d6(wire) == shown
    assert faults(wire) == found


# e: what the slips mean if they are read as printed


def trace_e(wire: Wire) -> list[int]:
    """Six nodes publish, each after the one before; then a seventh. Returns the barrier sizes."""
    subscribe_all(wire, *range(8))
    for node in range(7):
        wire.publish(node, T, b"%d" % node)
        wire.run()
    publications = {(node, wire.started[node][0].items[0][0]) for node in range(7)}
    return [len(wire.started[node][0].barrier.items() & publications) for node in range(7)]


@pytest.mark.parametrize(
    ("peer", "sizes"),
    [
        pytest.param(
            partial(PublishedPeer, prune=False), [0, 1, 2, 3, 4, 5, 6], id="published, by reference"
        ),
        pytest.param(PublishedPeer, [0, 1, 1, 1, 1, 1, 1], id="published"),
        pytest.param(Peer, [0, 1, 1, 1, 1, 1, 1], id="amended"),
    ],
)
def test_e_barriers_are_never_pruned_if_line_93_works_on_the_message(
    peer: Callable[..., Any], sizes: list[int]
) -> None:
    """By reference, the barrier is empty when line 89 subtracts it: 6 entries instead of 1."""
    wire = Wire(peer, range(8))
    assert trace_e(wire) == sizes
    assert faults(wire) == set()


# h: joins only


def trace_h(wire: Wire) -> Any:
    """m is slow to 1; 2 has it and publishes m′; 0 joins; 2 publishes m″; then m reaches 1."""
    subscribe_all(wire, 1, 2, 3)
    wire.hold(3, 1)
    wire.publish(3, T, b"m")
    wire.run()
    wire.publish(2, T, b"m'")
    wire.run()
    subscribe_all(wire, 0)
    assert (0, T) in wire.subscribed
    wire.publish(2, T, b"m''")
    wire.run()
    wire.release(3, 1)
    wire.run()
    return wire.delivered[0]


@outcomes(4, published=[(2, b"m''"), (3, b"m")], amended=[(2, b"m''")], but={CAUSAL_ORDER})
def test_h_causal_order_breaks_with_joins_only(wire: Wire, shown: Any, found: set[str]) -> None:
    """Against theorem 1: direct dependencies lose the past of m′, which the joiner never gets."""
    assert trace_h(wire) == shown
    assert faults(wire) == found


# The judges


def faults(wire: Wire) -> set[str]:
    """What is wrong with a run that has come to rest."""
    assert not wire.in_flight, "let the run come to rest before judging it"
    judges = {
        BLOCKED: blocked,
        UNFINISHED: unfinished,
        LOST: lost,
        CAUSAL_ORDER: causally_disordered,
        FIFO_RECEPTION: received_out_of_order,
        WRONG_VIEW: wrong_views,
        AFTER_LEAVING: delivered_after_leaving,
    }
    return {fault for fault, judge in judges.items() if judge(wire)}


def members(wire: Wire, node: int) -> set[int]:
    return set(wire.peers[node].members(T))


def blocked(wire: Wire) -> set[int]:
    """Nodes that hold back a publication though nothing is in flight any more."""
    return {node for node, peer in wire.peers.items() if peer.footprint()["pending"]}


def unfinished(wire: Wire) -> set[int]:
    """Nodes that wait for anything else though nothing is in flight any more."""
    return {
        node
        for node, peer in wire.peers.items()
        if any(count for name, count in peer.footprint().items() if name != "pending")
    }


def lost(wire: Wire) -> set[tuple[int, tuple[int, int]]]:
    """(node, publication) that a node subscribed from its start to the end of the run neither has nor holds."""
    audiences: dict[tuple[int, int], set[int]] = {}
    subscribed: set[int] = set()
    for node, event in wire.log:
        match event:
            case Subscribed():
                subscribed.add(node)
            case Call("unsubscribe"):
                subscribed.discard(node)
                for audience in audiences.values():
                    audience.discard(node)
            case Started():
                audiences |= {(node, counter): set(subscribed) for counter, _ in event.items}
    delivered = {
        (node, (event.source, counter))
        for node, event in wire.log
        if isinstance(event, Deliver)
        for counter, _ in event.items
    }
    held_back = {
        (node, (event.source, counter))
        for node, event in wire.log
        if isinstance(event, Received) and node in blocked(wire)
        for counter in event.counters
    }
    expected = {(node, publication) for publication, audience in audiences.items() for node in audience}
    return expected - delivered - held_back


def causally_disordered(wire: Wire) -> list[tuple[int, tuple[int, int]]]:
    """(node, publication) delivered after something that depends on it, directly or not, or delivered twice."""
    past_of: dict[tuple[int, int], set[tuple[int, int]]] = {}
    past_at: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)
    disordered = []
    for node, event in wire.log:
        if isinstance(event, Started):
            before = set(past_at[node])
            for counter, _ in event.items:
                past_of[node, counter] = set(before)
                before.add((node, counter))
        elif isinstance(event, Deliver):
            for counter, _ in event.items:
                publication = (event.source, counter)
                if publication in past_at[node]:
                    disordered.append((node, publication))
                past_at[node] |= past_of[publication] | {publication}
    return disordered


def received_out_of_order(wire: Wire) -> set[tuple[int, int]]:
    """(node, source) such that the node received the source's publications in another order than theirs."""
    counters: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for node in wire.nodes:
        for source, counter in wire.received[node]:
            counters[node, source].append(counter)
    return {pair for pair, seen in counters.items() if seen != sorted(set(seen))}


def wrong_views(wire: Wire) -> set[int]:
    """Nodes whose view is not who is subscribed; who is not subscribed has none."""
    last_call = {node: event.name for node, event in wire.log if isinstance(event, Call)}
    subscribed = {node for node, name in last_call.items() if name == "subscribe"}
    return {
        node for node in wire.peers if members(wire, node) != (subscribed if node in subscribed else set())
    }


def delivered_after_leaving(wire: Wire) -> list[tuple[int, int]]:
    """(node, source) of what was delivered between a node's unsubscribe and its next subscribe."""
    outside: set[int] = set(wire.nodes)
    late = []
    for node, event in wire.log:
        match event:
            case Call("subscribe"):
                outside.discard(node)
            case Call("unsubscribe"):
                outside.add(node)
            case Deliver() if node in outside:
                late.append((node, event.source))
    return late


def test_judges_find_nothing_in_a_run_without_a_fault() -> None:
    wire = Wire(PublishedPeer, range(4))
    subscribe_all(wire, *range(4))
    wire.publish(0, T, b"m")
    wire.publish(3, T, b"m2")
    wire.run()
    wire.unsubscribe(1, T)
    wire.run()
    assert faults(wire) == set()
    with pytest.raises(UsageError):
        wire.publish(1, T, b"m3")
