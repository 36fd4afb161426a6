"""The rules of the protocol, each with a way to switch it off: what the explorer and its checkers are measured by.

An ablation patches the classes of `vcubeps.protocol`, which know nothing of it, so that one rule no longer
holds; those of a driver's rules patch the explorer's model of it. A search that finds no violation says something
only if it finds one then (`tests/sim/test_power.py`). Where random schedules meet the case less than once in some
ten thousand, a directed trace shows what breaks (`tests/protocol/test_directed_traces.py`). Rules are numbered as the
amendments in docs/internals/protocol.md.

    .venv/bin/python tests/ablations.py NAME [SCHEDULES]

measures how often random schedules catch one: the rate, the checkers that trip and the first schedules in which
they do. When the explorer's draws have changed, run it and correct `first` and the rate.

Three rules could not be caught, because others have made them redundant:

- Acknowledgements of a SUB, and of what the dead published, tell of all crashes, not only of those that are not
  final (10). A crash is final at the sender only when everyone whom it believes alive has flushed it: the receiver
  knows of it already.
- A relay serves a recipient whose new incarnation it has not let in (10). A node goes up, and so subscribes, only
  when all who live have let it in; until then it has no subscription that could miss anything.
- Nodes that are leaving report their floors (8). A joiner depends on what it has delivered, in earlier
  subscriptions too, and that it knows without being told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

import measuring
from vcubeps.cube import subcube
from vcubeps.protocol.admission import Admission
from vcubeps.protocol.aftermath import Aftermath
from vcubeps.protocol.boot import Boot
from vcubeps.protocol.broadcasts import Broadcasts
from vcubeps.protocol.causality import Ordered, Past
from vcubeps.protocol.crashes import Crashes
from vcubeps.protocol.dissemination import Dissemination, Task
from vcubeps.protocol.limits import MAX_INCARNATION
from vcubeps.protocol.local import LocalNode, merge_newest
from vcubeps.protocol.membership import View
from vcubeps.protocol.messages import (
    Ack,
    Ask,
    Barrier,
    Broadcast,
    Card,
    Copy,
    Fence,
    Final,
    Flush,
    Incarnations,
    IsFinal,
    Over,
    Publication,
    Report,
    Subscription,
    Unsubscription,
    Welcome,
    addressed_incarnation,
    incarnation_of,
)
from vcubeps.protocol.outputs import Deliver, Output, Send, Subscribed, Unsubscribed
from vcubeps.protocol.peer import Peer
from vcubeps.protocol.topic import Phase, Topic
from vcubeps.protocol.worker import Worker
from vcubeps.sim.explore import Allowed, run_schedule
from vcubeps.sim.explore.options import faults_needed
from vcubeps.sim.explore.probes import Greeting, Probes

Patch = pytest.MonkeyPatch

CAMPAIGN_SEED = 1
"""Of the campaign whose schedules the searches count."""


@dataclass(frozen=True, slots=True)
class Search:
    """Where random schedules catch an ablation."""

    allowed: Allowed
    trips: frozenset[str]
    """Checkers that all find something in one and the same schedule."""
    caught_per_10_000: float
    """Schedules of the campaign in which some checker finds something, as measured."""
    measured: int
    """Schedules that were run to measure it, from the campaign's first on."""
    first: int = 0
    """The first schedule to try, by its number in the campaign."""
    schedules: int = 60
    """Schedules to try at most; one of them must trip the checkers."""
    algorithm: str = "amended"
    """`checked` where copies have to leave their recipients out, which few recipients never are otherwise."""


@dataclass(frozen=True, slots=True)
class Ablation:
    """One rule, and how to do without it."""

    name: str
    rule: str
    """What is switched off, after the number of its amendment."""
    apply: Callable[[Patch], None]
    search: Search | None
    """None if only a directed trace shows what breaks."""


ABLATIONS: dict[str, Ablation] = {}


