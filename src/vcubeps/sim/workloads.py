"""From a run's parameters and seed to its workload: who subscribes, publishes, joins and leaves when."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vcubeps.sim.parameters import Parameters, count_of
from vcubeps.sim.scenarios import Run
from vcubeps.sim.workload import Ints, Workload

_SENIOR_SHARE = 4
"""Under churn, publishers are drawn among the longest-standing quarter of the subscribers: whoever has just asked to
subscribe may not publish yet, and in SRPT, whose root is overloaded, not for a long time."""


def build(run: Run) -> Workload:
    """The same for all systems at a point, SRPT-B's attachment of subscribers to brokers excepted."""
    rng = np.random.RandomState(run.seed)
    parameters = run.point.parameters
    scenario = run.point.scenario
    if scenario == "brokers":
        return _brokers(run, rng)
    if scenario == "many-topics":
        return _many_topics(parameters, rng)
    if scenario == "churn" or parameters.get("churn"):
        return _churn(parameters, rng)
    if scenario == "discussion" or parameters.get("questions"):
        return _discussion(parameters, rng)
    if scenario == "custom":
        return _custom(run, rng)
    return _once_each(parameters, rng)


def _once_each(parameters: Parameters, rng: np.random.RandomState) -> Workload:
    """Sections 4.1 and 4.2: some subscribe, some of these publish one message each."""
    nodes = int(parameters["nodes"])
    subscribers = _choose(rng, nodes, count_of("subscribers", parameters.get("subscribers", 1.0), nodes))
    publishers = 1
    if "publishers" in parameters:
        publishers = count_of("publishers", parameters["publishers"], len(subscribers))
    times = rng.randint(0, int(parameters.get("window_ut", 1)), publishers)
    order = np.argsort(times, kind="stable")
    sources = rng.permutation(subscribers)[:publishers]
    return Workload(
        nodes=nodes,
        members=_mask(nodes, subscribers),
        publish_ut=_ints(times[order]),
        publish_node=_ints(sources[order]),
        publish_topic=np.zeros(publishers, np.int64),
        roots=_ints(rng.randint(0, nodes, 1)),
    )


def _discussion(parameters: Parameters, rng: np.random.RandomState) -> Workload:
    """Section 4.3."""
    nodes, questions = int(parameters["nodes"]), int(parameters["questions"])
    subscribers = _choose(rng, nodes, count_of("subscribers", parameters.get("subscribers", 1.0), nodes))
    times = np.sort(rng.randint(0, int(parameters["window_ut"]), questions))
    return Workload(
        nodes=nodes,
        members=_mask(nodes, subscribers),
        publish_ut=_ints(times),
        publish_node=_ints(rng.permutation(subscribers)[:questions]),
        publish_topic=np.zeros(questions, np.int64),
        answers_after=questions,
        answer_wait_ut=_ints(rng.randint(0, int(parameters["answer_wait_ut"]), nodes)),
        roots=_ints(rng.randint(0, nodes, 1)),
    )


