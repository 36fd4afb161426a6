"""Every checker, on a story that breaks its promise and on one that does not."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from vcubeps.protocol.batches import Batch, batch_of
from vcubeps.protocol.errors import ProtocolViolation
from vcubeps.protocol.outputs import (
    Accepted,
    Acknowledged,
    Deliver,
    Output,
    Received,
    Restarted,
    RestartReason,
    Started,
    Subscribed,
    Unsubscribed,
    Up,
)
from vcubeps.sim.explore.checkers import CHECKER_NAMES, Monitor
from vcubeps.sim.explore.peers import Standing
from vcubeps.sim.explore.voting import Voting

ROOM = "room"
VOTING = Voting((0, 1, 2), relays=False, contact=10, suspicion=20, hasty=False, shapes=frozenset())


@dataclass
class StubPeer:
    """A peer as it is found at the end of a story."""

    view: dict[int, int] = field(default_factory=dict)
    incarnation: int = 0
    is_up: bool = True
    work: int = 0
    kept: frozenset[str] = frozenset()
    others: dict[int, int] = field(default_factory=dict)
    """Node → the incarnation of it that this one deals with, unless it is 0."""
    believed_dead: frozenset[int] = frozenset()
    misplaced: frozenset[int] = frozenset()
    """Nodes whose address it has wrong."""

    @property
    def present(self) -> dict[int, int]:
        return self.others

    def known_incarnation(self, node: int) -> int:
        return self.others.get(node, 0)

    def believes_dead(self, node: int) -> bool:
        return node in self.believed_dead

    def address_of(self, node: int) -> bytes:
        return b"here" if node not in self.misplaced else b"elsewhere"

    def members(self, topic: str) -> dict[int, int]:
        return self.view

    def footprint(self) -> dict[str, int]:
        return {"pending": self.work}

    def retained(self, topic: str) -> set[str]:
        return set(self.kept)


class Story:
    """A schedule told by hand. It keeps the peers' views right, unless the end is told otherwise."""

    def __init__(self, voting: Voting | None = None, winners: frozenset[int] = frozenset()) -> None:
        self.monitor = Monitor(voting, winners)
        self.time = 0
        self.isolated: set[int] = set()
        self.live_peers: dict[int, StubPeer] = {}
        self.incarnations: dict[int, int] = {}
        self.counters: dict[int, int] = {}

    def out(self, node: int, output: Output) -> None:
        self.time += 1
        self.monitor.on_output(self.time, node, self.incarnations.get(node, 0), output)

    def tell(self, name: str, node: int, *arguments: object) -> None:
        self.time += 1
        self.monitor.on_input(name, self.time, node, self.incarnations.get(node, 0), *arguments)

    def join(self, *nodes: int) -> None:
        for node in nodes:
            self.tell("subscribe", node, ROOM)
            self.counters[node] = self.counters.get(node, 0) + 100
            self.out(node, Subscribed(ROOM, self.counters[node]))
            self.live_peers.setdefault(node, StubPeer())

    def leave(self, node: int) -> None:
        self.tell("unsubscribe", node, ROOM)
        self.counters.pop(node)
        self.out(node, Unsubscribed(ROOM))

    def crash(self, node: int) -> None:
        self.tell("crash", node)
        self.counters.pop(node, None)
        self.live_peers.pop(node, None)

    def restart(self, node: int) -> None:
        incarnation = self.incarnations.get(node, 0) + 1
        self.out(node, Restarted(incarnation, (), RestartReason.DECLARED_CRASHED))
        self.incarnations[node] = incarnation
        self.counters.pop(node, None)

    def hold_dead(self, node: int, *dead: int, final: bool = True) -> None:
        """Of the nodes 0, 1 and 2 it holds these dead, as their present incarnations."""
        held = {other: self.incarnations.get(other, 0) for other in dead}
        living = frozenset({0, 1, 2} - set(dead))
        survivors = living if final else frozenset({0, 1, 2})
        self.tell("standing", node, Standing(held, held if final else {}, living, survivors))

    def accept(self, node: int, counter: int) -> None:
        self.tell("publish", node, ROOM, b"%d" % counter)
        self.out(node, Accepted(ROOM, counter))

    def start(self, node: int, counter: int, recipients: tuple[int, ...] = ()) -> None:
        self.accept(node, counter)
        self.out(node, Started(ROOM, Batch(counter, (b"%d" % counter,)), {}, recipients))

    def deliver(self, node: int, source: int, *counters: int) -> None:
        self.out(node, Deliver(ROOM, source, batch_of(tuple((c, b"%d" % c) for c in counters)), {}))

    def publish(self, node: int, counter: int, *receivers: int) -> None:
        """From acceptance to acknowledgement, delivered by the source and the receivers."""
        self.start(node, counter)
        for receiver in (node, *receivers):
            self.deliver(receiver, node, counter)
        self.out(node, Acknowledged(ROOM, counter))

    def violated(self, at_end: bool = True) -> set[str]:
        if at_end:
            for node, peer in self.live_peers.items():
                if not peer.view and node in self.counters:
                    peer.view = dict(self.counters)
            self.monitor.at_end(self)
        return {violation.checker for violation in self.monitor.violations}