def ablation(
    rule: str, search: Search | None = None
) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Register the function below as the ablation of `rule`, under its own name."""

    def register(apply: Callable[[Patch], None]) -> Callable[[Patch], None]:
        name = apply.__name__
        ABLATIONS[name] = Ablation(name, rule, apply, search)
        return apply

    return register


def only(options: str, nodes_min: int = 4, nodes_max: int = 4, operations_max: int = 40) -> Allowed:
    names = frozenset(options.split())
    return Allowed(nodes_min, nodes_max, faults_needed(names), names, operations_max=operations_max)


CUT_OFF = only("voters joins unordered heavy-tail reactive", 3, 6, 10)


def checkers(names: str) -> frozenset[str]:
    return frozenset(names.split())


# 1: the source fixes the recipients


@ablation(
    "1: a relay serves those whom the source has named, not those whom it knows itself",
    Search(only("joins heavy-tail reactive"), checkers("completeness"), 1490, 1872),
)
def relays_serve_their_own_view(patch: Patch) -> None:
    on_publication, on_unsubscription = Broadcasts.on_publication, Broadcasts._on_unsubscription

    def own_view(self: Broadcasts, sender: int, copy: Copy) -> Copy:
        if copy.recipients is None:
            return copy
        me, worker = self._local.me, self.workers.get(copy.broadcast.topic)
        topic = worker.topic if worker is not None else None
        below = topic.subtree(subcube(me, sender) - 1) if topic is not None else {}
        return replace(copy, recipients={**below, me: copy.recipients[me]})

    def publication(self: Broadcasts, sender: int, copy: Copy, broadcast: Publication) -> None:
        on_publication(self, sender, own_view(self, sender, copy), broadcast)

    def leave(self: Broadcasts, sender: int, copy: Copy, *rest: Any) -> None:
        on_unsubscription(self, sender, own_view(self, sender, copy), *rest)

    patch.setattr(Broadcasts, "on_publication", publication)
    patch.setattr(Broadcasts, "_on_unsubscription", leave)


# 2: floors


@ablation(
    "2: a member tells a joiner up to where nothing will come",
    Search(only("rejoins unordered heavy-tail"), checkers("liveness"), 3903, 2757),
)
def members_report_no_floor(patch: Patch) -> None:
    admit = Topic.admit

    def no_floor(self: Topic, node: int, counter: int) -> Report | None:
        report = admit(self, node, counter)
        return report and replace(report, floor=0)

    patch.setattr(Topic, "admit", no_floor)


@ablation(
    "2: a member that is asked twice tells the floor of the first time, when it took the joiner in",
    Search(
        only("joins rejoins unordered heavy-tail reactive crash join-crash suspect", 8, 8, 25),
        checkers("causal"),
        15.9,
        1881,
        first=95,
    ),
)
def floors_are_told_anew(patch: Patch) -> None:
    admit = Topic.admit

    def latest(self: Topic, node: int, counter: int) -> Report | None:
        report = admit(self, node, counter)
        return report and replace(report, floor=self.last_publication)

    patch.setattr(Topic, "admit", latest)


# 3: when a dependency is met


@ablation(
    "3: a dependency on a source that is not in the view is met: it will never come",
    Search(only("leaves heavy-tail reactive"), checkers("liveness views hygiene"), 839, 3562),
)
def absent_sources_block(patch: Patch) -> None:
    blocker = Topic._blocker

    def strict(self: Topic, message: Ordered) -> int | None:
        absent = message.barrier.keys() - self.view.members.keys() - {self.local.me}
        return min(absent) if absent else blocker(self, message)

    patch.setattr(Topic, "_blocker", strict)


@ablation(
    "3: a dependency that has been received and is pending is not met yet",
    Search(only("unordered heavy-tail reactive"), checkers("causal"), 7092, 1644),
)
def pending_counts_as_delivered(patch: Patch) -> None:
    def not_received(topic: Topic, source: int, counter: int) -> bool:
        member = topic.view.members.get(source)
        if member is not None and member.counter <= counter:
            return member.received < counter
        return topic.local.is_of_the_dead(source, counter) and not topic.view.has_heard(source, counter)

    _depend_only_on(patch, not_received)


@ablation(
    "3: a dependency on a member that has not been heard so far is not met",
    Search(only("unordered heavy-tail reactive"), checkers("causal"), 7123, 1491),
)
def not_received_counts_as_delivered(patch: Patch) -> None:
    def pending_or_of_the_dead(topic: Topic, source: int, counter: int) -> bool:
        queue = topic.holdback.queues.get(source)
        pending = queue is not None and queue[0].counter <= counter
        return pending or topic.local.is_of_the_dead(source, counter)

    _depend_only_on(patch, pending_or_of_the_dead)


def _depend_only_on(patch: Patch, counts: Callable[[Topic, int, int], bool]) -> None:
    blocker = Topic._blocker

    def lenient(self: Topic, message: Ordered) -> int | None:
        barrier = {source: c for source, c in message.barrier.items() if counts(self, source, c)}
        return blocker(self, replace(message, barrier=barrier))

    patch.setattr(Topic, "_blocker", lenient)


@ablation(
    "3: what is not newer than the last publication received from its source is a repetition",
    Search(only("unordered heavy-tail crash relay-crash"), checkers("integrity fifo_reception"), 5922, 2163),
)
def repetitions_are_accepted(patch: Patch) -> None:
    accept, receive = Topic._accept, Topic.receive

    def forget(topic: Topic, publication: Publication) -> None:
        member = topic.view.members.get(publication.source)
        if member is not None and member.counter < publication.counter:
            member.received = member.counter

    def forgetful_accept(self: Topic, publication: Publication, addressed: bool) -> list[int]:
        forget(self, publication)
        return accept(self, publication, addressed)

    def forgetful_receive(self: Topic, publication: Publication, addressed_to: int) -> list[Task]:
        is_taken_in = self.phase is Phase.MEMBER and not self.closing and addressed_to == self.counter
        if is_taken_in and publication.source not in self.local.dead:
            forget(self, publication)
        return receive(self, publication, addressed_to)

    patch.setattr(Topic, "_accept", forgetful_accept)
    patch.setattr(Topic, "receive", forgetful_receive)


# 4 and 5: the life of a subscription


@ablation(
    "4: nothing is delivered or published before the subscription is in effect",
    Search(only("joins unordered heavy-tail reactive"), checkers("after_unsubscribe"), 1982, 1640),
)
def joining_nodes_are_members(patch: Patch) -> None:
    create = Topic.__init__

    def at_once(self: Topic, *arguments: Any) -> None:
        create(self, *arguments)
        self.phase = Phase.MEMBER

    patch.setattr(Topic, "__init__", at_once)


@ablation(
    "4: own publications that were queued are not delivered here after unsubscribe",
    Search(only("leaves bursts unordered heavy-tail"), checkers("after_unsubscribe"), 6673, 3189),
)
def own_publications_are_delivered_after_leaving(patch: Patch) -> None:
    start = Broadcasts._start_publication

    def deliver(self: Broadcasts, worker: Worker) -> None:
        topic = worker.topic
        assert topic is not None
        closing, topic.closing = topic.closing, False
        start(self, worker)
        topic.closing = closing

    patch.setattr(Broadcasts, "_start_publication", deliver)


@ablation(
    "5: one worker per topic: a join waits for the leave before it",
    Search(only("rejoins unordered heavy-tail reactive"), checkers("errors"), 785, 1936),
)
def joins_do_not_wait_for_the_leave(patch: Patch) -> None:
    subscribe, left = Broadcasts.subscribe, Broadcasts._left

    def start_at_once(self: Broadcasts, name: str) -> None:
        subscribe(self, name)
        worker = self.workers[name]
        if worker.queue and worker.current and isinstance(worker.current.broadcast, Unsubscription):
            assert worker.topic is not None
            worker.queue.pop()
            self.left.put(name, worker.topic.leave(), 0)
            self._start_join(worker, name)

    def end_of_the_leave(self: Broadcasts, worker: Worker, name: str, counter: int) -> None:
        if worker.topic is not None and worker.topic.phase is not Phase.LEAVING:
            self._local.emit(Unsubscribed(name))  # the topic is the next subscription's already
        else:
            left(self, worker, name, counter)

    patch.setattr(Broadcasts, "subscribe", start_at_once)
    patch.setattr(Broadcasts, "_left", end_of_the_leave)


# 6: pruning


@ablation(
    "6: a message stands for its barrier only if its source had the same membership",
    Search(only("joins unordered heavy-tail reactive", 4, 8, 20), checkers("causal"), 174, 5816),
)
def barriers_are_always_pruned(patch: Patch) -> None:
    deliver = Past.deliver

    def prune(self: Past, message: Publication, same_membership: bool) -> None:
        deliver(self, message, same_membership=True)

    patch.setattr(Past, "deliver", prune)


@ablation(
    "6: what is doubtful goes into the barrier again when the membership grows",
    Search(only("joins unordered heavy-tail reactive", 4, 4, 80), checkers("causal"), 54.0, 4631),
)
def newcomers_are_not_told(patch: Patch) -> None:
    patch.setattr(Past, "membership_grew", lambda self: None)


@ablation("6: a dependency that was never delivered here is doubtful")
def what_never_came_is_not_doubtful(patch: Patch) -> None:
    deliver = Past.deliver

    def without(self: Past, message: Publication, same_membership: bool) -> None:
        before = dict(self.doubtful)
        deliver(self, message, same_membership)
        for node in message.barrier.keys() - before.keys() - {message.source}:
            self.doubtful.pop(node, None)

    patch.setattr(Past, "deliver", without)


@ablation(
    "6: what is doubtful of a message's barrier goes into the barrier again if its source had another membership"
)
def others_barriers_are_not_passed_on(patch: Patch) -> None:
    deliver = Past.deliver

    def without(self: Past, message: Publication, same_membership: bool) -> None:
        before = dict(self.barrier)
        deliver(self, message, same_membership)
        if not same_membership:
            for node in message.barrier.keys() - before.keys() - {message.source}:
                self.barrier.pop(node, None)

    patch.setattr(Past, "deliver", without)


# 7 and 8: leaving, and coming back


@ablation("7: the last leave that is known of a node is kept, though a copy of an earlier one comes late")
def late_leaves_count_as_the_last(patch: Patch) -> None:
    apply_leave = Topic.apply_leave

    def lower(self: Topic, node: int, counter: int) -> None:
        apply_leave(self, node, counter)
        self.view.left[node] = counter

    patch.setattr(Topic, "apply_leave", lower)


@ablation("7: that a member has left is kept, though its flush says so before its leave does")
def leaves_in_flushes_are_not_kept(patch: Patch) -> None:
    compare = Crashes._compare_membership

    def forgetful(self: Crashes, topic: Topic, sender: int, flush: Flush) -> None:
        left = dict(topic.view.left)
        compare(self, topic, sender, flush)
        topic.view.left = left

    patch.setattr(Crashes, "_compare_membership", forgetful)


@ablation("7: a leave takes effect in causal order, like a publication")
def leaves_take_effect_at_once(patch: Patch) -> None:
    def at_once(self: Topic, leave: Unsubscription, task: Task) -> list[Task]:
        self.apply_leave(leave.source, leave.counter)
        return [task]

    patch.setattr(Topic, "receive_leave", at_once)


@ablation("7: a leave is acknowledged when it has taken effect, not when it arrives")
def leaves_are_acknowledged_at_once(patch: Patch) -> None:
    receive_leave = Topic.receive_leave

    def at_once(self: Topic, leave: Unsubscription, task: Task) -> list[Task]:
        stand_in = Task(leave)
        stand_in.finished = True
        return [task, *receive_leave(self, leave, stand_in)]

    patch.setattr(Topic, "receive_leave", at_once)


@ablation(
    "7 and 8: leaves in causal order, and a barrier to begin with; each covers for the other in most cases",
    Search(only("rejoins unordered heavy-tail reactive"), checkers("causal"), 62.7, 8129, first=400),
)
def leaves_take_effect_at_once_and_joiners_start_empty(patch: Patch) -> None:
    leaves_take_effect_at_once(patch)
    joiners_start_with_an_empty_barrier(patch)


@ablation(
    "8: a joiner starts with the floors and with what it knew as its barrier",
    Search(
        only("joins rejoins unordered heavy-tail reactive", 4, 4, 80),
        checkers("causal"),
        12.6,
        11_112,
        first=1893,
    ),
)
def joiners_start_with_an_empty_barrier(patch: Patch) -> None:
    begin = Past.begin

    def empty(self: Past) -> None:
        begin(self)
        self.barrier, self.doubtful = {}, {}

    patch.setattr(Past, "begin", empty)


@ablation("8: a node that leaves keeps what it knew for its next subscription")
def rejoining_nodes_have_forgotten(patch: Patch) -> None:
    leave = Topic.leave

    def own_only(self: Topic) -> Barrier:
        return {node: counter for node, counter in leave(self).items() if node == self.local.me}

    patch.setattr(Topic, "leave", own_only)


@ablation(
    "8: a subscription begins right after what the members reported",
    Search(only("joins unordered heavy-tail"), checkers("floors"), 4340, 500),
)
def subscriptions_say_they_begin_later(patch: Patch) -> None:
    take_outputs = Peer._take_outputs

    def later(output: Output) -> Output:
        if not isinstance(output, Subscribed):
            return output
        return replace(output, floors={node: floor + 2 for node, floor in output.floors.items()})

    patch.setattr(Peer, "_take_outputs", lambda self: [later(output) for output in take_outputs(self)])


# 9: batches


@ablation(
    "9: the publications of a batch are delivered in their order",
    Search(only("bursts unordered heavy-tail"), checkers("causal"), 9986, 1377),
)
def batches_are_reversed(patch: Patch) -> None:
    take_outputs = Peer._take_outputs

    def backwards(output: Output, me: int) -> Output:
        if not isinstance(output, Deliver) or output.source == me:
            return output
        batch = output.batch
        counters = tuple(batch.counters)[::-1]
        return replace(output, batch=replace(batch, payloads=batch.payloads[::-1], scattered=counters))

    patch.setattr(
        Peer, "_take_outputs", lambda self: [backwards(output, self.node) for output in take_outputs(self)]
    )


@ablation(
    "9: the barrier of a batch holds for all of it",
    Search(only("bursts unordered heavy-tail reactive"), checkers("causal"), 6463, 981),
)
def batches_have_no_barrier(patch: Patch) -> None:
    blocker = Topic._blocker

    def free(self: Topic, message: Ordered) -> int | None:
        is_batch = isinstance(message, Publication) and len(message.batch) > 1
        return None if is_batch else blocker(self, message)

    patch.setattr(Topic, "_blocker", free)


# 10: crashes, repair and flushes


@ablation(
    "10: what a dead child was to serve is sent again",
    Search(only("unordered heavy-tail reactive crash", 8, 8, 20), checkers("completeness"), 5038, 649),
)
def subtrees_of_the_dead_are_given_up(patch: Patch) -> None:
    repair = Dissemination.repair

    def give_up(self: Dissemination) -> list[Task]:
        for copy in self._outstanding.values():
            mark = copy.recipients[copy.child]
            if addressed_incarnation(copy.task.broadcast, mark) <= self._local.ended(copy.child):
                copy.recipients = {copy.child: mark}
        return repair(self)

    patch.setattr(Dissemination, "repair", give_up)


@ablation(
    "10: a flush holds the last publication received from each of the dead",
    Search(only("unordered heavy-tail crash relay-crash", 4, 8, 15), checkers("agreement"), 2008, 961),
)
def flushes_hold_nothing(patch: Patch) -> None:
    patch.setattr(Topic, "newest_of_the_dead", lambda self: {})


@ablation(
    "10: a crash is final when all who live have flushed",
    Search(only("unordered heavy-tail crash relay-crash", 4, 8, 15), checkers("agreement"), 1507, 1281),
)
def crashes_are_final_at_once(patch: Patch) -> None:
    try_final = Crashes.try_final

    def at_once(self: Crashes) -> None:
        for node in self._local.living:
            self.note_flushed(node, self._local.dead)
        try_final(self)

    patch.setattr(Crashes, "try_final", at_once)


@ablation("10: flushes are handled in the order in which they were sent")
def flushes_are_handled_as_they_come(patch: Patch) -> None:
    patch.setattr(Crashes, "in_order", lambda self, sender, flush: [flush])


@ablation(
    "10: a copy of a source that is known to be dead is left to the flushes",
    Search(
        only("leaves unordered heavy-tail reactive crash relay-crash", 8, 8, 20),
        checkers("agreement"),
        14.9,
        10071,
        first=240,
    ),
)
def late_copies_of_the_dead_are_accepted(patch: Patch) -> None:
    receive = Topic.receive

    def accept(self: Topic, publication: Publication, addressed_to: int) -> list[Task]:
        late = self.local.is_of_the_dead(publication.source, publication.counter)
        if late and self.phase is Phase.MEMBER and not self.closing and addressed_to == self.counter:
            return self.deliver_from(self._accept(publication, addressed=False))
        return receive(self, publication, addressed_to)

    patch.setattr(Topic, "receive", accept)


# 10: crashes, who learns of them


@ablation(
    "10: a node that learns that it was declared dead starts again",
    Search(
        only("unordered heavy-tail suspect", 4, 4, 15), checkers("liveness completeness views"), 10_000, 2812
    ),
)
def fences_are_ignored(patch: Patch) -> None:
    patch.setattr(Peer, "_start_again", lambda self, end: None)


@ablation(
    "10: a copy tells of the crashes that are not final at its sender",
    Search(
        only("unordered heavy-tail crash suspect suspect-crash", 4, 4, 15),
        checkers("agreement"),
        1.4,
        21771,
        first=7900,
    ),
)
def copies_tell_of_no_crash(patch: Patch) -> None:
    def silent(self: Dissemination, sent: Send, *arguments: Any) -> Send:
        assert isinstance(sent.message, Copy)
        return replace(sent, message=replace(sent.message, fresh={}))

    _edit_sends(patch, "_issue", silent)
    _edit_sends(patch, "asked", silent)


@ablation(
    "10: an acknowledgement tells of the crashes that are not final at its sender",
    Search(
        only("unordered heavy-tail crash suspect suspect-crash", 8, 8, 15),
        checkers("completeness"),
        0.8,
        11854,
        first=5250,
    ),
)
def acknowledgements_tell_of_no_crash(patch: Patch) -> None:
    def silent(node: LocalNode, broadcast: Broadcast, ack: Ack) -> Ack:
        has_own_rule = isinstance(broadcast, Subscription) or _is_of_the_dead(node, broadcast)
        return ack if has_own_rule else replace(ack, dead={})

    _edit_acknowledgements(patch, silent)


@ablation("10: an acknowledgement of a SUB tells the joiner of crashes")
def joiners_are_told_of_no_crash(patch: Patch) -> None:
    def silent(node: LocalNode, broadcast: Broadcast, ack: Ack) -> Ack:
        return replace(ack, dead={}) if isinstance(broadcast, Subscription) else ack

    _edit_acknowledgements(patch, silent)


@ablation("10: an acknowledgement of what the dead sent tells who forwarded it of their crash")
def relays_of_the_dead_are_told_of_no_crash(patch: Patch) -> None:
    def silent(node: LocalNode, broadcast: Broadcast, ack: Ack) -> Ack:
        is_fenced = not isinstance(broadcast, Subscription) and _is_of_the_dead(node, broadcast)
        return replace(ack, dead={}) if is_fenced else ack

    _edit_acknowledgements(patch, silent)


def _is_of_the_dead(node: LocalNode, broadcast: Broadcast) -> bool:
    return node.is_of_the_dead(broadcast.source, broadcast.counter)


def _edit_acknowledgements(patch: Patch, edit: Callable[[LocalNode, Broadcast, Ack], Ack]) -> None:
    def edited(self: Dissemination, sent: Send, parent: int, origin: int, hop: int, *rest: Any) -> Send:
        assert isinstance(sent.message, Ack)
        return replace(sent, message=edit(self._local, rest[0], sent.message))

    _edit_sends(patch, "send_ack", edited)


def _edit_sends(patch: Patch, method: str, edit: Callable[..., Send]) -> None:
    """Let `edit`, which gets the call's arguments too, change what a method of `Dissemination` sends."""
    call = getattr(Dissemination, method)

    def edited(self: Dissemination, *arguments: Any) -> Any:
        outputs = self._local.outputs
        before = len(outputs)
        result = call(self, *arguments)
        for index in range(before, len(outputs)):
            sent = outputs[index]
            assert isinstance(sent, Send)
            outputs[index] = edit(self, sent, *arguments)
        return result

    patch.setattr(Dissemination, method, edited)


