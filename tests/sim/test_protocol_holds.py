"""The amended protocol in a few thousand random schedules of each kind; docs/internals/verification.md has more.

A failure names the schedule and the command that replays it.
"""

from __future__ import annotations

import pytest

from vcubeps.sim.explore import Allowed, run_schedule, schedule_seed
from vcubeps.sim.explore.options import FAULTS

CAMPAIGN_SEED = 20_26
CHUNK = 250

ALL_FAULTS = frozenset(FAULTS)
AIMED_AT_BOOTING = frozenset(
    {
        "joins",
        "unordered",
        "heavy-tail",
        "crash",
        "recover",
        "suspect",
        "stale-up",
        "boot-suspect",
        "boot-crash",
    }
)
CUT_OFF = frozenset({"voters", "joins", "permuted"})
CUT_OFF_AND_WORSE = CUT_OFF | {"crash", "recover", "suspect", "cut"}
NEWCOMERS = frozenset(
    {"joins", "leaves", "reactive", "unordered", "heavy-tail", "permuted", "arrive", "depart"}
)
NEWCOMERS_AND_WORSE = NEWCOMERS | {"crash", "recover", "suspect", "cut"}
GOODBYES = frozenset({"joins", "unordered", "heavy-tail", "goodbyes", "restarts", "greetings", "permuted"})
ISLANDS = frozenset({"joins", "permuted", "greetings", "crash", "recover", "cut", "islands", "cut-join"})


@pytest.mark.parametrize("first", range(0, 2500, CHUNK))
def test_no_promise_is_broken_while_nodes_join_and_leave(first: int) -> None:
    hold(Allowed(), range(first, first + CHUNK), "")


@pytest.mark.parametrize("first", range(0, 1500, CHUNK))
def test_no_promise_is_broken_while_nodes_crash_recover_are_suspected_and_cut_off(first: int) -> None:
    hold(Allowed(faults=ALL_FAULTS), range(first, first + CHUNK), f"--faults {','.join(FAULTS)}")


@pytest.mark.parametrize("first", range(0, 1000, CHUNK))
def test_no_promise_is_broken_by_islands_that_boot_apart_and_meet(first: int) -> None:
    allowed = Allowed(nodes_max=8, faults=ALL_FAULTS, only=ISLANDS)
    flags = f"--nodes 2-8 --faults {','.join(FAULTS)} --only {' '.join(sorted(ISLANDS))}"
    hold(allowed, range(first, first + CHUNK), flags)


@pytest.mark.parametrize("first", range(0, 1000, CHUNK))
def test_no_promise_is_broken_by_nodes_that_stop_in_good_order_and_come_back(first: int) -> None:
    allowed = Allowed(nodes_max=6, faults=ALL_FAULTS, only=GOODBYES)
    flags = f"--nodes 2-6 --faults {','.join(FAULTS)} --only {' '.join(sorted(GOODBYES))}"
    hold(allowed, range(first, first + CHUNK), flags)


@pytest.mark.parametrize("first", range(0, 1000, CHUNK))
def test_no_promise_is_broken_by_nodes_that_come_up_on_stale_or_false_reports(first: int) -> None:
    """The case that the design had left open: see docs/internals/protocol.md."""
    allowed = Allowed(nodes_max=5, faults=ALL_FAULTS, only=AIMED_AT_BOOTING)
    flags = f"--nodes 2-5 --faults crash,recover,suspect --only {' '.join(sorted(AIMED_AT_BOOTING))}"
    hold(allowed, range(first, first + CHUNK), flags)


@pytest.mark.parametrize("only", [NEWCOMERS, NEWCOMERS_AND_WORSE])
@pytest.mark.parametrize("first", range(0, 1500, CHUNK))
def test_no_promise_is_broken_while_nodes_come_and_leave_for_good(first: int, only: frozenset[str]) -> None:
    allowed = Allowed(nodes_max=8, faults=ALL_FAULTS, only=only)
    flags = f"--nodes 2-8 --faults {','.join(FAULTS)} --only {' '.join(sorted(only))}"
    hold(allowed, range(first, first + CHUNK), flags)


@pytest.mark.parametrize("only", [CUT_OFF, CUT_OFF_AND_WORSE])
@pytest.mark.parametrize("first", range(0, 1000, CHUNK))
def test_no_promise_is_broken_where_voters_decide_and_the_network_is_cut(
    first: int, only: frozenset[str]
) -> None:
    allowed = Allowed(nodes_max=6, faults=ALL_FAULTS, only=only)
    flags = f"--nodes 2-6 --faults {','.join(FAULTS)} --only {' '.join(sorted(only))}"
    hold(allowed, range(first, first + CHUNK), flags)


@pytest.mark.parametrize("first", range(0, 100, 50))
def test_no_promise_is_broken_where_voters_decide_and_everything_happens(first: int) -> None:
    allowed = Allowed(faults=ALL_FAULTS, always=frozenset({"voters"}))
    hold(allowed, range(first, first + 50), f"--faults {','.join(FAULTS)} --always voters")


@pytest.mark.parametrize(
    ("faults", "flags"), [(frozenset(), ""), (ALL_FAULTS, f"--faults {','.join(FAULTS)}")]
)
@pytest.mark.parametrize("first", [5000, 5150])
def test_the_invariants_of_every_part_hold_after_every_input(
    first: int, faults: frozenset[str], flags: str
) -> None:
    flags += " --algorithm checked"
    hold(Allowed(faults=faults), range(first, first + 150), flags, "checked")


def hold(allowed: Allowed, indices: range, flags: str, algorithm: str = "amended") -> None:
    for index in indices:
        seed = schedule_seed(CAMPAIGN_SEED, index)
        outcome = run_schedule(seed, allowed, algorithm)
        broken = "; ".join(map(str, outcome.violations))
        assert not outcome.violations, f"{broken}\nvcubeps explore --replay {seed} {flags}"
