"""Scenarios as data: points, seeds, workloads and the errors of bad parameters."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from vcubeps.sim.measurements import Measurements
from vcubeps.sim.parameters import PARAMETERS, ParameterError
from vcubeps.sim.reference import Reference
from vcubeps.sim.scenarios import SCENARIOS, SRPT_B, SRPT_S, VCUBE, Point, Run, points, run_seed
from vcubeps.sim.simulation import delays_of, simulate
from vcubeps.sim.srpt import SrptReference
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
        first, second = (summarise(point, 5, [simulate(run)[0]]) for _ in range(2))

        assert first == second
        assert first["latency_mean_ut"] is not None
        assert first["publications_mean"]


@pytest.mark.parametrize("scenario", SMALL)
def test_runs_of_different_seeds_differ(scenario: str) -> None:
    point = small_points(scenario)[0]

    latencies = {
        summarise(point, 5, [simulate(Run(point, run_seed(5, k)))[0]])["latency_mean_ut"] for k in range(6)
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
        ("churn", {"nodes": (8,), "subscribers": (2,), "churn": (0.9,)}, "at least 1 must leave, and 1 stay"),
        ("churn", {"churn_gap_ut": (5000,)}, "churn_gap_ut=5000 is not below churn_interval_ut=3000"),
        ("churn", {"churn": (0.0,)}, "churn=0 makes no churn"),
        ("discussion", {"questions": (0,)}, "questions=0 makes no discussion"),
        ("one-publisher", {"nodes": (2,), "subscribers": (0.25,)}, "has nobody to talk to"),
        (
            "brokers",
            {"nodes": (64,), "brokers": (16,), "publishers": (60,)},
            "publishers=60 is more than the 48",
        ),
        ("custom", {"churn": (0.1,), "subscribers": (0.5,), "topics": (3,)}, "topics has no effect here"),
        ("custom", {"questions": (2,), "messages": (3,)}, "messages has no effect here"),
        ("custom", {"zipf_exponent": (2.0,)}, "zipf_exponent has no effect here"),
        (
            "custom",
            {"questions": (2,), "churn": (0.1,), "subscribers": (0.5,)},
            "cannot be simulated together",
        ),
        ("churn", {"protocol": ("unpruned",)}, "protocol=amended and protocol=published"),
    ],
)
def test_parameters_that_do_not_go_together_are_refused(
    scenario: str, chosen: dict[str, tuple[float, ...]], text: str
) -> None:
    with pytest.raises(ParameterError) as caught:
        points(scenario, chosen)

    assert text in str(caught.value)


def random_custom(rng: np.random.RandomState) -> dict[str, tuple[object, ...]]:
    nodes = int(rng.choice([4, 16, 32]))
    chosen: dict[str, tuple[object, ...]] = {
        "nodes": (nodes,),
        "subscribers": (float(rng.choice([0.5, 0.75])),),
        "preset": ("literal", "calibrated")[rng.randint(2) :][:1],
        "acks": ("free", "queued")[rng.randint(2) :][:1],
        "propagation_ut": (int(rng.choice([1, 30, 100])),),
        "protocol": ("amended", "published"),
    }
    kind = rng.randint(4)
    if kind == 0:
        chosen |= {"churn": (0.25,), "churn_interval_ut": (700,), "churn_gap_ut": (90,), "messages": (12,)}
    elif kind == 1:
        chosen |= {"questions": (2,), "protocol": ("amended", "published", "unpruned")}
    else:
        chosen |= {"topics": (int(rng.randint(1, 5)),), "messages": (30,), "window_ut": (int(rng.choice([5, 900])),),
                   "brokers": (nodes // 4,), "order": ("causal", "none")}  # fmt: skip
    return chosen


def judged(run: Run, ordered: bool) -> None:
    """The kernel that a run is given to says what the reference says."""
    load, delays = build(run), delays_of(run.point.parameters)
    if run.point.system == VCUBE:
        protocol = str(run.point.parameters.get("protocol", "amended"))
        reference: Reference | SrptReference = Reference(load, delays, run.seed, protocol).run()
    else:
        reference = SrptReference(load, delays, run.seed).run()
    measured, events = simulate(run, trace=True)
    without_trace, _ = simulate(run)

    left_out = set() if ordered else {"delivery_ut", "causal_wait_ut", "barrier_entries"}
    for field in fields(Measurements):
        ours = getattr(measured, field.name)
        assert np.array_equal(ours, getattr(without_trace, field.name)), f"{field.name} of {run}, untraced"
        if field.name not in left_out:
            assert np.array_equal(ours, getattr(reference.measurements(), field.name)), (
                f"{field.name} of {run}"
            )
    assert events is not None
    assert sorted(events.receptions) == sorted(reference.trace.receptions), f"{run}"
    if ordered:
        assert sorted(events.deliveries) == sorted(reference.trace.deliveries), f"{run}"
        assert sorted(events.publications) == sorted(reference.trace.publications), f"{run}"
        assert sorted(events.membership) == sorted(reference.trace.membership), f"{run}"


@pytest.mark.parametrize("scenario", SMALL)
def test_runs_of_every_scenario_are_as_the_reference_says(scenario: str) -> None:
    for point in small_points(scenario):
        for index in range(5):
            judged(Run(point, run_seed(2, index)), point.parameters.get("order") != "none")


@pytest.mark.parametrize("seed", range(12))
def test_custom_runs_are_as_the_reference_says(seed: int) -> None:
    rng = np.random.RandomState(seed)
    for point in points("custom", random_custom(rng)):  # type: ignore[arg-type]
        judged(Run(point, run_seed(seed, 0)), point.parameters.get("order") != "none")


def test_custom_topics_follow_their_distribution() -> None:
    chosen = {
        "nodes": (64,),
        "topics": (10,),
        "subscribers": (0.3,),
        "messages": (8192,),
        "distribution": ("zipf",),
    }
    [point] = points("custom", chosen, (VCUBE,))  # type: ignore[arg-type]
    counts = np.bincount(build(Run(point, 1)).publish_topic, minlength=10)

    assert counts[0] / 8192 == pytest.approx(1 / sum(k**-0.825 for k in range(1, 11)), abs=0.03)
