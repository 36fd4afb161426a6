"""Running schedules: one by its seed, or a campaign of many on all cores.

The seed of a campaign's n-th schedule is a hash of the campaign's seed and n, so one integer
replays a schedule, and a campaign's result does not depend on how many processes ran it.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from vcubeps.mixing import mix
from vcubeps.sim.explore.algorithms import ALGORITHMS
from vcubeps.sim.explore.checkers import CHECKER_NAMES, Violation
from vcubeps.sim.explore.operations import Operation
from vcubeps.sim.explore.options import SEED_MAX, Allowed, Options, draw_options
from vcubeps.sim.explore.schedule import draw_operations
from vcubeps.sim.explore.trace import Trace
from vcubeps.sim.explore.world import World

CHUNK_SCHEDULES = 25
"""Schedules that a process runs before it reports: enough to hide the cost of reporting."""


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


@dataclass(slots=True)
class CampaignResult:
    """What came of many schedules."""

    schedules: int = 0
    violations: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CHECKER_NAMES, 0))
    """Checker → number of schedules in which it found something."""
    failing_seeds: list[int] = field(default_factory=list)
    """In the order of the schedules."""


def schedule_seed(campaign_seed: int, index: int) -> int:
    """The seed that replays schedule `index` of a campaign."""
    return mix(campaign_seed, index) & SEED_MAX


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
    run_chunk = partial(_run_chunk, seed, allowed, algorithm)
    chunks = [
        range(start, min(start + CHUNK_SCHEDULES, schedules))
        for start in range(0, schedules, CHUNK_SCHEDULES)
    ]
    for violated_by_seed in _map(run_chunk, chunks, jobs):
        for schedule, violated in violated_by_seed:
            result.schedules += 1
            for name in violated:
                result.violations[name] += 1
            if violated:
                result.failing_seeds.append(schedule)
        if progress is not None:
            progress(len(violated_by_seed))
    return result


_ChunkResult = list[tuple[int, tuple[str, ...]]]


def _run_chunk(campaign_seed: int, allowed: Allowed, algorithm: str, indices: range) -> _ChunkResult:
    seeds = [schedule_seed(campaign_seed, index) for index in indices]
    return [(seed, run_schedule(seed, allowed, algorithm).violated) for seed in seeds]


def _map(
    run_chunk: Callable[[range], _ChunkResult], chunks: list[range], jobs: int
) -> Iterator[_ChunkResult]:
    if jobs == 1 or len(chunks) <= 1:
        yield from map(run_chunk, chunks)
        return
    # An interrupt is the parent's business, which ends the workers.
    ignore_interrupt = (signal.SIGINT, signal.SIG_IGN)
    context = multiprocessing.get_context("spawn")
    with context.Pool(min(jobs, len(chunks)), signal.signal, ignore_interrupt) as pool:
        yield from pool.imap(run_chunk, chunks)
