"""The values of a catalogue without Spark: every run in this process. It judges the pipeline, in small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vcubeps.report.catalogue import Catalogue, CurveValue, NumberValue, point_key
from vcubeps.report.model import Operand, combined
from vcubeps.report.writing import write_page
from vcubeps.sim.measures import Sparse, sparse
from vcubeps.sim.scenarios import Run, run_seed
from vcubeps.sim.simulation import simulate
from vcubeps.sim.summary import confidence95


@dataclass(frozen=True)
class Report:
    """All that goes into a page."""

    catalogue: Catalogue
    curves: list[CurveValue]
    numbers: list[NumberValue]

    def write(self, out: Path) -> Path:
        write_page(out, self.catalogue, self.curves, self.numbers, {"seed": 1, "runs": {"tiny": 2}})
        return out


class Measured:
    """All runs that a catalogue needs."""

    def __init__(self, catalogue: Catalogue, seed: int = 1) -> None:
        self.runs: dict[str, list[dict[str, Sparse]]] = {
            point_key(point): [
                dict(sparse(simulate(Run(point, run_seed(seed, k)))[0])) for k in range(runs)
            ]
            for point, runs in catalogue.points()
        }  # fmt: skip

    def taken(self, operand: Operand) -> list[float]:
        point, measure = operand
        values = [measure.taken(run) for run in self.runs[point_key(point)]]
        return [value for value in values if value is not None]

    def curve_values(self, catalogue: Catalogue) -> list[CurveValue]:
        found = []
        for figure in catalogue.figures:
            for curve in figure.curves:
                for sample in curve.samples:
                    values = self.taken((sample.point, sample.measure))
                    mean = float(np.mean(values)) if values else None
                    found.append(
                        CurveValue(figure.id, curve.series, sample.x, mean, confidence95(values), len(values))
                    )
        return found

    def number_values(self, catalogue: Catalogue) -> list[NumberValue]:
        """With the interval by the jackknife over runs."""
        found = []
        for number in catalogue.numbers:
            columns = [self.taken(operand) for operand in number.operands]
            runs = min(map(len, columns), default=0)
            value = combined(number.form, [_mean(column[:runs]) for column in columns])
            without = [
                combined(number.form, [_mean(column[:k] + column[k + 1 : runs]) for column in columns])
                for k in range(runs)
                if runs > 1
            ]
            found.append(NumberValue(number.id, value, _jackknife(value, without), runs))
        return found


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _jackknife(value: float | None, without: Sequence[float | None]) -> float | None:
    if value is None or not without or any(one is None for one in without):
        return None
    n = len(without)
    return confidence95([n * value - (n - 1) * float(one) for one in without if one is not None])
