"""The rule that says whether our number is the paper's, and the forms that numbers take."""

from __future__ import annotations

import pytest

from vcubeps.report.model import Number, NumberValue, combined
from vcubeps.report.runs import LATENCY, single
from vcubeps.report.verdicts import agrees, compared
from vcubeps.sim.scenarios import VCUBE

OPERANDS = ((single(VCUBE, 64, 0.25), LATENCY),)


@pytest.mark.parametrize(
    ("relation", "paper", "step", "measured", "ci95", "holds"),
    [
        ("is", 533, 1, 533.0, None, True),
        ("is", 533, 1, 548.9, None, True),  # 2.98 %
        ("is", 533, 1, 549.1, None, False),
        ("is", 533, 1, 560.0, 26.6, True),  # in the interval widened by half a unit
        ("is", 533, 1, 560.0, 26.4, False),
        ("is", 2.7, 0.1, 2.2, 0.46, True),
        ("is", 0, 1, 0.4, None, True),
        ("is", 0, 1, 0.6, 0.0, False),
        ("is", 0.26, 0.01, 0.2649, None, True),
        ("about", 30, 1, 27.1, None, True),
        ("about", 30, 1, 26.9, 5.0, False),
        ("at most", 0.027, 0.001, 0.020, None, True),
        ("at most", 0.027, 0.001, 0.0278, None, True),
        ("at most", 0.027, 0.001, 0.0279, None, False),
        ("below", 1, 1, 0.99, 0.001, True),
        ("below", 1, 1, 0.99, 0.02, False),
        ("below", 1, 1, 1.01, None, False),
        ("at least", 0.43, 0.01, 0.50, None, True),
        ("at least", 0.43, 0.01, 0.418, None, True),
        ("at least", 0.43, 0.01, 0.417, None, False),
    ],
)
def test_rule(relation, paper, step, measured, ci95, holds):
    assert agrees(relation, paper, step, measured, ci95) is holds


@pytest.mark.parametrize(
    ("form", "means", "expected"),
    [
        ("value", [5.0], 5.0),
        ("ratio", [5.0, 2.0], 2.5),
        ("increase", [5.0, 4.0], 0.25),
        ("reduction", [3.0, 4.0], 0.25),
        ("difference", [5.0, 2.0], 3.0),
        ("extra", [25.0, 125.0], 0.25),
        ("spread", [4.0, 5.0, 4.5], 0.25),
        ("ratio", [1.0, 0.0], None),
        ("ratio", [1.0, None], None),
        ("value", [], None),
    ],
)
def test_forms(form, means, expected):
    assert combined(form, means) == expected


def number(why: str = "", **changed: object) -> Number:
    fields = {"operands": OPERANDS, **changed}
    return Number("4.1-x", "section 4.1", "4a", "something", 100, "u.t.", 1, "is", why=why, **fields)  # type: ignore[arg-type]


def test_a_match_needs_no_explanation():
    [one] = compared([number(why="a reason")], [NumberValue("4.1-x", 101.0, None, 5)])
    assert (one.verdict, one.why, one.runs) == ("matches", "", 5)
    assert one.relative_difference == pytest.approx(0.01)


def test_a_difference_says_why_or_that_it_is_unknown():
    value = NumberValue("4.1-x", 150.0, 2.0, 5)
    assert [one.why for one in compared([number(why="a reason"), number()], [value])] == [
        "a reason",
        "unknown",
    ]


def test_what_was_not_measured_is_not_comparable():
    for values in ([], [NumberValue("4.1-x", None, None, 0)]):
        [one] = compared([number()], values)
        assert one.verdict == "not comparable"
        assert one.why == "not run, or nothing was measured"


def test_what_is_no_result_is_not_comparable_whatever_is_given_for_it():
    [one] = compared([number(why="cited", operands=())], [NumberValue("4.1-x", 100.0, None, 1)])
    assert (one.verdict, one.why, one.measured) == ("not comparable", "cited", None)
