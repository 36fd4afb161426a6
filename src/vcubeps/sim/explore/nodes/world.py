"""The world of whole nodes: processes as they run in production, over simulated byte streams, clocks and disks.

Virtual time, one heap of events, all chance from the seed. Faults last until they are over; then nodes get a bounded
time to be as if nothing had been.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from vcubeps.mixing import mix
from vcubeps.node.connection import NOBODY, Connection
from vcubeps.node.lifecycle import Life
from vcubeps.protocol.outputs import Arrived, Deliver, Departed, Restarted, Up
from vcubeps.protocol.voters import Voters
from vcubeps.sim.explore.checkers import Monitor
from vcubeps.sim.explore.nodes.agenda import Agenda, Clock
from vcubeps.sim.explore.nodes.conditions import Conditions
from vcubeps.sim.explore.nodes.conduct import Conduct
from vcubeps.sim.explore.nodes.disks import Disks
from vcubeps.sim.explore.nodes.process import Process
from vcubeps.sim.explore.nodes.schedule import Operation
from vcubeps.sim.explore.nodes.setup import Setup
from vcubeps.sim.explore.nodes.streams import End, Streams
from vcubeps.sim.explore.nodes.transcript import Transcript
from vcubeps.sim.explore.peers import WatchedPeer
from vcubeps.sim.explore.voting import Voting

_TICKS = 1e6
"""Per second: the checkers count in whole numbers."""

_REST_S = 90.0
"""How long the nodes may take, after the last fault, until nothing is left half done. Restarts that are put off, and
connections that are tried again, have their own limits, which add up to less."""
_LOOK_S = 0.25
"""How often it is looked whether they have."""
_CLOSING_S = 3.0
"""How long they may take in the end, when all are closed at once."""

_ANSWER = b"a"
"""How an application marks what it publishes in answer to a message."""


class World:
    def __init__(
        self, seed: int, setup: Setup, operations: Sequence[Operation], transcript: Transcript | None = None
    ) -> None:
        self._seed = seed
        self._setup = setup
        self._settings = setup.settings()
        self._operations = operations
        self._transcript = transcript
        self.sees_writes = transcript is not None
        self.inputs = 0
        self.agenda = Agenda()
        self.streams = Streams(mix(seed, 33), setup, self.agenda)
        detection = setup.detection
        voting = (
            Voting(setup.voters, True, int(detection.contact_s * _TICKS), int(detection.suspect_after_s * _TICKS),
                   False, frozenset())
            if setup.voters is not None
            else None
        )  # fmt: skip
        self._has_voters = voting is not None
        self.monitor = Monitor(voting)
        self.conduct = Conduct(setup, operations)
        self.processes: dict[int, Process] = {}
        self._conditions = Conditions(self.agenda, self.streams, self._over)
        self._disks = Disks(setup, self.agenda, self.streams, self.has_fault)
        self._clocks = {
            node: Clock(
                self.agenda, 1000.0 + node, 1.0 + setup.drift * (mix(seed, 34, node) % 2001 - 1000) / 1000
            )
            for node in setup.nodes
        }
        self._starts = 0
        self._published: Counter[int] = Counter()
        self._up: dict[int, set[int]] = {}
        """Node that has gone up in the input at hand → with whom."""
        for operation in operations:
            self.agenda.at(operation.at_s, self._perform, operation)

    @property
    def time(self) -> int:
        return int(self.agenda.now_s * _TICKS)

    # -- the run -------------------------------------------------------------------------------

    def run(self) -> None:
        agenda = self.agenda
        last_s = max((operation.ends_s for operation in self._operations), default=0.0)
        agenda.run_until(last_s + 0.001)
        self.streams.is_disturbed = False
        deadline_s = agenda.now_s + _REST_S
        calm = 0
        while agenda.now_s < deadline_s and calm < 2:
            self._make_whole()
            agenda.run_until(agenda.now_s + _LOOK_S)
            calm = calm + 1 if self._is_at_rest() else 0
        self.monitor.at_end(self)
        self.conduct.at_end(agenda.now_s, self.processes, _REST_S if calm < 2 else None)
        if calm == 2 and self._setup.closes_at_end:
            self._close_all()

    def _close_all(self) -> None:
        """As an operator does with a whole cluster."""
        self.conduct.is_closing = True
        self._transcript, self.sees_writes = None, False
        for process in list(self.processes.values()):
            process.close()
        deadline_s = self.agenda.now_s + _CLOSING_S
        while self.processes and self.agenda.now_s < deadline_s:
            self.agenda.run_until(self.agenda.now_s + _LOOK_S)
        self.conduct.at_close(self.agenda.now_s, self.processes, len(self.streams.ends))

    def _make_whole(self) -> None:
        """Enough nodes are started for a quorum to be there."""
        if self._setup.voters is None:
            if not self.processes:
                self._start(self._setup.nodes[0])
            return
        voters = Voters(self._setup.voters)
        for node in self._setup.voters:
            if not voters.is_quorum(set(self.processes)):
                self._start(node)

    def _is_at_rest(self) -> bool:
        for process in self.processes.values():
            machine = process.machine
            if machine.life is not Life.UP or machine.problems():
                return False
            if any(link.outbox for link in machine.links if link.other in self.processes):
                return False
            if any(machine.peer.footprint().values()) or any(process.offers.values()):
                return False
            if set(machine.memberships.topics) != process.wishes:
                return False
            for other in self.processes.values():
                its = other.machine.peer.incarnation
                if other is not process and (
                    machine.peer.known_incarnation(other.node) != its
                    or machine.peer.believes_dead(other.node)
                ):
                    return False
            if machine.peer.present.keys() - self.processes.keys():
                return False
        return True

    @property
    def live_peers(self) -> Mapping[int, WatchedPeer]:
        return {node: process.machine.peer for node, process in self.processes.items()}

    @property
    def isolated(self) -> set[int]:
        return {
            node
            for node, process in self.processes.items()
            if process.machine.life_at(self._clocks[node].now_s()) is Life.ISOLATED
        }

    # -- operations ----------------------------------------------------------------------------

    def _perform(self, operation: Operation) -> None:
        if self._transcript is not None:
            self._transcript.operation(self.agenda.now_s, operation)
        after = self.agenda.after
        node, process = operation.node, self.processes.get(operation.node)
        match operation.kind:
            case "start":
                self._start(node)
            case "other-file":
                self._start(node, other_file=True)
                after(operation.for_s, self._start_right, operation)
            case "old-disk":
                self._start_as_before(node, operation.number)
                after(operation.for_s, self._start_right, operation)
            case "reset":
                self.streams.reset(node, operation.number)
            case "clock":
                self._clocks[node].jump(operation.for_s)
                if process is not None:
                    process.clock_jumped()
            case "cut" | "narrow" | "deaf" | "stuck" | "slow" | "slow-disk" | "disk-failure":
                self._conditions.begin(operation)
            case _ if process is None:
                pass
            case "kill":
                self._kill(process, silently=False)
            case "vanish":
                self._kill(process, silently=True)
            case _ if process.is_stopped:
                pass
            case "subscribe":
                process.subscribe(operation.text)
            case "unsubscribe":
                process.unsubscribe(operation.text)
            case "publish":
                process.publish(operation.text, [self._payload(node) for _ in range(operation.number)])
            case "bulk":
                payload = self._payload(node)
                process.publish(operation.text, [payload + b"." * (operation.number - len(payload))])
            case "stop":
                process.stop()
                after(operation.for_s, self._go_on, process, operation)
            case "close":
                process.close()
            case "declare-dead":
                process.declare_dead(operation.number)
            case other:
                raise ValueError(f"unknown kind of operation {other!r}")

    def _payload(self, node: int, mark: bytes = b".") -> bytes:
        self._published[node] += 1
        size = 1 + mix(self._seed, 35, node, self._published[node]) % 40
        return b"%d.%d%s" % (node, self._published[node], mark) + b"x" * (size % 16)

    def answer(self, process: Process, batch: Deliver) -> bytes | None:
        """What an application that is called with a message publishes at once."""
        if batch.source == process.node:
            return None
        is_answer = _ANSWER in batch.items[0][1]
        if self.streams.chance() & 31 < (1 if is_answer else 8):
            return self._payload(process.node, _ANSWER)
        return None

    def _go_on(self, process: Process, operation: Operation) -> None:
        if process.is_alive:
            self._over(operation)
            process.go_on()
            self.streams.changed()

    def _over(self, operation: Operation) -> None:
        """What has lasted is over."""
        if self._transcript is not None:
            self._transcript.over(self.agenda.now_s, operation)
        node = operation.node
        if operation.kind == "stuck" and node in self.processes and not self.has_fault("stuck", node):
            self.processes[node].read()

    def has_fault(self, kind: str, node: int) -> bool:
        """Whether a fault that lasts is in force."""
        return self._conditions.has_fault(kind, node)

    # -- processes -----------------------------------------------------------------------------

    def _start(self, node: int, other_file: bool = False, incarnation: int | None = None) -> None:
        """As the next incarnation, or as one that is given although it has been used."""
        if node in self.processes:
            return
        for each in sorted(self.conduct.outdated.keys() & self.processes.keys()):
            self._kill(self.processes[each], silently=False)  # who comes now does not know better
        settings = self._settings
        if other_file:
            settings = self._setup.settings("continue" if self._setup.voters is not None else "majority")
        is_outdated = incarnation is not None
        if incarnation is None:
            incarnation = self._disks.next(node)
        self._starts += 1
        seed = mix(self._seed, 36, node, incarnation, self._starts) >> 2
        process = Process(self, self._clocks[node], settings, node, incarnation, seed, self._observe,
                          node in self._setup.answering, node in self._setup.impatient)  # fmt: skip
        self.processes[node] = process
        self.conduct.started(process, other_file, is_outdated)
        if self._transcript is not None:
            self._transcript.started(self.agenda.now_s, node, incarnation)
        self.streams.dark.discard(node)
        self.streams.changed()
        process.start()
        for topic in sorted(self.conduct.wishes.get(node, ())):
            process.subscribe(topic)

    def _start_right(self, operation: Operation) -> None:
        node = operation.node
        if node in self.processes:
            self._kill(self.processes[node], silently=False)
        self._over(operation)
        self._start(node)

    def _start_as_before(self, node: int, behind: int) -> None:
        """With an older disk: but only where everybody will know. Where nobody does, counters would be used twice."""
        incarnation = self._disks.used_before(node, behind)
        if node in self.processes or incarnation is None or self._conditions.is_cut or not self.processes:
            return
        for other in self.processes.values():
            if other.machine.links.link(node).incarnation < incarnation or other.is_stopped:
                return
        self._start(node, incarnation=incarnation)

    def _kill(self, process: Process, silently: bool) -> None:
        if not process.is_alive:
            return
        node = process.node
        self.conduct.wishes[node] = set(process.wishes)
        process.is_alive = False
        del self.processes[node]
        self._up.pop(node, None)
        self.monitor.on_input("crash", self.time, node, process.machine.links.identity.incarnation)
        if silently:
            self.streams.dark.add(node)
        self.streams.gone(process, silently)

    def on_ended(self, process: Process) -> None:
        """It has failed, or closed in good order."""
        process.has_ended = True
        self.agenda.after(0.0, self._kill, process, False)

    def dial(self, process: Process, connection: Connection, address: str) -> None:
        target = int(address[1:].partition(":")[0])
        self.agenda.after(self.streams.delay_s(), self._reach, process, connection, target)

    def _reach(self, process: Process, connection: Connection, target: int) -> None:
        if not process.is_alive or connection.is_ended:
            return
        source, streams = process.node, self.streams
        pairs = {(source, target), (target, source)}
        if pairs & streams.severed or target in streams.dark:
            self.agenda.after(0.2, self._reach, process, connection, target)
            return
        listener = self.processes.get(target)
        if listener is None or self.has_fault("deaf", target):
            process.on_lost(connection)
            return
        end = streams.connect(process, connection, listener)
        listener.when_it_runs(partial(self._accept, listener, end, source))
        process.on_opened(connection)

    def _accept(self, listener: Process, end: End, source: int) -> None:
        connection = listener.accepted(f"n{source}:9")
        if connection is not None and not connection.is_ended:
            self.streams.accepted(end, connection)

    def store(self, process: Process, incarnation: int) -> None:
        self._disks.store(process, incarnation)

    def ends_turn_late(self) -> bool:
        return self.streams.chance() & 255 < self._setup.late_turns_of_256

    # -- what is observed ----------------------------------------------------------------------

    def _observe(self, now_s: float, node: int, incarnation: int, what: object) -> None:
        if node in self.conduct.strangers:
            return
        process = self.processes[node]
        kind = type(what)
        if self._has_voters:
            self._note_standing(process)
            if kind is Up:
                self._up[node] = {*process.machine.peer.present, node}
            elif kind is Departed and node in self._up:
                self._up[node].add(what.node)  # type: ignore[attr-defined]
            elif kind is Arrived and node in self._up:
                self._up[node].discard(what.node)  # type: ignore[attr-defined]
            elif kind is Restarted:
                process.mark = None
        self.conduct.observed(self.agenda.now_s, process, now_s, what)
        if self._transcript is not None:
            self._transcript.observed(self.agenda.now_s, node, what)
        self.monitor.observe(self.time, node, incarnation, what)

    def _note_standing(self, process: Process) -> None:
        """Tell the checkers, if that has changed, whom it holds dead."""
        peer, last = process.machine.peer, process.mark
        mark = peer.standing_mark()
        if last is not None and mark[1] == last[1] and mark[0] is last[0]:
            return
        incarnation = process.machine.links.identity.incarnation
        if peer.incarnation == incarnation:  # otherwise these are still the old incarnation's outputs
            process.mark = mark
            self.monitor.on_input("standing", self.time, process.node, incarnation, peer.standing())

    def on_input(self, process: Process) -> None:
        """`process` has had an input."""
        self.inputs += 1
        if self._transcript is not None:
            self._note_ways(process)
        if self._has_voters and process.node not in self.conduct.strangers:
            self._note_standing(process)
            if self._up and process.node in self._up:
                incarnation, living = process.machine.peer.incarnation, self._up.pop(process.node)
                self.monitor.on_input("up", self.time, process.node, incarnation, frozenset(living))

    def _note_ways(self, process: Process) -> None:
        assert self._transcript is not None
        for link in process.machine.links:
            if link.connection is not None:
                is_relayed = link.connection.via != NOBODY
                self._transcript.way(self.agenda.now_s, process.node, link.other, is_relayed)

    def on_output(self, process: Process, output: Any) -> None:
        self.conduct.output(self.agenda.now_s, process, output)
        if self._transcript is not None:
            self._transcript.output(self.agenda.now_s, process.node, output)

    def on_error(self, process: Process, error: Exception) -> None:
        incarnation = process.machine.links.identity.incarnation
        self.monitor.on_input("error", self.time, process.node, incarnation, error)
        self._kill(process, silently=False)
