"""The explorer notices when a rule of the protocol is left out, and every checker can be tripped by it.

`tests/ablations.py` has the rules, how often random schedules catch each, and where in the campaign to look.
"""

from __future__ import annotations

import pytest

from ablations import ABLATIONS, CAMPAIGN_SEED, Search
from vcubeps.sim.explore import CHECKER_NAMES, Allowed, run_schedule, schedule_seed

SEARCHED = [name for name, ablation in ABLATIONS.items() if ablation.search is not None]

CHURN = Allowed(only=frozenset({"joins", "leaves", "rejoins", "unordered", "heavy-tail", "reactive"}))
PUBLISHED_TRIPS = frozenset(
    {"causal", "after_unsubscribe", "fifo_reception", "liveness", "completeness", "views"}
)
"""What the algorithm as published breaks in a few schedules of `CHURN`."""


def search_of(name: str) -> Search:
    search = ABLATIONS[name].search
    assert search is not None
    return search


def seeds(search: Search) -> list[int]:
    window = range(search.first, search.first + search.schedules)
    return [schedule_seed(CAMPAIGN_SEED, index) for index in window]


@pytest.mark.parametrize("name", SEARCHED)
def test_rule_that_is_left_out_is_missed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    search = search_of(name)
    ABLATIONS[name].apply(monkeypatch)
    tried = []
    for seed in seeds(search):
        tried.append(seed)
        if search.trips <= set(run_schedule(seed, search.allowed, search.algorithm).violated):
            break
    else:
        pytest.fail(
            f"{search.schedules} schedules from number {search.first} on do not trip {sorted(search.trips)}: "
            f"if the explorer's draws have changed, look again with python tests/ablations.py {name}"
        )
    monkeypatch.undo()

    assert [seed for seed in tried if run_schedule(seed, search.allowed, search.algorithm).violations] == []


def test_published_algorithm_trips_what_it_is_said_to() -> None:
    tripped: set[str] = set()
    for index in range(60):
        tripped.update(run_schedule(schedule_seed(CAMPAIGN_SEED, index), CHURN, "published").violated)

    assert tripped >= PUBLISHED_TRIPS


def test_every_checker_is_tripped_by_some_ablation_or_by_the_published_algorithm() -> None:
    tripped = PUBLISHED_TRIPS.union(*(search_of(name).trips for name in SEARCHED))

    assert tripped == set(CHECKER_NAMES)


def test_every_amendment_is_left_out_by_some_ablation() -> None:
    left_out = {ablation.rule.split(":")[0] for ablation in ABLATIONS.values()}

    assert left_out >= {str(number) for number in range(1, 12)}