@pytest.fixture
def story() -> Story:
    return Story()


@pytest.fixture
def vote() -> Story:
    """A story among three voters."""
    return Story(VOTING)


def test_an_ordinary_life_breaks_no_promise(story: Story) -> None:
    story.join(0, 1)
    story.publish(0, 201, 1)
    story.join(2)
    story.publish(1, 202, 0, 2)
    story.leave(0)
    story.publish(2, 203, 1)
    story.crash(1)
    story.publish(2, 204)
    story.join(0)
    story.publish(0, 205, 2)

    assert story.violated() == set()


class TestCausal:
    def test_trips_on_an_answer_before_its_question(self, story: Story) -> None:
        story.join(0, 1, 2)
        story.start(0, 201)
        story.deliver(1, 0, 201)
        story.start(1, 301)
        story.deliver(2, 1, 301)
        story.deliver(2, 0, 201)

        assert story.violated(at_end=False) == {"causal"}

    def test_trips_over_a_chain_whose_middle_the_node_never_gets(self, story: Story) -> None:
        story.join(0, 1, 2)
        story.start(0, 201)
        story.deliver(1, 0, 201)
        story.start(1, 301)
        story.deliver(2, 1, 301)  # 2 never delivers 201 and is no witness of it
        story.start(2, 401)
        story.join(3)
        story.deliver(3, 2, 401)
        story.deliver(3, 0, 201)

        assert "causal" in story.violated(at_end=False)

    def test_trips_across_a_rejoin(self, story: Story) -> None:
        story.join(0, 1, 2)
        story.start(0, 201)
        story.deliver(1, 0, 201)
        story.start(1, 301)
        story.deliver(2, 1, 301)
        story.leave(2)
        story.join(2)
        story.deliver(2, 0, 201)

        assert "causal" in story.violated(at_end=False)

    def test_trips_inside_a_batch_in_the_wrong_order(self, story: Story) -> None:
        story.join(0, 1)
        story.accept(0, 201)
        story.accept(0, 202)
        story.out(0, Started(ROOM, batch_of(((201, b"201"), (202, b"202"))), {}, ()))
        story.deliver(1, 0, 202, 201)

        assert "causal" in story.violated(at_end=False)

    def test_accepts_concurrent_publications_in_any_order(self, story: Story) -> None:
        story.join(0, 1, 2)
        story.start(0, 201)
        story.start(1, 301)
        story.deliver(2, 1, 301)
        story.deliver(2, 0, 201)

        assert story.violated(at_end=False) == set()

    def test_accepts_that_a_new_incarnation_knows_nothing(self, story: Story) -> None:
        story.join(0, 1, 2)
        story.start(0, 201)
        story.deliver(1, 0, 201)
        story.start(1, 301)
        story.deliver(2, 1, 301)
        story.out(2, Restarted(1, (ROOM,), RestartReason.DECLARED_CRASHED))
        story.incarnations[2] = 1
        story.join(2)
        story.deliver(2, 0, 201)

        assert story.violated(at_end=False) == set()


