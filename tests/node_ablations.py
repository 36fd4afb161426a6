"""The rules of a whole node, each with a way to switch it off: what the world of nodes is measured by.

    .venv/bin/python tests/node_ablations.py NAME [SCHEDULES]

measures how often random schedules catch one, which checkers trip, and the first schedules in which they do. When the
world's draws have changed, run it and correct `first`.

One rule could not be caught: that a greeting says which incarnation is dead. Whoever declares a node dead also tells
it so in a message, which its link keeps and sends right after the greeting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

import measuring
from vcubeps.node import backoff
from vcubeps.node.detector import Detector
from vcubeps.node.frames import OutOfPlace
from vcubeps.node.link import Link, Ways
from vcubeps.node.links import Links
from vcubeps.node.machine import Machine
from vcubeps.node.majority import Majority
from vcubeps.node.outputs import Failed
from vcubeps.node.retransmission import Inbox, Outbox
from vcubeps.node.standing import Standing
from vcubeps.sim.explore.nodes.faults import USUAL
from vcubeps.sim.explore.nodes.search import run_schedule
from vcubeps.sim.explore.nodes.setup import Allowed

Patch = pytest.MonkeyPatch

CAMPAIGN_SEED = 13


@dataclass(frozen=True, slots=True)
class Ablation:
    rule: str
    apply: Callable[[Patch], None]
    trips: frozenset[str]
    """Checkers that find something, all in one schedule."""
    first: int
    """Number of a schedule of the campaign in which they do."""
    faults: frozenset[str] = USUAL
    always: frozenset[str] = frozenset()
    nodes: tuple[int, int] = (2, 8)

    @property
    def allowed(self) -> Allowed:
        return Allowed(*self.nodes, self.faults, self.always)


def _nothing(*_: Any, **__: Any) -> None:
    """In place of what is left out."""


def _no_indirect_probes(patch: Patch) -> None:
    patch.setattr(Detector, "_ask_others", _nothing)


def _no_majority(patch: Patch) -> None:
    patch.setattr(Majority, "is_isolated", lambda self, now_s: False)


def _no_resend(patch: Patch) -> None:
    resume = Outbox.resume

    def all_arrived(self: Outbox, received: int) -> None:
        resume(self, max(received, self.first - 1 + self._sent))

    patch.setattr(Outbox, "resume", all_arrived)


def _newcomers_not_watched(patch: Patch) -> None:
    patch.setattr(Machine, "_is_living", lambda self, other: not self.peer.believes_dead(other))


def _goodbye_is_not_final(patch: Patch) -> None:
    check = Link._check

    def as_if_still_there(self: Link, connection: Any, greeting: Any) -> None:
        gone, self.gone = self.gone, -1
        try:
            check(self, connection, greeting)
        finally:
            self.gone = gone

    patch.setattr(Link, "_check", as_if_still_there)


def _relays_lose_nothing(patch: Patch) -> None:
    punish = Links._punish

    def strict(self: Links, connection: Any, error: Exception) -> None:
        if isinstance(error, OutOfPlace):
            raise ValueError(str(error))
        punish(self, connection, error)

    patch.setattr(Links, "_punish", strict)


def _voters_like_others(patch: Patch) -> None:
    patch.setattr(Machine, "to_ask_first", lambda self: None)


def _isolated_may_suspect(patch: Patch) -> None:
    patch.setattr(Machine, "may_suspect", lambda self: True)


def _no_relays(patch: Patch) -> None:
    patch.setattr(Links, "connect_by", _nothing)


def _no_backoff(patch: Patch) -> None:
    patch.setattr(backoff, "_PAUSE_S", 0.0)


def _own_lateness_unnoticed(patch: Patch) -> None:
    patch.setattr(Detector, "on_late", _nothing)


def _old_incarnations_are_heard(patch: Patch) -> None:
    check = Link._check

    def as_if_new(self: Link, connection: Any, greeting: Any) -> None:
        newest, self.incarnation = self.incarnation, -1
        try:
            check(self, connection, greeting)
        finally:
            self.incarnation = newest

    patch.setattr(Link, "_check", as_if_new)


def _gaps_go_unnoticed(patch: Patch) -> None:
    _no_resend(patch)
    is_new = Inbox.is_new

    def anything(self: Inbox, number: int, size: int) -> bool:
        self.last = max(self.last, number - 1)
        return is_new(self, number, size)

    patch.setattr(Inbox, "is_new", anything)


def _failure_is_not_the_end(patch: Patch) -> None:
    def lightly(self: Standing, reason: str, is_refusal: bool) -> None:
        self._context.outputs.insert(0, Failed(reason, is_refusal))

    patch.setattr(Standing, "fail", lightly)


def _connections_are_kept(patch: Patch) -> None:
    ended = Ways.ended

    def kept(self: Ways, connection: Any) -> None:
        ended(self, connection)
        self.connections[connection] = None

    patch.setattr(Ways, "ended", kept)


def _bursts_have_no_limit(patch: Patch) -> None:
    take_unsent, prepare = Outbox.take_unsent, Outbox.__init__
    patch.setattr(Outbox, "take_unsent", lambda self, bytes_max=0: take_unsent(self))
    patch.setattr(Outbox, "__init__", lambda self, bytes_max: prepare(self, 1 << 30))


def _closing_has_no_limit(patch: Patch) -> None:
    patch.setattr(Standing, "_closed", _nothing)


ABLATIONS: Mapping[str, Ablation] = {
    "no-indirect-probes": Ablation(
        "A silent node counts as crashed only if others do not reach it either.",
        _no_indirect_probes, frozenset({"unharmed"}), 2, frozenset({"pairs"}), frozenset({"pairs"}),
    ),
    "no-majority": Ablation(
        "A node without a quorum is isolated.",
        _no_majority, frozenset({"isolated"}), 6, frozenset({"sides"}), frozenset({"sides"}),
    ),
    "no-resend": Ablation(
        "What may have been lost with a connection is sent again on the next.",
        _no_resend, frozenset({"refused"}), 1, frozenset({"reset"}), frozenset({"reset"}),
    ),
    "newcomers-not-watched": Ablation(
        "A node that is back, and not let in yet, is asked for signs of life, and counts as contact.",
        _newcomers_not_watched, frozenset({"recovery"}), 2,
    ),
    "goodbye-is-not-final": Ablation(
        "A greeting of a process that has said goodbye is void.",
        _goodbye_is_not_final, frozenset({"refused"}), 33,
        frozenset({"close", "pairs", "sides", "flapping"}), frozenset({"close", "pairs"}),
    ),
    "relays-lose-nothing": Ablation(
        "A relay may have lost a frame: nobody is blamed for what is out of place then.",
        _relays_lose_nothing, frozenset({"failed"}), 98, USUAL, frozenset({"pairs"}),
    ),
    "voters-like-others": Ablation(
        "Voters are asked first when contact with a quorum is about to run out.",
        _voters_like_others, frozenset({"recovery"}), 437, frozenset(), frozenset(), (8, 12),
    ),
    "isolated-may-suspect": Ablation(
        "An isolated node suspects nobody.",
        _isolated_may_suspect, frozenset({"unharmed"}), 23, frozenset({"sides"}), frozenset({"sides"}),
    ),
    "no-relays": Ablation(
        "Two nodes that do not reach each other talk through a third.",
        _no_relays, frozenset({"progress"}), 38, frozenset({"pairs"}), frozenset({"pairs"}), (3, 8),
    ),
    "no-backoff": Ablation(
        "Restarts back off.",
        _no_backoff, frozenset({"restarts"}), 9, frozenset({"declare-dead"}), frozenset({"declare-dead"}),
    ),
    "own-lateness-unnoticed": Ablation(
        "A process that was held up blames nobody for that time.",
        _own_lateness_unnoticed, frozenset({"unharmed"}), 27, frozenset({"stop"}), frozenset({"stop"}),
    ),
    "old-incarnations-are-heard": Ablation(
        "A node that starts as an incarnation that was used before is refused.",
        _old_incarnations_are_heard, frozenset({"outdated"}), 12, frozenset({"old-disk"}), frozenset({"old-disk"}),
    ),
    "gaps-go-unnoticed": Ablation(
        "Messages of a link are numbered, and none is missing.",
        _gaps_go_unnoticed, frozenset({"links"}), 0, frozenset({"reset"}), frozenset({"reset"}),
    ),
    "failure-is-not-the-end": Ablation(
        "After a failure nothing is sent any more.",
        _failure_is_not_the_end, frozenset({"fail_stop"}), 1, frozenset({"disk-failure"}), frozenset({"disk-failure"}),
    ),
    "connections-are-kept": Ablation(
        "Connections that have ended are forgotten.",
        _connections_are_kept, frozenset({"bounded"}), 0, frozenset({"reset"}), frozenset({"reset"}),
    ),
    "bursts-have-no-limit": Ablation(
        "Little is handed to the network at a time: signs of life do not wait behind large messages.",
        _bursts_have_no_limit, frozenset({"contact"}), 23, frozenset({"bulk", "narrow"}), frozenset({"bulk", "narrow"}),
    ),
    "closing-has-no-limit": Ablation(
        "A node that is closed ends, whatever the others do.",
        _closing_has_no_limit, frozenset({"closed"}), 2, frozenset(), frozenset(),
    ),
}  # fmt: skip


def measure(name: str, schedules: int) -> None:
    ablation = ABLATIONS[name]

    def violated(seed: int) -> tuple[str, ...]:
        return run_schedule(seed, ablation.allowed).violated

    measuring.measure(name, ablation.apply, violated, CAMPAIGN_SEED, schedules)


if __name__ == "__main__":
    measuring.main({name: each.rule for name, each in ABLATIONS.items()}, measure, "whole nodes", 300)
