"""The plan of a chaos run: the same for the same seed, within its bounds, and a quorum is left."""

from __future__ import annotations

import itertools

import pytest

from vcubeps.chaos.faults import ALONE, CUTS, KINDS
from vcubeps.chaos.plan import FIRST_S, QUIET_S, SLACK_S, Fault, draw, is_quorum

SIZES = [3, 4, 5, 8, 16]


def plan(seed: int = 1, count: int = 8, seconds: float = 600.0, rate: float = 8.0) -> list[Fault]:
    return draw(seed, count, seconds, rate, KINDS)


def overlapping(faults: list[Fault], slack_s: float = 0.0) -> list[tuple[Fault, Fault]]:
    return [
        (one, other)
        for place, one in enumerate(faults)
        for other in faults[place + 1 :]
        if other.at_s < one.ends_s + slack_s
    ]


def test_the_same_seed_and_options_give_the_same_plan_and_another_seed_another() -> None:
    assert plan(seed=7) == plan(seed=7)
    assert plan(seed=7) != plan(seed=8)


def test_the_order_in_which_faults_are_named_does_not_matter() -> None:
    assert draw(1, 8, 300.0, 8.0, ["stop", "kill"]) == draw(1, 8, 300.0, 8.0, ["kill", "stop"])


@pytest.mark.parametrize("seed", range(8))
def test_half_an_hour_with_sixteen_nodes_has_more_than_a_hundred_faults(seed: int) -> None:
    assert len(plan(seed, 16, 1800.0)) >= 100


def test_a_plan_of_ten_minutes_has_every_kind_of_fault_and_both_manners_of_cuts() -> None:
    faults = plan(seconds=600.0)

    assert {fault.kind for fault in faults} == set(KINDS)
    assert {fault.manner for fault in faults if fault.kind in CUTS} == {"silent", "refused"}
    assert not any(fault.manner for fault in faults if fault.kind not in CUTS)


def test_only_faults_that_were_asked_for_are_drawn() -> None:
    assert {fault.kind for fault in draw(1, 8, 300.0, 8.0, ["kill", "pair"])} == {"kill", "pair"}


@pytest.mark.parametrize("count", SIZES)
def test_all_faults_lie_between_a_calm_beginning_and_a_calm_end(count: int) -> None:
    faults = plan(count=count)

    assert [fault.number for fault in faults] == list(range(len(faults)))
    assert all(earlier.at_s <= later.at_s for earlier, later in itertools.pairwise(faults))
    assert faults[0].at_s >= FIRST_S
    assert max(fault.ends_s for fault in faults) <= 600.0 - QUIET_S


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("seed", range(3))
def test_whatever_overlaps_leaves_a_quorum_unless_the_fault_is_meant_to_take_it_away(
    seed: int, count: int
) -> None:
    faults = plan(seed, count, 900.0, 30.0)
    for moment_s in [fault.at_s for fault in faults]:
        active = [fault for fault in faults if fault.at_s <= moment_s < fault.ends_s + SLACK_S]
        if not any(fault.kind in ("thirds", "many") for fault in active):
            away = set[int]().union(
                *(fault.nodes[:1] if fault.kind == "rolling" else fault.away(count) for fault in active)
            )
            assert is_quorum(set(range(count)) - away, count), active


@pytest.mark.parametrize("count", SIZES)
def test_faults_that_take_the_quorum_away_do_and_last_for_seconds_only(count: int) -> None:
    faults = [fault for fault in plan(count=count, seconds=3600.0) if fault.kind in ("thirds", "many")]

    assert faults
    for fault in faults:
        assert fault.for_s <= 5.0
        if fault.kind == "many":
            assert not is_quorum(set(range(count)) - set(fault.nodes), count)
        else:
            assert not any(is_quorum(side, count) for side in (fault.nodes, *fault.sides))
            assert fault.victims == tuple(range(count))


@pytest.mark.parametrize("count", SIZES)
def test_of_two_halves_the_first_has_the_quorum(count: int) -> None:
    faults = [fault for fault in plan(count=count, seconds=3600.0) if fault.kind == "halves"]

    assert faults
    for fault in faults:
        assert is_quorum(fault.nodes, count)
        assert not is_quorum(fault.victims, count)
        assert sorted((*fault.nodes, *fault.victims)) == list(range(count))


def test_faults_overlap_but_not_on_the_same_victims_and_some_stand_alone() -> None:
    faults = plan(count=16, seconds=1800.0)

    assert overlapping(faults)
    for one, other in overlapping(faults, SLACK_S):
        assert not set(one.victims) & set(other.victims)
        assert not {one.kind, other.kind} & ALONE


def test_a_cut_says_from_whom_to_whom_nothing_passes() -> None:
    pair = Fault(0, 1.0, "pair", (3, 1), 2.0, (), "silent")
    one_way = Fault(0, 1.0, "one-way", (0,), 2.0, ((1, 2),), "silent")
    halves = Fault(0, 1.0, "halves", (0, 1), 2.0, ((2,),), "silent")
    kill = Fault(0, 1.0, "kill", (0, 1), 2.0)

    assert pair.severed() == {(3, 1), (1, 3)}
    assert one_way.severed() == {(0, 1), (0, 2)}
    assert halves.severed() == {(0, 2), (1, 2), (2, 0), (2, 1)}
    assert kill.severed() == frozenset()


def test_a_pair_that_is_cut_explains_no_restart_and_a_node_that_is_cut_off_its_own() -> None:
    pair = Fault(0, 1.0, "pair", (3, 1), 2.0, (), "silent")
    isolate = Fault(0, 1.0, "isolate", (2,), 2.0, ((0, 1, 3),), "silent")
    deaf_to_one = Fault(0, 1.0, "one-way", (2,), 2.0, ((0,),), "silent")

    assert pair.may_restart(4) == deaf_to_one.may_restart(4) == frozenset()
    assert isolate.may_restart(4) == {2}
