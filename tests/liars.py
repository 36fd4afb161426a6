"""A member that lies: some of what it sends is altered, and some is invented. For tests of those who believe it.

Whatever it says, an honest peer refuses it (`ProtocolViolation`) or lives with it: it raises nothing else, and its
invariants hold. What is promised to applications is void, as long as liars are members.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

from msgspec.structs import asdict, replace

from vcubeps.protocol.batches import Batch
from vcubeps.protocol.errors import ProtocolViolation
from vcubeps.protocol.limits import COUNTERS_PER_INCARNATION
from vcubeps.protocol.messages import (
    ANY_INCARNATION,
    Ack,
    AnyMessage,
    Ask,
    Broadcast,
    Card,
    Copy,
    Fence,
    Final,
    Flush,
    Hello,
    IsFinal,
    Over,
    Publication,
    Report,
    Subscription,
    Taken,
    Unsubscription,
    Welcome,
)
from vcubeps.protocol.outputs import Output, Send
from vcubeps.sim.explore import Allowed, Outcome, run_operations
from vcubeps.sim.explore.algorithms import ALGORITHMS
from vcubeps.sim.explore.checked import CheckedPeer
from vcubeps.sim.explore.options import draw_options
from vcubeps.sim.explore.schedule import draw_operations

ALTERED, INVENTED = 0.08, 0.05
"""Share of its messages that are altered; chance of an invented one after each of its inputs."""


class Fibs:
    """Numbers and messages that may look right, about the nodes of one world."""

    def __init__(self, rng: Random, nodes: tuple[int, ...]) -> None:
        self._rng = rng
        self._nodes = nodes

    def _node(self) -> int:
        return self._rng.choice(self._nodes)

    def _incarnation(self) -> int:
        return self._rng.choice((0, 0, 1, 1, 2, 3, 16))

    def _counter(self) -> int:
        return self._rng.choice((0, 0, 0, 1, 2)) * COUNTERS_PER_INCARNATION + self._rng.randint(1, 30)

    def _few(self) -> range:
        return range(self._rng.randint(0, 3))

    def _odds(self, share: float) -> bool:
        return self._rng.random() < share

    def _crashes(self) -> dict[int, int]:
        return {self._node(): self._incarnation() for _ in self._few()}

    def _card(self) -> Card:
        return Card(self._incarnation(), self._rng.choice((0, 0, 1, 77)), self._rng.choice((b"", b"x")))

    def _cards(self) -> dict[int, Card]:
        return {self._node(): self._card() for _ in self._few()}

    def _report(self) -> Report:
        return Report(self._counter(), self._counter(), self._odds(0.5))

    def _barrier(self) -> dict[int, int]:
        return {self._node(): self._counter() for _ in self._few()}

    def _publication(self) -> Publication:
        counter, digest = self._counter(), self._rng.getrandbits(64)
        return Publication(
            self._node(),
            "a",
            counter,
            Batch(counter, (b"\0lie",)),
            self._barrier(),
            digest,
            self._rng.randint(0, 99),
        )

    def _broadcast(self) -> Broadcast:
        kind = self._rng.choice((Publication, Subscription, Unsubscription))
        if kind is Subscription:
            return Subscription(self._node(), "a", self._counter())
        if kind is Unsubscription:
            return Unsubscription(
                self._node(), "a", self._counter(), self._barrier(), self._rng.randint(0, 99)
            )
        return self._publication()

    def invent(self, me: int, destination: int) -> AnyMessage:
        rng = self._rng
        origin = me if self._odds(0.7) else self._incarnation()
        target = self._incarnation() if self._odds(0.7) else ANY_INCARNATION
        clock, hop, digest = rng.randint(0, 99), rng.randint(1, 40), rng.getrandbits(64)
        card = replace(self._card(), incarnation=origin)
        recipients = {destination: self._counter(), **self._barrier()}
        held = {"a": {lie.source: lie for lie in [self._publication()] if self._odds(0.5)}}
        subscriptions = {topic: (self._counter(), self._counter()) for topic in ("a", "b") if self._odds(0.5)}
        return rng.choice(
            (
                Copy(origin, target, hop, recipients, self._crashes(), self._broadcast()),
                Copy(origin, target, hop, None, {}, self._broadcast()),
                Ask(origin, target, hop),
                Ack(
                    origin,
                    target,
                    hop,
                    {self._node(): self._report() for _ in self._few()},
                    self._odds(0.3),
                    self._crashes(),
                    clock,
                ),
                Flush(
                    origin,
                    target,
                    rng.randint(1, 4),
                    self._crashes(),
                    held,
                    self._counter(),
                    subscriptions,
                    self._odds(0.3),
                ),
                IsFinal(origin, target, self._crashes()),
                Final(origin, target, self._crashes()),
                Over(origin, target, self._crashes()),
                Hello(origin, ANY_INCARNATION, card, digest, self._cards()),
                Welcome(
                    origin,
                    target,
                    card,
                    self._crashes(),
                    digest,
                    self._cards() if self._odds(0.6) else None,
                    self._odds(0.5),
                    self._odds(0.5),
                ),
                Taken(origin, target, rng.choice((0, 1, 77))),
                Fence(origin, target, self._incarnation()),
            )
        )

    def alter(self, told: Any) -> Any:
        """`told` with one field changed, or a field of one of its fields."""
        name, value = self._rng.choice(list(asdict(told).items()))
        return replace(told, **{name: self._altered(name, value)})

    def _altered(self, name: str, value: Any) -> Any:
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            return self._rng.choice((value + 1, value - 1, self._counter(), self._incarnation()))
        if isinstance(value, (Publication, Subscription, Unsubscription)):
            return self.alter(value) if self._odds(0.6) else self._broadcast()
        if isinstance(value, Card):
            return self._card()
        if isinstance(value, dict):
            return self._altered_dict(name, value)
        return value

    def _altered_dict(self, name: str, value: dict[Any, Any]) -> dict[Any, Any]:
        changed = dict(value)
        if changed and self._odds(0.5):
            del changed[self._rng.choice(list(changed))]
        elif name in ("dead", "fresh"):
            changed[self._node()] = self._incarnation()
        elif name in ("recipients", "barrier"):
            changed[self._node()] = self._counter()
        elif name in ("news", "living"):
            changed[self._node()] = self._card()
        elif name == "reports":
            changed[self._node()] = self._report()
        return changed


class MemberAmongLiars(CheckedPeer):
    """Refuses what is unsound, as the runtime does; and lies itself, if it is the liar."""

    __slots__ = ("_fibs", "_is_started", "_rng", "_world")

    def __init__(self, node: int, *arguments: Any, liar: int, world: tuple[int, ...], **options: Any) -> None:
        self._world = world
        super().__init__(node, *arguments, **options)
        self._rng = Random(f"{node} {self.incarnation}") if node == liar else None
        self._fibs = Fibs(self._rng or Random(0), world)

    def receive(self, sender: int, message: object) -> list[Output]:
        try:
            return super().receive(sender, message)
        except ProtocolViolation:
            return []

    def _take_outputs(self) -> list[Output]:
        # Whoever believes a liar may speak to nodes that do not exist.
        outputs = [
            output
            for output in super()._take_outputs()
            if type(output) is not Send or output.destination in self._world
        ]
        if self._rng is None:
            return outputs
        told: list[Output] = []
        for output in outputs:
            if type(output) is Send and self._rng.random() < ALTERED:
                told.append(replace(output, message=self._fibs.alter(output.message)))
            else:
                told.append(output)
        if self.present and self._rng.random() < INVENTED:
            believer = self._rng.choice(sorted(self.present))
            told.append(Send(believer, self._fibs.invent(self.incarnation, believer)))
        return told


def run_with_a_liar(seed: int, allowed: Allowed) -> Outcome:
    """The schedule `seed`, in which one of the nodes lies."""
    options = draw_options(seed, allowed)
    liar = options.nodes[seed % len(options.nodes)]
    name = "among liars"
    ALGORITHMS[name] = partial(MemberAmongLiars, liar=liar, world=options.nodes)
    try:
        return run_operations(seed, options, draw_operations(seed, options), name)
    finally:
        del ALGORITHMS[name]
