"""A small report: every figure, from real runs of small systems."""

from __future__ import annotations

from pathlib import Path

import pytest

from report.measured import Measured, Report
from vcubeps.report.catalogue import PROFILES, CurveValue, NumberValue, Profile, catalogue

TINY = Profile(
    "tiny", runs=2, nodes_max=256, churn_nodes_max=256, discussion_nodes_max=128, storm_nodes_max=0,
    brokers_nodes_max=0, single_nodes_max=1024,
)  # fmt: skip


@pytest.fixture(scope="session")
def tiny() -> Report:
    listed = catalogue(TINY)
    measured = Measured(listed)
    return Report(listed, measured.curve_values(listed), measured.number_values(listed))


@pytest.fixture(scope="session")
def tiny_page(tiny: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write(tmp_path_factory.mktemp("tiny") / "report")


@pytest.fixture(scope="session")
def planted() -> Report:
    """One figure, with values of our choosing: a match, a difference, the rest not run."""
    listed = catalogue(PROFILES["paper"], only=["4a"])
    values = [
        CurveValue("4a", "VCube-PS, 25 % subscribers", 8, 123.0, 4.0, 40),
        CurveValue("4a", "VCube-PS, 25 % subscribers", 16, None, None, 0),
        CurveValue("4a", "VCube-PS, 25 % subscribers", 32, 234.0, 5.0, 40),
    ]
    numbers = [
        NumberValue("4.1-latency-vcube-25", 533.4, 0.7, 40),
        NumberValue("4.1-latency-srpt-25", 800.0, 1.0, 40),
    ]
    return Report(listed, values, numbers)
