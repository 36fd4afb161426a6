"""`vcubeps chaos`: faults on real processes under load, by a seeded plan, and whether all promises held."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from vcubeps.chaos.faults import KINDS
from vcubeps.chaos.plan import NODES_MAX, NODES_MIN, draw
from vcubeps.cli import interrupts
from vcubeps.cli.chaos_verdict import Verdict, audited, print_verdict, told
from vcubeps.cli.common import CommandError, Subparsers, abbreviated, integer
from vcubeps.cli.interrupts import INTERRUPTED
from vcubeps.cli.spark_options import add_spark_options

if TYPE_CHECKING:
    from vcubeps.chaos.plan import Fault
    from vcubeps.chaos.record import Done, Options, Record

_PER_MINUTE = 8.0
_PUBLICATIONS_PER_S = 4.0
_MINUTES_MIN, _MINUTES_MAX = 0.2, 24 * 60.0

DESCRIPTION = """\
Do to a cluster of node processes what machines and networks do, and see whether it holds.

Every node is a process of its own, with an application that publishes and reads;
every connection between two nodes passes a proxy. A plan drawn from the seed kills,
stops, ends, restarts, cuts off and slows down. Each node writes its trace. In the end
the traces are audited on embedded Spark: causal order, duplicates, phantoms, and losses
among those that stayed; and it is checked that nodes that lived went on, that all came
back, and that nobody started again without a fault that explains it."""

EPILOG = (
    "faults:\n"
    + "".join(f"  {name:<9} {kind.meaning}\n" for name, kind in KINDS.items())
    + """
examples:
  $ vcubeps chaos --minutes 3 --nodes 8
  $ vcubeps chaos --minutes 10 --nodes 16 --seed 7 --out chaos-7    # keep traces, logs and timeline
  $ vcubeps chaos --minutes 10 --nodes 16 --seed 7 --plan           # only show what would be done
  $ vcubeps chaos --faults kill,stop --rate 20 --minutes 1
  $ vcubeps chaos --judge chaos-7                                   # judge that run once more

