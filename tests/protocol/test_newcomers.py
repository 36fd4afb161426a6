"""Nodes that nobody knew come, with seeds; ids are used again, or taken. Directed traces."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ablations import (
    copies_to_nobody_are_waited_for,
    fences_name_who_speaks,
    newcomers_go_up_alone,
    nobody_tells_that_it_is_up,
    nodes_that_are_up_do_not_greet,
    taken_ids_are_fenced,
    welcomes_do_not_tell_who_is_no_more,
)
from crash_stories import T, at_work, crash_without_a_trace, is_flush, members_of, report
from vcubeps.protocol import local as local_module
from vcubeps.protocol.batches import Batch
from vcubeps.protocol.errors import UsageError
from vcubeps.protocol.limits import MAX_ADDRESS_BYTES, MAX_GRAVES, MAX_IDENTITY
from vcubeps.protocol.messages import (
    ANY_INCARNATION,
    Ack,
    Card,
    Copy,
    Fence,
    Hello,
    Over,
    Publication,
    Subscription,
    Taken,
    Welcome,
)
from vcubeps.protocol.outputs import Arrived, Departed, IdTaken, Output, Restarted, RestartReason, Send, Up
from vcubeps.protocol.peer import Peer
from wire import Wire


def is_welcome(message: Any) -> bool:
    return isinstance(message, Welcome)


def is_hello(message: Any) -> bool:
    return isinstance(message, Hello)


def present_everywhere(wire: Wire) -> bool:
    """Whether all that are there deal with all others that are there, and with nobody else."""
    living = {node: peer.incarnation for node, peer in wire.peers.items()}
    return all(
        peer.is_up and dict(peer.present) == {x: i for x, i in living.items() if x != node}
        for node, peer in wire.peers.items()
    )


def all_talk_to_each_other(wire: Wire) -> bool:
    """Whether what one of them publishes, when all have joined, reaches all."""
    for node in sorted(wire.peers):
        if wire.peers[node].can_subscribe(T):
            wire.subscribe(node, T)
            wire.run()
    speaker = max(wire.peers)
    wire.publish(speaker, T, b"hello")
    wire.run()
    return all((speaker, b"hello") in wire.delivered[node] for node in wire.peers)


def outputs_of(wire: Wire, node: int, kind: type) -> list[Any]:
    return [output for output in wire.outputs[node] if isinstance(output, kind)]


def sent(outputs: list[Output], kind: type) -> list[tuple[int, Any]]:
    """Messages of one kind, with their destinations."""
    return [
        (output.destination, output.message)
        for output in outputs
        if isinstance(output, Send) and isinstance(output.message, kind)
    ]


def asked(outputs: list[Output]) -> list[int]:
    """Who is said Hello to."""
    return [destination for destination, _ in sent(outputs, Hello)]


def hello_of(
    incarnation: int = 0, identity: int = 0, address: bytes = b"", news: dict[int, Card] | None = None
) -> Hello:
    return Hello(
        incarnation, ANY_INCARNATION, Card(incarnation, identity, address), digest=0, news=news or {}
    )


def welcome_of(node: int, *dealt_with: int, is_up: bool = True) -> Welcome:
    """Of first incarnation `node`, which deals with first incarnations only, to one."""
    living = {other: Card(0) for other in (node, *dealt_with)}
    return Welcome(0, 0, Card(0), {}, digest=0, living=living, is_up=is_up, admit=is_up)


# Coming.


@pytest.mark.parametrize("seeds", [(0,), (2,), (0, 1), (0, 1, 2, 3)], ids=str)
def test_a_newcomer_learns_from_its_seeds_who_is_there_and_is_let_in_by_all(seeds: tuple[int, ...]) -> None:
    wire = members_of(range(4))

    wire.arrive(9, seeds)
    wire.run()

    assert wire.outputs[9][-1] == Up(0)
    assert present_everywhere(wire)
    assert all_talk_to_each_other(wire)
    assert at_work(wire) == {}


def test_a_newcomer_is_not_up_before_all_have_let_it_in() -> None:
    wire = members_of(range(4))
    wire.hold(2, 9, is_welcome)

    wire.arrive(9, [0])
    wire.run()

    assert not wire.peers[9].is_up
    assert not wire.peers[9].can_subscribe(T)


def newcomer_without_answers() -> Wire:
    wire = members_of(range(2))
    wire.hold(9, 0)
    wire.arrive(9, [0])
    wire.run()
    return wire


def test_a_newcomer_that_nobody_has_answered_is_not_up() -> None:
    assert not newcomer_without_answers().peers[9].is_up


def test_without_that_rule_it_is_up_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    newcomers_go_up_alone(monkeypatch)

    assert newcomer_without_answers().peers[9].is_up


def test_two_newcomers_that_know_only_each_other_do_not_go_up() -> None:
    wire = Wire(Peer, [0])
    wire.arrive(8, [9])
    wire.arrive(9, [8])

    wire.run()

    assert not wire.peers[8].is_up
    assert not wire.peers[9].is_up


def test_a_newcomer_that_has_been_up_and_starts_again_may_come_up_alone() -> None:
    """All others may be gone for good. A newcomer that has never been up would go on looking for them."""
    wire = Wire(Peer, [0])
    wire.arrive(9, [0])
    wire.run()
    assert wire.peers[9].is_up
    wire.crash(0)

    outputs = wire.peers[9].restart() + wire.peers[9].restart() + wire.peers[9].suspect(0, 0)

    assert outputs[-1] == Up(2, founded=True)


def test_a_newcomer_whose_seed_is_another_newcomer_comes_up_with_it() -> None:
    wire = members_of(range(4))
    wire.arrive(8, [0])
    wire.arrive(9, [8])

    wire.run()

    assert present_everywhere(wire)


def test_a_newcomer_goes_on_with_another_seed_if_one_is_not_there() -> None:
    wire = members_of(range(4))

    wire.arrive(9, [0, 77])
    wire.run()

    assert present_everywhere(wire)


def test_a_seed_that_dies_before_it_has_answered_is_made_up_for_by_another() -> None:
    wire = members_of(range(4))
    wire.hold(9, 0)
    wire.arrive(9, [0, 1])
    wire.run()

    crash_without_a_trace(wire, 0)
    report(wire, 0)

    assert present_everywhere(wire)
    assert all_talk_to_each_other(wire)


@pytest.mark.parametrize("steps", range(12))
def test_a_seed_may_die_at_any_moment_of_the_join(steps: int) -> None:
    wire = members_of(range(4))
    wire.arrive(9, [0, 3])
    for _ in range(steps):
        wire.step()

    crash_without_a_trace(wire, 0)
    report(wire, 0)

    assert present_everywhere(wire)
    assert all_talk_to_each_other(wire)
    assert at_work(wire) == {}


@pytest.mark.parametrize("seeds", [lambda node: [0], lambda node: [node % 4], lambda node: [0, node - 1]])
def test_many_newcomers_at_once_all_come_up(seeds: Callable[[int], list[int]]) -> None:
    wire = members_of(range(4))

    for node in range(4, 16):
        wire.arrive(node, seeds(node))
    wire.run()

    assert present_everywhere(wire)
    assert all_talk_to_each_other(wire)


def test_a_newcomer_that_comes_during_a_crash_is_let_in_when_that_is_final() -> None:
    wire = members_of(range(4))
    wire.hold(2, 0, is_flush)
    crash_without_a_trace(wire, 3)
    report(wire, 3)

    wire.arrive(9, [0])
    wire.run()
    was_up = wire.peers[9].is_up
    wire.release(2, 0)
    wire.run()

    assert not was_up
    assert present_everywhere(wire)
    assert 3 not in wire.peers[9].present


def waits_for_a_flush() -> Wire:
    """3 has crashed, and that is not final at 0, which lets nobody in before it is."""
    wire = members_of(range(4))
    wire.hold(2, 0, is_flush)
    crash_without_a_trace(wire, 3)
    report(wire, 3)
    return wire


def test_a_newcomer_that_dies_while_it_waits_to_be_let_in_is_not_let_in() -> None:
    """1 has let it in, and 0 hears of its end from 1."""
    wire = waits_for_a_flush()
    wire.arrive(9, [0, 1])
    wire.run()
    crash_without_a_trace(wire, 9)
    wire.suspect(1, 9, 0)
    wire.run()

    wire.release(2, 0)
    wire.run()

    assert Arrived(9, 0, b"") in wire.outputs[1]
    assert Arrived(9, 0, b"") not in wire.outputs[0]
    assert present_everywhere(wire)
    assert at_work(wire) == {}


@pytest.mark.parametrize("incarnations", [(0, 1), (1, 0)], ids=str)
def test_of_two_incarnations_that_wait_to_be_let_in_the_newer_one_is(incarnations: tuple[int, int]) -> None:
    """Whichever comes first: a Hello may overtake."""
    wire = waits_for_a_flush()
    for incarnation in incarnations:
        wire.receive(0, 9, hello_of(incarnation, identity=9))

    wire.release(2, 0)
    wire.run()

    assert [arrived for arrived in outputs_of(wire, 0, Arrived) if arrived.node == 9] == [Arrived(9, 1, b"")]


@pytest.mark.parametrize("steps", range(12))
def test_a_node_may_crash_at_any_moment_of_a_newcomers_join(steps: int) -> None:
    wire = members_of(range(4))
    wire.arrive(9, [0])
    for _ in range(steps):
        wire.step()

    crash_without_a_trace(wire, 2)
    report(wire, 2)

    assert present_everywhere(wire)
    assert at_work(wire) == {}


@pytest.mark.parametrize("steps", range(12))
def test_a_newcomer_that_dies_during_its_join_is_forgotten_by_all(steps: int) -> None:
    wire = members_of(range(4))
    wire.arrive(9, [0])
    for _ in range(steps):
        wire.step()

    crash_without_a_trace(wire, 9)
    for observer in range(4):  # only those who have heard of it are told
        if wire.peers[observer].known_incarnation(9) == 0:
            wire.suspect(observer, 9, 0)
    wire.run()

    assert present_everywhere(wire)
    assert all(9 not in peer._local.known for peer in wire.peers.values())
    assert at_work(wire) == {}


def seed_is_gone_and_forgotten_before_the_others_hear_of_the_newcomer() -> Wire:
    """3 lets newcomer 9 in and crashes. Nobody reports that to 9, and when it asks the others, it is over for them."""
    wire = members_of(range(4))
    for other in range(3):
        wire.hold(9, other)
    wire.arrive(9, [3])
    wire.run()
    crash_without_a_trace(wire, 3)
    for observer in range(3):
        wire.suspect(observer, 3, 0)
    wire.run()
    for other in range(3):
        wire.release(9, other)
    wire.run()
    return wire


def test_a_newcomer_is_told_who_is_no_more() -> None:
    assert present_everywhere(seed_is_gone_and_forgotten_before_the_others_hear_of_the_newcomer())


def test_without_that_rule_a_newcomer_waits_for_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which comes, sooner or later: no promise breaks, it takes longer. So no random schedule can tell."""
    welcomes_do_not_tell_who_is_no_more(monkeypatch)
    wire = seed_is_gone_and_forgotten_before_the_others_hear_of_the_newcomer()
    was_up = wire.peers[9].is_up

    wire.suspect(9, 3, 0)
    wire.run()

    assert not was_up
    assert present_everywhere(wire)


