"""The promises of whole nodes, beyond those of their peers: one checker of them all, fed by the world."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from vcubeps.node import outputs as out
from vcubeps.node.greeting import Cause
from vcubeps.node.lifecycle import Life
from vcubeps.protocol.outputs import Accepted, Acknowledged, Restarted, Started
from vcubeps.sim.explore.checkers import Violation
from vcubeps.sim.explore.nodes.process import Process
from vcubeps.sim.explore.nodes.progress import Progress
from vcubeps.sim.explore.nodes.schedule import Operation
from vcubeps.sim.explore.nodes.setup import Setup
from vcubeps.sim.explore.nodes.unharmed import unharmed

PROMISES: Mapping[str, str] = {
    "failed": "no node fails whose disk does not",
    "fail_stop": "a node that has ended does nothing any more",
    "isolated": "a node without a quorum starts nothing",
    "refused": "no node refuses another one with the same file",
    "outdated": "a node that starts as an incarnation that others have met before takes no part",
    "unharmed": "a cut, or a process that is stopped, makes no other node start again that is left with a quorum, "
    "directly or by relays",
    "contact": "a node that nothing cuts off is not isolated, however much is sent",
    "progress": "what a node publishes that a cut leaves with a quorum is acknowledged about one detection later",
    "restarts": "nodes start again no more often than faults explain, and never four times within a second",
    "recovery": "soon after the last fault nothing is left half done",
    "links": "in the end every message between two nodes has arrived, once",
    "bounded": "what has passed is forgotten",
    "closed": "in the end all nodes can be closed at once, in good order, and nothing of them is left",
}

_APPLICATION = frozenset({"subscribe", "unsubscribe", "publish", "bulk", "start"})
_LEAVES_CONTACT = _APPLICATION | {"narrow", "stuck", "slow", "slow-disk"}
"""Kinds of operations that make no answer late."""
_TIMERS_MAX = 400
_MUTE = (out.Write, out.WriteAll, out.Dial, out.Store, out.Delivered)

_ORDINARY = frozenset({Cause.COLLISION, Cause.CLOSING, Cause.LATE, Cause.STALE})
"""Why honest nodes refuse each other. STALE: a late greeting of a process that is no more; one that lives fails."""


class Conduct:
    def __init__(self, setup: Setup, operations: Sequence[Operation]) -> None:
        self.violations: list[Violation] = []
        self.wishes: dict[int, set[str]] = {}
        """Node that is down → what its application wants when it is back."""
        kinds = {operation.kind for operation in operations}
        self._has_bad_disks = "disk-failure" in kinds
        self._expected = _ORDINARY | ({Cause.SETTINGS} if "other-file" in kinds else set())
        faults = sum(each.kind not in _APPLICATION for each in operations)
        self._restarts_max = 2 + 2 * faults if setup.voters is not None else 4 + 4 * faults
        self._restarts: Counter[int] = Counter()
        self._unharmed = unharmed(setup, operations)
        self._in_contact_from_s = _in_contact_from_s(setup, operations)
        cuts = sum(each.kind == "cut" for each in operations)
        self._progress = Progress(self._unharmed if cuts else frozenset(), setup.detection, cuts)
        self._refused: dict[Process, Counter[str]] = {}
        """How often each process has refused others, by cause, as far as that has been judged."""
        self.strangers: set[int] = set()
        """Nodes that run with another cluster file, or as an incarnation that was used before."""
        self.outdated: dict[int, tuple[int, int]] = {}
        """The latter → as which incarnation and instance."""
        self.is_closing = False
        """All nodes are being closed."""

    def _report(self, name: str, now_s: float, node: int, text: str) -> None:
        self.violations.append(Violation(name, int(now_s * 1e6), node, text))

    def started(self, process: Process, other_file: bool, is_outdated: bool) -> None:
        node = process.node
        (self.strangers.add if other_file or is_outdated else self.strangers.discard)(node)
        self.outdated.pop(node, None)
        if is_outdated:
            identity = process.machine.links.identity
            self.outdated[node] = identity.incarnation, identity.instance

    # -- while it runs -------------------------------------------------------------------------

    def observed(self, now_s: float, process: Process, clock_s: float, what: object) -> None:
        kind, node = type(what), process.node
        if kind in (Accepted, Started) and process.machine.majority.lasts_until_s <= clock_s:
            self._report("isolated", now_s, node, f"{what} without a quorum")
        if type(what) is Accepted:
            self._progress.accepted(now_s, node, what)
        elif type(what) is Acknowledged:
            took_s = self._progress.acknowledged(now_s, node, what)
            if took_s:
                self._report("progress", now_s, node, f"{what.topic}: acknowledged after {took_s:.1f} s")
        elif type(what) is Restarted and not self.is_closing:
            self._restarted(now_s, process, clock_s, what)

    def _restarted(self, now_s: float, process: Process, clock_s: float, what: Restarted) -> None:
        node = process.node
        self._restarts[node] += 1
        process.restarts_s.append(clock_s)
        if len(process.restarts_s) == 4 and process.restarts_s[-1] - process.restarts_s[0] < 1.0:
            self._report("restarts", now_s, node, "has started again four times within a second")
        if node in self._unharmed:
            self._report("unharmed", now_s, node, f"starts again as {what.incarnation}: {what.reason.name}")
        if self._restarts[node] == self._restarts_max + 1:
            self._report("restarts", now_s, node, f"has started again {self._restarts_max + 1} times")

    def output(self, now_s: float, process: Process, output: Any) -> None:
        node, kind = process.node, type(output)
        if process.has_ended and isinstance(output, _MUTE):
            self._report("fail_stop", now_s, node, f"{kind.__name__} after its end")
        elif kind is out.Log:
            self._judge_refusals(now_s, process, output.text)
        elif kind is out.Delivered and node in self.outdated and output.batch.source != node:
            self._report("outdated", now_s, node, "delivers what others publish")
        elif kind is out.Recovered and output.node in self.outdated:
            # It may have been asked by the process that was this incarnation before, and have had to wait until now.
            instance = process.machine.links.link(output.node).instance
            if self.outdated[output.node] == (output.incarnation, instance):
                self._report("outdated", now_s, node, f"deals with {output.node}:{output.incarnation}")
        elif kind is out.LifeChanged and output.life is Life.ISOLATED and now_s > self._in_contact_from_s:
            self._report("contact", now_s, node, output.reason)
        elif kind is out.Failed:
            self._failed(now_s, process, output)
        elif kind is out.Closed and self.is_closing and output.unacknowledged:
            self._report("closed", now_s, node, f"has not got {output.unacknowledged} acknowledged")

    def _failed(self, now_s: float, process: Process, output: out.Failed) -> None:
        if process.node in self.outdated and output.is_refusal:
            return
        if not (self._has_bad_disks and "cannot go on as incarnation" in output.reason):
            self._report("failed", now_s, process.node, output.reason)

    def _judge_refusals(self, now_s: float, process: Process, text: str) -> None:
        """Every refusal is logged; `text` is what the log says, for the reader."""
        refused = process.machine.links.refused
        if not refused:
            return
        judged = self._refused.setdefault(process, Counter())
        if refused == judged:
            return
        for cause in (refused - judged).keys() - self._expected:
            if not (self.outdated and cause in (Cause.TAKEN, Cause.STALE)):
                self._report("refused", now_s, process.node, f"{cause}: {text}")
        judged.update(refused - judged)

    # -- in the end ----------------------------------------------------------------------------

    def at_end(self, now_s: float, processes: Mapping[int, Process], restless_s: float | None) -> None:
        for node, process in sorted(processes.items()):
            machine = process.machine
            if restless_s is not None:
                self._report("recovery", now_s, node, f"after {restless_s:g} s: {_state(process)}")
            try:
                machine.check()
            except AssertionError as error:
                self._report("bounded", now_s, node, f"invariant: {error}")
            timers = len(machine.context.timers._heap)
            if timers > _TIMERS_MAX:
                self._report("bounded", now_s, node, f"has {timers} timers")
            crowd = len(machine.links.connections)
            if restless_s is None and crowd > 2 * len(processes):
                self._report("bounded", now_s, node, f"has {crowd} connections")
            self._check_links(now_s, process, processes)

    def _check_links(self, now_s: float, process: Process, processes: Mapping[int, Process]) -> None:
        """Every message that one side has numbered has come out at the other, once."""
        links = process.machine.links
        for other, its in sorted(processes.items()):
            there, instance = links.link(other), its.machine.links.identity.instance
            if other == process.node or there.instance != instance or there.outbox:
                continue  # they have not met, or are not done
            arrived = its.machine.exchange.arrived[links.identity.instance]
            if there.outbox.last != arrived:
                self._report(
                    "links", now_s, process.node,
                    f"has sent {there.outbox.last} messages to node {other}, which has received {arrived}",
                )  # fmt: skip

    def at_close(self, now_s: float, processes: Mapping[int, Process], ends: int) -> None:
        for node, process in sorted(processes.items()):
            self._report("closed", now_s, node, f"is not closed: {_state(process)}")
        if ends and not processes:
            self._report("closed", now_s, -1, f"{ends} connections are left")


def _in_contact_from_s(setup: Setup, operations: Sequence[Operation]) -> float:
    """When all nodes have met; never if some answers may be late, or some node is not there."""
    if setup.slow_of_256 or not {operation.kind for operation in operations} <= _LEAVES_CONTACT:
        return inf
    starts = {operation.node: operation.at_s for operation in operations if operation.kind == "start"}
    if starts.keys() != set(setup.nodes):
        return inf
    return max(starts.values()) + setup.detection.contact_s + setup.detection.suspect_after_s


def _state(process: Process) -> str:
    machine = process.machine
    left = {what: count for what, count in machine.peer.footprint().items() if count}
    topics = {topic.name: topic.stage.value for topic in machine.memberships}
    return (
        f"{machine.life.value} as incarnation {machine.peer.incarnation}, present {dict(machine.peer.present)}, "
        f"problems {machine.problems()}, at work on {left}, in {topics}, wants {sorted(process.wishes)}"
    )
