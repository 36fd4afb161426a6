"""Nodes that come back, rightly or wrongly thought to have crashed. Directed traces."""

from __future__ import annotations

import pytest

from ablations import expected_nodes_are_not_waited_for, nobody_asks_back
from crash_stories import (
    T,
    at_work,
    is_publication,
    is_subscription,
    lose,
    members_of,
    report,
)
from snapshots import snapshot
from vcubeps.protocol.limits import COUNTERS_PER_INCARNATION, MAX_INCARNATION
from vcubeps.protocol.messages import (
    ANY_INCARNATION,
    AnyMessage,
    Card,
    Copy,
    Fence,
    Final,
    Flush,
    Hello,
    IsFinal,
    Over,
    Subscription,
    Welcome,
)
from vcubeps.protocol.outputs import (
    Departed,
    IdTaken,
    MemberJoined,
    Restarted,
    RestartReason,
    Send,
    Subscribed,
    Up,
)
from vcubeps.protocol.peer import Peer
from wire import Wire

# Coming back.


def test_recovered_node_comes_up_as_its_next_incarnation() -> None:
    wire = members_of(range(4))
    wire.crash(2)
    report(wire, 2)

    wire.recover(2)
    wire.run()

    assert wire.outputs[2][-1] == Up(1)
    assert wire.peers[2].is_up
    assert wire.peers[2].incarnation == 1
    assert at_work(wire) == {}


def test_recovered_node_comes_up_even_if_nobody_had_noticed_its_crash() -> None:
    wire = members_of(range(4))
    wire.crash(2)

    wire.recover(2)
    wire.run()

    assert wire.peers[2].is_up
    assert set(wire.peers[0].members(T)) == {0, 1, 3}


def test_recovered_node_is_not_let_in_before_its_crash_is_final() -> None:
    wire = members_of(range(4))
    wire.crash(2)
    wire.hold(3, 0)

    wire.recover(2)
    wire.run()

    assert not wire.peers[2].is_up
    assert not wire.peers[2].can_subscribe(T)


def test_recovered_node_subscribes_and_gets_what_is_published_after() -> None:
    wire = members_of(range(4))
    wire.publish(0, T, b"before")
    wire.run()
    wire.crash(2)
    report(wire, 2)
    wire.recover(2)
    wire.run()
    wire.publish(0, T, b"while it is away")
    wire.run()
    wire.delivered[2].clear()

    wire.subscribe(2, T)
    wire.run()
    wire.publish(0, T, b"after")
    wire.run()

    assert wire.delivered[2] == [(0, b"after")]
    assert MemberJoined(T, 2) in wire.outputs[0]


def test_counters_of_a_new_incarnation_exceed_those_of_the_old() -> None:
    wire = members_of(range(2))
    wire.crash(1)
    report(wire, 1)
    wire.recover(1)
    wire.run()

    wire.subscribe(1, T)
    wire.run()

    assert wire.outputs[1][-1] == Subscribed(T, COUNTERS_PER_INCARNATION + 1)


def test_others_deliver_what_a_recovered_node_publishes() -> None:
    wire = members_of(range(4))
    wire.publish(2, T, b"of incarnation 0")
    wire.run()
    wire.crash(2)
    report(wire, 2)
    wire.recover(2)
    wire.run()

    wire.subscribe(2, T)
    wire.publish_when_allowed(2, T, b"of incarnation 1")
    wire.run()

    assert wire.delivered[1] == [(2, b"of incarnation 0"), (2, b"of incarnation 1")]


def test_what_is_sent_to_a_node_that_boots_waits_until_it_is_up() -> None:
    """1 has let 0 in and asks it for membership; 0 still waits for 2."""
    wire = members_of([1, 2], among=range(4))
    wire.crash(0)
    report(wire, 0)
    wire.hold(2, 0)
    wire.recover(0)
    wire.run()
    wire.subscribe(1, "u")
    wire.run()
    answered_early = (1, "u") in wire.subscribed
    assert at_work(wire)[0] == {"admissions": 1}

    wire.release(2, 0)
    wire.run()

    assert not answered_early
    assert (1, "u") in wire.subscribed


def test_subscription_of_a_new_incarnation_stands_for_what_the_old_one_published() -> None:
    """The new incarnation does not know that, so it tells a joiner the counter of its subscription."""
    wire = members_of([0, 1], among=range(4))
    wire.publish(1, T, b"m")
    wire.run()
    wire.crash(1)
    report(wire, 1)
    wire.recover(1)
    wire.run()
    wire.subscribe(1, T)
    wire.run()

    wire.subscribe(3, T)
    wire.publish_when_allowed(3, T, b"n")
    wire.run()

    assert wire.started[3][0].barrier == {1: COUNTERS_PER_INCARNATION + 1}
    assert wire.delivered[0] == [(1, b"m"), (3, b"n")]


