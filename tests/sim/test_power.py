"""The explorer notices when a rule of the protocol is left out."""

from __future__ import annotations

from itertools import chain

import pytest

from ablations import ABLATIONS, Ablation
from vcubeps.sim.explore import run_schedule, schedule_seed

CAMPAIGN_SEED = 1


def first_caught(ablation: Ablation) -> tuple[int, frozenset[str]]:
    """The first schedule in which something is violated, and by which checkers; fails at the bound."""
    for index in range(ablation.bound):
        seed = schedule_seed(CAMPAIGN_SEED, index)
        violated = run_schedule(seed, ablation.schedules).violated
        if violated:
            return seed, frozenset(violated)
    raise AssertionError(f"not caught in {ablation.bound} schedules of campaign seed {CAMPAIGN_SEED}")


@pytest.mark.parametrize("name", ABLATIONS)
def test_rule_that_is_left_out_is_missed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ablation = ABLATIONS[name]
    ablation.apply(monkeypatch)
    seed, violated = first_caught(ablation)
    monkeypatch.undo()

    assert violated & ablation.checkers
    assert run_schedule(seed, ablation.schedules).violations == ()


def test_most_checkers_are_tripped_by_some_ablation() -> None:
    """`errors` is tripped by hand-written stories, `hygiene` by the published algorithm too."""
    tripped = set(chain.from_iterable(ablation.checkers for ablation in ABLATIONS.values()))

    assert tripped == {
        "after_unsubscribe", "agreement", "causal", "completeness", "fifo_reception", "hygiene",
        "integrity", "liveness", "views",
    }  # fmt: skip
