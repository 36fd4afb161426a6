"""One topic's life at a node: joining, publishing in batches, leaving, joining again; and that topics are apart."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec
import pytest

from crash_stories import is_publication, publication_of
from snapshots import snapshot
from vcubeps.protocol.batches import Batch, batch_of
from vcubeps.protocol.limits import MAX_BATCH_BYTES, MAX_BATCH_ITEMS, MAX_PAYLOAD_BYTES
from vcubeps.protocol.messages import Ack, Copy, Publication, Subscription, Unsubscription
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
from wire import Wire

T = "t"
U = "u"


def members_of(nodes: Iterable[int], among: Iterable[int] | None = None) -> Wire:
    """A wire whose `nodes` are subscribed to T; `among` are all its nodes, if there are others."""
    members = list(nodes)
    wire = Wire(Peer, members if among is None else among)
    for node in members:
        wire.subscribe(node, T)
        wire.run()
    return wire


def sent(wire: Wire, node: int, kind: type) -> list[Any]:
    """The broadcasts of this kind that `node` put on the wire, one per copy."""
    copies = [o.message for o in wire.outputs[node] if isinstance(o, Send) and isinstance(o.message, Copy)]
    return [copy.broadcast for copy in copies if isinstance(copy.broadcast, kind)]


def only(outputs: Iterable[Output], *kinds: type[Output]) -> list[Output]:
    return [output for output in outputs if isinstance(output, kinds)]


# Batches.


def three_while_one_is_under_way() -> Wire:
    wire = members_of(range(2))
    for payload in (b"1", b"2", b"3", b"4"):
        wire.publish(0, T, payload)
    return wire


def test_first_publication_leaves_at_once_and_alone() -> None:
    wire = three_while_one_is_under_way()

    [publication] = sent(wire, 0, Publication)

    assert publication.batch.items == ((2, b"1"),)


def test_what_is_published_while_a_broadcast_is_under_way_leaves_as_one_batch() -> None:
    wire = three_while_one_is_under_way()

    wire.run()

    [_, batch] = sent(wire, 0, Publication)
    assert batch.batch.items == ((3, b"2"), (4, b"3"), (5, b"4"))
    assert batch.counter == 5
    assert batch.barrier == {0: 2}


def test_publications_that_are_followed_by_more_leave_as_one_batch_with_the_release() -> None:
    wire = members_of(range(2))
    peer = wire.peers[0]

    accepted = [peer.accept(T, b"1"), peer.accept(T, b"2")]
    released = peer.release(T)

    assert accepted == [2, 3]
    assert [output.items for output in released if isinstance(output, Started)] == [((2, b"1"), (3, b"2"))]


def test_batch_is_acknowledged_once_with_its_last_counter() -> None:
    wire = three_while_one_is_under_way()

    wire.run()

    assert only(wire.outputs[0], Acknowledged) == [Acknowledged(T, 2), Acknowledged(T, 5)]


def test_batch_is_delivered_in_one_piece_and_in_order() -> None:
    wire = three_while_one_is_under_way()

    wire.run()

    batch = Deliver(T, 0, batch_of(((3, b"2"), (4, b"3"), (5, b"4"))), after={0: 2})
    assert only(wire.outputs[1], Deliver)[-1] == batch
    assert only(wire.outputs[0], Deliver)[-1] == batch


def test_every_publication_is_accepted_at_once_with_a_counter_of_its_own() -> None:
    wire = three_while_one_is_under_way()

    assert only(wire.outputs[0], Accepted) == [Accepted(T, counter) for counter in (2, 3, 4, 5)]


def test_batch_beyond_the_limit_is_split() -> None:
    wire = members_of(range(2))
    wire.publish(0, T, b"first")
    for _ in range(MAX_BATCH_ITEMS + 1):
        wire.publish(0, T, b"")

    wire.run()

    assert [len(publication.batch) for publication in sent(wire, 0, Publication)] == [1, MAX_BATCH_ITEMS, 1]
    assert len(wire.delivered[1]) == MAX_BATCH_ITEMS + 2


def test_batch_beyond_the_limit_of_bytes_is_split() -> None:
    wire = members_of(range(2))
    fitting = MAX_BATCH_BYTES // MAX_PAYLOAD_BYTES
    wire.publish(0, T, b"first")
    for _ in range(fitting + 1):
        wire.publish(0, T, bytes(MAX_PAYLOAD_BYTES))

    wire.run()

    assert [len(publication.batch) for publication in sent(wire, 0, Publication)] == [1, fitting, 1]


def test_leave_waits_for_the_publications_before_it() -> None:
    wire = three_while_one_is_under_way()

    wire.unsubscribe(0, T)
    wire.run()

    assert [payload for _, payload in wire.delivered[1]] == [b"1", b"2", b"3", b"4"]
    assert wire.outputs[0][-1] == Unsubscribed(T)


def test_what_was_published_before_a_leave_leaves_as_one_batch_too() -> None:
    wire = three_while_one_is_under_way()
    wire.unsubscribe(0, T)

    wire.run()

    assert [[payload for _, payload in started.items] for started in wire.started[0]] == [
        [b"1"],
        [b"2", b"3", b"4"],
    ]


def test_release_of_a_topic_on_which_nothing_waits_does_nothing() -> None:
    wire = members_of(range(2))

    assert wire.peers[0].release(T) == []
    assert wire.peers[0].release("never heard of") == []


def test_publications_that_end_at_once_do_so_however_many_have_waited() -> None:
    """Nobody else is there, so each is acknowledged as soon as it starts, and the next one starts."""
    peer = Peer(0, [0], batch_items_max=1)
    peer.subscribe(T)
    for _ in range(2_000):
        peer.accept(T, b"m")

    outputs = peer.release(T)

    assert only(outputs, Acknowledged) == [Acknowledged(T, counter) for counter in range(2, 2_002)]


# Acknowledgements and stamps.


def test_who_has_nobody_to_serve_acknowledges_a_publication_at_once() -> None:
    wire = members_of(range(2))
    wire.publish(0, T, b"m")
    [(_, _, copy, _)] = wire.in_flight

    [acknowledgement, *_] = wire.peers[1].receive(0, copy)

    assert acknowledgement == Send(
        0, Ack(0, 0, copy.hop, reports={}, repaired=False, dead={}, clock=copy.broadcast.stamp)
    )


def test_a_stamp_exceeds_those_of_all_publications_that_were_received() -> None:
    """2, which is not in U, knows of no time yet when it publishes."""
    wire = members_of(range(3))
    for node in (0, 1):
        wire.subscribe(node, U)
        wire.run()
    for _ in range(3):
        wire.publish(1, U, b"m")
        wire.run()
    wire.publish(2, T, b"m")
    wire.run()
    assert sent(wire, 1, Publication)[-1].stamp == 3
    assert sent(wire, 2, Publication)[-1].stamp == 1

    wire.publish(0, T, b"n")

    assert sent(wire, 0, Publication)[-1].stamp == 4


def test_a_stamp_exceeds_those_of_leaves_that_were_received() -> None:
    wire = members_of(range(3))
    wire.subscribe(1, U)
    wire.run()
    for _ in range(3):
        wire.publish(1, U, b"m")
    wire.unsubscribe(1, T)
    wire.run()

    wire.publish(0, T, b"n")

    assert sent(wire, 1, Unsubscription)[-1].stamp == 4
    assert sent(wire, 0, Publication)[-1].stamp == 5


def test_a_leave_does_not_set_the_time_back() -> None:
    wire = members_of(range(3))
    wire.subscribe(0, U)
    wire.run()
    for _ in range(3):
        wire.publish(0, U, b"m")
    wire.unsubscribe(2, T)
    wire.run()
    assert sent(wire, 2, Unsubscription)[-1].stamp == 1

    wire.publish(0, T, b"n")

    assert sent(wire, 0, Publication)[-1].stamp == 4


def test_received_says_whether_what_came_is_delivered_at_once() -> None:
    """At 2, what 1 answers to m overtakes m."""
    wire = members_of(range(3))
    wire.hold(0, 2)
    wire.publish(0, T, b"m")
    wire.run()
    wire.publish(1, T, b"answer")
    wire.run()
    wire.release(0, 2)
    wire.run()

    assert only(wire.outputs[1], Received) == [Received(T, 0, Batch(2, (b"m",)), at_once=True)]
    happened = only(wire.outputs[2], Received, Deliver)
    assert happened[:2] == [
        Received(T, 1, Batch(2, (b"answer",)), at_once=False),
        Received(T, 0, Batch(2, (b"m",)), at_once=False),
    ]
    assert [type(output).__name__ for output in happened[2:]] == ["Deliver", "Deliver"]


# Topics are apart.


def test_publication_reaches_only_the_members_of_its_topic() -> None:
    wire = members_of([0, 1], among=range(4))
    for node in (0, 2):
        wire.subscribe(node, U)
        wire.run()

    wire.publish(0, U, b"m")
    wire.run()

    assert wire.delivered == {0: [(0, b"m")], 2: [(0, b"m")]}


def test_broadcast_under_way_on_one_topic_does_not_delay_another() -> None:
    wire = members_of([0, 1], among=range(3))
    for node in (0, 2):
        wire.subscribe(node, U)
        wire.run()
    wire.hold(1, 0)
    wire.publish(0, T, b"not acknowledged")
    wire.run()

    wire.publish(0, U, b"m")
    wire.run()

    assert Acknowledged(T, 3) not in wire.outputs[0]
    assert wire.outputs[0][-1] == Acknowledged(U, 4)


def test_barrier_names_nothing_of_another_topic() -> None:
    wire = members_of(range(2))
    for node in range(2):
        wire.subscribe(node, U)
        wire.run()
    wire.publish(1, T, b"cause?")
    wire.run()

    wire.publish(0, U, b"m")

    assert wire.started[0][0].barrier == {}


def test_pending_publication_of_one_topic_does_not_block_another() -> None:
    """2 waits for m of 0 on T; what 1 publishes on U comes through."""
    wire = members_of([0, 1, 2])
    for node in (1, 2):
        wire.subscribe(node, U)
        wire.run()
    wire.hold(0, 2)
    wire.publish(0, T, b"m")
    wire.run()
    wire.publish(1, T, b"after m")
    wire.run()
    assert wire.delivered[2] == []

    wire.publish(1, U, b"other")
    wire.run()

    assert wire.delivered[2] == [(1, b"other")]


def test_leaving_one_topic_leaves_the_other_as_it_is() -> None:
    wire = members_of(range(2))
    for node in range(2):
        wire.subscribe(node, U)
        wire.run()

    wire.unsubscribe(0, T)
    wire.run()

    assert set(wire.peers[1].members(T)) == {1}
    assert set(wire.peers[1].members(U)) == {0, 1}


def test_a_dependency_on_one_who_has_left_is_met_whatever_is_pending() -> None:
    """0 has joined since 3 left. a of 2, with a lower stamp than n of 4, waits for something of 1 that never comes."""
    wire = members_of([1, 2, 3, 4], among=range(5))
    wire.publish(3, T, b"m")
    wire.run()
    wire.unsubscribe(3, T)
    wire.run()
    wire.subscribe(0, T)
    wire.run()
    for source, barrier, stamp in ((2, {1: 2}, 9), (4, {3: 2}, 10)):
        publication = Publication(source, T, 2, Batch(2, (b"m",)), barrier, digest=0, stamp=stamp)
        wire.receive(0, source, Copy(0, 0, 100, {0: 1}, {}, publication))

    assert wire.received[0] == [(2, 2), (4, 2)]
    assert wire.delivered[0] == [(4, b"m")]


def test_a_dependency_is_not_met_while_it_is_pending_though_something_later_of_its_source_is_too() -> None:
    """At 2, a and b of 1 wait for y of 0, which is slow; n of 4 comes after a and knows nothing of b."""
    wire = members_of([0, 1, 2, 4])
    wire.hold(0, 2, publication_of(0))
    wire.publish(0, T, b"y")
    wire.run()
    wire.publish(1, T, b"a")
    wire.run()
    wire.hold(1, 4, is_publication)
    wire.publish(1, T, b"b")
    wire.run()
    wire.publish(4, T, b"n")
    wire.run()
    assert wire.received[2] == [(1, 2), (1, 3), (4, 2)]
    assert wire.delivered[2] == []

    wire.release(0, 2)
    wire.run()

    assert sorted(wire.delivered[2]) == [(0, b"y"), (1, b"a"), (1, b"b"), (4, b"n")]
    assert wire.delivered[2].index((1, b"a")) < wire.delivered[2].index((4, b"n"))


# Views.


def test_member_joined_is_emitted_to_those_who_are_in() -> None:
    wire = members_of([0, 1], among=range(4))

    wire.subscribe(2, T)
    wire.run()

    assert wire.outputs[0].count(MemberJoined(T, 2)) == 1
    assert wire.outputs[1].count(MemberJoined(T, 2)) == 1
    assert only(wire.outputs[3], MemberJoined) == []


def test_joiner_finds_the_members_in_its_view_without_being_told_one_by_one() -> None:
    wire = members_of([0, 1], among=range(4))

    wire.subscribe(2, T)
    wire.run()

    assert wire.peers[2].members(T) == {0: 1, 1: 1, 2: 1}
    assert only(wire.outputs[2], MemberJoined) == []


def test_member_left_is_emitted_to_those_who_stay() -> None:
    wire = members_of(range(3))

    wire.unsubscribe(2, T)
    wire.run()

    assert wire.outputs[0].count(MemberLeft(T, 2)) == 1
    assert wire.outputs[1].count(MemberLeft(T, 2)) == 1
    assert only(wire.outputs[2], MemberLeft) == []


def test_publications_go_to_those_who_are_in_when_they_start() -> None:
    wire = members_of([0, 1, 2], among=range(4))
    for node, is_in in ((3, True), (2, False)):
        wire.publish(0, T, b"m")
        wire.run()
        (wire.subscribe if is_in else wire.unsubscribe)(node, T)
        wire.run()
    wire.publish(0, T, b"m")

    assert [set(started.recipients) for started in wire.started[0]] == [{1, 2}, {1, 2, 3}, {1, 3}]


def test_leave_takes_effect_after_what_the_leaver_published() -> None:
    """At 2 the publication waits for m, which is slow, and so the leave waits too, and its acknowledgement."""
    wire = members_of(range(4))
    wire.hold(0, 2)
    wire.publish(0, T, b"m")
    wire.run()
    wire.publish(1, T, b"after m")
    wire.unsubscribe(1, T)
    wire.run()
    assert MemberLeft(T, 1) in wire.outputs[0]
    assert 1 in wire.peers[2].members(T)
    assert Unsubscribed(T) not in wire.outputs[1]

    wire.release(0, 2)
    wire.run()

    happened = only(wire.outputs[2], Deliver, MemberLeft)
    assert [type(output).__name__ for output in happened] == ["Deliver", "Deliver", "MemberLeft"]
    assert wire.outputs[1][-1] == Unsubscribed(T)


def test_relay_acknowledges_a_leave_only_when_it_has_taken_effect_there_too() -> None:
    """1's leave goes through 3, which lacks m, to 2, which has it."""
    wire = members_of(range(4))
    wire.hold(2, 3, only=lambda message: isinstance(message, Copy))
    wire.publish(0, T, b"m")
    wire.run()

    wire.publish(1, T, b"after m")
    wire.unsubscribe(1, T)
    wire.run()

    assert MemberLeft(T, 1) in wire.outputs[2]
    assert 1 in wire.peers[3].members(T)
    assert Unsubscribed(T) not in wire.outputs[1]