class TestIntegrity:
    def test_trips_on_a_phantom(self, story: Story) -> None:
        story.join(0, 1)
        story.deliver(1, 0, 201)

        assert story.violated(at_end=False) == {"integrity"}

    def test_trips_on_a_duplicate(self, story: Story) -> None:
        story.join(0, 1)
        story.publish(0, 201, 1, 1)

        assert story.violated() == {"integrity"}

    def test_trips_on_an_altered_payload(self, story: Story) -> None:
        story.join(0, 1)
        story.publish(0, 201)
        story.out(1, Deliver(ROOM, 0, Batch(201, (b"something else",)), {}))

        assert story.violated() == {"integrity"}

    def test_trips_on_a_source_that_delivers_what_it_did_not_publish(self, story: Story) -> None:
        story.join(0)
        story.deliver(0, 0, 201)

        assert story.violated(at_end=False) == {"integrity"}

    def test_trips_on_a_source_that_delivers_what_its_earlier_incarnation_published(
        self, story: Story
    ) -> None:
        story.join(0, 1)
        story.start(0, 201)
        story.crash(0)
        story.incarnations[0] = 1
        story.join(0)
        story.deliver(0, 0, 201)

        assert "integrity" in story.violated(at_end=False)

    def test_trips_on_a_broadcast_that_nobody_asked_for(self, story: Story) -> None:
        story.join(0)
        story.out(0, Started(ROOM, Batch(201, (b"201",)), {}, ()))

        assert story.violated(at_end=False) == {"integrity"}

    def test_trips_on_an_acceptance_without_an_offer(self, story: Story) -> None:
        story.join(0)
        story.out(0, Accepted(ROOM, 201))

        assert "integrity" in story.violated(at_end=False)

    def test_accepts_the_same_counter_of_two_sources(self, story: Story) -> None:
        story.join(0, 1)
        story.publish(0, 201, 1)
        story.publish(1, 201, 0)

        assert story.violated() == set()


class TestAfterUnsubscribe:
    def test_trips_on_a_delivery_after_leaving(self, story: Story) -> None:
        story.join(0, 1)
        story.start(0, 201)
        story.leave(1)
        story.deliver(1, 0, 201)

        assert story.violated(at_end=False) == {"after_unsubscribe"}

    def test_trips_on_an_own_publication_after_leaving(self, story: Story) -> None:
        story.join(0)
        story.start(0, 201)
        story.leave(0)
        story.deliver(0, 0, 201)

        assert story.violated(at_end=False) == {"after_unsubscribe"}

    def test_trips_on_a_delivery_before_the_subscription_is_in_effect(self, story: Story) -> None:
        story.join(0)
        story.start(0, 201)
        story.tell("subscribe", 1, ROOM)
        story.deliver(1, 0, 201)

        assert story.violated(at_end=False) == {"after_unsubscribe"}

    def test_accepts_a_delivery_after_joining_again(self, story: Story) -> None:
        story.join(0, 1)
        story.leave(1)
        story.join(1)
        story.publish(0, 201, 1)

        assert story.violated() == set()


class TestFifoReception:
    def test_trips_on_an_older_publication_after_a_newer_one(self, story: Story) -> None:
        story.out(1, Received(ROOM, 0, Batch(202, (b"",))))
        story.out(1, Received(ROOM, 0, Batch(201, (b"",))))

        assert story.violated(at_end=False) == {"fifo_reception"}

    def test_trips_on_a_second_reception(self, story: Story) -> None:
        story.out(1, Received(ROOM, 0, batch_of([(counter, b"") for counter in (201, 202)])))
        story.out(1, Received(ROOM, 0, batch_of([(counter, b"") for counter in (202, 203)])))

        assert story.violated(at_end=False) == {"fifo_reception"}

    def test_accepts_other_sources_and_topics_in_between_and_a_new_incarnation(self, story: Story) -> None:
        story.out(1, Received(ROOM, 0, Batch(205, (b"",))))
        story.out(1, Received(ROOM, 2, Batch(201, (b"",))))
        story.out(1, Received("attic", 0, Batch(202, (b"",))))
        story.tell("crash", 1)
        story.out(1, Received(ROOM, 0, Batch(205, (b"",))))

        assert story.violated(at_end=False) == set()


class TestFloors:
    def test_trips_on_what_the_subscription_said_would_not_come(self, story: Story) -> None:
        story.start(0, 201)
        story.out(1, Subscribed(ROOM, 100, {0: 201}))
        story.deliver(1, 0, 201)

        assert story.violated(at_end=False) == {"floors"}

    def test_trips_on_a_batch_that_begins_below_the_floor(self, story: Story) -> None:
        story.start(0, 201)
        story.start(0, 202)
        story.out(1, Subscribed(ROOM, 100, {0: 201}))
        story.deliver(1, 0, 201, 202)

        assert story.violated(at_end=False) == {"floors"}

    def test_accepts_what_comes_after_the_floor_and_what_others_publish(self, story: Story) -> None:
        story.start(0, 202)
        story.start(2, 201)
        story.out(1, Subscribed(ROOM, 100, {0: 201}))
        story.deliver(1, 0, 202)
        story.deliver(1, 2, 201)

        assert story.violated(at_end=False) == set()

    def test_a_later_subscription_has_floors_of_its_own(self, story: Story) -> None:
        story.start(0, 202)
        story.out(1, Subscribed(ROOM, 100, {0: 300}))
        story.out(1, Subscribed(ROOM, 200, {0: 201}))
        story.deliver(1, 0, 202)

        assert story.violated(at_end=False) == set()


