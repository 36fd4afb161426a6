"""Rules of the protocol, each switched off by a patch: what the explorer must notice.

Production code has no such switches. An ablation names the kind of schedule that shows it and how often it
does: `caught_per_10_000` was measured over the first thousand schedules or more of campaign seed 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from vcubeps.cube import cluster
from vcubeps.protocol.broadcasts import Broadcasts
from vcubeps.protocol.causality import Past
from vcubeps.protocol.crashes import Crashes
from vcubeps.protocol.dissemination import Dissemination, Task
from vcubeps.protocol.local import LocalNode
from vcubeps.protocol.messages import (
    Ack,
    Copy,
    Flush,
    Publication,
    Report,
    Subscription,
    addressed_incarnation,
)
from vcubeps.protocol.outputs import Barrier, Deliver, Output
from vcubeps.protocol.peer import Peer
from vcubeps.protocol.topic import Phase, Topic
from vcubeps.sim.explore import Allowed

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Ablation:
    """One rule left out."""

    rule: str
    """The rule, as docs/internals/protocol.md numbers it."""
    apply: Callable[[Patch], None]
    schedules: Allowed
    checkers: frozenset[str]
    """Of these at least one complains."""
    caught_per_10_000: int
    bound: int
    """Schedules within which it must be caught."""


def _allowed(low: int, high: int, options: str) -> Allowed:
    return Allowed(low, high, only=frozenset(options.split()))


JOINS = _allowed(4, 4, "joins unordered heavy-tail reactive")
CHURN = _allowed(4, 4, "joins leaves rejoins unordered heavy-tail reactive")
STATIC = _allowed(4, 4, "unordered heavy-tail reactive bursts")
CRASHES = _allowed(4, 4, "unordered heavy-tail reactive crash")
RELAYS_CRASH = _allowed(4, 4, "unordered heavy-tail reactive crash relay-crash")
MANY_RELAYS_CRASH = _allowed(8, 8, "unordered heavy-tail reactive crash relay-crash")
CHURN_AND_CRASHES = _allowed(4, 4, "joins leaves rejoins unordered heavy-tail reactive crash join-crash")
CHURN_AND_RELAYS_CRASH = _allowed(
    4, 8, "joins leaves rejoins unordered heavy-tail reactive crash join-crash relay-crash"
)
CHURN_AND_RECOVERY = _allowed(
    4, 4, "joins leaves rejoins unordered heavy-tail reactive crash recover boot-crash"
)
SUSPICION = _allowed(4, 4, "unordered heavy-tail reactive suspect")


def relay_uses_its_own_view(patch: Patch) -> None:
    def forward(self: Broadcasts, sender: int, copy: Copy, task: Task | None = None) -> Task:
        me = self._node.me
        task = task or Task(copy.broadcast, sender, copy.hop)
        rest = {other: mark for other, mark in copy.recipients.items() if other != me}
        if not isinstance(copy.broadcast, Subscription):
            worker = self.workers.get(copy.broadcast.topic)
            members = worker.topic.view.members if worker and worker.topic else {}
            inside = cluster(me, sender)
            rest = {other: m.counter for other, m in members.items() if cluster(other, me) < inside}
        self._tree.fan_out(task, rest, cluster(me, sender) - 1)
        return task

    patch.setattr(Broadcasts, "_forward", forward)


def no_floors(patch: Patch) -> None:
    admit = Topic.admit

    def without_floor(self: Topic, node: int, counter: int) -> Report | None:
        report = admit(self, node, counter)
        return report and replace(report, floor=0)

    patch.setattr(Topic, "admit", without_floor)


def who_is_absent_blocks(patch: Patch) -> None:
    blocker = Topic._blocker

    def wait_for_absent(self: Topic, message: Publication) -> int | None:
        absent = (s for s in message.barrier if s != self.node.me and s not in self.view.members)
        return next(absent, blocker(self, message))

    patch.setattr(Topic, "_blocker", wait_for_absent)


def _only_dependencies(patch: Patch, matters: Callable[[Topic, int, int], bool]) -> None:
    blocker = Topic._blocker

    def judge(self: Topic, message: Publication) -> int | None:
        kept: Barrier = {s: n for s, n in message.barrier.items() if matters(self, s, n)}
        return blocker(self, replace(message, barrier=kept))

    patch.setattr(Topic, "_blocker", judge)


def pending_does_not_matter(patch: Patch) -> None:
    def not_received(topic: Topic, source: int, needed: int) -> bool:
        member = topic.view.members.get(source)
        return member is not None and member.received < needed

    _only_dependencies(patch, not_received)


def reception_does_not_matter(patch: Patch) -> None:
    def pending(topic: Topic, source: int, needed: int) -> bool:
        queue = topic.holdback.queues.get(source)
        return queue is not None and queue[0].counter <= needed

    _only_dependencies(patch, pending)


def deliver_before_joined(patch: Patch) -> None:
    create = Topic.__init__

    def member_at_once(self: Topic, node: LocalNode, name: str, counter: int, known: Barrier) -> None:
        create(self, node, name, counter, known)
        self.phase = Phase.MEMBER

    patch.setattr(Topic, "__init__", member_at_once)


def prune_always(patch: Patch) -> None:
    deliver = Past.deliver
    patch.setattr(
        Past, "deliver", lambda self, me, message, same_membership: deliver(self, me, message, True)
    )


def newcomer_is_not_told(patch: Patch) -> None:
    patch.setattr(Past, "membership_grew", lambda self: None)


def reverse_batches(patch: Patch) -> None:
    emit = LocalNode.emit

    def reversed_items(self: LocalNode, output: Output) -> None:
        if isinstance(output, Deliver) and output.source != self.me:
            output = replace(output, items=output.items[::-1])
        emit(self, output)

    patch.setattr(LocalNode, "emit", reversed_items)


def batches_wait_for_nothing(patch: Patch) -> None:
    blocker = Topic._blocker

    def free_batches(self: Topic, message: Publication) -> int | None:
        if isinstance(message, Publication) and len(message.items) > 1:
            return None
        return blocker(self, message)

    patch.setattr(Topic, "_blocker", free_batches)


def no_repair(patch: Patch) -> None:
    repair = Dissemination.repair

    def drop_subtrees(self: Dissemination) -> list[Task]:
        for copy in self._outstanding.values():
            mark = copy.recipients[copy.child]
            if addressed_incarnation(copy.task.broadcast, mark) <= self._node.dead.get(copy.child, -1):
                copy.recipients = {copy.child: mark}
        return repair(self)

    patch.setattr(Dissemination, "repair", drop_subtrees)


def survivors_hand_on_nothing(patch: Patch) -> None:
    patch.setattr(Topic, "newest_of_the_dead", lambda self: {})


def final_at_once(patch: Patch) -> None:
    try_final = Crashes.try_final

    def without_flushes(self: Crashes) -> None:
        for other in self._node.nodes:
            self.note_flushed(other, self._node.dead)
        try_final(self)

    patch.setattr(Crashes, "try_final", without_flushes)


def accept_what_was_meant_for_an_earlier_incarnation(patch: Patch) -> None:
    apply = Peer._apply

    def readdressed(self: Peer, sender: int, message: object) -> None:
        if isinstance(message, Copy | Ack | Flush):
            message = replace(message, target=self.incarnation)
        apply(self, sender, message)  # type: ignore[arg-type]

    patch.setattr(Peer, "_apply", readdressed)


def ignore_fences(patch: Patch) -> None:
    patch.setattr(Peer, "_restart", lambda self: None)


def receive_again(patch: Patch) -> None:
    accept = Topic._accept

    def forgetful(self: Topic, publication: Publication, addressed: bool = False) -> list[int]:
        member = self.view.members.get(publication.source)
        if member is not None and member.counter < publication.counter:
            member.received = member.counter
        return accept(self, publication, addressed)

    patch.setattr(Topic, "_accept", forgetful)


def no_cut(patch: Patch) -> None:
    patch.setattr(Topic, "_cut_passed", lambda self, message: True)


def cut_without_high_water(patch: Patch) -> None:
    cut_passed = Topic._cut_passed

    def stamps_only(self: Topic, message: Publication) -> bool:
        cut, self.cut = self.cut, {}
        passed = cut_passed(self, message)
        self.cut = cut
        return passed

    patch.setattr(Topic, "_cut_passed", stamps_only)


def no_stamps(patch: Patch) -> None:
    cut_passed = Topic._cut_passed
    patch.setattr(Topic, "_cut_passed", lambda self, message: cut_passed(self, replace(message, stamp=-1)))


def no_clock_in_acknowledgements(patch: Patch) -> None:
    send = LocalNode.send

    def stopped(self: LocalNode, destination: int, message: object) -> None:
        send(self, destination, replace(message, clock=0) if isinstance(message, Ack) else message)

    patch.setattr(LocalNode, "send", stopped)


def _causes(*names: str) -> frozenset[str]:
    return frozenset(names)


ABLATIONS: dict[str, Ablation] = {
    ablation.apply.__name__: ablation
    for ablation in (
        Ablation("1", relay_uses_its_own_view, CHURN, _causes("completeness"), 1030, 100),
        Ablation("2", no_floors, JOINS, _causes("liveness"), 530, 150),
        Ablation("3", who_is_absent_blocks, CHURN, _causes("liveness"), 2020, 50),
        Ablation("3", pending_does_not_matter, STATIC, _causes("causal"), 7400, 20),
        Ablation("3", reception_does_not_matter, STATIC, _causes("causal"), 7400, 20),
        Ablation("4", deliver_before_joined, JOINS, _causes("causal", "after_unsubscribe"), 1980, 60),
        Ablation("6", prune_always, JOINS, _causes("causal"), 100, 500),
        Ablation("6", newcomer_is_not_told, JOINS, _causes("causal"), 28, 800),
        Ablation("9", reverse_batches, STATIC, _causes("causal"), 10_000, 10),
        Ablation("9", batches_wait_for_nothing, STATIC, _causes("causal"), 6400, 20),
        Ablation("10", no_repair, CRASHES, _causes("completeness"), 2250, 60),
        Ablation("10", survivors_hand_on_nothing, RELAYS_CRASH, _causes("agreement"), 440, 100),
        Ablation("10", final_at_once, CHURN_AND_CRASHES, _causes("agreement"), 60, 400),
        Ablation(
            "10",
            accept_what_was_meant_for_an_earlier_incarnation,
            CHURN_AND_RECOVERY,
            _causes("liveness", "views", "hygiene"),
            520,
            200,
        ),
        Ablation("10", ignore_fences, SUSPICION, _causes("views"), 9750, 10),
        Ablation("10", receive_again, CHURN_AND_CRASHES, _causes("integrity", "fifo_reception"), 2680, 40),
        Ablation("11", no_cut, MANY_RELAYS_CRASH, _causes("causal"), 71, 500),
        Ablation("11", cut_without_high_water, MANY_RELAYS_CRASH, _causes("causal"), 53, 700),
        Ablation("11", no_stamps, MANY_RELAYS_CRASH, _causes("causal"), 79, 500),
        Ablation("11", no_clock_in_acknowledgements, CHURN_AND_RELAYS_CRASH, _causes("liveness"), 16, 900),
    )
}