def test_who_leaves_acknowledges_the_leave_of_another_whatever_that_depends_on() -> None:
    """0 leaves, which 2 has not heard of, and does not take y of 1 in any more; 2 has delivered y before it leaves."""
    wire = members_of(range(3))
    wire.hold(1, 0, is_publication)
    wire.publish(1, T, b"y")
    wire.run()
    wire.hold(0, 2, lambda message: isinstance(message, Copy))
    wire.unsubscribe(0, T)
    wire.run()

    wire.unsubscribe(2, T)
    wire.run()

    assert Unsubscribed(T) not in wire.outputs[0]
    assert Unsubscribed(T) in wire.outputs[2]


# Leaving, and joining again.


def test_a_topic_may_be_joined_again_while_its_leave_is_under_way() -> None:
    wire = members_of(range(2))
    assert not wire.peers[0].can_subscribe(T)

    wire.unsubscribe(0, T)

    assert Unsubscribed(T) not in wire.outputs[0]
    assert wire.peers[0].can_subscribe(T)


def test_rejoin_waits_for_its_own_leave() -> None:
    wire = members_of(range(2))
    wire.unsubscribe(0, T)
    wire.subscribe(0, T)
    assert len(sent(wire, 0, Subscription)) == 1
    assert len(sent(wire, 0, Unsubscription)) == 1

    wire.run()

    assert wire.outputs[0].index(Unsubscribed(T)) < wire.outputs[0].index(Subscribed(T, 3))
    assert wire.peers[1].members(T) == {0: 3, 1: 1}


