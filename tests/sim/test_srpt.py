"""SRPT-S and SRPT-B against what the paper and simple counting say of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vcubeps.sim.network import Delays
from vcubeps.sim.reference import Reference
from vcubeps.sim.srpt import SrptReference
from vcubeps.sim.trace import Change
from vcubeps.sim.workload import Workload


def workload(
    nodes: int,
    members: list[int],
    root: int,
    *publications: tuple[int, int],
    changes: tuple[tuple[int, int, bool], ...] = (),
    brokers: int = 0,
) -> Workload:
    """One topic; publications are (time, node), changes (time, node, joins)."""
    mask = np.zeros((1, nodes), np.bool_)
    mask[0, members] = True
    return Workload(
        nodes=nodes,
        members=mask,
        publish_ut=np.array([time for time, _ in publications], np.int64),
        publish_node=np.array([node for _, node in publications], np.int64),
        publish_topic=np.zeros(len(publications), np.int64),
        change_ut=np.array([time for time, _, _ in changes], np.int64),
        change_node=np.array([node for _, node, _ in changes], np.int64),
        change_topic=np.zeros(len(changes), np.int64),
        change_joins=np.array([joins for _, _, joins in changes], np.bool_),
        roots=np.array([root], np.int64),
        brokers=brokers,
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


def test_measurements_count_the_path_from_the_source_and_everyone_who_did_not_want_it() -> None:
    """Sixteen nodes, root 0, source 1: 15 is one hop to the root and four down, past three forwarders."""
    measured = SrptReference(workload(16, [1, 15], 0, (0, 1)), Delays(), seed=1).run().measurements()

    assert measured.path_hops.tolist() == [0, 0, 0, 0, 0, 1]
    # The root's copy to 15 is its second, after the one to 1; every other on the path is a first one.
    assert measured.reception_ut.nonzero()[0].tolist() == [102 + 103 + 3 * 102]
    assert measured.false_positives == measured.forwarders == 4
    assert (measured.expected, measured.lost) == (1, 0)
    assert measured.queue_total.tolist()[0] == 1 + 2
    assert measured.events == 1 + 5 + 5


# -- brokers -----------------------------------------------------------------------------------


def test_broker_sends_to_its_subscribers_one_by_one() -> None:
    """Section 4.6: the tree has the brokers only; a broker serves its subscribers from a queue of their own."""
    load = workload(16, list(range(4, 16)), 0, (0, 5), brokers=4)
    run = SrptReference(load, Delays(), seed=1).run()
    measured = run.measurements()

    arrivals = {r.node: r.time_ut for r in run.trace.receptions}
    at_root = 102
    assert [arrivals[node] - at_root for node in (4, 8, 12)] == [102, 103, 104]
    # Broker 1 is the root's first child; its subscriber 5 is the source and gets nothing.
    assert [arrivals[node] - at_root - 102 for node in (9, 13)] == [102, 103]
    assert measured.broker_ut.nonzero()[0].tolist() == [102, 204, 205, 307]
    assert measured.last_hop_ut[102:].tolist() == [4, 4, 3]
    assert measured.pub_copies == measured.ack_copies == 3 + 11
    assert measured.forwarders == measured.false_positives == 0
    assert measured.path_hops.tolist() == [0, 0, 3, 5, 3]


def test_latency_with_brokers_is_that_of_the_tree_plus_that_of_the_last_hop() -> None:
    """Section 4.6: with equally many subscribers at each broker the two means add up."""
    nodes, brokers = 64, 8
    publications = [(17 * node % 41, node) for node in range(brokers, nodes)]
    load = workload(nodes, list(range(brokers, nodes)), 3, *sorted(publications), brokers=brokers)
    measured = SrptReference(load, Delays(), seed=1).run().measurements()

    total, tree, last = (
        float(np.average(np.arange(len(counts)), weights=counts))
        for counts in (measured.reception_ut, measured.broker_ut, measured.last_hop_ut)
    )
    # A broker sends one copy less of its own subscribers' publications, so they add up only nearly.
    assert total == pytest.approx(tree + last, rel=0.01)
    assert measured.lost == 0


# -- changes of membership -----------------------------------------------------------------------


def test_subscription_is_in_effect_when_it_comes_back_through_the_tree() -> None:
    """0 → 2 → 3 and 0 → 4 → 5: the tree of the SUB has the path to the node that joins, behind the other one."""
    load = workload(8, [0, 3], 0, (307, 5), (308, 5), changes=((0, 5, True),))
    run = SrptReference(load, Delays(), seed=1).run()

    assert run.trace.membership == [Change(102 + 103 + 102, 5, 0, joins=True, asked_ut=0)]
    assert run.copies["SUB"] == 4
    # At 307 the SUB comes after the inputs of that time: the publication is skipped.
    assert [(p.published_ut, p.source) for p in run.trace.publications] == [(308, 5)]
    assert sorted(r.node for r in run.trace.receptions) == [0, 3]
    assert run.copies["ACK"] == run.copies["SUB"] + run.copies["PUB"]


def test_leave_is_in_effect_at_the_root_and_still_travels_the_path_that_it_ends() -> None:
    load = workload(8, [0, 3, 5], 0, (200, 0), changes=((0, 3, False),))
    run = SrptReference(load, Delays(), seed=1).run()

    assert run.trace.membership == [Change(102, 3, 0, joins=False, asked_ut=0)]
    assert run.copies == {"UNS": 4, "PUB": 2, "ACK": 6}
    assert [r.node for r in run.trace.receptions] == [5]


def test_publication_on_its_way_to_a_node_that_leaves_is_a_false_positive() -> None:
    load = workload(8, [0, 3, 5], 0, (0, 0), changes=((150, 3, False),))
    run = SrptReference(load, Delays(), seed=1).run()
    measured = run.measurements()

    assert [r.node for r in run.trace.receptions] == [5]
    assert measured.false_positives == 3  # forwarders 2 and 4, and 3
    assert (measured.expected, measured.lost) == (1, 0)
    assert measured.forwarders == 0  # they differ from moment to moment


def test_subscription_that_its_node_ends_before_it_is_in_effect_leaves_no_trace() -> None:
    load = workload(8, [0, 3], 0, (2000, 0), changes=((0, 5, True), (1, 5, False)))
    run = SrptReference(load, Delays(), seed=1).run()

    assert run.trace.membership == []
    assert (run.copies["SUB"], run.copies["UNS"]) == (4, 4)
    assert [r.node for r in run.trace.receptions] == [3]


def test_change_to_what_a_node_has_asked_for_already_is_no_change() -> None:
    load = workload(8, [0, 3], 0, changes=((0, 3, True), (0, 5, False)))
    run = SrptReference(load, Delays(), seed=1).run()

    assert run.copies == {}


def test_publication_waits_behind_the_changes_in_the_queue_of_the_root() -> None:
    """Section 4.5: the changes contend for the root."""
    members = list(range(16))
    churn = tuple((0, node, False) for node in range(8, 16)) + tuple(
        (0, node, True) for node in range(16, 24)
    )
    calm = SrptReference(workload(32, members, 0, (1, 1)), Delays(), seed=1).run()
    busy = SrptReference(workload(32, members, 0, (1, 1), changes=churn), Delays(), seed=1).run()

    assert mean_latency(busy) > mean_latency(calm) + 40
    assert busy.measurements().lost == 0


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"nodes": 12}, "power of two, got 12"),
        ({"answers_after": 1}, "SRPT has no answers, got answers_after=1"),
        ({"roots": np.array([0, 1])}, "each of the 1 topics needs a root, got 2 roots"),
        ({"roots": np.array([8])}, r"roots must be nodes 0 to 7, got \[8\]"),
        ({"brokers": 3}, "power of two, at most 8, got 3"),
        ({"brokers": 2}, "nodes 0 to 1 must not be members"),
    ],
)
def test_what_cannot_be_run_is_refused(changed: dict[str, object], complaint: str) -> None:
    load = replace(workload(8, list(range(8)), 0, (0, 0)), **changed)  # type: ignore[arg-type]

    with pytest.raises(ValueError, match=complaint):
        SrptReference(load, Delays(), seed=1)


def test_changes_with_brokers_are_refused() -> None:
    load = workload(8, [4, 5], 0, changes=((0, 4, False),), brokers=4)

    with pytest.raises(ValueError, match="with brokers memberships do not change"):
        SrptReference(load, Delays(), seed=1)


def test_copy_that_would_arrive_before_it_is_sent_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a flight of 0 u\.t\. is too short"):
        SrptReference(workload(2, [0, 1], 0), Delays("calibrated", propagation_ut=0), seed=1)
