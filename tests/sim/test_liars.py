"""No word of one peer makes another one fail: it is refused, or it does no harm to what the other is."""

from __future__ import annotations

import pytest

from liars import run_with_a_liar
from vcubeps.sim.explore import Allowed, schedule_seed
from vcubeps.sim.explore.options import FAULTS

ALL_FAULTS = frozenset(FAULTS)

KINDS = {
    "nobody fails": Allowed(nodes_max=5),
    "all faults": Allowed(nodes_max=5, faults=ALL_FAULTS),
    "newcomers": Allowed(nodes_max=5, faults=ALL_FAULTS, always=frozenset({"arrive", "depart"})),
    "voters": Allowed(nodes_max=4, faults=ALL_FAULTS, always=frozenset({"voters"})),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", range(0, 120, 40))
def test_whatever_a_member_says_the_others_raise_nothing_and_keep_their_invariants(
    kind: str, first: int
) -> None:
    for index in range(first, first + 40):
        outcome = run_with_a_liar(schedule_seed(2026, index), KINDS[kind])

        errors = [violation for violation in outcome.violations if violation.checker == "errors"]
        assert errors == [], f"schedule {index}"
