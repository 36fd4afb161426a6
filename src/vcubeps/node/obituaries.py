"""What is told of the crashes of other nodes: each once, with the evidence, whoever has found out."""

from __future__ import annotations

from functools import partial

from vcubeps.node.context import Context
from vcubeps.node.outputs import INFO, Crashed

_HEARSAY = "other nodes have said so"
"""The evidence of a crash that this node has not found out by itself."""
_HEARSAY_S = 0.2
"""Before it is told: a goodbye, which is no crash, may be on its way."""


class Obituaries:
    """Invariant: the application has been told of the crash of no incarnation newer than `_told`."""

    __slots__ = ("_context", "_evidence", "_hearsay", "_told")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._evidence: dict[int, str] = {}
        """Node → why it was taken for crashed last."""
        self._hearsay: dict[int, int] = {}
        """Node → incarnation whose crash others have found out, and that has not been told yet."""
        self._told: dict[int, int] = {}
        """Node → its newest incarnation whose crash has been told, or that has said goodbye."""

    def evidence(self, node: int) -> str:
        return self._evidence.get(node, _HEARSAY)

    def found_out(self, node: int, incarnation: int, evidence: str) -> None:
        """This node takes another for crashed."""
        self._evidence[node] = evidence
        self._tell(node, incarnation)
        self._context.warn(f"node {node} counts as crashed: {evidence}")

    def said_goodbye(self, node: int, incarnation: int) -> None:
        self._evidence[node] = "it has ended in good order"
        self._told[node] = max(incarnation, self._told.get(node, -1))
        self._context.log(INFO, f"node {node} has ended")

    def started_again(self, node: int, incarnation: int) -> None:
        """It has greeted as that: so the one before it has ended."""
        self._evidence[node] = f"it has started again, as incarnation {incarnation}"

    def departed(self, node: int, incarnation: int) -> None:
        """The peer deals with that incarnation no more: perhaps because others have found out."""
        if incarnation > self._told.get(node, -1):
            self._hearsay[node] = incarnation
            at_s = self._context.now_s + _HEARSAY_S
            self._context.timers.at(at_s, partial(self._tell, node, incarnation))

    def came_back(self, node: int) -> None:
        """Before that is told, what has not been told yet of the incarnation before."""
        if node in self._hearsay:
            self._tell(node, self._hearsay[node])
        self._evidence.pop(node, None)

    def _tell(self, node: int, incarnation: int) -> None:
        if incarnation >= self._hearsay.get(node, -1):
            self._hearsay.pop(node, None)
        if incarnation > self._told.get(node, -1):
            self._told[node] = incarnation
            self._context.outputs.append(Crashed(node, incarnation, self.evidence(node)))
