"""The churn kernels against the reference simulation: same inputs, same trace, same measurements."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from vcubeps.sim.kernel import churn_amended, churn_published
from vcubeps.sim.kernel.churn import Capacity, Setting
from vcubeps.sim.measurements import Measurements
from vcubeps.sim.network import Delays
from vcubeps.sim.reference import PROTOCOLS, Reference
from vcubeps.sim.trace import Trace
from vcubeps.sim.workload import Workload

SEEDS = {4: 40, 8: 30, 16: 20, 32: 12, 64: 8}
"""Nodes → runs. The reference takes nearly all of the time."""


def random_workload(nodes: int, rng: np.random.Generator) -> Workload:
    """Joins, leaves, rejoins and publications at random times; many cannot be done at their time."""
    changes, publications = int(rng.integers(0, 4 * nodes)), int(rng.integers(1, 3 * nodes))
    horizon_ut = int(rng.choice([100, 1000, 4000]))
    publishers = rng.choice(nodes, max(1, nodes // int(rng.integers(1, 4))), replace=False)
    return Workload(
        nodes=nodes,
        members=rng.random((1, nodes)) < rng.choice([0, 0.3, 0.7, 1]),
        publish_ut=np.sort(rng.integers(0, horizon_ut, publications)),
        publish_node=rng.choice(publishers, publications),
        publish_topic=np.zeros(publications, np.int64),
        change_ut=np.sort(rng.integers(0, horizon_ut, changes)),
        change_node=rng.integers(0, nodes, changes),
        change_topic=np.zeros(changes, np.int64),
        change_joins=rng.random(changes) < rng.choice([0.3, 0.5, 0.7]),
    )


def random_delays(seed: int, rng: np.random.Generator) -> Delays:
    """Both presets and both kinds of acknowledgement; slow transmitters, so that messages overtake others."""
    return Delays(
        preset=("literal", "calibrated")[seed % 2],  # type: ignore[arg-type]
        acks=("free", "queued")[seed // 2 % 2],  # type: ignore[arg-type]
        transmission_ut=int(rng.choice([1, 3, 15])),
        propagation_ut=int(rng.choice([1, 20, 100])),
    )


def run_kernel(
    protocol: str, workload: Workload, delays: Delays, seed: int, *, trace: bool = True
) -> tuple[Measurements, Trace | None]:
    if protocol == "amended":
        return churn_amended.run(workload, delays, seed, trace=trace)
    return churn_published.run(workload, delays, seed, prune=protocol == "published", trace=trace)


def differing_measurements(one: Measurements, other: Measurements) -> list[str]:
    names = [field.name for field in fields(Measurements)]
    return [name for name in names if not np.array_equal(getattr(one, name), getattr(other, name))]


@pytest.mark.parametrize("nodes", SEEDS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_kernel_does_what_the_reference_does(protocol: str, nodes: int) -> None:
    for seed in range(SEEDS[nodes]):
        rng = np.random.default_rng((nodes, seed))
        workload, delays = random_workload(nodes, rng), random_delays(seed, rng)

        measurements, rows = run_kernel(protocol, workload, delays, seed)
        reference = Reference(workload, delays, seed, protocol).run()

        case = f"{protocol}, {nodes} nodes, seed {seed}"
        assert rows is not None
        assert rows.receptions == reference.trace.receptions, case
        assert rows.deliveries == reference.trace.deliveries, case
        assert rows.membership == reference.trace.membership, case
        assert sorted(rows.publications) == sorted(reference.trace.publications), case
        assert differing_measurements(measurements, reference.measurements()) == [], case


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_random_workloads_have_what_makes_the_kernels_complicated(protocol: str) -> None:
    """Waits for causal order, false positives, rejoins; and losses of the published algorithm only."""
    waits = false_positives = lost = rejoins = 0
    for seed in range(SEEDS[64]):
        rng = np.random.default_rng((64, seed))
        workload, delays = random_workload(64, rng), random_delays(seed, rng)
        measurements, rows = run_kernel(protocol, workload, delays, seed)
        assert rows is not None
        joins = [change.node for change in rows.membership if change.joins]
        waits += int(measurements.causal_wait_ut[1:].sum())
        false_positives += measurements.false_positives
        lost += measurements.lost
        rejoins += len(joins) - len(set(joins))

    assert min(waits, false_positives, rejoins) > 0
    assert (lost > 0) == (protocol != "amended")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_without_a_trace_the_measurements_are_the_same(protocol: str) -> None:
    rng = np.random.default_rng(1)
    workload, delays = random_workload(32, rng), random_delays(1, rng)

    bare, rows = run_kernel(protocol, workload, delays, 1, trace=False)

    assert rows is None
    assert differing_measurements(bare, run_kernel(protocol, workload, delays, 1)[0]) == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_sizes_guessed_too_small_are_found_out(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each buffer overflows at least once, and the result is that of a run in which none does."""
    rng = np.random.default_rng(5)
    workload, delays = random_workload(64, rng), Delays(transmission_ut=15, acks="queued")
    ample, _ = run_kernel(protocol, workload, delays, 1)
    grown: set[int] = set()
    grow = Capacity.grow

    def noted(capacity: Capacity, status: int) -> None:
        grown.add(status)
        grow(capacity, status)

    monkeypatch.setattr(Capacity, "grow", noted)
    monkeypatch.setattr(Setting, "first_capacity", lambda _: Capacity(128, 2, 2, 1, 1))
    scarce, _ = run_kernel(protocol, workload, delays, 1)

    assert len(grown) == 5
    assert differing_measurements(ample, scarce) == []


@pytest.mark.parametrize("kernel", [churn_amended, churn_published])
def test_several_topics_are_refused(kernel: object) -> None:
    workload = Workload(nodes=4, members=np.ones((2, 4), np.bool_))

    with pytest.raises(ValueError, match="one topic, got 2"):
        kernel.run(workload, Delays(), 1)  # type: ignore[attr-defined]
