"""What happened at one node, written down as the tables that `vcubeps audit` reads.

The node's thread only collects; another one makes files of it, so that a node with a trace is hardly slower. Whatever
goes wrong with the disk, the node lives: the trace ends, which is logged, and again when the node is closed.

Times are microseconds since 1970 by this machine's clock, which must agree with the clocks of the others.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from vcubeps.net.trace_files import TraceFiles
from vcubeps.net.trace_rows import Broadcast, Change, Collected, Published
from vcubeps.net.tracer import NOBODY_ASKED_NS
from vcubeps.protocol.outputs import Deliver, Received, Started

log = logging.getLogger(__name__)

ROWS_AT_ONCE = 50_000
"""So many rows that wait are written, whatever the time."""
WRITTEN_WITHIN_S = 1.0
"""So long after it happened a row is handed to the writing thread."""
ROWS_BEHIND_MAX = 500_000
"""If more than that waits for the disk, the node waits too."""

UNKNOWN = -1


def topic_number(name: str) -> int:
    """The number that a topic has in traces: the upper 63 bits of BLAKE2b-64 of its name in UTF-8.

    >>> topic_number("room")
    3715621704465573718
    """
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest()) >> 1


class _Own(NamedTuple):
    """Own publications on a topic that have no row yet."""

    accepted: dict[int, int]
    """Counter → when the application asked for it."""
    started: deque[Broadcast]

    def first_counters(self) -> Iterator[int]:
        if self.started:
            yield self.started[0].counters[0]
        yield from islice(self.accepted, 1)


class TraceWriter:
    """Implements `tracer.Tracer`.

    Invariants: rows of all tables are written together, so that what is written is all that happened up to a moment;
    only the writing thread touches `_files`.
    """

    lost_rows: int
    """That are missing because something could not be written."""

    def __init__(self, directory: Path, node: int) -> None:
        """Raises `TraceDirectoryError` if nothing can be written to `directory`, which is made if need be."""
        self._directory, self._node = directory, node
        self._files = TraceFiles(directory, node)
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, f"trace-of-node-{node}")
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._failure: Exception | None = None
        self.lost_rows = 0
        self._collected = Collected()
        self._under_way: deque[tuple[Future[None], int]] = deque()
        """Handed to the thread, with the number of rows; oldest first."""
        self._numbers: dict[str, int] = {}
        self._own: dict[str, _Own] = {}
        self._last_counter = -1
        """Of own publications."""
        self._joined: dict[str, int] = {}
        """Topics that this node is a member of → when the application asked for it."""
        self._leaving: dict[str, int] = {}
        """Those of them that it has asked to leave → when."""

    # -- what happens --------------------------------------------------------------------------

    def published(self, topic: str, counter: int, now_ns: int) -> None:
        self._own_on(topic).accepted[counter] = now_ns // 1000
        self._last_counter = counter

    def started(self, batch: Started, now_ns: int) -> None:
        own = self._own_on(batch.topic)
        counters = batch.batch.counters
        published = [own.accepted.pop(counter, now_ns // 1000) for counter in counters]
        own.started.append(Broadcast(counters, published, now_ns // 1000, batch.barrier))

    def acknowledged(self, topic: str, counter: int, now_ns: int) -> None:
        started = self._own_on(topic).started
        while started and started[0].counters[-1] <= counter:
            self._add_publications(topic, started.popleft(), now_ns // 1000)

    def received(self, batch: Received, now_ns: int) -> None:
        counters = batch.counters
        number = self._numbers.get(batch.topic) or self._number(batch.topic)
        self._collected.receptions.add(number, batch.source, counters, now_ns // 1000)
        self._added(len(counters))

    def delivered(self, batch: Deliver, now_ns: int) -> None:
        counters = batch.batch.counters
        number = self._numbers.get(batch.topic) or self._number(batch.topic)
        self._collected.deliveries.add(number, batch.source, counters, now_ns // 1000)
        self._added(len(counters))

    def joined(self, topic: str, asked_ns: int, now_ns: int) -> None:
        self._joined[topic] = asked_ns // 1000
        self._collected.changes.append(Change(self._number(topic), now_ns // 1000, True, asked_ns // 1000))
        self._added(1)

    def leaving(self, topic: str, asked_ns: int) -> None:
        if topic in self._joined:
            self._leaving[topic] = asked_ns // 1000

    def left(self, topic: str, asked_ns: int, now_ns: int) -> None:
        """Nothing, if it had not joined.

        `asked_ns` before the join means that the application did not ask: the node was taken for crashed, or the
        others did not hear of the leave. Then it is not known how long the membership lasted, and the audit is to
        expect nothing of it: it counts as ended when it was asked for.
        """
        self._abandon(topic)
        self._leaving.pop(topic, None)
        joined_asked_ut = self._joined.pop(topic, None)
        if joined_asked_ut is None:
            return
        asked_ut = max(asked_ns // 1000, joined_asked_ut)
        self._collected.changes.append(Change(self._number(topic), now_ns // 1000, False, asked_ut))
        self._added(1)

    def restarted(self, now_ns: int) -> None:
        for topic in {**self._own, **self._joined}:
            self.left(topic, NOBODY_ASKED_NS, now_ns)

    async def close(self) -> None:
        """Write everything that is left; a failure is logged."""
        if self._is_closed:
            return
        self._is_closed = True
        for topic in list(self._own):
            self._abandon(topic)
        self._hand_over()
        # All is said, and who has left has left, unless the node was not able to say so.
        self._submit(Collected(), self._provisional_ends(), None)
        for future, _ in self._under_way:
            await asyncio.wrap_future(future)
        self._thread.shutdown()
        if self._failure is not None:
            log.error(
                "node %d: its trace in %s is not complete, %d rows at least are missing: %s",
                self._node, self._directory, self.lost_rows, self._failure,
            )  # fmt: skip

    # -- collecting ----------------------------------------------------------------------------

    def _number(self, topic: str) -> int:
        number = self._numbers.get(topic)
        if number is None:
            number = self._numbers[topic] = topic_number(topic)
            self._collected.topics.append((number, topic))
        return number

    def _own_on(self, topic: str) -> _Own:
        own = self._own.get(topic)
        if own is None:
            own = self._own[topic] = _Own({}, deque())
        return own

    def _add_publications(self, topic: str, broadcast: Broadcast, acknowledged_ut: int) -> None:
        self._collected.publications.append(Published(self._number(topic), broadcast, acknowledged_ut))
        self._added(len(broadcast.counters))

    def _abandon(self, topic: str) -> None:
        """Nobody will acknowledge what is under way on `topic`. What had not begun was never published."""
        own = self._own.pop(topic, None)
        if own is not None:
            for broadcast in own.started:
                self._add_publications(topic, broadcast, UNKNOWN)

    def _added(self, rows: int) -> None:
        self._collected.rows += rows
        if self._collected.rows >= ROWS_AT_ONCE:
            self._hand_over()
        elif self._timer is None and not self._is_closed:
            self._timer = self._loop.call_later(WRITTEN_WITHIN_S, self._hand_over)

    # -- writing -------------------------------------------------------------------------------

    def _hand_over(self) -> None:
        """What has been collected goes to the writing thread. Waits for it if it is far behind."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        collected, self._collected = self._collected, Collected()
        if not collected.rows:
            return
        if self._failure is not None:
            self.lost_rows += collected.rows
            return
        leaves = [change for change in collected.changes if not change.joins]
        self._submit(collected, leaves + self._provisional_ends(), self._first_unwritten())
        under_way = self._under_way
        while under_way and (under_way[0][0].done() or self._rows_behind() > ROWS_BEHIND_MAX):
            under_way.popleft()[0].result()

    def _submit(self, collected: Collected, ends: list[Change], unwritten: int | None) -> None:
        future = self._thread.submit(self._write, collected, ends, unwritten)
        self._under_way.append((future, collected.rows))

    def _provisional_ends(self) -> list[Change]:
        """What there is a subscription to, as if it ended now: a node that is killed cannot say that it leaves."""
        now_ut = time.time_ns() // 1000
        return [
            Change(self._numbers[topic], now_ut, False, self._leaving.get(topic, now_ut))
            for topic in self._joined
        ]

    def _first_unwritten(self) -> int:
        """Of own publications: a node that is killed cannot write down what the others have from it already."""
        waiting = [counter for own in self._own.values() for counter in own.first_counters()]
        return min(waiting, default=self._last_counter + 1)

    def _rows_behind(self) -> int:
        return sum(rows for _, rows in self._under_way)

    def _write(self, collected: Collected, ends: list[Change], unwritten: int | None) -> None:
        """In the writing thread."""
        if self._failure is not None:
            self.lost_rows += collected.rows
            return
        try:
            self._files.write(collected, ends, unwritten)
        except Exception as error:  # the node lives on, whatever it is
            self._failure = error
            self.lost_rows += collected.rows
            log.error(
                "node %d: its trace in %s ends here, it cannot be written: %s",
                self._node, self._directory, error, exc_info=not isinstance(error, OSError),
            )  # fmt: skip