def test_two_nodes_that_recover_together_let_each_other_in() -> None:
    wire = members_of(range(4))
    wire.crash(1)
    wire.crash(2)
    wire.recover(1)
    wire.recover(2)

    wire.run()
    for node in (1, 2):
        wire.subscribe(node, T)
    wire.run()
    wire.publish(1, T, b"m")
    wire.run()

    assert all(set(peer.members(T)) == {0, 1, 2, 3} for peer in wire.peers.values())
    assert wire.delivered[2] == [(1, b"m")]


# Suspected and alive.


def test_falsely_suspected_node_restarts_and_names_the_topics_that_are_gone() -> None:
    wire = members_of(range(4))
    wire.subscribe(1, "u")
    wire.run()

    wire.suspect(0, 1, 0)
    wire.run()

    assert Restarted(1, (T, "u"), RestartReason.DECLARED_CRASHED) in wire.outputs[1]
    assert wire.peers[1].members(T) == wire.peers[1].members("u") == {}


def test_falsely_suspected_node_does_not_name_a_topic_that_it_is_leaving() -> None:
    wire = members_of(range(4))
    wire.subscribe(1, "u")
    wire.run()
    wire.unsubscribe(1, T)

    wire.suspect(0, 1, 0)
    wire.run()

    assert Restarted(1, ("u",), RestartReason.DECLARED_CRASHED) in wire.outputs[1]


def test_falsely_suspected_node_comes_back() -> None:
    wire = members_of(range(4))

    wire.suspect(0, 1, 0)
    wire.run()
    wire.subscribe(1, T)
    wire.run()
    wire.publish(0, T, b"m")
    wire.run()

    assert Up(1) in wire.outputs[1]
    assert wire.delivered[1] == [(0, b"m")]
    assert at_work(wire) == {}


def test_there_is_no_way_back_for_a_suspected_incarnation() -> None:
    """0 has given 1 up; what 1 publishes before it hears of that reaches nobody who has heard."""
    wire = members_of(range(2))
    wire.hold(0, 1)
    wire.suspect(0, 1, 0)

    wire.publish(1, T, b"m")
    wire.run()

    assert wire.delivered[0] == []
    assert set(wire.peers[0].members(T)) == {0}


def test_a_message_from_an_incarnation_believed_dead_is_answered_by_a_fence() -> None:
    wire = members_of(range(2))
    wire.hold(0, 1)
    wire.suspect(0, 1, 0)
    wire.run()
    wire.outputs[0].clear()

    wire.publish(1, T, b"m")
    wire.run()

    assert wire.outputs[0] == [Send(1, Fence(0, ANY_INCARNATION, incarnation=0))]


def test_a_fence_of_an_earlier_incarnation_is_ignored() -> None:
    wire = members_of(range(2))
    wire.suspect(0, 1, 0)
    wire.run()

    outputs = wire.peers[1].receive(0, Fence(0, ANY_INCARNATION, incarnation=0))

    assert outputs == []
    assert wire.peers[1].incarnation == 1


def test_two_nodes_that_suspect_each_other_both_come_back() -> None:
    wire = members_of(range(4))

    wire.suspect(0, 1, 0)
    wire.suspect(1, 0, 0)
    wire.run()

    assert Restarted(1, (T,), RestartReason.DECLARED_CRASHED) in wire.outputs[0] + wire.outputs[1]
    assert all(peer.is_up for peer in wire.peers.values())
    assert at_work(wire) == {}


def test_node_that_came_up_without_one_that_lived_starts_again() -> None:
    """0 came up alone; 1, whose new incarnation it has not heard of, had been up before and now lets it in."""
    peer = Peer(0, range(2), incarnation=1)
    peer.start()
    peer.suspect(1, 0)
    assert peer.is_up

    welcome = Welcome(1, 1, Card(1), dead={0: 0}, digest=0, living={1: Card(1)}, is_up=True, admit=True)
    outputs = peer.receive(1, welcome)

    assert Restarted(2, (), RestartReason.CAME_UP_APART) in outputs
    assert not peer.is_up


def test_node_that_a_welcome_reaches_after_it_went_up_on_a_later_one_does_not_start_again() -> None:
    wire = Wire(Peer, range(2))
    wire.crash(1)
    report(wire, 1)
    wire.hold(0, 1, only=lambda message: isinstance(message, Welcome) and message.admit)
    wire.recover(1)
    wire.run()
    wire.greet(1, 0)
    wire.run()
    assert wire.peers[1].is_up

    wire.release(0, 1)
    wire.run()

    assert wire.peers[1].is_up
    assert wire.peers[1].incarnation == 1


# Reports while a node boots.


