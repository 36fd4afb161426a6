"""Writes a report: all of it or nothing of it, and only its own files."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from vcubeps.report.catalogue import PROFILES, Catalogue
from vcubeps.report.catalogue import catalogue as full_catalogue
from vcubeps.report.drawing import draw
from vcubeps.report.model import Curve, CurveValue, Figure, NumberValue
from vcubeps.report.page import page
from vcubeps.report.shown import Values, by_place, series_of
from vcubeps.report.verdicts import Comparison, compared


def write_page(
    out: Path,
    catalogue: Catalogue,
    curve_values: Iterable[CurveValue],
    number_values: Iterable[NumberValue],
    provenance: Mapping[str, object],
) -> None:
    """index.html, figures.json, curves.json and figures/ID.svg and .png in `out`, which need not exist.

    Whatever fails, `out` has either the files that it had or whole new ones, and nothing else is left behind.
    """
    contents = _contents(
        catalogue, by_place(curve_values), compared(catalogue.numbers, number_values), provenance
    )
    out = out.absolute()
    out.parent.mkdir(parents=True, exist_ok=True)
    # Beside files that are there already, as `out` may be on a disk of its own.
    unfinished = out / f".unfinished-{os.getpid()}" if out.exists() else _beside(out)
    unfinished.mkdir()
    try:
        (unfinished / "figures").mkdir()
        for name, content in contents.items():
            (unfinished / name).write_bytes(content)
        if out.exists():
            _move_into(unfinished, out, contents)
        else:
            unfinished.rename(out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _beside(out: Path) -> Path:
    return out.with_name(f"{out.name}.unfinished-{os.getpid()}")


def _move_into(unfinished: Path, out: Path, names: Iterable[str]) -> None:
    """File by file, the page last; pictures of an earlier report that this one does not have go."""
    (out / "figures").mkdir(exist_ok=True)
    names = list(names)
    for name in names:
        os.replace(unfinished / name, out / name)
    known = {figure.id for profile in PROFILES.values() for figure in full_catalogue(profile).figures}
    for name in {f"figures/{id_}.{kind}" for id_ in known for kind in ("svg", "png")} - set(names):
        (out / name).unlink(missing_ok=True)


def _contents(
    catalogue: Catalogue, values: Values, comparisons: list[Comparison], provenance: Mapping[str, object]
) -> dict[str, bytes]:
    """Path → bytes, the page last."""
    contents: dict[str, bytes] = {}
    series = {figure.id: series_of(figure, values) for figure in catalogue.figures}
    drawings: dict[str, str] = {}
    for figure in catalogue.figures:
        if figure.kind == "table":
            continue
        svg, png = draw(figure, series[figure.id])
        contents[f"figures/{figure.id}.svg"], contents[f"figures/{figure.id}.png"] = svg, png
        drawings[figure.id] = svg.decode()
    contents["figures.json"] = _json([_row(comparison) for comparison in comparisons])
    contents["curves.json"] = _json(
        {
            "provenance": provenance,
            "profile": asdict(catalogue.profile),
            "figures": [_figure(figure, values) for figure in catalogue.figures],
        }
    )
    contents["index.html"] = page(catalogue, series, drawings, comparisons, provenance).encode()
    return contents


def _row(comparison: Comparison) -> dict[str, object]:
    """Fractions stay fractions: the units share, increase and reduction mean parts of one."""
    number = comparison.number
    return {
        "id": number.id,
        "place": number.place,
        "paper": number.paper,
        "measured": comparison.measured,
        "ci95": comparison.ci95,
        "unit": number.unit,
        "verdict": comparison.verdict,
        "why": comparison.why,
        "statement": number.statement,
        "relation": number.relation,
        "form": number.form,
        "reading": number.reading,
        "relative_difference": comparison.relative_difference,
        "runs": comparison.runs,
    }


def _figure(figure: Figure, values: Values) -> dict[str, object]:
    return {
        "id": figure.id,
        "place": figure.place,
        "title": figure.title,
        "kind": figure.kind,
        "x_label": figure.x_label,
        "y_label": figure.y_label,
        "ticks": figure.ticks,
        "published": [asdict(point) for point in figure.published],
        "curves": [_curve(figure, curve, values) for curve in figure.curves],
    }


def _curve(figure: Figure, curve: Curve, values: Values) -> dict[str, object]:
    samples = []
    for sample in curve.samples:
        value = values.get((figure.id, curve.series, sample.x))
        samples.append(
            {
                "x": sample.x,
                "mean": value.mean if value else None,
                "ci95": value.ci95 if value else None,
                "runs": value.runs if value else 0,
                "scenario": sample.point.scenario,
                "system": sample.point.system,
                "parameters": dict(sample.point.parameters),
                "measure": asdict(sample.measure),
                "over": asdict(sample.over) if sample.over else None,
            }
        )
    return {"series": curve.series, "samples": samples}


def _json(content: object) -> bytes:
    return (json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False, default=str) + "\n").encode()
