"""Copies of publications that leave their recipients out: whoever has the source's view knows them, others ask."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from crash_stories import T, at_work, is_publication, is_subscription, report
from vcubeps.protocol.dissemination import Dissemination, Share
from vcubeps.protocol.limits import RECIPIENTS_LISTED
from vcubeps.protocol.messages import Ask, Copy, Publication, Unsubscription
from vcubeps.protocol.outputs import Acknowledged, Send, Unsubscribed
from vcubeps.protocol.peer import Peer
from wire import Wire


def wire_of(members: range | list[int], among: int, listed_max: int = 0) -> Wire:
    """Copies of publications on it leave out what is more than `listed_max` recipients, if they may."""
    wire = Wire(partial(Peer, listed_max=listed_max), range(among))
    for node in members:
        wire.subscribe(node, T)
        wire.run()
    return wire


def copies(wire: Wire, kind: type = Publication) -> list[tuple[int, int, Copy]]:
    sends = [(node, output) for node, output in wire.log if isinstance(output, Send)]
    return [
        (node, send.destination, send.message)
        for node, send in sends
        if isinstance(send.message, Copy) and isinstance(send.message.broadcast, kind)
    ]


def asks(wire: Wire) -> list[tuple[int, int]]:
    """Who has asked whom."""
    sends = [(node, output) for node, output in wire.log if isinstance(output, Send)]
    return [(node, send.destination) for node, send in sends if isinstance(send.message, Ask)]


def delivered_once(wire: Wire, source: int, payload: bytes, nodes: range | list[int]) -> bool:
    return all(wire.delivered[node].count((source, payload)) == 1 for node in nodes)


def one_joins_whom_the_source_does_not_know() -> Wire:
    """7 joins; the copy of its SUB for 0 is slow, so 0 has another view than 4, which passes on what 0 says."""
    wire = wire_of(range(7), 8)
    wire.hold(3, 1, is_subscription)
    wire.hold(5, 1, is_subscription)
    for relay in range(1, 8):
        wire.hold(relay, 0, is_subscription)
    wire.subscribe(7, T)
    wire.run()
    assert 7 not in wire.peers[0].members(T)
    assert 7 in wire.peers[4].members(T)
    return wire


def test_whoever_has_the_same_view_needs_no_list() -> None:
    wire = wire_of(range(8), 8)

    wire.publish(0, T, b"m")
    wire.run()

    assert [copy.recipients for _, _, copy in copies(wire)] == [None] * 7
    assert asks(wire) == []
    assert delivered_once(wire, 0, b"m", range(8))
    assert Acknowledged(T, 2) in wire.outputs[0]


@pytest.mark.parametrize("listed_max", [0, RECIPIENTS_LISTED], ids=["left out", "listed"])
def test_recipients_are_shared_out_once_as_long_as_members_and_the_living_are_the_same(
    listed_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the source and at relays: what takes long is done once."""
    wire = wire_of(range(8), 8, listed_max)
    share_out, shared_out = Dissemination._share_out, []

    def counted(self: Dissemination, *arguments: Any) -> Share:
        shared_out.append(self)
        return share_out(self, *arguments)

    monkeypatch.setattr(Dissemination, "_share_out", counted)
    wire.publish(0, T, b"1")
    wire.run()
    assert set(shared_out) == {wire.peers[node]._tree for node in (0, 2, 4, 6)}
    shared_out.clear()

    wire.publish(0, T, b"2")
    wire.run()

    assert delivered_once(wire, 0, b"2", range(8))
    assert shared_out == []


def test_who_passes_publications_on_does_so_to_those_who_have_come_since_the_last_one() -> None:
    wire = wire_of(range(7), 8)
    wire.publish(0, T, b"1")
    wire.run()

    wire.subscribe(7, T)
    wire.run()
    wire.publish(0, T, b"2")
    wire.run()

    assert asks(wire) == []
    assert delivered_once(wire, 0, b"2", range(8))


def test_few_recipients_are_listed() -> None:
    wire = wire_of(range(8), 8, listed_max=2)

    wire.publish(0, T, b"m")
    wire.run()

    listed = {(source, child): copy.recipients is not None for source, child, copy in copies(wire)}
    assert listed == {
        (0, 4): False, (0, 2): True, (0, 1): True, (2, 3): True, (4, 6): True, (4, 5): True, (6, 7): True,
    }  # fmt: skip


