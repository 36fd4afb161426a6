"""One node: its peer fed from links, application and detector, and what comes of that.

What a shell owes a node, and what it may do, is at the head of the package.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from math import inf
from typing import Any, ClassVar, TypeAlias

from vcubeps.node.backoff import Backoff
from vcubeps.node.connection import Connection
from vcubeps.node.context import Context
from vcubeps.node.detector import Detector
from vcubeps.node.errors import Isolated, NodeEnded
from vcubeps.node.greeting import Identity, Refusal
from vcubeps.node.inputs import Join, Leave, Publish
from vcubeps.node.lifecycle import TRANSITIONS, Life
from vcubeps.node.links import Links
from vcubeps.node.majority import NEVER_S, Majority
from vcubeps.node.memberships import Memberships
from vcubeps.node.obituaries import Obituaries
from vcubeps.node.outputs import (
    ERROR,
    AnyOutput,
    Closed,
    Dial,
    Failed,
    LifeChanged,
    Recovered,
    Store,
    Write,
    WriteAll,
)
from vcubeps.node.settings import ClusterSettings, shared_settings
from vcubeps.node.timers import Timer
from vcubeps.node.topics import Reader
from vcubeps.node.wire import Wire
from vcubeps.protocol import Peer
from vcubeps.protocol.errors import ProtocolViolation
from vcubeps.protocol.limits import check_topic
from vcubeps.protocol.messages import ANY_INCARNATION, Ack, Copy, Fence, Publication
from vcubeps.protocol.outputs import (
    Accepted,
    Acknowledged,
    Arrived,
    Deliver,
    Departed,
    IdTaken,
    MemberJoined,
    MemberLeft,
    Output,
    Received,
    Restarted,
    RestartReason,
    Send,
    Started,
    Subscribed,
    Unsubscribed,
    Up,
)
from vcubeps.protocol.voters import Voters

UP, CLOSING = Life.UP, Life.CLOSING
"""By these names on the path of every message."""

Observer: TypeAlias = Callable[[float, int, int, object], None]
"""Is told of everything that a node's peer is asked and tells: time, node, incarnation, what."""

_WHY_RESTARTED = {
    RestartReason.DECLARED_CRASHED: "the other nodes took node {node} for crashed",
    RestartReason.CAME_UP_APART: "node {node} had started without other nodes that lived",
    RestartReason.NO_QUORUM: "node {node} was left with less than a quorum of the voters",
    RestartReason.ASKED: "node {node} was asked to start again",
}

_LEAVING_SHARE = 0.8
"""Of the time that closing may take, for what is to be acknowledged."""
_GOODBYE_S = 0.2
"""How long the others are given to end their connections after a goodbye."""


