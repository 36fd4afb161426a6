"""One topic as one of its members holds it: phase, view, past, hold-back; and when a message may be delivered.

A topic is entered by a SUB (joining), lived in (member), and left by a UNS (leaving); nothing
is delivered outside the member phase. It must never send: dissemination is not its business.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from vcubeps.protocol.causality import HoldBack, Ordered, Past, forget_entries
from vcubeps.protocol.dissemination import Shares, Task
from vcubeps.protocol.local import LocalNode
from vcubeps.protocol.membership import Member, View
from vcubeps.protocol.messages import (
    Barrier,
    Incarnations,
    Publication,
    Recipients,
    Report,
    Unsubscription,
    incarnation_of,
)
from vcubeps.protocol.outputs import Deliver, MemberJoined, MemberLeft, Received

_NOTHING: Sequence[Task] = ()

_LOST = -1
"""Pseudo blocker: the head depends on a message that died with its holders; see `Topic._cut_passed`."""


class Phase(enum.Enum):
    JOINING = "joining"
    MEMBER = "member"
    LEAVING = "leaving"


JOINING, MEMBER, LEAVING = Phase
"""By these names, because looking a member of an enumeration up takes longer than the comparison it is for."""


class Topic:
    """The state of one subscription.

    Invariants: `closing` is set as soon as the application unsubscribed, and from then on the
    hold-back is empty and nothing is delivered. While joining, nothing leaves the hold-back.
    """

    __slots__ = (
        "_addressed", "_subtrees", "closing", "counter", "cut", "holdback", "last_publication",
        "leaves_held", "local", "name", "newest", "past", "phase", "shares", "view",
    )  # fmt: skip

    def __init__(self, local: LocalNode, name: str, counter: int, known: Barrier, is_exact: bool) -> None:
        """`known` is what this node has known of on this topic; if not `is_exact`, on this topic or on others."""
        self.local = local
        self.name = name
        self.counter = counter
        """Of this subscription."""
        self.phase = JOINING
        self.closing = False
        # If it is not known what this node published here before, its subscription stands for it.
        self.last_publication = known.get(local.me, 0) if is_exact and not local.incarnation else counter
        """Counter of the last publication of this node on the topic, in whichever subscription; 0 if there is none."""
        self.view = View(local.me, counter)
        self.past = Past(known, local.known)
        self.holdback = HoldBack()
        self.leaves_held: dict[tuple[int, int], list[Task]] = {}
        """Pending leave ⟨source, counter⟩ → acknowledgements that wait until it takes effect."""
        self.newest: dict[int, Publication] = {}
        """Source → last publication received from it, to hand to the other survivors if it crashes."""
        self.cut: dict[int, int] = {}
        """Survivor → its last publication before it flushed. What a lost message came after lies within this cut."""
        self._addressed: set[tuple[int, int]] = set()
        """While joining: publications whose source counted this subscription among the recipients."""
        self.shares = Shares()
        self._subtrees: dict[int, tuple[Recipients, Recipients]] = {}
        """Subcubes 1…k → this subscription and the members in them, and the addressees that they were taken from."""

    # -- membership ---------------------------------------------------------------------------

    def add(self, node: int, counter: int, received: int) -> None:
        self.view.add(node, counter, received, floor=self.last_publication)
        self.past.membership_grew()
        if self.phase is MEMBER and not self.closing:
            self.local.emit(MemberJoined(self.name, node))

    def remove(self, node: int, crashed: bool = False) -> None:
        self.view.remove(node)
        if self.phase is MEMBER and not self.closing:
            self.local.emit(MemberLeft(self.name, node, crashed))

    def admit(self, node: int, counter: int) -> Report | None:
        """Take the subscriber ⟨node, counter⟩ in and report; None if it is known to have left since."""
        member = self._take_in(node, counter)
        return Report(self.counter, member.floor, is_member=True) if member is not None else None

    def _take_in(self, node: int, counter: int) -> Member | None:
        """As `admit`, and returns the member, which may be a newer subscription of the same node."""
        if self.view.has_left(node, counter):
            return None
        member = self.view.members.get(node)
        if member is None or member.counter < counter:
            if member is not None:
                self.remove(node, incarnation_of(member.counter) < incarnation_of(counter))
            self.add(node, counter, received=counter)
            member = self.view.members[node]
        return member

    def apply_leave(self, node: int, counter: int) -> None:
        """Subscriptions of `node` up to `counter` are void. What is kept of newer ones stays."""
        member = self.view.members.get(node)
        if member is not None and member.counter <= counter:
            self.remove(node)
        if not self.view.has_left(node, counter):  # a copy of an earlier leave may come late
            self.view.left[node] = counter
        newest = self.newest.get(node)
        if newest is not None and newest.counter < counter:
            del self.newest[node]

    def purge_dead(self) -> None:
        """Members whose crash is final are members no more."""
        final = self.local.ended_finally
        gone = [n for n, m in self.view.members.items() if incarnation_of(m.counter) <= final(n)]
        for node in gone:
            self.remove(node, crashed=True)
        self.view.forget_before(final)

    def forget(self, over: Incarnations) -> None:
        """These crashes are over: nobody holds anything of the dead back, or will ever receive it."""
        for node, incarnation in over.items():
            newest = self.newest.get(node)
            if newest is not None and incarnation_of(newest.counter) <= incarnation:
                del self.newest[node]
        forget_entries(self.cut, over)
        self.view.forget(over)
        self.past.forget(over)

    def holds_back_of(self, over: Incarnations) -> bool:
        """Whether anything of these is held back."""
        queues = self.holdback.queues
        return any(
            node in queues and incarnation_of(queues[node][0].counter) <= incarnation
            for node, incarnation in over.items()
        )

    def subtree(self, subcubes: int) -> Recipients:
        """This subscription and all members in this node's subcubes 1…`subcubes`, as the recipients of a copy."""
        addressees = self.view.addressees()
        last = self._subtrees.get(subcubes)
        if last is None or last[1] is not addressees:
            me = self.local.me
            inside = {node: mark for node, mark in addressees.items() if not (node ^ me) >> subcubes}
            last = self._subtrees[subcubes] = {me: self.counter, **inside}, addressees
        return last[0]

    # -- reception ----------------------------------------------------------------------------

    def receive(self, publication: Publication, addressed_to: int) -> Sequence[Task]:
        """A copy of `publication`, addressed to subscription `addressed_to` of this node, has arrived.

        Returns acknowledgements to release, as `deliver_from`.
        """
        if self.closing or addressed_to != self.counter:
            return []
        source, counter = publication.source, publication.counter
        # What is delivered of the dead is settled among the survivors: it comes in their flushes.
        if self.phase is JOINING:
            if not self.local.is_of_the_dead(source, counter):
                self._addressed.add((source, counter))
                self.holdback.append(publication)
            return []
        member = self.view.members.get(source)
        if member is None or counter <= member.received or source in self.local.dead:
            return []
        member.received = counter
        if not self.holdback.queues and self._blocker(publication) is None:
            # Nearly always: nothing is held back, so nothing can be woken either.
            self.newest[source] = publication
            self.past.deliver(publication, publication.digest == self.view.digest)
            self.local.outputs += (
                Received(self.name, source, publication.batch, at_once=True),
                Deliver(self.name, source, publication.batch, publication.barrier),
            )
            return _NOTHING
        self._note_reception(publication)
        return self.deliver_from(self._hold(publication))

    def receive_held(self, publication: Publication) -> list[Task]:
        """A survivor's flush holds `publication` of a dead source. Returns as `deliver_from`."""
        if self.closing:
            return []
        if self.phase is JOINING:
            self.holdback.append(publication)
            return []
        return self.deliver_from(self._accept(publication, addressed=False))

    def receive_leave(self, leave: Unsubscription, task: Task) -> list[Task]:
        """A member leaves, which takes effect in causal order; `task` is the acknowledgement it waits for.

        Returns the acknowledgements that may be sent now.
        """
        key = leave.source, leave.counter
        if self.view.has_left(*key):
            return [task]
        if self.closing:
            self.apply_leave(*key)
            return [task]
        task.held = True
        if key in self.leaves_held:
            self.leaves_held[key].append(task)
            return []
        self.leaves_held[key] = [task]
        return self.deliver_from(self._hold(leave))

    def _accept(self, publication: Publication, addressed: bool) -> list[int]:
        """Take a publication in if it is new. Returns as `_hold`."""
        if not self._is_new(publication, addressed):
            return []
        self._note_reception(publication)
        return self._hold(publication)

    def _hold(self, message: Ordered) -> list[int]:
        """Its source, if `message` became the head of that queue and so may be deliverable."""
        return [message.source] if self.holdback.append(message) else []

    def _is_new(self, publication: Publication, addressed: bool) -> bool:
        """Whether a publication has not been received before and is meant for this subscription; from now on it has."""
        source, counter = publication.source, publication.counter
        member = self.view.members.get(source)
        if member is not None and member.counter < counter:
            if counter <= member.received:
                return False
            member.received = counter
        else:
            if not addressed or self.view.has_heard(source, counter):
                return False
            self.view.hear(source, counter)
        return True

    def _note_reception(self, publication: Publication) -> None:
        self.newest[publication.source] = publication
        self.local.emit(Received(self.name, publication.source, publication.batch))

    def join(self, reports: dict[int, Report]) -> None:
        """The SUB is acknowledged by all: form the view and the past from what they reported."""
        for node, report in reports.items():
            if not report.is_member:
                self.past.learn(node, report.floor)
                self.apply_leave(node, report.counter)
                continue
            self.past.correct(node, report.floor)
            member = self._take_in(node, report.counter)
            if member is not None:
                member.received = max(member.received, report.floor)
        self.past.begin()

    def take_in_what_came_while_joining(self) -> None:
        addressed, self._addressed = self._addressed, set()
        for message in self.holdback.clear():
            if type(message) is Publication:
                self._accept(message, (message.source, message.counter) in addressed)
            else:
                self.holdback.append(message)

    def floors(self) -> Barrier:
        """Where the subscription begins: source → counter of its last publication that does not come."""
        floors = dict(self.past.barrier)
        for source, queue in self.holdback.queues.items():
            # One that left meanwhile may have reported what it had published to this node before.
            first = next((message.batch.first for message in queue if type(message) is Publication), None)
            if first is not None and floors.get(source, 0) >= first:
                floors[source] = first - 1
        return floors

    # -- delivery -----------------------------------------------------------------------------

    def close(self) -> list[Task]:
        """The application left: nothing is delivered any more. Returns acknowledgements to release."""
        self.closing = True
        for message in self.holdback.clear():
            if type(message) is Unsubscription:
                self.apply_leave(message.source, message.counter)
        released = [task for tasks in self.leaves_held.values() for task in tasks]
        self.leaves_held.clear()
        for task in released:
            task.held = False
        return released

    def deliver_all(self) -> list[Task]:
        """Deliver whatever has become deliverable, looking at every source. As `deliver_from`."""
        return self.deliver_from(self.holdback.wake_all())

    def deliver_from(self, sources: list[int]) -> list[Task]:
        """Deliver what has become deliverable, starting from the heads of `sources`.

        To be called after every reception, head of its queue or not: a reception may complete
        the cut that others wait for. Returns the acknowledgements of leaves that took effect on the way.
        """
        released: list[Task] = []
        if self.phase is JOINING:
            return released
        holdback = self.holdback
        sources += holdback.wake(_LOST, *sources)
        while sources:
            source = sources.pop()
            queue = holdback.queues.get(source)
            while queue:
                blocker = self._blocker(queue[0])
                if blocker is not None:
                    holdback.block(source, blocker)
                    break
                self._apply(holdback.pop(source), released)
                sources += holdback.wake(source, _LOST)
        return released

    def _apply(self, message: Ordered, released: list[Task]) -> None:
        if type(message) is Publication:
            local = self.local
            self.past.deliver(message, message.digest == self.view.digest)
            local.emit(Deliver(self.name, message.source, message.batch, message.barrier))
            return
        self.apply_leave(message.source, message.counter)
        for task in self.leaves_held.pop((message.source, message.counter)):
            task.held = False
            released.append(task)

    def _blocker(self, message: Ordered) -> int | None:
        """A source that must be heard or delivered before `message`; None if it may be delivered now.

        A dependency is met when everything up to it has been received and nothing of it is
        pending, or when its source is not in the view, so that it will never come. A member that has
        crashed stays in the view until that is final, so nothing that a flush may still bring is given up
        here; of those who are no members, flushes bring nothing.
        """
        local, members, queues = self.local, self.view.members, self.holdback.queues
        me = local.me
        depends_on_a_lost_message = False
        for source, needed in message.barrier.items():
            if source == me:
                continue
            member = members.get(source)
            if member is not None and needed >= member.counter:  # nearly always
                if member.received < needed:
                    return source
            elif local.is_of_the_dead(source, needed) and not self.view.has_heard(source, needed):
                depends_on_a_lost_message = True
            # A batch's last counter does for its first: dependencies only name ends of batches.
            if source in queues and queues[source][0].counter <= needed:
                return source
        if depends_on_a_lost_message and not self._cut_passed(message):
            return _LOST
        return None

    def _cut_passed(self, message: Ordered) -> bool:
        """Whether all that a lost message may have stood for has been delivered.

        A lost message takes its own barrier with it. Everything in its past was started before
        the survivors flushed, so it lies within the cut; stamps order what is still pending.
        """
        members = self.view.members
        for node, counter in self.cut.items():
            member = members.get(node)
            if member is not None and member.received < counter:
                return False
        return all(queue[0].stamp >= message.stamp for queue in self.holdback.queues.values())

    def leave(self) -> Barrier:
        """What the next subscription to this topic must start from."""
        knowledge = self.past.knowledge()
        if self.last_publication:
            knowledge[self.local.me] = self.last_publication
        return knowledge

    def check(self) -> None:
        """As `LocalNode.check`."""
        me = self.local.me
        self.view.check(me, self.counter)
        self.past.check(me)
        self.holdback.check(self.phase is MEMBER and not self.closing)
        assert self.closing or self.phase is not LEAVING, "leaves although the application has not left"
        if self.closing:
            assert not self.holdback.queues and not self.leaves_held, (
                "takes messages in after the application left"
            )
        assert self.phase is JOINING or not self._addressed, "still notes what came while joining"
        held = {(m.source, m.counter) for queue in self.holdback.queues.values() for m in queue}
        assert self.leaves_held.keys() <= held, "an acknowledgement waits for a leave that is not held back"

    # -- what others need to know --------------------------------------------------------------

    def newest_of_the_dead(self) -> dict[int, Publication]:
        """Per crashed source the last publication received from it, delivered or not.

        Also of crashes that are final here: a survivor that flushed to this node alone and then
        died has left the others no one but this node to get the publication from.
        """
        newest = self.newest
        if self.phase is JOINING:
            held = [m for queue in self.holdback.queues.values() for m in queue if type(m) is Publication]
            newest = {m.source: m for m in sorted(held, key=lambda message: message.counter)}
        return {s: m for s, m in newest.items() if self.local.is_of_the_dead(s, m.counter)}