def test_rejoined_node_gets_what_is_published_after() -> None:
    wire = members_of(range(2))
    wire.unsubscribe(0, T)
    wire.subscribe(0, T)
    wire.run()

    wire.publish(1, T, b"m")
    wire.run()

    assert wire.delivered[0] == [(1, b"m")]


def test_leave_that_reaches_a_member_which_has_left_meanwhile_ends() -> None:
    wire = members_of(range(3))
    wire.hold(1, 2, lambda message: isinstance(message, Copy))
    wire.unsubscribe(1, T)
    wire.run()
    assert Unsubscribed(T) not in wire.outputs[1]
    wire.unsubscribe(2, T)
    wire.run()
    assert Unsubscribed(T) in wire.outputs[2]

    wire.release(1, 2)
    wire.run()

    assert Unsubscribed(T) in wire.outputs[1]


def test_unsubscribe_before_subscribed_leaves_no_one_behind_in_the_views() -> None:
    wire = members_of([1], among=range(2))
    wire.subscribe(0, T)
    wire.unsubscribe(0, T)

    wire.run()

    assert set(wire.peers[1].members(T)) == {1}
    assert only(wire.outputs[0], Subscribed) == []
    assert wire.outputs[0][-1] == Unsubscribed(T)


def test_unsubscribe_before_subscribed_delivers_nothing_of_what_came_meanwhile() -> None:
    wire = members_of([1, 2], among=range(4))
    wire.hold(2, 0)
    wire.subscribe(0, T)
    wire.run()
    wire.publish(1, T, b"m")
    wire.run()
    wire.unsubscribe(0, T)

    wire.release(2, 0)
    wire.run()

    assert wire.delivered[0] == []
    assert wire.delivered[2] == [(1, b"m")]


