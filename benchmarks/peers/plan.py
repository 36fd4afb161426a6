"""When a process may publish: the three workloads, the same for every system."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

MODES = ("saturation", "flood", "latency")
WINDOW = 256
FLOOD_PER_SECOND = 5_000
"""Messages of each process per second of `--seconds` in a flood, where a number is fixed and not the time."""
LATENCY_RATE = 50
"""Messages per second of each process at light load."""


@dataclass(frozen=True)
class Workload:
    """One of the modes, with its sizes."""

    mode: str
    size: int
    processes: int
    seconds: float

    @property
    def patience(self) -> float:
        """When nothing has been delivered anywhere for so many seconds, what is missing is lost."""
        return min(5.0, max(1.0, 3 * self.seconds))


class Plan(Protocol):
    """What one process publishes."""

    def due(self, now_ns: int, published: int) -> int | None:
        """How many messages may be published now; None: no more, ever."""

    def pause_ns(self, now_ns: int, published: int) -> int:
        """How long it is useless to ask again, unless something is delivered."""


class Saturation:
    """Closed loop: message k may leave when message k - WINDOW of every other process has been delivered here."""

    def __init__(self, start_ns: int, seconds: float, reached: Callable[[], int]) -> None:
        self._end_ns = start_ns + int(seconds * 1e9)
        self._reached = reached

    def due(self, now_ns: int, published: int) -> int | None:
        if now_ns >= self._end_ns:
            return None
        return self._reached() + WINDOW - published

    def pause_ns(self, now_ns: int, published: int) -> int:
        return self._end_ns - now_ns


class Flood:
    """Open loop: a number of messages, as fast as the system takes them."""

    def __init__(self, seconds: float) -> None:
        self._messages = max(1, int(FLOOD_PER_SECOND * seconds))

    def due(self, now_ns: int, published: int) -> int | None:
        return self._messages - published or None

    def pause_ns(self, now_ns: int, published: int) -> int:
        return 0


class LightLoad:
    """One message in every slot of 1 / LATENCY_RATE seconds, at a random time of the slot: no two processes in step."""

    def __init__(self, start_ns: int, seconds: float, me: int) -> None:
        slot_ns = 1_000_000_000 // LATENCY_RATE
        rng = random.Random(me)
        slots = max(1, int(seconds * LATENCY_RATE))
        self._times_ns = [start_ns + slot * slot_ns + rng.randrange(slot_ns) for slot in range(slots)]

    def due(self, now_ns: int, published: int) -> int | None:
        if published == len(self._times_ns):
            return None
        return int(self._times_ns[published] <= now_ns)

    def pause_ns(self, now_ns: int, published: int) -> int:
        return self._times_ns[published] - now_ns if published < len(self._times_ns) else 0


def plan_for(workload: Workload, me: int, start_ns: int, reached: Callable[[], int]) -> Plan:
    """The plan of process `me`; `reached` says how many messages of every other process it has been delivered."""
    if workload.mode == "saturation":
        return Saturation(start_ns, workload.seconds, reached)
    if workload.mode == "flood":
        return Flood(workload.seconds)
    return LightLoad(start_ns, workload.seconds, me)
