"""Whether this node is in contact with a quorum of the voters.

*Contact* with a voter is a round trip of this node's own that began less than `contact_s` ago. It is judged when it
matters, by the time of the input at hand, and not at the last tick: a process that was stopped knows at once that it
has lost contact.
"""

from __future__ import annotations

from vcubeps.protocol.voters import Voters

NEVER_S = float("-inf")


class Majority:
    """Invariant: the voters whose last round trip began at `_since_s` or later, with this node, are a quorum; those
    after it are not, unless it `_is_stale`: somebody has answered since."""

    __slots__ = ("_contact_s", "_contacts", "_is_stale", "_since_s", "_voters", "me")

    def __init__(self, voters: Voters | None, me: int, contact_s: float) -> None:
        self._voters = voters
        self.me = me
        self._contact_s = contact_s
        self._contacts: dict[int, float] = {}
        """Other voter → when that was sent which it answered last."""
        self._since_s = NEVER_S
        self._is_stale = True

    def is_isolated(self, now_s: float) -> bool:
        """Whether there is no quorum that this node is in contact with. Without voters nobody ever is."""
        if self._voters is None or now_s - self._since_s < self._contact_s:
            return False
        if self._is_stale:
            self._renew()
        return now_s - self._since_s >= self._contact_s

    @property
    def surely_lasts_until_s(self) -> float:
        """Contact does not end before, even if nobody answers any more; it may last longer."""
        return float("inf") if self._voters is None else self._since_s + self._contact_s

    @property
    def lasts_until_s(self) -> float:
        """When contact ends if nobody answers any more."""
        if self._is_stale:
            self._renew()
        return self.surely_lasts_until_s

    def answered(self, other: int, sent_at_s: float) -> None:
        """`other` has answered what was sent then."""
        if self._voters is not None and other in self._voters:
            self._contacts[other] = max(sent_at_s, self._contacts.get(other, NEVER_S))
            self._is_stale = True

    def drop(self, other: int) -> None:
        """`other` does not count any more: it is dead for this node, or this node for it."""
        if self._contacts.pop(other, None) is not None:
            self._renew()

    def in_contact(self, now_s: float) -> list[int]:
        """Other voters that this node is in contact with."""
        return [other for other, at_s in sorted(self._contacts.items()) if now_s - at_s < self._contact_s]

    def _renew(self) -> None:
        """Not with every answer: most of the time it does not matter who else has answered."""
        self._is_stale = False
        if self._voters is None:
            return
        present = {self.me}
        since_s = float("inf")
        latest_first = sorted(self._contacts.items(), key=lambda item: -item[1])
        for other, at_s in latest_first:
            if self._voters.is_quorum(present):
                break
            present.add(other)
            since_s = at_s
        self._since_s = since_s if self._voters.is_quorum(present) else NEVER_S

    def check(self) -> None:
        """Raise AssertionError if the invariant does not hold. For tests."""
        if self._voters is None:
            return
        recent = {other for other, at_s in self._contacts.items() if at_s >= self._since_s}
        is_quorum = self._voters.is_quorum(recent | {self.me})
        assert is_quorum or self._since_s == NEVER_S, "counts contact with less than a quorum"