def test_unsubscribe_drops_a_join_that_is_only_queued() -> None:
    wire = members_of(range(2))
    wire.unsubscribe(0, T)
    wire.subscribe(0, T)

    wire.unsubscribe(0, T)
    wire.run()

    assert len(sent(wire, 0, Subscription)) == 1
    assert set(wire.peers[1].members(T)) == {1}
    assert not wire.peers[0].can_unsubscribe(T)


def test_there_is_nothing_to_unsubscribe_from_while_a_leave_is_under_way() -> None:
    wire = members_of(range(2))
    could = wire.peers[0].can_unsubscribe(T)

    wire.unsubscribe(0, T)

    assert could
    assert not wire.peers[0].can_unsubscribe(T)


def test_unsubscribe_drops_a_join_though_the_leave_before_it_has_not_started() -> None:
    wire = members_of(range(2))
    wire.publish(0, T, b"under way")
    wire.unsubscribe(0, T)
    wire.subscribe(0, T)

    wire.unsubscribe(0, T)
    wire.run()

    assert len(sent(wire, 0, Unsubscription)) == 1
    assert len(sent(wire, 0, Subscription)) == 1
    assert only(wire.outputs[0], Unsubscribed) == [Unsubscribed(T)]


def test_unsubscribe_that_drops_a_join_ends_with_the_leave_before_it() -> None:
    wire = members_of(range(2))
    wire.unsubscribe(0, T)
    wire.subscribe(0, T)

    wire.unsubscribe(0, T)
    assert only(wire.outputs[0], Unsubscribed) == []
    wire.run()

    assert only(wire.outputs[0], Unsubscribed) == [Unsubscribed(T)]