# 10: crashes, who is a member and of what


@ablation(
    "10: a message for an earlier incarnation is dropped",
    Search(only("unordered heavy-tail suspect", 4, 4, 15), checkers("liveness"), 555, 2018),
)
def messages_to_earlier_incarnations_are_accepted(patch: Patch) -> None:
    apply = Peer._apply

    def readdressed(self: Peer, sender: int, message: Any) -> None:
        if isinstance(message, Copy | Ask | Ack | Flush | Final | Over):
            message = replace(message, target=self.incarnation)
        apply(self, sender, message)

    patch.setattr(Peer, "_apply", readdressed)


@ablation(
    "10: a copy is for the subscription that its source knew, not for a later one of the same node",
    Search(
        only("rejoins unordered heavy-tail crash relay-crash suspect", 4, 8, 25),
        checkers("causal"),
        1.8,
        11426,
        first=4640,
    ),
)
def copies_to_earlier_subscriptions_are_accepted(patch: Patch) -> None:
    receive = Topic.receive

    def readdressed(self: Topic, publication: Publication, addressed_to: int) -> list[Task]:
        return receive(self, publication, self.counter)

    patch.setattr(Topic, "receive", readdressed)


@ablation("10: a joiner keeps what was addressed to it though the source is not in its view in the end")
def joiners_drop_copies_of_former_members(patch: Patch) -> None:
    take_in = Topic.take_in_what_came_while_joining

    def drop(self: Topic) -> None:
        self._addressed.clear()
        take_in(self)

    patch.setattr(Topic, "take_in_what_came_while_joining", drop)


