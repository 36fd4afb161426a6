"""The promises of the protocol, one checker each, and the monitor that feeds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vcubeps.node.inputs import Join, Leave, Publish
from vcubeps.protocol.outputs import Output, Restarted, Started, Subscribed
from vcubeps.sim.explore.checkers.acknowledged import AcknowledgedArrives
from vcubeps.sim.explore.checkers.acquaintance import Acquaintance
from vcubeps.sim.explore.checkers.after_unsubscribe import AfterUnsubscribe
from vcubeps.sim.explore.checkers.agreement import Agreement
from vcubeps.sim.explore.checkers.base import Checker, Ledger, Violation, WorldAtEnd
from vcubeps.sim.explore.checkers.causal import Causal
from vcubeps.sim.explore.checkers.completeness import Completeness
from vcubeps.sim.explore.checkers.declared_dead import DeclaredDead
from vcubeps.sim.explore.checkers.errors import Errors
from vcubeps.sim.explore.checkers.fifo_reception import FifoReception
from vcubeps.sim.explore.checkers.floors import Floors
from vcubeps.sim.explore.checkers.hygiene import Hygiene
from vcubeps.sim.explore.checkers.integrity import Integrity
from vcubeps.sim.explore.checkers.liveness import Liveness
from vcubeps.sim.explore.checkers.quorum import Quorum
from vcubeps.sim.explore.checkers.split import Split
from vcubeps.sim.explore.checkers.views import Views
from vcubeps.sim.explore.checkers.winner import Winner
from vcubeps.sim.explore.voting import Voting

__all__ = ["CHECKERS", "CHECKER_NAMES", "PROMISES", "Checker", "Ledger", "Monitor", "Violation", "WorldAtEnd"]

CHECKERS: tuple[type[Checker], ...] = (
    Causal,
    Integrity,
    AfterUnsubscribe,
    FifoReception,
    Liveness,
    Completeness,
    Agreement,
    Views,
    Acquaintance,
    Hygiene,
    Floors,
    Errors,
    Split,
    Quorum,
    AcknowledgedArrives,
    DeclaredDead,
    Winner,
)
"""The last five say something only where voters decide."""

PROMISES: Mapping[str, str] = {checker.name: checker.promise for checker in CHECKERS}
"""Name of a checker → what it holds the peers to."""

CHECKER_NAMES: tuple[str, ...] = tuple(PROMISES)


class Monitor:
    """Feeds one schedule's events to all checkers, through one table per type of event."""

    def __init__(self, voting: Voting | None = None, winners: frozenset[int] = frozenset()) -> None:
        ledger = Ledger() if voting is None else Ledger(voting.voters, voting.contact, winners)
        self.checkers: tuple[Checker, ...] = tuple(checker(ledger) for checker in CHECKERS)
        # The ledger hears first: a checker that is called finds the event already recorded.
        self.outputs: dict[type[Output], list[Callable[[int, int, int, Any], None]]] = {
            Started: [ledger.on_started],
            Subscribed: [ledger.on_subscribed],
            Restarted: [ledger.on_restarted],
        }
        self.inputs: dict[str, list[Callable[..., None]]] = {
            "subscribe": [ledger.on_subscribe],
            "unsubscribe": [ledger.on_unsubscribe],
            "crash": [ledger.on_crash],
        }
        for checker in self.checkers:
            for output_type, on_output in checker.outputs().items():
                self.outputs.setdefault(output_type, []).append(on_output)
            for name, on_input in checker.inputs().items():
                self.inputs.setdefault(name, []).append(on_input)

    def on_output(self, time: int, node: int, incarnation: int, output: Output) -> None:
        for handler in self.outputs.get(type(output), ()):
            handler(time, node, incarnation, output)

    def observe(self, time: int, node: int, incarnation: int, what: object) -> None:
        """What a machine tells its observers: inputs and outputs of its peer."""
        if type(what) is Join:
            self.on_input("subscribe", time, node, incarnation, what.topic)
        elif type(what) is Leave:
            self.on_input("unsubscribe", time, node, incarnation, what.topic)
        elif type(what) is Publish:
            self.on_input("publish", time, node, incarnation, what.topic, what.payload)
        else:
            self.on_output(time, node, incarnation, what)  # type: ignore[arg-type]

    def on_input(self, name: str, time: int, node: int, incarnation: int, *arguments: object) -> None:
        for handler in self.inputs.get(name, ()):
            handler(time, node, incarnation, *arguments)

    def at_end(self, world: WorldAtEnd) -> None:
        for checker in self.checkers:
            checker.at_end(world)

    def at_overrun(self, world: WorldAtEnd) -> None:
        for checker in self.checkers:
            checker.at_overrun(world)

    @property
    def violations(self) -> list[Violation]:
        """All violations, by time; what is only seen at the end comes last."""
        found = [violation for checker in self.checkers for violation in checker.violations]
        return sorted(found, key=lambda violation: violation.time)
