"""Byte streams between simulated processes, as TCP gives them: in order, each byte once, until the connection ends.

While two machines do not reach each other, what is written waits, and arrives when they do again. A process that ends
resets its connections, if its machine is there to say so; a machine without power says nothing until it is back and
is spoken to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeAlias

from vcubeps.mixing import mix64
from vcubeps.node.connection import Connection
from vcubeps.sim.explore.nodes.setup import Setup

Data: TypeAlias = bytes | None
"""What travels; None is the end of the connection."""

PAUSED_BYTES = 64 << 10
"""When so much waits on a connection, its node is told to pause."""

_NARROW_BYTES_PER_S = 20_000.0


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

    __slots__ = ("connection", "is_open", "is_pumping", "last_s", "other", "process", "size", "waiting")

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
        self.is_pumping = False
        self.other: End = self


class Streams:
    """`after(seconds, call)` makes the world call later; `now()` is its time."""

    def __init__(
        self,
        seed: int,
        setup: Setup,
        now: Callable[[], float],
        after: Callable[[float, Callable[[], None]], None],
    ) -> None:
        self._seed = seed
        self._setup = setup
        self._now = now
        self._after = after
        self.severed: frozenset[tuple[int, int]] = frozenset()
        """(from, to): what is written there waits."""
        self.dark: set[int] = set()
        """Machines without power."""
        self.narrow: set[int] = set()
        self.is_disturbed = True
        """Whether some writes take very long."""
        self._draws = 0
        self._halted: dict[End, None] = {}
        """Those with something to say that cannot be said now."""
        self.ends: dict[Connection, End] = {}

    def chance(self) -> int:
        self._draws += 1
        return mix64(self._seed + self._draws)

    def delay_s(self, size: int = 0, one: int = -1, other: int = -1) -> float:
        chance = self.chance()
        usual_s = self._setup.delay_s * (0.1 + 0.9 * (chance >> 40 & 1023) / 1023)
        if self.is_disturbed and chance & 255 < self._setup.slow_of_256:
            usual_s *= 5 + (chance >> 8 & 31)
        if size and self.narrow and (one in self.narrow or other in self.narrow):
            usual_s += size / _NARROW_BYTES_PER_S
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
        chance = self.chance()
        if len(data) > 1 and chance & 255 < self._setup.split_of_256:
            at = 1 + (chance >> 8) % (len(data) - 1)
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
            if self.chance() & 1:
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
                    kept = self.chance() % (len(each.waiting) + 1)
                    part = [data for _, data in each.waiting][:kept]
                    each.waiting.clear()
                    if part and part[-1]:
                        part[-1] = part[-1][: 1 + self.chance() % len(part[-1])]
                    each.last_s = self._now()
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
                elif self.chance() & 1:
                    self.abort(connection)
                else:
                    self.close(connection)

    def changed(self) -> None:
        """Somebody may be reached who was not."""
        halted, self._halted = self._halted, {}
        for end in halted:
            if end.waiting and not end.is_pumping:
                end.is_pumping = True
                self._after(self.delay_s(), lambda end=end: self._pump(end))  # type: ignore[misc]

    # -- on the way ----------------------------------------------------------------------------

    def _queue(self, end: End, data: Data) -> None:
        size = len(data) if data else 0
        arrives_s = max(
            end.last_s, self._now() + self.delay_s(size, end.process.node, end.other.process.node)
        )
        end.last_s = arrives_s
        end.waiting.append((arrives_s, data))
        if not end.is_pumping:
            end.is_pumping = True
            self._after(arrives_s - self._now(), lambda: self._pump(end))

    def _pump(self, end: End) -> None:
        """What has arrived by now is handed over."""
        end.is_pumping = False
        other = end.other
        process = other.process
        while end.waiting:
            pair = end.process.node, process.node
            if pair in self.severed or process.node in self.dark or end.process.node in self.dark:
                self._halted[end] = None
                return
            if other.is_open and process.is_alive and (process.is_stopped or other.connection is None):
                self._halted[end] = None
                return
            arrives_s, data = end.waiting[0]
            if arrives_s > self._now():
                end.is_pumping = True
                self._after(arrives_s - self._now(), lambda: self._pump(end))
                return
            end.waiting.popleft()
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
            self._after(self.delay_s(), lambda: self._ended(end))
