"""The rules of a whole node, each with a way to switch it off: what the world of nodes is measured by.

    .venv/bin/python tests/node_ablations.py NAME [SCHEDULES]

measures how often random schedules catch one, which checkers trip, and the first schedules in which they do. When the
world's draws have changed, run it and correct `first`.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from vcubeps.node.detector import Detector
from vcubeps.node.frames import OutOfPlace
from vcubeps.node.link import Link
from vcubeps.node.links import Links
from vcubeps.node.machine import Machine
from vcubeps.node.majority import Majority
from vcubeps.node.retransmission import Outbox
from vcubeps.sim.explore.campaigns import schedule_seed
from vcubeps.sim.explore.nodes.faults import FAULTS
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
    faults: frozenset[str] = frozenset(FAULTS)
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


ABLATIONS: Mapping[str, Ablation] = {
    "no-indirect-probes": Ablation(
        "A silent node counts as crashed only if others do not reach it either.",
        _no_indirect_probes, frozenset({"unharmed"}), 2, frozenset({"pairs"}), frozenset({"pairs"}),
    ),
    "no-majority": Ablation(
        "A node without a quorum is isolated.",
        _no_majority, frozenset({"isolated"}), 12, frozenset({"sides"}), frozenset({"sides"}),
    ),
    "no-resend": Ablation(
        "What may have been lost with a connection is sent again on the next.",
        _no_resend, frozenset({"refused"}), 8, frozenset({"reset"}), frozenset({"reset"}),
    ),
    "newcomers-not-watched": Ablation(
        "A node that is back, and not let in yet, is asked for signs of life, and counts as contact.",
        _newcomers_not_watched, frozenset({"recovery"}), 34,
    ),
    "goodbye-is-not-final": Ablation(
        "A greeting of a process that has said goodbye is void.",
        _goodbye_is_not_final, frozenset({"refused"}), 27,
        frozenset({"close", "pairs", "sides", "flapping"}), frozenset({"close", "pairs"}),
    ),
    "relays-lose-nothing": Ablation(
        "A relay may have lost a frame: nobody is blamed for what is out of place then.",
        _relays_lose_nothing, frozenset({"failed"}), 339, frozenset(FAULTS), frozenset({"pairs"}),
    ),
    "voters-like-others": Ablation(
        "Voters are asked first when contact with a quorum is about to run out.",
        _voters_like_others, frozenset({"liveness"}), 31, frozenset(), frozenset(), (8, 12),
    ),
    "isolated-may-suspect": Ablation(
        "An isolated node suspects nobody.",
        _isolated_may_suspect, frozenset({"unharmed"}), 2, frozenset({"sides"}), frozenset({"sides"}),
    ),
}  # fmt: skip


def measure(name: str, schedules: int) -> None:
    if name not in ABLATIONS:
        raise SystemExit(f"no ablation is called {name!r}: give one of the names that are listed without any")
    ablation = ABLATIONS[name]
    counts: Counter[str] = Counter()
    caught: list[tuple[int, tuple[str, ...]]] = []
    with Patch.context() as patch:
        ablation.apply(patch)
        for index in range(schedules):
            violated = run_schedule(schedule_seed(CAMPAIGN_SEED, index), ablation.allowed).violated
            counts.update(violated)
            if violated:
                caught.append((index, violated))
    print(f"{name}: {len(caught)} of {schedules}")
    print(f"  {dict(counts)}")
    for index, violated in caught[:4]:
        print(f"  schedule {index}: {', '.join(violated)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description="How often do random schedules catch that a rule of whole nodes is left out?",
        epilog="Without a name: lists all of them, with the rules that they leave out.",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="of the ablation")
    parser.add_argument("schedules", nargs="?", type=int, default=300, help="to run (default: 300)")
    args = parser.parse_args()
    if args.name is not None:
        measure(args.name, args.schedules)
        return
    for name, ablation in ABLATIONS.items():
        print(f"{name}\n    {ablation.rule}")


if __name__ == "__main__":
    main()
