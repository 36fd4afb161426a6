"""Byte streams between simulated processes, as TCP gives them: in order, each byte once, until the connection ends.

While two machines do not reach each other, what is written waits, and arrives when they do again. A process that ends
resets its connections, if its machine is there to say so; a machine without power says nothing until it is back and
is spoken to.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Protocol, TypeAlias

from vcubeps.mixing import mix
from vcubeps.node.connection import Connection
from vcubeps.sim.explore.nodes.agenda import Agenda
from vcubeps.sim.explore.nodes.setup import Setup

Data: TypeAlias = bytes | None
"""What travels; None is the end of the connection."""

PAUSED_BYTES = 8 << 10
"""When so much waits on a connection, its node is told to pause."""

_NARROW_BYTES_PER_S = 120_000.0


class Receiver(Protocol):
    """A process, as a stream sees it."""

    node: int
    is_alive: bool
    is_stopped: bool

    def on_bytes(self, connection: Connection, data: bytes) -> None: ...
    def on_lost(self, connection: Connection) -> None: ...
    def on_writable(self, connection: Connection) -> None: ...


class End:
    """One side of a connection: what its process has written and the other has not got yet."""

    __slots__ = (
        "busy_until_s", "connection", "is_open", "is_pumping", "last_s", "other", "process", "size", "waiting",
    )  # fmt: skip

    def __init__(self, process: Receiver, connection: Connection | None) -> None:
        self.process = process
        self.connection = connection
        """None while the process has not been told of it."""
        self.is_open = True
        """Whether this side has not ended it."""
        self.waiting: deque[tuple[float, Data]] = deque()
        """When it arrives, what; None is the end."""
        self.size = 0
        self.last_s = 0.0
        self.busy_until_s = 0.0
        """Where the way is narrow: when all that was written before has been put on it."""
        self.is_pumping = False
        self.other: End = self


class Streams:
    """All connections of a world, and its chances."""

    def __init__(self, seed: int, setup: Setup, agenda: Agenda) -> None:
        self._agenda = agenda
        self.severed: frozenset[tuple[int, int]] = frozenset()
        """(from, to): what is written there waits."""
        self.dark: set[int] = set()
        """Machines without power."""
        self.narrow: set[int] = set()
        self.is_disturbed = True
        """Whether some writes take very long."""
        self._bits = Random(mix(seed, 1)).getrandbits
        self._coins = Random(mix(seed, 2)).getrandbits
        """What becomes of what is under way when a connection ends."""
        self._halted: dict[End, None] = {}
        """Those with something to say that cannot be said now."""
        self.ends: dict[Connection, End] = {}
        self._usual_s = setup.delay_s * (1.0 if setup.has_even_delays else 0.1)
        self._spread_s = 0.0 if setup.has_even_delays else setup.delay_s * 0.9 / 1023
        self._slow_of_256 = setup.slow_of_256
        self._split_of_256 = setup.split_of_256

    def chance(self) -> int:
        """Sixteen bits."""
        return self._bits(16)

    def delay_s(self) -> float:
        chance = self._bits(23)
        usual_s = self._usual_s + self._spread_s * (chance >> 13)
        if chance & 255 < self._slow_of_256 and self.is_disturbed:
            usual_s *= 5 + (chance >> 8 & 31)
        return usual_s

    # -- the processes' side -------------------------------------------------------------------

    def connect(self, dialler: Receiver, connection: Connection, listener: Receiver) -> End:
        """A new stream; the listener's end, of which it has not been told yet."""
        mine, theirs = End(dialler, connection), End(listener, None)
        mine.other, theirs.other = theirs, mine
        self.ends[connection] = mine
        return theirs

    def accepted(self, end: End, connection: Connection) -> None:
        end.connection = connection
        self.ends[connection] = end
        self._pump(end.other)

    def write(self, connection: Connection, data: bytes) -> None:
        end = self.ends.get(connection)
        if end is None or not end.is_open:
            return
        end.size += len(data)
        if end.size > PAUSED_BYTES:
            connection.is_paused = True
        if self._split_of_256 and len(data) > 1 and self._bits(8) < self._split_of_256:
            at = 1 + self._bits(16) % (len(data) - 1)
            self._queue(end, data[:at])
            self._queue(end, data[at:])
        else:
            self._queue(end, data)

    def close(self, connection: Connection) -> None:
        """End it when all that was written has left."""
        end = self.ends.pop(connection, None)
        if end is not None and end.is_open:
            end.is_open = False
            self._queue(end, None)

    def abort(self, connection: Connection) -> None:
        """End it at once: what is under way may or may not arrive."""
        end = self.ends.pop(connection, None)
        if end is not None and end.is_open:
            end.is_open = False
            if self._coins(1):
                end.waiting.clear()
            self._queue(end, None)

    def reset(self, one: int, other: int) -> None:
        """Some connection between two nodes is lost, perhaps in the middle of a frame."""
        for end in list(self.ends.values()):
            if (
                end.process.node == one
                and end.other.process.node == other
                and end.is_open
                and end.other.is_open
            ):
                for each in (end, end.other):
                    kept = self._coins(16) % (len(each.waiting) + 1)
                    part = [data for _, data in each.waiting][:kept]
                    each.waiting.clear()
                    if part and part[-1]:
                        part[-1] = part[-1][: 1 + self._coins(16) % len(part[-1])]
                    each.last_s = self._agenda.now_s
                    for data in part:
                        self._queue(each, data)
                    self._queue(each, None)
                return

    def gone(self, process: Receiver, silently: bool) -> None:
        """A process has ended; `silently` if its machine has lost power."""
        for connection, end in list(self.ends.items()):
            if end.process is process:
                if silently:
                    del self.ends[connection]
                    end.is_open = False
                    end.waiting.clear()
                elif self._coins(1):
                    self.abort(connection)
                else:
                    self.close(connection)

    def changed(self) -> None:
        """Somebody may be reached who was not."""
        halted, self._halted = self._halted, {}
        for end in halted:
            if end.waiting and not end.is_pumping:
                end.is_pumping = True
                self._agenda.after(self.delay_s(), self._pump, end)

    # -- on the way ----------------------------------------------------------------------------

    def _queue(self, end: End, data: Data) -> None:
        agenda = self._agenda
        leaves_s = agenda.now_s
        if (
            self.narrow
            and data
            and (end.process.node in self.narrow or end.other.process.node in self.narrow)
        ):
            end.busy_until_s = max(leaves_s, end.busy_until_s) + len(data) / _NARROW_BYTES_PER_S
            leaves_s = end.busy_until_s
        arrives_s = leaves_s + self.delay_s()
        if arrives_s < end.last_s:
            arrives_s = end.last_s
        end.last_s = arrives_s
        end.waiting.append((arrives_s, data))
        if not end.is_pumping:
            end.is_pumping = True
            agenda.at(arrives_s, self._pump, end)

    def _pump(self, end: End) -> None:
        """What has arrived by now is handed over."""
        end.is_pumping = False
        other, waiting, agenda = end.other, end.waiting, self._agenda
        process = other.process
        while waiting:
            is_clear = not (self.severed or self.dark or process.is_stopped or other.connection is None)
            if not is_clear and self._is_halted(end):
                self._halted[end] = None
                return
            arrives_s, data = waiting[0]
            if arrives_s > agenda.now_s:
                end.is_pumping = True
                agenda.at(arrives_s, self._pump, end)
                return
            waiting.popleft()
            if data is None:
                self._ended(other)
                return
            end.size -= len(data)
            connection = end.connection
            if (
                connection is not None
                and connection.is_paused
                and end.size <= PAUSED_BYTES // 4
                and end.is_open
            ):
                end.process.on_writable(connection)
            if not other.is_open or not process.is_alive:
                self._answer_reset(end)
                return
            assert other.connection is not None
            process.on_bytes(other.connection, data)

    def _is_halted(self, end: End) -> bool:
        """Whether what it says does not get through now."""
        other, process = end.other, end.other.process
        if self.severed and (end.process.node, process.node) in self.severed:
            return True
        if self.dark and (process.node in self.dark or end.process.node in self.dark):
            return True
        return other.is_open and process.is_alive and (process.is_stopped or other.connection is None)

    def _ended(self, end: End) -> None:
        """The other side has ended it."""
        end.waiting.clear()
        if end.is_open:
            end.is_open = False
            if end.connection is not None:
                self.ends.pop(end.connection, None)
                if end.process.is_alive:
                    end.process.on_lost(end.connection)

    def _answer_reset(self, end: End) -> None:
        """Nobody is there for what was written: the machine says so."""
        end.waiting.clear()
        if end.is_open:
            self._agenda.after(self.delay_s(), self._ended, end)