@ablation(
    "10: what was received from a former member is remembered, per incarnation",
    Search(
        only("leaves unordered heavy-tail crash relay-crash", 4, 8, 15),
        checkers("integrity fifo_reception"),
        92.4,
        10_068,
        first=240,
    ),
)
def former_members_are_forgotten(patch: Patch) -> None:
    patch.setattr(View, "hear", lambda self, node, counter: None)


@ablation(
    "10: a SUB of a node that is known to be dead makes nobody a member",
    Search(
        only("joins unordered heavy-tail crash join-crash", 4, 8, 20),
        checkers("views"),
        17.7,
        21410,
        first=90,
    ),
)
def the_dead_are_taken_in(patch: Patch) -> None:
    on_subscription = Broadcasts._on_subscription

    def take_in(self: Broadcasts, sender: int, copy: Copy, sub: Subscription, topic: Topic | None) -> None:
        if topic is not None and topic.phase is not Phase.LEAVING:
            topic.admit(sub.source, sub.counter)
        on_subscription(self, sender, copy, sub, topic)

    patch.setattr(Broadcasts, "_on_subscription", take_in)


@ablation(
    "10: a member whose crash is final leaves the view",
    Search(only("unordered heavy-tail crash", 4, 4, 15), checkers("views"), 9242, 2230),
)
def the_dead_stay_in_the_views(patch: Patch) -> None:
    patch.setattr(Topic, "purge_dead", lambda self: None)


