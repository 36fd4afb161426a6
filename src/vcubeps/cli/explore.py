"""`vcubeps explore`: random schedules against the protocol's promises."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Collection, Sequence
from functools import partial

from vcubeps.cli import explore_nodes
from vcubeps.cli.common import (
    CommandError,
    Subparsers,
    abbreviated,
    integer,
)
from vcubeps.cli.explore_common import (
    SCHEDULES_DEFAULT,
    check_replay,
    concluded,
    node_range,
    print_promises,
    searched,
)
from vcubeps.cli.interrupts import INTERRUPTED
from vcubeps.sim.explore import Allowed, CampaignResult, Outcome, campaign, run_operations, run_schedule
from vcubeps.sim.explore.algorithms import ALGORITHMS, FAULT_FREE
from vcubeps.sim.explore.checkers import PROMISES
from vcubeps.sim.explore.nodes.scenarios import SCENARIOS
from vcubeps.sim.explore.options import (
    AIMED,
    FAULTS,
    FEATURES,
    NODES_MAX,
    NODES_MIN,
    NODES_USUAL_MAX,
    OPTION_NAMES,
    SEED_MAX,
    VOTING,
    faults_needed,
)
from vcubeps.sim.explore.shrink import shrink
from vcubeps.sim.explore.trace import Trace

SCHEDULES_MAX = 10**7
JOBS_MAX = 1024
NODES_DEFAULT = f"{NODES_MIN}-{NODES_MAX}"

DESCRIPTION = """\
Run the protocol through random schedules in a simulated world and check every promise.

A schedule is a seed: it determines nodes, link delays, subscriptions, publications
and faults, so the same command gives the same answer on every machine. The command
answers with how many schedules broke each promise; exit code 1 if any did."""


def _epilog() -> str:
    options = {**FEATURES, **FAULTS, **{name: what for name, (what, _) in {**AIMED, **VOTING}.items()}}
    listed = "\n".join(f"  {name:<14} {what}" for name, what in options.items())
    promises = "\n".join(f"  {name:<18} {promise}" for name, promise in PROMISES.items())
    return f"""\
examples:
  Does the protocol hold while nodes crash, come back, suspect each other and are cut off?
    $ vcubeps explore --schedules 10000 --seed 7 --faults crash,recover,suspect,cut

  How does the algorithm as published fail on FIFO links?
    $ vcubeps explore --algorithm published --only joins,leaves --json

  What exactly happened in a failing schedule, made as small as possible?
    $ vcubeps explore --algorithm published --only joins,leaves --replay SEED

  Do whole nodes hold, with links, detection and majority, under every fault there is?
    $ vcubeps explore --world nodes --schedules 1000 --seed 7

  What do eight nodes do when four of them are cut off from the others?
    $ vcubeps explore --world nodes --scenario halves

promises:
{promises}

options of a schedule (each is drawn per schedule; --only fixes them):
{listed}

promises of whole nodes, besides (--world nodes):
{explore_nodes.promises()}