def _many_topics(parameters: Parameters, rng: np.random.RandomState) -> Workload:
    """Section 4.4."""
    nodes, topics, messages = (int(parameters[name]) for name in ("nodes", "topics", "messages"))
    interval = int(parameters["interval_ut"])
    nodes_in_turn = rng.permutation(nodes)
    turn = np.arange(messages)
    sources = nodes_in_turn[turn % nodes]
    phase = rng.randint(0, interval, nodes)
    times = phase[sources] + interval * (turn // nodes)
    order = np.argsort(times, kind="stable")
    return Workload(
        nodes=nodes,
        members=np.ones((topics, nodes), np.bool_),
        publish_ut=_ints(times[order]),
        publish_node=_ints(sources[order]),
        publish_topic=_draw_topics(parameters, topics, messages, rng),
        roots=np.arange(topics, dtype=np.int64),
    )


def _churn(parameters: Parameters, rng: np.random.RandomState) -> Workload:
    """Section 4.5: a wave of leaves, as many joins a little later, over and over, while messages are published."""
    nodes, messages = int(parameters["nodes"]), int(parameters["messages"])
    interval = int(parameters["interval_ut"])
    count = count_of("subscribers", parameters.get("subscribers", 1.0), nodes)
    leaving = round(float(parameters["churn"]) * count)
    inside = _choose(rng, nodes, count).tolist()  # in the order in which they joined, at random to begin with
    rng.shuffle(inside)
    initial = list(inside)
    outside = sorted(set(range(nodes)) - set(inside))
    end = messages * interval
    events: list[tuple[int, int, bool]] = []
    publish_node = []
    waves = _waves(parameters, end)
    for message in range(messages):
        now = message * interval
        while waves and waves[0][0] <= now:
            time, joins = waves.pop(0)
            pool = outside if joins else inside
            moved = [pool[k] for k in sorted(rng.permutation(len(pool))[:leaving])]
            keep = set(moved)
            if joins:
                outside = [node for node in outside if node not in keep]
                inside += moved
            else:
                inside = [node for node in inside if node not in keep]
                outside += moved
            events += [(time, node, joins) for node in moved]
        publish_node.append(inside[rng.randint(max(1, len(inside) // _SENIOR_SHARE))])
    return Workload(
        nodes=nodes,
        members=_mask(nodes, np.array(initial)),
        publish_ut=_ints(np.arange(messages) * interval),
        publish_node=_ints(np.array(publish_node)),
        publish_topic=np.zeros(messages, np.int64),
        change_ut=_ints(np.array([time for time, _, _ in events])),
        change_node=_ints(np.array([node for _, node, _ in events])),
        change_topic=np.zeros(len(events), np.int64),
        change_joins=np.array([joins for _, _, joins in events], np.bool_),
        roots=_ints(rng.randint(0, nodes, 1)),
    )


def _waves(parameters: Parameters, end: int) -> list[tuple[int, bool]]:
    """(time, whether they join), in order."""
    interval, gap = int(parameters["churn_interval_ut"]), int(parameters["churn_gap_ut"])
    starts = range(interval, end, interval)
    return sorted([(start, False) for start in starts] + [(start + gap, True) for start in starts])


def _brokers(run: Run, rng: np.random.RandomState) -> Workload:
    """Section 4.6."""
    parameters = run.point.parameters
    nodes, messages = int(parameters["nodes"]), int(parameters["messages"])
    brokers = int(parameters.get("brokers", 0))
    subscribers = np.arange(brokers, nodes)
    tree = brokers or nodes
    share = float(parameters["publishers"])  # of the tree's size, in the paper; a number is a number
    publishers = round(share * tree) if share <= 1 else int(share)
    publishers = max(1, min(publishers, messages, len(subscribers)))
    sources = rng.permutation(subscribers)[:publishers]
    turn = np.arange(messages)
    phase = rng.randint(0, int(parameters["window_ut"]), publishers)
    times = phase[turn % publishers] + int(parameters["interval_ut"]) * (turn // publishers)
    order = np.argsort(times, kind="stable")
    return Workload(
        nodes=nodes,
        members=_mask(nodes, subscribers),
        publish_ut=_ints(times[order]),
        publish_node=_ints(sources[turn % publishers][order]),
        publish_topic=np.zeros(messages, np.int64),
        roots=_ints(rng.randint(0, tree, 1)),
        brokers=brokers,
    )


def _custom(run: Run, rng: np.random.RandomState) -> Workload:
    """Random all through: each message has a random time, a random topic, and a random one of its publishers."""
    parameters = run.point.parameters
    nodes, topics, messages = (int(parameters[name]) for name in ("nodes", "topics", "messages"))
    brokers = int(parameters.get("brokers", 0))
    candidates = nodes - brokers
    count = min(count_of("subscribers", parameters["subscribers"], nodes), candidates)
    publishers = count_of("publishers", parameters["publishers"], count)
    members = np.zeros((topics, nodes), np.bool_)
    speakers = np.empty((topics, publishers), np.int64)
    for topic in range(topics):
        subscribers = brokers + _choose(rng, candidates, count)
        members[topic, subscribers] = True
        speakers[topic] = rng.permutation(subscribers)[:publishers]
    topic_of = _draw_topics(parameters, topics, messages, rng)
    return Workload(
        nodes=nodes,
        members=members,
        publish_ut=_ints(np.sort(rng.randint(0, int(parameters["window_ut"]), messages))),
        publish_node=_ints(speakers[topic_of, rng.randint(0, publishers, messages)]),
        publish_topic=topic_of,
        roots=_ints(rng.randint(0, brokers or nodes, topics)),
        brokers=brokers,
    )


def _draw_topics(parameters: Parameters, topics: int, messages: int, rng: np.random.RandomState) -> Ints:
    if parameters["distribution"] == "uniform":
        return _ints(rng.randint(0, topics, messages))
    weights = np.arange(1, topics + 1, dtype=np.float64) ** -float(parameters["zipf_exponent"])
    cumulated = np.cumsum(weights / weights.sum())
    return _ints(np.minimum(np.searchsorted(cumulated, rng.random_sample(messages)), topics - 1))


def _choose(rng: np.random.RandomState, nodes: int, count: int) -> NDArray[np.int64]:
    return np.arange(nodes) if count == nodes else np.sort(rng.permutation(nodes)[:count])


def _mask(nodes: int, members: NDArray[np.int64]) -> NDArray[np.bool_]:
    mask = np.zeros((1, nodes), np.bool_)
    mask[0, members] = True
    return mask


def _ints(values: NDArray[np.generic]) -> Ints:
    return np.ascontiguousarray(values, np.int64)