@ablation("10: a SUB that comes after the leave of the same subscription is void")
def leaves_are_forgotten(patch: Patch) -> None:
    patch.setattr(View, "has_left", lambda self, node, counter: False)


@ablation("10: a node tells joiners that it has left, if its SUB was sent twice and may still turn up there")
def second_copies_are_forgotten(patch: Patch) -> None:
    left = Broadcasts._left

    def sent_once(self: Broadcasts, worker: Worker, name: str, counter: int) -> None:
        worker.sent_twice = False
        left(self, worker, name, counter)

    patch.setattr(Broadcasts, "_left", sent_once)


@ablation("10: a join takes effect when all known crashes are final")
def joins_do_not_wait_for_finality(patch: Patch) -> None:
    patch.setattr(Broadcasts, "_waits_for_finality", lambda self, task: False)


# 10: crashes, coming back


@ablation(
    "10: a node that boots answers flushes, because the others wait for it",
    Search(only("unordered heavy-tail crash recover boot-crash", 4, 4, 15), checkers("liveness"), 484, 2089),
)
def booting_nodes_do_not_flush(patch: Patch) -> None:
    _answer_only(patch, while_up=True)


def _answer_only(patch: Patch, while_up: bool) -> None:
    answer = Crashes.answer

    def reticent(self: Crashes, sender: int, flush: Flush) -> None:
        if self._local.up == while_up:
            answer(self, sender, flush)

    patch.setattr(Crashes, "answer", reticent)


@ablation(
    "10: a node that came up without one that lived starts again when that one lets it in",
    Search(only("islands joins crash recover cut", 2, 4, 10), checkers("completeness views"), 4130, 4000),
)
def nodes_that_came_up_alone_go_on(patch: Patch) -> None:
    send_welcome = Admission.send_welcome

    def never_admit(
        self: Admission, destination: int, asked_with: int | None, wanted: Incarnations, admit: bool
    ) -> None:
        send_welcome(self, destination, asked_with, wanted, admit=False)

    patch.setattr(Admission, "send_welcome", never_admit)


@ablation(
    "10: whoever is let in gets one Welcome, and one that comes after a node went up does not hide that it came up "
    "without the sender; each covers for the other",
    Search(only("islands permuted joins crash recover cut", 2, 4, 10), checkers("views"), 2651, 381),
)
def welcomes_come_in_pairs_and_are_noted_whenever_they_come(patch: Patch) -> None:
    on_welcome, send_welcome = Admission.on_welcome, Admission.send_welcome

    def note(self: Admission, sender: int, welcome: Welcome) -> None:
        on_welcome(self, sender, welcome)
        self.came_up_with[sender] = max(welcome.origin, self.came_up_with.get(sender, -1))

    def pair(
        self: Admission, destination: int, asked_with: int | None, wanted: Incarnations, admit: bool
    ) -> None:
        send_welcome(self, destination, asked_with, wanted, admit)
        if admit:
            send_welcome(self, destination, asked_with, wanted, admit=False)

    patch.setattr(Admission, "on_welcome", note)
    patch.setattr(Admission, "send_welcome", pair)


@ablation(
    "10: who deals with an incarnation of a node has done with those before it",
    Search(
        only("cut-join joins permuted greetings crash recover cut", 4, 4, 10),
        checkers("liveness"),
        54,
        6084,
        first=1690,
    ),
)
def superseded_incarnations_are_not_dead(patch: Patch) -> None:
    deal_with, ended, apply = LocalNode.deal_with, LocalNode.ended, Peer._apply
    unknown_crashes, crashed = LocalNode.unknown_crashes, Crashes.crashed

    def keep_the_grave(self: LocalNode, node: int, card: Card) -> None:
        declared = self.dead.get(node, self._graves.get(node, -1))
        deal_with(self, node, card)
        self._graves[node] = declared

    def only_those_declared_dead(self: LocalNode, node: int) -> int:
        return self._graves.get(node, -1) if node in self.living else ended(self, node)

    def of_the_newest(local: LocalNode, crashes: Mapping[int, int]) -> Incarnations:
        """The crashes of others are noted, and end nobody who lives."""
        older = {
            x: incarnation for x, incarnation in crashes.items() if incarnation < local.living.get(x, -1)
        }
        merge_newest(local._graves, older)
        return {x: incarnation for x, incarnation in crashes.items() if x not in older}

    def news(self: LocalNode, reported: Mapping[int, int]) -> Incarnations:
        return of_the_newest(self, unknown_crashes(self, reported))

    def crashed_as_the_newest(self: Crashes, crashes: Mapping[int, int]) -> None:
        if of_the_newest(self._local, crashes):
            crashed(self, of_the_newest(self._local, crashes))

    def heard_as_the_newer_one(self: Peer, sender: int, message: Any) -> None:
        newest = self._local.living.get(sender, -1)
        if self._local.ended(sender) < message.origin < newest and isinstance(message, Copy | Ack):
            message = replace(message, origin=newest)
        apply(self, sender, message)

    patch.setattr(LocalNode, "deal_with", keep_the_grave)
    patch.setattr(LocalNode, "ended", only_those_declared_dead)
    patch.setattr(LocalNode, "unknown_crashes", news)
    patch.setattr(Crashes, "crashed", crashed_as_the_newest)
    patch.setattr(Peer, "_apply", heard_as_the_newer_one)


