"""Others come, and come back: how this node, which is up, lets their new incarnations in.

It first declares the old incarnation dead, if there is one, waits until that is final, and then answers Welcome. A
Welcome says who is alive, as a digest where both sides agree on it, and as a list only where they do not.

How this node itself is let in by others is in `boot`.
"""

from __future__ import annotations

from vcubeps.protocol.crashes import Crashes
from vcubeps.protocol.local import LocalNode, StartAgain, fingerprint, merge_newest
from vcubeps.protocol.messages import ANY_INCARNATION, Card, Hello, Incarnations, Taken, Welcome
from vcubeps.protocol.outputs import IdTaken, RestartReason, Send


class Admission:
    """Those who ask to be let in, and those who are owed an answer. Invariant: nobody before this node is up."""

    __slots__ = ("_crashes", "_hellos", "_local", "_owed", "came_up_with")

    def __init__(self, local: LocalNode) -> None:
        self._local = local
        self._crashes: Crashes
        self.came_up_with: Incarnations = {}
        """Node → newest incarnation of it that welcomed this one while it was booting."""
        self._hellos: dict[int, Card] = {}
        """Node → card of the newest incarnation of it that Hellos have named, until all known crashes are final; of two
        cards of one incarnation, the one that says more."""
        self._owed: dict[tuple[int, int], tuple[int, Incarnations]] = {}
        """Incarnation of a node whose Hello is not answered yet → the digest that it asked with, and whom it wants
        to be dealt with before."""

    def attach(self, crashes: Crashes) -> None:
        self._crashes = crashes

    @property
    def unfinished(self) -> int:
        """Newcomers not let in yet, and answers owed."""
        return len(self._hellos) + len(self._owed)

    def check(self) -> None:
        """As `LocalNode.check`."""
        assert self._local.up or not self.unfinished, "lets others in before it is let in itself"

    # -- two who came up apart -----------------------------------------------------------------

    def greet(self, node: int) -> None:
        """Ask whether `node` has come up without this one: its Welcome will say so."""
        local = self._local
        if node not in local.living:
            local.send(node, Hello(local.incarnation, ANY_INCARNATION, local.card, local.digest, {}))

    def on_welcome(self, sender: int, welcome: Welcome) -> None:
        """Nobody is noted as having welcomed this node now: a Welcome that comes after it went up, and perhaps
        before one that was sent earlier, must not hide that it came up without the sender. It lets nobody in either: a
        sender whom this node does not deal with boots, and says Hello, or lets this one in."""
        local, origin = self._local, welcome.origin
        if welcome.admit and self.came_up_with.get(sender, -1) < origin:
            # This node came up without the sender, which lived: what it took part in since is void.
            if origin > local.known.get(sender, -1):
                local.deal_with(sender, welcome.card)
            raise StartAgain(RestartReason.CAME_UP_APART)

    # -- one id for two ------------------------------------------------------------------------

    def is_taken(self, node: int, card: Card) -> bool:
        """Whether somebody else has the id `node`; those who were there from the start have the identity 0."""
        known = self._local.cards.get(node)
        return known is not None and known.identity != card.identity

    def tell_taken(self, sender: int, hello: Hello) -> None:
        local, card = self._local, hello.card
        local.emit(Send(sender, Taken(local.incarnation, hello.origin, card.identity), card.address))

    def on_taken(self, taken: Taken) -> None:
        local = self._local
        if taken.identity == local.card.identity:
            local.emit(IdTaken())

    # -- letting in ----------------------------------------------------------------------------

    def on_hello(self, sender: int, hello: Hello) -> None:
        local = self._local
        if local.living.get(sender) == hello.origin:
            # Whoever introduced it before may not have known where it is.
            local.renew_card(sender, hello.card)
        # Merged, because a Hello may overtake a later one that asks for more.
        _, wanted = self._owed.get((sender, hello.origin), (hello.digest, {}))
        merge_newest(wanted, {other: introduced.incarnation for other, introduced in hello.news.items()})
        self._owed[sender, hello.origin] = hello.digest, wanted
        self._on_newcomers({**hello.news, sender: hello.card})

    def _is_dealt_with(self, other: int, incarnation: int) -> bool:
        """Whether this incarnation of `other` has been let in here, or is no more."""
        local = self._local
        return incarnation <= max(local.known.get(other, -1), local.ended(other))

    def _on_newcomers(self, cards: dict[int, Card]) -> None:
        """These have been heard of: let in those that have not been, after the end of the ones before them."""
        local, ended = self._local, {}
        for other, card in cards.items():
            if other == local.me:
                continue
            self._hellos[other] = max(card, self._hellos.get(other, card))
            if other in local.known and local.ended(other) < card.incarnation - 1:
                ended[other] = card.incarnation - 1
        if ended:
            self._crashes.crashed(ended)
        self.welcome_newcomers()

    def welcome_newcomers(self) -> None:
        """Let in those whose previous incarnation is dealt with, and answer those who ask and can be answered."""
        admitted = self._let_in()
        answered = self._take_answerable()
        for newcomer in admitted:
            digest, wanted = answered.pop(newcomer, (None, {}))
            self.send_welcome(newcomer, digest, wanted, admit=True)
        for asker, (digest, wanted) in answered.items():
            self.send_welcome(asker, digest, wanted, admit=False)

    def _let_in(self) -> list[int]:
        """Who is let in now: every known crash is final, that of the previous incarnation too."""
        local = self._local
        if not local.is_settled():
            return []
        admitted = []
        hellos, self._hellos = self._hellos, {}
        for newcomer, card in hellos.items():
            # It may be no more by now.
            if not self._is_dealt_with(newcomer, card.incarnation):
                local.deal_with(newcomer, card)
                self._crashes.begin_with(newcomer)
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

    def digest_for(self, destination: int) -> int:
        """That of the living as `destination` has to see them."""
        local = self._local
        target = local.living[destination]
        return local.digest ^ fingerprint(destination, target) ^ fingerprint(local.me, local.incarnation)

    def send_welcome(
        self, destination: int, asked_with: int | None, wanted: Incarnations, admit: bool
    ) -> None:
        local = self._local
        target = local.living[destination]
        digest = self.digest_for(destination)
        living = None
        if digest != asked_with:
            living = {other: local.card_of(other) for other in local.living if other != destination}
            living[local.me] = local.card
        # Of what it wants to be dealt with, some may be no more, and forgotten here.
        dead = {x: newest for x, newest in wanted.items() if newest <= local.ended(x) and x != local.me}
        dead.update(local.dead)
        local.send(
            destination,
            Welcome(local.incarnation, target, local.card, dead, digest, living, local.up, admit),
        )
