"""What mutants have to get past after the unit tests: random schedules of the explorer."""

from __future__ import annotations

from collections.abc import Callable

from vcubeps.sim.explore import Allowed, run_schedule, schedule_seed
from vcubeps.sim.explore.options import FAULTS

CAMPAIGN_SEED = 3

SCHEDULE_CPU_S = 60.0
"""Seconds of CPU that a schedule may take; the longest need a few."""


def explore(schedules: int, limit_cpu: Callable[[float], None] = lambda _: None) -> str | None:
    """The first promise that a schedule breaks; None if none does. `limit_cpu` is called before each."""
    few = schedules // 4  # checking invariants after every input takes long
    for faults in (frozenset(), frozenset(FAULTS)):
        for algorithm, count in (("amended", schedules), ("checked", few)):
            for index in range(count):
                limit_cpu(SCHEDULE_CPU_S)
                allowed = Allowed(nodes_max=16, faults=faults)
                violated = run_schedule(schedule_seed(CAMPAIGN_SEED, index), allowed, algorithm).violated
                if violated:
                    kind = "all faults" if faults else "crash-free"
                    return f"BROKEN {', '.join(violated)} in schedule {index}, {kind}, {algorithm}"
    return None


def main(schedules: int) -> None:
    """As a process of its own."""
    complaint = explore(schedules)
    if complaint is not None:
        raise SystemExit(complaint)
