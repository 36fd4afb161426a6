"""One lifecycle: the diagram in the docs is the code's, and nothing else is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from vcubeps.node.lifecycle import TRANSITIONS, Life, diagram

PAGE = Path(__file__).resolve().parents[2] / "docs" / "internals" / "node.md"


def test_the_page_has_the_diagram_of_today() -> None:
    assert f"```mermaid\n{diagram()}\n```" in PAGE.read_text(), "run: python -m vcubeps.node.lifecycle"


def test_every_stage_can_be_reached_and_all_end() -> None:
    reached, new = {Life.STARTING}, {Life.STARTING}
    while new:
        new = {following for stage in new for following in TRANSITIONS[stage]} - reached
        reached |= new

    assert reached == set(Life) == set(TRANSITIONS)


@pytest.mark.parametrize("stage", Life)
def test_only_the_last_stages_lead_nowhere(stage: Life) -> None:
    assert stage.has_ended == (not TRANSITIONS[stage])
