"""Mutation tests: change one place of `vcubeps.protocol` at a time and see whether anybody notices.

.venv/bin/python tests/mutants.py --help
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from equivalent_mutants import EQUIVALENT
from mutant_judge import ROOT, Judge, Verdict
from mutant_sources import Mutant

DESCRIPTION = """\
Change one place of vcubeps.protocol at a time and see whether anybody notices.

Each such mutant is judged by the unit tests of the protocol that reach it, and if they pass by random
schedules of the explorer, on a copy of the checkout, which may be edited meanwhile. It takes a tenth of
a second if the tests notice, and twenty seconds if nobody does."""

EPILOG = """\
examples:
  A taste of everything.
    $ python tests/mutants.py --sample 40 --seed 1

  What does nobody notice in topic.py? Interrupt it at will: the next time it goes on.
    $ python tests/mutants.py --module topic.py --out topic.jsonl

  What is it that survived?
    $ python tests/mutants.py --show topic.py:100:compare

  There are more tests now: try the survivors again.
    $ python tests/mutants.py --module topic.py --out topic.jsonl --again

A mutant that survives is one of three things. A test, or a generator of the explorer, is missing: write
it. The code does more than is needed: simplify it. Or nothing can tell the mutant from the original:
then tests/equivalent_mutants.py is the place for the argument. Exit code 1 if any survived."""


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--module", action="append", metavar="FILE", help="mutants of this module only, such as topic.py")
    add("--only", action="append", metavar="NAME", help="this mutant, or those whose names begin like that")
    add("--sample", type=int, metavar="K", help="draw K of them")
    add("--seed", type=int, default=0, metavar="S", help="of the draw (default: 0)")
    many = "crash-free schedules, as many with all faults, and some of other kinds"
    add("--schedules", type=int, default=300, metavar="N", help=f"{many} (default: 300)")
    add(
        "--out",
        type=Path,
        metavar="FILE",
        help="keep verdicts as JSON lines; what it has is not judged again",
    )
    add("--again", action="store_true", help="with --out: judge again what has survived")
    add(
        "--processes",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="mutants judged at once (default: all cores)",
    )
    add("--list", action="store_true", help="print the names and stop")
    add("--show", metavar="NAME", help="print the differences of those whose names begin so, and their keys")
    args = parser.parse_args(argv)
    if args.again and args.out is None:
        parser.error("--again needs the verdicts of an earlier run: add --out FILE")
    if args.sample is not None and args.sample < 1:
        parser.error(f"--sample {args.sample}: draw 1 or more")
    if args.processes < 1:
        parser.error(f"--processes {args.processes}: give 1 or more")
    return args


def choose(args: argparse.Namespace, mutants: list[Mutant]) -> list[Mutant]:
    begins = tuple(args.only or [""]) if args.show is None else (args.show,)
    found = [
        mutant
        for mutant in mutants
        if mutant.name.startswith(begins) and (not args.module or mutant.module in args.module)
    ]
    if args.sample is not None and args.sample < len(found):
        drawn = sorted(random.Random(args.seed).sample(range(len(found)), args.sample))
        found = [found[place] for place in drawn]
    if not found:
        raise SystemExit("no mutant is called so, or no module: --list prints all names")
    return found


def show(mutant: Mutant) -> None:
    before = (ROOT / "src/vcubeps/protocol" / mutant.module).read_text().splitlines()
    after = mutant.source.splitlines()
    print("\n".join(difflib.unified_diff(before, after, mutant.module, mutant.name, lineterm="")))
    print(f"key: {mutant.key!r}\n")


def read_verdicts(args: argparse.Namespace) -> dict[tuple[str, str], Verdict]:
    """Those of earlier runs that hold now, by name and digest."""
    if args.out is None or not args.out.exists():
        return {}
    verdicts = [Verdict(**json.loads(line)) for line in args.out.read_text().splitlines()]
    return {
        (each.name, each.digest): each
        for each in verdicts
        if each.verdict == "killed" or (each.schedules >= args.schedules and not args.again)
    }


def judge_all(todo: list[Mutant], judge: Judge, args: argparse.Namespace) -> list[Verdict]:
    known = read_verdicts(args)
    verdicts: list[Verdict] = []

    def note(verdict: Verdict) -> None:
        verdicts.append(verdict)
        told = f"{verdict.verdict:<10} {verdict.seconds:5.1f} s  {verdict.name}  {verdict.by}"
        print(f"{len(verdicts):>4}/{len(todo)} {told}".rstrip(), flush=True)

    unknown = []
    for mutant in todo:
        digest = judge.digest(mutant)
        if mutant.key in EQUIVALENT:
            note(Verdict(mutant.name, digest, "equivalent", EQUIVALENT[mutant.key], 0, 0.0))
        elif (mutant.name, digest) in known:
            note(known[mutant.name, digest])
        else:
            unknown.append(mutant)
    for verdict in judge.judge(unknown, args.processes) if unknown else ():
        note(verdict)
        if args.out is not None:
            with args.out.open("a") as file:
                file.write(json.dumps(asdict(verdict), ensure_ascii=False) + "\n")
    return verdicts


def print_table(verdicts: list[Verdict]) -> None:
    columns = ("killed", "survived", "equivalent")
    counts = Counter(
        (module, each.verdict) for each in verdicts for module in (each.name.split(":")[0], "all")
    )
    print(f"\n{'':<18}" + "".join(f"{column:>11}" for column in columns))
    for module in sorted({module for module, _ in counts}, key=lambda name: (name == "all", name)):
        print(f"{module:<18}" + "".join(f"{counts[module, column]:>11}" for column in columns))
    for name in sorted(each.name for each in verdicts if each.verdict == "survived"):
        print(f"survived: {name}")


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        judge = Judge(Path(folder), args.schedules)
        todo = choose(args, judge.mutants())
        if args.show is not None:
            for mutant in todo:
                show(mutant)
            return 0
        if args.list:
            print("\n".join(mutant.name for mutant in todo))
            return 0
        verdicts = judge_all(todo, judge, args)
    print_table(verdicts)
    return int(any(verdict.verdict == "survived" for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main())
