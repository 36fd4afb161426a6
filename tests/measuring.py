"""How often random schedules catch that a rule is left out: what both files of ablations do when they are run."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping

import pytest

from vcubeps.sim.explore import schedule_seed

_SHOWN = 5
"""Schedules that are named."""


def measure(
    name: str,
    apply: Callable[[pytest.MonkeyPatch], None],
    violated: Callable[[int], tuple[str, ...]],
    campaign_seed: int,
    schedules: int,
) -> None:
    """Print in how many schedules of a campaign some checker finds something once `apply` has been called, which
    checkers do, and the first such schedules. `violated` runs one by its seed."""
    counts: Counter[str] = Counter()
    caught = []
    with pytest.MonkeyPatch.context() as patch:
        apply(patch)
        for index in range(schedules):
            names = violated(schedule_seed(campaign_seed, index))
            counts.update(names)
            if names:
                caught.append((index, names))
    print(f"{name}: {len(caught) * 10_000 / schedules:.1f} of 10,000 ({len(caught)} of {schedules})")
    print(f"  {dict(counts)}")
    for index, names in caught[:_SHOWN]:
        print(f"  schedule {index}: {', '.join(names)}")


def main(
    rules: Mapping[str, str], run: Callable[[str, int], None], of_what: str, schedules_default: int
) -> None:
    """The command of a file of ablations: `rules` are their names with what is listed of them."""
    parser = argparse.ArgumentParser(
        description=f"How often do random schedules catch that a rule of {of_what} is left out?",
        epilog="Without a name: lists all of them, with the rules that they leave out.",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="of the ablation")
    parser.add_argument(
        "schedules",
        nargs="?",
        type=int,
        default=schedules_default,
        help=f"to run (default: {schedules_default})",
    )
    args = parser.parse_args()
    if args.name is None:
        print("\n".join(f"{name}\n    {rule}" for name, rule in rules.items()))
    elif args.name not in rules:
        raise SystemExit(
            f"no ablation is called {args.name!r}: give one of the names that are listed without any"
        )
    else:
        run(args.name, args.schedules)