class Machine:
    """The node as a whole. `take_outputs` has what the inputs before it have caused."""

    make_peer: ClassVar[type[Peer]] = Peer

    def __init__(
        self,
        settings: ClusterSettings,
        node: int,
        incarnation: int,
        seed: int,
        now_s: float,
        observe: Observer | None = None,
        *,
        tells_publications: bool = True,
    ) -> None:
        """`incarnation` is greater than any that this node has been before; `seed` is drawn at random for each
        process. `observe` is told of each publication as it is accepted only if `tells_publications`: there may be
        very many."""
        self.settings = settings
        self.id = node
        self._observe = observe
        self._tells_publications = tells_publications and observe is not None
        self.context = Context(settings, node, seed, now_s)
        """Its `outputs` are what `take_outputs` may have."""
        voters = Voters(settings.voting) if settings.voting is not None else None
        self.peer = self.make_peer(
            node,
            settings.ids,
            incarnation=incarnation,
            batch_items_max=settings.limits.batch_items_max,
            flat_max=settings.limits.flat_recipients_max,
            voters=settings.voting,
        )
        self._identity = identity = Identity(
            settings.cluster,
            node,
            frozenset(settings.ids) - {node},
            seed | 1,
            incarnation,
            shared_settings(settings),
        )
        addresses = {each.id: each.address for each in settings.nodes}
        self.links = Links(self.context, identity, addresses, self)
        self._congested = self.links.congested
        """By this name on the path of every publication."""
        self.majority = Majority(voters, node, settings.detection.contact_s)
        self.detector = Detector(self.context, self.links, self)
        self.memberships = Memberships(self.context, self, self._send_bytes)
        self._obituaries = Obituaries(self.context)
        self._wire = Wire()
        self._frame_bytes = 0
        """Size of the message that is being handled."""
        self._copy = -1, -1
        """Sender and hop of the last copy of a publication: the one that is being handled, where one is received."""
        self.life = Life.STARTING
        self._has_ended = False
        """Of its life: by this name on the path of every message."""
        self._isolated = False
        """What the peer has been told."""
        self._calm_until_s = NEVER_S
        """Before then `_begin` has nothing to do but to take the time: no timer is due, and contact lasts."""
        self._releasable: dict[str, None] = {}
        """Topics with publications that wait for the end of the turn."""
        self._stores = 0
        """Incarnations among the outputs that have to be stored before what follows."""
        self._is_storing = False
        self._backoff = Backoff()
        self._pausing: Timer | None = None
        """While a restart is put off, what the new incarnation says is kept in `_kept`."""
        self._kept: list[Output] = []
        self._has_restarted = self._has_come_up = False
        """The outputs at hand say that the peer starts again, or has been let in."""
        self._has_said_goodbye = False
        self.restarts = 0
        self.violations = 0
        self._carriers: dict[type, Callable[[Any], None]] = {
            Deliver: self._on_deliver,
            Received: self._on_received,
            Acknowledged: self._on_acknowledged,
            Subscribed: self.memberships.on_subscribed,
            Unsubscribed: lambda output: self.memberships.on_unsubscribed(output.topic),
            MemberJoined: self._pass_on,
            MemberLeft: self._on_member_left,
            Arrived: self._on_arrived,
            Departed: self._on_departed,
            Up: self._on_up,
            Restarted: self._on_restarted,
            Started: self._on_started,
            IdTaken: lambda _: self._fail(f"node {node} cannot take part: its id is used up", True),
        }

    def observe(self, observer: Observer) -> None:
        """From now on `observer` is told too."""
        self._tells_publications = True
        first = self._observe
        if first is None:
            self._observe = observer
            return

        def both(now_s: float, node: int, incarnation: int, what: object) -> None:
            first(now_s, node, incarnation, what)
            observer(now_s, node, incarnation, what)

        self._observe = both

    # -- inputs of the shell -------------------------------------------------------------------

    def start(self, now_s: float) -> None:
        """Begin. A node that ran before is let in by the others first."""
        self.context.now_s = now_s
        self._judge()
        self._carry_out(self.peer.start())
        self.detector.start()
        for other in self.watched():
            self.links.connect(other)
        self._end()

    def accepted(self, name: str, now_s: float) -> Connection:
        """Somebody has connected, from where `name` says."""
        self._begin(now_s)
        connection = self.links.accepted(name)
        if self.life.has_ended:
            self.links.abort_all()
        self._end()
        return connection

    def opened(self, connection: Connection, now_s: float) -> None:
        """What was dialled is there."""
        self._begin(now_s)
        self.links.opened(connection)
        self._end()

    def lost(self, connection: Connection, now_s: float) -> None:
        """It is no more, or could not be made."""
        self._begin(now_s)
        self.links.lost(connection)
        self._end()

    def writable(self, connection: Connection, now_s: float) -> None:
        """What waited on a connection that was paused has been written."""
        self._begin(now_s)
        self.links.writable(connection)
        self._end()

    def received(self, connection: Connection, count: int, now_s: float) -> None:
        """`count` bytes have arrived in the room of `connection`."""
        if self._has_ended or connection.is_ended:
            return
        if now_s < self._calm_until_s:
            self.context.now_s = now_s
        else:
            self._begin(now_s)
        try:
            self.links.received(connection, count)
        except Exception as error:
            self.fault(error)
        if self.life is CLOSING:
            self._advance_closing()

    def tick(self, now_s: float) -> None:
        """It is `next_tick_s`, or later."""
        self._begin(now_s)
        if not self.life.has_ended:
            try:
                self.context.timers.run(now_s)
            except Exception as error:
                self.fault(error)
        self._end()

    def end_turn(self, now_s: float) -> None:
        """All that has happened at this time has been told: what has waited for company leaves."""
        self._begin(now_s)
        self.context.is_dirty = False
        if not self.life.has_ended:
            releasable, self._releasable = self._releasable, {}
            for name in releasable:
                self._carry_out(self.peer.release(name), hurry=True)
            self.links.end_turn()
        self._end()

    def stored(self, now_s: float) -> None:
        """The incarnation of the last `Store` is on stable storage."""
        self._is_storing = False
        self._begin(now_s)
        self._end()

    def store_failed(self, reason: str, now_s: float) -> None:
        """It is not. To go on without would be to use its counters twice, some day."""
        self.context.now_s = now_s
        self._is_storing = False
        self._fail(f"node {self.id} cannot go on as incarnation {self.peer.incarnation}: {reason}", False)

    @property
    def next_tick_s(self) -> float:
        """When `tick` has to be called; never, if it is infinite."""
        return inf if self._has_ended else self.context.timers.next_s

    def life_at(self, now_s: float) -> Life:
        """The stage of its life at a time, without an input."""
        if self.life is Life.UP and self.majority.is_isolated(now_s):
            return Life.ISOLATED
        return self.life

    def problems(self) -> dict[int, str]:
        """Living nodes, as far as is known, that this one has something for and cannot reach → why."""
        problems = self.links.problems()
        return {other: why for other, why in problems.items() if not self.peer.believes_dead(other)}

    def crashed(self) -> dict[int, str]:
        """Nodes that count as crashed → on what evidence."""
        return {
            other: self._obituaries.evidence(other)
            for other in self.settings.ids
            if other != self.id and self.peer.is_up and self.peer.believes_dead(other)
        }

    @property
    def is_dirty(self) -> bool:
        """Whether `end_turn` has to be called."""
        return self.context.is_dirty

    def take_outputs(self) -> list[AnyOutput]:
        """What is to be carried out now, in this order."""
        context = self.context
        outputs = context.outputs
        if not outputs or self._is_storing:
            return []
        context.outputs = []
        if self._stores:
            for place, output in enumerate(outputs):
                if type(output) is Store:
                    self._stores -= 1
                    self._is_storing = True
                    context.outputs = outputs[place + 1 :]
                    return outputs[: place + 1]
        return outputs

    # -- inputs of the application -------------------------------------------------------------

    def subscribe(self, topic: str, reader: Reader, now_s: float) -> None:
        """In effect with `Joined`. Raises Isolated where nothing may be started."""
        check_topic(topic)
        self._begin(now_s)
        self._check_open()
        if self.life is Life.ISOLATED:
            raise Isolated(self.isolation())
        self.memberships.subscribe(topic, reader)
        self._end()

    def unsubscribe(self, topic: str, reader: Reader, now_s: float) -> None:
        """Nothing is delivered to `reader` from now on; with the last one the topic is left, which ends with `Left`."""
        self._begin(now_s)
        if not self.life.has_ended:
            self.memberships.unsubscribe(topic, reader)
        self._end()

    def publish(self, name: str, payload: bytes, now_s: float, time_ns: int = 0) -> int:
        """The counter of a publication that is accepted; 0 if it has to wait, and `Room` says when to try again. Raises
        Isolated where nothing may be started. `time_ns` is the time of day, which others are told."""
        if now_s < self._calm_until_s:
            self.context.now_s = now_s
        else:
            self._begin(now_s)
        if self.life is not UP:
            self._check_open()
            if self.life is Life.ISOLATED:
                raise Isolated(self.isolation())
        topic, congested = self.memberships.topics[name], self._congested
        if not topic.has_room() or (congested and not congested.isdisjoint(self.peer.members(name))):
            topic.is_waited_for = True
            return 0
        counter = self.peer.accept(name, payload, time_ns)
        comes_alone = topic.published(counter, len(payload), now_s)
        if self._tells_publications:
            self._tell(Publish(name, payload))
            self._tell(Accepted(name, counter))
        if comes_alone:
            self._carry_out(self.peer.release(name), hurry=True)
        else:
            self._releasable[name] = None
            self.context.is_dirty = True
        return counter

    def is_full(self, name: str) -> bool:
        """Whether so much waits in the topic that `read` has to be told when less does."""
        topic = self.memberships.topics.get(name)
        return topic is not None and topic.full

    def read(self, name: str, now_s: float) -> None:
        """The application has read something, and its reader's backlog has been lowered."""
        self._begin(now_s)
        topic = self.memberships.topics.get(name)
        if topic is not None:
            self.memberships.relieve(topic)
        self._end()

    def declare_dead(self, node: int, now_s: float) -> None:
        """An operator says that `node` has crashed."""
        self._begin(now_s)
        self._check_open()
        self.on_silence(node, "an operator has said so")
        self._end()

    def close(self, now_s: float) -> None:
        """Leave every topic, say goodbye, end: with `Closed`."""
        if self.life in (Life.CLOSING, Life.CLOSED, Life.FAILED):
            return
        self._begin(now_s)
        self._become(Life.CLOSING, "it was closed")
        for topic in self.memberships:
            for reader in list(topic.readers):
                self.memberships.unsubscribe(topic.name, reader)
        within_s = self.settings.timing.close_within_s
        timers = self.context.timers
        timers.at(now_s + within_s * _LEAVING_SHARE, self._say_goodbye)
        timers.at(now_s + within_s + _GOODBYE_S, self._closed)
        self._end()

    # -- what the links tell -------------------------------------------------------------------

    def on_message(self, other: int, body: memoryview) -> None:
        if self._has_said_goodbye:
            return  # what it would answer, nobody would listen to
        self._frame_bytes = len(body)
        message = self._wire.decode(body)
        try:
            if type(message) is Copy and type(message.broadcast) is Publication:
                self._copy = other, message.hop
                topic = self.memberships.topics.get(message.broadcast.topic)
                if topic is not None and topic.full:
                    self.memberships.gate(topic, other, message.hop)
            self._carry_out(self.peer.receive(other, message, len(body)), self.links.reads_little)
        except ProtocolViolation:
            self.violations += 1
            raise
        finally:
            if self._wire.remembers:
                self._wire.forget()

    def on_greeted(self, other: int, incarnation: int, is_newer: bool, dead: int) -> None:
        if self._has_said_goodbye:
            return
        if self._isolated:  # a round trip may be what is missing
            self.links.ping(other)
        if dead >= self.peer.incarnation:  # heard before anything else is said
            self._carry_out(self.peer.receive(other, Fence(incarnation, ANY_INCARNATION, dead)))
        # A newer one: so the one before it is no more. A node that is not up learns that in the course of being let in:
        # told now, it would take the other for dead, and go up without it.
        elif is_newer and incarnation > 0 and self.peer.is_up:
            self._obituaries.started_again(other, incarnation)
            self._carry_out(self.peer.suspect(other, incarnation - 1))

    def on_goodbye(self, other: int, incarnation: int) -> None:
        self.majority.drop(other)
        self._calm_until_s = NEVER_S
        self._judge()  # before the peer acts on it
        self._obituaries.said_goodbye(other, incarnation)
        self._carry_out(self.peer.suspect(other, incarnation))

    def on_round_trip(self, other: int, sent_at_s: float, at_once: bool) -> None:
        if self._is_living(other):
            self.majority.answered(other, sent_at_s)
        self.detector.on_round_trip(other, sent_at_s, at_once)
        self._judge()

    def on_probe(self, asker: int, target: int) -> None:
        self.detector.on_probe(asker, target)

    def on_probed(self, helper: int, target: int) -> None:
        self.detector.on_probed(helper, target)

    def on_room(self) -> None:
        self.memberships.wake_all()

    def on_fatal(self, refusal: Refusal) -> None:
        self._fail(f"node {self.id} cannot take part: {refusal.reason}", True)

    def dead_here(self, other: int) -> int:
        return self.peer.ended_incarnation(other)

    # -- what the detector asks and tells ------------------------------------------------------

    def watched(self) -> Iterable[int]:
        return [other for other in self.settings.ids if other != self.id and self._is_living(other)]

    def _is_living(self, other: int) -> bool:
        """Whether an incarnation of `other` may live: one that is not dead here, or has greeted and is not let in yet.
        The latter counts as contact too: it may be waited for to let it in."""
        return not self.peer.believes_dead(other) or self.links.link(other).incarnation > self.dead_here(
            other
        )

    def to_ask_first(self) -> Collection[int] | None:
        left_s = self.majority.lasts_until_s - self.context.now_s
        return self.settings.voting if left_s < self.settings.detection.contact_s / 2 else None

    def may_suspect(self) -> bool:
        return self.life in (Life.STARTING, Life.UP) and not self._isolated

    def on_silence(self, other: int, evidence: str) -> None:
        link = self.links.link(other)
        # Other nodes may know of a newer one than has ever been connected with this node.
        self._suspect(other, max(0, link.incarnation, self.peer.known_incarnation(other)), evidence)

    def _suspect(self, other: int, incarnation: int, evidence: str) -> None:
        outputs = self.peer.suspect(other, incarnation)
        if outputs:
            self._obituaries.found_out(other, incarnation, evidence)
        self._carry_out(outputs)

    # -- what the memberships ask --------------------------------------------------------------

    def join(self, topic: str) -> None:
        if self._observe is not None:
            self._tell(Join(topic))
        self._carry_out(self.peer.subscribe(topic))

    def leave(self, topic: str) -> None:
        if self._observe is not None:
            self._tell(Leave(topic))
        self._carry_out(self.peer.unsubscribe(topic))

    def may_join(self, topic: str) -> bool:
        return self.peer.can_subscribe(topic)

    def is_joined(self, topic: str) -> bool:
        return self.peer.can_unsubscribe(topic)

    # -- carrying out --------------------------------------------------------------------------

    def _begin(self, now_s: float) -> None:
        context = self.context
        context.now_s = now_s
        if now_s > context.timers.next_s:
            self.detector.on_late(now_s - context.timers.next_s)
        if self.majority.is_isolated(now_s) != self._isolated:
            self._judge()
        self._calm_until_s = min(context.timers.next_s, self.majority.lasts_until_s)

    def _end(self) -> None:
        if self.life is Life.CLOSING:
            self._advance_closing()

    def _judge(self) -> None:
        """Find out whether this node is isolated, and at which stage of its life it is."""
        if self._has_ended:
            return
        isolated = self.majority.is_isolated(self.context.now_s)
        if isolated != self._isolated:
            self._isolated = isolated
            if not isolated:
                self.detector.forgive()
            self._carry_out(self.peer.isolate(isolated))
        if self.life is Life.CLOSING:
            return  # it stays that, isolated or not
        if not self.peer.is_up:
            self._become(Life.STARTING, "it asks to be let in")
        elif not isolated:
            self._become(
                Life.UP, "it is in contact with a quorum" if self.settings.voting else "it has been let in"
            )
        elif self.life is not Life.STARTING:
            self._become(Life.ISOLATED, self.isolation())

    def _become(self, life: Life, reason: str) -> None:
        if life is self.life:
            return
        assert life in TRANSITIONS[self.life], f"{self.life.value} does not become {life.value}"
        self.life = life
        self._has_ended = life.has_ended
        self.context.outputs.append(LifeChanged(life, reason))
        if life is Life.UP:
            self.memberships.renew()
            self.memberships.wake_all()

    def isolation(self) -> str:
        """Why nothing may be started, where this node is isolated."""
        reached = self.majority.in_contact(self.context.now_s)
        return (
            f"node {self.id} is in contact with no quorum of the voters, only with {reached or 'none of them'}: it "
            "starts nothing until it is"
        )

    def _carry_out(self, outputs: list[Output], hurry: bool = False) -> None:
        """`hurry`: copies are written at once, before this node's application gets its turn. An acknowledgement comes
        after what is delivered: that may be too much to acknowledge it."""
        if self._pausing is not None:
            self._kept += outputs
            return
        answer: Send | None = None
        waits_to_be_read = False
        remaining = iter(outputs)
        output: Any
        for output in remaining:
            kind = type(output)
            if kind is Send:
                if answer is None and type(output.message) is Ack:
                    answer = output
                else:
                    self._send(output, hurry)
                continue
            if self._observe is not None:
                self._tell(output)
            if kind is Received and output.at_once:
                batch: Any = next(remaining)
                if self._observe is not None:
                    self._tell(batch)
                topic = self.memberships.topics[batch.topic]
                waits_to_be_read |= self.memberships.deliver(topic, batch, self._frame_bytes)
                if topic.full:
                    self.memberships.gate(topic, *self._copy)
            else:
                self._carriers[kind](output)
                if kind is Restarted and self._is_pausing():
                    self._kept += remaining
        if answer is not None:
            self._send(answer, hurry and not waits_to_be_read)
        if self._has_come_up:
            self._has_come_up = False
            self._judge()
        if self._has_restarted:
            self._has_restarted = False
            # The new incarnation of the peer has not heard those who said goodbye to the one before.
            for link in self.links:
                if link.has_ended():
                    self._carry_out(self.peer.suspect(link.other, link.gone))

    def _tell(self, what: object) -> None:
        assert self._observe is not None
        # The incarnation that these outputs are of: the peer may have started again since.
        self._observe(self.context.now_s, self.id, self._identity.incarnation, what)

    def _send(self, output: Send, hurry: bool) -> None:
        message = output.message
        head, tail = self._wire.encode(message)
        if (
            self.memberships.gates
            and type(message) is Ack
            and self.memberships.holds(output.destination, message, head)
        ):
            return
        link = self.links.by_node.get(output.destination) or self.links.link(output.destination)
        link.send(message.target, head, tail, hurry)

    def _send_bytes(self, destination: int, target: int, head: bytes, tail: bytes) -> None:
        self.links.link(destination).send(target, head, tail, hurry=False)

    def _on_received(self, batch: Received) -> None:
        self.memberships.topics[batch.topic].received(batch, self._frame_bytes)

    def _on_deliver(self, batch: Deliver) -> None:
        topic = self.memberships.topics[batch.topic]
        size = sum(map(len, batch.batch.payloads)) if batch.source == self.id else topic.size_of(batch)
        self.memberships.deliver(topic, batch, size)

    def _on_started(self, output: Started) -> None:
        self.memberships.topics[output.topic].started(output.batch)

    def _on_acknowledged(self, output: Acknowledged) -> None:
        topic = self.memberships.topics[output.topic]
        topic.acknowledged(output.counter)
        self.context.outputs.append(output)
        self.memberships.wake(topic)

    def _on_member_left(self, output: MemberLeft) -> None:
        self.context.outputs.append(output)
        self.memberships.wake(
            self.memberships.topics[output.topic]
        )  # the way to it may have been what they wait for

    def _pass_on(self, output: Any) -> None:
        self.context.outputs.append(output)

    def _on_up(self, _: Up) -> None:
        self._has_come_up = True

    def _on_arrived(self, output: Arrived) -> None:
        """Others may have met it before it speaks to this node."""
        link = self.links.link(output.node)
        link.arrived = max(link.arrived, output.incarnation)
        self._obituaries.came_back(output.node)
        self.context.outputs.append(Recovered(output.node, output.incarnation))

    def _on_departed(self, output: Departed) -> None:
        self._obituaries.departed(output.node, output.incarnation)
        if self.links.link(output.node).incarnation <= output.incarnation:
            self.majority.drop(output.node)
            self._calm_until_s = NEVER_S

    # -- crashes of this node, as the others see it --------------------------------------------

    def _on_restarted(self, output: Restarted) -> None:
        now_s = self.context.now_s
        self.context.outputs.append(Store(output.incarnation))
        self._stores += 1
        self.links.begin_anew(output.incarnation)
        self.restarts += 1
        self._has_restarted = True
        self._releasable.clear()
        reason = _WHY_RESTARTED[output.reason].format(node=self.id)
        self.context.warn(f"{reason}; it goes on as incarnation {output.incarnation}")
        self.memberships.void(reason)
        if self.life not in (Life.CLOSING, Life.FAILED):
            self._become(Life.STARTING, reason)
        pause_s = self._backoff.restarted(now_s)
        if pause_s:
            self.context.warn(
                f"it has started again {self._backoff.recent} times within a minute: it waits for {pause_s:g} s"
            )
            self._pausing = self.context.timers.at(now_s + pause_s, self._go_on)

    def _is_pausing(self) -> bool:
        return self._pausing is not None

    def _go_on(self) -> None:
        """A restart was put off until now."""
        self._pausing = None
        kept, self._kept = self._kept, []
        self._carry_out(kept)

    # -- the end -------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self.life in (Life.CLOSING, Life.CLOSED, Life.FAILED):
            raise NodeEnded(f"node {self.id} has ended: open it again")

    def fault(self, error: Exception) -> None:
        """Something happened that must not: what this node knows may be wrong, so it takes no further part."""
        self.context.log(ERROR, f"a fault: {error!r}")
        self._fail(f"node {self.id} has a fault and takes no further part: {error!r}; see the log", False)

    def _fail(self, reason: str, is_refusal: bool) -> None:
        """Nothing that has not been written yet is sent any more."""
        if self.life.has_ended:
            return
        context = self.context
        context.outputs[:] = [each for each in context.outputs if not isinstance(each, _SENT)]
        self._stores = 0
        self._become(Life.FAILED, reason)
        self.links.abort_all()
        context.outputs.append(Failed(reason, is_refusal))

    def _advance_closing(self) -> None:
        """Say goodbye once nothing is left to be acknowledged; end when all connections have."""
        if self._has_said_goodbye:
            if not self.links.connections:
                self._closed()
        elif not self.memberships.topics and not self.links.has_unacknowledged:
            self._say_goodbye()

    def _say_goodbye(self) -> None:
        if self.life is Life.CLOSING and not self._has_said_goodbye:
            self._has_said_goodbye = True
            self.links.say_goodbye()

    def _closed(self) -> None:
        if self.life is Life.CLOSING:
            unacknowledged = {
                each.name: each.unacknowledged for each in self.memberships if each.unacknowledged
            }
            self._become(Life.CLOSED, "it has said goodbye")
            self.links.abort_all()
            self.context.outputs.append(Closed(unacknowledged))

    def check(self) -> None:
        """Raise AssertionError if an invariant of any part does not hold. For tests, after an input."""
        self.peer.check()
        self.links.check()
        self.majority.check()
        self.memberships.check()
        if self.life.has_ended:
            assert not self.links.connections, "has ended and has connections"


_SENT = (Write, WriteAll, Dial, Store)
"""What a node that has failed does not do any more."""
