"""Named faults among eight nodes that talk all the time: what an operator may want to see once, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vcubeps.node.settings import Detection
from vcubeps.sim.explore.nodes.schedule import Operation
from vcubeps.sim.explore.nodes.setup import Setup

FAULT_AT_S = 3.0
_TALK_S = 0.05
"""Between two publications."""

_NODES = tuple(range(8))


@dataclass(frozen=True, slots=True)
class Scenario:
    what: str
    faults: tuple[Operation, ...]
    until_s: float = 10.0
    """The nodes talk until then."""
    starts: tuple[int, ...] = _NODES
    """Those that are started at the beginning."""
    members: tuple[int, ...] = _NODES
    """Those that subscribe at the beginning."""
    nodes: tuple[int, ...] = _NODES
    partition: str = "majority"

    @property
    def setup(self) -> Setup:
        return Setup(
            nodes=self.nodes,
            voters=self.nodes if self.partition == "majority" else None,
            detection=Detection(),
            delay_s=0.001,
            slow_of_256=0,
            split_of_256=0,
            late_turns_of_256=0,
            drift=0.0,
            small_limits=False,
            faults=frozenset(),
            topics=1,
            operations=0,
            gap_s=_TALK_S,
            has_instant_disk=True,
            has_even_delays=True,
        )

    @property
    def operations(self) -> tuple[Operation, ...]:
        operations = [Operation(0.0, "start", node) for node in self.starts]
        operations += [Operation(0.5, "subscribe", node, "a") for node in self.members]
        for number in range(int((self.until_s - 1.0) / _TALK_S)):
            node = self.members[number % len(self.members)]
            operations.append(Operation(round(1.0 + number * _TALK_S, 6), "publish", node, "a"))
        return tuple(sorted([*operations, *self.faults]))


def _fault(
    kind: str, node: int = -1, text: str = "", for_s: float = 0.0, after_s: float = 0.0, number: int = 1
) -> Operation:
    return Operation(FAULT_AT_S + after_s, kind, node, text, for_s, number)


SCENARIOS: Mapping[str, Scenario] = {
    "kill": Scenario("one node is killed", (_fault("kill", 5),)),
    "power": Scenario(
        "a machine loses power: nobody says that its connections have ended", (_fault("vanish", 5),)
    ),
    "kill-three": Scenario(
        "three nodes are killed at once", tuple(_fault("kill", node) for node in (2, 5, 7))
    ),
    "stopped": Scenario("a process is stopped for 6 s, and continued", (_fault("stop", 5, for_s=6.0),), 12.0),
    "pair": Scenario(
        "two nodes do not reach each other for 6 s", (_fault("cut", text="2/5", for_s=6.0),), 11.0
    ),
    "one-of-eight": Scenario(
        "one node is cut off for 6 s", (_fault("cut", text="5|0 1 2 3 4 6 7", for_s=6.0),), 12.0
    ),
    "hears-only": Scenario(
        "one node hears all, and what it says does not arrive, for 6 s",
        (_fault("cut", text=" ".join(f"5>{node}" for node in _NODES if node != 5), for_s=6.0),),
        12.0,
    ),
    "halves": Scenario(
        "four against four, for 6 s", (_fault("cut", text="0 1 2 3|4 5 6 7", for_s=6.0),), 12.0
    ),
    "flapping": Scenario(
        "a cut between 0-4 and 5-7 comes and goes",
        tuple(_fault("cut", text="0 1 2 3 4|5 6 7", for_s=2.5, after_s=3.0 * turn) for turn in range(4)),
        18.0,
    ),
    "again-and-again": Scenario(
        "one node is cut off four times within a minute: from the third time on its restarts back off",
        tuple(_fault("cut", text="5|0 1 2 3 4 6 7", for_s=3.0, after_s=9.0 * turn) for turn in range(4)),
        36.0,
    ),
    "declared-dead": Scenario(
        "an operator says of a node that lives that it has crashed", (_fault("declare-dead", 2, number=5),)
    ),
    "close-unread": Scenario(
        "a node is closed, and the application of another does not read: what is not acknowledged is said",
        (_fault("stuck", 5, for_s=8.0), _fault("close", 2, after_s=2.0)),
        12.0,
    ),
    "rolling": Scenario(
        "all nodes are restarted in order",
        tuple(
            operation
            for node in _NODES
            for operation in (
                _fault("close", node, after_s=node * 3.0),
                _fault("start", node, after_s=node * 3.0 + 2.5),
            )
        ),
        30.0,
    ),
    "join-late": Scenario(
        "a node subscribes while three others are dead and nobody knows it yet",
        (
            *(_fault("kill", node) for node in (2, 5, 7)),
            _fault("subscribe", 6, "a", after_s=0.01),
        ),
        members=(0, 1, 2, 3, 4, 5, 7),
    ),
    "full-disk": Scenario(
        "a node that has to start again cannot store its incarnation",
        (_fault("disk-failure", 5, for_s=20.0), _fault("stop", 5, for_s=6.0)),
        12.0,
    ),
    "other-file": Scenario(
        "a node is started with another cluster file",
        (_fault("kill", 5), _fault("other-file", 5, for_s=4.0, after_s=0.5)),
    ),
    "continue": Scenario(
        'four against four with partition = "continue"',
        (_fault("cut", text="0 1 2 3|4 5 6 7", for_s=6.0),),
        12.0,
        partition="continue",
    ),
}
"""By name."""
