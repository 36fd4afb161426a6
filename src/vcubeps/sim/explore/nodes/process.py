"""One simulated process: a machine with its clock, and an application that subscribes, publishes and reads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Any, Protocol

from vcubeps.node import outputs as out
from vcubeps.node.connection import Connection
from vcubeps.node.errors import Isolated, NodeEnded
from vcubeps.node.lifecycle import Life
from vcubeps.node.machine import Machine
from vcubeps.node.settings import ClusterSettings
from vcubeps.node.topics import Reader
from vcubeps.sim.explore.nodes.streams import Streams
from vcubeps.sim.explore.peers import WatchedPeer


class WatchedMachine(Machine):
    """A node that lets the world see whom it holds dead."""

    make_peer = WatchedPeer
    peer: WatchedPeer


class Host(Protocol):
    """What a process needs of its world."""

    streams: Streams

    def now(self) -> float: ...
    def after(self, seconds: float, call: Callable[[], None]) -> None: ...
    def clock_s(self, node: int) -> float: ...
    def until_s(self, node: int, clock_s: float) -> float: ...
    def dial(self, process: Process, connection: Connection, address: str) -> None: ...
    def store(self, process: Process, incarnation: int) -> None: ...
    def is_stuck(self, node: int) -> bool: ...
    def ends_turn_late(self) -> bool: ...
    def on_input(self, process: Process) -> None: ...
    def on_output(self, process: Process, output: Any) -> None: ...
    def on_error(self, process: Process, error: Exception) -> None: ...
    def on_ended(self, process: Process) -> None: ...


class Process:
    def __init__(
        self,
        host: Host,
        settings: ClusterSettings,
        node: int,
        incarnation: int,
        seed: int,
        observe: Callable[[float, int, int, object], None],
    ) -> None:
        self._host = host
        self.node = node
        self.is_alive = True
        self.is_stopped = False
        self.machine = WatchedMachine(settings, node, incarnation, seed, host.clock_s(node), observe)
        self.readers: dict[str, Reader] = {}
        """What this process's application is subscribed to."""
        self.wishes: set[str] = set()
        self.offers: dict[str, deque[bytes]] = {}
        """Topic → what is to be published there."""
        self._tick_at_s: float | None = None
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
            result = call(*arguments, self._host.clock_s(self.node))
        except (Isolated, NodeEnded):
            self.isolations += 1
            result = None
        except Exception as error:
            self._host.on_error(self, error)
            return None
        self._host.on_input(self)
        self.carry_out()
        return result

    def accepted(self, name: str) -> Connection | None:
        connection: Connection | None = self._input(self.machine.accepted, name)
        return connection

    def on_opened(self, connection: Connection) -> None:
        self._input(self.machine.opened, connection)

    def on_bytes(self, connection: Connection, data: bytes) -> None:
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

    def close(self) -> None:
        self.wishes.clear()
        self.offers.clear()
        self._input(self.machine.close)

    def stop(self) -> None:
        self.is_stopped = True

    def go_on(self) -> None:
        self.is_stopped = False
        self._tick_at_s = None
        self.carry_out()

    # -- the application -----------------------------------------------------------------------

    def subscribe(self, topic: str) -> None:
        self.wishes.add(topic)
        self._join(topic)

    def _join(self, topic: str) -> None:
        if topic in self.readers or self.machine.life.has_ended:
            return
        if self.machine.life_at(self._host.clock_s(self.node)) is Life.ISOLATED:
            self.isolations += 1
            return  # tried again when it is up
        reader = self.readers[topic] = Reader(4, 1 << 20)
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

    def read(self, topic: str | None = None) -> None:
        """The application reads all that waits."""
        if self.is_stopped:
            return
        for name, reader in list(self.readers.items()):
            if (topic is None or name == topic) and reader.backlog:
                reader.backlog = reader.backlog_bytes = 0
                if self.machine.is_full(name):
                    self._input(self.machine.read, name)

    # -- outputs -------------------------------------------------------------------------------

    def carry_out(self) -> None:
        if self._is_carrying or self.is_stopped:
            return
        self._is_carrying = True
        machine, host = self.machine, self._host
        while self.is_alive:
            outputs = machine.take_outputs()
            for output in outputs:
                self._carry_out(output)
            if not outputs:
                if not machine.is_dirty or self._turn_ends:
                    break
                if host.ends_turn_late():
                    self._turn_ends = True
                    host.after(host.streams.delay_s(), self._end_turn)
                    break
                machine.end_turn(host.clock_s(self.node))
                host.on_input(self)
        self._is_carrying = False
        self._set_timer()

    def _end_turn(self) -> None:
        self._turn_ends = False
        self._input(self.machine.end_turn)

    def _set_timer(self) -> None:
        next_s = self.machine.next_tick_s
        if next_s == inf or not self.is_alive:
            return
        at_s = max(self._host.now(), self._host.until_s(self.node, next_s))
        if self._tick_at_s is None or at_s < self._tick_at_s:
            self._tick_at_s = at_s
            self._host.after(at_s - self._host.now(), lambda: self._tick(at_s))

    def _tick(self, at_s: float) -> None:
        if self._tick_at_s == at_s:
            self._tick_at_s = None
            self._input(self.machine.tick)

    def _carry_out(self, output: Any) -> None:
        host, streams, kind = self._host, self._host.streams, type(output)
        if kind is out.Write:
            streams.write(output.connection, output.data)
        elif kind is out.WriteAll:
            streams.write(output.connection, b"".join(output.parts))
        elif kind is out.Dial:
            host.dial(self, output.connection, output.address)
        elif kind is out.Close:
            streams.close(output.connection)
        elif kind is out.Abort:
            streams.abort(output.connection)
        elif kind is out.Store:
            host.store(self, output.incarnation)
        elif kind is out.Delivered:
            if not host.is_stuck(self.node):
                topic = output.batch.topic
                host.after(0.0, lambda: self.read(topic))
        elif kind is out.Room:
            host.after(0.0, lambda: self._publish(output.topic))
        elif kind is out.LifeChanged and output.life is Life.UP:
            for topic in sorted(self.wishes):
                host.after(0.0, lambda topic=topic: self._join(topic) if topic in self.wishes else None)  # type: ignore[misc]
        elif kind is out.Failed or kind is out.Closed:
            host.on_ended(self)
        host.on_output(self, output)
