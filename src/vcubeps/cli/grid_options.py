"""Arguments of the commands that run a grid of points: which scenario, which parameters, how many runs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vcubeps.cli.common import CommandError, Parser, abbreviated, integer

if TYPE_CHECKING:
    from vcubeps.sim.parameters import Value
    from vcubeps.sim.scenarios import Point

RUNS_MAX = 10_000
SEED_MAX = 2**63 - 1


def add_grid_options(parser: Parser) -> None:
    parser.add_argument(
        "scenario", nargs="?", metavar="SCENARIO", help="which experiment; see simulate --list"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE[,VALUE…]",
        help="a parameter of the scenario; several values make an axis of the grid",
    )
    parser.add_argument(
        "--system",
        action="append",
        metavar="NAME",
        help="vcube-ps, srpt-s or srpt-b; may be repeated (default: those of the scenario)",
    )
    parser.add_argument(
        "--runs", type=integer(1, RUNS_MAX), default=10, metavar="N", help="runs per point (default: 10)"
    )
    parser.add_argument(
        "--seed", type=integer(0, SEED_MAX), default=1, metavar="SEED", help="chooses the runs (default: 1)"
    )


def points_asked_for(args: argparse.Namespace) -> list[Point]:
    from vcubeps.sim.parameters import ParameterError  # noqa: PLC0415
    from vcubeps.sim.scenarios import SCENARIOS, points  # noqa: PLC0415

    if args.scenario is None:
        raise CommandError(f"which scenario? choose among {', '.join(SCENARIOS)}, or see simulate --list")
    try:
        found = points(args.scenario, _chosen(args.set), _systems(args.system))
    except ParameterError as error:
        raise CommandError(str(error)) from None
    if not found:
        raise CommandError(f"{args.scenario} does not run on {', '.join(args.system)}: leave --system out")
    return found


def _chosen(settings: Sequence[str]) -> dict[str, tuple[Value, ...]]:
    from vcubeps.sim.parameters import PARAMETERS, ParameterError, lookup  # noqa: PLC0415

    chosen: dict[str, tuple[Value, ...]] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not text:
            raise CommandError(
                f"--set {abbreviated(setting)!r} sets nothing: write NAME=VALUE, such as nodes=1024"
            )
        if name in chosen:
            raise CommandError(f"--set {name} is given twice: separate several values by commas")
        try:
            parameter = PARAMETERS[lookup(name, PARAMETERS)]
            values = (parameter.parse(name, part.strip()) for part in text.split(","))
            chosen[name] = tuple(dict.fromkeys(values))
        except ParameterError as error:
            raise CommandError(f"--set {error}") from None
    return chosen


def _systems(names: Sequence[str] | None) -> tuple[str, ...]:
    from vcubeps.sim.scenarios import SYSTEMS  # noqa: PLC0415

    for name in names or ():
        if name not in SYSTEMS:
            raise CommandError(
                f"--system {abbreviated(name)!r} is unknown: choose among {', '.join(SYSTEMS)}"
            )
    return tuple(names) if names else SYSTEMS
