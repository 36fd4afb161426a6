"""A schedule of whole nodes as text: what people would read in the logs of all of them, in one order."""

from __future__ import annotations

from typing import Any

from vcubeps.node import outputs as out
from vcubeps.protocol.limits import COUNTERS_PER_INCARNATION
from vcubeps.protocol.outputs import Acknowledged, Deliver, Restarted, Started
from vcubeps.sim.explore.nodes.schedule import Operation

_TALK = frozenset({"publish"})


class Transcript:
    """Collects the lines of one schedule."""

    def __init__(self, talks: bool = True) -> None:
        """`talks`: publications are told, too."""
        self._lines: list[str] = []
        self._talks = talks
        self._relayed: dict[tuple[int, int], bool] = {}
        """(node, other) → whether it spoke with it through a third one last."""

    @property
    def lines(self) -> list[str]:
        return self._lines

    def operation(self, now_s: float, operation: Operation) -> None:
        if self._talks or operation.kind not in _TALK:
            self._lines.append(f"{now_s:9.3f}      --- {str(operation).partition(' ')[2]}")

    def started(self, now_s: float, node: int, incarnation: int) -> None:
        """A process has been started."""
        self.note(now_s, node, f"starts as incarnation {incarnation}")

    def over(self, now_s: float, operation: Operation) -> None:
        """What has lasted is over."""
        self._lines.append(f"{now_s:9.3f}      --- {str(operation).partition(' ')[2]}: over")

    def way(self, now_s: float, node: int, other: int, is_relayed: bool) -> None:
        """How a node's link with another goes now."""
        if self._relayed.get((node, other), False) != is_relayed:
            self._relayed[node, other] = is_relayed
            self.note(now_s, node, f"reaches {other} {'through a third node' if is_relayed else 'directly'}")

    def note(self, now_s: float, node: int, text: str) -> None:
        self._lines.append(f"{now_s:9.3f} {node:4} {text}")

    def observed(self, now_s: float, node: int, what: object) -> None:
        """What the node's peer says."""
        if not self._talks and type(what) is not Restarted:
            return
        if type(what) is Started:
            self.note(now_s, node, f"starts {_items(what.topic, node, what.items)}")
        elif type(what) is Deliver:
            self.note(now_s, node, f"delivers {_items(what.topic, what.source, what.items)}")
        elif type(what) is Acknowledged:
            self.note(now_s, node, f"has {_name(what.topic, node, what.counter)} acknowledged")
        elif type(what) is Restarted:
            self.note(now_s, node, f"starts again as incarnation {what.incarnation}: {what.reason.name}")

    def output(self, now_s: float, node: int, output: Any) -> None:
        kind = type(output)
        if kind is out.LifeChanged:
            self.note(now_s, node, f"is {output.life.value}: {output.reason}")
        elif kind is out.Suspected:
            asked = ", ".join(map(str, output.asked))
            self.note(
                now_s, node, f"suspects {output.node}, silent for {output.silent_s:.3f} s, and asks {asked}"
            )
        elif kind is out.Crashed:
            self.note(now_s, node, f"holds {output.node}:{output.incarnation} for crashed: {output.evidence}")
        elif kind is out.Recovered:
            self.note(now_s, node, f"deals with {output.node}:{output.incarnation}")
        elif kind in (out.Joined, out.Left, out.Gap, out.Voided):
            self.note(now_s, node, f"{kind.__name__.lower()} {output.topic}")
        elif kind is out.Failed:
            self.note(now_s, node, f"fails: {output.reason}")
        elif kind is out.Closed:
            self.note(now_s, node, f"is closed, unacknowledged {output.unacknowledged}")
        elif kind is out.Store:
            self.note(now_s, node, f"stores incarnation {output.incarnation}")
        elif kind is out.Log and output.level >= out.WARNING:
            self.note(now_s, node, f"logs: {output.text.partition(': ')[2]}")


def _items(topic: str, source: int, items: Any) -> str:
    return ", ".join(_name(topic, source, counter) for counter, _ in items)


def _name(topic: str, source: int, counter: int) -> str:
    incarnation, number = divmod(counter, COUNTERS_PER_INCARNATION)
    return f"{topic}⟨{source}:{incarnation}, {number}⟩"
