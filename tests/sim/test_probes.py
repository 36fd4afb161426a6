"""Who reaches whom, who is in contact with whom, and what a schedule with voters consists of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from vcubeps.sim.explore import (
    Allowed,
    Operation,
    Outcome,
    draw_operations,
    draw_options,
    run_operations,
    schedule_seed,
)
from vcubeps.sim.explore.operations import severed
from vcubeps.sim.explore.options import FAULTS, Options
from vcubeps.sim.explore.probes import ROUND_TRIP
from vcubeps.sim.explore.reach import Reach
from vcubeps.sim.explore.trace import Trace
from vcubeps.sim.explore.voting import AGE_MAX, SHAPES, Voting, draw_voting
from vcubeps.sim.explore.winners import winners

CONTACT, SUSPICION = 400, 800
CUT_AT = 1000
OPTIONS = draw_options(1, Allowed(only=frozenset({"joins"})))


def options(count: int, *, relays: bool = False, hasty: bool = False) -> Options:
    nodes = tuple(range(count))
    voting = Voting(nodes, relays, CONTACT, SUSPICION, hasty, frozenset())
    return replace(OPTIONS, nodes=nodes, founders=nodes, voting=voting, reactive=0.0)


def run(world: Options, *operations: Operation) -> tuple[list[tuple[int, int, str]], Outcome]:
    """What happened, as (time, node, text)."""
    trace = Trace()
    outcome = run_operations(1, world, operations, trace=trace)
    split = (line.split(maxsplit=2) for line in trace.lines)
    return [(int(time), int(node), text) for time, node, text in split], outcome


def at(events: Iterable[tuple[int, int, str]], node: int, text: str) -> list[int]:
    return [time for time, where, what in events if where == node and what.startswith(text)]


def cut(text: str, ticks: int = 3000, time: int = CUT_AT) -> Operation:
    return Operation(time, "cut", 0, text, ticks)


class TestReach:
    def test_a_cut_severs_both_ways_and_nobody_answers_across_it(self) -> None:
        reach = Reach(range(3), relays=False)
        reach.cuts.append(severed("0|1 2"))
        reach.renew(range(3))

        assert reach.severed == severed("0|1 2")
        assert [reach.answers(0, 1), reach.answers(1, 0), reach.answers(1, 2)] == [False, False, True]

    def test_cuts_add_up_and_end_one_by_one(self) -> None:
        reach = Reach(range(3), relays=False)
        reach.cuts += [severed("0/1"), severed("1/2")]
        reach.renew(range(3))
        assert reach.severed == severed("0/1 1/2")

        reach.cuts.pop(0)
        reach.renew(range(3))
        assert reach.severed == severed("1/2")

    def test_a_cut_of_one_direction_lets_messages_pass_in_the_other_and_no_round_trip(self) -> None:
        reach = Reach(range(2), relays=False)
        reach.cuts.append(severed("0>1"))
        reach.renew(range(2))

        assert reach.severed == {(0, 1)}
        assert not reach.answers(0, 1)
        assert not reach.answers(1, 0)

    def test_a_third_node_that_reaches_both_relays_unless_it_is_down(self) -> None:
        reach = Reach(range(3), relays=True)
        reach.cuts.append(severed("0/1"))
        reach.renew(range(3))
        assert not reach.severed
        assert reach.answers(0, 1)

        reach.renew((0, 1))
        assert reach.severed == severed("0/1")
        assert not reach.answers(0, 1)

    def test_a_relay_does_not_relay_to_another_relay(self) -> None:
        reach = Reach(range(4), relays=True)
        reach.cuts.append(severed("0/2 0/3 1/3"))  # a chain 0 - 1 - 2 - 3
        reach.renew(range(4))

        assert reach.answers(0, 2)
        assert not reach.answers(0, 3)
        assert reach.severed == severed("0/3")

    def test_messages_pass_where_probes_get_lost(self) -> None:
        reach = Reach(range(2), relays=False)
        reach.lost_probes.append(severed("0/1"))
        reach.renew(range(2))

        assert not reach.severed
        assert not reach.answers(0, 1)


class TestContact:
    def test_a_node_without_contact_with_a_quorum_is_isolated_before_anybody_suspects(self) -> None:
        publications = [Operation(time, "publish", 2, "a", 1) for time in range(CUT_AT, 3000, 10)]
        events, outcome = run(options(3), Operation(0, "subscribe", 2, "a"), cut("0 1|2"), *publications)

        [isolated] = at(events, 2, "is isolated")
        assert CUT_AT + CONTACT * (1 - AGE_MAX) <= isolated <= CUT_AT + CONTACT + 10
        assert max(time for time in at(events, 2, "publish") if time < CUT_AT + 3000) < isolated
        assert not at(events, 2, "suspect 0 (incarnation 0)")
        assert not at(events, 0, "is isolated")
        assert outcome.violations == ()

    def test_the_side_of_a_quorum_suspects_the_other_after_its_silence(self) -> None:
        events, _ = run(options(3), cut("0 1|2"))

        first = min(at(events, 0, "suspect 2") + at(events, 1, "suspect 2"))
        assert CUT_AT + SUSPICION - CONTACT * AGE_MAX <= first <= CUT_AT + SUSPICION

    def test_a_cut_that_is_healed_before_anybody_suspects_costs_nothing(self) -> None:
        events, outcome = run(options(3), cut("0 1|2", ticks=CONTACT // 4))

        assert not [what for _, _, what in events if what.startswith(("suspect", "RESTART"))]
        assert outcome.violations == ()

    def test_who_was_declared_dead_is_told_by_the_greeting_before_any_message(self) -> None:
        events, outcome = run(options(3), Operation(0, "subscribe", 2, "a"), cut("0 1|2"))

        after = [what for time, node, what in events if node == 2 and time > CUT_AT + 3000]
        assert after[0].startswith(("is isolated", "is greeted"))
        greeted = next(what for what in after if not what.startswith("is isolated"))
        assert greeted.startswith("is greeted by")
        assert "RESTARTED as 1" in greeted
        assert outcome.violations == ()

    @pytest.mark.parametrize(("relays", "suspected"), [(False, True), (True, False)])
    def test_two_that_do_not_reach_each_other_suspect_each_other_unless_a_third_relays(
        self, relays: bool, suspected: bool
    ) -> None:
        events, outcome = run(options(3, relays=relays), cut("0/1"))

        assert bool(at(events, 0, "suspect 1") or at(events, 1, "suspect 0")) is suspected
        assert outcome.violations == ()

    def test_lost_probes_make_a_node_that_is_reached_suspected(self) -> None:
        events, outcome = run(options(3), Operation(CUT_AT, "lose-probes", 0, "0/2 1/2", 3000))

        assert at(events, 0, "suspect 2")
        assert outcome.violations == ()

    def test_a_paused_node_knows_that_it_is_isolated_before_it_takes_what_arrived(self) -> None:
        events, outcome = run(
            options(3),
            Operation(0, "subscribe", 2, "a"),
            Operation(CUT_AT, "pause", 2, "", 5000),
            Operation(CUT_AT + 10, "subscribe", 0, "a"),
        )

        after = [(time, what) for time, node, what in events if node == 2 and time > CUT_AT]
        assert after[0] == (CUT_AT + 5000, "is isolated")
        assert outcome.violations == ()

    def test_a_process_that_starts_is_isolated_until_a_quorum_has_answered(self) -> None:
        events, outcome = run(options(3), Operation(CUT_AT, "crash", 2), Operation(CUT_AT + 50, "recover", 2))

        assert at(events, 2, "is isolated") == [CUT_AT + 50]
        [back] = at(events, 2, "is in contact")
        assert CUT_AT + 50 < back <= CUT_AT + 50 + ROUND_TRIP
        assert outcome.violations == ()

    def test_goodbyes_and_newer_incarnations_are_believed_without_a_quorum(self) -> None:
        """Nodes 0 and 1 of four are cut off; one stops, the other hears of it; it comes back and says who it is."""
        events, outcome = run(
            options(5),
            cut("0 1|2 3 4", ticks=6000),
            Operation(CUT_AT + 2000, "stop", 1),
            Operation(CUT_AT + 4000, "recover", 1),
        )

        told = at(events, 0, "suspect 1 (incarnation 0)")
        assert CUT_AT + 2000 <= told[0] <= CUT_AT + 2000 + ROUND_TRIP
        assert outcome.violations == ()

    def test_a_suspicion_may_overtake_contact_and_what_is_started_meanwhile_may_be_acknowledged(self) -> None:
        """Node 1 is the only member, and in contact until the fence arrives: docs/internals/verification.md."""
        events, outcome = run(
            options(2),
            Operation(0, "subscribe", 1, "a"),
            Operation(CUT_AT, "suspect", 0, "", 1),
            Operation(CUT_AT, "publish", 1, "a", 1),
        )

        assert any(node == 1 and "acknowledged a" in what for _, node, what in events)
        assert at(events, 1, "⇐ 0 FENCE 0")
        assert outcome.violations == ()

    def test_nodes_are_brought_back_in_the_end_until_a_quorum_lives(self) -> None:
        crashes = [Operation(CUT_AT + node, "crash", node) for node in range(4)]
        events, outcome = run(options(5), *crashes)

        assert sum(what.startswith("start as incarnation 1") for _, _, what in events) == 2
        assert outcome.violations == ()


class TestWinners:
    def test_who_is_on_the_side_of_a_quorum_every_time(self) -> None:
        cuts = [cut("0 1 2|3 4"), cut("0|1 2 3 4", time=20_000)]

        assert winners(options(5), cuts) == {1, 2}

    @pytest.mark.parametrize(
        "operations",
        [
            pytest.param([], id="nothing is cut"),
            pytest.param([cut("0 1|2 3|4")], id="no side is a quorum"),
            pytest.param([cut("0/1")], id="some pairs only"),
            pytest.param([cut("0 1 2|3 4"), cut("0 1 2|3 4", time=4500)], id="one soon after the other"),
            pytest.param([cut("0 1 2|3 4"), Operation(9, "pause", 0, "", 1)], id="a pause"),
            pytest.param([cut("0 1 2|3 4"), Operation(9, "suspect", 0, "", 1)], id="a false suspicion"),
        ],
    )
    def test_nobody_if_something_else_may_make_a_node_start_again(self, operations: list[Operation]) -> None:
        assert winners(options(5), operations) == frozenset()

    def test_nobody_if_a_node_blames_others_for_the_time_that_it_was_cut_off(self) -> None:
        assert winners(options(5, hasty=True), [cut("0 1 2|3 4")]) == frozenset()

    def test_some_schedules_say_who_wins(self) -> None:
        allowed = Allowed(nodes_max=6, faults=frozenset({"cut"}), only=frozenset({"voters", "joins"}))
        drawn = [(seed, draw_options(seed, allowed)) for seed in range(200)]

        assert sum(bool(winners(world, draw_operations(seed, world))) for seed, world in drawn) > 5


class TestDraws:
    def test_all_nodes_are_voters_in_most_schedules_and_two_to_five_in_the_others(self) -> None:
        drawn = [draw_voting(seed, tuple(range(8))) for seed in range(400)]
        some = [len(voting.voters) for voting in drawn if len(voting.voters) < 8]

        assert len(some) < 200
        assert set(some) == {2, 3, 4, 5}

    def test_every_shape_comes_up(self) -> None:
        drawn = [draw_voting(seed, tuple(range(8))).shapes for seed in range(100)]

        assert frozenset().union(*drawn) == set(SHAPES)
        assert all(drawn)

    def test_suspicion_comes_after_the_end_of_contact(self) -> None:
        drawn = [draw_voting(seed, (0, 1)) for seed in range(100)]

        assert all(voting.suspicion > voting.contact for voting in drawn)

    def test_voters_leave_the_rest_of_a_schedule_as_it_was(self) -> None:
        for index in range(30):
            seed = schedule_seed(7, index)
            without = draw_options(seed, Allowed(faults=frozenset(FAULTS), only=frozenset({"joins", "cut"})))
            only = frozenset({"joins", "cut", "voters"})
            with_voters = draw_options(seed, Allowed(faults=frozenset(FAULTS), only=only))
            assert replace(with_voters, voting=None) == without
            kept = [each for each in draw_operations(seed, without) if each.kind == "cut"]
            assert set(kept) <= set(draw_operations(seed, with_voters))

    def test_always_adds_to_what_is_drawn(self) -> None:
        for index in range(30):
            seed = schedule_seed(7, index)
            always = Allowed(faults=frozenset(FAULTS), always=frozenset({"voters"}))
            drawn = draw_options(seed, Allowed(faults=frozenset(FAULTS)))
            assert draw_options(seed, always).voting is not None
            # Where voters decide, nobody comes later or leaves for good.
            same = replace(drawn, voting=None, founders=drawn.nodes, departures=0)
            assert replace(draw_options(seed, always), voting=None) == same
