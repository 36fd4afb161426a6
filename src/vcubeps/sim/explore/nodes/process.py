"""One simulated process: a machine with its clock, and an application that subscribes, publishes and reads."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from math import ceil, inf
from typing import Any, Protocol

from vcubeps.node import outputs as out
from vcubeps.node.connection import Connection
from vcubeps.node.errors import Isolated, NodeEnded
from vcubeps.node.exchange import Exchange
from vcubeps.node.lifecycle import Life
from vcubeps.node.machine import Machine
from vcubeps.node.settings import ClusterSettings
from vcubeps.node.topics import Reader
from vcubeps.protocol.outputs import Deliver
from vcubeps.sim.explore.nodes.agenda import Agenda, Clock
from vcubeps.sim.explore.nodes.streams import Streams
from vcubeps.sim.explore.peers import WatchedPeer

_READS_SLOWLY_S = 0.03
"""Between two messages."""


class WatchedExchange(Exchange):
    """Counts how much has arrived from whom. All nodes cut messages into frames of the same size."""

    def __init__(self, *arguments: Any) -> None:
        self.arrived: Counter[int] = Counter()
        """Instance of another node → frames of messages that have come from it."""
        super().__init__(*arguments)

    def on_message(self, other: int, body: memoryview) -> None:
        link = self._links.link(other)
        self.arrived[link.instance] += max(1, ceil(len(body) / link.outbox.bytes_max))
        super().on_message(other, body)


class WatchedMachine(Machine):
    """A node that lets the world see whom it holds dead, and how much has arrived from whom."""

    make_peer = WatchedPeer
    make_exchange = WatchedExchange
    peer: WatchedPeer
    exchange: WatchedExchange


class Host(Protocol):
    """What a process needs of its world."""

    agenda: Agenda
    streams: Streams
    sees_writes: bool
    """Whether it wants to be told of every `Write`, and not of the end of a node only."""

    def dial(self, process: Process, connection: Connection, address: str) -> None: ...
    def store(self, process: Process, incarnation: int) -> None: ...
    def has_fault(self, kind: str, node: int) -> bool: ...
    def ends_turn_late(self) -> bool: ...
    def answer(self, process: Process, batch: Deliver) -> bytes | None: ...
    def on_input(self, process: Process) -> None: ...
    def on_output(self, process: Process, output: Any) -> None: ...
    def on_error(self, process: Process, error: Exception) -> None: ...
    def on_ended(self, process: Process) -> None: ...


class Process:
    def __init__(
        self,
        host: Host,
        clock: Clock,
        settings: ClusterSettings,
        node: int,
        incarnation: int,
        seed: int,
        observe: Callable[[float, int, int, object], None],
        answers: bool,
        is_impatient: bool,
    ) -> None:
        """`answers`: its application is a function that is called with each message; otherwise it reads, and its
        subscriptions end where it reads too slowly if `is_impatient`."""
        self._host = host
        self._agenda = host.agenda
        self._streams = host.streams
        self._clock = clock
        self._answers = answers
        self._is_impatient = is_impatient
        self.node = node
        self.is_alive = True
        self.is_stopped = False
        self.has_ended = False
        """It has failed, or closed in good order."""
        self.machine = WatchedMachine(settings, node, incarnation, seed, clock.now_s(), observe)
        self.readers: dict[str, Reader] = {}
        """What this process's application is subscribed to."""
        self.wishes: set[str] = set()
        self.offers: dict[str, deque[bytes]] = {}
        """Topic → what is to be published there."""
        self.mark: tuple[object, object] | None = None
        """What the world has last seen of whom it holds dead."""
        self.restarts_s: deque[float] = deque(maxlen=4)
        """When it has started again as another incarnation, the last times."""
        self._reading: set[str] = set()
        """Topics that the application will read."""
        self._waiting: list[Callable[[], object]] = []
        """What has happened to it while it was stopped."""
        self._tick_at_s: float | None = None
        self._tick_for_s: float | None = None
        """What its machine wanted when that was decided."""
        self._turn_ends = False
        self._is_carrying = False
        self.isolations = 0
        """Calls that were refused because the node was isolated."""

    def start(self) -> None:
        self._input(self.machine.start)

    # -- inputs --------------------------------------------------------------------------------

    def _input(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Make an input, unless the process is stopped, and carry out what it causes."""
        if not self.is_alive or self.is_stopped:
            return None
        try:
            result = call(*arguments, self._clock.now_s())
        except (Isolated, NodeEnded):
            self.isolations += 1
            result = None
        except Exception as error:
            self._host.on_error(self, error)
            return None
        self._host.on_input(self)
        if not self._is_carrying:
            self.carry_out()
        return result

    def accepted(self, name: str) -> Connection | None:
        connection: Connection | None = self._input(self.machine.accepted, name)
        return connection

    def on_opened(self, connection: Connection) -> None:
        self._input(self.machine.opened, connection)

    def on_bytes(self, connection: Connection, data: bytes) -> None:
        room = connection.room
        count = len(data)
        if count <= len(room):
            room[:count] = data
            self._input(self.machine.received, connection, count)
            return
        view = memoryview(data)
        while view and not connection.is_ended and self.is_alive:
            room = connection.room
            count = min(len(room), len(view))
            room[:count] = view[:count]
            view = view[count:]
            self._input(self.machine.received, connection, count)

    def on_lost(self, connection: Connection) -> None:
        self._input(self.machine.lost, connection)

    def on_writable(self, connection: Connection) -> None:
        self._input(self.machine.writable, connection)

    def stored(self) -> None:
        self._input(self.machine.stored)

    def store_failed(self) -> None:
        self._input(self.machine.store_failed, "the disk is full")

    def declare_dead(self, other: int) -> None:
        self._input(self.machine.declare_dead, other)

    def close(self) -> None:
        self.wishes.clear()
        self.offers.clear()
        self._input(self.machine.close)

    def stop(self) -> None:
        self.is_stopped = True

    def when_it_runs(self, call: Callable[[], object]) -> None:
        """At once, unless it is stopped."""
        if self.is_stopped:
            self._waiting.append(call)
        elif self.is_alive:
            call()

    def go_on(self) -> None:
        self.is_stopped = False
        self._tick_at_s = self._tick_for_s = None
        self.carry_out()
        if not self._host.has_fault("stuck", self.node):
            self.read()
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            self.when_it_runs(call)

    def clock_jumped(self) -> None:
        self._tick_for_s = None

    # -- the application -----------------------------------------------------------------------

    def subscribe(self, topic: str) -> None:
        self.wishes.add(topic)
        self._join(topic)

    def _join(self, topic: str) -> None:
        if topic in self.readers or topic not in self.wishes or self.machine.life.has_ended:
            return
        if self.machine.life_at(self._clock.now_s()) is Life.ISOLATED:
            self.isolations += 1
            return  # tried again when it is up
        reader = self.readers[topic] = Reader(
            4, 1 << 20, keeps=not self._answers, ends_if_slow=self._is_impatient
        )
        self._input(self.machine.subscribe, topic, reader)
        if topic not in self.machine.memberships.topics:
            self.readers.pop(topic, None)

    def unsubscribe(self, topic: str) -> None:
        self.wishes.discard(topic)
        self.offers.pop(topic, None)
        reader = self.readers.pop(topic, None)
        if reader is not None:
            self._input(self.machine.unsubscribe, topic, reader)

    def publish(self, topic: str, payloads: list[bytes]) -> None:
        if topic in self.readers:
            self.offers.setdefault(topic, deque()).extend(payloads)
            self._publish(topic)

    def _publish(self, topic: str) -> None:
        offers = self.offers.get(topic)
        while offers and topic in self.readers and not self.is_stopped and self.is_alive:
            isolations = self.isolations
            counter = self._input(self.machine.publish, topic, offers[0])
            if counter or self.isolations > isolations:
                if offers:
                    offers.popleft()
            else:
                return  # `Room` says when to go on

    def _delivered(self, batch: Deliver) -> None:
        if self._answers:
            self._call(batch)
        elif batch.topic not in self._reading and not self._host.has_fault("stuck", self.node):
            self._reading.add(batch.topic)
            self._agenda.after(0.0, self._read, batch.topic)

    def _call(self, batch: Deliver) -> None:
        answer = self._host.answer(self, batch)
        if answer is not None:
            self.publish(batch.topic, [answer])

    def _read(self, topic: str) -> None:
        """All that waits, or one message if the application is slow."""
        self._reading.discard(topic)
        reader = self.readers.get(topic)
        if reader is None or not reader.backlog or self.is_stopped:
            return
        if not self._host.has_fault("slow", self.node):
            self.read(topic)
            return
        reader.backlog_bytes -= reader.backlog_bytes // reader.backlog
        reader.backlog -= 1
        self._tell_read(topic)
        if reader.backlog and not self._host.has_fault("stuck", self.node):
            self._reading.add(topic)
            self._agenda.after(_READS_SLOWLY_S, self._read, topic)

    def read(self, topic: str | None = None) -> None:
        """The application reads all that waits."""
        if self.is_stopped:
            return
        for name, reader in list(self.readers.items()):
            if (topic is None or name == topic) and reader.backlog:
                reader.backlog = reader.backlog_bytes = 0
                self._tell_read(name)

    def _tell_read(self, topic: str) -> None:
        if self.machine.is_full(topic):
            self._input(self.machine.read, topic)

    # -- outputs -------------------------------------------------------------------------------

    def carry_out(self) -> None:
        if self._is_carrying or self.is_stopped:
            return
        self._is_carrying = True
        machine, host = self.machine, self._host
        machine.context.write_at_once = (
            None  # what the application does from inside comes after these outputs
        )
        while self.is_alive:
            outputs = machine.take_outputs()
            if outputs:
                for output in outputs:
                    if machine.life is not Life.FAILED or type(output) not in out.DONE_NO_MORE:
                        self._carry_out(output)
            elif not machine.is_dirty or self._turn_ends:
                break
            elif host.ends_turn_late():
                self._turn_ends = True
                self._agenda.after(self._streams.delay_s(), self._end_turn)
                break
            else:
                machine.end_turn(self._clock.now_s())
                host.on_input(self)
        self._is_carrying = False
        machine.context.write_at_once = self._write_at_once
        if machine.next_tick_s != self._tick_for_s and self.is_alive:
            self._set_timer(machine.next_tick_s)

    def _end_turn(self) -> None:
        self._turn_ends = False
        self._input(self.machine.end_turn)

    def _set_timer(self, for_s: float) -> None:
        self._tick_for_s = for_s
        if for_s == inf:
            return
        at_s = self._clock.when_s(for_s)
        if self._tick_at_s is None or at_s < self._tick_at_s:
            self._tick_at_s = at_s
            self._agenda.at(at_s, self._tick, at_s)

    def _tick(self, at_s: float) -> None:
        if self._tick_at_s == at_s:
            self._tick_at_s = self._tick_for_s = None
            self._input(self.machine.tick)

    def _write_at_once(self, connection: Connection, data: bytes) -> None:
        self._carry_out(out.Write(connection, data))

    def _carry_out(self, output: Any) -> None:
        kind = type(output)
        if kind is out.Write:
            self._streams.write(output.connection, output.data)
            if not self.has_ended and not self._host.sees_writes:
                return
        elif kind is out.WriteAll:
            self._streams.write(output.connection, b"".join(output.parts))
        elif kind is out.Dial:
            self._host.dial(self, output.connection, output.address)
        elif kind is out.Close:
            self._streams.close(output.connection)
        elif kind is out.Abort:
            self._streams.abort(output.connection)
        elif kind is out.Store:
            self._host.store(self, output.incarnation)
        elif kind is out.Delivered:
            self._delivered(output.batch)
        elif kind is out.TooSlow:
            if self.readers.get(output.topic) is output.reader:
                self.unsubscribe(output.topic)
        elif kind is out.Room:
            self._agenda.after(0.0, self._publish, output.topic)
        elif kind is out.LifeChanged and output.life is Life.UP:
            for topic in sorted(self.wishes):
                self._agenda.after(0.0, self._join, topic)
        elif kind is out.Failed or kind is out.Closed:
            self._host.on_ended(self)
        self._host.on_output(self, output)
