"""The paper's evaluation from end to end: what is missing is run, all is averaged, and the page is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from vcubeps.provenance import git_revision, package_version, versions
from vcubeps.report.catalogue import Catalogue, Curve, CurveValue, Figure, NumberValue, Sample
from vcubeps.report.writing import write_page
from vcubeps.sim.identity import simulator_fingerprint
from vcubeps.sim.scenarios import Run, run_seed
from vcubeps.spark.figures import keep_figures
from vcubeps.spark.metrics import Estimate, Quantity, estimate
from vcubeps.spark.session import Session
from vcubeps.spark.store import Store
from vcubeps.spark.sweep import Progress, origins, sweep


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was done."""

    runs: int
    """That were missing."""
    all_runs: int
    numbers: tuple[NumberValue, ...]


def reproduce(
    session: Session,
    catalogue: Catalogue,
    store: Store,
    out: Path,
    seed: int,
    watch: Callable[[Progress], None] | None = None,
    asked_for: Mapping[str, object] | None = None,
) -> Outcome:
    """Write the report of a catalogue into `out`. Raises SparkFailed, StoreError or OSError.

    `asked_for` is what the page tells of how it was called.
    """
    began = datetime.now(UTC)
    needed = catalogue.points()
    runs = [Run(point, run_seed(seed, k)) for point, count in needed for k in range(count)]
    simulated = sweep(session, store, runs, watch)
    curves, numbers = _estimated(session, catalogue, store, seed)
    keep_figures(session, store, [(c.figure, c.series, c.x, c.mean, c.ci95, c.runs) for c in curves])
    provenance = {
        **(asked_for or {}),
        "profile": catalogue.profile.name,
        "seed": seed,
        "runs per point": catalogue.profile.runs,
        "seeds of runs": [run_seed(seed, k) for k in range(catalogue.profile.runs)],
        "runs": len(runs),
        "runs simulated this time": simulated,
        "runs simulated by": origins(session, store, runs),
        "parameters": f"{len(needed)} points, each with all its parameters in curves.json",
        "vcubeps": package_version(),
        "revision": git_revision(),
        "simulator": simulator_fingerprint(),
        "spark": session.version,
        **versions("numba", "numpy", "pyarrow"),
        "began": f"{began:%Y-%m-%d %H:%M:%S} UTC",
        "seconds": round((datetime.now(UTC) - began).total_seconds()),
    }
    write_page(out, catalogue, curves, numbers, provenance)
    return Outcome(simulated, len(runs), tuple(numbers))


def _estimated(
    session: Session, catalogue: Catalogue, store: Store, seed: int
) -> tuple[list[CurveValue], list[NumberValue]]:
    runs_of = catalogue.profile.runs_of
    samples = {
        f"sample {k}": (figure.id, curve.series, sample)
        for k, (figure, curve, sample) in enumerate(_samples(catalogue))
    }
    quantities = [
        Quantity(name, sample.form, sample.operands, runs_of(sample.point))
        for name, (_, _, sample) in samples.items()
    ]
    quantities += [
        Quantity(number.id, number.form, number.operands, min(runs_of(point) for point, _ in number.operands))
        for number in catalogue.numbers
        if number.operands
    ]
    found = {one.name: one for one in estimate(session, store, quantities, seed)}
    curves = [
        CurveValue(figure, series, sample.x, *_parts(found[name]))
        for name, (figure, series, sample) in samples.items()
    ]
    numbers = [
        NumberValue(number.id, *_parts(found[number.id])) for number in catalogue.numbers if number.operands
    ]
    return curves, numbers


def _samples(catalogue: Catalogue) -> Iterator[tuple[Figure, Curve, Sample]]:
    for figure in catalogue.figures:
        for curve in figure.curves:
            for sample in curve.samples:
                yield figure, curve, sample


def _parts(one: Estimate) -> tuple[float | None, float | None, int]:
    return one.value, one.ci95, one.runs
