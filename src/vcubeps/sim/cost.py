"""About how long a run takes, so that the long ones can be started first and short ones share a task.

Only the order of magnitude matters: the answer of a sweep does not depend on it.
"""

from __future__ import annotations

from vcubeps.sim.parameters import Parameters, count_of
from vcubeps.sim.scenarios import VCUBE, Point

_RUN_SECONDS = 0.005
"""To draw a workload and to fetch the results."""
_STORM_NS, _STORM_WITH_ACKS_NS, _SRPT_NS, _ORDERED_NS, _CHURN_NS = 13, 50, 8, 62, 150
"""Per copy of a message, as `benchmarks/simulator.py` measures them on one machine, rounded."""


def estimated_seconds(point: Point) -> float:
    """
    >>> from vcubeps.sim.scenarios import points
    >>> small, large = points("one-publisher", {"nodes": (64, 4096), "subscribers": (1.0,)}, (VCUBE,))
    >>> estimated_seconds(small) < estimated_seconds(large) < 1
    True
    """
    parameters = point.parameters
    nodes = int(parameters["nodes"])
    subscribers = min(count_of("subscribers", parameters.get("subscribers", 1.0), nodes), nodes)
    if parameters.get("churn"):
        # Changes of membership go to all nodes, and outnumber the publications.
        changes = _changes(parameters, subscribers)
        return _RUN_SECONDS + 1e-9 * _CHURN_NS * nodes * (changes + int(parameters["messages"]))
    return _RUN_SECONDS + 1e-9 * _copy_ns(point) * subscribers * _publications(point, subscribers)


def _changes(parameters: Parameters, subscribers: int) -> float:
    duration = int(parameters["messages"]) * int(parameters["interval_ut"])
    waves = duration / int(parameters["churn_interval_ut"])
    return 2 * waves * float(parameters["churn"]) * subscribers


def _publications(point: Point, subscribers: int) -> int:
    parameters = point.parameters
    if parameters.get("questions"):
        return subscribers
    if "messages" in parameters:
        return int(parameters["messages"])
    return count_of("publishers", parameters["publishers"], subscribers) if "publishers" in parameters else 1


def _copy_ns(point: Point) -> int:
    if point.system != VCUBE:
        return _SRPT_NS
    if point.parameters.get("order") != "none":
        return _ORDERED_NS
    return _STORM_WITH_ACKS_NS if point.parameters["acks"] == "queued" else _STORM_NS
