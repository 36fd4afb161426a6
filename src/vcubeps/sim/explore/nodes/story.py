"""A schedule of whole nodes as a story: who was cut off, suspected, relayed, isolated or let in again, and when.

What several nodes do at about the same time is one line, with the time at which the first of them did. Neither numbers
of messages nor who helped, or found out first, is told, so that a story stays as it is while what it is about does.
`transcript.py` tells everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from vcubeps.node import outputs as out
from vcubeps.node.lifecycle import Life
from vcubeps.protocol.outputs import Restarted, RestartReason
from vcubeps.sim.explore.nodes.schedule import Operation
from vcubeps.sim.explore.nodes.transcript import Transcript

TITLE = "  seconds  nodes"

_DONE = "---"
"""Before what is done to the nodes, rather than by them."""

_ONE = {"are": "is", "it": "it", "them": "it", "s": "s", "es": "es", "were": "was"}
_MANY = {"are": "are", "it": "they", "them": "them", "s": "", "es": "", "were": "were"}

_LASTS_S = 0.1
"""A way that is given up sooner is not told of."""

_TOGETHER_S = 1.0
"""What happens within so much of the last event of its kind is told with it."""

_WHY = {
    RestartReason.DECLARED_CRASHED: "the others took {them} for crashed",
    RestartReason.CAME_UP_APART: "{it} had started without others that lived",
    RestartReason.NO_QUORUM: "{it} {were} left with less than a quorum",
    RestartReason.ASKED: "{it} {were} asked to",
}

_LIVES = {
    Life.UP: "{are} up",
    Life.ISOLATED: "{are} isolated: in contact with no quorum, {it} start{s} nothing",
    Life.CLOSING: "{are} being closed",
}

_OVER = {
    "cut": "the cut is over",
    "stop": "node {node} is continued",
    "other-file": "node {node} is started with the right file",
    "stuck": "the application of node {node} reads again",
    "disk-failure": "the disk of node {node} has room again",
}
_BEGINS = {
    "cut": "cut for {for_s:g} s: {text}",
    "stop": "the process of node {node} is stopped for {for_s:g} s",
    "kill": "node {node} is killed",
    "vanish": "the machine of node {node} loses power",
    "close": "node {node} is closed",
    "stuck": "the application of node {node} stops reading for {for_s:g} s",
    "disk-failure": "the disk of node {node} is full for {for_s:g} s",
    "other-file": "node {node} is started with another cluster file, for {for_s:g} s",
    "declare-dead": "an operator tells node {node} that node {number} has crashed",
}


@dataclass(slots=True)
class _Line:
    """What nodes do, with or to others, at about one time."""

    first_s: float
    what: str
    last_s: float
    who: set[int]
    about: set[int]
    """−1: nobody."""

    def is_with(self, now_s: float, node: int, what: str, about: int) -> bool:
        """Whether that can be told in the same breath: the same nodes do it, or it is about the same."""
        if what != self.what or now_s - self.last_s > _TOGETHER_S:
            return False
        return node in self.who or about in self.about

    def take(self, other: _Line) -> None:
        self.first_s, self.last_s = min(self.first_s, other.first_s), max(self.last_s, other.last_s)
        self.who |= other.who
        self.about |= other.about

    def __str__(self) -> str:
        if self.what.startswith(_DONE):
            return f"{self.first_s:9.1f}  {self.what}: {_nodes(self.who)}"
        text = self.what.format(**(_ONE if len(self.who) == 1 else _MANY), about=_nodes(self.about - {-1}))
        return f"{self.first_s:9.1f}  {_nodes(self.who):16} {text}"


class Story(Transcript):
    """Collects one schedule's lines."""

    def __init__(self) -> None:
        super().__init__(talks=False)
        self._told: list[str] = []
        self._scene: list[_Line] = []
        """What has happened since something was done to the nodes."""
        self._lives: dict[int, Life] = {}
        self._ways: dict[tuple[int, int], tuple[bool, float]] = {}
        """(node, other) → whether it speaks with it through a third one, and since when."""
        self._restarts: Counter[int] = Counter()

    @property
    def lines(self) -> list[str]:
        counts = sorted(set(self._restarts.values()))
        again = "; ".join(
            f"{_nodes([node for node in self._restarts if self._restarts[node] == count])}, "
            + ("once" if count == 1 else f"{count} times")
            for count in counts
        )
        return [*self._told, *self._scene_lines(), f"{'':9}  started again: {again or 'nobody'}"]

    def _scene_lines(self) -> list[str]:
        return list(map(str, sorted(self._scene, key=lambda line: (line.first_s, line.last_s))))

    def told(self, what: str) -> list[str]:
        """The whole, under a title."""
        return [what, "", TITLE, *self.lines]

    # -- what is done to the nodes -------------------------------------------------------------

    def operation(self, now_s: float, operation: Operation) -> None:
        kind, node = operation.kind, operation.node
        if kind in ("start", "subscribe"):
            self._add(
                now_s, node, f"{_DONE} " + ("start" if kind == "start" else f"subscribe to {operation.text}")
            )
        elif kind != "publish":
            begins = _BEGINS.get(kind, str(operation).partition(" ")[2])
            self._turn(now_s, begins.format(**operation._asdict()))

    def started(self, now_s: float, node: int, incarnation: int) -> None:
        self._lives[node] = Life.STARTING

    def over(self, now_s: float, operation: Operation) -> None:
        if operation.kind in _OVER:
            self._turn(now_s, _OVER[operation.kind].format(node=operation.node))

    def _turn(self, now_s: float, text: str) -> None:
        self._told += self._scene_lines()
        self._scene.clear()
        self._told.append(f"{now_s:9.1f}  {_DONE} {text}")

    # -- what they do --------------------------------------------------------------------------

    def _add(self, now_s: float, node: int, what: str, about: int = -1) -> None:
        told = _Line(now_s, what, now_s, {node}, {about})
        for line in [line for line in self._scene if line.is_with(now_s, node, what, about)]:
            told.take(line)
            self._scene.remove(line)
        self._scene.append(told)

    def observed(self, now_s: float, node: int, what: object) -> None:
        if type(what) is Restarted:
            self._restarts[node] += 1
            why = _WHY[what.reason]
            self._add(now_s, node, f"start{{s}} again as incarnation {what.incarnation}: {why}")

    def way(self, now_s: float, node: int, other: int, is_relayed: bool) -> None:
        was_relayed, since_s = self._ways.get((node, other), (False, now_s))
        if was_relayed != is_relayed:
            self._ways[node, other] = is_relayed, now_s
        elif is_relayed != self._relayed.get((node, other), False) and now_s - since_s >= _LASTS_S:
            self._relayed[node, other] = is_relayed
            how = "through a third node" if is_relayed else "directly again"
            self._add(since_s, node, f"reach{{es}} {{about}} {how}", other)

    def output(self, now_s: float, node: int, output: Any) -> None:
        kind = type(output)
        if kind is out.LifeChanged:
            self._lives[node] = output.life
            if output.life in _LIVES:
                self._add(now_s, node, _LIVES[output.life])
        elif kind is out.Suspected:
            self._add(now_s, node, "suspect{s} {about}, and ask{s} others for a probe", output.node)
        elif kind is out.Crashed:
            self._add(now_s, node, _crashed(output.incarnation, output.evidence), output.node)
        elif kind is out.Recovered and self._lives.get(node) is Life.UP:
            self._add(now_s, node, f"let{{s}} {{about}} in as incarnation {output.incarnation}", output.node)
        elif kind is out.Joined:
            self._add(now_s, node, f"{{are}} subscribed to {output.topic}")
        elif kind is out.Gap:
            self._add(now_s, node, f"tell{{s}} of a gap in {output.topic}")
        elif kind is out.Failed:
            self._add(now_s, node, "fail{s}: " + _escaped(output.reason))
        elif kind is out.Closed:
            left = ", ".join(f"{count} on {topic}" for topic, count in sorted(output.unacknowledged.items()))
            self._add(now_s, node, f"{{are}} closed; not acknowledged: {left or 'nothing'}")
        elif kind is out.Log and output.level >= out.WARNING:
            self._warned(now_s, node, output.text.partition(": ")[2])

    def _warned(self, now_s: float, node: int, text: str) -> None:
        if "counts as crashed" in text or "it goes on as incarnation" in text:
            return  # told already
        if "the cluster files differ" in text:
            side = "{are} refused" if "was refused" in text else "refuse{s} another node"
            self._add(now_s, node, f"{side}, and say{{s}} so: the cluster files differ")
        else:
            self._add(now_s, node, "warn{s}: " + _escaped(text))


def _crashed(incarnation: int, evidence: str) -> str:
    told = f"take{{s}} incarnation {incarnation} of {{about}} for crashed"
    if evidence.startswith("it has not answered") or evidence == "other nodes have said so":
        return told  # whoever has found out tells the others
    return f"{told}: {_escaped(evidence)}"


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _nodes(nodes: Collection[int]) -> str:
    """
    >>> _nodes({0, 1, 2, 5, 7, 8})
    '0–2, 5, 7, 8'
    """
    parts: list[list[int]] = []
    for node in sorted(nodes):
        if parts and node == parts[-1][-1] + 1:
            parts[-1].append(node)
        else:
            parts.append([node])
    return ", ".join(
        f"{part[0]}–{part[-1]}" if len(part) > 2 else ", ".join(map(str, part)) for part in parts
    )