def test_a_welcome_calls_nobody_dead_who_has_just_been_let_in() -> None:
    """8 is let in because 9 has heard of it."""
    peer = Peer(0, range(2))

    outputs = peer.receive(9, hello_of(identity=9, news={8: Card(0, 8)}))

    assert peer.present.keys() == {1, 8, 9}
    assert {node: welcome.dead for node, welcome in sent(outputs, Welcome)} == {8: {}, 9: {}}


def test_a_hello_that_names_its_receiver_is_answered_like_any_other() -> None:
    """A Welcome without a list may overtake the one with it: then the newcomer does not know yet whom the sender deals
    with, and names all whom it knows of."""
    peer = Peer(0, range(2))
    peer.receive(9, hello_of(identity=9))

    outputs = peer.receive(9, hello_of(identity=9, news={0: Card(0)}))

    assert [node for node, _ in sent(outputs, Welcome)] == [9]
    assert peer.present.keys() == {1, 9}


def test_a_hello_that_names_a_receiver_that_boots_is_answered_like_any_other() -> None:
    peer = Peer(0, range(2), incarnation=1)
    peer.start()

    outputs = peer.receive(9, hello_of(identity=9, news={0: Card(1)}))

    assert [node for node, _ in sent(outputs, Welcome)] == [9]
    assert peer.present.keys() == {9}