class TestLiveness:
    def test_trips_on_a_publication_that_is_never_started(self, story: Story) -> None:
        story.join(0)
        story.accept(0, 201)

        assert story.violated() == {"liveness"}

    def test_trips_on_a_publication_that_is_never_acknowledged(self, story: Story) -> None:
        story.join(0)
        story.start(0, 201)
        story.deliver(0, 0, 201)

        assert story.violated() == {"liveness"}

    def test_trips_on_a_subscription_that_never_takes_effect(self, story: Story) -> None:
        story.live_peers[0] = StubPeer()
        story.tell("subscribe", 0, ROOM)

        assert story.violated() == {"liveness"}

    def test_trips_on_a_leave_that_never_ends(self, story: Story) -> None:
        story.join(0)
        story.tell("unsubscribe", 0, ROOM)
        story.counters.clear()

        assert story.violated() == {"liveness"}

    def test_trips_on_work_in_progress_and_on_a_node_that_never_comes_up(self, story: Story) -> None:
        story.live_peers[0] = StubPeer(work=1, others={1: 1})
        story.live_peers[1] = StubPeer(incarnation=1, is_up=False)

        assert story.violated() == {"liveness"}
        assert {violation.node for violation in story.monitor.violations} == {0, 1}

    def test_trips_on_a_world_that_does_not_come_to_rest(self, story: Story) -> None:
        story.live_peers[0] = StubPeer()
        story.monitor.at_overrun(story)

        assert story.violated(at_end=False) == {"liveness"}

    def test_trips_on_a_node_that_stays_isolated(self, vote: Story) -> None:
        vote.join(0, 1)
        vote.isolated.add(1)

        assert vote.violated() == {"liveness"}

    def test_asks_nothing_of_the_dead(self, story: Story) -> None:
        story.join(0, 1, 2)
        story.accept(0, 201)
        story.tell("subscribe", 1, "attic")
        story.tell("unsubscribe", 2, ROOM)
        story.crash(0)
        story.crash(1)
        story.crash(2)

        assert story.violated() == set()


class TestCompleteness:
    def test_trips_on_a_stable_subscriber_that_misses_a_publication(self, story: Story) -> None:
        story.join(0, 1)
        story.publish(0, 201)

        assert story.violated() == {"completeness"}

    def test_asks_nothing_of_a_late_joiner_of_one_who_left_and_of_one_who_rejoined(
        self, story: Story
    ) -> None:
        story.join(0, 1, 2)
        story.publish(0, 201)
        story.join(3)
        story.leave(1)
        story.leave(2)
        story.join(2)

        assert story.violated() == set()


class TestAgreement:
    def test_trips_if_some_survivors_deliver_and_others_do_not(self, story: Story) -> None:
        story.join(0, 1, 2)
        story.start(0, 201)
        story.deliver(1, 0, 201)
        story.crash(0)

        assert story.violated() == {"agreement"}

    def test_accepts_all_or_none(self, story: Story) -> None:
        story.join(0, 1, 2)
        story.publish(0, 201, 1, 2)
        story.start(0, 202)
        story.deliver(0, 0, 202)
        story.crash(0)

        assert story.violated() == set()

    def test_asks_nothing_of_who_joined_later_or_died_too(self, story: Story) -> None:
        story.join(0, 1, 2, 4)
        story.start(0, 201)
        story.join(3)
        story.deliver(1, 0, 201)
        story.deliver(4, 0, 201)
        story.crash(0)
        story.crash(2)

        assert story.violated() == set()

    def test_holds_for_a_source_that_was_forced_to_restart(self, story: Story) -> None:
        story.join(0, 1, 2)
        story.start(0, 201)
        story.deliver(1, 0, 201)
        story.out(0, Restarted(1, (ROOM,), RestartReason.DECLARED_CRASHED))
        story.incarnations[0] = 1
        story.counters.pop(0)

        assert story.violated() == {"agreement"}