@ablation("10: a node goes up when all who live know of each other")
def nodes_go_up_among_strangers(patch: Patch) -> None:
    class Everybody(dict[int, int]):
        def get(self, node: int, otherwise: Any = None) -> int:
            return MAX_INCARNATION

    def reported(self: Boot, sender: int, dealt_with: Incarnations) -> None:
        self._reported[sender] = Everybody()

    patch.setattr(Boot, "_note_reported", reported)


# 11: the flush cut

SOURCE_AND_RELAY_DIE = only("joins unordered heavy-tail reactive crash relay-crash", 8, 8, 15)


@ablation(
    "11: a dependency on a lost message is met only beyond the flush cut",
    Search(SOURCE_AND_RELAY_DIE, checkers("causal"), 144, 2783),
)
def lost_messages_hide_their_past(patch: Patch) -> None:
    patch.setattr(Topic, "_cut_passed", lambda self, message: True)


@ablation(
    "11: all that the survivors had started before they flushed must have been received",
    Search(SOURCE_AND_RELAY_DIE, checkers("causal"), 66.7, 3149, first=214),
)
def the_cut_is_not_waited_for(patch: Patch) -> None:
    cut_passed = Topic._cut_passed

    def no_cut(self: Topic, message: Ordered) -> bool:
        cut, self.cut = self.cut, {}
        passed = cut_passed(self, message)
        self.cut = cut
        return passed

    patch.setattr(Topic, "_cut_passed", no_cut)


@ablation("11: a crash that becomes final during a join cuts there too")
def joiners_have_no_cut(patch: Patch) -> None:
    join = Topic.join

    def from_here(self: Topic, reports: dict[int, Report]) -> None:
        self.cut = {}
        join(self, reports)

    patch.setattr(Topic, "join", from_here)


@ablation(
    "11: what is pending within the cut is delivered in the order of its stamps",
    Search(SOURCE_AND_RELAY_DIE, checkers("causal"), 135, 3560),
)
def stamps_are_not_compared(patch: Patch) -> None:
    cut_passed = Topic._cut_passed

    def oldest(self: Topic, message: Ordered) -> bool:
        return cut_passed(self, replace(message, stamp=-1))

    patch.setattr(Topic, "_cut_passed", oldest)


@ablation(
    "11: an acknowledgement has the clock of its sender, so that stamps grow along every dependency",
    Search(
        only("joins leaves rejoins unordered heavy-tail reactive crash relay-crash", 4, 8, 40),
        checkers("liveness"),
        7.1,
        11252,
        first=2660,
    ),
)
def acknowledgements_have_no_clock(patch: Patch) -> None:
    _edit_acknowledgements(patch, lambda node, broadcast, ack: replace(ack, clock=0))


# Where voters decide: rules of the core, and of the driver, which is here the explorer's model of probes


@ablation(
    "voters: a crash becomes final only where those who are not dead are a quorum of the voters",
    Search(
        only("voters joins crash recover cut reboots cut-reboot", 2, 5, 10),
        checkers("quorum acknowledged"),
        3850,
        2687,
        first=20,
    ),
)
def crashes_become_final_without_a_quorum(patch: Patch) -> None:
    try_final = Crashes.try_final

    def anywhere(self: Crashes) -> None:
        voters, self._local.voters = self._local.voters, None
        try:
            try_final(self)
        finally:
            self._local.voters = voters

    patch.setattr(Crashes, "try_final", anywhere)


@ablation(
    "voters: a node that boots goes up only if those who are not dead are a quorum of the voters",
    Search(CUT_OFF, checkers("quorum"), 42, 8988, first=600),
)
def nodes_go_up_without_a_quorum(patch: Patch) -> None:
    has_quorum, try_final = LocalNode.has_quorum, Crashes.try_final

    def gated(self: Crashes) -> None:
        patched, LocalNode.has_quorum = LocalNode.has_quorum, has_quorum
        try:
            try_final(self)
        finally:
            LocalNode.has_quorum = patched

    patch.setattr(LocalNode, "has_quorum", lambda self: True)
    patch.setattr(Crashes, "try_final", gated)


@ablation(
    "voters: a publication is acknowledged only when all known crashes are final",
    Search(CUT_OFF, checkers("split"), 80, 3000),
)
def acknowledgements_do_not_wait_for_finality(patch: Patch) -> None:
    waits = Broadcasts._waits_for_finality

    def only_joins(self: Broadcasts, task: Task) -> bool:
        return isinstance(task.broadcast, Subscription) and waits(self, task)

    patch.setattr(Broadcasts, "_waits_for_finality", only_joins)


@ablation(
    "voters: an isolated node accepts and starts nothing",
    Search(
        only("voters joins unordered heavy-tail reactive cut", 3, 6, 10),
        checkers("acknowledged declared_dead"),
        45,
        10470,
        first=830,
    ),
)
def isolated_nodes_go_on(patch: Patch) -> None:
    patch.setattr(Probes, "_tell", lambda self, node, isolated: None)


@ablation(
    "voters: whether a node is isolated is judged when it matters, not when it was probed last",
    Search(CUT_OFF, checkers("winner"), 173, 3000),
)
def isolation_is_judged_at_changes_only(patch: Patch) -> None:
    judge = Probes.judge

    def late(self: Probes, node: int) -> None:
        if not self._judged_until[node]:
            judge(self, node)

    patch.setattr(Probes, "judge", late)


@ablation(
    "voters: an isolated node suspects nobody",
    Search(CUT_OFF, checkers("winner"), 373, 3000),
)
def isolated_nodes_suspect(patch: Patch) -> None:
    patch.setattr(Probes, "may_suspect", lambda self, node: True)


@ablation(
    "voters: a greeting says that the receiver is held dead, before anything else arrives",
    Search(
        only("voters joins topics unordered heavy-tail suspect suspect-all cut", 2, 5, 10),
        checkers("declared_dead"),
        1.7,
        5955,
        first=5640,
    ),
)
def fences_do_not_come_first(patch: Patch) -> None:
    greet = Probes._greet

    def silent(self: Probes, node: int, sender: int, greeting: Greeting) -> None:
        greet(self, node, sender, greeting._replace(dead=-1))

    patch.setattr(Probes, "_greet", silent)
    patch.setattr(Probes, "_refuses", lambda self, node, asker: False)


# 12: when a crash is over

