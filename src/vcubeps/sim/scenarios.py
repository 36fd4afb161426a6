"""The experiments of the paper's section 4, and one for own questions, as data.

A scenario is a grid of points; a point and a seed make a *run*, which is all that is needed to get the
same answer on any machine. The workload of a run depends on its seed and parameters only, so all
systems at a point meet the same subscribers, publishers and times. Random numbers come from numpy's
RandomState, whose streams are frozen for good.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from types import MappingProxyType

from vcubeps.mixing import mix
from vcubeps.sim.parameters import PARAMETERS, ParameterError, Parameters, Value, count_of, lookup

VCUBE, SRPT_S, SRPT_B = "vcube-ps", "srpt-s", "srpt-b"
SYSTEMS = (VCUBE, SRPT_S, SRPT_B)

_WITH_CHURN = frozenset({"churn_interval_ut", "churn_gap_ut", "interval_ut"})
_WITH_QUESTIONS = frozenset({"answer_wait_ut"})
_WITHOUT_CHURN = frozenset(
    {"topics", "publishers", "window_ut", "distribution", "zipf_exponent", "order", "brokers"}
)
_WITHOUT_QUESTIONS = frozenset(
    {"topics", "publishers", "messages", "distribution", "zipf_exponent", "order", "brokers"}
)
"""What matters to the scenario `custom` only with, or only without, churn and questions."""


@dataclass(frozen=True, slots=True)
class Grid:
    """All combinations of some values, for some systems."""

    axes: Mapping[str, tuple[Value, ...]]
    systems: tuple[str, ...] = (VCUBE, SRPT_S)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One experiment."""

    name: str
    place: str
    """In the paper."""
    summary: str
    parameters: tuple[str, ...]
    """Those that matter to it, in the order in which a row shows them; the delays always do."""
    grids: tuple[Grid, ...]
    defaults: Mapping[str, Value] = field(default_factory=dict)
    """Where they differ from the parameters' own."""

    def all_parameters(self) -> tuple[str, ...]:
        return (*self.parameters, *_DELAYS)

    def default(self, name: str) -> Value:
        return self.defaults.get(name, PARAMETERS[name].default)


_DELAYS = ("preset", "acks", "transmission_ut", "propagation_ut", "processing_ut")

_POWERS = tuple(1 << d for d in range(3, 13))
_TENTHS = tuple(round(k / 10, 1) for k in range(1, 11))

SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {
        scenario.name: scenario
        for scenario in (
            Scenario(
                "one-publisher",
                "section 4.1; figures 4(a), 4(b), 5(a), 5(b)",
                "One random subscriber publishes one message; SRPT's root is a random node.",
                ("nodes", "subscribers"),
                (
                    Grid({"nodes": _POWERS, "subscribers": (0.25, 1.0)}),
                    Grid({"nodes": (4096,), "subscribers": _TENTHS}),
                ),
            ),
            Scenario(
                "many-publishers",
                "section 4.2; figures 6(a), 6(b)",
                "All subscribe; each publisher publishes one message within the window.",
                ("nodes", "publishers", "window_ut", "order"),
                (Grid({"nodes": _POWERS, "publishers": (0.25, 1.0), "propagation_ut": (100, 1000)}),),
                {"order": "none"},
            ),
            Scenario(
                "queues",
                "section 4.2; table 1",
                "All subscribe and publish one message each; how long the nodes' send queues are.",
                ("nodes", "publishers", "window_ut", "order"),
                (Grid({"nodes": (1024,)}),),
                {"order": "none"},
            ),
            Scenario(
                "discussion",
                "section 4.3; figure 7 and the delays",
                "Some ask; everybody else answers once, a little after having delivered all questions.",
                ("nodes", "questions", "window_ut", "answer_wait_ut", "protocol"),
                (Grid({"nodes": (256,), "questions": (1, 10), "protocol": ("amended", "unpruned")}, (VCUBE,)),),
                {"window_ut": 500},
            ),
            Scenario(
                "many-topics",
                "section 4.4; figure 8",
                "All subscribe to all topics; each node publishes again and again, each time on a random topic; "
                "SRPT's root of topic k is node k.",
                ("nodes", "topics", "messages", "interval_ut", "distribution", "zipf_exponent", "order"),
                (
                    Grid(
                        {
                            "nodes": (256,),
                            "messages": tuple(1 << k for k in range(8, 15)),
                            "distribution": ("uniform", "zipf"),
                        }
                    ),
                ),
                {"topics": 128, "acks": "queued", "order": "none"},
            ),
            Scenario(
                "churn",
                "section 4.5; figures 9(a), 9(b)",
                "Waves of subscribers leave and others replace them while one node after the other publishes.",
                (
                    "nodes", "subscribers", "churn", "churn_interval_ut", "churn_gap_ut", "messages",
                    "interval_ut", "protocol",
                ),
                (
                    Grid(
                        {
                            "nodes": (256, 512, 1024, 2048),
                            "churn": (0.125, 0.25),
                            "protocol": ("published", "amended"),
                        },
                        (VCUBE,),
                    ),
                    Grid({"nodes": (256, 512, 1024, 2048), "churn": (0.125, 0.25)}, (SRPT_S,)),
                ),
                {"subscribers": 0.75, "messages": 128, "acks": "queued"},
            ),
            Scenario(
                "brokers",
                "section 4.6; figure 10",
                "A few publishers, an eighth of the tree's size, start together and publish again and again: "
                "among subscribers only, or through brokers that serve their subscribers one by one.",
                ("nodes", "brokers", "messages", "publishers", "window_ut", "interval_ut", "order"),
                (
                    Grid({"nodes": (4096,)}),
                    Grid({"nodes": (4096,), "brokers": (32, 256, 2048)}, (SRPT_B,)),
                ),
                {"messages": 128, "publishers": 0.125, "window_ut": 10},
            ),
            Scenario(
                "custom",
                "yours",
                "Random subscribers per topic; each message has a random time within the window, a random topic and "
                "a random publisher of it. Churn, answers and brokers if you ask for them: with churn=… as in churn, "
                "with questions=… as in discussion, with brokers=… also on SRPT-B.",
                (
                    "nodes", "topics", "subscribers", "publishers", "messages", "window_ut", "interval_ut",
                    "distribution", "zipf_exponent", "questions", "answer_wait_ut", "churn",
                    "churn_interval_ut", "churn_gap_ut", "brokers", "protocol", "order",
                ),
                (Grid({}), Grid({}, (SRPT_B,))),
            ),
        )
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Point:
    """One system at one point of a grid."""

    scenario: str
    system: str
    parameters: Parameters
    """Exactly those that matter to this system in this scenario."""


@dataclass(frozen=True, slots=True)
class Run:
    """One row: everything that its answer depends on."""

    point: Point
    seed: int
    """Below 2^32."""


def run_seed(campaign_seed: int, index: int) -> int:
    """The seed of the run with this index; the same at all points, so that they share their random numbers."""
    return mix(campaign_seed, index) >> 32


def points(
    scenario_name: str, chosen: Mapping[str, tuple[Value, ...]], systems: tuple[str, ...] = SYSTEMS
) -> list[Point]:
    """The points of a scenario; `chosen` replaces its axes and defaults. Raises ParameterError.

    >>> [p.system for p in points("one-publisher", {"nodes": (64,), "subscribers": (0.5,)})]
    ['vcube-ps', 'srpt-s']
    """
    scenario = SCENARIOS[lookup(scenario_name, SCENARIOS)]
    for name in chosen:
        lookup(name, dict.fromkeys(scenario.all_parameters()))
    found: dict[tuple[str, tuple[tuple[str, Value], ...]], Point] = {}
    for grid in scenario.grids:
        for point in _points_of(scenario, grid, chosen):
            if point.system in systems:
                found.setdefault((point.system, tuple(point.parameters.items())), point)
    for point in found.values():
        check(point)
    for name in chosen:
        if found and not any(name in point.parameters for point in found.values()):
            raise ParameterError(
                f"{name} has no effect here, by the other parameters or the systems: leave it out"
            )
    return list(found.values())


def _points_of(scenario: Scenario, grid: Grid, chosen: Mapping[str, tuple[Value, ...]]) -> Iterator[Point]:
    axes = {
        name: chosen.get(name, grid.axes.get(name, (scenario.default(name),)))
        for name in scenario.all_parameters()
    }
    for system in grid.systems:
        for values in product(*axes.values()):
            parameters = dict(zip(axes, values, strict=True))
            if _can_run(scenario, system, parameters):
                relevant = {
                    name: value
                    for name, value in parameters.items()
                    if _matters(scenario, system, name, parameters)
                }
                yield Point(scenario.name, system, relevant)


def _can_run(scenario: Scenario, system: str, parameters: Parameters) -> bool:
    """Systems that cannot do what `custom` asks for are left out."""
    if scenario.name != "custom":
        return True
    if parameters["questions"]:
        return system == VCUBE
    if parameters["churn"]:
        return system != SRPT_B
    return system != SRPT_B or bool(parameters["brokers"])


def _matters(scenario: Scenario, system: str, name: str, parameters: Parameters) -> bool:
    if name in {"protocol", "order"} and system != VCUBE:
        return False
    if name == "brokers" and system != SRPT_B:
        return False
    if name == "zipf_exponent" and parameters["distribution"] == "uniform":
        return False
    if scenario.name != "custom":
        return True
    churn, questions = bool(parameters["churn"]), bool(parameters["questions"])
    if name in _WITH_CHURN:
        return churn
    if name in _WITH_QUESTIONS:
        return questions
    return not (churn and name in _WITHOUT_CHURN) and not (questions and name in _WITHOUT_QUESTIONS)


def check(point: Point) -> None:
    """Raises ParameterError if the parameters do not go together."""
    values = dict(point.parameters)
    nodes = int(values["nodes"])
    if nodes & (nodes - 1):
        below = 1 << nodes.bit_length() - 1
        raise ParameterError(f"nodes={nodes} is not a power of two: give {below} or {2 * below}")
    brokers = int(values.get("brokers", 0))
    if point.system == SRPT_B and (brokers < 1 or brokers & (brokers - 1) or brokers >= nodes):
        raise ParameterError(
            f"brokers={brokers} is not a power of two below nodes={nodes}: choose another number of brokers"
        )
    subscribers = min(count_of("subscribers", values.get("subscribers", 1.0), nodes), nodes - brokers)
    if subscribers < 2:
        raise ParameterError(
            f"{subscribers} subscriber of {nodes} nodes has nobody to talk to: make it at least 2"
        )
    if "publishers" in values:
        count_of("publishers", values["publishers"], subscribers)
    questions = int(values.get("questions", 0))
    if questions > subscribers:
        raise ParameterError(
            f"questions={questions} is more than the {subscribers} subscribers: ask for fewer"
        )
    if questions == 0 and point.scenario == "discussion":
        raise ParameterError("questions=0 makes no discussion: ask for at least 1")
    if values.get("churn", 0.0):
        _check_churn(values, nodes, subscribers)
    elif point.scenario == "churn":
        raise ParameterError("churn=0 makes no churn: give a share above 0")
    if point.scenario == "many-topics" and int(values["topics"]) > nodes:
        raise ParameterError(
            f"topics={values['topics']} is more than nodes={nodes}, one of which is the root of each: give fewer"
        )


def _check_churn(values: Mapping[str, Value], nodes: int, subscribers: int) -> None:
    if int(values.get("questions", 0)):
        raise ParameterError("churn and questions cannot be simulated together: set one of them to 0")
    if values.get("protocol") == "unpruned":
        raise ParameterError("churn is simulated for protocol=amended and protocol=published: choose one")
    if int(values["churn_gap_ut"]) >= int(values["churn_interval_ut"]):
        raise ParameterError(
            f"churn_gap_ut={values['churn_gap_ut']} is not below churn_interval_ut={values['churn_interval_ut']}: "
            f"who leaves must be replaced before the next wave"
        )
    leaving = round(float(values["churn"]) * subscribers)
    if subscribers + leaving > nodes:
        raise ParameterError(
            f"churn={values['churn']} replaces {leaving} subscribers at a time, but only {nodes - subscribers} nodes "
            f"are not subscribed: lower churn or subscribers"
        )
    if not 0 < leaving < subscribers:
        raise ParameterError(
            f"churn={values['churn']} of {subscribers} subscribers is {leaving}: at least 1 must leave, and 1 stay"
        )
