"""The list of figures and numbers: complete, consistent, and within its profile."""

from __future__ import annotations

from collections import Counter

import pytest

from vcubeps.report.catalogue import PROFILES, UnknownFigure, catalogue, point_key
from vcubeps.sim.scenarios import check

SECTION_4 = ("4a", "4b", "5a", "5b", "6a", "6b", "table1", "7", "8", "9a", "9b", "10")

PRINTED = {
    "4.1": (533, 0.26, 720, 1, 2.7, 0.43, 0.36, 0.027, 12, 1228, 779, 0.5, 7),
    "4.2": (0.388, 4, 2.48, 0, 495, 510, 19, 512, 448, 60, 3, 1, 0.98, 0.44, 0.5, 9240, 4617),
    "4.3": (65280, 0.516, 0.199, 0.352, 0.797, 0.951, 0.872, 81, 150, 457, 187, 0.842),
    "4.4": (0.60, 0.83, 0.0015, 0.825, 0.306, 0.092),
    "4.5": (300, 30, 1, 0.403, 3.7, 0.278, 0.168),
    "4.6": (127, 15, 1, 4, 0.22),
}
"""What a reader finds in each section, in its order; one hop and equality are 1."""

OPERANDS = {"value": 1, "ratio": 2, "increase": 2, "reduction": 2, "difference": 2, "extra": 2}


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
class TestEveryProfile:
    def test_has_every_figure_of_section_4(self, profile):
        assert set(SECTION_4) <= {figure.id for figure in catalogue(profile).figures}

    def test_has_every_number_that_section_4_prints(self, profile):
        numbers = catalogue(profile).numbers
        for section, printed in PRINTED.items():
            stated = {number.paper for number in numbers if number.section == section}
            assert set(printed) <= stated, section

    def test_names_are_unique(self, profile):
        listed = catalogue(profile)
        assert max(Counter(figure.id for figure in listed.figures).values()) == 1
        assert max(Counter(number.id for number in listed.numbers).values()) == 1
        for figure in listed.figures:
            assert max(Counter(curve.series for curve in figure.curves).values()) == 1, figure.id
            for curve in figure.curves:
                assert max(Counter(sample.x for sample in curve.samples).values()) == 1, curve.series

    def test_runs_are_those_that_can_be_run_each_once(self, profile):
        needed = catalogue(profile).points()
        for point, runs in needed:
            check(point)
            assert runs >= 1
        assert max(Counter(point_key(point) for point, _ in needed).values()) == 1

    def test_every_sample_and_operand_is_among_them(self, profile):
        listed = catalogue(profile)
        needed = {point_key(point) for point, _ in listed.points()}
        shown = [
            sample.point for figure in listed.figures for curve in figure.curves for sample in curve.samples
        ]
        operands = [point for number in listed.numbers for point, _ in number.operands]
        assert {point_key(point) for point in shown + operands} == needed

    def test_forms_have_their_operands(self, profile):
        for number in catalogue(profile).numbers:
            if number.operands:
                expected = OPERANDS.get(number.form, len(number.operands))
                assert len(number.operands) == expected, number.id
            else:
                assert number.why, number.id

    def test_places_of_bars_and_of_published_points_exist(self, profile):
        for figure in catalogue(profile).figures:
            xs = {sample.x for curve in figure.curves for sample in curve.samples}
            assert {point.x for point in figure.published} <= xs, figure.id
            if figure.ticks:
                assert xs <= set(range(len(figure.ticks))), figure.id

    def test_numbers_belong_with_figures(self, profile):
        listed = catalogue(profile)
        assert {number.figure for number in listed.numbers} <= {figure.id for figure in listed.figures}


def test_table_1_is_whole_in_the_numbers():
    numbers = catalogue(PROFILES["quick"], only=["table1"]).numbers
    cells = [number for number in numbers if number.id.startswith("4.2-queue-") and number.unit == "nodes"]
    assert len(cells) == 16
    assert sum(number.paper for number in cells) == 2 * 1024


def test_quick_stays_small_and_says_what_it_cannot_compare():
    listed = catalogue(PROFILES["quick"])
    compared = [point for number in listed.numbers for point, _ in number.operands]
    assert max(int(point.parameters["nodes"]) for point in compared) <= 1024
    [latency] = [number for number in listed.numbers if number.id == "4.1-latency-vcube-25"]
    assert latency.operands == ()
    assert latency.why == "needs 4,096 nodes: run --profile paper"


def test_only_takes_a_figure_its_companions_and_its_numbers():
    listed = catalogue(PROFILES["paper"], only=["7"])
    assert [figure.id for figure in listed.figures] == ["7", "7-ten"]
    assert {number.section for number in listed.numbers} == {"4.3"}
    assert len(listed.points()) == 4


def test_an_unknown_figure_is_named_with_what_may_be_meant():
    with pytest.raises(UnknownFigure, match=r"no figure 'tabel1'.*did you mean table1\?"):
        catalogue(PROFILES["quick"], only=["tabel1"])
