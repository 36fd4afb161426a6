"""Running schedules of whole nodes: one by its seed, many, or a failing one made small."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from vcubeps.sim.explore.campaigns import CampaignResult, search
from vcubeps.sim.explore.checkers import PROMISES as OF_PEERS
from vcubeps.sim.explore.checkers import Violation
from vcubeps.sim.explore.nodes.conduct import PROMISES as OF_NODES
from vcubeps.sim.explore.nodes.schedule import Operation, draw_operations
from vcubeps.sim.explore.nodes.setup import Allowed, Setup, draw_setup
from vcubeps.sim.explore.nodes.transcript import Transcript
from vcubeps.sim.explore.nodes.world import World
from vcubeps.sim.explore.shrink import leave_out

PROMISES = {**OF_PEERS, **OF_NODES}
"""Name of a checker → what it holds the nodes to."""

_RUNS_MAX = 300
"""Schedules that one shrinking may run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one schedule."""

    seed: int
    setup: Setup
    operations: tuple[Operation, ...]
    violations: tuple[Violation, ...]
    inputs: int
    """Of all nodes."""

    @property
    def violated(self) -> tuple[str, ...]:
        """Names of the checkers that found something, in the order of `PROMISES`."""
        found = {violation.checker for violation in self.violations}
        return tuple(name for name in PROMISES if name in found)


def run_schedule(seed: int, allowed: Allowed) -> Outcome:
    """Draw and run one schedule."""
    setup = draw_setup(seed, allowed)
    return run_operations(seed, setup, draw_operations(seed, setup))


def run_operations(
    seed: int, setup: Setup, operations: Iterable[Operation], transcript: Transcript | None = None
) -> Outcome:
    """Run the given operations; `seed` still decides on delays and other chances."""
    listed = tuple(operations)
    world = World(seed, setup, listed, transcript)
    world.run()
    violations = sorted([*world.monitor.violations, *world.conduct.violations], key=lambda each: each.time)
    return Outcome(seed, setup, listed, tuple(violations), world.inputs)


def campaign(
    schedules: int,
    seed: int,
    allowed: Allowed,
    *,
    jobs: int = 1,
    progress: Callable[[int], None] | None = None,
    into: CampaignResult | None = None,
) -> CampaignResult:
    """Run many schedules.

    >>> campaign(5, 1, Allowed(nodes_max=4)).failing_seeds
    []
    """
    result = CampaignResult(tuple(PROMISES)) if into is None else into
    return search(schedules, seed, partial(_violated, allowed), result, jobs=jobs, progress=progress)


def _violated(allowed: Allowed, seed: int) -> tuple[str, ...]:
    return run_schedule(seed, allowed).violated


def shrink(outcome: Outcome, checker: str, runs_max: int = _RUNS_MAX) -> Outcome:
    """The smallest outcome found in which `checker` still finds something: a quieter network, then fewer operations."""
    best, runs = outcome, 0

    def still_fails(setup: Setup, operations: tuple[Operation, ...]) -> bool:
        nonlocal best, runs
        runs += 1
        if runs > runs_max:
            return False
        found = run_operations(outcome.seed, setup, operations)
        if checker not in found.violated:
            return False
        best = found
        return True

    for simpler in (
        {"slow_of_256": 0},
        {"split_of_256": 0},
        {"late_turns_of_256": 0},
        {"drift": 0.0},
        {"small_limits": False},
        {"answering": ()},
        {"impatient": ()},
        {"has_instant_disk": False},
        {"closes_at_end": False},
    ):
        still_fails(replace(best.setup, **simpler), best.operations)
    while runs < runs_max and leave_out(lambda: best.operations, lambda rest: still_fails(best.setup, rest)):
        pass
    return best
