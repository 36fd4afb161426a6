"""A few numbers in shared memory by which the processes of a run agree without exchanging messages.

Barriers and pipes would have every member wait for something else than its network; a glance at shared memory costs
no system call and does not block an event loop.
"""

from __future__ import annotations

from ctypes import c_int64
from multiprocessing.context import BaseContext
from typing import Any


class Board:
    """Written by the parent: `start_ns`, `over`, `closing`; by each member: its place in the lists."""

    def __init__(self, context: BaseContext, processes: int) -> None:
        self._parent: Any = context.RawArray(c_int64, 3)
        self.ready: Any = context.RawArray(c_int64, processes)
        """1: has heard from all others."""
        self.published: Any = context.RawArray(c_int64, [-1] * processes)
        """How many messages it published in all; -1 while it is publishing."""
        self.progress: Any = context.RawArray(c_int64, processes)
        """Grows with every delivery: when none grows any more, the run stalls."""
        self.done: Any = context.RawArray(c_int64, processes)
        """1: has been delivered all that there is."""

    @property
    def start_ns(self) -> int:
        """When the workload starts; 0: not yet known."""
        return int(self._parent[0])

    @start_ns.setter
    def start_ns(self, time_ns: int) -> None:
        self._parent[0] = time_ns

    @property
    def over(self) -> bool:
        """Whether the measurement has ended, for all at once."""
        return bool(self._parent[1])

    @over.setter
    def over(self, value: bool) -> None:
        self._parent[1] = value

    @property
    def closing(self) -> bool:
        """Whether all have reported: only then may a member leave, for that costs the others CPU time."""
        return bool(self._parent[2])

    @closing.setter
    def closing(self, value: bool) -> None:
        self._parent[2] = value