def test_who_is_named_in_a_hello_does_not_answer_that_it_is_dead_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Though all incarnations up to 4 are no more, of any node that nobody remembers."""
    monkeypatch.setattr(local_module, "MAX_GRAVES", 0)
    wire = members_of(range(2))
    wire.arrive(10, [0], incarnation=4)
    wire.run()
    wire.crash(10)
    report(wire, 10)
    assert wire.peers[0]._local.ended(77) == 4

    outputs = wire.peers[0].receive(9, hello_of(7, identity=9, news={0: Card(0)}))

    assert [welcome.dead for _, welcome in sent(outputs, Welcome)] == [{}]


def test_a_hello_names_those_only_of_whom_its_receiver_has_not_been_heard_to_know() -> None:
    peer = Peer(9, seeds=[0], identity=9)
    peer.start()
    peer.receive(0, welcome_of(0, 1))
    peer.receive(1, welcome_of(1, 2))

    outputs = peer.receive(2, welcome_of(2, 0, 1))

    assert {node: set(hello.news) for node, hello in sent(outputs, Hello)} == {0: {2}, 1: {0}}


def test_a_seed_is_asked_once() -> None:
    wire = Wire(Peer, [0])

    wire.arrive(9, [0])
    wire.run()

    assert present_everywhere(wire)
    assert asked(wire.outputs[9]) == [0]


def newcomer_among_newcomers() -> Peer:
    """9 has been told by its seed that 8 is there, and has asked 8."""
    peer = Peer(9, seeds=[0], identity=9)
    peer.start()
    assert asked(peer.receive(0, welcome_of(0, 8))) == [8]
    return peer


def test_whoever_says_hello_to_one_that_boots_is_asked_back_once() -> None:
    """What was sent to it before may have been dropped; what is sent now is not."""
    peer = newcomer_among_newcomers()

    outputs = [peer.receive(8, hello_of(identity=8)) for _ in range(3)]

    assert [asked(each) for each in outputs] == [[8], [], []]


def test_whoever_is_met_by_its_hello_is_asked_once() -> None:
    peer = newcomer_among_newcomers()

    outputs = peer.receive(7, hello_of(identity=7))

    assert asked(outputs) == [7]


def test_whoever_has_answered_is_not_asked_back() -> None:
    peer = newcomer_among_newcomers()
    peer.receive(8, welcome_of(8, 0, 3))
    assert not peer.is_up

    outputs = peer.receive(8, hello_of(identity=8))

    assert asked(outputs) == []


def test_whoever_lets_one_in_that_has_not_heard_of_it_is_asked_when_it_says_something() -> None:
    """1 has been told of 9, and its Welcome is slow."""
    peer = Peer(9, seeds=[0], identity=9)
    peer.start()

    outputs = peer.receive(1, Copy(0, 0, 1, {9: 0}, {}, Subscription(1, T, 1)))

    assert asked(outputs) == [1]


def test_arrivals_and_departures_are_told() -> None:
    wire = members_of(range(2))
    wire.arrive(9, [0])
    wire.run()

    crash_without_a_trace(wire, 9)
    report(wire, 9)

    for node in (0, 1):
        assert Arrived(9, 0, b"") in wire.outputs[node]
        assert wire.outputs[node].index(Departed(9, 0)) > wire.outputs[node].index(Arrived(9, 0, b""))


def test_a_newcomer_arrives_at_itself_never() -> None:
    wire = members_of(range(4))

    wire.arrive(9, [0, 1])
    wire.run()

    assert 9 not in [arrived.node for arrived in outputs_of(wire, 9, Arrived)]


def test_a_newcomer_that_is_falsely_suspected_comes_back_with_its_seeds() -> None:
    wire = members_of(range(4))
    wire.arrive(9, [0])
    wire.run()

    wire.suspect(2, 9, 0)
    wire.run()

    assert wire.peers[9].incarnation == 1
    assert present_everywhere(wire)


def relay_sends_to_a_newcomer_that_it_has_not_let_in() -> Wire:
    """0 lets 5 in and subscribes by way of 4, which has not heard of 5. 5 starts again before the copy reaches it, and
    4 hears of that before it hears that there was another before."""
    wire = Wire(Peer, (0, 4))
    wire.hold(5, 4)
    wire.arrive(5, [0, 4])
    wire.run()
    wire.hold(4, 5)
    wire.subscribe(0, T)
    wire.run()
    assert wire.peers[4].footprint()["copies"] == 1
    crash_without_a_trace(wire, 5)
    wire.release(5, 4)
    wire.release(4, 5)
    wire.hold(0, 4)
    wire.recover(5)
    wire.run()
    wire.release(0, 4)
    wire.run()
    return wire


def test_a_copy_to_a_newcomer_that_was_never_let_in_is_given_up_when_a_later_one_comes() -> None:
    wire = relay_sends_to_a_newcomer_that_it_has_not_let_in()

    assert (0, T) in wire.subscribed
    assert present_everywhere(wire)
    assert at_work(wire) == {}


def test_otherwise_it_is_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    copies_to_nobody_are_waited_for(monkeypatch)

    assert (0, T) not in relay_sends_to_a_newcomer_that_it_has_not_let_in().subscribed


def test_a_relay_does_not_serve_an_incarnation_that_it_has_served_before_and_that_is_no_more() -> None:
    """4 publishes twice by way of 0, to 1 as well, which 0 hears of in its next incarnation only."""
    relay = members_of((0, 4)).peers[0]

    def receive_publication(counter: int) -> list[Output]:
        publication = Publication(4, T, counter, Batch(counter, (b"m",)), {}, digest=0, stamp=counter)
        return relay.receive(4, Copy(0, 0, counter, {0: 1, 1: 1}, {}, publication))

    served = receive_publication(2)
    assert [output.destination for output in served if isinstance(output, Send)] == [1]
    relay.receive(1, Hello(1, ANY_INCARNATION, Card(1), 0, {}))

    outputs = receive_publication(3)

    [sent] = [output for output in outputs if isinstance(output, Send)]
    assert (sent.destination, type(sent.message)) == (4, Ack)


def newcomer_asks_while_all_boot() -> Wire:
    """0 and 1 start again together, and 5 asks 0 meanwhile: when 0 and 1 go up, everybody has answered everybody."""
    wire = Wire(Peer, range(2), ran_before=True)
    wire.hold(0, 1)
    wire.hold(1, 0)
    wire.arrive(5, [0, 1], incarnation=9)
    wire.run()
    wire.release(0, 1)
    wire.release(1, 0)
    wire.run()
    return wire


def test_who_goes_up_tells_newcomers_that_boot_with_it() -> None:
    wire = newcomer_asks_while_all_boot()

    assert present_everywhere(wire)
    assert all_talk_to_each_other(wire)


def test_otherwise_they_wait_until_they_greet_again(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody_tells_that_it_is_up(monkeypatch)
    wire = newcomer_asks_while_all_boot()
    was_up = wire.peers[5].is_up

    wire.greet(5, 0)
    wire.run()

    assert not was_up
    assert present_everywhere(wire)


# Those who come up by themselves.


def only_acquaintance_is_gone() -> Wire:
    """0 is down when 2 lets newcomer 1 in. 2 crashes, and 0, which has heard of nobody else, comes up by itself."""
    wire = Wire(Peer, (0, 2))
    crash_without_a_trace(wire, 0)
    report(wire, 0)
    wire.arrive(1, [2])
    wire.run()
    crash_without_a_trace(wire, 2)
    report(wire, 2)
    wire.recover(0)
    wire.run()
    wire.suspect(0, 2, 0)
    assert wire.outputs[0][-1] == Up(1, founded=True)
    assert not wire.peers[0].present
    return wire


def test_a_node_that_came_up_by_itself_finds_those_whom_it_greets() -> None:
    wire = only_acquaintance_is_gone()

    wire.greet(0, 1)
    wire.run()

    assert Restarted(2, (), RestartReason.CAME_UP_APART) in wire.outputs[0]
    assert Up(2) in wire.outputs[0]
    assert present_everywhere(wire)
    assert all_talk_to_each_other(wire)


def test_if_only_those_who_boot_greeted_it_would_not(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes_that_are_up_do_not_greet(monkeypatch)
    wire = only_acquaintance_is_gone()

    wire.greet(0, 1)
    wire.run()

    assert not present_everywhere(wire)


def test_both_of_two_clusters_are_one_after_one_has_greeted_the_other() -> None:
    """Newcomer 3 has come to 0 alone."""
    wire = only_acquaintance_is_gone()
    wire.arrive(3, [0])
    wire.run()

    wire.greet(0, 1)
    wire.run()

    assert present_everywhere(wire)
    assert all_talk_to_each_other(wire)
    assert at_work(wire) == {}


def test_greeting_those_who_are_there_anyway_has_no_effect() -> None:
    wire = members_of(range(4))

    wire.greet(0, 1)

    assert not wire.in_flight


def test_a_greeting_that_comes_when_both_deal_with_each_other_has_no_effect() -> None:
    """0 greets 9, which it does not know; 9 is let in before that arrives."""
    wire = members_of(range(2))
    wire.hold(9, 0)
    wire.hold(0, 9, is_hello)
    wire.arrive(9, [1])
    wire.greet(0, 9)
    wire.release(9, 0)
    wire.run()
    assert present_everywhere(wire)

    wire.release(0, 9)
    wire.run()

    assert present_everywhere(wire)
    assert outputs_of(wire, 0, Restarted) == outputs_of(wire, 9, Restarted) == []


def test_greeting_nobody_has_no_effect() -> None:
    wire = members_of(range(4))

    wire.greet(0, 9)
    wire.run()

    assert present_everywhere(wire)
    assert at_work(wire) == {}


# Addresses.


def with_addresses(count: int) -> Wire:
    """So many nodes that start together; node 1 is at b"host-1", and so on."""
    addresses = {node: b"host-%d" % node for node in range(count)}
    wire = Wire(partial(Peer, addresses=addresses), range(count))
    wire.addresses.update({address: node for node, address in addresses.items()})
    return wire


def test_a_newcomer_is_told_the_addresses_of_those_who_were_there_from_the_start() -> None:
    wire = with_addresses(4)

    wire.arrive(9, [0], address=b"host-9")
    wire.run()

    told = {(a.node, a.address) for a in outputs_of(wire, 9, Arrived) if a.address}
    assert told == {(node, b"host-%d" % node) for node in range(4)}


def test_a_newcomer_is_told_by_its_seed_where_the_others_are() -> None:
    """It could not ask them otherwise."""
    wire = with_addresses(4)
    for other in (1, 2, 3):
        wire.hold(other, 9)

    wire.arrive(9, [0])
    wire.run()

    assert all(Arrived(other, 0, b"host-%d" % other) in wire.outputs[9] for other in (1, 2, 3))


def test_a_newcomer_is_told_where_one_of_the_first_nodes_is_that_has_come_back() -> None:
    wire = with_addresses(3)
    wire.crash(1)
    wire.recover(1)
    wire.run()
    wire.hold(1, 9)

    wire.arrive(9, [0])
    wire.run()

    assert Arrived(1, 1, b"host-1") in wire.outputs[9]


def test_an_address_that_becomes_known_later_is_told() -> None:
    wire = members_of(range(2))
    wire.hold(1, 9)
    wire.arrive(9, [0])
    wire.run()
    assert Arrived(1, 0, b"") in wire.outputs[9]

    wire.addresses[b"host-1"] = 1
    card = Card(0, 0, b"host-1")
    wire.receive(9, 1, Welcome(0, 0, card, {}, digest=0, living={1: card}, is_up=True, admit=True))

    assert Arrived(1, 0, b"host-1") in wire.outputs[9]


def test_the_address_of_one_that_was_let_in_on_the_word_of_another_is_told_when_it_says_hello() -> None:
    """8 had heard something of 9, and nothing from it."""
    peer = Peer(0, range(2))
    outputs = peer.receive(8, hello_of(identity=8, news={9: Card(5)}))
    assert Arrived(9, 5, b"") in outputs

    outputs = peer.receive(9, hello_of(5, identity=9, address=b"at 9"))

    assert outputs[0] == Arrived(9, 5, b"at 9")


@pytest.mark.parametrize("is_introduced_first", [True, False])
def test_what_a_newcomer_says_of_itself_counts_more_than_what_others_do(is_introduced_first: bool) -> None:
    """Others may have heard of it without its address."""
    wire = waits_for_a_flush()
    hellos = [(8, hello_of(identity=8, news={9: Card(5)})), (9, hello_of(5, identity=9, address=b"at 9"))]
    wire.addresses[b"at 9"] = 9
    for sender, hello in hellos if is_introduced_first else hellos[::-1]:
        wire.receive(0, sender, hello)

    wire.release(2, 0)
    wire.run()

    assert Arrived(9, 5, b"at 9") in wire.outputs[0]


def test_whom_a_node_deals_with_again_when_it_starts_again_is_told() -> None:
    """Also those that it held for dead: it may have been wrong."""
    wire = members_of(range(3))
    wire.hold(2, 0, is_flush)
    crash_without_a_trace(wire, 1)
    wire.suspect(0, 1, 0)

    wire.suspect(2, 0, 0)
    wire.run()

    since = wire.outputs[0].index(Restarted(1, (T,), RestartReason.DECLARED_CRASHED))
    assert Departed(1, 0) in wire.outputs[0][:since]
    assert Arrived(1, 0, b"") in wire.outputs[0][since:]


def test_where_they_are_is_told_with_it() -> None:
    wire = with_addresses(3)
    wire.hold(2, 0, is_flush)
    crash_without_a_trace(wire, 1)
    wire.suspect(0, 1, 0)

    wire.suspect(2, 0, 0)
    wire.run()

    since = wire.outputs[0].index(Restarted(1, (), RestartReason.DECLARED_CRASHED))
    assert Arrived(1, 0, b"host-1") in wire.outputs[0][since:]


def test_addresses_are_told_to_all() -> None:
    wire = members_of(range(4))
    wire.arrive(8, [0], address=b"at 8", identity=88)
    wire.run()

    wire.arrive(9, [1], address=b"at 9", identity=99)
    wire.run()

    assert all(Arrived(8, 0, b"at 8") in wire.outputs[node] for node in (0, 1, 2, 3, 9))
    assert all(Arrived(9, 0, b"at 9") in wire.outputs[node] for node in (0, 1, 2, 3, 8))


def test_an_address_may_change_with_the_incarnation() -> None:
    wire = members_of(range(2))
    wire.arrive(9, [0], address=b"here", identity=9)
    wire.run()
    wire.crash(9)

    wire.arrive(9, [0], address=b"there", identity=9, incarnation=1)
    wire.run()

    assert Arrived(9, 1, b"there") in wire.outputs[1]
    assert present_everywhere(wire)


# Who is heard of before it has introduced itself.


def booting_node() -> Peer:
    """Node 0 comes back and waits for 1."""
    peer = Peer(0, range(2), incarnation=1)
    peer.start()
    return peer


NOT_INTRODUCED = Over(5, 1, {7: 0})
"""A message to that node; it does not tell more of its sender than the incarnation."""


def arrivals(outputs: list[Output]) -> list[Output]:
    return [output for output in outputs if isinstance(output, Arrived)]


def told_taken(outputs: list[Output]) -> bool:
    return any(isinstance(output, Send) and isinstance(output.message, Taken) for output in outputs)


def test_whose_message_overtakes_its_hello_is_not_told_that_its_own_id_is_taken() -> None:
    peer = booting_node()
    peer.receive(9, NOT_INTRODUCED)

    outputs = peer.receive(9, hello_of(5, identity=3))

    assert not told_taken(outputs)
    assert any(isinstance(output, Send) and is_welcome(output.message) for output in outputs)


def test_after_its_hello_its_id_is_taken() -> None:
    peer = booting_node()
    peer.receive(9, NOT_INTRODUCED)
    peer.receive(9, hello_of(5, identity=3))

    outputs = peer.receive(9, hello_of(6, identity=4))

    assert told_taken(outputs)


def test_the_address_on_its_hello_is_told_once() -> None:
    peer = booting_node()
    before = peer.receive(9, NOT_INTRODUCED)

    first = peer.receive(9, hello_of(5, 3, b"at 9"))
    second = peer.receive(9, hello_of(5, 3, b"at 9"))

    assert arrivals(before) == [Arrived(9, 5, b"")]
    assert arrivals(first) == [Arrived(9, 5, b"at 9")]
    assert arrivals(second) == []


def test_what_it_says_later_does_not_make_its_address_unknown() -> None:
    peer = booting_node()
    peer.receive(9, hello_of(5, 3, b"at 9"))

    outputs = peer.receive(9, NOT_INTRODUCED)

    assert arrivals(outputs) == []
    [welcome] = [
        output.message
        for output in peer.receive(1, Hello(0, ANY_INCARNATION, Card(0), 0, {}))
        if isinstance(output, Send) and is_welcome(output.message)
    ]
    assert welcome.living[9] == Card(5, 3, b"at 9")


# Ids.


def test_an_id_that_was_used_before_goes_on_above_its_last_incarnation_after_one_fence() -> None:
    wire = members_of(range(4))
    wire.arrive(9, [0], incarnation=5)
    wire.run()
    wire.crash(9)
    report(wire, 9)

    wire.arrive(9, [0])
    wire.run()

    assert outputs_of(wire, 9, Restarted) == [Restarted(6, (), RestartReason.DECLARED_CRASHED)]
    assert present_everywhere(wire)


def test_an_id_whose_last_user_is_believed_alive_takes_its_place() -> None:
    """It came again without an identity, so that nobody can tell that it is another."""
    wire = members_of(range(4))
    wire.arrive(9, [0])
    wire.run()
    wire.crash(9)

    wire.arrive(9, [0], incarnation=1)
    wire.run()

    assert present_everywhere(wire)


def test_who_comes_with_an_id_that_another_has_is_told() -> None:
    wire = members_of(range(4))
    wire.arrive(9, [0], address=b"first", identity=1)
    wire.run()

    wire.arrive(9, [1], address=b"second", identity=2, place=1 << 20)
    wire.run()

    assert wire.outputs[1 << 20][-1] == IdTaken()
    assert not wire.peers[1 << 20].is_up
    assert wire.peers[9].is_up
    assert all(wire.peers[node]._local.cards[9].identity == 1 for node in range(4))


def second_comes_with_a_lower_incarnation_before_anybody_knows_that_the_first_has_gone() -> Wire:
    wire = members_of(range(4))
    wire.arrive(9, [0], identity=1, incarnation=5)
    wire.run()
    crash_without_a_trace(wire, 9)
    wire.arrive(9, [1], identity=2, incarnation=2)
    wire.run()
    return wire


def test_who_comes_second_with_a_lower_incarnation_is_told_too() -> None:
    wire = second_comes_with_a_lower_incarnation_before_anybody_knows_that_the_first_has_gone()

    assert wire.outputs[9][-1] == IdTaken()
    assert wire.peers[9].incarnation == 2


def test_fenced_instead_it_would_go_on_as_the_incarnation_that_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    taken_ids_are_fenced(monkeypatch)

    wire = second_comes_with_a_lower_incarnation_before_anybody_knows_that_the_first_has_gone()

    assert wire.peers[9].incarnation == wire.peers[0].present[9] == 5


def another_comes_with_the_id_of_one_that_has_gone() -> Wire:
    """As 1, where the other was 5."""
    wire = members_of(range(4))
    wire.arrive(9, [0], incarnation=5)
    wire.run()
    crash_without_a_trace(wire, 9)
    report(wire, 9)
    wire.arrive(9, [1], incarnation=1)
    wire.run()
    return wire


def test_an_id_is_used_again_above_its_last_incarnation() -> None:
    wire = another_comes_with_the_id_of_one_that_has_gone()

    assert [restarted.incarnation for restarted in outputs_of(wire, 9, Restarted)] == [6]
    assert present_everywhere(wire)


def test_a_fence_that_named_who_speaks_would_make_it_try_them_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No promise breaks: newcomers draw their first incarnation from many, and there would be as many restarts."""
    fences_name_who_speaks(monkeypatch)
    wire = another_comes_with_the_id_of_one_that_has_gone()

    assert [restarted.incarnation for restarted in outputs_of(wire, 9, Restarted)] == [2, 3, 4, 5, 6]


