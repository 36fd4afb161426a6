"""What may happen to nodes, their machines and the network between them: names, meanings, how often.

Each fault draws from a stream of its own (`stream`): one more in this table changes no schedule that does not have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from vcubeps.mixing import mix

FAULTS: Mapping[str, tuple[str, float]] = {
    "kill": ("a process is killed; most are started again", 0.5),
    "vanish": ("a machine loses power: its connections stay half open", 0.25),
    "stop": ("a process is stopped and continued", 0.35),
    "close": ("a node is closed in good order, and started again", 0.3),
    "rolling": ("all nodes are restarted, one after the other", 0.06),
    "sides": ("the network is cut into two or three sides", 0.35),
    "pairs": ("some pairs of nodes do not reach each other", 0.35),
    "one-way": ("what a node sends does not arrive", 0.2),
    "flapping": ("a cut comes and goes", 0.1),
    "reset": ("connections are reset in the middle of a frame", 0.3),
    "narrow": ("a node's connections are slow", 0.15),
    "bulk": ("an application publishes large messages", 0.2),
    "deaf": ("a node refuses new connections", 0.1),
    "stuck": ("an application does not read", 0.25),
    "slow": ("an application reads slowly", 0.15),
    "slow-disk": ("what a node stores takes long", 0.15),
    "disk-failure": ("a node cannot store its incarnation", 0.08),
    "old-disk": ("a node is started with an older disk, or an empty one, and then with the right one", 0.06),
    "clock": ("a machine sleeps: its clock jumps forward", 0.1),
    "late": ("a node starts for the first time when the others have run for long", 0.15),
    "other-file": ("a node is started with another cluster file, and then with the right one", 0.08),
    "declare-dead": ("an operator says that a node has crashed, and it lives", 0.15),
}
"""Name → meaning, and in what share of the schedules that may have it, it happens."""

ON_REQUEST = frozenset({"declare-dead"})
"""Those that happen only where they are asked for by name, or all are: somebody does what he is warned of."""

USUAL = frozenset(FAULTS) - ON_REQUEST


def stream(seed: int, name: str) -> Random:
    """The chances of schedule `seed` that `name` decides about."""
    return Random(mix(seed, 32, *name.encode()))
