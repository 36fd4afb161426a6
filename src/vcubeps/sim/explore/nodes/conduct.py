"""The promises of whole nodes, beyond those of their peers: one checker of them all, fed by the world."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from vcubeps.node import outputs as out
from vcubeps.protocol.outputs import Accepted, Restarted, Started
from vcubeps.sim.explore.checkers import Violation
from vcubeps.sim.explore.nodes.process import Process
from vcubeps.sim.explore.nodes.schedule import Operation
from vcubeps.sim.explore.nodes.setup import Setup
from vcubeps.sim.explore.nodes.unharmed import unharmed

PROMISES: Mapping[str, str] = {
    "failed": "no node fails whose disk does not",
    "fail_stop": "a node that has ended does nothing any more",
    "isolated": "a node without a quorum starts nothing",
    "refused": "no node refuses another one with the same file",
    "unharmed": "a cut makes no node start again that is left with a quorum, directly or by relays",
    "restarts": "nodes start again no more often than faults explain",
    "recovery": "soon after the last fault nothing is left half done",
    "bounded": "what has passed is forgotten",
}

_APPLICATION = frozenset({"subscribe", "unsubscribe", "publish", "start"})
_TIMERS_MAX = 400
_MUTE = (out.Write, out.WriteAll, out.Dial, out.Store, out.Delivered)


class Conduct:
    def __init__(self, setup: Setup, operations: Sequence[Operation]) -> None:
        self.violations: list[Violation] = []
        self.wishes: dict[int, set[str]] = {}
        """Node that is down → what its application wants when it is back."""
        self._has_bad_disks = any(each.kind == "disk-failure" for each in operations)
        self._has_other_files = any(each.kind == "other-file" for each in operations)
        faults = sum(each.kind not in _APPLICATION for each in operations)
        self._restarts_max = 2 + 2 * faults if setup.voters is not None else 4 + 4 * faults
        self._restarts: Counter[int] = Counter()
        self._unharmed = unharmed(setup, operations)
        self._ended: set[Process] = set()
        self.strangers: set[int] = set()
        """Nodes that run with another cluster file."""

    def _report(self, name: str, now_s: float, node: int, text: str) -> None:
        self.violations.append(Violation(name, int(now_s * 1e6), node, text))

    def started(self, node: int, other_file: bool) -> None:
        (self.strangers.add if other_file else self.strangers.discard)(node)

    def observed(self, now_s: float, process: Process, clock_s: float, what: object) -> None:
        if type(what) in (Accepted, Started) and process.machine.majority.lasts_until_s <= clock_s:
            self._report("isolated", now_s, process.node, f"{what} without a quorum")
        elif type(what) is Restarted:
            self._restarts[process.node] += 1
            if process.node in self._unharmed:
                self._report(
                    "unharmed", now_s, process.node, f"starts again as {what.incarnation}: {what.reason.name}"
                )
            if self._restarts[process.node] == self._restarts_max + 1:
                self._report(
                    "restarts", now_s, process.node, f"has started again {self._restarts_max + 1} times"
                )

    def output(self, now_s: float, process: Process, output: Any) -> None:
        if process in self._ended and isinstance(output, _MUTE):
            self._report("fail_stop", now_s, process.node, f"{type(output).__name__} after its end")
        elif type(output) is out.Closed:
            self._ended.add(process)
        elif type(output) is out.Failed:
            self._ended.add(process)
            if not (self._has_bad_disks and "cannot go on as incarnation" in output.reason):
                self._report("failed", now_s, process.node, output.reason)
        elif type(output) is out.Log and output.level >= out.WARNING and ": refused " in output.text:
            self._refused(now_s, process, output.text)

    def _refused(self, now_s: float, process: Process, text: str) -> None:
        if "no greeting came in time" in text or (self._has_other_files and "cluster files differ" in text):
            return
        if "which has been used up to" in text:
            return  # a late greeting of a process that is no more; one that lives would fail
        self._report("refused", now_s, process.node, text)

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


def _state(process: Process) -> str:
    machine = process.machine
    left = {what: count for what, count in machine.peer.footprint().items() if count}
    topics = {topic.name: topic.stage.value for topic in machine.memberships}
    return (
        f"{machine.life.value} as incarnation {machine.peer.incarnation}, present {dict(machine.peer.present)}, "
        f"problems {machine.problems()}, at work on {left}, in {topics}, wants {sorted(process.wishes)}"
    )
