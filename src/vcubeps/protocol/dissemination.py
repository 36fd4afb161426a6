"""A broadcast in progress at one node: the copies it sent on, the acknowledgements it waits for, and repair.

The source fixes the recipients; each copy carries those that its subtree serves, or, where they are many, leaves them
out: whoever has the view that the source had when it published finds them in it, and whoever has not asks. The tree
itself is computed here, from identifiers alone. Where the recipients are few, a source may send to each of them
itself: a tree of depth 1, in which nobody passes anything on. When a child crashes, what it was to serve is sent again
to the next recipient of that subtree that is alive.
"""

from __future__ import annotations

import msgspec

from vcubeps.cube import MAX_DIMENSION, subtrees
from vcubeps.protocol.local import LocalNode
from vcubeps.protocol.messages import (
    Ack,
    Ask,
    Broadcast,
    Copy,
    Recipients,
    Report,
    Subscription,
    addressed_incarnation,
)
from vcubeps.protocol.outputs import Send

ROOT = -1
"""Parent of a task at the source itself, which has no incarnation and no hop either."""


class Task(msgspec.Struct, eq=False):
    """One broadcast at one node, from its arrival until the acknowledgement to the parent.

    Finished once: when `waiting` is empty and it is not `held`.
    """

    broadcast: Broadcast
    parent: int = ROOT
    parent_incarnation: int = ROOT
    parent_hop: int = ROOT
    waiting: set[int] = msgspec.field(default_factory=set)
    """Hops not yet acknowledged."""
    held: bool = False
    """A leave that cannot take effect here yet."""
    reports: dict[int, Report] = msgspec.field(default_factory=dict)
    """Of a SUB, by node. Nobody reports twice: subtrees are disjoint, and what a dead child had gathered
    died with it."""
    repaired: bool = False
    finished: bool = False


class _Outstanding(msgspec.Struct, eq=False):
    """A copy sent and not yet acknowledged."""

    task: Task
    child: int
    recipients: Recipients


class Share(msgspec.Struct, gc=False, eq=False):
    """How some recipients are shared out among this node's children."""

    recipients: Recipients
    changes: int
    """Changes of who lives by then."""
    is_by_view: bool
    """Whether a child finds its recipients in the view that the source had: all lived, and the tree is the paper's."""
    children: list[Recipients]
    """What each child has to serve, the largest subtree first: there the way is longest."""


class Shares:
    """How the recipients of one topic's broadcasts were shared out last.

    A tree changes only with the members and with who lives, so nearly every broadcast finds its own here.
    """

    __slots__ = ("asking", "last")

    def __init__(self) -> None:
        self.last: dict[int, Share] = {}
        """By the subcubes 1…k in which the recipients lay."""
        self.asking: dict[int, int] = {}
        """Child → digest of a view that it had to ask about."""


