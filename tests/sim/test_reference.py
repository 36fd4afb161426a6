"""The reference simulation against closed forms and against the paper's statements of section 4."""

from __future__ import annotations

import numpy as np
import pytest

from vcubeps.sim.network import Delays, coin
from vcubeps.sim.reference import PROTOCOLS, Reference
from vcubeps.sim.workload import Workload


def everyone_subscribed(nodes: int, *publications: tuple[int, int]) -> Workload:
    """One topic; publications are (time, node)."""
    times, sources = zip(*publications, strict=True)
    return Workload(
        nodes=nodes,
        members=np.ones((1, nodes), np.bool_),
        publish_ut=np.array(times, np.int64),
        publish_node=np.array(sources, np.int64),
        publish_topic=np.zeros(len(times), np.int64),
    )


def mean_latency(run: Reference) -> float:
    published = {(p.source, p.counter): p.published_ut for p in run.trace.publications}
    return float(np.mean([r.time_ut - published[r.source, r.counter] for r in run.trace.receptions]))


def closed_form(dimension: int, cost: float) -> float:
    """Everyone subscribed, one publisher: a path of k hops costs k·cost plus its places in the queues."""
    nodes = 1 << dimension
    return nodes / (nodes - 1) * (dimension * cost + dimension * (dimension + 1) / 2) / 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("dimension", range(1, 7))
def test_latency_of_one_publisher_is_the_closed_form(protocol: str, dimension: int) -> None:
    """Section 4.1: proportional to log2 N."""
    workload = everyone_subscribed(1 << dimension, (0, (1 << dimension) - 1))

    run = Reference(workload, Delays(), seed=1, protocol=protocol).run()

    assert mean_latency(run) == pytest.approx(closed_form(dimension, 101), abs=1e-9)


def test_calibrated_latency_is_the_closed_form_on_average() -> None:
    dimension, runs = 5, 60
    means = [
        mean_latency(Reference(everyone_subscribed(32, (0, 3)), Delays("calibrated"), seed).run())
        for seed in range(runs)
    ]

    # A path has at most five coins of variance ¼: the mean of 60 runs of 31 receptions lies well within 0.5.
    assert np.mean(means) == pytest.approx(closed_form(dimension, 98.5), abs=0.5)
    assert len(set(means)) > 1


def test_every_subscriber_gets_exactly_one_copy() -> None:
    """Section 4.1: VCube-PS has no forwarders, so as many PUB messages as receivers."""
    run = Reference(everyone_subscribed(32, (0, 5)), Delays(), seed=1).run()

    assert run.copies["PUB"] == run.copies["ACK"] == 31
    assert sorted(r.node for r in run.trace.receptions) == [n for n in range(32) if n != 5]


def test_second_publication_of_a_source_waits_for_the_acknowledgements_of_the_first() -> None:
    run = Reference(everyone_subscribed(4, (0, 0), (1, 0)), Delays(), seed=1).run()

    first, second = run.trace.publications
    assert second.published_ut == 1
    assert second.started_ut > max(r.time_ut for r in run.trace.receptions if r.counter == first.counter)


@pytest.mark.parametrize("acks", ["free", "queued"])
def test_acknowledgements_take_their_turn_only_if_they_queue(acks: str) -> None:
    """Publications overlap: acknowledgements compete with copies for the transmitters."""
    workload = everyone_subscribed(32, *sorted((node * node % 37, node) for node in range(32)))

    run = Reference(workload, Delays(acks=acks), seed=1).run()  # type: ignore[arg-type]
    free = Reference(workload, Delays(), seed=1).run()

    assert (mean_latency(run) > mean_latency(free)) == (acks == "queued")


def test_queue_of_a_lone_source_grows_with_each_copy() -> None:
    """Metric (3): the length just after each insertion; a node that forwards nothing has none."""
    run = Reference(everyone_subscribed(8, (0, 0)), Delays(), seed=1).run()

    assert run.queue_lengths[0] == [1, 2, 3]
    assert run.queue_lengths[7] == []


def test_answers_come_after_the_question_and_carry_it_as_their_barrier() -> None:
    """Section 4.3 with p = 1."""
    workload = everyone_subscribed(8, (0, 2))
    waits = np.arange(8, dtype=np.int64) * 7
    discussion = Workload(
        nodes=8,
        members=workload.members,
        publish_ut=workload.publish_ut,
        publish_node=workload.publish_node,
        publish_topic=workload.publish_topic,
        answers_after=1,
        answer_wait_ut=waits,
    )

    run = Reference(discussion, Delays(), seed=1).run()

    question = run.trace.publications[0]
    asked = {d.node: d.time_ut for d in run.trace.deliveries if d.source == question.source}
    answers = run.trace.publications[1:]
    assert len(answers) == 7
    assert len(run.trace.deliveries) == 8 * 8
    for answer in answers:
        assert answer.published_ut == asked[answer.source] + waits[answer.source]
        assert answer.barrier


def test_coin_is_fair_and_differs_between_copies() -> None:
    tosses = [coin(seed, 3, 1, node, False) for seed in range(100) for node in range(100)]

    # 10,000 tosses: five standard deviations are 250.
    assert abs(sum(tosses) - 5000) < 250