faults of whole nodes (each is drawn per schedule):
{explore_nodes.faults()}"""


def register(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "explore",
        help="search for broken promises in random schedules",
        description=DESCRIPTION,
        epilog=_epilog(),
    )
    parser.add_argument(
        "--world",
        choices=("peers", "nodes"),
        default="peers",
        help="peers: the protocol alone, message by message; nodes: whole nodes as they run in production, over "
        "simulated connections, clocks and disks (default: %(default)s)",
    )
    parser.add_argument(
        "--schedules",
        type=integer(1, SCHEDULES_MAX),
        metavar="N",
        help=f"how many schedules to run (default: {SCHEDULES_DEFAULT})",
    )
    parser.add_argument(
        "--seed",
        type=integer(0, SEED_MAX),
        metavar="SEED",
        help="chooses the schedules (default: 0)",
    )
    parser.add_argument(
        "--nodes",
        metavar="LOW-HIGH",
        help=f"how many nodes a schedule has, within {NODES_MIN} to {NODES_MAX} (default: {NODES_DEFAULT}, of whole "
        f"nodes {explore_nodes.NODES_DEFAULT}); of a range of peers that begins below {NODES_USUAL_MAX}, what is "
        "beyond that only if `large` is on",
    )
    parser.add_argument(
        "--faults",
        metavar="LIST",
        help=f"faults that may happen: {', '.join(FAULTS)}, separated by commas, or none (default: none); of whole "
        "nodes those listed below, or all (default: all but those that have to be named)",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="OPTION",
        help="options that every schedule has, all others being off (see below)",
    )
    parser.add_argument(
        "--always",
        nargs="+",
        metavar="OPTION",
        help="options that every schedule has, all others being drawn",
    )
    parser.add_argument(
        "--algorithm",
        default="amended",
        metavar="NAME",
        help="amended (this project's protocol), checked (the same, and after every input each part checks its "
        "invariants: slow) or published (the paper's algorithms 1 and 2)",
    )
    parser.add_argument(
        "--jobs",
        type=integer(1, JOBS_MAX),
        metavar="N",
        help="processes to use (default: all cores); the answer does not depend on it",
    )
    parser.add_argument(
        "--replay",
        type=integer(0, SEED_MAX),
        metavar="SEED",
        help="run only this schedule, one of the failing seeds, and print what happened",
    )
    parser.add_argument(
        "--scenario",
        metavar="NAME",
        help=f"with --world nodes: print what happens in one of {', '.join(SCENARIOS)}",
    )
    parser.add_argument("--no-shrink", action="store_true", help="with --replay: leave the schedule as it is")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    if args.world == "nodes":
        return explore_nodes.run(args)
    if args.scenario is not None:
        raise CommandError("--scenario is one of whole nodes: add --world nodes")
    args.nodes = NODES_DEFAULT if args.nodes is None else args.nodes
    args.faults = "none" if args.faults is None else args.faults
    algorithm = _algorithm(args.algorithm)
    allowed = _allowed(args, algorithm)
    check_replay(args)
    if args.replay is not None:
        return _replay(args, allowed, algorithm)
    result = CampaignResult()
    was_interrupted = searched(args, result, partial(campaign, allowed=allowed, algorithm=algorithm))
    if was_interrupted and not result.schedules:
        return INTERRUPTED
    if args.json:
        print(json.dumps(_as_json(result, algorithm)))
    else:
        _print_table(result, algorithm)
    return concluded(args, result, was_interrupted, _replay_command)


# A campaign.


def _as_json(result: CampaignResult, algorithm: str) -> dict[str, object]:
    return {
        "algorithm": algorithm,
        "schedules": result.schedules,
        "violations": result.violations,
        # As text: many readers of JSON take numbers for floating point, and the last digits are lost.
        "failing_seeds": [str(seed) for seed in result.failing_seeds],
    }


def _print_table(result: CampaignResult, algorithm: str) -> None:
    print(f"{algorithm} algorithm, {result.schedules} schedules\n")
    print_promises(result, PROMISES)


# One schedule.


def _replay(args: argparse.Namespace, allowed: Allowed, algorithm: str) -> int:
    found = run_schedule(args.replay, allowed, algorithm)
    shown = found
    if found.violations and not args.no_shrink:
        shown = shrink(found, found.violated[0], algorithm)
    trace = Trace()
    shown = run_operations(shown.seed, shown.options, shown.operations, algorithm, trace=trace)
    if args.json:
        print(json.dumps(_replay_as_json(shown, trace, algorithm)))
    else:
        _print_replay(found, shown, trace)
    return 1 if found.violations else 0


def _replay_as_json(shown: Outcome, trace: Trace, algorithm: str) -> dict[str, object]:
    return {
        "algorithm": algorithm,
        "seed": str(shown.seed),
        "nodes": shown.options.nodes,
        "operations": [operation._asdict() for operation in shown.operations],
        "trace": trace.lines,
        "violations": [violation._asdict() for violation in shown.violations],
    }


def _print_replay(found: Outcome, shown: Outcome, trace: Trace) -> None:
    options = shown.options
    links = ("FIFO" if options.fifo else "unordered") + (", heavy-tailed" if options.slow_of_256 else "")
    before = f" (shrunk from {len(found.operations)})" if shown.operations != found.operations else ""
    print(f"nodes {', '.join(map(str, options.nodes))}; links {links}")
    print(f"{len(shown.operations)} operations{before}:")
    for operation in shown.operations:
        print(f"  {operation}")
    print("\n   time node  event ⇒ what it caused")
    for line in trace.lines:
        print(line)
    print()
    for violation in shown.violations:
        print(f"VIOLATED {violation}")
    if not shown.violations:
        print(f"schedule {found.seed} breaks no promise with these options: give the ones of its campaign")


def _replay_command(args: argparse.Namespace, seed: int) -> str:
    command = ["vcubeps", "explore", "--replay", str(seed)]
    if args.algorithm != "amended":
        command += ["--algorithm", args.algorithm]
    if args.nodes != NODES_DEFAULT:
        command += ["--nodes", args.nodes]
    if args.faults != "none":
        command += ["--faults", args.faults]
    if args.only:
        command += ["--only", *args.only]
    if args.always:
        command += ["--always", *args.always]
    return shlex.join(command)


# Arguments.


def _algorithm(name: str) -> str:
    if name not in ALGORITHMS:
        raise CommandError(
            f"--algorithm {abbreviated(name)!r} is unknown: choose among {', '.join(ALGORITHMS)}"
        )
    return name


def _allowed(args: argparse.Namespace, algorithm: str) -> Allowed:
    low, high = node_range(args.nodes, NODES_DEFAULT)
    faults = _faults(args.faults)
    only = None if args.only is None else frozenset(_names("--only", args.only, OPTION_NAMES))
    always = frozenset(_names("--always", args.always or (), OPTION_NAMES))
    if only is not None and always:
        raise CommandError("--always and --only contradict each other: give the options of both to --only")
    given = f"--only {' '.join(args.only)}" if only else f"--always {' '.join(args.always or ())}"
    if algorithm in FAULT_FREE and faults_needed(only or always):
        raise CommandError(
            f"{given}: the {algorithm} algorithm is for nodes that do not fail: choose among {', '.join(FEATURES)}"
        )
    if faults and algorithm in FAULT_FREE:
        raise CommandError(
            f"--faults {args.faults}: the {algorithm} algorithm is for nodes that do not fail: leave --faults out"
        )
    if "large" in (only or always) and high <= NODES_USUAL_MAX:
        raise CommandError(
            f"--nodes {args.nodes} leaves no room for large schedules, of more than {NODES_USUAL_MAX} nodes: "
            f"raise it, or leave large out"
        )
    if "recover" in faults and "crash" not in faults:
        raise CommandError(
            f"--faults {args.faults}: only who crashed can recover: add crash, or leave recover out"
        )
    missing = faults_needed(only or always) - faults
    if missing:
        allow = ",".join(name for name in FAULTS if name in missing | faults)
        raise CommandError(f"{given} needs faults that are not allowed: add --faults {allow}")
    return Allowed(low, high, faults, only, always)


def _faults(text: str) -> frozenset[str]:
    if text == "none":
        return frozenset()
    for name in (part.strip() for part in text.split(",")):
        if name not in FAULTS:
            raise CommandError(
                f"--faults: {abbreviated(name)!r} cannot be part of a list of faults: "
                f"choose among {', '.join(FAULTS)}, or give none alone"
            )
    return frozenset(part.strip() for part in text.split(","))


def _names(flag: str, given: Sequence[str], known: Collection[str]) -> list[str]:
    names = [name.strip() for text in given for name in text.split(",")]
    for name in names:
        if name not in known:
            raise CommandError(f"{flag}: {abbreviated(name)!r} is unknown: choose among {', '.join(known)}")
    return names