class TestViews:
    @pytest.mark.parametrize(
        "view",
        [
            pytest.param({0: 100}, id="a member is missing"),
            pytest.param({0: 100, 1: 100, 2: 100}, id="one who left is still there"),
            pytest.param({0: 100, 1: 99}, id="a counter is out of date"),
        ],
    )
    def test_trips_on_a_wrong_view(self, story: Story, view: dict[int, int]) -> None:
        story.join(0, 1, 2)
        story.leave(2)
        story.live_peers[0].view = view

        assert story.violated() == {"views"}

    def test_trips_on_a_node_that_left_and_still_sees_members(self, story: Story) -> None:
        story.join(0, 1)
        story.leave(1)
        story.live_peers[1].view = {0: 100}

        assert story.violated() == {"views"}

    def test_accepts_equal_views_without_the_dead(self, story: Story) -> None:
        story.join(0, 1, 2)
        story.crash(2)

        assert story.violated() == set()


class TestAcquaintance:
    @pytest.mark.parametrize(
        ("others", "believed_dead"),
        [
            pytest.param({}, frozenset(), id="deals with an incarnation that is no more"),
            pytest.param({1: 2}, frozenset({1}), id="believes one dead that lives"),
            pytest.param({1: 3}, frozenset(), id="deals with one that has never been"),
        ],
    )
    def test_trips_on_nodes_that_go_on_without_each_other(
        self, story: Story, others: dict[int, int], believed_dead: frozenset[int]
    ) -> None:
        story.join(0, 1)
        story.live_peers[1].incarnation = 2
        story.live_peers[0].others, story.live_peers[0].believed_dead = others, believed_dead

        assert story.violated() == {"acquaintance"}

    def test_trips_on_a_node_that_would_be_looked_for_in_the_wrong_place(self, story: Story) -> None:
        story.join(0, 1)
        story.live_peers[0].misplaced = frozenset({1})

        assert story.violated() == {"acquaintance"}

    def test_accepts_nodes_that_deal_with_each_other_and_not_with_the_dead(self, story: Story) -> None:
        story.join(0, 1, 2)
        story.live_peers[1].incarnation = 2
        story.live_peers[0].others = {1: 2}
        story.crash(2)

        assert story.violated() == set()


class TestHygiene:
    def test_trips_on_state_kept_after_leaving(self, story: Story) -> None:
        story.join(0, 1)
        story.leave(1)
        story.live_peers[1].kept = frozenset({"topic", "pending"})

        assert story.violated() == {"hygiene"}

    def test_accepts_what_a_subscription_needs(self, story: Story) -> None:
        story.join(0, 1)
        story.leave(1)
        story.live_peers[0].kept = frozenset({"subscription"})

        assert story.violated() == set()


class TestErrors:
    def test_trips_on_an_exception_and_keeps_its_text(self, story: Story) -> None:
        story.tell("error", 3, ProtocolViolation(1, "nonsense"))

        assert story.violated(at_end=False) == {"errors"}
        assert "node 1 sent nonsense" in story.monitor.violations[0].text

    def test_is_silent_otherwise(self, story: Story) -> None:
        assert story.violated() == set()


class TestSplit:
    def test_trips_on_two_that_make_each_others_crash_final(self, vote: Story) -> None:
        vote.hold_dead(0, 2)
        vote.hold_dead(2, 0)

        assert vote.violated(at_end=False) == {"split"}

    def test_trips_on_publications_acknowledged_on_both_sides(self, vote: Story) -> None:
        vote.join(0, 2)
        vote.hold_dead(0, 2, final=False)
        vote.publish(0, 201)
        vote.hold_dead(2, 0, final=False)
        vote.publish(2, 201)

        assert vote.violated(at_end=False) == {"split"}

    def test_accepts_that_one_gets_on_which_was_given_up_before_it_was_up(self, vote: Story) -> None:
        vote.tell("crash", 2)
        vote.incarnations[2] = 1
        vote.hold_dead(0, 2)
        vote.out(2, Up(1))
        vote.hold_dead(2, 0)

        assert vote.violated(at_end=False) == set()

    def test_trips_on_one_that_was_given_up_when_it_had_come_up_again(self, vote: Story) -> None:
        vote.tell("crash", 2)
        vote.incarnations[2] = 1
        vote.out(2, Up(1))
        vote.hold_dead(0, 2)
        vote.hold_dead(2, 0)

        assert vote.violated(at_end=False) == {"split"}

    def test_accepts_that_one_side_gets_on_and_the_other_only_suspects(self, vote: Story) -> None:
        vote.hold_dead(0, 2)
        vote.hold_dead(2, 0, final=False)

        assert vote.violated(at_end=False) == set()

    def test_accepts_that_one_gets_on_when_the_other_has_ended(self, vote: Story) -> None:
        vote.hold_dead(0, 2)
        vote.crash(0)
        vote.hold_dead(2, 0)

        assert vote.violated(at_end=False) == set()


