"""A broadcast in progress at one node: the copies it sent on, the acknowledgements it waits for, and repair.

The source fixes the recipients; each copy carries those that its subtree serves; the tree
itself is computed here, from identifiers alone. When a child crashes, what it was to serve is
sent again to the next recipient of that subtree that is alive.
"""

from __future__ import annotations

import msgspec

from vcubeps.cube import subtrees
from vcubeps.protocol.local import LocalNode
from vcubeps.protocol.messages import (
    Ack,
    Broadcast,
    Copy,
    Recipients,
    Report,
    Subscription,
    addressed_incarnation,
)

ROOT = -1
"""Parent of a task at the source itself."""


class Task(msgspec.Struct, eq=False):
    """One broadcast at one node, from its arrival until the acknowledgement to the parent.

    Finished once: when `waiting` is empty and it is not `held`.
    """

    broadcast: Broadcast
    parent: int = ROOT
    parent_hop: int = 0
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


class Dissemination:
    """All broadcasts in progress at one node."""

    __slots__ = ("_local", "_outstanding", "_split")

    def __init__(self, local: LocalNode) -> None:
        self._local = local
        self._outstanding: dict[int, _Outstanding] = {}
        self._split: dict[int, tuple[Recipients, list[Recipients]]] = {}
        """Clusters 1…k → the recipients that lay in them last, and how they are shared out among the children.
        A tree changes only with the members, so nearly every broadcast finds its own here."""

    def __len__(self) -> int:
        return len(self._outstanding)

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

    def fan_out(self, task: Task, recipients: Recipients, clusters: int) -> None:
        """Send a copy to the first living recipient of each of this node's clusters 1…`clusters`.

        The largest subtree comes first: there the way is longest.
        """
        local = self._local
        if local.dead:
            recipients = self._living(task.broadcast, recipients)
        last = self._split.get(clusters)
        if last is None or last[0] != recipients:
            groups = reversed(subtrees(local.me, recipients, clusters))
            last = recipients, [{member: recipients[member] for member in group} for group in groups]
            self._split[clusters] = last
        for subtree in last[1]:
            self._issue(task, subtree)

    def _issue(self, task: Task, recipients: Recipients) -> None:
        """Send a copy that serves `recipients`, which are in the order of their cluster, to the first."""
        local = self._local
        child, mark = next(iter(recipients.items()))
        local.hops = hop = local.hops + 1
        task.waiting.add(hop)
        self._outstanding[hop] = _Outstanding(task, child, recipients)
        broadcast = task.broadcast
        target = addressed_incarnation(broadcast, mark)
        local.send(child, Copy(local.incarnation, target, hop, broadcast, recipients, local.fresh))

    def _living(self, broadcast: Broadcast, recipients: Recipients) -> Recipients:
        dead = self._local.dead
        return {
            member: mark
            for member, mark in recipients.items()
            if addressed_incarnation(broadcast, mark) > dead.get(member, -1)
        }

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
        dead = self._local.dead
        concerned: list[Task] = []
        for hop, copy in list(self._outstanding.items()):
            task = copy.task
            mark = copy.recipients[copy.child]
            if addressed_incarnation(task.broadcast, mark) > dead.get(copy.child, -1):
                continue
            del self._outstanding[hop]
            task.waiting.discard(hop)
            concerned.append(task)
            rest = self._living(task.broadcast, copy.recipients)
            if rest:
                self._issue(task, rest)
                task.repaired = task.repaired or type(task.broadcast) is Subscription
        return concerned

    def check(self) -> None:
        """As `LocalNode.check`."""
        dead = self._local.dead
        for hop, copy in self._outstanding.items():
            task = copy.task
            assert hop in task.waiting and not task.finished, f"hop {hop} of a task that does not wait for it"
            assert copy.child == next(iter(copy.recipients)), (
                f"hop {hop} went to node {copy.child}, who is not first"
            )
            addressed = addressed_incarnation(task.broadcast, copy.recipients[copy.child])
            assert addressed > dead.get(copy.child, -1), f"hop {hop} waits for the dead node {copy.child}"

    def send_ack(
        self, parent: int, hop: int, broadcast: Broadcast, reports: dict[int, Report], repaired: bool
    ) -> None:
        """Tell the parent that the whole subtree has been served."""
        local = self._local
        dead = local.fresh
        if local.dead:
            if local.is_dead(parent):
                return
            # A joiner must learn of every crash, and so must whoever forwards what the dead sent.
            if type(broadcast) is Subscription or local.is_of_the_dead(broadcast.source, broadcast.counter):
                dead = dict(local.dead)
        target = local.known.get(parent, 0)
        ack = Ack(local.incarnation, target, hop, reports, repaired, dead, local.clock)
        local.send(parent, ack)
