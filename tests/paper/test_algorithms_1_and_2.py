"""Algorithms 1 and 2, line group by line group, on the published peer; figures 2 and 3 on both algorithms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from vcubeps.protocol.batches import Batch
from vcubeps.protocol.errors import ProtocolViolation, UsageError
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
from vcubeps.protocol.peer import Peer
from vcubeps.sim.published import Ack, Entry, Message, Pub, PublishedPeer, Sub, Uns, update
from wire import Wire

T = "t"
BOTH = pytest.mark.parametrize("peer", [PublishedPeer, Peer], ids=["published", "amended"])


def subscriber(node: int, size: int, *others: int, prune: bool = True) -> PublishedPeer:
    """A peer with an acknowledged subscription (counter 0) whose view holds `others` (counter 0 each)."""
    peer = PublishedPeer(node, range(size), prune=prune)
    report = frozenset(Entry(other, "SUB", 0) for other in others)
    for send in sends(peer.subscribe(T)):
        peer.receive(send.destination, Ack(T, node, 0, report))
    return peer


def sends(outputs: list[Output]) -> list[Send]:
    return [output for output in outputs if isinstance(output, Send)]


def sent(outputs: list[Output]) -> list[tuple[int, Any]]:
    return [(send.destination, send.message) for send in sends(outputs)]


def deliveries(outputs: list[Output]) -> list[tuple[int, int]]:
    return [(o.source, counter) for o in outputs if isinstance(o, Deliver) for counter, _ in o.items]


def pub(source: int, counter: int, *barrier: tuple[int, int]) -> Pub:
    return Pub(T, source, counter, b"%d.%d" % (source, counter), frozenset(barrier))


# Algorithm 1


def test_algorithm_1_lines_4_to_9_subscribe_starts_a_view_of_oneself_and_tells_all_nodes() -> None:
    peer = PublishedPeer(0, range(8))

    outputs = peer.subscribe(T)

    assert peer.members(T) == {0: 0}
    assert sent(outputs) == [(child, Sub(T, 0, 0)) for child in (1, 2, 4)]


def test_algorithm_1_line_6_subscribing_again_starts_from_an_empty_view() -> None:
    peer = subscriber(0, 4, 2)
    for send in sends(peer.unsubscribe(T)):
        peer.receive(send.destination, Ack(T, 0, 1))

    peer.subscribe(T)

    assert peer.members(T) == {0: 2}


def test_algorithm_1_line_9_a_second_subscribe_is_refused() -> None:
    peer = subscriber(0, 4)

    with pytest.raises(UsageError, match="unsubscribe first"):
        peer.subscribe(T)
    assert peer.members(T) == {0: 0}


def test_algorithm_1_lines_10_to_14_unsubscribe_leaves_the_view_and_tells_its_members() -> None:
    peer = subscriber(0, 8, 3, 4)

    outputs = peer.unsubscribe(T)

    assert peer.members(T) == {}
    assert sent(outputs) == [(3, Uns(T, 0, 1)), (4, Uns(T, 0, 1))]


def test_algorithm_1_line_15_unsubscribe_without_a_subscription_is_refused() -> None:
    with pytest.raises(UsageError, match="subscribe first"):
        PublishedPeer(0, range(4)).unsubscribe(T)


def test_algorithm_1_lines_16_to_20_only_subscribers_publish() -> None:
    with pytest.raises(UsageError, match="subscribe first"):
        PublishedPeer(0, range(4)).publish(T, b"m")

    peer = subscriber(0, 4)
    assert Accepted(T, 1) in peer.publish(T, b"m")

    peer.unsubscribe(T)
    with pytest.raises(UsageError, match="subscribe first"):
        peer.publish(T, b"m")


# Algorithm 2: broadcasts of the node itself


def test_algorithm_2_lines_5_to_9_every_operation_on_any_topic_takes_the_next_counter() -> None:
    peer = PublishedPeer(0, [0, 1])
    peer.subscribe(T)
    peer.receive(1, Ack(T, 0, 0, frozenset({Entry(1, "SUB", 0)})))

    messages = [
        *sent(peer.subscribe("other")),
        *sent(peer.publish(T, b"m")),
        *sent(peer.receive(1, Ack(T, 0, 2))),
        *sent(peer.unsubscribe(T)),
    ]

    assert messages == [(1, Sub("other", 0, 1)), (1, Pub(T, 0, 2, b"m")), (1, Uns(T, 0, 3))]


def test_algorithm_2_lines_10_to_12_subscribing_again_adds_a_task_to_one_that_still_waits() -> None:
    peer = subscriber(0, 2, 1)
    assert sent(peer.unsubscribe(T)) == [(1, Uns(T, 0, 1))]

    outputs = peer.subscribe(T)

    assert sent(outputs) == [(1, Sub(T, 0, 2))]
    assert peer.footprint() == {"acks": 2, "broadcasts": 2, "queued": 0, "pending": 0}


def test_algorithm_2_line_15_two_tasks_take_from_the_same_queue() -> None:
    peer = subscriber(0, 2, 1)
    peer.unsubscribe(T)
    peer.subscribe(T)
    peer.publish(T, b"m")
    assert peer.footprint()["queued"] == 1

    outputs = peer.receive(1, Ack(T, 0, 1))

    # The task of the UNS goes on with the publication while the SUB of the other is not acknowledged.
    assert deliveries(outputs) == [(0, 3)]
    assert peer.footprint() == {"acks": 1, "broadcasts": 1, "queued": 0, "pending": 0}


def test_algorithm_2_lines_13_to_22_own_publication_is_delivered_and_becomes_the_barrier() -> None:
    peer = subscriber(0, 2, 1)
    peer.receive(1, pub(1, 1))

    first = peer.publish(T, b"m")
    peer.receive(1, Ack(T, 0, 1))
    second = peer.publish(T, b"m2")

    batch = Batch(1, (b"m",))
    assert first == [
        Accepted(T, 1),
        Started(T, batch, {1: 1}, ()),
        Deliver(T, 0, batch, {1: 1}),
        Send(1, Pub(T, 0, 1, b"m", frozenset({(1, 1)}))),
    ]
    assert Started(T, Batch(2, (b"m2",)), {0: 1}, ()) in second


def test_algorithm_2_lines_17_and_18_first_own_publication_is_in_first_rec() -> None:
    peer = subscriber(0, 2, 1)
    peer.publish(T, b"m")
    peer.unsubscribe(T)

    assert "first_rec" in peer.retained(T)


def test_algorithm_2_line_20_own_publication_counts_as_delivered() -> None:
    peer = subscriber(0, 2, 1)
    peer.publish(T, b"m")
    peer.receive(1, Ack(T, 0, 1))
    peer.publish(T, b"m2")

    assert deliveries(peer.receive(1, pub(1, 1, (0, 2)))) == [(1, 1)]


def test_algorithm_2_lines_23_to_28_a_sub_goes_to_all_nodes_and_a_pub_to_the_view() -> None:
    peer = subscriber(0, 8, 3, 5, 7)

    assert [send.destination for send in sends(peer.publish(T, b"m"))] == [3, 5]
    assert [send.destination for send in sends(peer.subscribe("other"))] == [1, 2, 4]


def test_algorithm_2_lines_29_to_31_next_broadcast_waits_for_every_acknowledgement() -> None:
    peer = subscriber(0, 4, 1, 2)
    peer.publish(T, b"m")

    assert sent(peer.publish(T, b"m2")) == []
    assert sent(peer.receive(1, Ack(T, 0, 1))) == []
    outputs = peer.receive(2, Ack(T, 0, 1))

    assert outputs[0] == Acknowledged(T, 1)
    assert [send.destination for send in sends(outputs)] == [1, 2]
    assert peer.footprint() == {"acks": 1, "broadcasts": 1, "queued": 0, "pending": 0}


def test_algorithm_2_line_31_broadcast_without_children_is_over_at_once() -> None:
    outputs = subscriber(0, 4).publish(T, b"m")

    assert Acknowledged(T, 1) in outputs
    assert sent(outputs) == []


def test_algorithm_2_line_31_topics_do_not_wait_for_each_other() -> None:
    peer = subscriber(0, 2, 1)
    peer.publish(T, b"m")

    assert sent(peer.subscribe("other")) == [(1, Sub("other", 0, 2))]


def test_algorithm_2_line_31_subscription_is_in_effect_when_all_nodes_have_acknowledged_it() -> None:
    peer = PublishedPeer(0, range(4))
    peer.subscribe(T)

    assert Subscribed(T, 0) not in peer.receive(1, Ack(T, 0, 0))
    assert Subscribed(T, 0) in peer.receive(2, Ack(T, 0, 0))


def test_algorithm_2_line_31_subscription_ended_meanwhile_does_not_come_into_effect() -> None:
    peer = PublishedPeer(0, range(2))
    peer.subscribe(T)
    peer.unsubscribe(T)

    outputs = peer.receive(1, Ack(T, 0, 0))

    assert outputs == [Unsubscribed(T)]


def test_algorithm_2_lines_32_to_36_acknowledged_leave_drops_what_was_pending_and_ends_the_task() -> None:
    peer = subscriber(0, 2, 1)
    peer.receive(1, pub(1, 2, (0, 9)))
    peer.unsubscribe(T)
    assert peer.retained(T) == {"view", "pending", "first_rec", "tasks"}

    outputs = peer.receive(1, Ack(T, 0, 1))

    assert outputs == [Unsubscribed(T)]
    assert peer.footprint() == {"acks": 0, "broadcasts": 0, "queued": 0, "pending": 0}
    assert peer.retained(T) == {"view"}  # no line clears it


def test_algorithm_2_lines_35_and_36_task_goes_on_if_the_queue_is_not_empty() -> None:
    peer = subscriber(0, 2, 1)
    peer.publish(T, b"m")
    peer.unsubscribe(T)
    peer.subscribe(T)  # its task ends the queued UNS, which goes to nobody, and takes the SUB
    peer.receive(1, Ack(T, 0, 1))
    peer.receive(1, Ack(T, 0, 3, frozenset({Entry(1, "SUB", 0)})))

    outputs = [*peer.publish(T, b"m2"), *peer.publish(T, b"m3")]

    assert [message.payload for _, message in sent(outputs)] == [b"m2", b"m3"]  # two tasks, two at a time


# Algorithm 2: what others send


@pytest.mark.parametrize(("sender", "destinations"), [(1, []), (3, [1]), (2, [1]), (7, [1, 2]), (4, [1, 2])])
def test_algorithm_2_lines_41_and_42_a_sub_is_passed_on_to_the_clusters_below_the_senders(
    sender: int, destinations: list[int]
) -> None:
    message = Sub(T, sender, 0)
    passed_on: list[tuple[int, Message]] = [(child, message) for child in destinations]

    outputs = PublishedPeer(0, range(8)).receive(sender, message)

    assert sent(outputs) == (passed_on or [(sender, Ack(T, sender, 0))])


@pytest.mark.parametrize("message", [Pub(T, 4, 1, b"m"), Uns(T, 4, 1)])
def test_algorithm_2_lines_43_to_53_others_are_passed_on_to_members_only(message: Message) -> None:
    peer = subscriber(0, 8, 3, 4, 5)

    assert sent(peer.receive(4, message)) == [(3, message)]
    assert peer.footprint()["acks"] == 1


def test_algorithm_2_lines_45_to_49_a_leaf_acknowledges_at_once_and_keeps_the_payload() -> None:
    peer = subscriber(0, 2)

    outputs = peer.receive(1, pub(1, 1))

    assert sent(outputs) == [(1, Ack(T, 1, 1, frozenset({Entry(0, "SUB", 0)})))]
    assert Deliver(T, 1, Batch(1, (b"1.1",)), {}) in outputs


def test_algorithm_2_lines_54_to_61_acknowledgement_goes_up_when_all_children_have_acknowledged() -> None:
    peer = PublishedPeer(0, range(8))
    peer.receive(4, Sub(T, 4, 7))
    one, three = Entry(1, "SUB", 5), Entry(3, "SUB", 6)

    first = peer.receive(1, Ack(T, 4, 7, frozenset({one})))
    second = peer.receive(2, Ack(T, 4, 7, frozenset({three})))

    assert sent(first) == []
    assert sent(second) == [(4, Ack(T, 4, 7, frozenset({one, three})))]
    assert peer.footprint()["acks"] == 0


def test_algorithm_2_line_55_acknowledgement_of_nothing_is_a_violation() -> None:
    peer = subscriber(0, 4)

    with pytest.raises(ProtocolViolation, match="which awaits none") as caught:
        peer.receive(2, Ack(T, 0, 9))
    assert caught.value.sender == 2


def test_algorithm_2_line_62_a_node_that_is_not_subscribed_only_passes_on() -> None:
    peer = PublishedPeer(0, range(4))

    outputs = [*peer.receive(2, pub(2, 1)), *peer.receive(1, Sub(T, 1, 0))]

    assert all(isinstance(output, Send) for output in outputs)
    assert peer.members(T) == {}
    assert peer.retained(T) == set()


def test_algorithm_2_lines_63_to_68_a_subscriber_receives_and_delivers() -> None:
    outputs = subscriber(0, 2).receive(1, pub(1, 1))

    assert outputs[1:] == [Received(T, 1, Batch(1, (b"1.1",))), Deliver(T, 1, Batch(1, (b"1.1",)), {})]


def test_algorithm_2_lines_63_to_68_what_has_to_wait_is_not_announced_as_delivered_at_once() -> None:
    outputs = subscriber(0, 4).receive(1, pub(1, 3, (3, 99)))

    assert outputs[-1] == Received(T, 1, Batch(3, (b"1.3",)), at_once=False)


def test_algorithm_2_lines_64_and_65_only_the_first_reception_from_a_source_is_noted() -> None:
    peer = subscriber(0, 4)
    peer.receive(1, pub(1, 3, (3, 99)))
    peer.receive(1, pub(1, 5, (3, 99)))

    assert deliveries(peer.receive(2, pub(2, 1, (1, 2)))) == [(2, 1)]
    assert deliveries(peer.receive(2, pub(2, 2, (1, 4)))) == []


def test_algorithm_2_lines_69_and_70_acknowledgements_tell_every_subscriber_on_their_way() -> None:
    peer = subscriber(0, 4)
    peer.receive(2, Sub(T, 2, 0))

    outputs = peer.receive(1, Ack(T, 2, 0, frozenset({Entry(1, "SUB", 4)})))

    assert MemberJoined(T, 1) in outputs
    assert peer.members(T) == {0: 0, 1: 4, 2: 0}


def test_algorithm_2_lines_71_to_74_sub_and_uns_change_the_view() -> None:
    peer = subscriber(0, 2)

    assert MemberJoined(T, 1) in peer.receive(1, Sub(T, 1, 3))
    assert peer.members(T) == {0: 0, 1: 3}
    assert MemberLeft(T, 1) in peer.receive(1, Uns(T, 1, 4))
    assert peer.members(T) == {0: 0}


def test_algorithm_2_line_72_nothing_is_sent_any_more_to_who_has_left() -> None:
    peer = subscriber(0, 4, 1, 2)
    peer.receive(1, Uns(T, 1, 1))

    assert [send.destination for send in sends(peer.publish(T, b"m"))] == [2]


def test_algorithm_2_line_74_a_leave_forgets_the_first_reception() -> None:
    peer = subscriber(0, 2, 1)
    itself = frozenset({Entry(0, "SUB", 0)})
    assert sent(peer.receive(1, pub(1, 1))) == [(1, Ack(T, 1, 1, itself))]
    assert sent(peer.receive(1, pub(1, 2))) == [(1, Ack(T, 1, 2))]

    peer.receive(1, Uns(T, 1, 3))

    assert sent(peer.receive(1, Sub(T, 1, 4))) == [(1, Ack(T, 1, 4, itself))]


@pytest.mark.parametrize(
    ("news", "kept"),
    [
        pytest.param(Entry(1, "UNS", 6), Entry(1, "UNS", 6), id="newer (lines 78-79)"),
        pytest.param(Entry(1, "UNS", 4), Entry(1, "SUB", 5), id="older (lines 80-81)"),
        pytest.param(Entry(1, "UNS", 5), Entry(1, "SUB", 5), id="equal (lines 80-81)"),
    ],
)
def test_algorithm_2_lines_75_to_82_update_keeps_the_entry_with_the_larger_counter(
    news: Entry, kept: Entry
) -> None:
    known = {1: Entry(1, "SUB", 5), 2: Entry(2, "SUB", 0)}

    merged = update(known, {news, Entry(3, "SUB", 0)})

    assert merged == {1: kept, 2: Entry(2, "SUB", 0), 3: Entry(3, "SUB", 0)}
    assert known[1] == Entry(1, "SUB", 5)


def test_algorithm_2_line_82_a_late_sub_does_not_bring_back_who_has_left() -> None:
    peer = subscriber(0, 2)
    peer.receive(1, Uns(T, 1, 4))
    peer.receive(1, Sub(T, 1, 3))

    assert peer.members(T) == {0: 0}


def test_algorithm_2_lines_83_to_88_one_delivery_enables_those_that_waited_for_it() -> None:
    peer = subscriber(0, 4)
    assert deliveries(peer.receive(3, pub(3, 1, (2, 1)))) == []
    assert deliveries(peer.receive(2, pub(2, 1, (1, 1)))) == []
    assert peer.footprint()["pending"] == 2

    outputs = peer.receive(1, pub(1, 1))

    assert deliveries(outputs) == [(1, 1), (2, 1), (3, 1)]
    assert peer.footprint()["pending"] == 0


@pytest.mark.parametrize(("prune", "barrier"), [(True, {2: 1}), (False, {1: 1, 2: 1})])
def test_algorithm_2_line_89_a_delivery_replaces_its_own_dependencies_in_the_barrier(
    prune: bool, barrier: dict[int, int]
) -> None:
    peer = subscriber(0, 4, prune=prune)
    peer.receive(1, pub(1, 1))
    peer.receive(2, pub(2, 1, (1, 1)))

    assert Started(T, Batch(1, (b"m",)), barrier, ()) in peer.publish(T, b"m")


@pytest.mark.parametrize(
    ("dependency", "delivered"),
    [
        pytest.param((1, 3), [(2, 1)], id="delivered"),
        pytest.param((1, 2), [(2, 1)], id="older than what was delivered"),
        pytest.param((1, 4), [], id="newer than what was delivered"),
        pytest.param((3, 6), [(2, 1)], id="older than the first reception, which is pending"),
        pytest.param((3, 7), [], id="the first reception, which is pending"),
        pytest.param((0, 0), [], id="source never heard of"),
    ],
)
def test_algorithm_2_lines_90_to_94_what_satisfies_a_dependency(
    dependency: tuple[int, int], delivered: list[tuple[int, int]]
) -> None:
    peer = subscriber(0, 4)
    peer.receive(1, pub(1, 3))
    peer.receive(3, pub(3, 7, (1, 99)))

    assert deliveries(peer.receive(2, pub(2, 1, dependency))) == delivered


def test_algorithm_2_line_94_every_dependency_must_be_satisfied() -> None:
    peer = subscriber(0, 4)
    peer.receive(1, pub(1, 1))

    assert deliveries(peer.receive(2, pub(2, 1, (1, 1), (3, 1)))) == []


def test_algorithm_2_lines_95_to_98_a_member_reports_itself_to_a_source_it_has_received_nothing_from() -> (
    None
):
    peer = PublishedPeer(0, [0, 1])
    peer.subscribe("other")
    peer.receive(1, Ack("other", 0, 0))
    assert sent(peer.receive(1, Sub(T, 1, 0))) == [(1, Ack(T, 1, 0))]  # not subscribed to t

    peer.subscribe(T)

    itself = Entry(0, "SUB", 1)  # the counter of the subscription to t
    assert sent(peer.receive(1, pub(1, 1))) == [(1, Ack(T, 1, 1, frozenset({itself})))]
    assert sent(peer.receive(1, pub(1, 2))) == [(1, Ack(T, 1, 2))]


def test_any_subset_of_the_positions_can_be_present() -> None:
    wire = Wire(PublishedPeer, [1, 4, 6])
    for node in (1, 4, 6):
        wire.subscribe(node, T)
        wire.run()

    wire.publish(1, T, b"m")
    wire.run()

    assert wire.delivered == {node: [(1, b"m")] for node in (1, 4, 6)}


# Section 3.2 and figure 2


def barriers_by_payload(wire: Wire) -> dict[bytes, set[bytes]]:
    """Payload → payloads in its barrier; counters differ between the algorithms, and a barrier may name
    subscriptions too, which are not publications."""
    items = [
        (node, started, item)
        for node in wire.nodes
        for started in wire.started[node]
        for item in started.items
    ]
    payloads = {(node, counter): payload for node, _, (counter, payload) in items}
    return {
        payload: {payloads[entry] for entry in started.barrier.items() if entry in payloads}
        for _, started, (_, payload) in items
    }


def figure_2(peer: Callable[..., Any], *, late_joiner: bool) -> Wire:
    """m21 is slow to p0 and p1; p1 answers m01 with m11, and then m21 with m12.

    p3 subscribes after m21 was published and before the others are.
    """
    wire = Wire(peer, range(4))
    for node in (0, 1, 2):
        wire.subscribe(node, T)
        wire.run()
    wire.hold(2, 0)
    wire.publish(2, T, b"m21")
    wire.run()
    if late_joiner:
        wire.subscribe(3, T)
        wire.run()
    wire.publish(0, T, b"m01")
    wire.run()
    wire.publish(1, T, b"m11")
    wire.run()
    wire.release(2, 0)
    wire.run()
    wire.publish(1, T, b"m12")
    wire.run()
    return wire


@BOTH
@pytest.mark.parametrize("late_joiner", [False, True])
def test_figure_2_barriers_hold_the_direct_dependencies(peer: Callable[..., Any], late_joiner: bool) -> None:
    wire = figure_2(peer, late_joiner=late_joiner)

    assert barriers_by_payload(wire) == {
        b"m01": set(),
        b"m21": set(),
        b"m11": {b"m01"},
        b"m12": {b"m21", b"m11"},
    }
    assert wire.delivered[1] == [(0, b"m01"), (1, b"m11"), (2, b"m21"), (1, b"m12")]


def test_figure_2_identifiers_are_those_of_the_paper() -> None:
    wire = figure_2(PublishedPeer, late_joiner=False)

    assert [started.barrier for started in wire.started[1]] == [{0: 1}, {1: 1, 2: 1}]


def test_figure_2_late_joiner_delivers_what_depends_on_what_it_never_receives() -> None:
    """Section 3.2.1: "after having delivered m11, p3 can deliver m12"."""
    wire = figure_2(Peer, late_joiner=True)

    assert wire.delivered[3] == [(0, b"m01"), (1, b"m11"), (1, b"m12")]


def test_figure_2_late_joiner_of_the_published_algorithm_waits_until_p2_publishes_again() -> None:
    """The paper's own example fails: line 92 needs a first_rec of p2, which p3 does not have."""
    wire = figure_2(PublishedPeer, late_joiner=True)
    assert wire.delivered[3] == [(0, b"m01"), (1, b"m11")]

    wire.publish(2, T, b"m22")
    wire.run()

    assert wire.delivered[3] == [(0, b"m01"), (1, b"m11"), (1, b"m12"), (2, b"m22")]


# Section 3.3 and figure 3


@BOTH
@pytest.mark.parametrize(
    ("source", "members", "edges"),
    [
        pytest.param(0, range(8), {(0, 1), (0, 2), (0, 4), (2, 3), (4, 5), (4, 6), (6, 7)}, id="left"),
        pytest.param(2, [0, 2, 3, 5, 7], {(2, 3), (2, 0), (2, 7), (7, 5)}, id="right"),
    ],
)
def test_figure_3_publications_follow_the_tree_of_their_source_and_acknowledgements_come_back(
    peer: Callable[..., Any], source: int, members: list[int], edges: set[tuple[int, int]]
) -> None:
    wire = Wire(peer, range(8))
    for node in members:
        wire.subscribe(node, T)
        wire.run()
    start = len(wire.log)

    wire.publish(source, T, b"m")
    wire.run()

    hops = [(node, output.destination) for node, output in wire.log[start:] if isinstance(output, Send)]
    assert sorted(hops) == sorted(edges | {(child, parent) for parent, child in edges})
    assert all((source, b"m") in wire.delivered[node] for node in members)