@pytest.mark.parametrize("steps", range(16))
def test_of_two_that_come_with_one_id_at_most_one_is_let_in_by_all_and_the_other_is_told(steps: int) -> None:
    wire = members_of(range(4))
    other = 1 << 20
    wire.arrive(9, [0], address=b"first", identity=1)
    for _ in range(steps):
        wire.step()

    wire.arrive(9, [3], address=b"second", identity=2, place=other)
    wire.run()

    told = {place for place in (9, other) if outputs_of(wire, place, IdTaken)}
    up = {place for place in (9, other) if wire.peers[place].is_up}
    assert told | up == {9, other}
    assert len(up) <= 1
    assert not told & up


def test_who_was_told_that_its_id_is_taken_may_come_with_another() -> None:
    wire = members_of(range(4))
    wire.arrive(9, [0], address=b"first", identity=1)
    wire.arrive(9, [3], address=b"second", identity=2, place=1 << 20)
    wire.run()
    for place in (9, 1 << 20):
        if not wire.peers[place].is_up:
            wire.crash(place)
    report(wire, *({9} - wire.peers.keys()))

    wire.arrive(10, [3], address=b"second", identity=2)
    wire.run()

    assert present_everywhere(wire)


def test_who_came_first_is_not_told() -> None:
    wire = members_of(range(2))
    wire.arrive(9, [0], address=b"first", identity=1)
    wire.run()
    before = len(wire.outputs[9])

    wire.arrive(9, [1], address=b"second", identity=2, place=1 << 20)
    wire.run()

    assert IdTaken() not in wire.outputs[9][before:]
    assert present_everywhere_but(wire, 1 << 20)


