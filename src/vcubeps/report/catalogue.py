"""Everything that a report shows, and so every run that it needs: the one list that the data pipeline works off."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from difflib import get_close_matches

from vcubeps.report.beyond import beyond_figures
from vcubeps.report.figures import paper_figures
from vcubeps.report.model import Curve, CurveValue, Figure, Number, NumberValue, Published, Sample
from vcubeps.report.numbers import early_numbers
from vcubeps.report.numbers_later import later_numbers
from vcubeps.report.profiles import PROFILES, Profile
from vcubeps.sim.identity import point_key
from vcubeps.sim.scenarios import Point

__all__ = [
    "PROFILES", "Catalogue", "Curve", "CurveValue", "Figure", "Number", "NumberValue", "Profile", "Published",
    "Sample", "UnknownFigure", "catalogue", "point_key",
]  # fmt: skip


class UnknownFigure(ValueError):
    """A figure that the report does not have; the text is one sentence that names the ones it has."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What one report shows."""

    profile: Profile
    figures: tuple[Figure, ...]
    numbers: tuple[Number, ...]

    def points(self) -> list[tuple[Point, int]]:
        """Every point that is needed, once, with its number of runs."""
        shown = [
            sample.point for figure in self.figures for curve in figure.curves for sample in curve.samples
        ]
        compared = [point for number in self.numbers for point, _ in number.operands]
        once = {point_key(point): point for point in (*shown, *compared)}
        return [(point, self.profile.runs_of(point)) for point in once.values()]


def catalogue(profile: Profile, only: Collection[str] = ()) -> Catalogue:
    """The whole report, or some of its figures and what belongs with them. Raises UnknownFigure.

    A name stands for the figure of that id and for those whose id continues it: "5b" is "5b" and "5b-path".

    >>> [figure.id for figure in catalogue(PROFILES["quick"], only=["5b", "table1"]).figures]
    ['5b', '5b-path', 'table1']
    """
    figures = (*paper_figures(profile), *beyond_figures(profile))
    _check(only, figures)
    return Catalogue(
        profile,
        tuple(figure for figure in figures if _is_asked_for(figure.id, only)),
        tuple(
            _within(profile, number)
            for number in (*early_numbers(), *later_numbers())
            if _is_asked_for(number.figure, only)
        ),
    )


def _is_asked_for(id_: str, only: Collection[str]) -> bool:
    return not only or any(id_ == name or id_.startswith(f"{name}-") for name in only)


def _check(only: Collection[str], figures: Collection[Figure]) -> None:
    ids = [figure.id for figure in figures]
    for name in only:
        if not any(_is_asked_for(id_, [name]) for id_ in ids):
            if any(_is_asked_for(id_, [name]) for id_ in _ids_of_all()):
                raise UnknownFigure(f"figure {name} is not in the profile: run --profile paper")
            close = get_close_matches(name, ids, n=1)
            hint = f"did you mean {close[0]}?" if close else f"choose among {', '.join(ids)}"
            raise UnknownFigure(f"there is no figure {name[:40]!r}: {hint}")


def _ids_of_all() -> list[str]:
    return [figure.id for profile in PROFILES.values() for figure in beyond_figures(profile)]


def _within(profile: Profile, number: Number) -> Number:
    """A number whose runs are too large for the profile is not compared, rather than compared with something else."""
    beyond = [int(point.parameters["nodes"]) for point, _ in number.operands if not profile.covers(point)]
    if not beyond:
        return number
    return replace(number, operands=(), why=f"needs {max(beyond):,} nodes: run --profile paper")
