"""`vcubeps explore --world nodes`: whole nodes under seeded faults."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence
from functools import partial

from vcubeps.cli.common import CommandError, abbreviated
from vcubeps.cli.explore_common import check_replay, concluded, node_range, print_promises, searched
from vcubeps.cli.interrupts import INTERRUPTED
from vcubeps.sim.explore.campaigns import CampaignResult
from vcubeps.sim.explore.nodes import conduct
from vcubeps.sim.explore.nodes.faults import FAULTS, ON_REQUEST, USUAL
from vcubeps.sim.explore.nodes.scenarios import SCENARIOS
from vcubeps.sim.explore.nodes.search import PROMISES, Outcome, campaign, run_operations, run_schedule, shrink
from vcubeps.sim.explore.nodes.setup import Allowed
from vcubeps.sim.explore.nodes.story import Story
from vcubeps.sim.explore.nodes.transcript import Transcript

NODES_DEFAULT = "2-12"


def promises() -> str:
    return "\n".join(f"  {name:<18} {promise}" for name, promise in conduct.PROMISES.items())


def faults() -> str:
    return "\n".join(
        f"  {name:<14} {what}{' (only if named, or with all)' if name in ON_REQUEST else ''}"
        for name, (what, _) in FAULTS.items()
    )


def run(args: argparse.Namespace) -> int:
    if args.scenario is not None:
        return _play(args)
    allowed = _allowed(args)
    check_replay(args)
    if args.replay is not None:
        return _replay(args, allowed)
    result = CampaignResult(tuple(PROMISES))
    was_interrupted = searched(args, result, partial(campaign, allowed=allowed))
    if was_interrupted and not result.schedules:
        return INTERRUPTED
    if args.json:
        print(json.dumps(_as_json(result)))
    else:
        print(f"whole nodes, {result.schedules} schedules\n")
        print_promises(result, PROMISES)
    return concluded(args, result, was_interrupted, _replay_command)


def _as_json(result: CampaignResult) -> dict[str, object]:
    return {
        "world": "nodes",
        "schedules": result.schedules,
        "violations": result.violations,
        "failing_seeds": [str(seed) for seed in result.failing_seeds],
    }


# One schedule.


def _play(args: argparse.Namespace) -> int:
    scenario = SCENARIOS.get(args.scenario)
    if scenario is None:
        raise CommandError(
            f"--scenario {abbreviated(args.scenario)!r} is unknown: choose among {', '.join(SCENARIOS)}"
        )
    story = Story()
    outcome = run_operations(args.seed or 0, scenario.setup, scenario.operations, story)
    if args.json:
        print(json.dumps(_replay_as_json(outcome, story)))
    else:
        print("\n".join(story.told(scenario.what)))
        for violation in outcome.violations:
            print(f"VIOLATED {violation}")
    return 1 if outcome.violations else 0


def _replay(args: argparse.Namespace, allowed: Allowed) -> int:
    found = shown = run_schedule(args.replay, allowed)
    if found.violations and not args.no_shrink:
        shown = shrink(found, found.violated[0])
    transcript = Transcript()
    shown = run_operations(shown.seed, shown.setup, shown.operations, transcript)
    if args.json:
        print(json.dumps(_replay_as_json(shown, transcript)))
    else:
        _print_replay(found, shown, transcript)
    return 1 if found.violations else 0


def _replay_as_json(shown: Outcome, transcript: Transcript) -> dict[str, object]:
    return {
        "world": "nodes",
        "seed": str(shown.seed),
        "nodes": shown.setup.nodes,
        "voters": shown.setup.voters,
        "operations": [operation._asdict() for operation in shown.operations],
        "trace": transcript.lines,
        "violations": [violation._asdict() for violation in shown.violations],
    }


def _print_replay(found: Outcome, shown: Outcome, transcript: Transcript) -> None:
    setup = shown.setup
    voters = "none" if setup.voters is None else ", ".join(map(str, setup.voters))
    before = f" (shrunk from {len(found.operations)})" if shown.operations != found.operations else ""
    detection = setup.detection
    print(f"nodes {', '.join(map(str, setup.nodes))}; voters {voters}")
    print(
        f"ping {detection.ping_s:g} s, contact {detection.contact_s:g} s, suspicion {detection.suspect_after_s:g} s, "
        f"bytes under way {setup.delay_s:g} s"
    )
    print(f"{len(shown.operations)} operations{before}\n")
    _print_lines(shown, transcript)
    if not shown.violations:
        print(f"schedule {found.seed} breaks no promise with these options: give the ones of its campaign")


def _print_lines(shown: Outcome, transcript: Transcript) -> None:
    print("  seconds node")
    for line in transcript.lines:
        print(line)
    print()
    for violation in shown.violations:
        print(f"VIOLATED {violation}")


def _replay_command(args: argparse.Namespace, seed: int) -> str:
    command = ["vcubeps", "explore", "--world", "nodes", "--replay", str(seed)]
    for flag, value in (("--nodes", args.nodes), ("--faults", args.faults)):
        if value is not None:
            command += [flag, value]
    if args.always:
        command += ["--always", *args.always]
    return shlex.join(command)


# Arguments.


def _allowed(args: argparse.Namespace) -> Allowed:
    if args.only or args.algorithm != "amended":
        flag = "--only" if args.only else "--algorithm"
        raise CommandError(f"{flag} is for peers: leave it out, or leave --world nodes out")
    low, high = node_range(NODES_DEFAULT if args.nodes is None else args.nodes, NODES_DEFAULT)
    named = {None: USUAL, "all": frozenset(FAULTS), "none": frozenset[str]()}
    allowed = named.get(args.faults)
    if allowed is None:
        allowed = frozenset(_names("--faults", args.faults.split(",")))
    return Allowed(low, high, allowed, frozenset(_names("--always", ",".join(args.always or ()).split(","))))


def _names(flag: str, given: Sequence[str]) -> list[str]:
    names = [name.strip() for name in given if name.strip()]
    for name in names:
        if name not in FAULTS:
            raise CommandError(
                f"{flag}: {abbreviated(name)!r} is no fault of whole nodes: choose among {', '.join(FAULTS)}, all or "
                "none"
            )
    return names