class Dissemination:
    """All broadcasts in progress at one node."""

    __slots__ = ("_flat_max", "_listed_max", "_local", "_outstanding")

    def __init__(self, local: LocalNode, flat_max: int, listed_max: int) -> None:
        self._local = local
        self._flat_max = flat_max
        """Most recipients that a source serves without a tree."""
        self._listed_max = listed_max
        """Most recipients that a copy of a publication lists although its receiver may know them."""
        self._outstanding: dict[int, _Outstanding] = {}

    def __len__(self) -> int:
        return len(self._outstanding)

    def addressed(self, node: int) -> list[int]:
        """The incarnations of `node` that copies are under way to."""
        return [
            addressed_incarnation(copy.task.broadcast, copy.recipients[node])
            for copy in self._outstanding.values()
            if copy.child == node
        ]

    def complaint_about(self, sender: int, ack: Ack) -> str | None:
        """What is wrong with an acknowledgement, given the copy that it answers; None if nothing."""
        copy = self._outstanding.get(ack.hop)
        if copy is None:
            return None
        if copy.child != sender:
            return f"an acknowledgement of hop {ack.hop}, which went to node {copy.child}"
        if ack.reports and not ack.reports.keys() <= copy.recipients.keys():
            strangers = sorted(ack.reports.keys() - copy.recipients.keys())
            return f"reports of nodes {strangers}, which hop {ack.hop} did not serve"
        return None

    def fan_out(
        self,
        task: Task,
        recipients: Recipients,
        subcubes: int,
        shares: Shares,
        digest: int | None = None,
    ) -> None:
        """Send a copy to the first living recipient of each of this node's subcubes 1…`subcubes`; from the source,
        which has all of the subcubes, to every recipient if they are few.

        `digest`, of a publication only: the recipients are all members in these subcubes by the view that has it.
        """
        local, broadcast = self._local, task.broadcast
        share = shares.last.get(subcubes)
        if (
            share is None
            or share.changes != local.changes
            or (share.recipients is not recipients and share.recipients != recipients)
        ):
            share = shares.last[subcubes] = self._share_out(broadcast, recipients, subcubes)
        for subtree in share.children:
            self._issue(
                task,
                subtree,
                len(subtree) <= self._listed_max
                or digest is None
                or not share.is_by_view
                or shares.asking.get(next(iter(subtree))) == digest,
            )

    def _share_out(self, broadcast: Broadcast, recipients: Recipients, subcubes: int) -> Share:
        local = self._local
        living = _living(local, broadcast, recipients)
        if len(living) <= self._flat_max and subcubes == MAX_DIMENSION:
            nearest_first = sorted(living, key=local.me.__xor__)
            return Share(
                recipients, local.changes, False, [{member: living[member]} for member in nearest_first]
            )
        groups = reversed(subtrees(local.me, living, subcubes))
        children = [{member: living[member] for member in group} for group in groups]
        return Share(recipients, local.changes, living is recipients, children)

    def _issue(self, task: Task, recipients: Recipients, is_listed: bool = True) -> None:
        """Send a copy that serves `recipients`, which are in the order of their subcube, to the first."""
        local = self._local
        child, mark = next(iter(recipients.items()))
        local.hops = hop = local.hops + 1
        task.waiting.add(hop)
        self._outstanding[hop] = _Outstanding(task, child, recipients)
        broadcast = task.broadcast
        target = addressed_incarnation(broadcast, mark)
        listed = recipients if is_listed else None
        local.outputs.append(
            Send(child, Copy(local.incarnation, target, hop, listed, local.fresh, broadcast))
        )

    def asked(self, sender: int, ask: Ask) -> Broadcast | None:
        """A child does not have the view that a copy left the recipients to: send it again with them. Returns what it
        was a copy of; None if nobody waits for it any more."""
        copy = self._outstanding.get(ask.hop)
        if copy is None or copy.child != sender:
            return None
        local, broadcast = self._local, copy.task.broadcast
        again = Copy(local.incarnation, ask.origin, ask.hop, copy.recipients, local.fresh, broadcast)
        local.send(sender, again)
        return broadcast

    def acknowledged(self, sender: int, ack: Ack) -> Task | None:
        """The task that the acknowledged hop belongs to; None if nobody waits for it any more."""
        copy = self._outstanding.get(ack.hop)
        if copy is None or copy.child != sender or (ack.reports and self.complaint_about(sender, ack)):
            return None  # only one kept while booting can be wrong here; the others were refused on arrival
        del self._outstanding[ack.hop]
        task = copy.task
        task.waiting.discard(ack.hop)
        if ack.reports:
            task.reports.update(ack.reports)
        if ack.repaired:
            task.repaired = True
        return task

    def repair(self) -> list[Task]:
        """Children have been declared dead: serve their subtrees anew. Returns the tasks concerned."""
        local = self._local
        concerned: list[Task] = []
        for hop, copy in list(self._outstanding.items()):
            task = copy.task
            mark = copy.recipients[copy.child]
            if addressed_incarnation(task.broadcast, mark) > local.ended(copy.child):
                continue
            del self._outstanding[hop]
            task.waiting.discard(hop)
            concerned.append(task)
            rest = _living(local, task.broadcast, copy.recipients)
            if rest:
                self._issue(task, rest)
                task.repaired = type(task.broadcast) is Subscription
        return concerned

    def check(self) -> None:
        """As `LocalNode.check`."""
        ended = self._local.ended
        for hop, copy in self._outstanding.items():
            task = copy.task
            assert hop in task.waiting and not task.finished, f"hop {hop} of a task that does not wait for it"
            assert copy.child == next(iter(copy.recipients)), (
                f"hop {hop} went to node {copy.child}, who is not first"
            )
            addressed = addressed_incarnation(task.broadcast, copy.recipients[copy.child])
            assert addressed > ended(copy.child), f"hop {hop} waits for the dead node {copy.child}"

    def send_ack(
        self,
        parent: int,
        origin: int,
        hop: int,
        broadcast: Broadcast,
        reports: dict[int, Report],
        repaired: bool,
    ) -> None:
        """Tell the parent, as the incarnation that sent the copy, that the whole subtree has been served."""
        local = self._local
        dead = local.fresh
        if local.dead:
            if origin <= local.ended(parent):
                return
            # A joiner must learn of every crash, and so must whoever forwards what the dead sent.
            if type(broadcast) is Subscription or local.is_of_the_dead(broadcast.source, broadcast.counter):
                dead = dict(local.dead)
        local.outputs.append(
            Send(parent, Ack(local.incarnation, origin, hop, reports, repaired, dead, local.clock))
        )


def _living(local: LocalNode, broadcast: Broadcast, recipients: Recipients) -> Recipients:
    """Those of the recipients whose addressed incarnation has not ended; the same object if it is all of them."""
    ended = local.ended
    gone = [m for m, mark in recipients.items() if addressed_incarnation(broadcast, mark) <= ended(m)]
    return {m: mark for m, mark in recipients.items() if m not in gone} if gone else recipients