CRASHES_AND_COMEBACKS = only("unordered heavy-tail reactive crash relay-crash suspect recover", 4, 8, 25)
JOINS_AND_COMEBACKS = only("joins unordered heavy-tail reactive crash relay-crash suspect recover", 4, 8, 25)


@ablation(
    "12: a crash is over when it is final at all who live",
    Search(JOINS_AND_COMEBACKS, checkers("causal"), 173, 5662, first=40),
)
def collectors_do_not_wait(patch: Patch) -> None:
    try_over = Aftermath._try_over

    def at_once(self: Aftermath) -> None:
        for other in self._local.living:
            merge_newest(self._final_at.setdefault(other, {}), self._candidates())
        try_over(self)

    patch.setattr(Aftermath, "_try_over", at_once)


@ablation(
    "12: a crash is not over while something of the dead is held back somewhere",
    Search(JOINS_AND_COMEBACKS, checkers("causal"), 19, 3682, first=420),
)
def crashes_are_over_while_something_is_held_back(patch: Patch) -> None:
    patch.setattr(Topic, "holds_back_of", lambda self, over: False)


@ablation(
    "12: the last publications of the dead are kept until the crash is over",
    Search(JOINS_AND_COMEBACKS, checkers("agreement"), 41, 8276, first=620),
)
def held_publications_are_dropped_when_final(patch: Patch) -> None:
    purge_dead = Topic.purge_dead

    def drop(self: Topic) -> None:
        purge_dead(self)
        ended = self.local.ended_finally
        self.newest = {x: m for x, m in self.newest.items() if incarnation_of(m.counter) > ended(x)}

    patch.setattr(Topic, "purge_dead", drop)


@ablation(
    "12: a flush about a crash that was over before is answered",
    Search(CRASHES_AND_COMEBACKS, checkers("liveness views acquaintance"), 2612, 2175),
)
def flushes_about_what_was_forgotten_are_not_answered(patch: Patch) -> None:
    _answer_only(patch, while_up=False)


@ablation("12: a collector that came later does not take for over what it has not heard of")
def collectors_take_what_they_do_not_know_for_over(patch: Patch) -> None:
    on_final = Aftermath.on_final

    def sure(self: Aftermath, sender: int, final: Final) -> None:
        local = self._local
        unknown = {x: n for x, n in final.dead.items() if x not in self.not_over and x not in local.dead}
        if unknown:
            local.send(sender, Over(local.incarnation, final.origin, unknown))
            final = replace(final, dead={x: n for x, n in final.dead.items() if x not in unknown})
        on_final(self, sender, final)

    patch.setattr(Aftermath, "on_final", sure)


@ablation("12: a collector asks those who have not said that a crash is final")
def collectors_do_not_ask(patch: Patch) -> None:
    try_over = Aftermath._try_over

    def silent(self: Aftermath) -> None:
        before = len(self._local.outputs)
        try_over(self)
        caused = self._local.outputs[before:]
        self._local.outputs[before:] = [
            output
            for output in caused
            if not (isinstance(output, Send) and isinstance(output.message, IsFinal))
        ]

    patch.setattr(Aftermath, "_try_over", silent)


@ablation("12: who has told a collector that a crash is final tells it again after a further crash")
def reports_are_not_repeated(patch: Patch) -> None:
    crashed = Aftermath.crashed

    def told_once(self: Aftermath, victims: Iterable[int]) -> None:
        told = {other: news for other, news in self._told.items() if other not in victims}
        crashed(self, victims)
        self._told = told

    patch.setattr(Aftermath, "crashed", told_once)


@ablation("12: nothing is kept of those whose crash is over, though publications that name them come later")
def barriers_bring_the_dead_back(patch: Patch) -> None:
    class Everybody(dict[int, int]):
        def __contains__(self, _: object) -> bool:
            return True

    make = Past.__init__
    patch.setattr(Past, "__init__", lambda self, known, present: make(self, known, Everybody()))


@ablation("12: who comes, and may collect from now on, is told what is final")
def collectors_that_come_are_told_nothing(patch: Patch) -> None:
    begin_with = Aftermath.begin_with

    def unnoticed(self: Aftermath, newcomer: int) -> None:
        was_due = self.is_due
        begin_with(self, newcomer)
        self.is_due = was_due

    patch.setattr(Aftermath, "begin_with", unnoticed)


@ablation("10: an acknowledgement goes to the incarnation that sent the copy")
def acknowledgements_go_to_whoever_lives(patch: Patch) -> None:
    send_ack = Dissemination.send_ack

    def to_the_living(self: Dissemination, parent: int, origin: int, *rest: Any) -> None:
        send_ack(self, parent, self._local.living.get(parent, origin), *rest)

    patch.setattr(Dissemination, "send_ack", to_the_living)


@ablation("12: a flush about an incarnation that was never dealt with here is answered")
def skipped_incarnations_are_not_answered_for(patch: Patch) -> None:
    has_done_with = Crashes._has_done_with

    def with_all_before(self: Crashes, node: int, incarnation: int) -> bool:
        return has_done_with(self, node, incarnation) and node not in self._aftermath.not_over

    patch.setattr(Crashes, "_has_done_with", with_all_before)


@ablation("12: that a crash is over holds for all incarnations before it too")
def only_the_incarnation_that_is_named_is_over(patch: Patch) -> None:
    on_over = Aftermath.on_over

    def as_known(self: Aftermath, over: Over) -> None:
        ended = self._local.ended_finally
        known = {x: newest for x, newest in over.dead.items() if newest <= ended(x) or x == self._local.me}
        on_over(self, replace(over, dead=known))

    patch.setattr(Aftermath, "on_over", as_known)


@ablation("12: what is forgotten of an incarnation is not forgotten of the next one")
def cuts_of_the_next_incarnation_are_forgotten(patch: Patch) -> None:
    forget = Topic.forget

    def all_of_it(self: Topic, over: Incarnations) -> None:
        forget(self, over)
        for node in over:
            self.cut.pop(node, None)

    patch.setattr(Topic, "forget", all_of_it)


@ablation(
    "12: of a node that is gone the last incarnation is kept",
    Search(CRASHES_AND_COMEBACKS, checkers("liveness views acquaintance"), 1290, 4652, first=60),
)
def graves_are_not_kept(patch: Patch) -> None:
    patch.setattr(LocalNode, "bury", lambda self, node, incarnation: None)


@ablation("12: whom an incarnation held for dead, the next one does not")
def graves_outlive_a_restart(patch: Patch) -> None:
    inherit = LocalNode.inherit

    def all_of_it(self: LocalNode, older: LocalNode) -> None:
        inherit(self, older)
        self._graves = {x: newest for x, newest in older._graves.items() if x not in self.known}
        self._forgotten = older._forgotten

    patch.setattr(LocalNode, "inherit", all_of_it)


