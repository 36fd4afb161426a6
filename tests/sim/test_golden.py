"""The golden transcripts: what the protocol does in a dozen short stories, message by message.

A transcript that differs is no fault as such: it says that the behaviour has changed. Whoever changed it re-writes
the files, reads the difference as a reviewer would, and commits it with the change.
"""

from __future__ import annotations

import pytest

from transcripts import FOLDER, TITLE, read, read_operation, replay, settle
from vcubeps.sim.explore import Allowed, draw_operations, draw_options
from vcubeps.sim.explore.options import FAULTS

STORIES = sorted(path.stem for path in FOLDER.glob("*.txt"))

LINES_MAX = 40
"""A story is to be read in a minute."""


@pytest.mark.parametrize("name", STORIES)
def test_the_story_goes_as_it_is_written(name: str, pytestconfig: pytest.Config) -> None:
    path = FOLDER / f"{name}.txt"
    story = read(path.read_text())

    outcome, transcript = replay(story)

    assert outcome.violations == ()
    assert 0 < len(transcript.splitlines()) <= LINES_MAX
    as_written, as_it_goes = (story.header + TITLE + each for each in (story.transcript, transcript))
    settle(path, as_written, as_it_goes, pytestconfig, "tests/sim/test_golden.py")


def test_what_the_explorer_prints_can_be_put_into_a_story() -> None:
    for seed in range(40):
        for operation in draw_operations(seed, draw_options(seed, Allowed(faults=frozenset(FAULTS)))):
            assert str(read_operation(str(operation))) == str(operation)


def test_a_field_that_no_story_has_is_refused() -> None:
    with pytest.raises(ValueError, match="'node: 3' is not part of a story: choose among seed, nodes"):
        read("Something happens.\n\nseed: 1\nnode: 3\n")
