"""What both worlds of `vcubeps explore` share on the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping

from vcubeps.cli.common import CommandError, abbreviated, progress_bar, usable_cores, whole_number
from vcubeps.cli.interrupts import INTERRUPTED
from vcubeps.sim.explore.campaigns import CampaignResult
from vcubeps.sim.explore.options import NODES_MAX, NODES_MIN

SCHEDULES_DEFAULT = 1000
_SEEDS_LISTED = 5
"""Failing schedules that are named; all of them with --json."""


def check_replay(args: argparse.Namespace) -> None:
    """Refuse options that say nothing about what was asked for."""
    if args.replay is None:
        if args.no_shrink:
            raise CommandError(
                "--no-shrink only makes sense for one schedule: add --replay SEED, or leave it out"
            )
        return
    for flag, value in (("--schedules", args.schedules), ("--seed", args.seed), ("--jobs", args.jobs)):
        if value is not None:
            raise CommandError(
                f"--replay runs one schedule, which {flag} says nothing about: leave {flag} out"
            )


def node_range(text: str, usual: str) -> tuple[int, int]:
    """What --nodes says."""
    low_text, dash, high_text = text.partition("-")
    low = whole_number(low_text)
    high = whole_number(high_text) if dash else low
    if low is None or high is None:
        raise CommandError(
            f"--nodes {abbreviated(text)!r} is neither a number nor a range: "
            f"give one within {NODES_MIN} to {NODES_MAX}, such as {usual}"
        )
    if low > high:
        raise CommandError(f"--nodes {abbreviated(text)} runs backwards: write the smaller number first")
    if low < NODES_MIN or high > NODES_MAX:
        raise CommandError(
            f"--nodes {abbreviated(text)} is outside {NODES_MIN} to {NODES_MAX}: give a range within it"
        )
    return low, high


def searched(
    args: argparse.Namespace, result: CampaignResult, campaign: Callable[..., CampaignResult]
) -> bool:
    """Run the campaign that was asked for, into `result`. Whether it was interrupted."""
    schedules = args.schedules or SCHEDULES_DEFAULT
    jobs = args.jobs or usable_cores()
    try:
        with progress_bar("schedules", schedules) as progress:
            campaign(schedules, args.seed or 0, jobs=jobs, progress=progress, into=result)
    except KeyboardInterrupt:
        return True
    return False


def print_promises(result: CampaignResult, promised: Mapping[str, str]) -> None:
    """How often each promise was broken."""
    print(f"  {'broken in':>9} {'':>7}  promise")
    for name, promise in promised.items():
        count = result.violations[name]
        share = f"{100 * count / result.schedules:.1f} %" if count else ""
        print(f"  {count:>9} {share:>7}  {name}: {promise}")
    print(f"\n{len(result.failing_seeds)} of {result.schedules} schedules broke a promise")


def concluded(
    args: argparse.Namespace,
    result: CampaignResult,
    was_interrupted: bool,
    replay_command: Callable[[argparse.Namespace, int], str],
) -> int:
    """Name what failed and how to look at it; the exit code."""
    seeds = result.failing_seeds
    if seeds:
        listed = ", ".join(map(str, seeds[:_SEEDS_LISTED])) + (", …" if len(seeds) > _SEEDS_LISTED else "")
        print(
            f"failing: {listed}; replay the first with:\n  {replay_command(args, seeds[0])}",
            file=sys.stderr if args.json else sys.stdout,
        )
    if was_interrupted:
        print("interrupted: these are the schedules that had ended", file=sys.stderr)
        return INTERRUPTED
    return 1 if seeds else 0
