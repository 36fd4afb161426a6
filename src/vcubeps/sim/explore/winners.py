"""Which nodes no cut of a schedule concerns: they are on the side of a quorum every time, and nothing else happens.

Only schedules of clean cuts, far apart, say so much. If nodes crash, are paused or suspected falsely, if some pairs
only are cut or a cut flaps, a node that is in contact with a quorum may be blamed by another that is too. So it may if
suspicion comes too soon after the end of contact: the last answers that a node got before a cut differ in age, so the
oldest must not make it suspect while the youngest still is contact.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from vcubeps.protocol.voters import Voters
from vcubeps.sim.explore.operations import USUAL_DELAY, Operation
from vcubeps.sim.explore.options import Options
from vcubeps.sim.explore.voting import AGE_MAX

_ORDINARY = frozenset({"subscribe", "unsubscribe", "publish", "cut"})


def winners(options: Options, operations: Sequence[Operation]) -> frozenset[int]:
    voting = options.voting
    cuts = sorted(operation for operation in operations if operation.kind == "cut")
    if voting is None or voting.hasty or not cuts or {each.kind for each in operations} - _ORDINARY:
        return frozenset()
    if voting.suspicion < voting.contact + AGE_MAX * voting.contact:
        return frozenset()
    apart = voting.suspicion + 10 * USUAL_DELAY
    if any(later.time < earlier.ends + apart for earlier, later in pairwise(cuts)):
        return frozenset()
    voters = Voters(voting.voters)
    everytime = frozenset(options.nodes)
    for cut in cuts:
        if "|" not in cut.topic:
            return frozenset()
        sides = [frozenset(map(int, side.split())) for side in cut.topic.split("|")]
        everytime &= next((side for side in sides if voters.is_quorum(side)), frozenset())
    return everytime
