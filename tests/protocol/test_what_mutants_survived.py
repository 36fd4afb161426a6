"""Details that no other test noticed when they were changed at random: one test each."""

from __future__ import annotations

import pytest

from crash_stories import T, is_publication, members_of, report
from vcubeps.protocol.batches import Batch
from vcubeps.protocol.limits import COUNTERS_PER_INCARNATION
from vcubeps.protocol.messages import Ack, Card, Copy, Publication, Report, Subscription, Welcome
from vcubeps.protocol.outputs import (
    MemberJoined,
    MemberLeft,
    Output,
    Received,
    Restarted,
    RestartReason,
    Send,
    Up,
)
from vcubeps.protocol.peer import Peer
from wire import Wire


def joiner_waits_for_one_acknowledgement() -> Wire:
    """0 joins 1, 2 and 3. The acknowledgement of 2, with the report of 3 in it, is slow."""
    wire = members_of((1, 2, 3), among=range(4))
    wire.hold(2, 0, lambda message: isinstance(message, Ack))
    wire.subscribe(0, T)
    wire.run()
    assert (0, T) not in wire.subscribed
    return wire


# Joining.


def test_a_member_whose_crash_became_final_during_the_join_is_none_afterwards() -> None:
    wire = joiner_waits_for_one_acknowledgement()
    wire.crash(3)
    report(wire, 3)
    assert wire.peers[0]._local.is_settled()

    wire.release(2, 0)
    wire.run()

    assert (0, T) in wire.subscribed
    assert wire.peers[0].members(T).keys() == {0, 1, 2}


def test_a_report_older_than_a_member_that_has_come_back_since_does_not_replace_it() -> None:
    """3 has reported, crashed, come back and joined again by the time its report reaches the joiner."""
    wire = joiner_waits_for_one_acknowledgement()
    wire.crash(3)
    report(wire, 3)
    wire.recover(3)
    wire.hold(2, 0, lambda message: isinstance(message, Ack) and bool(message.reports))
    wire.run()
    wire.subscribe(3, T)
    wire.run()
    assert (0, T) not in wire.subscribed
    assert wire.peers[1].members(T)[3] == COUNTERS_PER_INCARNATION + 1

    wire.release(2, 0)
    wire.run()

    assert (0, T) in wire.subscribed
    assert wire.peers[0].members(T)[3] == COUNTERS_PER_INCARNATION + 1


def test_who_comes_while_this_node_joins_is_not_announced() -> None:
    wire = members_of((1, 2), among=range(4))
    wire.hold(2, 0, lambda message: isinstance(message, Ack))
    wire.subscribe(0, T)
    wire.run()

    wire.subscribe(3, T)
    wire.run()
    assert (0, T) not in wire.subscribed
    assert 3 in wire.peers[0]._broadcasts.workers[T].topic.view.members
    wire.release(2, 0)
    wire.run()

    assert wire.peers[0].members(T).keys() == {0, 1, 2, 3}
    assert [output for output in wire.outputs[0] if isinstance(output, MemberJoined)] == []


def test_who_leaves_while_this_node_joins_is_not_announced() -> None:
    wire = joiner_waits_for_one_acknowledgement()
    wire.crash(3)
    report(wire, 3)

    wire.release(2, 0)
    wire.run()

    assert [output for output in wire.outputs[0] if isinstance(output, MemberLeft)] == []


def test_a_subscription_ends_the_wait_for_what_an_earlier_one_of_its_source_would_have_published() -> None:
    wire = members_of(range(3))
    waiting = Publication(2, T, 5, Batch(5, (b"m",)), {1: 5}, digest=0, stamp=1)
    wire.receive(0, 2, Copy(0, 0, 100, {0: 1}, {}, waiting))
    assert wire.delivered[0] == []

    wire.receive(0, 1, Copy(0, 0, 101, {0: 0}, {}, Subscription(1, T, 9)))

    assert wire.delivered[0] == [(2, b"m")]


# Leaving.


def closing_node() -> Wire:
    """0 has left, says its application, but what it published before is still under way."""
    wire = members_of((0, 1, 2), among=range(4))
    wire.hold(0, 1, is_publication)
    wire.publish(0, T, b"m")
    wire.unsubscribe(0, T)
    wire.run()
    return wire


def test_who_leaves_while_this_node_closes_is_not_announced() -> None:
    wire = closing_node()

    wire.unsubscribe(2, T)
    wire.run()

    assert 2 not in wire.peers[0]._broadcasts.workers[T].topic.view.members
    assert [output for output in wire.outputs[0] if isinstance(output, MemberLeft)] == []