def test_nothing_is_delivered_after_unsubscribe_returned() -> None:
    """A publication is pending, another arrives, and the node's own last one has not started."""
    wire = members_of(range(4))
    wire.hold(0, 2)
    wire.publish(0, T, b"slow")
    wire.run()
    wire.publish(1, T, b"pending at 2")
    wire.run()
    wire.publish(2, T, b"own")
    wire.publish(2, T, b"own, queued")
    already = list(wire.delivered[2])

    wire.unsubscribe(2, T)
    wire.release(0, 2)
    wire.run()

    assert already == [(2, b"own")]
    assert wire.delivered[2] == already
    assert wire.delivered[0][-1] == (2, b"own, queued")


def test_what_is_held_back_when_a_node_leaves_takes_effect_as_far_as_it_is_about_members() -> None:
    """At 2, an answer of 1 to m of 3, the leave of 1, and an answer of 0 wait for m. 2 leaves while one publication of
    its own is under way; the next one goes to those who stay."""
    wire = members_of(range(4))
    wire.hold(3, 2, publication_of(3))
    wire.publish(3, T, b"m")
    wire.run()
    wire.hold(0, 2, lambda message: isinstance(message, Ack))
    wire.publish(2, T, b"own")
    wire.publish(2, T, b"own, queued")
    wire.run()
    wire.publish(1, T, b"answer")
    wire.unsubscribe(1, T)
    wire.run()
    wire.publish(0, T, b"answer")
    wire.run()
    assert [source for source, _ in wire.received[2]] == [1, 0]
    assert Unsubscribed(T) not in wire.outputs[1]

    wire.unsubscribe(2, T)
    wire.peers[2].check()
    wire.run()

    assert Unsubscribed(T) in wire.outputs[1]
    wire.release(0, 2)
    wire.run()
    assert [set(started.recipients) for started in wire.started[2]] == [{0, 1, 3}, {0, 3}]