def test_who_has_the_id_is_not_meant_when_another_one_is_told_that_it_is_taken() -> None:
    """What is sent to somebody whose address is not known goes to whoever has the id."""
    wire = Wire(Peer, [0])
    wire.arrive(9, [0], identity=1)
    wire.run()

    assert wire.peers[9].receive(0, Taken(0, 0, identity=2)) == []


def present_everywhere_but(wire: Wire, place: int) -> bool:
    del wire.peers[place]
    return present_everywhere(wire)


def two_clusters_with_one_id() -> Wire:
    """Newcomer 9 comes to 0, which starts again and has forgotten it. Another one comes with the same id."""
    wire = Wire(Peer, [0])
    wire.arrive(9, [0], address=b"first", identity=1, incarnation=5)
    wire.run()
    crash_without_a_trace(wire, 0)
    wire.suspect(9, 0, 0)
    wire.recover(0)
    wire.run()
    wire.arrive(9, [0], address=b"second", identity=2, incarnation=8, place=1 << 20)
    wire.run()
    assert wire.peers[9].is_up
    assert wire.peers[1 << 20].is_up
    return wire


def test_who_is_up_and_finds_that_another_cluster_has_its_id_draws_another_one() -> None:
    wire = two_clusters_with_one_id()

    wire.greet(9, 0)
    wire.run()

    assert wire.outputs[9][-1] == IdTaken()


