"""The invariants written where a peer's state is declared can be checked, and each check fails when it should."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crash_stories import T, is_publication, members_of
from vcubeps.protocol.boot import Boot
from vcubeps.protocol.crashes import Crashes
from vcubeps.protocol.left_topics import Remains
from vcubeps.protocol.limits import MAX_GRAVES, MAX_LEFT_TOPICS
from vcubeps.protocol.messages import Card
from vcubeps.protocol.peer import Peer
from vcubeps.protocol.topic import Topic
from vcubeps.protocol.worker import Join, Leave, Worker
from vcubeps.sim.explore import Allowed, run_schedule, schedule_seed
from wire import Wire


def busy_wire() -> Wire:
    """Node 0 of three members has a broadcast under way, node 2 holds an answer back, and node 3 has crashed."""
    wire = members_of(range(4))
    wire.crash(3)
    wire.publish(1, T, b"question")
    wire.hold(1, 2, is_publication)
    wire.hold(2, 0)
    wire.run()
    wire.publish(0, T, b"answer")
    wire.run()
    wire.suspect(2, 3, 0)
    return wire


def topic_of(peer: Peer) -> Topic:
    topic = peer._broadcasts.workers[T].topic
    assert topic is not None
    return topic


def test_a_busy_peer_keeps_its_invariants() -> None:
    wire = busy_wire()
    for peer in wire.peers.values():
        peer.check()
    assert wire.peers[0].footprint()["copies"]
    assert wire.peers[2].footprint()["pending"]
    assert wire.peers[2].footprint()["crashes_not_final"]


def break_final(peer: Any) -> None:
    peer._local.final[1] = 0


def break_fresh(peer: Any) -> None:
    peer._local.fresh = {}


def break_known(peer: Any) -> None:
    peer._local.known[1] = 1


def break_presence(peer: Any) -> None:
    del peer._local.living[1]


def break_death(peer: Any) -> None:
    peer._local.dead[1] = 0


def break_dead(peer: Any) -> None:
    peer._local.known[3] = 1


def break_grave(peer: Any) -> None:
    peer._local._graves[1] = 0


def break_graves(peer: Any) -> None:
    peer._local._graves.update(dict.fromkeys(range(10, 11 + MAX_GRAVES), 0))


def break_cards(peer: Any) -> None:
    peer._local.cards[9] = Card(0, identity=1)


def break_digest_of_the_living(peer: Any) -> None:
    peer._local.digest ^= 1


def break_self(peer: Any) -> None:
    peer._local.known[peer.node] = peer._local.living[peer.node] = 0


def break_counter(peer: Any) -> None:
    peer._local.counter = 1 << 40


def break_booting(peer: Any) -> None:
    peer._boot = booting(peer)


def break_newcomers(peer: Any) -> None:
    peer._local.up = False
    peer._admission._hellos[1] = Card(1)


def booting(peer: Any) -> Boot:
    return Boot(peer._local, peer._crashes, peer._admission, lambda kept: None)


def break_silence(peer: Any) -> None:
    peer._local.up = False
    peer._boot = booting(peer)
    peer._boot._silent.clear()


def break_patience(peer: Any) -> None:
    peer._local.up = False
    peer._boot = booting(peer)
    peer._boot._awaited.add(1)


def break_reports(peer: Any) -> None:
    peer._aftermath._told[3] = {1: 0}


def break_flushes(peer: Any) -> None:
    peer._crashes._sequence[3] = 1


def break_kept_flushes(peer: Any) -> None:
    peer._crashes._ahead[1] = {}


def break_waiting(peer: Any) -> None:
    peer._crashes._waiting_for.discard(1)


def break_finality(peer: Any) -> None:
    for other in (0, 1):
        peer._crashes.note_flushed(other, {3: 0})


def break_left_topics(peer: Any) -> None:
    kept = {f"{number}": Remains({1: 1}) for number in range(MAX_LEFT_TOPICS + 1)}
    peer._broadcasts.left._topics.update(kept)


def break_left_topic(peer: Any) -> None:
    peer._broadcasts.left._topics["u"] = Remains({})


def break_idle_topic(peer: Any) -> None:
    peer._broadcasts.workers["u"] = Worker()


def break_join(peer: Any) -> None:
    peer._broadcasts.workers[T].queue.append(Join())


def break_join_order(peer: Any) -> None:
    peer._broadcasts.workers[T].queue.extend((Join(), (9, b"m")))


def break_wish(peer: Any) -> None:
    peer._broadcasts.workers[T].wanted = False


def break_pump(peer: Any) -> None:
    peer._broadcasts.workers[T].pumping = True


def break_digest(peer: Any) -> None:
    topic_of(peer).view.digest ^= 1


def break_left(peer: Any) -> None:
    topic_of(peer).view.left[1] = 99


def break_received(peer: Any) -> None:
    topic_of(peer).view.members[1].received = 0


def break_past(peer: Any) -> None:
    topic_of(peer).past.delivered[peer.node] = 1


def break_barrier(peer: Any) -> None:
    topic_of(peer).past.barrier[1] = 0


def break_doubt(peer: Any) -> None:
    past = topic_of(peer).past
    past.delivered[1], past.doubtful[1] = 9, 5


def break_knowledge(peer: Any) -> None:
    past = topic_of(peer).past
    past._known_before[1], past.delivered[1] = 9, 5


def break_queue(peer: Any) -> None:
    next(iter(topic_of(peer).holdback.queues.values())).clear()


def break_wait(peer: Any) -> None:
    topic_of(peer).holdback._waiting.clear()


def break_wait_twice(peer: Any) -> None:
    waiting = topic_of(peer).holdback._waiting
    waiting[7] = [source for sources in waiting.values() for source in sources]


def break_wait_for_nothing(peer: Any) -> None:
    topic_of(peer).holdback._waiting[7] = [7]


def break_closing(peer: Any) -> None:
    topic_of(peer).closing = True
    peer._broadcasts.workers[T].wanted = False


def break_addressed(peer: Any) -> None:
    topic_of(peer)._addressed.add((1, 1))


def break_leave(peer: Any) -> None:
    topic_of(peer).leaves_held[1, 5] = []


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (break_final, "node 1 is final as 0 and not dead"),
        (break_fresh, "fresh is {}, dead and not final is {3: 0}"),
        (break_known, "node 1 lives as 0, dealt with is 1"),
        (break_presence, "known is neither dead nor living"),
        (break_death, "both dead and living"),
        (break_dead, "incarnation 0 of 3 is dead and was dealt with already"),
        (break_grave, "a node that is there has a grave"),
        (break_graves, "too many graves"),
        (break_cards, "keeps cards of absent nodes"),
        (break_digest_of_the_living, "the digest is not that of the living"),
        (break_self, "counts itself among the others"),
        (break_counter, "counters ran over"),
        (break_booting, "boots although it is up"),
        (break_newcomers, "lets others in before it is let in itself"),
        (break_silence, "are silent instead of {0, 1}"),
        (break_patience, "awaits nodes that are known"),
        (break_reports, "keeps reports of {3}, who do not live"),
        (break_flushes, "keeps flushes of {3}, who do not live"),
        (break_kept_flushes, "keeps an empty set of flushes"),
        (break_waiting, "waits for {0} instead of {0, 1}"),
        (break_finality, "a crash is not final although all flushes are there"),
        (break_left_topics, "keeps more of left topics than it may"),
        (break_left_topic, "keeps nothing of a topic"),
        (break_idle_topic, "keeps the idle topic u"),
        (break_join, "a join waits for no leave"),
        (break_join_order, "a join is not at the end of the queue"),
        (break_wish, "the topic is not what the application asked for last"),
        (break_pump, "still starts broadcasts"),
        (break_digest, "the digest is not that of the members"),
        (break_left, "member 1 has left since"),
        (break_received, "of member 1 less was heard than its subscription"),
        (break_past, "own publications are kept as others'"),
        (break_barrier, "depends on nothing"),
        (break_doubt, "less is doubtful of node 1 than 9"),
        (break_knowledge, "has forgotten what it knew"),
        (break_queue, "a queue is empty"),
        (break_wait, "wait for something"),
        (break_wait_twice, "a source waits twice"),
        (break_wait_for_nothing, "nothing is held back of some of"),
        (break_closing, "takes messages in after the application left"),
        (break_addressed, "still notes what came while joining"),
        (break_leave, "an acknowledgement waits for a leave that is not held back"),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
def test_a_broken_invariant_is_named(damage: Callable[[Any], None], complaint: str) -> None:
    peer = busy_wire().peers[2]
    damage(peer)

    with pytest.raises(AssertionError) as error:
        peer.check()
    assert complaint in str(error.value)


def break_task(peer: Any) -> None:
    next(iter(peer._tree._outstanding.values())).task.finished = True


def break_child(peer: Any) -> None:
    next(iter(peer._tree._outstanding.values())).child = 3


def break_repair(peer: Any) -> None:
    copy = next(iter(peer._tree._outstanding.values()))
    peer._crashes.declare_dead({copy.child: 0})


def break_topic(peer: Any) -> None:
    worker = peer._broadcasts.workers[T]
    worker.topic, worker.wanted = None, False
    worker.queue.append(Leave())


def break_current(peer: Any) -> None:
    peer._broadcasts.workers[T].current.parent = 2


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (break_task, "of a task that does not wait for it"),
        (break_child, "who is not first"),
        (break_repair, "waits for the dead node"),
        (break_topic, "a broadcast is under way on a topic that has been left"),
        (break_current, "the broadcast under way is not an own one in progress"),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
def test_a_broken_invariant_of_a_broadcast_is_named(damage: Callable[[Any], None], complaint: str) -> None:
    peer = busy_wire().peers[0]
    damage(peer)

    with pytest.raises(AssertionError) as error:
        peer.check()
    assert complaint in str(error.value)


def test_the_explorer_reports_a_broken_invariant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Crashes, "_drop", lambda self, node: self._waiting_for.discard(node))
    allowed = Allowed(only=frozenset({"crash", "recover"}), faults=frozenset({"crash", "recover"}))
    outcomes = [run_schedule(schedule_seed(1, index), allowed, "checked") for index in range(20)]

    texts = [violation.text for outcome in outcomes for violation in outcome.violations]
    assert any("who do not live" in text for text in texts)