# 13: who is there


@ablation(
    "13: a receiver that has another view than the source asks for the recipients",
    Search(only("digests joins heavy-tail reactive", 4, 8, 20), checkers("completeness"), 1870, 1000),
)
def receivers_use_their_own_view(patch: Patch) -> None:
    on_publication = Broadcasts.on_publication

    def guess(self: Broadcasts, sender: int, copy: Copy, publication: Publication) -> None:
        if copy.recipients is None:
            me, worker = self._local.me, self.workers.get(publication.topic)
            topic = worker.topic if worker is not None else None
            own = topic.subtree(subcube(me, sender) - 1) if topic is not None else {me: 0}
            copy = replace(copy, recipients=own)
        on_publication(self, sender, copy, publication)

    patch.setattr(Broadcasts, "on_publication", guess)


@ablation("13: what a node knows of several topics together is corrected by what the members of one tell it")
def merged_knowledge_is_not_corrected(patch: Patch) -> None:
    patch.setattr(Past, "correct", Past.learn)


@ablation("13: a Welcome tells who of those asked about is no more")
def welcomes_do_not_tell_who_is_no_more(patch: Patch) -> None:
    send_welcome = Admission.send_welcome

    def silent(
        self: Admission, destination: int, asked_with: int | None, wanted: Incarnations, admit: bool
    ) -> None:
        send_welcome(self, destination, asked_with, {}, admit)

    patch.setattr(Admission, "send_welcome", silent)


@ablation(
    "13: what a node has said of whom it deals with is added up, because Welcomes may overtake each other",
    Search(
        only(
            "joins permuted unordered heavy-tail greetings crash recover reboots boot-crash boot-reports suspect",
            2,
            5,
            10,
        ),
        checkers("liveness"),
        180,
        4900,
        first=260,
    ),
)
def the_last_welcome_counts(patch: Patch) -> None:
    def replace_it(self: Boot, sender: int, dealt_with: Incarnations) -> None:
        self._reported[sender] = dealt_with

    patch.setattr(Boot, "_note_reported", replace_it)


@ablation(
    "13: who is fenced asks the one who said so",
    Search(
        only(
            "joins leaves reactive unordered heavy-tail permuted arrive depart crash recover suspect cut",
            2,
            6,
        ),
        checkers("liveness acquaintance"),
        3.2,
        3104,
        first=1640,
    ),
)
def the_fenced_ask_only_whom_they_know(patch: Patch) -> None:
    come = Peer._come
    patch.setattr(Peer, "_come", lambda self, told_by=frozenset(): come(self))


@ablation("13: a node that boots asks whoever says Hello to it, once, though it has asked before")
def nobody_asks_back(patch: Patch) -> None:
    patch.setattr(Boot, "_ask_back", lambda self, other, incarnation: None)


@ablation(
    "13: a node that introduces itself, or is introduced, is looked for where its card says",
    Search(
        only("arrive depart joins crash recover suspect", 2, 5, 20),
        checkers("acquaintance"),
        55,
        2000,
        first=100,
    ),
)
def cards_are_not_renewed(patch: Patch) -> None:
    patch.setattr(LocalNode, "renew_card", lambda self, node, card: None)


@ablation("13: a node that boots waits for the nodes of its file")
def expected_nodes_are_not_waited_for(patch: Patch) -> None:
    start = Boot.start

    def as_seeds(self: Boot, expected: Iterable[int], seeds: Iterable[int], may_found: bool) -> None:
        start(self, (), {*expected, *seeds}, may_found)

    patch.setattr(Boot, "start", as_seeds)


@ablation("13: a newcomer goes up only when somebody who is up has let it in")
def newcomers_go_up_alone(patch: Patch) -> None:
    start = Boot.start

    def alone(self: Boot, expected: Any, seeds: Any, may_found: bool) -> None:
        start(self, expected, seeds, may_found=True)

    patch.setattr(Boot, "start", alone)


@ablation("13: a node that is up greets those whom it does not know, and finds out that they came up apart")
def nodes_that_are_up_do_not_greet(patch: Patch) -> None:
    patch.setattr(Admission, "greet", lambda self, node: None)


@ablation("13: who goes up tells newcomers that boot with it")
def nobody_tells_that_it_is_up(patch: Patch) -> None:
    go_up = Boot._go_up

    def silently(self: Boot) -> None:
        self._booting_too.clear()
        go_up(self)

    patch.setattr(Boot, "_go_up", silently)


@ablation("13: who comes with a taken id is told so, whatever its incarnation")
def taken_ids_are_fenced(patch: Patch) -> None:
    is_taken = Admission.is_taken

    def if_newer(self: Admission, node: int, card: Card) -> bool:
        return card.incarnation > self._local.ended(node) and is_taken(self, node, card)

    patch.setattr(Admission, "is_taken", if_newer)


@ablation("13: copies to a newcomer that was never let in are given up when a later incarnation of it is")
def copies_to_nobody_are_waited_for(patch: Patch) -> None:
    patch.setattr(Crashes, "give_up_copies", lambda self: None)


@ablation("13: a fence names the last incarnation of the id")
def fences_name_who_speaks(patch: Patch) -> None:
    apply = Peer._apply

    def of_the_message(self: Peer, sender: int, message: Any) -> None:
        outputs = self._local.outputs
        before = len(outputs)
        apply(self, sender, message)
        for place, output in enumerate(outputs[before:], before):
            if (
                isinstance(output, Send)
                and isinstance(output.message, Fence)
                and output.destination == sender
            ):
                last = min(output.message.incarnation, message.origin)
                outputs[place] = replace(output, message=replace(output.message, incarnation=last))

    patch.setattr(Peer, "_apply", of_the_message)


# Measuring


def measure(name: str, schedules: int) -> None:
    search = ABLATIONS[name].search
    if search is None:
        raise SystemExit(f"{name} is caught by a directed trace only: there are no options to search with")

    def violated(seed: int) -> tuple[str, ...]:
        return run_schedule(seed, search.allowed, search.algorithm).violated

    measuring.measure(name, ABLATIONS[name].apply, violated, CAMPAIGN_SEED, schedules)


def listed(ablation: Ablation) -> str:
    how = f"{ablation.search.caught_per_10_000:g} of 10,000" if ablation.search else "directed trace"
    return f"{ablation.rule} ({how})"


if __name__ == "__main__":
    rules = {name: listed(ablation) for name, ablation in ABLATIONS.items()}
    measuring.main(rules, measure, "the protocol", 10_000)
