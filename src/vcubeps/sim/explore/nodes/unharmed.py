"""Which nodes no fault of a schedule may make start again: those that are left with a quorum, even by relays.

Only schedules in which nothing else happens say so much: clean cuts, of which one side has a quorum, far apart in time;
pairs of nodes, each of which can both reach a third; or processes that are stopped for a while, which must not blame
the others for the time in which they did not listen themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from vcubeps.protocol.voters import Voters
from vcubeps.sim.explore.nodes.schedule import Operation
from vcubeps.sim.explore.nodes.setup import Setup
from vcubeps.sim.explore.operations import severed

_ORDINARY = frozenset({"subscribe", "unsubscribe", "publish", "start"})
_STARTED_S = 1.0
"""Nodes that start later may count as crashed."""


def unharmed(setup: Setup, operations: Sequence[Operation]) -> frozenset[int]:
    cuts = [operation for operation in operations if operation.kind == "cut"]
    started = [operation for operation in operations if operation.kind == "start"]
    kinds = {operation.kind for operation in operations} - _ORDINARY
    is_calm = (
        setup.slow_of_256 == 0
        and len(started) == len(setup.nodes)
        and all(operation.at_s <= _STARTED_S for operation in started)
    )
    if not is_calm:
        return frozenset()
    if kinds == {"stop"}:
        return _others(setup, {operation.node for operation in operations if operation.kind == "stop"})
    if kinds == {"cut"} and setup.voters is not None:
        if all("/" in cut.text for cut in cuts):
            return _by_relays(setup, cuts)
        if all("|" in cut.text for cut in cuts):
            return _with_a_quorum(setup, cuts)
    return frozenset()


def _others(setup: Setup, stopped: set[int]) -> frozenset[int]:
    others = frozenset(setup.nodes) - stopped
    return others if setup.voters is None or Voters(setup.voters).is_quorum(others) else frozenset()


def _by_relays(setup: Setup, cuts: Sequence[Operation]) -> frozenset[int]:
    apart = frozenset().union(*(severed(cut.text) for cut in cuts))
    for one, other in apart:
        if not any(
            (one, x) not in apart and (other, x) not in apart for x in setup.nodes if x not in (one, other)
        ):
            return frozenset()
    return frozenset(setup.nodes)


def _with_a_quorum(setup: Setup, cuts: Sequence[Operation]) -> frozenset[int]:
    assert setup.voters is not None
    voters, everytime = Voters(setup.voters), frozenset(setup.nodes)
    rest_s = 5 * setup.detection.suspect_after_s
    if cuts[0].at_s < 2 * _STARTED_S or any(
        later.at_s < earlier.ends_s + rest_s for earlier, later in pairwise(cuts)
    ):
        return frozenset()
    for cut in cuts:
        sides = [frozenset(map(int, side.split())) for side in cut.text.split("|")]
        everytime &= next((side for side in sides if voters.is_quorum(side)), frozenset())
    return everytime
