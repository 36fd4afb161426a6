"""Running schedules of peers: one by its seed, or a campaign of many."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from vcubeps.sim.explore.algorithms import ALGORITHMS
from vcubeps.sim.explore.campaigns import CampaignResult, search
from vcubeps.sim.explore.checkers import CHECKER_NAMES, Violation
from vcubeps.sim.explore.operations import Operation
from vcubeps.sim.explore.options import Allowed, Options, draw_options
from vcubeps.sim.explore.schedule import draw_operations
from vcubeps.sim.explore.trace import Trace
from vcubeps.sim.explore.world import World


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one schedule."""

    seed: int
    options: Options
    operations: tuple[Operation, ...]
    violations: tuple[Violation, ...]
    events: int
    """Messages that arrived."""

    @property
    def violated(self) -> tuple[str, ...]:
        """Names of the checkers that found something, in the order of `CHECKER_NAMES`."""
        found = {violation.checker for violation in self.violations}
        return tuple(name for name in CHECKER_NAMES if name in found)


def run_schedule(seed: int, allowed: Allowed, algorithm: str = "amended") -> Outcome:
    """Draw and run one schedule."""
    options = draw_options(seed, allowed)
    return run_operations(seed, options, draw_operations(seed, options), algorithm)


def run_operations(
    seed: int,
    options: Options,
    operations: Iterable[Operation],
    algorithm: str = "amended",
    *,
    trace: Trace | None = None,
) -> Outcome:
    """Run the given operations; `seed` still decides on delays and other chances."""
    listed = tuple(operations)
    world = World(seed, options, listed, ALGORITHMS[algorithm], trace)
    world.run()
    return Outcome(seed, options, listed, tuple(world.monitor.violations), world.events)


def campaign(
    schedules: int,
    seed: int,
    allowed: Allowed,
    algorithm: str = "amended",
    *,
    jobs: int = 1,
    progress: Callable[[int], None] | None = None,
    into: CampaignResult | None = None,
) -> CampaignResult:
    """Run many schedules; `progress` is called with the number of schedules that have just ended. `into` is the result
    as it grows, for whoever may be interrupted.

    >>> campaign(20, 1, Allowed(nodes_max=4, faults=frozenset({"crash"}))).failing_seeds
    []
    """
    result = CampaignResult() if into is None else into
    return search(
        schedules, seed, partial(_violated, allowed, algorithm), result, jobs=jobs, progress=progress
    )


def _violated(allowed: Allowed, algorithm: str, seed: int) -> tuple[str, ...]:
    return run_schedule(seed, allowed, algorithm).violated
