"""Scenarios as data: points, seeds, workloads and the errors of bad parameters."""

from __future__ import annotations

import numpy as np
import pytest

from vcubeps.sim.parameters import PARAMETERS, ParameterError
from vcubeps.sim.scenarios import SCENARIOS, SRPT_B, SRPT_S, VCUBE, Point, Run, points, run_seed
from vcubeps.sim.simulation import simulate
from vcubeps.sim.summary import summarise
from vcubeps.sim.workloads import build

SMALL = {
    "one-publisher": {"nodes": (32,), "subscribers": (0.5,)},
    "many-publishers": {"nodes": (32,), "publishers": (0.5,), "propagation_ut": (100,)},
    "queues": {"nodes": (32,)},
    "discussion": {"nodes": (32,), "questions": (3,)},
    "many-topics": {"nodes": (32,), "topics": (8,), "messages": (64,), "distribution": ("zipf",)},
    "churn": {"nodes": (32,), "churn": (0.25,), "messages": (16,)},
    "brokers": {"nodes": (64,), "brokers": (4, 16), "messages": (32,)},
    "custom": {"nodes": (32,), "topics": (3,), "subscribers": (0.5,), "messages": (40,), "brokers": (8,)},
}


def small_points(scenario: str) -> list[Point]:
    return points(scenario, SMALL[scenario])  # type: ignore[arg-type]


def test_every_scenario_of_section_4_is_there() -> None:
    assert SMALL.keys() == SCENARIOS.keys()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_whole_grid_makes_sense(scenario: str) -> None:
    assert points(scenario, {})


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_parameter_of_a_scenario_is_explained(scenario: str) -> None:
    assert set(SCENARIOS[scenario].all_parameters()) <= PARAMETERS.keys()


@pytest.mark.parametrize("scenario", SMALL)
def test_run_gives_the_same_answer_again(scenario: str) -> None:
    for point in small_points(scenario):
        run = Run(point, run_seed(5, 0))
        first, second = (summarise(point, [simulate(run)[0]]) for _ in range(2))

        assert first == second
        assert first["latency_mean_ut"] is not None
        assert first["publications_mean"]


@pytest.mark.parametrize("scenario", SMALL)
def test_runs_of_different_seeds_differ(scenario: str) -> None:
    point = small_points(scenario)[0]

    latencies = {
        summarise(point, [simulate(Run(point, run_seed(5, k)))[0]])["latency_mean_ut"] for k in range(6)
    }

    assert len(latencies) > 1


@pytest.mark.parametrize("scenario", [name for name in SMALL if name != "brokers"])
def test_systems_at_a_point_meet_the_same_events(scenario: str) -> None:
    loads = [build(Run(point, 77)) for point in small_points(scenario) if point.system != SRPT_B]

    for load in loads[1:]:
        assert np.array_equal(load.members, loads[0].members)
        assert np.array_equal(load.publish_ut, loads[0].publish_ut)
        assert np.array_equal(load.publish_node, loads[0].publish_node)
        assert np.array_equal(load.change_node, loads[0].change_node)


@pytest.mark.parametrize("scenario", SMALL)
def test_publications_are_in_order_and_by_members(scenario: str) -> None:
    for point in small_points(scenario):
        load = build(Run(point, 99))

        assert (np.diff(load.publish_ut) >= 0).all()
        if scenario != "churn":
            assert load.members[load.publish_topic, load.publish_node].all()


def test_churn_replaces_who_leaves() -> None:
    [point] = points("churn", {"nodes": (64,), "churn": (0.25,)}, (SRPT_S,))
    load = build(Run(point, 3))
    member = load.members[0].copy()
    for node, joins in zip(load.change_node, load.change_joins, strict=True):
        assert member[node] != joins
        member[node] = joins

    assert load.change_joins.sum() == (~load.change_joins).sum() == 12 * 21
    assert member.sum() == load.members[0].sum() == 48


def test_zipf_prefers_the_first_topics() -> None:
    [point] = points(
        "many-topics",
        {"nodes": (64,), "topics": (16,), "messages": (8192,), "distribution": ("zipf",)},
        (VCUBE,),
    )
    counts = np.bincount(build(Run(point, 1)).publish_topic, minlength=16)

    # The first topic's share is 1 / Σ k^−0.825; 8192 draws make its deviation about 0.005.
    assert counts[0] / 8192 == pytest.approx(1 / sum(k**-0.825 for k in range(1, 17)), abs=0.03)
    assert counts[0] > counts[7] > counts[15] * 0.8


@pytest.mark.parametrize(
    ("scenario", "chosen", "text"),
    [
        ("one-publisher", {"nodes": (100,)}, "nodes=100 is not a power of two: give 64 or 128"),
        (
            "one-publisher",
            {"nodes": (64,), "subscribers": (65,)},
            "subscribers=65 is more than the 64 there are",
        ),
        ("many-publishers", {"nodes": (64,), "publishers": (100,)}, "publishers=100 is more than the 64"),
        ("one-publisher", {"churn": (0.5,)}, "'churn' is unknown"),
        ("one-publisher", {"subscriber": (0.5,)}, "did you mean subscribers?"),
        ("onepublisher", {}, "did you mean one-publisher?"),
        ("discussion", {"nodes": (16,), "questions": (20,)}, "questions=20 is more than the 16 subscribers"),
        ("brokers", {"nodes": (64,), "brokers": (24,)}, "brokers=24 is not a power of two below nodes=64"),
        ("brokers", {"nodes": (64,), "brokers": (64,)}, "brokers=64 is not a power of two below nodes=64"),
        ("many-topics", {"nodes": (64,), "topics": (65,)}, "topics=65 is more than nodes=64"),
        ("churn", {"nodes": (64,), "subscribers": (0.9,)}, "lower churn or subscribers"),
        ("churn", {"protocol": ("unpruned",)}, "protocol=amended and protocol=published"),
    ],
)
def test_parameters_that_do_not_go_together_are_refused(
    scenario: str, chosen: dict[str, tuple[float, ...]], text: str
) -> None:
    with pytest.raises(ParameterError) as caught:
        points(scenario, chosen)

    assert text in str(caught.value)