def test_who_leaves_before_it_is_in_does_not_take_in_one_who_has_reported_and_left_since() -> None:
    """0 joins 1, 2 and 3 and leaves. The acknowledgement of 2, with the report of 3 in it, comes after 3 has left."""
    wire = members_of([1, 2, 3], among=range(4))
    wire.hold(2, 0, lambda message: isinstance(message, Ack))
    wire.subscribe(0, T)
    wire.run()
    wire.unsubscribe(0, T)
    wire.unsubscribe(3, T)
    wire.run()
    assert Unsubscribed(T) in wire.outputs[3]

    wire.release(2, 0)
    wire.run()

    assert Unsubscribed(T) in wire.outputs[0]
    messages = [o.message for o in wire.outputs[0] if isinstance(o, Send)]
    leaves = [m for m in messages if isinstance(m, Copy) and isinstance(m.broadcast, Unsubscription)]
    assert {node for leave in leaves for node in leave.recipients or ()} == {1, 2}


# What is kept of a topic after leaving.


def test_nothing_is_kept_of_a_topic_on_which_nothing_was_published() -> None:
    wire = members_of(range(4))

    wire.unsubscribe(0, T)
    assert wire.peers[0].retained(T) == {"current", "topic"}
    wire.run()

    assert wire.peers[0].retained(T) == set()


