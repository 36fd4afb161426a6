"""SRPT-S against what the paper and simple counting say of it."""

from __future__ import annotations

import numpy as np
import pytest

from vcubeps.sim.network import Delays
from vcubeps.sim.reference import Reference
from vcubeps.sim.srpt import SrptReference
from vcubeps.sim.workload import Workload


def workload(nodes: int, members: list[int], root: int, *publications: tuple[int, int]) -> Workload:
    mask = np.zeros((1, nodes), np.bool_)
    mask[0, members] = True
    return Workload(
        nodes=nodes,
        members=mask,
        publish_ut=np.array([time for time, _ in publications], np.int64),
        publish_node=np.array([node for _, node in publications], np.int64),
        publish_topic=np.zeros(len(publications), np.int64),
        roots=np.array([root], np.int64),
    )


def mean_latency(run: Reference | SrptReference) -> float:
    published = {(p.source, p.counter): p.published_ut for p in run.trace.publications}
    return float(np.mean([r.time_ut - published[r.source, r.counter] for r in run.trace.receptions]))


def test_without_forwarders_srpt_only_adds_the_hop_to_the_root() -> None:
    """Section 4.1: with 100 % subscribers the only difference is the additional hop."""
    everyone = list(range(32))
    srpt = SrptReference(workload(32, everyone, 0, (0, 9)), Delays(), seed=1).run()
    vcube = Reference(workload(32, everyone, 0, (0, 0)), Delays(), seed=1).run()

    from_root = {r.node: r.time_ut for r in vcube.trace.receptions} | {0: 0}
    assert {r.node: r.time_ut - 102 for r in srpt.trace.receptions} == {
        node: time for node, time in from_root.items() if node != 9
    }


def test_publisher_at_the_root_needs_no_hop() -> None:
    srpt = SrptReference(workload(8, list(range(8)), 0, (0, 0)), Delays(), seed=1).run()

    assert min(r.time_ut for r in srpt.trace.receptions) == 102


def test_path_to_a_far_subscriber_is_made_of_forwarders() -> None:
    """Section 4.1: a leaf subscriber has a branch of log2 N levels even if nobody else on it subscribes."""
    srpt = SrptReference(workload(16, [15], 0, (0, 15)), Delays(), seed=1).run()

    assert srpt.copies == {"PUB": 4, "ACK": 4}
    assert srpt.forwarders == [4]
    assert srpt.trace.receptions == []


@pytest.mark.parametrize("seed", range(5))
def test_every_subscriber_but_the_publisher_receives_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    members = sorted(rng.choice(64, 16, replace=False).tolist())
    srpt = SrptReference(
        workload(64, members, int(rng.integers(64)), (0, members[3])), Delays(), seed=1
    ).run()

    assert sorted(r.node for r in srpt.trace.receptions) == [node for node in members if node != members[3]]
    assert srpt.copies["PUB"] == srpt.copies["ACK"]


def test_root_that_everybody_uses_has_the_only_long_queue() -> None:
    """Table 1: half of the nodes are leaves of the single tree and forward nothing; the root's queue is long."""
    nodes = 64
    publications = [(10 * node % 97, node) for node in range(nodes)]
    load = workload(nodes, list(range(nodes)), 0, *sorted(publications))
    srpt = SrptReference(load, Delays(), seed=1).run()

    means = [float(np.mean(lengths)) if lengths else 0.0 for lengths in srpt.queue_lengths]
    assert sum(mean == 0 for mean in means) == nodes // 2
    assert means[0] > 10 * max(means[1:])