def test_a_newcomer_with_the_id_of_one_that_was_there_from_the_start_is_told() -> None:
    wire = members_of(range(4))

    wire.arrive(2, [0], address=b"second", identity=7, incarnation=9, place=1 << 20)
    wire.run()

    assert wire.outputs[1 << 20][-1] == IdTaken()
    assert outputs_of(wire, 2, Restarted) == []


# Leaving for good.


def test_who_has_left_for_good_is_forgotten_by_all() -> None:
    wire = members_of(range(4))
    for node in range(10, 20):
        wire.arrive(node, [0], address=b"%d" % node, identity=node)
        wire.run()
        wire.crash(node)
        report(wire, node)

    for peer in wire.peers.values():
        assert set(peer.present) | {peer.node} == {0, 1, 2, 3}
        assert peer._local.known.keys() == peer._local.living.keys()
        assert peer._local.cards.keys() == peer._local.known.keys()
        assert peer._local._graves == dict.fromkeys(range(10, 20), 0)
    assert at_work(wire) == {}


def test_graves_are_bounded_and_one_number_stands_for_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_module, "MAX_GRAVES", 3)
    wire = members_of(range(2))
    for node, incarnation in ((10, 4), (11, 1), (12, 0), (13, 2), (14, 0)):
        wire.arrive(node, [0], incarnation=incarnation)
        wire.run()
        wire.crash(node)
        report(wire, node)

    local = wire.peers[0]._local

    assert local._graves == {12: 0, 13: 2, 14: 5}  # 14 had to go on above all that were merged
    assert local.ended(10) == local.ended(11) == local.ended(77) == 4
    assert MAX_GRAVES == 4096