def test_not_even_the_name_is_kept_of_a_topic_on_which_nothing_was_published() -> None:
    wire = members_of(range(4))
    name = "a room that nobody will enter again"
    wire.subscribe(0, name)
    wire.run()
    assert name in repr(snapshot(wire.peers[0]))

    wire.unsubscribe(0, name)
    wire.run()

    assert name not in repr(snapshot(wire.peers[0]))


@pytest.mark.parametrize("source", [0, 1], ids=["itself", "another"])
def test_knowledge_of_publications_is_kept_for_the_next_subscription(source: int) -> None:
    wire = members_of(range(4))
    wire.publish(source, T, b"m")
    wire.run()

    wire.unsubscribe(0, T)
    wire.run()

    assert wire.peers[0].retained(T) == set()
    assert wire.peers[0]._broadcasts.left.take(T).knowledge == {source: 2}


def test_the_next_subscription_uses_the_knowledge_up() -> None:
    wire = members_of(range(2))
    wire.publish(1, T, b"m")
    wire.run()
    wire.unsubscribe(0, T)
    wire.run()

    wire.subscribe(0, T)
    wire.run()
    wire.publish(0, T, b"n")

    assert wire.started[0][0].barrier == {1: 2}


def test_what_was_delivered_before_a_leave_is_in_the_barrier_after_the_rejoin() -> None:
    """Also if its source, which would otherwise tell, has left meanwhile."""
    wire = members_of(range(3))
    wire.publish(1, T, b"m")
    wire.run()
    wire.unsubscribe(0, T)
    wire.run()
    wire.unsubscribe(1, T)
    wire.run()

    wire.subscribe(0, T)
    wire.run()
    wire.publish(0, T, b"n")

    assert wire.started[0][0].barrier == {1: 2}


def test_leave_of_a_subscription_that_a_crash_had_sent_again_is_remembered() -> None:
    """A stale copy of such a SUB may turn up somewhere; who subscribes later is told that it is void."""
    wire = members_of([1], among=range(8))
    wire.subscribe(0, T)
    wire.crash(4)
    for observer in sorted(wire.peers):
        wire.suspect(observer, 4, 0)
    wire.run()

    wire.unsubscribe(0, T)
    wire.run()

    assert wire.peers[0].retained(T) == set()
    assert wire.peers[0]._broadcasts.left.gone(T) == 2


# Barriers after a join.


def test_barrier_after_a_join_is_empty_if_nobody_ever_published() -> None:
    wire = members_of(range(8))
    for node in (3, 5):
        wire.unsubscribe(node, T)
        wire.subscribe(node, T)
        wire.run()

    wire.publish(5, T, b"m")

    assert wire.started[5][0].barrier == {}


def test_barrier_after_a_join_names_the_last_publication_of_each_member() -> None:
    wire = members_of([0, 1, 2], among=range(4))
    for payload in (b"1", b"2"):
        wire.publish(0, T, payload)
        wire.run()
    wire.publish(1, T, b"3")
    wire.run()

    wire.subscribe(3, T)
    wire.run()
    wire.publish(3, T, b"m")

    assert wire.started[3][0].barrier == {0: 3, 1: 2}


