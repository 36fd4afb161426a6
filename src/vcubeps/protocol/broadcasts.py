"""SUB, PUB and UNS: what the application asks for, one broadcast after the other per topic, and what others' do here.

Each topic has one worker: its operations leave in the order they were asked for, and the next
starts when the one under way is acknowledged by all (Algorithm 2, line 31). What is published
meanwhile waits and then leaves as one batch.
"""

from __future__ import annotations

from collections.abc import Sequence

from vcubeps.cube import MAX_DIMENSION, subcube
from vcubeps.protocol.dissemination import ROOT, Dissemination, Shares, Task
from vcubeps.protocol.errors import UsageError
from vcubeps.protocol.left_topics import LeftTopics
from vcubeps.protocol.limits import (
    MAX_BATCH_BYTES,
    MAX_PAYLOAD_BYTES,
    MAX_QUEUED,
    MAX_TIME_NS,
    check_payload,
    check_topic,
)
from vcubeps.protocol.local import LocalNode
from vcubeps.protocol.messages import (
    Ack,
    Ask,
    Copy,
    Incarnations,
    Publication,
    Recipients,
    Report,
    Subscription,
    Unsubscription,
)
from vcubeps.protocol.outputs import (
    Accepted,
    Acknowledged,
    Deliver,
    Started,
    Subscribed,
    Unsubscribed,
)
from vcubeps.protocol.topic import LEAVING, MEMBER, Topic
from vcubeps.protocol.worker import Join, Leave, Worker


