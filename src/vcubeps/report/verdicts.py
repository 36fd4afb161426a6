"""Whether our number is the paper's: one rule, the same for all numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from vcubeps.report.model import Number, NumberValue, Relation

Verdict: TypeAlias = Literal["matches", "differs", "not comparable"]
VERDICTS: tuple[Verdict, ...] = ("matches", "differs", "not comparable")

IS_TOLERANCE = 0.03
ABOUT_TOLERANCE = 0.10
BOUND_SLACK = 0.03

RULE = (
    "A number that the paper states as such matches if it lies within our 95 % interval widened by half a unit of its "
    f"last printed digit, or if ours is within {100 * IS_TOLERANCE:.0f} % of it. One that it calls approximate matches "
    f"within {100 * ABOUT_TOLERANCE:.0f} %. A bound matches if it holds, with {100 * BOUND_SLACK:.0f} % of slack. "
    "Where the paper only says that one is lower than the other, ours must be too, interval included. "
    "What is not a result, or was not run, is not comparable. The rule is the same for all "
    "numbers; it was fixed before this page's runs, when results of earlier prototypes were known. With few runs "
    "intervals are wide, and a match says less."
)

_NOT_RUN = "not run, or nothing was measured"
_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A number of the paper beside ours."""

    number: Number
    measured: float | None
    ci95: float | None
    runs: int
    verdict: Verdict

    @property
    def why(self) -> str:
        """Nothing to explain about a match."""
        match self.verdict:
            case "matches":
                return ""
            case "differs":
                return self.number.why or _UNKNOWN
            case "not comparable":
                return _NOT_RUN if self.number.operands else self.number.why

    @property
    def relative_difference(self) -> float | None:
        """Of ours from the paper's, as a fraction of the paper's; None if that is 0 or there is no ours."""
        if self.measured is None or self.number.paper == 0:
            return None
        return self.measured / self.number.paper - 1


def compared(numbers: Iterable[Number], values: Iterable[NumberValue]) -> list[Comparison]:
    """In the order of the numbers."""
    by_id = {value.id: value for value in values}
    comparisons = []
    for number in numbers:
        value = by_id.get(number.id) if number.operands else None
        measured, ci95, runs = (value.measured, value.ci95, value.runs) if value else (None, None, 0)
        verdict: Verdict = "not comparable"
        if measured is not None:
            holds = agrees(number.relation, number.paper, number.step, measured, ci95)
            verdict = "matches" if holds else "differs"
        comparisons.append(Comparison(number, measured, ci95, runs, verdict))
    return comparisons


def agrees(relation: Relation, paper: float, step: float, measured: float, ci95: float | None) -> bool:
    """
    >>> agrees("is", 533, 1, 530.0, None), agrees("is", 3.7, 0.1, 23.0, 1.0), agrees("at most", 7, 1, 5.0, None)
    (True, False, True)
    """
    distance = abs(measured - paper)
    match relation:
        case "is":
            return distance <= (ci95 or 0) + step / 2 or distance <= IS_TOLERANCE * abs(paper)
        case "about":
            return distance <= ABOUT_TOLERANCE * abs(paper)
        case "at most":
            return measured <= paper + BOUND_SLACK * abs(paper)
        case "at least":
            return measured >= paper - BOUND_SLACK * abs(paper)
        case "below":
            return measured + (ci95 or 0) < paper