def test_as_many_recipients_as_usual_are_listed_unless_told_otherwise() -> None:
    """Of 64 members, node 0 has 32 behind its first child and 16 behind the next."""
    wire = Wire(Peer, range(64))
    for node in range(64):
        wire.subscribe(node, T)
        wire.run()

    wire.publish(0, T, b"m")
    wire.run()

    unlisted = {(source, child) for source, child, copy in copies(wire) if copy.recipients is None}
    assert 16 < RECIPIENTS_LISTED < 32
    assert unlisted == {(0, 32)}
    assert delivered_once(wire, 0, b"m", range(64))


def test_subscriptions_and_leaves_always_have_their_recipients() -> None:
    wire = wire_of(range(8), 8)
    wire.unsubscribe(5, T)
    wire.run()

    assert all(copy.recipients is not None for _, _, copy in copies(wire, Unsubscription))
    assert asks(wire) == []


def test_who_has_another_view_asks_and_gets_the_list() -> None:
    wire = one_joins_whom_the_source_does_not_know()

    wire.publish(0, T, b"m")
    wire.run()

    assert (4, 0) in asks(wire)
    to_4 = [copy for source, child, copy in copies(wire) if (source, child) == (0, 4)]
    assert [copy.recipients is None for copy in to_4] == [True, False]
    assert to_4[0].hop == to_4[1].hop
    assert to_4[1].recipients is not None
    assert to_4[1].recipients.keys() == {4, 5, 6}
    assert delivered_once(wire, 0, b"m", range(7))
    assert wire.delivered[7] == []


def test_who_had_to_ask_is_sent_the_list_as_long_as_the_view_is_the_same() -> None:
    wire = one_joins_whom_the_source_does_not_know()
    wire.publish(0, T, b"1")
    wire.run()
    before = len(asks(wire))

    wire.publish(0, T, b"2")
    wire.run()

    assert before > 0
    assert len(asks(wire)) == before
    assert delivered_once(wire, 0, b"2", range(7))


def one_joins_whom_source_and_relay_do_not_know() -> Wire:
    """Neither 0 nor 4 has heard that 7 joined; 6, which 4 passes on to, has."""
    wire = wire_of(range(7), 8)
    for source, destination in ((5, 4), (1, 0)):
        wire.hold(source, destination, is_subscription)
    wire.subscribe(7, T)
    wire.run()
    return wire


def test_a_leave_has_its_recipients_also_for_those_who_had_to_ask() -> None:
    wire = one_joins_whom_the_source_does_not_know()
    wire.publish(0, T, b"m")
    wire.run()
    assert (4, 0) in asks(wire)

    wire.unsubscribe(0, T)

    assert {child: copy.recipients is None for _, child, copy in copies(wire, Unsubscription)} == {
        4: False,
        2: False,
        1: False,
    }


def test_a_relay_that_has_left_answers_whoever_asks_all_the_same() -> None:
    """4 is leaving when it passes m on, and 0, which published it, has not heard of that."""
    wire = one_joins_whom_source_and_relay_do_not_know()
    wire.hold(6, 4, lambda message: isinstance(message, Ask))
    wire.hold(4, 0, lambda message: isinstance(message, Copy))
    wire.unsubscribe(4, T)
    wire.run()
    wire.publish(0, T, b"m")
    wire.run()
    wire.release(4, 0)
    wire.run()
    assert Unsubscribed(T) in wire.outputs[4]
    assert wire.delivered[6] == []

    wire.release(6, 4)
    wire.run()

    assert delivered_once(wire, 0, b"m", [0, 1, 2, 3, 5, 6])


def test_a_relay_too_remembers_who_had_to_ask() -> None:
    wire = one_joins_whom_source_and_relay_do_not_know()
    wire.publish(0, T, b"1")
    wire.run()
    assert asks(wire).count((6, 4)) == 1

    wire.publish(0, T, b"2")
    wire.run()

    assert asks(wire).count((6, 4)) == 1
    assert delivered_once(wire, 0, b"2", range(7))


