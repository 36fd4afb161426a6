"""From the catalogue to the page through Spark, against the same without Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from report.measured import Measured
from vcubeps.report.catalogue import PROFILES, catalogue
from vcubeps.report.reproduce import reproduce
from vcubeps.spark.store import Store

SEED = 3


def test_page_shows_what_the_runs_give_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Figures 4(b) and 7 and table 1, every value and every number, with intervals."""
    wanted = catalogue(replace(PROFILES["quick"], runs=3), only=["4b", "7", "table1"])
    out = tmp_path / "report"

    reproduce(spark, wanted, Store(str(out / "data")), out, SEED)

    here = Measured(wanted, SEED)
    shown = {
        (figure["id"], curve["series"], sample["x"]): (sample["mean"], sample["ci95"], sample["runs"])
        for figure in json.loads((out / "curves.json").read_text())["figures"]
        for curve in figure["curves"]
        for sample in curve["samples"]
    }
    expected = {
        (one.figure, one.series, one.x): (one.mean, one.ci95, one.runs) for one in here.curve_values(wanted)
    }
    assert shown == {place: pytest.approx(value, abs=1e-9) for place, value in expected.items()}
    rows = {
        row["id"]: (row["measured"], row["ci95"]) for row in json.loads((out / "figures.json").read_text())
    }
    numbers = {one.id: (one.measured, one.ci95) for one in here.number_values(wanted)}
    assert rows == {name: pytest.approx(value, abs=1e-9) for name, value in numbers.items()}
    kept = spark.read.parquet(str(out / "data" / "figures")).collect()
    assert {(row.figure, row.series, row.x): (row["mean"], row.ci95, row.runs) for row in kept} == {
        place: pytest.approx(value, abs=1e-9) for place, value in expected.items()
    }
