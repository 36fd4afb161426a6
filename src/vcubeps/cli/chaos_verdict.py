"""The verdict on a chaos run: what the judge and the audit of its traces found, as a page and as JSON."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from vcubeps.cli.common import CommandError
from vcubeps.cli.spark_options import session_for

if TYPE_CHECKING:
    from vcubeps.chaos.record import Done, Problem, Record
    from vcubeps.chaos.recovery import Recovery

_EXAMPLES = 5
"""Findings of a kind that are shown."""


@dataclass
class Verdict:
    """Everything that is said in the end."""

    record: Record
    problems: list[Problem]
    recoveries: list[Recovery]
    audit: dict[str, Any] | None = None
    """What the audit counted; None: there was none."""
    examples: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, record: Record) -> Verdict:
        from vcubeps.chaos import judge, recovery  # noqa: PLC0415 - for the commands that need it

        return cls(record, judge.findings(record), recovery.recoveries(record))

    @property
    def held(self) -> bool:
        is_clean = self.audit is not None and not any(self.audit["findings"].values())
        return is_clean and self.audit is not None and self.audit["deliveries"] > 0 and not self.problems

    def as_json(self) -> dict[str, Any]:
        record = self.record
        return {
            "seed": record.options.seed,
            "nodes": record.options.nodes,
            "minutes": record.options.seconds / 60,
            "held": self.held,
            "interrupted": record.was_interrupted,
            "faults": [
                _as_json(done, recovery) for done, recovery in zip(record.done, self.recoveries, strict=True)
            ],
            "faults_planned": len(record.plan),
            "restarts": len(record.restarts),
            "settled_after_s": None
            if record.settled_s is None
            else round(record.settled_s - record.last_healed_s, 3),
            "unknown_publications": record.unknown,
            "refused_as_isolated": record.isolated,
            "problems": [{"kind": problem.kind, "text": problem.text} for problem in self.problems],
            "audit": self.audit,
            "examples": self.examples,
        }


def audited(args: argparse.Namespace, directory: Path, record: Record) -> Verdict:
    """The verdict with the audit of the traces in `directory`."""
    from vcubeps.chaos.record import TRACE  # noqa: PLC0415
    from vcubeps.spark.audit import TraceError, audit  # noqa: PLC0415 - the other commands need no Spark
    from vcubeps.spark.audit.findings import in_words  # noqa: PLC0415

    verdict = Verdict.of(record)
    try:
        with session_for(args) as session:
            result = audit(session, str((directory / TRACE).absolute()))
            for kind, count in result.counts.items():
                if count:
                    verdict.examples += [in_words(row) for row in result.examples(kind, _EXAMPLES)]
    except TraceError as error:
        raise CommandError(str(error)) from None
    census = result.census
    verdict.audit = {
        "publications": census.publications,
        "receptions": census.receptions,
        "deliveries": census.deliveries,
        "dependency_checks": result.checks,
        "findings": dict(result.counts),
        "unjudged": result.unjudged,
    }
    return verdict


def told(done: Done, recovery: Recovery) -> str:
    """One line about a fault and how it was overcome."""
    parts = [f"{done.begin_s:8.1f} s  {done.fault.number:>3} {done.fault}:"]
    if recovery.detected_s is not None:
        parts.append(f"detected after {recovery.detected_s:.2f} s,")
    if recovery.living_s is not None:
        parts.append(f"the others went on after {recovery.living_s:.2f} s,")
    parts.append("not back" if recovery.back_s is None else f"back {recovery.back_s:.2f} s after its end")
    return " ".join(parts)


def print_verdict(verdict: Verdict) -> None:
    record = verdict.record
    print()
    timeline = [
        *(
            (done.begin_s, told(done, each))
            for done, each in zip(record.done, verdict.recoveries, strict=True)
        ),
        *((restart.at_s, str(restart)) for restart in record.restarts),
    ]
    for _, line in sorted(timeline):
        print(line)
    print()
    _print_recoveries(verdict)
    print()
    _print_counts(verdict)
    for line in (*verdict.examples, *_some(verdict.problems)):
        print(f"  {line}")
    print()
    print("All held." if verdict.held else "NOT judged to the end." if record.was_interrupted and not verdict.problems
          else "NOT all held: see above.")  # fmt: skip


def _some(problems: Iterable[Problem]) -> Iterable[str]:
    shown: Counter[str] = Counter()
    for problem in problems:
        shown[problem.kind] += 1
        if shown[problem.kind] <= _EXAMPLES:
            yield f"{problem.kind}: {problem.text}"
    for kind, count in shown.items():
        if count > _EXAMPLES:
            yield f"… and {count - _EXAMPLES} more of kind {kind}"


def _print_recoveries(verdict: Verdict) -> None:
    """Per kind of fault: median and longest."""
    print(
        f"{'':11}{'times':>5}   {'detected':>15}   {'others went on':>15}   {'back':>15}   (s: median, longest)"
    )
    by_kind: dict[str, list[Recovery]] = {}
    for done, recovery in zip(verdict.record.done, verdict.recoveries, strict=True):
        by_kind.setdefault(done.fault.kind, []).append(recovery)
    for kind, recoveries in sorted(by_kind.items()):
        columns = [
            _middle_and_longest(getattr(recovery, name) for recovery in recoveries)
            for name in ("detected_s", "living_s", "back_s")
        ]
        print(f"  {kind:<9}{len(recoveries):>5}   " + "   ".join(f"{column:>15}" for column in columns))


def _middle_and_longest(times_s: Iterable[float | None]) -> str:
    known = [time_s for time_s in times_s if time_s is not None]
    return f"{median(known):.2f}, {max(known):.2f}" if known else "–"


def _print_counts(verdict: Verdict) -> None:
    record, audit = verdict.record, verdict.audit
    rows = [("faults", f"{len(record.done)} of {len(record.plan)} planned")]
    if audit is not None:
        found = audit["findings"]
        others = sum(count for kind, count in found.items() if kind not in ("causal", "loss"))
        rows += [
            ("publications", f"{audit['publications']:,}"),
            ("deliveries", f"{audit['deliveries']:,}"),
            (
                "causal violations",
                f"{found['causal']}   ({audit['dependency_checks']:,} dependencies checked)",
            ),
            ("losses", f"{found['loss']}   (among those that stayed)"),
            ("other findings", f"{others}   (duplicates, phantoms, order of reception)"),
            ("not judged", f"{audit['unjudged']:,}   (deliveries of what killed nodes had not written down)"),
        ]
    rows += [
        (
            "restarts",
            f"{len(record.restarts)}   (nodes that lived and were taken for crashed, or were cut off)",
        ),
        ("receipts unknown", f"{record.unknown:,}   (of nodes that were taken for crashed)"),
        ("stuck, gone, …", f"{len(verdict.problems)}"),
    ]
    for name, value in rows:
        print(f"  {name:<19} {value}")


def _as_json(done: Done, recovery: Recovery) -> dict[str, Any]:
    return {
        "number": done.fault.number,
        "fault": str(done.fault),
        "kind": done.fault.kind,
        "begin_s": done.begin_s,
        "end_s": done.end_s,
        "detected_s": _rounded(recovery.detected_s),
        "living_s": _rounded(recovery.living_s),
        "back_s": _rounded(recovery.back_s),
    }


def _rounded(time_s: float | None) -> float | None:
    return None if time_s is None else round(time_s, 3)
