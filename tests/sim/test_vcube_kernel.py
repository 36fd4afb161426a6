"""The compiled kernels of VCube-PS give the reference simulation's trace, event by event, and its measurements."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from vcubeps.sim.kernel import storm, vcube
from vcubeps.sim.measurements import Measurements
from vcubeps.sim.network import Delays
from vcubeps.sim.reference import Reference
from vcubeps.sim.workload import Workload

SEEDS = range(60)


def random_workload(rng: np.random.RandomState) -> Workload:
    """Several topics, partial membership, publishers that publish again before the last one is through."""
    nodes = 1 << rng.randint(1, 7)
    topics = rng.randint(1, 4)
    members = rng.random_sample((topics, nodes)) < rng.choice([0.3, 0.7, 1.0])
    members[:, rng.randint(nodes)] = True
    publications = rng.randint(1, 25)
    topic = rng.randint(0, topics, publications)
    return Workload(
        nodes=nodes,
        members=members,
        publish_ut=np.sort(rng.randint(0, rng.choice([1, 50, 1500]), publications)).astype(np.int64),
        publish_node=np.array([rng.choice(members[t].nonzero()[0]) for t in topic], np.int64),
        publish_topic=topic.astype(np.int64),
    )


def random_discussion(rng: np.random.RandomState) -> Workload:
    nodes = 1 << rng.randint(2, 6)
    first = rng.randint(1, 4)
    return Workload(
        nodes=nodes,
        members=np.ones((1, nodes), np.bool_),
        publish_ut=np.sort(rng.randint(0, 300, first)).astype(np.int64),
        publish_node=rng.permutation(nodes)[:first].astype(np.int64),
        publish_topic=np.zeros(first, np.int64),
        answers_after=first,
        answer_wait_ut=rng.randint(0, 100, nodes).astype(np.int64),
    )


def random_storm(rng: np.random.RandomState) -> Workload:
    nodes = 1 << rng.randint(1, 7)
    publications = rng.randint(1, nodes + 1)
    return Workload(
        nodes=nodes,
        members=np.ones((1, nodes), np.bool_),
        publish_ut=np.sort(rng.randint(0, 200, publications)).astype(np.int64),
        publish_node=rng.permutation(nodes)[:publications].astype(np.int64),
        publish_topic=np.zeros(publications, np.int64),
    )


def random_delays(rng: np.random.RandomState) -> Delays:
    return Delays(
        preset=("literal", "calibrated")[rng.randint(2)],
        transmission_ut=int(rng.choice([1, 1, 3])),
        propagation_ut=int(rng.choice([1, 100, 5000])),
        acks=("free", "queued")[rng.randint(2)],
    )


def assert_same_measurements(
    ours: Measurements, theirs: Measurements, leave_out: set[str], seed: int
) -> None:
    for field in fields(Measurements):
        if field.name not in leave_out:
            expected, got = getattr(theirs, field.name), getattr(ours, field.name)
            assert np.array_equal(got, expected), f"seed {seed}: {field.name}: {got} instead of {expected}"


@pytest.mark.parametrize("protocol", ["amended", "published", "unpruned"])
@pytest.mark.parametrize("make", [random_workload, random_discussion])
def test_same_trace_and_measurements_as_the_reference(make: object, protocol: str) -> None:
    for seed in SEEDS:
        rng = np.random.RandomState(seed)
        load, delays = make(rng), random_delays(rng)  # type: ignore[operator]

        reference = Reference(load, delays, seed, protocol).run()
        measured, trace = vcube.run(load, delays, seed, protocol=protocol, trace=True)

        assert trace is not None
        for name in ("publications", "receptions", "deliveries"):
            rows, expected = getattr(trace, name), getattr(reference.trace, name)
            assert sorted(rows) == sorted(expected), f"seed {seed}: {name}"
        assert_same_measurements(measured, reference.measurements(), set(), seed)


def test_storm_measures_what_the_reference_does() -> None:
    for seed in SEEDS:
        rng = np.random.RandomState(seed)
        load, delays = random_storm(rng), random_delays(rng)

        assert storm.is_storm(load)
        protocol = ("amended", "published")[seed % 2]
        measured = storm.run(load, delays, seed, protocol=protocol)

        ordered = {"delivery_ut", "causal_wait_ut", "barrier_entries"}
        expected = Reference(load, delays, seed, protocol).run().measurements()
        assert_same_measurements(measured, expected, ordered, seed)


@pytest.mark.parametrize("acks", ["free", "queued"])
@pytest.mark.parametrize("preset", ["literal", "calibrated"])
def test_both_kernels_agree_where_the_reference_is_too_slow(preset: str, acks: str) -> None:
    """At this size buckets have many chunks; nothing may fall between them."""
    rng = np.random.RandomState(7)
    nodes = 1024
    load = Workload(
        nodes=nodes,
        members=np.ones((1, nodes), np.bool_),
        publish_ut=np.sort(rng.randint(0, 1000, nodes)).astype(np.int64),
        publish_node=rng.permutation(nodes).astype(np.int64),
        publish_topic=np.zeros(nodes, np.int64),
    )
    delays = Delays(preset, acks=acks)  # type: ignore[arg-type]

    fast = storm.run(load, delays, 1)
    general, _ = vcube.run(load, delays, 1, ordered=False)

    assert fast.reception_ut.sum() == nodes * (nodes - 1)
    assert_same_measurements(fast, general, set(), 1)


def test_barriers_hold_something_back() -> None:
    """Otherwise the comparisons above would say nothing about order."""
    runs = [vcube.run(random_discussion(np.random.RandomState(seed)), Delays(), seed)[0] for seed in SEEDS]

    assert sum(int(run.causal_wait_ut[1:].sum()) for run in runs) > 0
    assert sum(int(run.barrier_entries[1:].sum()) for run in runs) > 0