Exit code: 0 all held, 1 something did not, 2 it could not be run, 130 interrupted."""
)


def register(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "chaos",
        help="faults on real processes under load, and whether all promises held",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument(
        "--minutes", type=_number(_MINUTES_MIN, _MINUTES_MAX), default=3.0, metavar="M", help="(default: 3)"
    )
    parser.add_argument(
        "--nodes",
        type=integer(NODES_MIN, NODES_MAX),
        default=8,
        metavar="N",
        help="node processes (default: 8)",
    )
    parser.add_argument(
        "--seed", type=integer(0, 1 << 32), default=1, metavar="S", help="of the plan (default: 1)"
    )
    parser.add_argument(
        "--faults", default="all", metavar="NAMES", help="which, separated by commas (default: all)"
    )
    parser.add_argument(
        "--rate",
        type=_number(0.1, 120),
        default=_PER_MINUTE,
        metavar="R",
        help=f"faults per minute, about: some need time alone (default: {_PER_MINUTE:g})",
    )
    parser.add_argument(
        "--load",
        type=_number(0.1, 10_000),
        default=_PUBLICATIONS_PER_S,
        metavar="P",
        help="publications per second of each node in each of its rooms, beside those by which progress is measured "
        f"(default: {_PUBLICATIONS_PER_S:g})",
    )
    parser.add_argument("--plan", action="store_true", help="print the plan and do nothing")
    parser.add_argument(
        "--judge", metavar="DIR", help="judge the run that --out DIR has kept, and run nothing"
    )
    parser.add_argument(
        "--out", metavar="DIR", help="keep traces, logs and timeline there; it must not exist yet"
    )
    parser.add_argument("--keep", action="store_true", help="keep them without --out too, whatever is found")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_spark_options(parser)


def run(args: argparse.Namespace) -> int:
    options = _options(args)
    if args.judge is not None:
        return _judge_again(args)
    if args.plan:
        return _print_plan(args, options)
    _check_spark()
    directory, is_temporary = _directory(args)
    code = _run_in(args, options, directory)
    if is_temporary and code == 0:
        if args.keep:
            print(f"everything is in {directory}", file=sys.stderr)
        else:
            shutil.rmtree(directory, ignore_errors=True)
    return code


def _run_in(args: argparse.Namespace, options: Options, directory: Path) -> int:
    from vcubeps.chaos import record as records  # noqa: PLC0415
    from vcubeps.chaos.conductor import Conductor, CouldNotStart  # noqa: PLC0415 - for the commands that need it

    talk = _Talk(args)
    conductor = Conductor(options, directory, talk.overcome, talk.say)
    talk.record = conductor.record
    talk.say(
        f"{options.nodes} node processes, {len(conductor.record.plan)} faults in {args.minutes:g} minutes, "
        f"seed {options.seed}, in {directory}"
    )
    try:
        record = interrupts.run(conductor.run(), end_within_s=None)
    except CouldNotStart as error:
        raise CommandError(f"the cluster did not come up: {error}") from None
    except KeyboardInterrupt:
        conductor.record.was_interrupted = True
        conductor.record.write(directory)
        _conclude(args, directory, Verdict.of(records.read(directory)))
        print(
            f"interrupted: all processes have ended; the traces have not been audited (vcubeps audit "
            f"{shlex.quote(str(directory / records.TRACE))})",
            file=sys.stderr,
        )
        return INTERRUPTED
    talk.say("all processes have ended; auditing their traces on Spark")
    return _conclude(args, directory, audited(args, directory, record))


def _judge_again(args: argparse.Namespace) -> int:
    import msgspec  # noqa: PLC0415

    from vcubeps.chaos import record  # noqa: PLC0415

    _check_spark()
    directory = Path(args.judge)
    try:
        found = record.read(directory)
    except (OSError, msgspec.MsgspecError) as error:
        raise CommandError(
            f"--judge {args.judge} has no run that can be judged ({error}): name a directory that --out has made"
        ) from None
    return _conclude(args, directory, audited(args, directory, found))


def _conclude(args: argparse.Namespace, directory: Path, verdict: Verdict) -> int:
    (directory / "verdict.json").write_text(json.dumps(verdict.as_json(), indent=1))
    if args.json:
        print(json.dumps(verdict.as_json()))
    else:
        print_verdict(verdict)
    if not verdict.held:
        options = verdict.record.options
        print(
            f"seed {options.seed}; everything is in {directory}: {', '.join(('timeline.json', 'logs/', 'trace/'))}",
            file=sys.stderr if args.json else sys.stdout,
        )
    return 0 if verdict.held else 1


# -- arguments -------------------------------------------------------------------------------------


def _options(args: argparse.Namespace) -> Options:
    from vcubeps.chaos.record import Options  # noqa: PLC0415

    return Options(
        args.seed, args.nodes, round(args.minutes * 60, 3), args.rate, _kinds(args.faults), args.load
    )


def _kinds(text: str) -> tuple[str, ...]:
    if text == "all":
        return tuple(KINDS)
    kinds = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for kind in kinds:
        if kind not in KINDS:
            raise CommandError(
                f"--faults: there is no fault {abbreviated(kind)!r}: choose among {', '.join(KINDS)}, or all"
            )
    return kinds


def _number(low: float, high: float) -> Callable[[str], float]:
    """A `type=` for arguments: a plain number from `low` to `high`."""

    def parse(text: str) -> float:
        if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,12})?", text):
            raise argparse.ArgumentTypeError(
                f"{abbreviated(text)!r} is not a number: give one from {low:g} to {high:g}"
            )
        if not low <= float(text) <= high:
            raise argparse.ArgumentTypeError(
                f"{abbreviated(text)} is outside {low:g} to {high:g}: give a number in that range"
            )
        return float(text)

    return parse


def _directory(args: argparse.Namespace) -> tuple[Path, bool]:
    """Where the run is kept, and whether it goes when all held."""
    if args.out is None:
        return Path(tempfile.mkdtemp(prefix="vcubeps-chaos-")), True
    place = Path(args.out)
    if place.exists():
        raise CommandError(f"--out {args.out} exists already: name a new directory")
    try:
        place.mkdir(parents=True)
    except OSError as error:
        raise CommandError(f"--out {args.out} cannot be made: {error.strerror}; name another place") from None
    return place.absolute(), False


def _check_spark() -> None:
    """Before the run, not after it."""
    from vcubeps.cli.spark_options import needs_spark  # noqa: PLC0415

    try:
        import vcubeps.spark.audit  # noqa: F401, PLC0415
    except ImportError as error:
        raise needs_spark("the audit of the run", error) from None


# -- what is said ----------------------------------------------------------------------------------


def _print_plan(args: argparse.Namespace, options: Options) -> int:
    faults = draw(options.seed, options.nodes, options.seconds, options.per_minute, options.kinds)
    if args.json:
        print(
            json.dumps(
                {"seed": options.seed, "nodes": options.nodes, "faults": [_as_json(f) for f in faults]}
            )
        )
        return 0
    for fault in faults:
        print(f"{fault.at_s:8.1f} s  {fault.number:>3} {fault}")
    print(f"{len(faults)} faults in {args.minutes:g} minutes on {options.nodes} nodes, seed {options.seed}")
    return 0


def _as_json(fault: Fault) -> dict[str, object]:
    import msgspec  # noqa: PLC0415

    made: dict[str, object] = msgspec.to_builtins(fault)
    return made


class _Talk:
    """What is said as it happens, on stderr."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._is_silent = args.json
        self.record: Record | None = None

    def say(self, line: str) -> None:
        if not self._is_silent:
            print(line, file=sys.stderr, flush=True)

    def overcome(self, done: Done) -> None:
        from vcubeps.chaos.recovery import recovery  # noqa: PLC0415

        if self.record is not None:
            self.say(told(done, recovery(self.record, done)))