class TestQuorum:
    def test_trips_on_a_crash_that_is_final_at_a_minority(self, vote: Story) -> None:
        vote.hold_dead(1, 0, 2)

        assert vote.violated(at_end=False) == {"quorum"}

    def test_trips_on_a_node_that_goes_up_with_a_minority(self, vote: Story) -> None:
        vote.tell("up", 1, frozenset({1, 7}))

        assert vote.violated(at_end=False) == {"quorum"}

    def test_half_of_the_voters_need_the_smallest(self) -> None:
        story = Story(replace(VOTING, voters=(0, 1, 2, 3)))
        story.tell("up", 0, frozenset({0, 1}))
        assert story.violated(at_end=False) == set()

        story.tell("up", 2, frozenset({2, 3}))
        assert story.violated(at_end=False) == {"quorum"}

    def test_accepts_suspicions_that_leave_a_minority_while_they_are_not_final(self, vote: Story) -> None:
        vote.hold_dead(1, 0, 2, final=False)

        assert vote.violated(at_end=False) == set()


class TestAcknowledged:
    def test_trips_on_a_member_that_stays_without_an_acknowledged_publication(self, vote: Story) -> None:
        vote.join(0, 1)
        vote.publish(0, 201)
        vote.restart(0)

        assert vote.violated() == {"acknowledged"}

    def test_accepts_that_what_was_not_acknowledged_is_lost(self, vote: Story) -> None:
        vote.join(0, 1)
        vote.start(0, 201)
        vote.crash(0)

        assert vote.violated() == set()

    def test_asks_nothing_of_a_member_that_has_just_given_up_the_source(self, vote: Story) -> None:
        vote.join(0, 1)
        vote.hold_dead(1, 0)
        vote.publish(0, 201)
        vote.crash(0)

        assert vote.violated() == set()

    def test_says_nothing_where_there_are_no_voters(self, story: Story) -> None:
        story.join(0, 1)
        story.publish(0, 201)
        story.crash(0)

        assert story.violated() == set()


class TestDeclaredDead:
    def test_trips_on_a_publication_started_after_contact_must_have_run_out(self, vote: Story) -> None:
        vote.join(0)
        vote.hold_dead(1, 0)
        vote.time += VOTING.contact
        vote.publish(0, 201)

        assert vote.violated(at_end=False) == {"declared_dead"}

    def test_trips_on_a_subscription_asked_for_after_contact_must_have_run_out(self, vote: Story) -> None:
        vote.hold_dead(1, 0)
        vote.time += VOTING.contact
        vote.join(0)

        assert vote.violated(at_end=False) == {"declared_dead"}

    def test_accepts_what_is_started_while_the_node_may_still_be_in_contact(self, vote: Story) -> None:
        vote.join(0)
        vote.hold_dead(1, 0)
        vote.publish(0, 201)

        assert vote.violated(at_end=False) == set()

    def test_accepts_what_is_started_too_late_and_never_acknowledged(self, vote: Story) -> None:
        vote.join(0)
        vote.hold_dead(1, 0)
        vote.time += VOTING.contact
        vote.start(0, 201)

        assert vote.violated(at_end=False) == set()

    def test_accepts_it_when_those_who_declared_it_dead_are_gone(self, vote: Story) -> None:
        vote.join(0)
        vote.hold_dead(1, 0)
        vote.time += VOTING.contact
        vote.crash(1)
        vote.publish(0, 201)

        assert vote.violated(at_end=False) == set()


class TestWinner:
    def test_trips_on_a_node_that_starts_again_on_the_side_of_a_quorum(self) -> None:
        story = Story(VOTING, winners=frozenset({0, 1}))
        story.restart(0)

        assert story.violated(at_end=False) == {"winner"}

    def test_accepts_that_nodes_on_other_sides_start_again(self) -> None:
        story = Story(VOTING, winners=frozenset({0, 1}))
        story.restart(2)

        assert story.violated(at_end=False) == set()


def test_every_checker_has_its_stories_here() -> None:
    told = {name.removeprefix("Test").lower() for name in globals() if name.startswith("Test")}

    assert told == {name.replace("_", "") for name in CHECKER_NAMES}
