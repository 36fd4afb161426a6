"""The golden stories of whole nodes: what comes of a fault among eight of them, as people would tell it.

Each file is what `vcubeps explore --world nodes --scenario NAME` prints. As with the transcripts of the protocol, one
that differs is no fault as such: whoever changed the behaviour re-writes the files and reads the difference.
"""

from __future__ import annotations

import pytest

from transcripts import FOLDER, settle
from vcubeps.cli import main
from vcubeps.sim.explore.nodes.scenarios import SCENARIOS
from vcubeps.sim.explore.nodes.search import run_operations
from vcubeps.sim.explore.nodes.story import Story

STORIES = sorted((FOLDER / "nodes").glob("*.txt"))

LINES_MAX = 60
"""A story is to be read in a minute."""


@pytest.mark.parametrize("name", [path.stem for path in STORIES])
def test_the_story_goes_as_it_is_written(
    name: str, capsys: pytest.CaptureFixture[str], pytestconfig: pytest.Config
) -> None:
    path = FOLDER / "nodes" / f"{name}.txt"

    assert main(["explore", "--world", "nodes", "--scenario", name]) == 0

    told = capsys.readouterr().out
    assert 0 < len(told.splitlines()) <= LINES_MAX
    settle(path, path.read_text(), told, pytestconfig, "tests/sim/test_golden_nodes.py")


def test_the_stories_are_about_what_the_detector_and_the_majority_are_for() -> None:
    assert {path.stem for path in STORIES} == {
        "again-and-again", "close-unread", "halves", "kill", "one-of-eight", "other-file", "pair", "stopped",
    }  # fmt: skip


def test_what_nodes_do_together_is_one_line_and_each_side_is_told_apart() -> None:
    story = Story()
    scenario = SCENARIOS["halves"]

    run_operations(0, scenario.setup, scenario.operations, story)

    suspected = [line.split("  ", 1)[1] for line in map(str.strip, story.lines) if "suspect" in line]
    assert [" ".join(line.split()) for line in suspected] == [
        "4–7 suspect 0–3, and ask others for a probe",
        "0–3 suspect 4–7, and ask others for a probe",
    ]