def booting(nodes: int) -> Peer:
    """Incarnation 1 of node 0."""
    peer = Peer(0, range(nodes), incarnation=1)
    peer.start()
    return peer


def welcome_of(node: int, dealt_with: dict[int, int]) -> Welcome:
    """Of one that boots too, to incarnation 1."""
    living = {other: Card(incarnation) for other, incarnation in dealt_with.items()}
    incarnation = dealt_with[node]
    return Welcome(incarnation, 1, Card(incarnation), {}, 0, living, is_up=False, admit=False)


def test_who_was_reported_while_a_node_booted_is_told_when_it_goes_up() -> None:
    """1 may live, and take this node for one that deals with it: if it has nothing to say to it, it hears of that only
    by the Fence."""
    peer = booting(3)
    peer.receive(1, welcome_of(1, {1: 0}))
    assert peer.suspect(1, 0) == [Departed(1, 0)]

    outputs = peer.suspect(2, 0)

    assert peer.is_up
    assert Send(1, Fence(1, ANY_INCARNATION, incarnation=0)) in outputs


def test_node_that_is_declared_crashed_while_it_boots_starts_again() -> None:
    peer = booting(2)

    outputs = peer.receive(1, Flush(0, 1, 1, dead={0: 1}, held={}, counter=1, subscriptions={}))

    assert Restarted(2, (), RestartReason.DECLARED_CRASHED) in outputs


# Whom the others deal with.


def test_what_an_incarnation_has_said_of_whom_it_deals_with_does_not_count_for_the_next_one() -> None:
    peer = booting(3)
    peer.receive(1, welcome_of(1, {1: 0, 2: 0}))
    peer.receive(1, Hello(1, ANY_INCARNATION, Card(1), 0, {}))
    peer.receive(1, welcome_of(1, {1: 1}))

    peer.receive(2, welcome_of(2, {1: 1, 2: 0}))
    was_up = peer.is_up
    peer.receive(1, welcome_of(1, {1: 1, 2: 0}))

    assert not was_up
    assert peer.is_up


def test_what_one_has_said_before_does_not_count_for_another_that_says_the_same_now() -> None:
    """1 and 2 answer by the same digest. 1 has said, in a Welcome that was sent later, that it deals with 3 too."""
    peer = booting(4)
    peer.receive(1, welcome_of(1, {1: 0, 2: 0}))
    [hello] = peer.greet(1)
    assert isinstance(hello, Send)
    assert isinstance(hello.message, Hello)
    the_same = Welcome(0, 1, Card(0), {}, hello.message.digest, living=None, is_up=False, admit=False)
    peer.receive(2, the_same)
    peer.receive(3, welcome_of(3, {1: 0, 2: 0, 3: 0}))
    peer.receive(1, welcome_of(1, {1: 0, 2: 0, 3: 0}))

    peer.receive(1, the_same)
    was_up = peer.is_up
    peer.receive(2, welcome_of(2, {1: 0, 2: 0, 3: 0}))

    assert not was_up
    assert peer.is_up


@pytest.mark.parametrize(
    "message",
    [
        Flush(1, 0, 1, dead={2: 0}, held={}, counter=COUNTERS_PER_INCARNATION, subscriptions={}),
        IsFinal(1, 0, dead={2: 0}),
        Final(1, 0, dead={2: 0}),
        Over(1, 0, dead={2: 0}),
        Copy(1, 0, 1, {0: 0}, {2: 0}, Subscription(1, T, COUNTERS_PER_INCARNATION + 1)),
    ],
    ids=lambda message: type(message).__name__,
)
def test_what_an_incarnation_says_that_this_node_came_up_without_is_dropped(message: AnyMessage) -> None:
    """Its Welcome, which has been overtaken, will make this node start again."""
    peer = members_of(range(3)).peers[0]
    before = snapshot(peer)

    outputs = peer.receive(1, message)

    assert outputs == []
    assert snapshot(peer) == before


def test_a_node_goes_on_as_its_last_incarnation_and_after_that_needs_another_id() -> None:
    peer = members_of(range(2)).peers[0]

    last = peer.receive(1, Fence(0, ANY_INCARNATION, MAX_INCARNATION - 1))
    none_left = peer.receive(1, Fence(0, ANY_INCARNATION, MAX_INCARNATION))

    assert last[0] == Restarted(MAX_INCARNATION, (T,), RestartReason.DECLARED_CRASHED)
    assert none_left == [IdTaken()]


# Who is believed dead, which tells a driver whose crash it owes a report of.


def test_a_node_believes_dead_whom_it_does_not_deal_with() -> None:
    peer = members_of(range(3)).peers[0]
    peer.suspect(2, 0)

    believed = {node: peer.believes_dead(node) for node in (1, 2, 9)}

    assert believed == {1: False, 2: True, 9: True}


