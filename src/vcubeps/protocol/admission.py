"""Coming back: how a new incarnation is let in, and what the others say to it meanwhile.

A node that comes back says Hello to all. Each of the others first declares the old incarnation
dead, waits until that is final, and then answers Welcome. The newcomer is *up* when all that it
believes alive have welcomed it and know of each other; until then it keeps what it is sent.
"""

from __future__ import annotations

from collections.abc import Callable

from vcubeps.protocol.crashes import Crashes, Fenced
from vcubeps.protocol.local import LocalNode, merge_newest
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
from vcubeps.protocol.outputs import Up


class Admission:
    """The comings of nodes, this one's own included."""

    __slots__ = (
        "_asked_back", "_asked_with", "_crashes", "_hellos", "_node", "_owed", "_replay",
        "_reported", "_waiting", "_welcomed",
    )  # fmt: skip

    def __init__(self, node: LocalNode, replay: Callable[[int, AnyMessage], None]) -> None:
        self._node = node
        self._replay = replay
        self._crashes: Crashes
        self._welcomed: Incarnations = {}
        """Node → newest incarnation of it that has welcomed this one."""
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

    # -- this node comes back ------------------------------------------------------------------

    def boot(self) -> None:
        for other in sorted(self._node.nodes):
            if other != self._node.me:
                self._say_hello(other)
        self.try_up()

    def _say_hello(self, other: int) -> None:
        node = self._node
        known = self._asked_with[other] = dict(node.known)
        node.send(other, Hello(node.incarnation, ANY_INCARNATION, known))

    def try_up(self) -> None:
        """Go up if all that live have welcomed this incarnation and know of each other.

        Without the second condition two nodes that came up on false or stale reports of each
        other's crash could both be members with this one and miss each other's publications.
        """
        node = self._node
        if node.up:
            return
        living = [other for other in sorted(node.nodes) if other != node.me and not node.is_dead(other)]
        if any(self._welcomed.get(other, -1) < node.known_incarnation(other) for other in living):
            return
        behind = [other for other in living if not self._knows_all(other, living)]
        for other in behind:
            if self._asked_with[other] != node.known:
                self._say_hello(other)
        if behind:
            return
        self._go_up()

    def _knows_all(self, other: int, living: list[int]) -> bool:
        known, reported = self._node.known, self._reported.get(other, {})
        return all(reported.get(x, 0) >= known.get(x, 0) for x in living if x != other)

    def _go_up(self) -> None:
        node = self._node
        node.up = True
        self._reported.clear()
        self._asked_with.clear()
        self._asked_back.clear()
        self._crashes.flush()
        for other in sorted(node.dead):
            if node.is_dead(other):
                node.send(other, Fence(node.incarnation, ANY_INCARNATION, node.dead[other]))
        self._crashes.try_final()
        node.emit(Up(node.incarnation))
        waiting, self._waiting = self._waiting, []
        for sender, message in waiting:
            self._replay(sender, message)

    def on_message_while_booting(self, sender: int, message: Copy | Ack | Flush) -> None:
        node = self._node
        self._raise_known(sender, message.origin)
        if type(message) is not Flush:
            self._waiting.append((sender, message))
            return
        for flush in self._crashes.in_order(sender, message):
            if flush.origin <= node.dead.get(sender, -1):
                return
            if node.up:
                self._crashes.on_flush(sender, flush)
                continue
            if flush.dead.get(node.me, -1) >= node.incarnation:
                raise Fenced
            self._crashes.declare_dead(node.unknown_crashes(flush.dead))
            self._crashes.note_flushed(sender, flush.dead)
            self._crashes.answer_while_booting(sender)
            self.try_up()

    def on_welcome(self, sender: int, welcome: Welcome) -> None:
        node, origin = self._node, welcome.origin
        if node.up and welcome.admit and self._welcomed.get(sender, -1) < origin:
            # This node came up without the sender, which lived: what it took part in since is void.
            if origin > node.known_incarnation(sender):
                node.known[sender] = origin
            raise Fenced
        if node.up and origin > node.known_incarnation(sender):
            self._on_newcomer(sender, origin)
            return
        node.clock = max(node.clock, welcome.clock)
        if origin > self._welcomed.get(sender, -1):
            self._welcomed[sender] = origin
        self._raise_known(sender, origin)
        if node.up:
            return
        if origin >= node.known_incarnation(sender):
            self._crashes.note_flushed(sender, welcome.dead)
            merge_newest(self._reported.setdefault(sender, {}), welcome.known)
        self._crashes.declare_dead(node.unknown_crashes(welcome.dead))
        self._raise_all(welcome.known)
        self.try_up()

    def _raise_all(self, known: Incarnations) -> None:
        for other, incarnation in known.items():
            if other != self._node.me:
                self._raise_known(other, incarnation)

    def _raise_known(self, other: int, incarnation: int) -> None:
        if incarnation > self._node.known_incarnation(other):
            self._node.known[other] = incarnation
            self._crashes.forget_flushes(other)
            self._reported.pop(other, None)

    # -- others come back ----------------------------------------------------------------------

    def on_hello(self, sender: int, hello: Hello) -> None:
        node, origin = self._node, hello.origin
        if not node.up:
            self._raise_known(sender, origin)
            self._raise_all(hello.known)
            self._send_welcome(sender, admit=False)
            if self._welcomed.get(sender, -1) < origin and self._asked_back.get(sender, -1) < origin:
                self._asked_back[sender] = origin
                self._say_hello(sender)
            return
        # Merged, because a Hello may overtake a later one that asks for more.
        merge_newest(self._owed.setdefault((sender, origin), {}), hello.known)
        for other, incarnation in ((sender, origin), *hello.known.items()):
            if other != node.me and not self._is_dealt_with(other, incarnation):
                self._on_newcomer(other, incarnation)
        self._answer_hellos()

    def _is_dealt_with(self, other: int, incarnation: int) -> bool:
        """Whether this incarnation of `other` has been let in here, or is dead."""
        return incarnation <= max(self._node.known_incarnation(other), self._node.dead.get(other, -1))

    def _answer_hellos(self) -> None:
        """Answer those who ask, once they and everyone that they know of are dealt with here."""
        node = self._node
        for (asker, origin), known in list(self._owed.items()):
            if origin <= node.dead.get(asker, -1):
                del self._owed[asker, origin]
            elif origin <= node.known_incarnation(asker) and all(
                other == node.me or self._is_dealt_with(other, incarnation)
                for other, incarnation in known.items()
            ):
                del self._owed[asker, origin]
                self._send_welcome(asker, admit=False)

    def _on_newcomer(self, sender: int, origin: int) -> None:
        if origin > self._hellos.get(sender, -1):
            self._hellos[sender] = origin
        if self._node.dead.get(sender, -1) < origin - 1:
            self._crashes.crashed({sender: origin - 1})
        self.welcome_newcomers()

    def welcome_newcomers(self) -> None:
        """Let in those whose previous incarnation is dealt with: every known crash is final."""
        self._let_in()
        self._answer_hellos()

    def _let_in(self) -> None:
        node = self._node
        for newcomer in list(self._hellos):
            incarnation = self._hellos.get(newcomer)
            if incarnation is None or not node.up or not node.is_settled():
                continue
            if node.known_incarnation(newcomer) >= incarnation or node.dead.get(newcomer, -1) >= incarnation:
                del self._hellos[newcomer]
                continue
            if node.dead.get(newcomer, -1) != incarnation - 1:
                continue
            del self._hellos[newcomer]
            node.known[newcomer] = incarnation
            self._crashes.forget_flushes(newcomer)
            self._send_welcome(newcomer, admit=True)

    def _send_welcome(self, destination: int, admit: bool) -> None:
        node = self._node
        node.send(
            destination,
            Welcome(
                node.incarnation,
                node.known_incarnation(destination),
                dict(node.dead),
                dict(node.known),
                node.clock,
                admit,
            ),
        )
