"""What mutants have to get past after the unit tests: random schedules of the explorer.

Most worlds are small, because a schedule of few nodes takes a fraction of the time and meets as many races; each kind
aims at another part of the protocol.
"""

from __future__ import annotations

from collections.abc import Callable

from liars import run_with_a_liar
from vcubeps.sim.explore import Allowed, run_schedule, schedule_seed
from vcubeps.sim.explore.options import FAULTS

CAMPAIGN_SEED = 3

SCHEDULE_CPU_S = 60.0
"""Seconds of CPU that a schedule may take; the longest need a few."""

_ALL = frozenset(FAULTS)

KINDS: dict[str, tuple[Allowed, str, float]] = {
    "crash-free": (Allowed(nodes_max=6), "checked", 1.0),
    "all faults": (Allowed(nodes_max=5, faults=_ALL), "checked", 1.0),
    "newcomers": (
        Allowed(nodes_max=5, faults=_ALL, always=frozenset({"arrive", "depart"})),
        "checked",
        1.0,
    ),
    "reboots": (
        Allowed(nodes_max=5, faults=_ALL, always=frozenset({"reboots", "boot-reports", "goodbyes"})),
        "checked",
        0.5,
    ),
    "voters": (Allowed(nodes_max=4, faults=_ALL, always=frozenset({"voters"})), "checked", 0.5),
    "large": (Allowed(nodes_min=8, nodes_max=16, faults=_ALL), "amended", 0.2),
}
"""Name → what is allowed, the algorithm (`checked` also checks invariants), and how many of the schedules asked for."""


LIARS = 0.5
"""How many of the schedules asked for are run once more, all faults, with a liar among the nodes."""


def explore(schedules: int, limit_cpu: Callable[[float], None] = lambda _: None) -> str | None:
    """The first promise that a schedule breaks; None if none does. `limit_cpu` is called before each."""
    for kind, (allowed, algorithm, share) in KINDS.items():
        for index in range(int(share * schedules)):
            limit_cpu(SCHEDULE_CPU_S)
            violated = run_schedule(schedule_seed(CAMPAIGN_SEED, index), allowed, algorithm).violated
            if violated:
                return f"BROKEN {', '.join(violated)} in schedule {index}, {kind}"
    for index in range(int(LIARS * schedules)):
        limit_cpu(SCHEDULE_CPU_S)
        allowed, _, _ = KINDS["all faults"]
        if "errors" in run_with_a_liar(schedule_seed(CAMPAIGN_SEED, index), allowed).violated:
            return f"BROKEN errors in schedule {index}, with a liar"
    return None


def main(schedules: int) -> None:
    """As a process of its own."""
    complaint = explore(schedules)
    if complaint is not None:
        raise SystemExit(complaint)
