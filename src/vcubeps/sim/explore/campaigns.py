"""Many schedules, on all cores.

The seed of a campaign's n-th schedule is a hash of the campaign's seed and n, so one integer
replays a schedule, and a campaign's result does not depend on how many processes ran it.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from vcubeps.mixing import mix
from vcubeps.sim.explore.checkers import CHECKER_NAMES
from vcubeps.sim.explore.options import SEED_MAX

CHUNK_SCHEDULES = 25
"""Schedules that a process runs before it reports: enough to hide the cost of reporting."""


@dataclass(slots=True)
class CampaignResult:
    """What came of many schedules."""

    names: tuple[str, ...] = CHECKER_NAMES
    """Of the checkers."""
    schedules: int = 0
    violations: dict[str, int] = field(default_factory=dict)
    """Checker → number of schedules in which it found something."""
    failing_seeds: list[int] = field(default_factory=list)
    """In the order of the schedules."""

    def __post_init__(self) -> None:
        self.violations = dict.fromkeys(self.names, 0) | self.violations


def schedule_seed(campaign_seed: int, index: int) -> int:
    """The seed that replays schedule `index` of a campaign."""
    return mix(campaign_seed, index) & SEED_MAX


def search(
    schedules: int,
    seed: int,
    violated: Callable[[int], tuple[str, ...]],
    result: CampaignResult,
    *,
    jobs: int = 1,
    progress: Callable[[int], None] | None = None,
) -> CampaignResult:
    """Run many schedules; `violated` runs one by its seed and returns the names of the checkers that found something.
    `progress` is called with the number of schedules that have just ended. `result` grows, for whoever may be
    interrupted."""
    run_chunk = partial(_run_chunk, seed, violated)
    chunks = [
        range(start, min(start + CHUNK_SCHEDULES, schedules))
        for start in range(0, schedules, CHUNK_SCHEDULES)
    ]
    for violated_by_seed in _map(run_chunk, chunks, jobs):
        for schedule, names in violated_by_seed:
            result.schedules += 1
            for name in names:
                result.violations[name] += 1
            if names:
                result.failing_seeds.append(schedule)
        if progress is not None:
            progress(len(violated_by_seed))
    return result


_ChunkResult = list[tuple[int, tuple[str, ...]]]


def _run_chunk(
    campaign_seed: int, violated: Callable[[int], tuple[str, ...]], indices: range
) -> _ChunkResult:
    seeds = [schedule_seed(campaign_seed, index) for index in indices]
    return [(seed, violated(seed)) for seed in seeds]


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