def test_a_newcomer_with_an_id_that_nobody_had_goes_on_above_the_graves_that_were_merged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local_module, "MAX_GRAVES", 1)
    wire = members_of(range(2))
    for node in (10, 11):
        wire.arrive(node, [0], incarnation=4)
        wire.run()
        wire.crash(node)
        report(wire, node)

    wire.arrive(77, [0])
    wire.run()

    assert wire.peers[77].incarnation == 5
    assert present_everywhere(wire)


def test_a_late_hello_of_one_that_is_gone_is_answered_by_a_fence() -> None:
    wire = members_of(range(2))
    wire.arrive(9, [0])
    wire.run()
    wire.crash(9)
    report(wire, 9)

    outputs = wire.peers[0].receive(9, Hello(0, ANY_INCARNATION, Card(0), 0, {}))

    assert outputs == [Send(9, Fence(0, ANY_INCARNATION, incarnation=0))]
    assert 9 not in wire.peers[0].present


# What it costs.


def test_an_admission_costs_each_of_64_at_most_four_messages() -> None:
    wire = Wire(Peer, range(64))
    before = {node: len(outputs_of(wire, node, Send)) for node in range(64)}

    wire.arrive(99, [17])
    wire.run()

    assert present_everywhere(wire)
    sent = {node: len(outputs_of(wire, node, Send)) - before[node] for node in range(64)}
    in_all = sum(sent.values()) + len(outputs_of(wire, 99, Send))
    assert in_all <= 4 * 64
    assert max(sent.values()) <= 4


