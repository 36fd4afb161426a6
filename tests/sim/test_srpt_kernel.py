"""The compiled SRPT against the reference simulation, event by event, and against the paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from vcubeps.sim.kernel import srpt, srpt_churn
from vcubeps.sim.measurements import Histogram, Measurements
from vcubeps.sim.network import Delays
from vcubeps.sim.srpt import SrptReference
from vcubeps.sim.workload import Workload


def mean(counts: Histogram) -> float:
    return float(np.average(np.arange(len(counts)), weights=counts))


def random_delays(rng: np.random.Generator, seed: int) -> Delays:
    """Both presets and both ways of acknowledging, in turn; mostly the paper's times."""
    return Delays(
        ("literal", "calibrated")[seed & 1],  # type: ignore[arg-type]
        acks=("free", "queued")[seed >> 1 & 1],  # type: ignore[arg-type]
        transmission_ut=int(rng.choice([1, 1, 3])),
        propagation_ut=int(rng.choice([1, 7, 100, 100])),
        processing_ut=int(rng.choice([0, 1])),
    )


def random_workload(
    rng: np.random.Generator, *, with_brokers: bool = False, with_changes: bool = False
) -> Workload:
    nodes = int(2 ** rng.integers(1, 7))
    topics = int(rng.integers(1, 5))
    brokers = int(2 ** rng.integers(0, nodes.bit_length() - 1)) if with_brokers else 0
    members = rng.random((topics, nodes)) < rng.choice([0.1, 0.5, 1.0])
    members[:, :brokers] = False
    publications = int(rng.integers(1, 30))
    topic = rng.integers(topics, size=publications)
    # Mostly by members; who is none does not publish, and both simulations have to know.
    source = [
        rng.choice(members[t].nonzero()[0])
        if members[t].any() and rng.random() < 0.9
        else rng.integers(nodes)
        for t in topic
    ]
    changes = int(rng.integers(1, 50)) if with_changes else 0
    # Few nodes that change often overtake themselves; many nodes fill the queues.
    fickle = rng.integers(nodes, size=max(1, nodes // int(rng.choice([1, 4]))))
    return Workload(
        nodes=nodes,
        members=members,
        publish_ut=np.sort(rng.integers(0, rng.choice([1, 50, 1000]), publications)),
        publish_node=np.array(source, np.int64),
        publish_topic=topic,
        change_ut=np.sort(rng.integers(0, rng.choice([5, 300, 2000]), changes)),
        change_node=rng.choice(fickle, changes),
        change_topic=rng.integers(topics, size=changes),
        change_joins=rng.random(changes) < 0.5,
        roots=rng.integers(brokers or nodes, size=topics),
        brokers=brokers,
    )


def assert_same_measurements(expected: Measurements, got: Measurements, *, but: tuple[str, ...] = ()) -> None:
    for field in fields(Measurements):
        if field.name not in but:
            wanted, found = getattr(expected, field.name), getattr(got, field.name)
            assert np.array_equal(wanted, found), f"{field.name}: expected {wanted}, got {found}"


def assert_kernel_agrees(
    load: Workload, delays: Delays, seed: int, run: Callable[..., Any] = srpt.run
) -> Measurements:
    reference = SrptReference(load, delays, seed).run()
    measured, trace = run(load, delays, seed, trace=True)

    for rows in ("publications", "receptions", "deliveries", "membership"):
        assert sorted(getattr(trace, rows)) == sorted(getattr(reference.trace, rows)), rows
    assert_same_measurements(reference.measurements(), measured)
    return measured  # type: ignore[no-any-return]


# -- the same as the reference, event by event -----------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_kernel_is_the_reference_while_membership_does_not_change(seed: int) -> None:
    rng = np.random.default_rng([seed, 0])

    assert_kernel_agrees(random_workload(rng), random_delays(rng, seed), seed)


@pytest.mark.parametrize("seed", range(60))
def test_kernel_is_the_reference_with_brokers(seed: int) -> None:
    rng = np.random.default_rng([seed, 1])

    assert_kernel_agrees(random_workload(rng, with_brokers=True), random_delays(rng, seed), seed)


@pytest.mark.parametrize("seed", range(80))
def test_kernel_is_the_reference_while_membership_changes(seed: int) -> None:
    rng = np.random.default_rng([seed, 2])

    measured = assert_kernel_agrees(random_workload(rng, with_changes=True), random_delays(rng, seed), seed)

    assert measured.lost == 0


def test_buffers_that_are_too_small_grow_until_the_run_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    still, changing = random_workload(rng), random_workload(rng, with_changes=True)
    monkeypatch.setattr(srpt, "_FIRST_SPAN_MAX_UT", 1)
    monkeypatch.setattr(srpt, "_FIRST_WAITING_MAX", 1)
    monkeypatch.setattr(srpt, "_SPARE_EVENTS", 1)
    monkeypatch.setattr(srpt_churn, "_FIRST_SPAN_MAX_UT", 1)
    monkeypatch.setattr(srpt_churn, "_FIRST_WAITING", 1)

    assert_kernel_agrees(still, Delays(acks="queued"), 1)
    assert_kernel_agrees(changing, Delays(acks="queued"), 1)


def test_nothing_to_do_is_done_at_once() -> None:
    load = Workload(nodes=4, members=np.ones((1, 4), np.bool_), roots=np.zeros(1, np.int64))

    assert_kernel_agrees(load, Delays(), 1)


# -- sizes that the reference cannot reach ---------------------------------------------------------


def everyone_publishes(nodes: int, seed: int) -> Workload:
    """Section 4.2: all subscribe, and publish once at a time uniform in [0, 1000)."""
    rng = np.random.default_rng(seed)
    return Workload(
        nodes=nodes,
        members=np.ones((1, nodes), np.bool_),
        publish_ut=np.sort(rng.integers(0, 1000, nodes)),
        publish_node=rng.permutation(nodes),
        publish_topic=np.zeros(nodes, np.int64),
        roots=rng.integers(nodes, size=1),
    )


def one_publishes(nodes: int, share: float, seed: int) -> Workload:
    """Section 4.1: a random subscriber publishes once, the root is any node."""
    rng = np.random.default_rng(seed)
    subscribers = rng.choice(nodes, round(share * nodes), replace=False)
    members = np.zeros((1, nodes), np.bool_)
    members[0, subscribers] = True
    return Workload(
        nodes=nodes,
        members=members,
        publish_ut=np.zeros(1, np.int64),
        publish_node=subscribers[:1],
        publish_topic=np.zeros(1, np.int64),
        roots=rng.integers(nodes, size=1),
    )


@pytest.mark.parametrize("acks", ["free", "queued"])
@pytest.mark.parametrize("preset", ["literal", "calibrated"])
def test_both_kernels_agree_where_queues_are_long(preset: Any, acks: Any) -> None:
    """Buckets of many chunks: no event is lost or changes its place. Neither kernel's loop is the other's."""
    load, delays = everyone_publishes(512, 1), Delays(preset, acks=acks)
    still, _ = srpt.run(load, delays, 1)
    changing, _ = srpt_churn.run(load, delays, 1)

    assert still.reception_ut.sum() == still.expected == 512 * 511
    assert_same_measurements(still, changing)


def test_no_event_is_lost_in_a_large_run() -> None:
    """A bucket whose first chunk follows its full last one in the pool once looked empty."""
    measured, _ = srpt.run(everyone_publishes(4096, 1), Delays("calibrated"), 1)

    assert measured.reception_ut.sum() == measured.expected == 4096 * 4095


def test_million_nodes_have_the_closed_form_of_the_tree() -> None:
    dimension = 20
    nodes = 1 << dimension
    measured, _ = srpt.run(one_publishes(nodes, 1.0, 1), Delays(), 1)

    # VCube-PS's mean with the root as publisher, over all nodes; then the hop to the root, where all but
    # the publisher itself count.
    from_root = (dimension * 101 + dimension * (dimension + 1) / 2) / 2
    assert mean(measured.reception_ut) == pytest.approx(102 + from_root, abs=0.01)
    assert measured.reception_ut.sum() == measured.pub_copies == nodes - 1


# -- the paper ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_average_queues_are_those_of_table_1(seed: int) -> None:
    measured, _ = srpt.run(everyone_publishes(1024, seed), Delays(), seed)

    queues = measured.queue_total / np.maximum(measured.queue_copies, 1)
    above = [0, 2, 4, 8, 4096, 8192]
    groups = [int(((low < queues) & (queues <= high)).sum()) for low, high in pairwise(above)]
    assert [int((queues == 0).sum()), *groups] == [512, 448, 60, 3, 0, 1]


def test_latency_of_one_publisher_is_that_of_figure_4a() -> None:
    """N = 4096, 25 % subscribers: 720 u.t."""
    delays = Delays("calibrated")
    means = [
        mean(srpt.run(one_publishes(4096, 0.25, seed), delays, seed)[0].reception_ut) for seed in range(10)
    ]

    assert np.mean(means) == pytest.approx(720, rel=0.01)


def test_forwarders_and_paths_are_those_of_section_4_1() -> None:
    """N = 4096, 30 % subscribers: 779 forwarders (one run; ours vary by 22 from run to run), paths of 7 hops."""
    runs = [srpt.run(one_publishes(4096, 0.3, seed), Delays(), seed)[0] for seed in range(10)]

    assert np.mean([run.forwarders for run in runs]) == pytest.approx(779, rel=0.05)
    assert np.mean([mean(run.path_hops) for run in runs]) == pytest.approx(7, abs=0.1)


def test_fewer_brokers_make_the_tree_faster_and_the_last_hop_slower() -> None:
    """Section 4.6, figure 10: 4096 nodes, 128 messages in all."""
    tree, last_hop = [], []
    for brokers in (32, 256, 2048):
        rng = np.random.default_rng(brokers)
        members = np.arange(4096)[None, :] >= brokers
        publishers = rng.choice(np.arange(brokers, 4096), min(brokers // 8, 128), replace=False)
        rounds = 128 // len(publishers)
        load = Workload(
            nodes=4096,
            members=members,
            publish_ut=np.repeat(500 * np.arange(rounds), len(publishers)),
            publish_node=np.tile(publishers, rounds),
            publish_topic=np.zeros(128, np.int64),
            roots=rng.integers(brokers, size=1),
            brokers=brokers,
        )
        measured, _ = srpt.run(load, Delays(), 1)
        tree.append(mean(measured.broker_ut))
        last_hop.append(mean(measured.last_hop_ut))

    assert tree == sorted(tree)
    assert last_hop == sorted(last_hop, reverse=True)