def test_who_joins_while_this_node_closes_is_not_announced() -> None:
    wire = closing_node()

    wire.subscribe(3, T)
    wire.run()

    assert 3 in wire.peers[0]._broadcasts.workers[T].topic.view.members
    assert [
        output for output in wire.outputs[0] if isinstance(output, MemberJoined) and output.node == 3
    ] == []


# Lost messages.


def copy_of(source: int, counter: int, stamp: int) -> Copy:
    """Of a publication that depends on one of 3 that nobody has; for node 0 alone."""
    payload = b"%d of %d" % (counter, source)
    publication = Publication(source, T, counter, Batch(counter, (payload,)), {3: 2}, digest=0, stamp=stamp)
    return Copy(0, 0, 100 + counter, {0: 1}, {}, publication)


def delivered_when_3_is_lost(*received: tuple[int, int, int]) -> list[bytes]:
    """What node 0 delivers, in its order, when it has received these ⟨source, counter, stamp⟩ and 3 crashes."""
    wire = members_of(range(4))
    for source, counter, stamp in received:
        wire._carry_out(0, wire.peers[0].receive(source, copy_of(source, counter, stamp)))
    assert wire.delivered[0] == []
    wire.crash(3)
    report(wire, 3)
    return [payload for _, payload in wire.delivered[0]]


def test_two_with_the_same_stamp_that_depend_on_a_lost_message_do_not_wait_for_each_other() -> None:
    delivered = delivered_when_3_is_lost((1, 2, 9), (2, 2, 9))

    assert sorted(delivered) == [b"2 of 1", b"2 of 2"]


def test_of_several_that_depend_on_a_lost_message_the_lowest_stamp_comes_first_though_a_source_has_two() -> (
    None
):
    delivered = delivered_when_3_is_lost((1, 2, 9), (1, 3, 11), (2, 2, 10))

    assert delivered == [b"2 of 1", b"2 of 2", b"3 of 1"]


# Others.


@pytest.mark.parametrize("items", [1, 2, 3])
def test_received_names_all_counters_of_a_batch(items: int) -> None:
    wire = members_of(range(2))
    for _ in range(1 + items):
        wire.publish(0, T, b"m")
    wire.run()

    received = [tuple(output.counters) for output in wire.outputs[1] if isinstance(output, Received)]

    assert received == [(2,), (3, 4, 5)[:items]]


def relay_whose_copy_is_acknowledged_while_it_boots(sender: int, **reports: Report) -> list[Output]:
    """0 is about to pass a SUB of 2 on to 1, as its first copy. An acknowledgement of that comes from `sender` before
    it is up, which no correct node sends. Returns what 0 says when it is up."""
    peer = Peer(0, range(4), incarnation=1)
    peer.start()
    living = {1: Card(0), 2: Card(0)}
    for other, card in living.items():
        peer.receive(other, Welcome(0, 1, card, {}, 0, living, is_up=False, admit=False))
    peer.receive(2, Copy(0, 1, 1, {0: 1, 1: 0}, {}, Subscription(2, T, 1)))
    told = {int(node[1:]): report for node, report in reports.items()}
    peer.receive(sender, Ack(0, 1, 1, told, repaired=False, dead={}, clock=0))
    outputs = peer.suspect(3, 0)
    assert peer.is_up
    assert any(isinstance(output, Send) and isinstance(output.message, Copy) for output in outputs)
    return outputs


def acknowledges(outputs: list[Output]) -> bool:
    return any(isinstance(output, Send) and isinstance(output.message, Ack) for output in outputs)


def test_what_was_acknowledged_by_another_while_a_node_booted_does_not_count() -> None:
    assert not acknowledges(relay_whose_copy_is_acknowledged_while_it_boots(2))


def test_an_acknowledgement_with_strangers_reports_that_came_while_a_node_booted_does_not_count() -> None:
    outputs = relay_whose_copy_is_acknowledged_while_it_boots(1, x2=Report(1, 0, is_member=True))

    assert not acknowledges(outputs)


def test_a_node_that_goes_up_on_a_report_and_finds_that_it_was_declared_dead_starts_again() -> None:
    """What 1 sent while it booted, and is looked at now, says so."""
    peer = Peer(0, range(3), incarnation=1)
    peer.start()
    card = Card(0)
    peer.receive(1, Welcome(0, 1, card, dead={}, digest=0, living={1: card}, is_up=False, admit=False))
    peer.receive(1, Copy(0, 1, 1, {0: 1}, {0: 1}, Subscription(1, T, 1)))
    assert not peer.is_up
    assert peer.incarnation == 1

    outputs = peer.suspect(2, 0)

    assert Up(1, founded=True) in outputs
    assert Restarted(2, (), RestartReason.DECLARED_CRASHED) in outputs
    assert peer.incarnation == 2
