"""What happens in one run, as arrays: who is a member, who publishes when and where, who joins and leaves.

A workload is the common input of the reference simulation and of the kernel. It says nothing about
systems or delays, so that all systems are measured on the same events.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def _none() -> Ints:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Workload:
    """Events of one run. Times in u.t.; equal times happen in the order of the arrays, changes first.

    What a node cannot do at its time is left out of the run: a join if it has asked to subscribe and
    not to leave since; a publication if its subscription is not in effect, or it has asked to leave; a
    leave likewise, except that the amended protocol lets a node leave before its subscription is in
    effect. (These are the `can_…` of `protocol.peer`; the published algorithm says the same by its own
    view and by `Subscribed`.)
    """

    nodes: int
    """Nodes 0 … nodes − 1 exist; a power of two."""
    members: NDArray[np.bool_]
    """(topic, node) → whether it is a member when the run begins."""
    publish_ut: Ints = field(default_factory=_none)
    """Ascending."""
    publish_node: Ints = field(default_factory=_none)
    publish_topic: Ints = field(default_factory=_none)
    change_ut: Ints = field(default_factory=_none)
    """Ascending."""
    change_node: Ints = field(default_factory=_none)
    change_topic: Ints = field(default_factory=_none)
    change_joins: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    """Whether the change is a join; otherwise it is a leave."""
    answers_after: int = 0
    """Each node that has not published answers once, after so many deliveries on topic 0; 0: nobody answers."""
    answer_wait_ut: Ints = field(default_factory=_none)
    """Node → time from its last awaited delivery to its answer."""
    roots: Ints = field(default_factory=_none)
    """Topic → root of its tree, for the systems that have one."""
    brokers: int = 0
    """With brokers (a power of two): nodes 0 … brokers − 1 are brokers and no members, and node brokers + j is
    attached to broker j mod brokers; roots are brokers. 0: there are none."""

    @property
    def topics(self) -> int:
        return int(self.members.shape[0])

    @property
    def dimension(self) -> int:
        return (self.nodes - 1).bit_length()