class Broadcasts:
    """The topics of one node."""

    __slots__ = ("_batch_items_max", "_local", "_tree", "left", "workers")

    def __init__(self, local: LocalNode, tree: Dissemination, batch_items_max: int) -> None:
        self._batch_items_max = batch_items_max
        self._local = local
        self._tree = tree
        self.workers: dict[str, Worker] = {}
        self.left = LeftTopics()

    def check(self) -> None:
        """As `LocalNode.check`."""
        self.left.check()
        for name, worker in self.workers.items():
            assert not worker.is_idle(), f"keeps the idle topic {name}"
            worker.check()

    # -- what the application asks for ---------------------------------------------------------

    def can_subscribe(self, name: str) -> bool:
        worker = self.workers.get(name)
        return self._local.up and not self._local.isolated and not (worker and worker.wanted)

    def is_member(self, name: str) -> bool:
        """As `Worker.is_member`."""
        worker = self.workers.get(name)
        return worker is not None and worker.is_member()

    def subscribe(self, name: str) -> None:
        check_topic(name)
        if not self._local.up:
            raise UsageError(
                f"cannot subscribe to {name!r}: the others have not let this node in yet; wait for Up"
            )
        self._check_contact(name)
        self._local.check_counters_left()
        worker = self.workers.get(name)
        if worker is None:
            worker = self.workers[name] = Worker()
        if worker.wanted:
            raise UsageError(
                f"already subscribed to {name!r}: unsubscribe first, or use the subscription there is"
            )
        worker.wanted = True
        worker.queue.append(Join())
        self._pump(worker, name)

    def unsubscribe(self, name: str) -> None:
        check_topic(name)
        worker = self.workers.get(name)
        if worker is None or not worker.wanted:
            raise UsageError(f"not subscribed to {name!r}: subscribe before you unsubscribe")
        worker.wanted = False
        if worker.queue and type(worker.queue[-1]) is Join:
            worker.queue.pop()
            if worker.topic is None:
                # The leave before it has ended, and the join could not start because this node is isolated.
                self._is_left(worker, name)
            return
        assert worker.topic is not None
        self._release(worker.topic.close())
        worker.queue.append(Leave())
        self._pump(worker, name)

    def accept(self, name: str, payload: bytes, time_ns: int) -> int:
        """The counter of a publication that waits for `release` from now on."""
        # Few functions are called where nothing is amiss: this runs for every publication.
        worker = self.workers.get(name) if type(name) is str else None
        topic = worker.topic if worker is not None else None
        if worker is None or topic is None or topic.phase is not MEMBER or topic.closing:
            check_topic(name)
            if worker is not None and worker.wanted:
                raise UsageError(f"cannot publish on {name!r} yet: wait for Subscribed")
            raise UsageError(f"cannot publish on {name!r} without a subscription: subscribe first")
        local, waiting = self._local, worker.waiting
        if local.isolated:
            self._check_contact(name)
        if type(payload) is not bytes or len(payload) > MAX_PAYLOAD_BYTES:
            check_payload(payload)
        if not 0 <= time_ns <= MAX_TIME_NS:
            raise UsageError(f"a time has 64 bits, got {time_ns}: give nanoseconds since 1970, or nothing")
        if len(waiting.counters) >= MAX_QUEUED:
            raise UsageError(
                f"{MAX_QUEUED} publications on {name!r} wait already, which is the limit: wait for Acknowledged"
            )
        counter = local.counter + 1
        if counter > local.counter_max:
            local.check_counters_left()
        local.counter = counter
        waiting.counters.append(counter)
        waiting.payloads.append(payload)
        waiting.times_ns.append(time_ns)
        waiting.size += len(payload)
        return counter

    def publish(self, name: str, payload: bytes, time_ns: int) -> None:
        self._local.emit(Accepted(name, self.accept(name, payload, time_ns)))
        self.release(name)

    def _check_contact(self, name: str) -> None:
        if self._local.isolated:
            raise UsageError(
                f"cannot subscribe or publish on {name!r}: this node is in contact with no quorum of the voters; "
                f"wait until it is"
            )

    def release(self, name: str) -> None:
        """No more publications follow for now: those that wait may leave."""
        worker = self.workers.get(name)
        if worker is not None:
            self._pump(worker, name)

    # -- own broadcasts ------------------------------------------------------------------------

    def _pump(self, worker: Worker, name: str) -> None:
        if worker.pumping or self._local.isolated:
            return
        worker.pumping = True
        while worker.current is None and (worker.waiting.counters or worker.queue):
            if worker.waiting.counters:
                self._start_publication(worker)
            elif type(worker.queue.popleft()) is Join:
                self._start_join(worker, name)
            else:
                self._start_leave(worker)
        worker.pumping = False

    def _start_join(self, worker: Worker, name: str) -> None:
        local = self._local
        counter = local.next_counter()
        knowledge, gone, is_exact = self.left.take(name)
        worker.topic = Topic(local, name, counter, knowledge, is_exact)
        if gone:
            worker.sent_twice = True
        task = worker.current = Task(Subscription(local.me, name, counter))
        self._tree.fan_out(task, dict(local.living), MAX_DIMENSION, Shares())
        self.try_finish(task)

    def _start_publication(self, worker: Worker) -> None:
        local, topic = self._local, worker.topic
        assert topic is not None
        batch = worker.waiting.take(self._batch_items_max, MAX_BATCH_BYTES)
        counter = batch.last
        barrier = topic.past.publish(local.me, counter)
        topic.last_publication = counter
        publication = Publication(
            local.me, topic.name, counter, batch, barrier, topic.view.digest, local.tick()
        )
        recipients = topic.view.addressees()
        local.emit(Started(topic.name, batch, barrier, tuple(recipients)))
        task = worker.current = Task(publication)
        self._tree.fan_out(task, recipients, MAX_DIMENSION, topic.shares, publication.digest)
        if not topic.closing:  # after the copies: others are farther away
            local.emit(Deliver(topic.name, local.me, batch, barrier))
        self.try_finish(task)

    def _start_leave(self, worker: Worker) -> None:
        local, topic = self._local, worker.topic
        assert topic is not None
        counter = local.next_counter()
        topic.phase = LEAVING
        task = worker.current = Task(
            Unsubscription(local.me, topic.name, counter, dict(topic.past.barrier), local.tick())
        )
        self._tree.fan_out(task, topic.view.addressees(), MAX_DIMENSION, topic.shares)
        self.try_finish(task)

    def try_finish(self, task: Task) -> None:
        """If `task` has come to its end, say so: to its parent, or here if it is this node's own."""
        if task.waiting or task.held or task.finished:
            return
        if task.parent != ROOT:
            task.finished = True
            self._tree.send_ack(
                task.parent,
                task.parent_incarnation,
                task.parent_hop,
                task.broadcast,
                task.reports,
                task.repaired,
            )
            return
        if self._waits_for_finality(task):
            return
        task.finished = True
        broadcast = task.broadcast
        worker = self.workers[broadcast.topic]
        worker.current = None
        if type(broadcast) is Publication:
            self._local.emit(Acknowledged(broadcast.topic, broadcast.counter))
        elif type(broadcast) is Subscription:
            self._joined(worker, task)
        else:
            self._left(worker, broadcast.topic, broadcast.counter)
        self._pump(worker, broadcast.topic)

    def _waits_for_finality(self, task: Task) -> bool:
        """Whether `task`, an own one, must not take effect while some crash is not final here.

        A node declared dead here may live, and others may still take in what it publishes
        without knowing of this subscription: it is in effect when they have given it up too.
        Where voters decide, the same holds for a publication that the dead have not received:
        it is acknowledged when they have been given up by a quorum, and so are no members any more.
        """
        local = self._local
        return not local.is_settled() and (
            type(task.broadcast) is Subscription
            or (local.voters is not None and type(task.broadcast) is Publication)
        )

    def _joined(self, worker: Worker, task: Task) -> None:
        topic = worker.topic
        assert topic is not None
        if task.repaired:
            worker.sent_twice = True
        topic.join(task.reports)
        topic.take_in_what_came_while_joining()
        topic.purge_dead()
        topic.phase = MEMBER
        if not topic.closing:
            self._local.emit(Subscribed(topic.name, topic.counter, topic.floors()))
        self._release(topic.deliver_all())

    def _left(self, worker: Worker, name: str, counter: int) -> None:
        topic = worker.topic
        assert topic is not None
        self.left.put(name, topic.leave(), counter if worker.sent_twice else 0)
        worker.topic = None
        self._is_left(worker, name)

    def _is_left(self, worker: Worker, name: str) -> None:
        self._local.emit(Unsubscribed(name))
        if worker.is_idle():
            del self.workers[name]

    def _release(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            self.try_finish(task)

    # -- others' broadcasts --------------------------------------------------------------------

    def _topic(self, name: str) -> Topic | None:
        """This node's subscription to the topic, from the SUB until the leave has ended."""
        worker = self.workers.get(name)
        return worker.topic if worker is not None else None

    def on_copy(self, sender: int, copy: Copy) -> None:
        """Of a SUB or UNS."""
        broadcast = copy.broadcast
        topic = self._topic(broadcast.topic)
        if isinstance(broadcast, Subscription):
            self._on_subscription(sender, copy, broadcast, topic)
        else:
            assert isinstance(broadcast, Unsubscription)
            self._on_unsubscription(sender, copy, broadcast, topic)

    def on_publication(self, sender: int, copy: Copy, publication: Publication) -> None:
        """`copy` is one of `publication`."""
        local = self._local
        worker = self.workers.get(publication.topic)
        topic = worker.topic if worker is not None else None
        recipients = copy.recipients
        if recipients is None:
            if topic is None or topic.view.digest != publication.digest:
                local.send(sender, Ask(local.incarnation, copy.origin, copy.hop))
                return
            recipients = topic.subtree(subcube(local.me, sender) - 1)
        if publication.stamp > local.clock:
            local.clock = publication.stamp
        if len(recipients) == 1:
            self._tree.send_ack(sender, copy.origin, copy.hop, publication, {}, False)
        else:
            task = Task(publication, sender, copy.origin, copy.hop)
            self._forward(task, recipients, topic, publication.digest if copy.recipients is None else None)
            if not task.waiting:
                self.try_finish(task)
        if topic is not None:
            released = topic.receive(publication, recipients[local.me])
            if released:
                self._release(released)

    def on_ask(self, sender: int, ask: Ask) -> None:
        broadcast = self._tree.asked(sender, ask)
        if type(broadcast) is Publication:
            topic = self._topic(broadcast.topic)
            if topic is not None:
                topic.shares.asking[sender] = broadcast.digest

    def _on_subscription(
        self, sender: int, copy: Copy, subscription: Subscription, topic: Topic | None
    ) -> None:
        local, source, counter = self._local, subscription.source, subscription.counter
        task = Task(subscription, sender, copy.origin, copy.hop)
        if topic is None:
            if gone := self.left.gone(subscription.topic):
                task.reports[local.me] = Report(gone, 0, is_member=False)
        elif not local.is_of_the_dead(source, counter):
            if topic.phase is LEAVING:
                task.reports[local.me] = Report(topic.counter, topic.last_publication, is_member=False)
            else:
                report = topic.admit(source, counter)
                if report is not None:
                    task.reports[local.me] = report
                self._release(topic.deliver_all())
        assert copy.recipients is not None
        self._forward(task, copy.recipients, None)
        self.try_finish(task)

    def _on_unsubscription(self, sender: int, copy: Copy, leave: Unsubscription, topic: Topic | None) -> None:
        local = self._local
        if leave.stamp > local.clock:
            local.clock = leave.stamp
        task = Task(leave, sender, copy.origin, copy.hop)
        assert copy.recipients is not None
        self._forward(task, copy.recipients, topic)
        if topic is None:
            self.try_finish(task)
        else:
            self._release(topic.receive_leave(leave, task))

    def _forward(
        self, task: Task, recipients: Recipients, topic: Topic | None, digest: int | None = None
    ) -> None:
        """Pass on what `task` is about to all of its recipients but this node; `digest` as in `fan_out`."""
        me = self._local.me
        rest = recipients.copy()
        del rest[me]
        shares = topic.shares if topic is not None else Shares()
        self._tree.fan_out(task, rest, subcube(me, task.parent) - 1, shares, digest)

    def on_ack(self, sender: int, ack: Ack) -> None:
        task = self._tree.acknowledged(sender, ack)
        if task is not None and not task.waiting:
            self.try_finish(task)

    # -- for the survivors of a crash ----------------------------------------------------------

    def topics(self) -> list[Topic]:
        return [worker.topic for worker in self.workers.values() if worker.topic is not None]

    def deliver_all(self, topic: Topic) -> None:
        self._release(topic.deliver_all())

    def receive_held(self, topic: Topic, publication: Publication) -> None:
        self._release(topic.receive_held(publication))

    def resume(self) -> None:
        """The crashes are final: what has been acknowledged by all takes effect."""
        for worker in list(self.workers.values()):
            if worker.current is not None:
                self.try_finish(worker.current)

    def forget(self, over: Incarnations) -> None:
        """These crashes are over."""
        self.left.forget(over)
        for topic in self.topics():
            topic.forget(over)

    def pump_all(self) -> None:
        """What waits starts, unless this node is isolated."""
        for name, worker in list(self.workers.items()):
            self._pump(worker, name)

    def repair(self) -> None:
        for task in self._tree.repair():
            self.try_finish(task)
