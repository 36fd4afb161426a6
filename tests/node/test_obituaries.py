"""What is told of crashes: each once, in an order that an application can follow."""

from __future__ import annotations

from vcubeps.node.context import Context
from vcubeps.node.obituaries import Obituaries
from vcubeps.node.outputs import Crashed
from vcubeps.node.settings import ClusterSettings, NodeSettings

SETTINGS = ClusterSettings(
    cluster="told", nodes=tuple(NodeSettings(id=node, address=f"n{node}:1") for node in range(3))
)


def crashes(context: Context) -> list[tuple[int, int, str]]:
    return [(each.node, each.incarnation, each.evidence) for each in context.outputs if type(each) is Crashed]


def test_a_crash_that_others_found_out_is_told_after_a_while() -> None:
    context = Context(SETTINGS, 0, 1, 10.0)
    obituaries = Obituaries(context)

    obituaries.departed(2, 0)
    assert crashes(context) == []
    context.timers.run(11.0)

    assert crashes(context) == [(2, 0, "other nodes have said so")]


def test_a_crash_is_told_before_the_return_of_the_node_and_not_again() -> None:
    context = Context(SETTINGS, 0, 1, 10.0)
    obituaries = Obituaries(context)

    obituaries.departed(2, 0)
    obituaries.came_back(2)
    told = crashes(context)
    context.timers.run(11.0)

    assert told == [(2, 0, "other nodes have said so")]
    assert crashes(context) == told


def test_a_node_that_has_started_again_is_its_own_evidence() -> None:
    context = Context(SETTINGS, 0, 1, 10.0)
    obituaries = Obituaries(context)

    obituaries.started_again(2, 1)
    obituaries.departed(2, 0)
    obituaries.came_back(2)

    assert crashes(context) == [(2, 0, "it has started again, as incarnation 1")]


def test_a_node_that_has_said_goodbye_has_not_crashed() -> None:
    context = Context(SETTINGS, 0, 1, 10.0)
    obituaries = Obituaries(context)

    obituaries.said_goodbye(2, 0)
    obituaries.departed(2, 0)
    context.timers.run(11.0)

    assert crashes(context) == []