def test_only_the_seed_tells_a_newcomer_the_list_of_all() -> None:
    """The others, whom it asks with the digest of the same list, need not."""
    wire = Wire(Peer, range(64))

    wire.arrive(99, [17])
    wire.run()

    sends = [send for node in range(64) for send in outputs_of(wire, node, Send)]
    lists = [send.message for send in sends if is_welcome(send.message) and send.message.living is not None]
    assert len(lists) == 1


# Calls that make no sense.


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"nodes": [9, 0], "seeds": [0]}, "give nodes or seeds, not both"),
        ({}, "node 9 knows of nobody else"),
        ({"seeds": [9]}, "node 9 knows of nobody else"),
        ({"seeds": [0]}, "a newcomer needs an identity: draw a number"),
        ({"seeds": [1 << 20]}, "node ids are whole numbers in 0…1048575, got 1048576"),
        ({"nodes": [9, 0], "identity": 3}, "the nodes that start a cluster have the identity 0"),
        ({"seeds": [0], "identity": -1}, "an identity has 64 bits, got -1"),
        ({"seeds": [0], "identity": MAX_IDENTITY + 1}, "an identity has 64 bits"),
        (
            {"seeds": [0], "identity": 1, "address": bytes(MAX_ADDRESS_BYTES + 1)},
            "the address has 513 bytes, the limit is 512",
        ),
        ({"seeds": [0], "identity": 1, "address": "host:1"}, "the address is bytes, got str"),
        ({"seeds": [0], "identity": 1, "listed_max": -1}, "0 recipients or more in any case, got -1"),
        ({"seeds": [0], "identity": 1, "voters": [-1]}, "node ids are whole numbers in 0…1048575, got -1"),
    ],
)
def test_a_newcomer_that_makes_no_sense_is_refused(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError) as error:
        Peer(9, **arguments)

    assert complaint in str(error.value)


def test_identity_and_address_may_be_as_large_as_their_limits() -> None:
    wire = members_of(range(2))

    wire.arrive(9, [0], identity=MAX_IDENTITY, address=bytes(MAX_ADDRESS_BYTES))
    wire.run()

    assert present_everywhere(wire)


@pytest.mark.parametrize("other", [0, -5, 1 << 20])
def test_only_other_nodes_can_be_greeted(other: int) -> None:
    peer = Peer(0, range(2))

    with pytest.raises(UsageError, match=f"cannot greet node {other}: name one of the other nodes"):
        peer.greet(other)
