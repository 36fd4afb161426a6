"""What a figure shows: the values of its drawn series, in order, with gaps where there is nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from vcubeps.report.model import Curve, CurveValue, Figure

Values: TypeAlias = Mapping[tuple[str, str, float], CurveValue]
"""By figure, series and x."""


@dataclass(frozen=True, slots=True)
class Series:
    """A curve with its values; what is missing is None."""

    curve: Curve
    xs: tuple[float, ...]
    means: tuple[float | None, ...]
    ci95s: tuple[float | None, ...]

    def missing(self) -> list[float]:
        return [x for x, mean in zip(self.xs, self.means, strict=True) if mean is None]


def by_place(values: Iterable[CurveValue]) -> Values:
    return {(value.figure, value.series, value.x): value for value in values}


def series_of(figure: Figure, values: Values) -> list[Series]:
    return [_series(figure, curve, values) for curve in figure.curves]


def is_empty(series: Iterable[Series]) -> bool:
    return all(mean is None for one in series for mean in one.means)


def _series(figure: Figure, curve: Curve, values: Values) -> Series:
    xs = tuple(sample.x for sample in curve.samples)
    found = [values.get((figure.id, curve.series, x)) for x in xs]
    return Series(
        curve,
        xs,
        tuple(value.mean if value else None for value in found),
        tuple(value.ci95 if value else None for value in found),
    )
