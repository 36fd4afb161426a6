"""This node comes, or comes back: how its incarnation is let in by the others.

It says Hello to whom it knows of, and to those it is told of. Each answers with a Welcome when it has done with the
incarnation before (`admission`). This node is *up* when all that it believes alive have welcomed it and know of each
other; until then it keeps what it is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from vcubeps.protocol.admission import Admission
from vcubeps.protocol.crashes import Crashes
from vcubeps.protocol.local import LocalNode, StartAgain, merge_newest
from vcubeps.protocol.messages import (
    ANY_INCARNATION,
    Ack,
    AnyMessage,
    Ask,
    Card,
    Copy,
    Fence,
    Final,
    Flush,
    Hello,
    Incarnations,
    IsFinal,
    Over,
    Welcome,
)
from vcubeps.protocol.outputs import RestartReason, Up

Kept: TypeAlias = list[tuple[int, AnyMessage]]
"""Messages, with their senders, that came before this node was up."""


class Boot:
    """What one incarnation needs until it is up. Then `on_up` is called with what it has kept, and this one is done.

    Invariant: `_silent` are the living nodes that have not welcomed this one.
    """

    __slots__ = (
        "_admission", "_asked_back", "_asked_with", "_awaited", "_booting_too", "_crashes", "_founds", "_kept",
        "_lists", "_local", "_may_found", "_met", "_on_up", "_reported", "_silent", "_welcomed",
    )  # fmt: skip

    def __init__(
        self, local: LocalNode, crashes: Crashes, admission: Admission, on_up: Callable[[Kept], None]
    ) -> None:
        self._local = local
        self._crashes = crashes
        self._admission = admission
        self._on_up = on_up
        self._welcomed: Incarnations = {}
        """Node → newest incarnation of it that has welcomed this one."""
        self._founds = True
        """Nobody who is up has welcomed this node."""
        self._may_found: bool
        """Whether it is enough that those who boot too have answered; otherwise somebody who is up must let it in."""
        self._silent: set[int] = set(local.living)
        self._awaited: set[int] = set()
        """Absent nodes that may be there nevertheless: nobody has spoken for or against it."""
        self._met: list[int] = []
        """Nodes just met, who are to be asked."""
        self._lists: dict[int, Incarnations] = {}
        """Digest of the living → the living, for every digest that this node has asked with."""
        self._reported: dict[int, Incarnations] = {}
        """Node → whom it deals with, by its Welcomes. Equal ones are the same object."""
        self._asked_with: dict[int, tuple[int, bool]] = {}
        """Node → digest in the last Hello to it, and whether that named whom it did not know."""
        self._booting_too: set[int] = set()
        """Newcomers that have welcomed this one and were not up."""
        self._asked_back: Incarnations = {}
        """Node → newest incarnation whose Hello was answered by a Hello."""
        self._kept: Kept = []

    @property
    def unfinished(self) -> int:
        """Messages kept for later."""
        return len(self._kept)

    def check(self) -> None:
        """As `LocalNode.check`."""
        local = self._local
        assert not local.up, "boots although it is up"
        silent = {x for x, newest in local.living.items() if self._welcomed.get(x, -1) < newest}
        assert self._silent == silent, f"{self._silent} are silent instead of {silent}"
        assert not self._awaited & local.known.keys(), "awaits nodes that are known"

    # -- asking --------------------------------------------------------------------------------

    def start(self, expected: Iterable[int], seeds: Iterable[int], may_found: bool) -> None:
        """Say Hello to those known, to those expected, who are waited for, and to seeds, who are not."""
        self._may_found = may_found
        self._awaited = set(expected) - self._local.known.keys()
        for other in sorted({*self._local.known, *self._awaited, *seeds}):
            self.greet(other)
        self._try_up()

    def awaits(self, node: int) -> bool:
        return node in self._awaited

    def greet(self, other: int) -> None:
        """Say Hello."""
        local = self._local
        digest = local.digest
        self._asked_with[other] = digest, other in self._reported
        if digest not in self._lists:
            self._lists[digest] = dict(local.living)
        news: dict[int, Card] = {}
        if other in self._reported:
            reported = self._reported[other]
            news = {x: local.card_of(x) for x, newest in local.living.items() if reported.get(x, -1) < newest}
        local.send(other, Hello(local.incarnation, ANY_INCARNATION, local.card, digest, news))

    def _ask_those_met(self) -> None:
        met, self._met = self._met, []
        for other in met:
            self.greet(other)

    def _ask_back(self, other: int, incarnation: int) -> None:
        """Once: what was sent to `other` before it was heard of here directly may have been dropped. The runtime sends
        nothing to a node that has said goodbye until that node connects again."""
        if self._asked_back.get(other, -1) < incarnation:
            self._asked_back[other] = incarnation
            self.greet(other)

    def _meet(self, other: int, card: Card) -> None:
        """`other` is there as the incarnation on its card, unless it is known that this one ended."""
        local, incarnation = self._local, card.incarnation
        if other == local.me or incarnation <= local.ended(other):
            return
        if incarnation > local.known.get(other, -1):
            local.deal_with(other, card)
            self._crashes.begin_with(other)
            self._reported.pop(other, None)
            self._silent.add(other)
            self._awaited.discard(other)
            self._met.append(other)
        else:
            local.renew_card(other, card)

    # -- going up ------------------------------------------------------------------------------

    def _try_up(self) -> None:
        """Go up if all that live have welcomed this incarnation and know of each other, and they are a quorum.

        Without the second condition two nodes that came up on false or stale reports of each
        other's crash could both be members with this one and miss each other's publications.
        """
        local = self._local
        if self._silent or self._awaited or (self._founds and not self._may_found):
            return
        different = {id(reported): reported for reported in self._reported.values()}
        incomplete = {
            key
            for key, reported in different.items()
            if any(reported.get(x, -1) < newest for x, newest in local.living.items())
        }
        behind = [other for other in local.living if id(self._reported[other]) in incomplete]
        for other in behind:
            if self._asked_with.get(other) != (local.digest, True):
                self.greet(other)
        if behind or not local.has_quorum():
            return
        self._go_up()

    def _go_up(self) -> None:
        local = self._local
        local.up = True
        self._admission.came_up_with = self._welcomed
        self._crashes.start()
        for other, newest in local.dead.items():
            local.send(other, Fence(local.incarnation, ANY_INCARNATION, newest))
        self._crashes.try_final()
        local.emit(Up(local.incarnation, self._founds))
        # Newcomers among them wait for somebody who is up.
        for other in sorted(self._booting_too & local.living.keys()):
            self._admission.send_welcome(other, self._admission.digest_for(other), {}, admit=False)
        self._on_up(self._kept)

    # -- what comes meanwhile ------------------------------------------------------------------

    def on_message(self, sender: int, message: Copy | Ask | Ack | Flush | IsFinal | Final | Over) -> None:
        local = self._local
        self._meet(sender, Card(message.origin))
        self._ask_those_met()
        if type(message) is not Flush:
            self._kept.append((sender, message))
            return
        for flush in self._crashes.in_order(sender, message):
            if flush.dead.get(local.me, -1) >= local.incarnation:
                raise StartAgain(RestartReason.DECLARED_CRASHED, flush.dead[local.me])
            self._declare_dead(flush.dead)
            self._crashes.note_flushed(sender, flush.dead)
            self._crashes.answer(sender, flush)
        self._try_up()

    def _declare_dead(self, crashes: Incarnations) -> None:
        """Note what of these crashes is news."""
        news = self._local.unknown_crashes(crashes)
        if news:
            self._crashes.declare_dead(news)
            self._silent.difference_update(news)
            self._awaited.difference_update(news)

    def on_suspicion(self, node: int, incarnation: int) -> None:
        """That incarnation, the newest the driver knows of, has crashed."""
        self._declare_dead({node: incarnation})
        self._try_up()

    def on_hello(self, sender: int, hello: Hello) -> None:
        for other, introduced in (*hello.news.items(), (sender, hello.card)):
            self._meet(other, introduced)
        self._admission.send_welcome(sender, hello.digest, {}, admit=False)
        if sender not in self._met and self._welcomed.get(sender, -1) < hello.origin:
            self._ask_back(sender, hello.origin)
        self._ask_those_met()

    def on_welcome(self, sender: int, welcome: Welcome) -> None:
        if welcome.is_up:
            self._founds = False
            # Whom a node that is up does not deal with comes as a newcomer when it comes.
            self._awaited.clear()
        elif welcome.card.identity:
            self._booting_too.add(sender)
        self._meet(sender, welcome.card)
        self._met.clear()  # it has answered
        self._welcomed[sender] = welcome.origin
        self._silent.discard(sender)
        self._crashes.note_flushed(sender, welcome.dead)
        self._declare_dead(welcome.dead)
        if welcome.living is None:
            self._note_reported(sender, self._lists.get(welcome.digest, {}))
        else:
            self._note_reported(sender, {node: card.incarnation for node, card in welcome.living.items()})
            for node, card in welcome.living.items():
                self._meet(node, card)
        self._ask_those_met()
        self._try_up()

    def _note_reported(self, sender: int, dealt_with: Incarnations) -> None:
        """Added to what it has said before, because this may have been said earlier."""
        reported = self._reported.get(sender)
        if reported is not None and reported is not dealt_with:
            dealt_with = dict(dealt_with)
            merge_newest(dealt_with, reported)
        self._reported[sender] = dealt_with
