"""Rules that searches added to the design, each as a trace that breaks without it.

docs/internals/protocol.md tells the stories. Random schedules hit some of them once in some ten thousand
schedules aimed at them, so the traces are directed.
"""

from __future__ import annotations

import pytest

from ablations import (
    graves_outlive_a_restart,
    nodes_go_up_among_strangers,
    superseded_incarnations_are_not_dead,
    welcomes_come_in_pairs_and_are_noted_whenever_they_come,
)
from crash_stories import at_work, crash_without_a_trace, is_subscription, members_of
from vcubeps.protocol.broadcasts import Broadcasts
from vcubeps.protocol.messages import Copy, Welcome
from vcubeps.protocol.outputs import Deliver, Subscribed
from vcubeps.protocol.peer import Peer
from wire import Wire

T = "t"


def survivors_disagree(wire: Wire, payload: bytes, survivors: tuple[int, ...]) -> bool:
    delivered = [any(body == payload for _, body in wire.delivered[node]) for node in survivors]
    return any(delivered) and not all(delivered)


# All must know of each other before a node goes up.


def two_came_up_without_each_other() -> Wire:
    """1 and 2 are up and members, each on the report that all others had crashed; 0 is let in by both.

    Then 2 publishes, and only after that its Hello reaches 1.
    """
    wire = Wire(Peer, range(3))
    for node in (0, 1, 2):
        wire.crash(node)
    wire.hold(2, 1)
    wire.recover(1)
    wire.suspect(1, 0, 0)
    wire.suspect(1, 2, 0)
    wire.hold(0, 1)
    wire.hold(0, 2)
    wire.recover(0)
    wire.recover(2)
    wire.suspect(2, 1, 0)  # stale: incarnation 1 of node 1 is up
    wire.suspect(2, 0, 0)  # stale: incarnation 1 of node 0 is booting
    wire.subscribe(1, T)
    wire.subscribe(2, T)
    wire.run()
    assert {(1, T), (2, T)} <= wire.subscribed

    wire.release(0, 1)
    wire.release(0, 2)
    wire.run()
    if wire.peers[0].can_subscribe(T):
        wire.subscribe(0, T)
        wire.run()
    if wire.peers[2].can_publish(T):
        wire.publish(2, T, b"m")
        wire.run()
    wire.release(2, 1)
    wire.run()
    return wire


def test_node_does_not_go_up_among_nodes_that_do_not_know_of_each_other() -> None:
    wire = two_came_up_without_each_other()

    assert not survivors_disagree(wire, b"m", (0, 1))
    assert all(peer.is_up for peer in wire.peers.values())


def test_without_that_rule_members_disagree(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes_go_up_among_strangers(monkeypatch)

    assert survivors_disagree(two_came_up_without_each_other(), b"m", (0, 1))


# A join waits until the crashes are final.


def suspect_publishes_before_the_others_give_it_up() -> tuple[Wire, bool]:
    """1 and 2 are members; 0 joins and suspects 1 falsely before its SUB has reached it; 1 publishes.

    Also whether 0 was subscribed when 1 published.
    """
    wire = Wire(Peer, range(3))
    for node in (1, 2):
        wire.subscribe(node, T)
        wire.run()
    wire.hold(0, 1)
    wire.hold(0, 2, lambda message: not isinstance(message, Copy))
    wire.subscribe(0, T)
    wire.run()
    wire.suspect(0, 1, 0)
    wire.run()
    was_subscribed = (0, T) in wire.subscribed
    wire.publish(1, T, b"m")
    wire.run()
    wire.release(0, 1)
    wire.release(0, 2)
    wire.run()
    return wire, was_subscribed


def test_subscription_takes_effect_when_all_have_given_up_whom_the_joiner_gave_up() -> None:
    wire, was_subscribed = suspect_publishes_before_the_others_give_it_up()

    assert not was_subscribed
    assert (0, T) in wire.subscribed


def test_without_waiting_a_subscriber_misses_what_another_delivers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Broadcasts, "_waits_for_finality", lambda self, task: False)

    wire, was_subscribed = suspect_publishes_before_the_others_give_it_up()

    assert was_subscribed
    assert survivors_disagree(wire, b"m", (0, 2))


# Islands that boot apart find each other.


def islands_meet(nodes: int) -> Wire:
    """Nodes that have run before start while nobody reaches anybody. Each is told, truthfully, that the others'
    earlier incarnations have crashed, and goes up alone. Then the network comes up, and all Hellos arrive."""
    wire = Wire(Peer, range(nodes), ran_before=True, last_first=True)
    for observer in wire.nodes:
        for other in wire.nodes:
            if other != observer:
                wire.suspect(observer, other, 0)
        assert wire.peers[observer].is_up
        wire.subscribe(observer, T)
    wire.run()
    for node in wire.nodes:
        if wire.peers[node].can_subscribe(T):
            wire.subscribe(node, T)
            wire.run()
    return wire


def are_together(wire: Wire) -> bool:
    return all(set(peer.members(T)) == set(wire.nodes) for peer in wire.peers.values())