def test_barrier_after_a_join_names_the_last_publication_of_one_who_is_leaving() -> None:
    wire = members_of([0, 1, 2], among=range(4))
    wire.publish(1, T, b"m")
    wire.run()
    wire.hold(2, 1, lambda message: isinstance(message, Ack))
    wire.unsubscribe(1, T)
    wire.run()
    assert Unsubscribed(T) not in wire.outputs[1]

    wire.subscribe(3, T)
    wire.run()
    wire.publish(3, T, b"n")

    assert wire.started[3][0].barrier == {1: 2}


def test_barrier_after_a_rejoin_names_what_was_delivered_of_one_who_says_that_he_has_left() -> None:
    """1 says so because a crash made it send its SUB twice."""
    wire = members_of([0], among=range(8))
    wire.subscribe(1, T)
    wire.crash(5)
    for observer in sorted(wire.peers):
        wire.suspect(observer, 5, 0)
    wire.run()
    wire.publish(1, T, b"m")
    wire.run()
    for node in (0, 1):
        wire.unsubscribe(node, T)
        wire.run()
    assert wire.peers[1]._broadcasts.left.gone(T) == 3

    wire.subscribe(0, T)
    wire.run()
    wire.publish(0, T, b"n")

    assert wire.started[0][-1].barrier == {1: 2}


def test_barrier_shrinks_to_what_is_new_after_the_first_publication() -> None:
    wire = members_of([0, 1, 2], among=range(4))
    for node in (0, 1, 2):
        wire.publish(node, T, b"before")
        wire.run()
    wire.subscribe(3, T)
    wire.run()
    for payload in (b"1", b"2"):
        wire.publish(3, T, payload)
        wire.run()

    assert wire.started[3][0].barrier == {0: 2, 1: 2, 2: 2}
    assert wire.started[3][1].barrier == {3: 2}


# Determinism.


def everything_happens(wire: Wire) -> bytes:
    """All outputs of a run with two topics, batches, a leave, a rejoin, a crash and a recovery, as bytes."""
    first, second, third, fourth = wire.nodes
    for topic in (T, U):
        for node in wire.nodes:
            wire.subscribe(node, topic)
    wire.run()
    for payload in (b"1", b"2", b"3"):
        wire.publish(first, T, payload)
        wire.publish(second, T, payload)
        wire.publish(second, U, payload)
    wire.unsubscribe(third, T)
    wire.subscribe(third, T)
    wire.run()
    wire.publish(fourth, U, b"4")
    wire.crash(fourth)
    wire.suspect(first, fourth, 0)
    wire.run()
    wire.recover(fourth)
    wire.run()
    wire.subscribe(fourth, T)
    wire.publish_when_allowed(fourth, T, b"5")
    wire.run()
    assert wire.delivered[third][-1] == (fourth, b"5")
    return msgspec.msgpack.encode([(node, type(event).__name__, event) for node, event in wire.log])


def test_same_inputs_give_the_same_outputs_byte_for_byte() -> None:
    runs = {everything_happens(Wire(Peer, range(4))) for _ in range(2)}

    assert len(runs) == 1


def test_outputs_do_not_depend_on_the_order_in_which_the_nodes_are_given() -> None:
    """These identifiers collide in a small hash table, so a set of them keeps the order of insertion."""
    nodes = [0, 8, 16, 24]
    assert list(frozenset(nodes)) != list(frozenset(reversed(nodes)))
    backwards = Wire(lambda node, others, **rest: Peer(node, others[::-1], **rest), nodes)

    assert everything_happens(backwards) == everything_happens(Wire(Peer, nodes))


def test_peer_that_must_not_batch_broadcasts_one_publication_at_a_time() -> None:
    """The paper's protocol; the simulator compares against it."""
    wire = Wire(partial(Peer, batch_items_max=1), range(2))
    for node in range(2):
        wire.subscribe(node, "t")
        wire.run()

    for payload in (b"1", b"2", b"3"):
        wire.publish(0, "t", payload)
    wire.run()

    assert [len(started.items) for started in wire.started[0]] == [1, 1, 1]
    assert wire.delivered[1] == [(0, b"1"), (0, b"2"), (0, b"3")]
