"""Who is asked to help, and who relays, with links that only say how they go."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from types import SimpleNamespace
from typing import Any

from vcubeps.node.connection import NOBODY, Connection
from vcubeps.node.context import Context
from vcubeps.node.detector import Detector
from vcubeps.node.outputs import Suspected
from vcubeps.node.settings import ClusterSettings, Detection, NodeSettings

SETTINGS = ClusterSettings(
    cluster="detected",
    nodes=tuple(NodeSettings(id=node, address=f"n{node}:1") for node in range(4)),
    detection=Detection(ping_s=0.2, contact_s=0.5, suspect_after_s=1.0, helpers=1),
)


class Silence:
    """A judge that keeps who counts as crashed."""

    def __init__(self) -> None:
        self.gone: list[int] = []

    def watched(self) -> Iterable[int]:
        return [other for other in (1, 2, 3) if other not in self.gone]

    def to_ask_first(self) -> Collection[int] | None:
        return None

    def may_suspect(self) -> bool:
        return True

    def on_silence(self, other: int, evidence: str) -> None:
        self.gone.append(other)


class Wires:
    """Links of node 0: with node 1 directly, with node 2 through node 1, with node 3 not at all."""

    def __init__(self, judge: Silence) -> None:
        self._judge = judge
        self.links = {
            other: SimpleNamespace(
                connection=Connection(other, via=via) if other != 3 else None,
                round_trip_at_s=-1.0 / other,
                heard_at_s=0.0,
                incarnation=0,
            )
            for other, via in ((1, NOBODY), (2, 1), (3, NOBODY))
        }
        self.relayed: list[tuple[int, int]] = []
        self.said_to_the_dead: list[int] = []

    def link(self, other: int) -> Any:
        return self.links[other]

    def ping(self, other: int) -> None:
        pass

    def say(self, other: int, kind: object, number: int) -> bool:
        self.said_to_the_dead += [other] if other in self._judge.gone else []
        return True

    def connect_by(self, other: int, relay: int) -> None:
        self.relayed.append((other, relay))


class Watcher:
    """A detector at work, in which nodes 1 and 2 answer at once."""

    def __init__(self, silent: Collection[int] = (3,)) -> None:
        self.context = Context(SETTINGS, 0, 1, 0.0)
        self.judge, self._silent = Silence(), silent
        self.wires = Wires(self.judge)
        self.detector = Detector(self.context, self.wires, self.judge)  # type: ignore[arg-type]
        self.detector.start()

    def run(self, until_s: float) -> list[Suspected]:
        context = self.context
        while context.timers.next_s <= until_s:
            context.now_s = context.timers.next_s
            for other in {1, 2, 3} - set(self._silent):
                self.detector.on_round_trip(other, context.now_s, at_once=True)
            context.timers.run(context.now_s)
        return [output for output in context.outputs if type(output) is Suspected]


def test_nodes_that_could_relay_are_asked_first() -> None:
    suspected = Watcher().run(1.2)

    assert [(each.node, each.asked) for each in suspected] == [(3, (1,)), (3, (2,))]


def test_a_node_that_is_itself_reached_through_a_relay_is_none() -> None:
    watcher = Watcher()
    watcher.run(1.0)

    watcher.detector.on_probed(2, 3)
    by_two = list(watcher.wires.relayed)
    watcher.run(1.9)
    watcher.detector.on_probed(1, 3)

    assert by_two == []
    assert watcher.wires.relayed == [(3, 1)]


def test_a_node_that_has_just_been_given_up_is_not_asked_for_help() -> None:
    watcher = Watcher(silent=(2, 3))

    watcher.run(3.0)

    assert sorted(watcher.judge.gone) == [2, 3]
    assert watcher.wires.said_to_the_dead == []
