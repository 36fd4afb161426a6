"""The world of whole nodes: processes as they run in production, over simulated byte streams, clocks and disks.

Virtual time, one heap of events, all chance from the seed. Faults last until they are over; then nodes get a bounded
time to be as if nothing had been.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any

from vcubeps.mixing import mix
from vcubeps.node.connection import Connection
from vcubeps.node.lifecycle import Life
from vcubeps.protocol.outputs import Arrived, Departed, Restarted, Up
from vcubeps.protocol.voters import Voters
from vcubeps.sim.explore.checkers import Monitor
from vcubeps.sim.explore.nodes.conduct import Conduct
from vcubeps.sim.explore.nodes.process import Process
from vcubeps.sim.explore.nodes.schedule import Operation
from vcubeps.sim.explore.nodes.setup import Setup
from vcubeps.sim.explore.nodes.streams import End, Streams
from vcubeps.sim.explore.nodes.transcript import Transcript
from vcubeps.sim.explore.operations import severed
from vcubeps.sim.explore.peers import WatchedPeer
from vcubeps.sim.explore.voting import Voting

_TICKS = 1e6
"""Per second: the checkers count in whole numbers."""

_REST_S = 90.0
"""How long the nodes may take, after the last fault, until nothing is left half done. Restarts that are put off, and
connections that are tried again, have their own limits, which add up to less."""
_LOOK_S = 0.25
"""How often it is looked whether they have."""

_STUCK_DISK_S = 2.0


class World:
    def __init__(
        self, seed: int, setup: Setup, operations: Sequence[Operation], transcript: Transcript | None = None
    ) -> None:
        self._seed = seed
        self._setup = setup
        self._settings = setup.settings()
        self._operations = operations
        self._transcript = transcript
        self._now_s = 0.0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self.inputs = 0
        self.streams = Streams(mix(seed, 33), setup, self.now, self.after)
        detection = setup.detection
        voting = (
            Voting(setup.voters, True, int(detection.contact_s * _TICKS), int(detection.suspect_after_s * _TICKS),
                   False, frozenset())
            if setup.voters is not None
            else None
        )  # fmt: skip
        self.monitor = Monitor(voting)
        self.conduct = Conduct(setup, operations)
        self.processes: dict[int, Process] = {}
        self._disk: dict[int, int] = dict.fromkeys(setup.nodes, -1)
        self._jump_s: dict[int, float] = {}
        self._rate = {
            node: 1.0 + setup.drift * (mix(seed, 34, node) % 2001 - 1000) / 1000 for node in setup.nodes
        }
        self._cuts: list[frozenset[tuple[int, int]]] = []
        self._active: Counter[tuple[str, int]] = Counter()
        """(fault that lasts, node) → how many of it are in force."""
        self._waiting: dict[int, list[Callable[[], None]]] = {}
        """Node that is stopped → connections that its machine has made for it."""
        self._published: Counter[int] = Counter()
        self._marks: dict[int, tuple[object, object]] = {}
        self._up: dict[int, set[int]] = {}
        """Node that has gone up in the input at hand → with whom."""
        for operation in operations:
            self._at(operation.at_s, lambda operation=operation: self._perform(operation))  # type: ignore[misc]

    # -- time ----------------------------------------------------------------------------------

    def now(self) -> float:
        return self._now_s

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self._at(self._now_s + seconds, call)

    def _at(self, at_s: float, call: Callable[[], None]) -> None:
        self._number += 1
        heappush(self._heap, (at_s, self._number, call))

    def clock_s(self, node: int) -> float:
        """What `node`'s clock shows."""
        return 1000.0 + node + self._now_s * self._rate[node] + self._jump_s.get(node, 0.0)

    def until_s(self, node: int, clock_s: float) -> float:
        """When `node`'s clock shows that, if it does not jump."""
        return (clock_s - 1000.0 - node - self._jump_s.get(node, 0.0)) / self._rate[node] + 1e-9

    @property
    def time(self) -> int:
        return int(self._now_s * _TICKS)

    # -- the run -------------------------------------------------------------------------------

    def run(self) -> None:
        last_s = max((operation.ends_s for operation in self._operations), default=0.0)
        self._run_until(last_s + 0.001)
        self.streams.is_disturbed = False
        deadline_s = self._now_s + _REST_S
        calm = 0
        while self._now_s < deadline_s and calm < 2:
            self._make_whole()
            self._run_until(self._now_s + _LOOK_S)
            calm = calm + 1 if self._is_at_rest() else 0
        self.monitor.at_end(self)
        self.conduct.at_end(self._now_s, self.processes, _REST_S if calm < 2 else None)

    def _run_until(self, at_s: float) -> None:
        heap = self._heap
        while heap and heap[0][0] <= at_s:
            self._now_s, _, call = heappop(heap)
            call()
        self._now_s = at_s

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
            if process.machine.life_at(self.clock_s(node)) is Life.ISOLATED
        }

    # -- operations ----------------------------------------------------------------------------

    def _perform(self, operation: Operation) -> None:
        if self._transcript is not None:
            self._transcript.operation(self._now_s, operation)
        node, process = operation.node, self.processes.get(operation.node)
        match operation.kind:
            case "start":
                self._start(node)
            case "other-file":
                self._start(node, other_file=True)
                self.after(operation.for_s, lambda: self._start_right(node))
            case "cut":
                self._cut(severed(operation.text), operation.for_s)
            case "reset":
                self.streams.reset(node, operation.number)
            case "clock":
                self._jump_s[node] = self._jump_s.get(node, 0.0) + operation.for_s
            case "narrow" | "deaf" | "stuck" | "slow-disk" | "disk-failure":
                self._for_a_while(operation.kind, node, operation.for_s)
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
            case "stop":
                process.stop()
                self.after(operation.for_s, lambda: self._go_on(process))
            case "close":
                process.close()
            case other:
                raise ValueError(f"unknown kind of operation {other!r}")

    def _payload(self, node: int) -> bytes:
        self._published[node] += 1
        size = 1 + mix(self._seed, 35, node, self._published[node]) % 40
        return f"{node}.{self._published[node]}.".encode().ljust(size, b"x")

    def _cut(self, pairs: frozenset[tuple[int, int]], for_s: float) -> None:
        self._cuts.append(pairs)

        def heal() -> None:
            self._cuts.remove(pairs)
            self._rewire()

        self._rewire()
        self.after(for_s, heal)

    def _rewire(self) -> None:
        self.streams.severed = frozenset().union(*self._cuts)
        self.streams.changed()

    def _for_a_while(self, kind: str, node: int, for_s: float) -> None:
        key = kind, node
        self._active[key] += 1

        def over() -> None:
            self._active[key] -= 1
            if kind == "narrow" and not self._active[key]:
                self.streams.narrow.discard(node)
            if kind == "stuck" and not self._active[key] and node in self.processes:
                self.processes[node].read()

        if kind == "narrow":
            self.streams.narrow.add(node)
        self.after(for_s, over)

    def _go_on(self, process: Process) -> None:
        if process.is_alive:
            process.go_on()
            if not self.is_stuck(process.node):
                process.read()
            for made in self._waiting.pop(process.node, []):
                made()
            self.streams.changed()

    # -- processes -----------------------------------------------------------------------------

    def _start(self, node: int, other_file: bool = False) -> None:
        if node in self.processes:
            return
        self._disk[node] += 1  # stored before it does anything
        settings = self._settings
        if other_file:
            settings = self._setup.settings("continue" if self._setup.voters is not None else "majority")
        process = Process(self, settings, node, self._disk[node], mix(self._seed, 36, node, self._disk[node]) >> 2,
                          self._observe)  # fmt: skip
        self.processes[node] = process
        self._marks.pop(node, None)
        self.streams.dark.discard(node)
        self.streams.changed()
        self.conduct.started(node, other_file)
        process.start()
        for topic in sorted(self.conduct.wishes.get(node, ())):
            process.subscribe(topic)

    def _start_right(self, node: int) -> None:
        if node in self.processes:
            self._kill(self.processes[node], silently=False)
        self._start(node)

    def _kill(self, process: Process, silently: bool) -> None:
        self.conduct.wishes[process.node] = set(process.wishes)
        self._end(process)
        if silently:
            self.streams.dark.add(process.node)
        self.streams.gone(process, silently)

    def _end(self, process: Process) -> None:
        node = process.node
        process.is_alive = False
        del self.processes[node]
        self._waiting.pop(node, None)
        self._up.pop(node, None)
        self.monitor.on_input("crash", self.time, node, process.machine.links.identity.incarnation)
        if self._transcript is not None:
            self._transcript.note(self._now_s, node, "the process ends")

    def on_ended(self, process: Process) -> None:
        """It has failed, or closed in good order."""
        if process.is_alive:
            self.after(0.0, lambda: self._kill(process, silently=False) if process.is_alive else None)

    def dial(self, process: Process, connection: Connection, address: str) -> None:
        target = int(address[1:].partition(":")[0])
        self.after(self.streams.delay_s(), lambda: self._reach(process, connection, target))

    def _reach(self, process: Process, connection: Connection, target: int) -> None:
        if not process.is_alive or connection.is_ended:
            return
        source, streams = process.node, self.streams
        pairs = {(source, target), (target, source)}
        if pairs & streams.severed or target in streams.dark:
            self.after(0.2, lambda: self._reach(process, connection, target))
            return
        listener = self.processes.get(target)
        if listener is None or self._active["deaf", target]:
            process.on_lost(connection)
            return
        end = streams.connect(process, connection, listener)
        if listener.is_stopped:
            self._waiting.setdefault(target, []).append(lambda: self._accept(listener, end, source))
        else:
            self._accept(listener, end, source)
        process.on_opened(connection)

    def _accept(self, listener: Process, end: End, source: int) -> None:
        connection = listener.accepted(f"n{source}:9")
        if connection is not None and not connection.is_ended:
            self.streams.accepted(end, connection)

    def store(self, process: Process, incarnation: int) -> None:
        delay_s = self.streams.delay_s()
        if self._active["slow-disk", process.node]:
            delay_s += _STUCK_DISK_S
        self.after(delay_s, lambda: self._stored(process, incarnation))

    def _stored(self, process: Process, incarnation: int) -> None:
        if not process.is_alive:
            return
        if process.is_stopped:
            self._waiting.setdefault(process.node, []).append(lambda: self._stored(process, incarnation))
        elif self._active["disk-failure", process.node]:
            process.store_failed()
        else:
            self._disk[process.node] = incarnation
            process.stored()

    def is_stuck(self, node: int) -> bool:
        return self._active["stuck", node] > 0

    def ends_turn_late(self) -> bool:
        return self.streams.chance() & 255 < self._setup.late_turns_of_256

    # -- what is observed ----------------------------------------------------------------------

    def _observe(self, now_s: float, node: int, incarnation: int, what: object) -> None:
        if node in self.conduct.strangers:
            return
        self._note_standing(node)
        kind = type(what)
        if kind is Up and self._setup.voters is not None:
            self._up[node] = {*self.processes[node].machine.peer.present, node}
        elif kind is Departed and node in self._up:
            self._up[node].add(what.node)  # type: ignore[attr-defined]
        elif kind is Arrived and node in self._up:
            self._up[node].discard(what.node)  # type: ignore[attr-defined]
        elif kind is Restarted:
            self._marks.pop(node, None)
        process = self.processes[node]
        self.conduct.observed(self._now_s, process, self.clock_s(node), what)
        if self._transcript is not None:
            self._transcript.observed(self._now_s, node, what)
        self.monitor.observe(self.time, node, incarnation, what)

    def _note_standing(self, node: int) -> None:
        if self._setup.voters is None or node not in self.processes or node in self.conduct.strangers:
            return
        machine = self.processes[node].machine
        peer, incarnation = machine.peer, machine.links.identity.incarnation
        if peer.incarnation != incarnation:
            return  # these are still the old incarnation's outputs
        mark, last = peer.standing_mark(), self._marks.get(node)
        if last is None or mark[0] is not last[0] or mark[1] != last[1]:
            self._marks[node] = mark
            self.monitor.on_input("standing", self.time, node, incarnation, peer.standing())

    def on_input(self, process: Process) -> None:
        """`process` has had an input."""
        self.inputs += 1
        self._note_standing(process.node)
        if self._up:
            living = self._up.pop(process.node, None)
            if living is not None:
                incarnation = process.machine.peer.incarnation
                self.monitor.on_input("up", self.time, process.node, incarnation, frozenset(living))

    def on_output(self, process: Process, output: Any) -> None:
        self.conduct.output(self._now_s, process, output)
        if self._transcript is not None:
            self._transcript.output(self._now_s, process.node, output)

    def on_error(self, process: Process, error: Exception) -> None:
        incarnation = process.machine.links.identity.incarnation
        self.monitor.on_input("error", self.time, process.node, incarnation, error)
        self._kill(process, silently=False)
