"""Coming back: how a new incarnation is let in, and what the others say to it meanwhile.

A node that comes back says Hello to all. Each of the others first declares the old incarnation
dead, waits until that is final, and then answers Welcome. The newcomer is *up* when all that it
believes alive have welcomed it and know of each other; until then it keeps what it is sent.
"""

from __future__ import annotations

from collections.abc import Callable

from vcubeps.protocol.crashes import Crashes
from vcubeps.protocol.local import LocalNode, StartAgain, merge_newest
from vcubeps.protocol.messages import (
    ANY_INCARNATION,
    Ack,
    AnyMessage,
    Copy,
    Fence,
    Flush,
    Hello,
    Incarnations,
    Welcome,
)
from vcubeps.protocol.outputs import RestartReason, Up


class Admission:
    """The comings of nodes, this one's own included."""

    __slots__ = (
        "_asked_back", "_asked_with", "_crashes", "_hellos", "_local", "_owed", "_replay",
        "_reported", "_waiting", "_welcomed",
    )  # fmt: skip

    def __init__(self, local: LocalNode, replay: Callable[[int, AnyMessage], None]) -> None:
        self._local = local
        self._replay = replay
        self._crashes: Crashes
        self._welcomed: Incarnations = {}
        """Node → newest incarnation of it that welcomed this one while it was booting: those it came up with."""
        self._reported: dict[int, Incarnations] = {}
        """While booting: node → the incarnations it deals with, by its latest Welcome."""
        self._asked_with: dict[int, Incarnations] = {}
        """While booting: node → what the last Hello to it said."""
        self._asked_back: Incarnations = {}
        """While booting: node → newest incarnation whose Hello was answered by a Hello."""
        self._hellos: Incarnations = {}
        """Node → newest incarnation of it that asked to be let in and has not been yet."""
        self._owed: dict[tuple[int, int], Incarnations] = {}
        """Incarnation of a node whose Hello is not answered yet → the incarnations that it knows of."""
        self._waiting: list[tuple[int, AnyMessage]] = []
        """While booting: messages for later."""

    def attach(self, crashes: Crashes) -> None:
        self._crashes = crashes

    def __len__(self) -> int:
        """Messages kept for later, newcomers not let in yet, and answers owed."""
        return len(self._waiting) + len(self._hellos) + len(self._owed)

    def check(self) -> None:
        """As `LocalNode.check`."""
        if self._local.up:
            kept = (self._waiting, self._reported, self._asked_with, self._asked_back)
            assert not any(kept), "keeps what only a node that boots needs"
        else:
            assert not self._hellos and not self._owed, "lets others in before it is let in itself"

    # -- this node comes back ------------------------------------------------------------------

    def boot(self) -> None:
        for other in sorted(self._local.nodes):
            if other != self._local.me:
                self._say_hello(other)
        self.try_up()

    def _say_hello(self, other: int) -> None:
        local = self._local
        known = self._asked_with[other] = dict(local.known)
        local.send(other, Hello(local.incarnation, ANY_INCARNATION, known))

    def try_up(self) -> None:
        """Go up if all that live have welcomed this incarnation and know of each other, and they are a quorum.

        Without the second condition two nodes that came up on false or stale reports of each
        other's crash could both be members with this one and miss each other's publications.
        """
        local = self._local
        if local.up:
            return
        living = [other for other in sorted(local.nodes) if other != local.me and not local.is_dead(other)]
        if any(self._welcomed.get(other, -1) < local.known_incarnation(other) for other in living):
            return
        behind = [other for other in living if not self._knows_all(other, living)]
        for other in behind:
            if self._asked_with[other] != local.known:
                self._say_hello(other)
        if behind or not local.has_quorum():
            return
        self._go_up()

    def _knows_all(self, other: int, living: list[int]) -> bool:
        known, reported = self._local.known, self._reported.get(other, {})
        return all(reported.get(x, 0) >= known.get(x, 0) for x in living if x != other)

    def _go_up(self) -> None:
        local = self._local
        local.up = True
        self._reported.clear()
        self._asked_with.clear()
        self._asked_back.clear()
        self._crashes.flush()
        for other in sorted(local.dead):
            if local.is_dead(other):
                local.send(other, Fence(local.incarnation, ANY_INCARNATION, local.dead[other]))
        self._crashes.try_final()
        local.emit(Up(local.incarnation))
        waiting, self._waiting = self._waiting, []
        for sender, message in waiting:
            self._replay(sender, message)

    def on_message_while_booting(self, sender: int, message: Copy | Ack | Flush) -> None:
        local = self._local
        self._raise_known(sender, message.origin)
        if type(message) is not Flush:
            self._waiting.append((sender, message))
            return
        for flush in self._crashes.in_order(sender, message):
            if flush.origin <= local.dead.get(sender, -1):
                return
            if local.up:
                self._crashes.on_flush(sender, flush)
                continue
            if flush.dead.get(local.me, -1) >= local.incarnation:
                raise StartAgain(RestartReason.DECLARED_CRASHED)
            self._crashes.declare_dead(local.unknown_crashes(flush.dead))
            self._crashes.note_flushed(sender, flush.dead)
            self._crashes.answer_while_booting(sender)
            self.try_up()

    def on_welcome(self, sender: int, welcome: Welcome) -> None:
        local, origin = self._local, welcome.origin
        if local.up:
            self._on_welcome_while_up(sender, welcome)
            return
        local.clock = max(local.clock, welcome.clock)
        if origin > self._welcomed.get(sender, -1):
            self._welcomed[sender] = origin
        self._raise_known(sender, origin)
        if origin >= local.known_incarnation(sender):
            self._crashes.note_flushed(sender, welcome.dead)
            merge_newest(self._reported.setdefault(sender, {}), welcome.known)
        self._crashes.declare_dead(local.unknown_crashes(welcome.dead))
        self._raise_all(welcome.known)
        self.try_up()

    def _on_welcome_while_up(self, sender: int, welcome: Welcome) -> None:
        """Nobody is noted as having welcomed this node now: a Welcome that comes after it went up, and perhaps
        before one that was sent earlier, must not hide that it came up without the sender."""
        local, origin = self._local, welcome.origin
        if welcome.admit and self._welcomed.get(sender, -1) < origin:
            # This node came up without the sender, which lived: what it took part in since is void.
            if origin > local.known_incarnation(sender):
                local.known[sender] = origin
            raise StartAgain(RestartReason.CAME_UP_APART)
        local.clock = max(local.clock, welcome.clock)
        if origin > local.known_incarnation(sender):
            self._on_newcomers({sender: origin})

    def _raise_all(self, known: Incarnations) -> None:
        for other, incarnation in known.items():
            if other != self._local.me:
                self._raise_known(other, incarnation)

    def _raise_known(self, other: int, incarnation: int) -> None:
        """While booting: deal with `incarnation` from now on; the ones before it are no more."""
        if incarnation > self._local.known_incarnation(other):
            self._crashes.declare_dead({other: incarnation - 1})
            self._local.known[other] = incarnation
            self._crashes.forget_flushes(other)
            self._reported.pop(other, None)

    # -- others come back ----------------------------------------------------------------------

    def on_hello(self, sender: int, hello: Hello) -> None:
        local, origin = self._local, hello.origin
        if not local.up:
            self._raise_known(sender, origin)
            self._raise_all(hello.known)
            self._send_welcome(sender, admit=False)
            if self._welcomed.get(sender, -1) < origin and self._asked_back.get(sender, -1) < origin:
                self._asked_back[sender] = origin
                self._say_hello(sender)
            return
        # Merged, because a Hello may overtake a later one that asks for more.
        merge_newest(self._owed.setdefault((sender, origin), {}), hello.known)
        self._on_newcomers({**hello.known, sender: origin})

    def _is_dealt_with(self, other: int, incarnation: int) -> bool:
        """Whether this incarnation of `other` has been let in here, or is dead."""
        return incarnation <= max(self._local.known_incarnation(other), self._local.dead.get(other, -1))

    def _on_newcomers(self, incarnations: Incarnations) -> None:
        """These have been heard of: let in those that have not been, after the end of the ones before them."""
        local, ended = self._local, {}
        for other, incarnation in incarnations.items():
            if other == local.me or self._is_dealt_with(other, incarnation):
                continue
            if incarnation > self._hellos.get(other, -1):
                self._hellos[other] = incarnation
            if local.dead.get(other, -1) < incarnation - 1:
                ended[other] = incarnation - 1
        if ended:
            self._crashes.crashed(ended)
        self.welcome_newcomers()

    def welcome_newcomers(self) -> None:
        """Let in those whose previous incarnation is dealt with, and answer those who ask and can be answered."""
        admitted = self._let_in()
        answered = self._take_answerable()
        for newcomer in admitted:
            self._send_welcome(newcomer, admit=True)
        for asker in answered:
            if asker not in admitted:
                self._send_welcome(asker, admit=False)

    def _let_in(self) -> list[int]:
        """Who is let in now: every known crash is final, that of the previous incarnation too."""
        local = self._local
        if not local.up or not local.is_settled():
            return []
        admitted = []
        for newcomer, incarnation in list(self._hellos.items()):
            if self._is_dealt_with(newcomer, incarnation):
                del self._hellos[newcomer]
            elif local.dead.get(newcomer, -1) == incarnation - 1:
                del self._hellos[newcomer]
                local.known[newcomer] = incarnation
                self._crashes.forget_flushes(newcomer)
                admitted.append(newcomer)
        return admitted

    def _take_answerable(self) -> list[int]:
        """Who has asked and, like everyone that it knows of, is dealt with here; it is owed no answer any more."""
        local = self._local
        answerable = []
        for (asker, origin), known in list(self._owed.items()):
            if origin <= local.dead.get(asker, -1):
                del self._owed[asker, origin]
            elif origin <= local.known_incarnation(asker) and all(
                other == local.me or self._is_dealt_with(other, incarnation)
                for other, incarnation in known.items()
            ):
                del self._owed[asker, origin]
                answerable.append(asker)
        return answerable

    def _send_welcome(self, destination: int, admit: bool) -> None:
        local = self._local
        local.send(
            destination,
            Welcome(
                local.incarnation,
                local.known_incarnation(destination),
                dict(local.dead),
                dict(local.known),
                local.clock,
                admit,
            ),
        )