def test_a_node_that_boots_does_not_believe_dead_whom_it_expects_until_that_is_reported() -> None:
    peer = Peer(0, range(3), incarnation=1)
    peer.start()
    expected = {node: peer.believes_dead(node) for node in (1, 2, 9)}

    peer.suspect(2, 0)

    assert expected == {1: False, 2: False, 9: True}
    assert peer.believes_dead(2)
    assert not peer.believes_dead(1)


def test_a_node_that_boots_does_not_believe_dead_whom_it_has_heard_of() -> None:
    peer = Peer(0, range(2), incarnation=1)
    peer.start()

    peer.receive(1, Hello(1, ANY_INCARNATION, Card(1), digest=0, news={5: Card(0, 6)}))

    assert not peer.is_up
    assert not peer.believes_dead(1)
    assert not peer.believes_dead(5)


# Old incarnations.


def test_publication_of_an_old_incarnation_is_not_delivered() -> None:
    wire = members_of(range(2))
    wire.hold(1, 0, only=is_publication)
    wire.publish(1, T, b"m")
    wire.crash(1)
    report(wire, 1)
    wire.recover(1)
    wire.run()

    wire.release(1, 0)
    wire.run()

    assert wire.delivered[0] == []
    assert wire.peers[1].incarnation == 1
    assert wire.peers[1].is_up


def test_publication_to_an_old_incarnation_is_not_delivered_by_the_new_one() -> None:
    """The copy leaves for incarnation 0 of 1 and arrives at incarnation 1, subscribed again."""
    wire = members_of(range(2))
    wire.publish(0, T, b"to the old")
    [copy] = wire.in_flight
    wire.crash(1)
    report(wire, 1)
    wire.recover(1)
    wire.run()
    wire.subscribe(1, T)
    wire.run()

    outputs = wire.peers[1].receive(0, copy.message)

    assert outputs == []


def test_subscription_of_an_old_incarnation_does_not_bring_it_back() -> None:
    wire = members_of([0, 2], among=range(4))
    wire.hold(1, 0, only=is_subscription)
    wire.subscribe(1, T)
    wire.run()
    wire.crash(1)
    report(wire, 1)
    wire.recover(1)
    wire.run()

    wire.release(1, 0)
    wire.run()

    assert set(wire.peers[0].members(T)) == {0, 2}


def test_stale_copy_of_a_subscription_does_not_undo_the_leave() -> None:
    """Repair after a crash may send a SUB twice; the second copy may come when its source has left again."""
    wire = members_of(range(4))
    wire.unsubscribe(3, T)
    wire.run()

    wire.peers[0].receive(1, Copy(0, 0, hop=99, broadcast=Subscription(3, T, 1), recipients={0: 0}, fresh={}))

    assert set(wire.peers[0].members(T)) == {0, 1, 2}


# What is sent to a node that has said goodbye.


def hello_is_dropped_because_its_receiver_was_gone() -> Wire:
    """1 has said goodbye and comes back. 2 tells 0, which boots, that 1 is there, before 1 has connected with 0: what
    the runtime of 0 is to send to 1 then, it drops (`Link.send`). 1 is not up yet when it says Hello."""
    wire = Wire(Peer, range(3))
    for node in (0, 1):
        wire.crash(node)
        report(wire, node)
    wire.hold(1, 0)
    wire.hold(0, 2)
    wire.hold(2, 1)
    wire.recover(0)
    wire.recover(1)
    wire.run()
    wire.release(0, 2)
    while wire.step():
        lose(wire, 0, 1)
    assert 1 in wire.peers[0].present
    for sender, receiver in ((1, 0), (2, 1)):
        wire.release(sender, receiver)
        wire.run()
    return wire


def test_who_boots_asks_back_whoever_says_hello() -> None:
    wire = hello_is_dropped_because_its_receiver_was_gone()

    assert all(peer.is_up for peer in wire.peers.values())
    assert at_work(wire) == {}


def test_otherwise_it_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody_asks_back(monkeypatch)

    assert not hello_is_dropped_because_its_receiver_was_gone().peers[0].is_up


# All start again.


def restarts_of_a_cluster_that_starts_again() -> int:
    wire = Wire(Peer, range(4), ran_before=True)
    wire.run()
    assert all(peer.is_up for peer in wire.peers.values())
    return sum(isinstance(output, Restarted) for outputs in wire.outputs.values() for output in outputs)


def test_a_cluster_that_starts_again_comes_up_together() -> None:
    assert restarts_of_a_cluster_that_starts_again() == 0


def test_without_waiting_for_each_other_all_come_up_alone_and_have_to_start_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected_nodes_are_not_waited_for(monkeypatch)

    assert restarts_of_a_cluster_that_starts_again() > 0