def test_who_had_to_ask_need_not_be_sent_the_list_when_views_agree_again() -> None:
    wire = one_joins_whom_the_source_does_not_know()
    wire.publish(0, T, b"1")
    wire.run()
    for relay, to in [(3, 1), (5, 1), *((relay, 0) for relay in range(1, 8))]:
        wire.release(relay, to)
    wire.run()
    before = len(asks(wire))
    wire.log.clear()

    wire.publish(0, T, b"2")
    wire.run()

    assert before > 0
    assert asks(wire) == []
    assert [copy.recipients for _, _, copy in copies(wire)] == [None] * 7
    assert delivered_once(wire, 0, b"2", range(8))


def test_a_relay_that_has_left_asks_and_passes_on() -> None:
    wire = wire_of(range(8), 8)
    wire.hold(4, 0)
    wire.publish(0, T, b"m")
    [to_4] = [entry for entry in wire.in_flight if entry.destination == 4]
    wire.in_flight.remove(to_4)
    wire.unsubscribe(4, T)
    wire.run()
    wire.release(4, 0)
    wire.run()

    wire.in_flight.append(to_4)
    wire.run()

    assert asks(wire) == [(4, 0)]
    assert delivered_once(wire, 0, b"m", [0, 1, 2, 3, 5, 6, 7])
    assert wire.delivered[4] == []


def test_a_relay_that_does_not_serve_all_of_the_view_lists_those_it_serves() -> None:
    """4 takes 6 for dead, so that 7 gets from it what 6 would have passed on."""
    wire = wire_of(range(8), 8)
    wire.hold(4, 0)
    wire.crash(6)
    wire.suspect(4, 6, 0)

    wire.publish(0, T, b"m")
    wire.run()

    by_4 = {child: copy.recipients for source, child, copy in copies(wire) if source == 4}
    assert by_4[7] is not None
    assert by_4[7].keys() == {7}


def test_what_is_sent_again_after_a_crash_has_its_recipients() -> None:
    wire = wire_of(range(8), 8)
    wire.hold(0, 4)
    wire.publish(0, T, b"m")
    wire.run()

    wire.crash(4)
    report(wire, 4)

    again = [copy for source, child, copy in copies(wire) if (source, child) == (0, 5)]
    assert [set(copy.recipients or ()) for copy in again] == [{5, 6, 7}]
    assert delivered_once(wire, 0, b"m", [0, 1, 2, 3, 5, 6, 7])
    assert at_work(wire) == {}


@pytest.mark.parametrize("late", ["acknowledged", "repaired"])
def test_a_question_that_comes_late_has_no_effect(late: str) -> None:
    wire = wire_of(range(4), 4)
    wire.publish(0, T, b"m")
    hops = {entry.destination: entry.message.hop for entry in wire.in_flight}
    if late == "repaired":
        wire.crash(2)
        report(wire, 2)
        question: Any = Ask(0, 0, hops[2])
    else:
        wire.run()
        question = Ask(0, 0, hops[1])

    outputs = wire.peers[0].receive(2 if late == "repaired" else 1, question)

    assert [output for output in outputs if isinstance(output, Send) and is_publication(output.message)] == []


def test_the_question_has_no_effect_on_whoever_asks() -> None:
    """Until the list comes, it has not received anything."""
    wire = one_joins_whom_the_source_does_not_know()
    wire.hold(0, 4, lambda message: is_publication(message) and message.recipients is not None)

    wire.publish(0, T, b"m")
    wire.run()
    before = list(wire.received[4])
    wire.release(0, 4)
    wire.run()

    assert before == []
    assert wire.received[4] == [(0, 2)]


def test_a_source_that_dies_before_it_answers_is_settled_by_the_survivors() -> None:
    wire = one_joins_whom_the_source_does_not_know()
    wire.hold(0, 4, lambda message: is_publication(message) and message.recipients is not None)
    wire.publish(0, T, b"m")
    wire.run()

    wire.in_flight = [entry for entry in wire.in_flight if entry.source != 0]
    wire.crash(0)
    report(wire, 0)

    for relay in (3, 5):
        wire.release(relay, 1)
    wire.run()

    assert delivered_once(wire, 0, b"m", range(1, 7))
    assert at_work(wire) == {}
