"""One topic's view: who is in, as of which counter, and how far each has been heard.

Must never decide anything about ordering; `causality` asks it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vcubeps.mixing import mix64
from vcubeps.protocol.causality import forget_entries
from vcubeps.protocol.messages import incarnation_of


def fingerprint(node: int, counter: int) -> int:
    """64 well-mixed bits of one subscription; a view's digest is the xor of its members'."""
    return mix64(node * 0x9E3779B97F4A7C15 + counter * 0xD1B54A32D192ED03 + 0x632BE59BD9B4E019)


class Member:
    """One other member of the topic."""

    __slots__ = ("counter", "floor", "received")

    def __init__(self, counter: int, received: int, floor: int) -> None:
        self.counter = counter
        """Of its subscription."""
        self.received = received
        """Highest counter received from it, or known never to come: nothing up to here will arrive any more."""
        self.floor = floor
        """My last publication before I took it in; what I told it, and tell again if asked again."""


class View:
    """The members of one topic other than this node.

    Invariants: `digest` is the xor of the fingerprints of this node's subscription and of all
    `members`. A member's `counter` exceeds `left` of that node.
    """

    __slots__ = ("_addressees", "digest", "heard", "left", "members")

    def __init__(self, me: int, counter: int) -> None:
        self.members: dict[int, Member] = {}
        self._addressees: dict[int, int] | None = None
        self.digest = fingerprint(me, counter)
        self.left: dict[int, int] = {}
        """Node → counter of its last known leave; older subscriptions of it are void."""
        self.heard: dict[tuple[int, int], int] = {}
        """(node, incarnation) → highest counter received from it, for those that are not members now.
        At most two incarnations per node: see `forget_before`."""

    def add(self, node: int, counter: int, received: int, floor: int) -> None:
        self._addressees = None
        self.members[node] = Member(counter, received, floor)
        self.digest ^= fingerprint(node, counter)

    def remove(self, node: int) -> None:
        self._addressees = None
        member = self.members.pop(node)
        self.digest ^= fingerprint(node, member.counter)
        self.hear(node, member.received)

    def addressees(self) -> dict[int, int]:
        """The members → counters of their subscriptions. The same object as long as nothing changes."""
        if self._addressees is None:
            self._addressees = {node: member.counter for node, member in self.members.items()}
        return self._addressees

    def hear(self, node: int, counter: int) -> None:
        """More than ever before: a later subscription has a greater counter than what came before it."""
        self.heard[node, incarnation_of(counter)] = counter

    def has_heard(self, node: int, counter: int) -> bool:
        """Whether ⟨node, counter⟩, which is not of the member that `node` may be now, has been received."""
        return self.heard.get((node, incarnation_of(counter)), 0) >= counter

    def forget_before(self, final: Callable[[int], int]) -> None:
        """Forget incarnations older than the newest whose crash is final: nothing of them is taken in any
        more, and to take a dependency on them for lost only makes its message wait longer."""
        for node, incarnation in list(self.heard):
            if incarnation < final(node):
                del self.heard[node, incarnation]

    def forget(self, over: Mapping[int, int]) -> None:
        """Forget these incarnations of nodes that are no more."""
        for node, incarnation in list(self.heard):
            if incarnation <= over.get(node, -1):
                del self.heard[node, incarnation]
        forget_entries(self.left, over)

    def check(self, me: int, counter: int) -> None:
        """As `LocalNode.check`; `counter` is of this node's subscription."""
        digest = fingerprint(me, counter)
        for node, member in self.members.items():
            digest ^= fingerprint(node, member.counter)
            assert member.counter > self.left.get(node, 0), f"member {node} has left since"
            assert member.received >= member.counter, f"of member {node} less was heard than its subscription"
        assert me not in self.members, "is a member beside itself"
        assert self.digest == digest, "the digest is not that of the members"
        addressees = {node: member.counter for node, member in self.members.items()}
        assert self._addressees in (None, addressees), "addresses others than the members"

    def has_left(self, node: int, counter: int) -> bool:
        """Whether ⟨node, counter⟩, a subscription or a leave, lies before a leave that has taken effect, or is it."""
        return self.left.get(node, 0) >= counter
