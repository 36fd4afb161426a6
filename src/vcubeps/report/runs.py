"""Short names for the runs that figures and numbers are made of."""

from __future__ import annotations

from vcubeps.sim.measures import QUEUE, Measure
from vcubeps.sim.parameters import Value
from vcubeps.sim.scenarios import SRPT_B, SRPT_S, VCUBE, Point, points

NAMES = {VCUBE: "VCube-PS", SRPT_S: "SRPT", SRPT_B: "SRPT-B"}
"""Systems as the paper writes them; in section 4.6 SRPT is SRPT-S."""

LATENCY = Measure("reception_ut")
PUBS = Measure("pub_copies")
FORWARDERS = Measure("forwarders")
PATH = Measure("path_hops")
FALSE_POSITIVES = Measure("false_positives")
ENTRIES = Measure("barrier_entries")
TREE = Measure("broker_ut")
BROKER_TO_SUBSCRIBER = Measure("last_hop_ut")

QUEUE_GROUPS = ((-1, 0), (0, 2), (2, 4), (4, 8), (8, 16), (16, 32), (32, 4096), (4096, 8192))
"""Of table 1: (low, high]; the first is 0 alone."""
QUEUE_NAMES = ("0", *(f"({low}, {high}]" for low, high in QUEUE_GROUPS[1:]))


def queue_group(low: int, high: int) -> Measure:
    """How many nodes have an average queue in (low, high]."""
    return Measure(QUEUE, "count", low=low + 1, high=high)


def one_point(scenario: str, system: str, **chosen: Value) -> Point:
    """The only point that these parameters leave. Raises if they leave several, or if they make no sense."""
    [point] = points(scenario, {name: (value,) for name, value in chosen.items()}, (system,))
    return point


def single(system: str, nodes: int, subscribers: float, preset: str = "calibrated") -> Point:
    """Section 4.1: one publisher."""
    return one_point("one-publisher", system, nodes=nodes, subscribers=subscribers, preset=preset)


def storm(
    system: str, nodes: int, publishers: float, preset: str = "calibrated", propagation_ut: int = 100
) -> Point:
    """Section 4.2: several publishers."""
    return one_point(
        "many-publishers", system, nodes=nodes, publishers=publishers, preset=preset,
        propagation_ut=propagation_ut,
    )  # fmt: skip


def queues(system: str) -> Point:
    """Table 1."""
    return one_point("queues", system, nodes=1024)


def discussion(nodes: int, questions: int, protocol: str) -> Point:
    """Section 4.3."""
    return one_point("discussion", VCUBE, nodes=nodes, questions=questions, protocol=protocol)


def topics(system: str, messages: int, distribution: str) -> Point:
    """Section 4.4."""
    return one_point("many-topics", system, nodes=256, messages=messages, distribution=distribution)


def churn(system: str, nodes: int, share: float, protocol: str = "published") -> Point:
    """Section 4.5; the protocol is VCube-PS's."""
    if system == VCUBE:
        return one_point("churn", system, nodes=nodes, churn=share, protocol=protocol)
    return one_point("churn", system, nodes=nodes, churn=share)


def brokers(system: str, nodes: int, count: int = 0) -> Point:
    """Section 4.6; the count is SRPT-B's. Receptions do not depend on causal order, so it is not kept."""
    if system == SRPT_B:
        return one_point("brokers", system, nodes=nodes, brokers=count)
    if system == VCUBE:
        return one_point("brokers", system, nodes=nodes, order="none")
    return one_point("brokers", system, nodes=nodes)


def powers(low: int, high: int) -> tuple[int, ...]:
    """
    >>> powers(8, 32)
    (8, 16, 32)
    """
    return tuple(1 << d for d in range(low.bit_length() - 1, high.bit_length()))
