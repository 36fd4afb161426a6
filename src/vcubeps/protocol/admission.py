"""Coming, and coming back: how an incarnation is let in, and what the others say to it meanwhile.

A node that comes says Hello to whom it knows of, and to those it is told of. Each of the others first declares the
old incarnation dead, if there is one, waits until that is final, and then answers Welcome. The newcomer is *up* when
all that it believes alive have welcomed it and know of each other; until then it keeps what it is sent.

Who is alive is told as a digest where both sides agree on it, and as a list only where they do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from vcubeps.protocol.crashes import Crashes
from vcubeps.protocol.local import LocalNode, StartAgain, fingerprint, merge_newest
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
    Taken,
    Welcome,
)
from vcubeps.protocol.outputs import IdTaken, RestartReason, Send, Up


class Admission:
    """The comings of nodes, this one's own included.

    Invariant, while booting: `_silent` are the living nodes that have not welcomed this one.
    """

    __slots__ = (
        "_asked_back", "_asked_with", "_awaited", "_booting_too", "_crashes", "_founds", "_hellos", "_lists", "_local",
        "_may_found", "_met", "_owed", "_replay", "_reported", "_silent", "_waiting", "_welcomed",
    )  # fmt: skip

    def __init__(self, local: LocalNode, replay: Callable[[int, AnyMessage], None]) -> None:
        self._local = local
        self._replay = replay
        self._crashes: Crashes
        self._welcomed: Incarnations = {}
        """Node → newest incarnation of it that welcomed this one while it was booting: those it came up with."""
        self._founds = True
        """Nobody who is up has welcomed this node."""
        self._may_found = True
        """Whether it is enough that those who boot too have answered; otherwise somebody who is up must let it in."""
        self._silent: set[int] = set()
        self._awaited: set[int] = set()
        """While booting: absent nodes that may be there nevertheless: nobody has spoken for or against it."""
        self._met: list[int] = []
        """While booting: nodes just met, who are to be asked."""
        self._lists: dict[int, Incarnations] = {}
        """While booting: digest of the living → the living, for every digest that this node has asked with."""
        self._reported: dict[int, Incarnations] = {}
        """While booting: node → whom it deals with, by its latest Welcome. Equal ones are the same object."""
        self._asked_with: dict[int, tuple[int, bool]] = {}
        """While booting: node → digest in the last Hello to it, and whether that named whom it did not know."""
        self._booting_too: set[int] = set()
        """While booting: newcomers that have welcomed this one and were not up."""
        self._asked_back: Incarnations = {}
        """While booting: node → newest incarnation whose Hello was answered by a Hello."""
        self._hellos: dict[int, Card] = {}
        """Node → card of the newest incarnation of it that asked to be let in and has not been yet."""
        self._owed: dict[tuple[int, int], tuple[int, Incarnations]] = {}
        """Incarnation of a node whose Hello is not answered yet → the digest that it asked with, and whom it wants
        to be dealt with before."""
        self._waiting: list[tuple[int, AnyMessage]] = []
        """While booting: messages for later."""

    def attach(self, crashes: Crashes) -> None:
        self._crashes = crashes

    def __len__(self) -> int:
        """Messages kept for later, newcomers not let in yet, and answers owed."""
        return len(self._waiting) + len(self._hellos) + len(self._owed)

    def check(self) -> None:
        """As `LocalNode.check`."""
        local = self._local
        if local.up:
            kept = (
                self._waiting, self._reported, self._asked_with, self._asked_back, self._lists, self._silent,
                self._awaited,
            )  # fmt: skip
            assert not any(kept), "keeps what only a node that boots needs"
        else:
            assert not self._hellos and not self._owed, "lets others in before it is let in itself"
            silent = {x for x, newest in local.living.items() if self._welcomed.get(x, -1) < newest}
            assert self._silent == silent, f"{self._silent} are silent instead of {silent}"
            assert not self._awaited & local.known.keys(), "awaits nodes that are known"

    # -- this node comes -----------------------------------------------------------------------

    def boot(self, expected: Iterable[int], seeds: Iterable[int], may_found: bool) -> None:
        """Say Hello to those known, to those expected, who are waited for, and to seeds, who are not."""
        self._may_found = may_found
        self._silent = set(self._local.living)
        self._awaited = set(expected) - self._local.known.keys()
        for other in sorted({*self._local.known, *self._awaited, *seeds}):
            self._say_hello(other)
        self.try_up()

    def greet(self, node: int) -> None:
        """Ask `node` too, or again. A node that is up finds out by its Welcome that they came up apart."""
        local = self._local
        if local.up and node in local.living:
            return
        if local.up:
            local.send(node, Hello(local.incarnation, ANY_INCARNATION, local.card, local.digest, {}))
        else:
            self._say_hello(node)

    def awaits(self, node: int) -> bool:
        return node in self._awaited

    def _say_hello(self, other: int) -> None:
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
            if other in self._local.living:
                self._say_hello(other)

    def try_up(self) -> None:
        """Go up if all that live have welcomed this incarnation and know of each other, and they are a quorum.

        Without the second condition two nodes that came up on false or stale reports of each
        other's crash could both be members with this one and miss each other's publications.
        """
        local = self._local
        if local.up or self._silent or self._awaited or (self._founds and not self._may_found):
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
                self._say_hello(other)
        if behind or not local.has_quorum():
            return
        self._go_up()

    def _go_up(self) -> None:
        local = self._local
        local.up = True
        for kept in (self._reported, self._asked_with, self._asked_back, self._lists, self._awaited):
            kept.clear()
        self._crashes.start()
        for other, newest in local.dead.items():
            local.send(other, Fence(local.incarnation, ANY_INCARNATION, newest))
        self._crashes.try_final()
        local.emit(Up(local.incarnation, self._founds))
        # Newcomers among them wait for somebody who is up.
        for other in sorted(self._booting_too & local.living.keys()):
            self._send_welcome(other, self._digest_for(other), {}, admit=False)
        self._booting_too.clear()
        waiting, self._waiting = self._waiting, []
        for sender, message in waiting:
            self._replay(sender, message)

    def on_message_while_booting(
        self, sender: int, message: Copy | Ask | Ack | Flush | IsFinal | Final | Over
    ) -> None:
        local = self._local
        self._meet(sender, Card(message.origin))
        self._ask_those_met()
        if type(message) is not Flush:
            self._waiting.append((sender, message))
            return
        for flush in self._crashes.in_order(sender, message):
            if flush.origin <= local.ended(sender):
                return
            if local.up:
                self._crashes.on_flush(sender, flush)
                continue
            if flush.dead.get(local.me, -1) >= local.incarnation:
                raise StartAgain(RestartReason.DECLARED_CRASHED, flush.dead[local.me])
            self.declare_dead(flush.dead)
            self._crashes.note_flushed(sender, flush.dead)
            if not flush.is_answer:
                self._crashes.answer(sender, flush)
            self.try_up()

    def declare_dead(self, crashes: Incarnations) -> None:
        """While booting: note what of these crashes is news."""
        news = self._local.unknown_crashes(crashes)
        if news:
            self._crashes.declare_dead(news)
            self._silent.difference_update(news)
            self._awaited.difference_update(news)

    def on_suspicion(self, node: int, incarnation: int) -> None:
        """While booting: that incarnation, the newest the driver knows of, has crashed."""
        self._awaited.discard(node)
        self.declare_dead({node: incarnation})
        self.try_up()

    def on_welcome(self, sender: int, welcome: Welcome) -> None:
        local, origin = self._local, welcome.origin
        if local.up:
            self._on_welcome_while_up(sender, welcome)
            return
        local.clock = max(local.clock, welcome.clock)
        if welcome.is_up:
            self._booting_too.discard(sender)
            self._founds = False
            # Whom a node that is up does not deal with comes as a newcomer when it comes.
            self._awaited.clear()
        elif welcome.card.identity:
            self._booting_too.add(sender)
        self._meet(sender, welcome.card)
        self._met.clear()  # it has answered
        self._welcomed[sender] = origin
        self._silent.discard(sender)
        self._crashes.note_flushed(sender, welcome.dead)
        self.declare_dead(welcome.dead)
        if welcome.living is None:
            self._note_reported(sender, self._lists.get(welcome.digest, {}))
        else:
            self._note_reported(sender, {node: card.incarnation for node, card in welcome.living.items()})
            for node, card in welcome.living.items():
                self._meet(node, card)
        self._ask_those_met()
        self.try_up()

    def on_welcome_for_another(self, sender: int, welcome: Welcome) -> None:
        """A Welcome for an earlier incarnation of this node. If the sender is absent here, it has let in one that is no
        more, and the one that is here knows nothing of it: they have to meet."""
        local = self._local
        if not welcome.admit or sender in local.known:
            return
        if local.up:
            raise StartAgain(RestartReason.CAME_UP_APART, told_by=frozenset({sender}))
        self._meet(sender, welcome.card)
        self._ask_those_met()

    def _note_reported(self, sender: int, dealt_with: Incarnations) -> None:
        """Added to what it has said before, because this may have been said earlier."""
        reported = self._reported.get(sender)
        if reported is not None and reported is not dealt_with:
            dealt_with = dict(dealt_with)
            merge_newest(dealt_with, reported)
        self._reported[sender] = dealt_with

    def _on_welcome_while_up(self, sender: int, welcome: Welcome) -> None:
        """Nobody is noted as having welcomed this node now: a Welcome that comes after it went up, and perhaps
        before one that was sent earlier, must not hide that it came up without the sender."""
        local, origin = self._local, welcome.origin
        if welcome.admit and self._welcomed.get(sender, -1) < origin:
            # This node came up without the sender, which lived: what it took part in since is void.
            if origin > local.known.get(sender, -1):
                local.deal_with(sender, welcome.card)
            raise StartAgain(RestartReason.CAME_UP_APART)
        local.clock = max(local.clock, welcome.clock)
        if origin > local.known.get(sender, -1):
            self._on_newcomers({sender: welcome.card})

    def _meet(self, other: int, card: Card) -> None:
        """While booting: `other` is there as the incarnation on its card, unless it is known that this one ended."""
        local, incarnation = self._local, card.incarnation
        if other == local.me or incarnation <= local.ended(other):
            return
        if incarnation > local.known.get(other, -1):
            local.deal_with(other, card)
            self._crashes.let_in(other)
            self._reported.pop(other, None)
            self._silent.add(other)
            self._awaited.discard(other)
            self._met.append(other)
        else:
            local.renew_card(other, card)

    # -- others come ---------------------------------------------------------------------------

    def on_hello(self, sender: int, hello: Hello) -> None:
        local, card = self._local, hello.card
        if self.is_taken(sender, card):
            taken = Taken(local.incarnation, hello.origin, card.identity)
            local.emit(Send(sender, taken, card.address))
            return
        if not local.up:
            for other, introduced in (*hello.news.items(), (sender, card)):
                self._meet(other, introduced)
            self._send_welcome(sender, hello.digest, {}, admit=False)
            if sender not in self._met and self._welcomed.get(sender, -1) < hello.origin:
                self._ask_back(sender, hello.origin)
            self._ask_those_met()
            return
        # Merged, because a Hello may overtake a later one that asks for more.
        _, wanted = self._owed.get((sender, hello.origin), (0, {}))
        merge_newest(wanted, {other: introduced.incarnation for other, introduced in hello.news.items()})
        self._owed[sender, hello.origin] = hello.digest, wanted
        self._on_newcomers({**hello.news, sender: card})

    def is_taken(self, node: int, card: Card) -> bool:
        """Whether somebody else has the id `node`; those who were there from the start have the identity 0."""
        known = self._local.cards.get(node)
        return known is not None and known.identity != card.identity

    def _ask_back(self, other: int, incarnation: int) -> None:
        """Once: `other` may not have been there when this node asked first."""
        if self._asked_back.get(other, -1) < incarnation:
            self._asked_back[other] = incarnation
            self._say_hello(other)

    def on_taken(self, taken: Taken) -> None:
        local = self._local
        if taken.identity == local.card.identity:
            local.emit(IdTaken())

    def _is_dealt_with(self, other: int, incarnation: int) -> bool:
        """Whether this incarnation of `other` has been let in here, or is no more."""
        local = self._local
        return incarnation <= max(local.known.get(other, -1), local.ended(other))

    def _on_newcomers(self, cards: dict[int, Card]) -> None:
        """These have been heard of: let in those that have not been, after the end of the ones before them."""
        local, ended = self._local, {}
        for other, card in cards.items():
            if other == local.me or self._is_dealt_with(other, card.incarnation):
                continue
            if other not in self._hellos or card.incarnation > self._hellos[other].incarnation:
                self._hellos[other] = card
            if other in local.known and local.ended(other) < card.incarnation - 1:
                ended[other] = card.incarnation - 1
        if ended:
            self._crashes.crashed(ended)
        self.welcome_newcomers()

    def welcome_newcomers(self) -> None:
        """Let in those whose previous incarnation is dealt with, and answer those who ask and can be answered."""
        if not self._hellos and not self._owed:
            return
        admitted = self._let_in()
        answered = self._take_answerable()
        for newcomer in admitted:
            digest, wanted = answered.pop(newcomer, (None, {}))
            self._send_welcome(newcomer, digest, wanted, admit=True)
        for asker, (digest, wanted) in answered.items():
            self._send_welcome(asker, digest, wanted, admit=False)

    def _let_in(self) -> list[int]:
        """Who is let in now: every known crash is final, that of the previous incarnation too."""
        local = self._local
        if not local.up or not local.is_settled():
            return []
        admitted = []
        for newcomer, card in list(self._hellos.items()):
            if self._is_dealt_with(newcomer, card.incarnation):
                del self._hellos[newcomer]
            elif newcomer not in local.living:
                del self._hellos[newcomer]
                local.deal_with(newcomer, card)
                self._crashes.let_in(newcomer)
                self._crashes.give_up_copies()
                admitted.append(newcomer)
        return admitted

    def _take_answerable(self) -> dict[int, tuple[int | None, Incarnations]]:
        """Who has asked and, like everyone that it wants to be dealt with, is dealt with here → what it asked with; it
        is owed no answer any more."""
        local = self._local
        answerable: dict[int, tuple[int | None, Incarnations]] = {}
        for (asker, origin), (digest, wanted) in list(self._owed.items()):
            if origin <= local.ended(asker):
                del self._owed[asker, origin]
            elif origin <= local.known.get(asker, -1) and all(
                other == local.me or self._is_dealt_with(other, incarnation)
                for other, incarnation in wanted.items()
            ):
                del self._owed[asker, origin]
                answerable[asker] = digest, wanted
        return answerable

    def _digest_for(self, destination: int) -> int:
        """That of the living as `destination` has to see them."""
        local = self._local
        target = local.living[destination]
        return local.digest ^ fingerprint(destination, target) ^ fingerprint(local.me, local.incarnation)

    def _send_welcome(
        self, destination: int, asked_with: int | None, wanted: Incarnations, admit: bool
    ) -> None:
        local = self._local
        if destination not in local.living:
            return
        target = local.living[destination]
        digest = self._digest_for(destination)
        living = None
        if digest != asked_with:
            living = {other: local.card_of(other) for other in local.living if other != destination}
            living[local.me] = local.card
        # Of what it wants to be dealt with, some may be no more, and forgotten here.
        dead = {x: newest for x, newest in wanted.items() if newest <= local.ended(x) and x != local.me}
        dead.update(local.dead)
        local.send(
            destination,
            Welcome(
                local.incarnation, target, local.card, dead, digest, living, local.clock, local.up, admit
            ),
        )
