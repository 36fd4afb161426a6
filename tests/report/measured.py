"""The values of a catalogue without Spark: every run in this process. It judges the pipeline, in small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vcubeps.report.catalogue import Catalogue, CurveValue, NumberValue, point_key
from vcubeps.report.model import Operand, combined
from vcubeps.report.writing import write_page
from vcubeps.sim.measures import Form, Sparse, sparse
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

    def estimated(self, form: Form, operands: Sequence[Operand]) -> tuple[float | None, float | None, int]:
        """A form of means over the runs in which all operands were measured; interval by the jackknife over runs."""
        columns = [[measure.taken(run) for run in self.runs[point_key(point)]] for point, measure in operands]
        samples = [row for row in zip(*columns, strict=False) if None not in row]
        value = combined(form, [_mean(column) for column in zip(*samples, strict=True)])
        without = [
            combined(form, [_mean(column) for column in zip(*(samples[:k] + samples[k + 1 :]), strict=True)])
            for k in range(len(samples))
            if len(samples) > 1
        ]
        return value, _jackknife(value, without), len(samples)

    def curve_values(self, catalogue: Catalogue) -> list[CurveValue]:
        return [
            CurveValue(figure.id, curve.series, sample.x, *self.estimated(sample.form, sample.operands))
            for figure in catalogue.figures
            for curve in figure.curves
            for sample in curve.samples
        ]

    def number_values(self, catalogue: Catalogue) -> list[NumberValue]:
        return [
            NumberValue(number.id, *self.estimated(number.form, number.operands))
            for number in catalogue.numbers
        ]


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _jackknife(value: float | None, without: Sequence[float | None]) -> float | None:
    if value is None or not without or any(one is None for one in without):
        return None
    n = len(without)
    return confidence95([n * value - (n - 1) * float(one) for one in without if one is not None])