@pytest.mark.parametrize("nodes", [2, 4, 8])
def test_nodes_that_came_up_alone_find_each_other_when_they_can(nodes: int) -> None:
    wire = islands_meet(nodes)

    assert are_together(wire)
    wire.publish(0, T, b"m")
    wire.run()
    assert all((0, b"m") in wire.delivered[node] for node in wire.nodes)


@pytest.mark.parametrize("nodes", [2, 4])
def test_if_a_later_welcome_hides_the_first_they_stay_alone(
    nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    welcomes_come_in_pairs_and_are_noted_whenever_they_come(monkeypatch)

    wire = islands_meet(nodes)

    assert not are_together(wire)
    assert all(peer.is_up for peer in wire.peers.values())  # and nobody notices


def test_whoever_is_let_in_gets_one_welcome() -> None:
    wire = Wire(Peer, range(2))
    wire.crash(1)
    wire.suspect(0, 1, 0)
    wire.recover(1)
    wire.step()

    [welcome] = [entry.message for entry in wire.in_flight if isinstance(entry.message, Welcome)]
    assert welcome.admit


# Who deals with an incarnation has done with those before it.


def subscription_outlives_its_source() -> Wire:
    """0 lets 2 and 3 in, which still wait for each other, subscribes by way of 2, which keeps the SUB, and crashes.

    Its next incarnation boots together with them. 3 subscribes, and only then 2's copy of the SUB reaches it.
    Nobody reports the crash: 2 and 3 were not up when the next incarnation greeted them.
    """
    wire = Wire(Peer, (0, 2, 3))
    wire.crash(2)
    wire.crash(3)
    wire.hold(2, 3)
    wire.hold(3, 2)
    wire.recover(2)
    wire.recover(3)
    wire.run()
    wire.subscribe(0, T)
    wire.run()
    assert not wire.peers[2].is_up

    wire.crash(0)
    wire.recover(0)
    wire.run()
    wire.hold(2, 3, is_subscription)
    wire.release(3, 2)
    wire.run()
    assert all(peer.is_up for peer in wire.peers.values())
    wire.subscribe(3, T)
    wire.run()
    wire.release(2, 3)
    wire.run()
    wire.publish(3, T, b"m")
    wire.run()
    return wire


def test_subscription_of_a_node_that_no_longer_exists_makes_no_member() -> None:
    wire = subscription_outlives_its_source()

    assert set(wire.peers[3].members(T)) == {3}
    assert at_work(wire) == {}


def test_without_that_rule_a_ghost_blocks_the_topic_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    superseded_incarnations_are_not_dead(monkeypatch)

    wire = subscription_outlives_its_source()

    assert set(wire.peers[3].members(T)) == {0, 3}
    assert at_work(wire)[3] == {"copies": 1, "broadcasts": 1}


# Whom an incarnation held for dead, its successor does not.


def who_was_cut_off_comes_back() -> Wire:
    """3 is cut off and holds 0 and 1 for dead, which is over at once, as it is alone. They hold 3 for dead. 1 starts
    again and reaches 3, and tells it so. 3 starts again, while what it and 0 send each other is slow, and asks 1, which
    lets it in and names 0."""
    wire = members_of([0, 1, 3])
    for pair in ((0, 3), (3, 0), (1, 3), (3, 1)):
        wire.hold(*pair)
    for observer, node in ((3, 0), (3, 1), (0, 3), (1, 3)):
        wire.suspect(observer, node, 0)
    wire.run()
    crash_without_a_trace(wire, 1)
    wire.recover(1)
    wire.suspect(1, 3, 0)
    wire.run()
    assert wire.peers[1].is_up
    wire.release(1, 3)
    wire.release(3, 1)
    wire.run()
    return wire


def test_who_comes_back_deals_with_those_whom_it_held_for_dead() -> None:
    """Otherwise it would be a member with 1, and miss what 0 publishes."""
    wire = who_was_cut_off_comes_back()

    assert not wire.peers[3].is_up

    for pair in ((0, 3), (3, 0)):
        wire.release(*pair)
    wire.run()
    assert all(peer.is_up for peer in wire.peers.values())
    assert at_work(wire) == {}


def test_with_what_its_predecessor_held_for_dead_it_would_come_up_without_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graves_outlive_a_restart(monkeypatch)

    assert who_was_cut_off_comes_back().peers[3].is_up


def test_a_subscription_does_not_begin_after_what_a_node_published_to_it_and_then_left() -> None:
    """Seed 1438486441491633188 of the world of nodes: the SUB of 0 reaches 3 a second time, after a crash, when 3 is
    leaving. It reports its last publication, which it had addressed to 0."""
    wire = Wire(Peer, range(4))
    for node in (1, 3):
        wire.subscribe(node, T)
        wire.run()
    wire.hold(2, 0)
    wire.subscribe(0, T)
    wire.run()
    wire.publish(3, T, b"m")
    wire.run()
    wire.hold(3, 1)
    wire.unsubscribe(3, T)
    wire.run()
    wire.crash(2)
    for node in (0, 1, 3):
        wire.suspect(node, 2, 0)
    wire.run()

    [subscribed, delivered] = [each for each in wire.outputs[0] if isinstance(each, Subscribed | Deliver)]

    assert isinstance(subscribed, Subscribed)
    assert isinstance(delivered, Deliver)
    assert subscribed.floors == {3: 1}
    assert delivered.items == ((2, b"m"),)
