"""One node: its inputs, and its parts, which tell each other what each needs to know.

What a shell owes a node, and what it may do, is at the head of the package.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from math import inf
from typing import ClassVar, Concatenate, ParamSpec

from vcubeps.node.connection import Connection, Stage
from vcubeps.node.context import Context
from vcubeps.node.detector import Detector
from vcubeps.node.errors import NodeError
from vcubeps.node.exchange import Exchange, Observer
from vcubeps.node.greeting import Identity, Refusal
from vcubeps.node.lifecycle import Life
from vcubeps.node.links import Links
from vcubeps.node.majority import Majority
from vcubeps.node.memberships import Memberships
from vcubeps.node.outputs import ERROR, AnyOutput, Store
from vcubeps.node.settings import ClusterSettings, shared_settings
from vcubeps.node.standing import Standing
from vcubeps.node.topics import Reader
from vcubeps.protocol import Peer
from vcubeps.protocol.errors import UsageError
from vcubeps.protocol.limits import check_topic
from vcubeps.protocol.messages import ANY_INCARNATION, Fence
from vcubeps.protocol.voters import Voters

_P = ParamSpec("_P")


def _or_fails(
    handle: Callable[Concatenate[Machine, _P], None],
) -> Callable[Concatenate[Machine, _P], None]:
    """An input during which something happens that must not ends the node."""

    @wraps(handle)
    def guarded(self: Machine, /, *arguments: _P.args, **options: _P.kwargs) -> None:
        try:
            handle(self, *arguments, **options)
        except Exception as error:
            self.fault(error)

    return guarded


def _or_refuses(
    handle: Callable[Concatenate[Machine, _P], None],
) -> Callable[Concatenate[Machine, _P], None]:
    """As `_or_fails`, of what the application or an operator asks for: their mistakes are raised, and end nothing."""

    @wraps(handle)
    def guarded(self: Machine, /, *arguments: _P.args, **options: _P.kwargs) -> None:
        try:
            handle(self, *arguments, **options)
        except (UsageError, NodeError):
            raise
        except Exception as error:
            self.fault(error)

    return guarded


UP, CLOSING, ENDED = Life.UP, Life.CLOSING, Stage.ENDED
"""By these names on the path of every message."""


class Machine:
    """The node as a whole. `take_outputs` has what the inputs before it have caused."""

    make_peer: ClassVar[type[Peer]] = Peer
    make_exchange: ClassVar[type[Exchange]] = Exchange

    def __init__(
        self,
        settings: ClusterSettings,
        node: int,
        incarnation: int,
        seed: int,
        now_s: float,
        observe: Observer | None = None,
        *,
        tells_all: bool = True,
    ) -> None:
        """`incarnation` is greater than any that this node has been before; `seed` is drawn at random for each
        process. `observe` is told of each publication as it is accepted, and of receptions that are deliveries too,
        only if `tells_all`: there may be very many."""
        self.settings = settings
        self.id = node
        self._others = tuple(other for other in settings.ids if other != node)
        self._voting = settings.voting
        self.context = Context(settings, node, seed, now_s)
        """Its `outputs` are what `take_outputs` may have."""
        self.peer = self.make_peer(
            node,
            settings.ids,
            incarnation=incarnation,
            batch_items_max=settings.limits.batch_items_max,
            flat_max=settings.limits.flat_recipients_max,
            voters=self._voting,
        )
        others = frozenset(self._others)
        identity = Identity(settings.cluster, node, others, seed | 1, incarnation, shared_settings(settings))
        self.exchange = self.make_exchange(self.context, self.peer, identity, self, observe, tells_all)
        addresses = {each.id: each.address for each in settings.nodes}
        self.links = Links(self.context, identity, addresses, self, self.exchange.on_message)
        self.exchange.attach(self.links)
        voters = Voters(self._voting) if self._voting is not None else None
        self.majority = Majority(voters, node, settings.detection.contact_s)
        self.detector = Detector(self.context, self.links, self)
        self.standing = Standing(
            self.context, self.peer, self.links, self.exchange, self.majority, self.detector
        )

    # -- inputs of the shell -------------------------------------------------------------------

    @_or_fails
    def start(self, now_s: float) -> None:
        """Begin. A node that ran before is let in by the others first."""
        self.context.now_s = now_s
        self.standing.judge()
        self.exchange.carry_out(self.peer.start())
        self.detector.start()
        for other in self.watched():
            self.links.connect(other)
        self.standing.end()

    def accepted(self, name: str, now_s: float) -> Connection:
        """Somebody has connected, from where `name` says."""
        connection = Connection(name=name)
        self._accepted(connection, now_s)
        return connection

    @_or_fails
    def _accepted(self, connection: Connection, now_s: float) -> None:
        self.standing.begin(now_s)
        self.links.accepted(connection)
        if self.standing.has_ended:
            self.links.abort_all()
        self.standing.end()

    @_or_fails
    def opened(self, connection: Connection, now_s: float) -> None:
        """What was dialled is there."""
        self.standing.begin(now_s)
        self.links.opened(connection)
        self.standing.end()

    @_or_fails
    def lost(self, connection: Connection, now_s: float) -> None:
        """It is no more, or could not be made."""
        self.standing.begin(now_s)
        self.links.lost(connection)
        self.standing.end()

    @_or_fails
    def writable(self, connection: Connection, now_s: float) -> None:
        """What waited on a connection that was paused has been written."""
        self.standing.begin(now_s)
        self.links.writable(connection)
        self.standing.end()

    def received(self, connection: Connection, count: int, now_s: float) -> None:
        """`count` bytes have arrived in the room of `connection`."""
        standing = self.standing
        if standing.has_ended or connection.stage is ENDED:
            return
        try:
            if now_s < standing.calm_until_s:
                self.context.now_s = now_s
            else:
                standing.begin(now_s)
            self.links.received(connection, count)
            if standing.life is CLOSING:
                standing.advance_closing()
        except Exception as error:
            self.fault(error)

    @_or_fails
    def tick(self, now_s: float) -> None:
        """It is `next_tick_s`, or later."""
        self.standing.begin(now_s)
        if not self.standing.has_ended:
            self.context.timers.run(now_s)
        self.standing.end()

    @_or_fails
    def end_turn(self, now_s: float) -> None:
        """All that has happened at this time has been told: what has waited for company leaves."""
        self.standing.begin(now_s)
        self.context.is_dirty = False
        if not self.standing.has_ended:
            self.exchange.release()
            self.links.end_turn()
        self.standing.end()

    @_or_fails
    def stored(self, now_s: float) -> None:
        """The incarnation of the last `Store` is on stable storage."""
        self.context.is_storing = False
        self.standing.begin(now_s)
        self.standing.end()

    def store_failed(self, reason: str, now_s: float) -> None:
        """It is not. To go on without would be to use its counters twice, some day."""
        self.context.now_s = now_s
        self.context.is_storing = False
        self.standing.fail(
            f"node {self.id} cannot go on as incarnation {self.peer.incarnation}: {reason}", False
        )

    def fault(self, error: Exception) -> None:
        """Something happened that must not: what this node knows may be wrong, so it takes no further part."""
        self.context.log(ERROR, f"a fault: {error!r}")
        self.standing.fail(
            f"node {self.id} has a fault and takes no further part: {error!r}; see the log", False
        )

    # -- inputs of the application -------------------------------------------------------------

    @_or_refuses
    def subscribe(self, topic: str, reader: Reader, now_s: float) -> None:
        """In effect with `Joined`. Raises Isolated where nothing may be started."""
        check_topic(topic)
        self.standing.begin(now_s)
        self.standing.check_open()
        self.standing.check_contact()
        self.memberships.subscribe(topic, reader)
        self.standing.end()

    @_or_refuses
    def unsubscribe(self, topic: str, reader: Reader, now_s: float) -> None:
        """Nothing is delivered to `reader` from now on; with the last one the topic is left, which ends with `Left`."""
        self.standing.begin(now_s)
        if not self.standing.has_ended:
            self.memberships.unsubscribe(topic, reader)
        self.standing.end()

    def publish(self, topic: str, payload: bytes, now_s: float, time_ns: int = 0) -> int:
        """The counter of a publication that is accepted; 0 if it has to wait, and `Room` says when to try again. Raises
        Isolated where nothing may be started. `time_ns` is the time of day, which others are told."""
        standing = self.standing
        try:
            if now_s < standing.calm_until_s:
                self.context.now_s = now_s
            else:
                standing.begin(now_s)
            if standing.life is not UP:
                standing.check_open()
                standing.check_contact()
            return self.exchange.publish(topic, payload, time_ns)
        except (UsageError, NodeError):
            raise
        except Exception as error:
            self.fault(error)
            return 0

    def is_full(self, name: str) -> bool:
        """Whether so much waits in the topic that `read` has to be told when less does."""
        topic = self.memberships.topics.get(name)
        return topic is not None and topic.full

    @_or_refuses
    def read(self, name: str, now_s: float) -> None:
        """The application has read something, and its reader's backlog has been lowered."""
        self.standing.begin(now_s)
        topic = self.memberships.topics.get(name)
        if topic is not None:
            self.memberships.relieve(topic)
        self.standing.end()

    @_or_refuses
    def declare_dead(self, node: int, now_s: float) -> None:
        """An operator says that `node` has crashed. Raises Isolated where this node cannot know better than others."""
        self.standing.begin(now_s)
        self.standing.check_open()
        self.standing.check_contact()
        self.on_silence(node, "an operator has said so")
        self.standing.end()

    @_or_refuses
    def close(self, now_s: float) -> None:
        """Leave every topic, say goodbye, end: with `Closed`."""
        if self.life in (Life.CLOSING, Life.CLOSED, Life.FAILED):
            return
        self.standing.begin(now_s)
        self.standing.close()
        self.standing.end()

    # -- looking in ----------------------------------------------------------------------------

    @property
    def memberships(self) -> Memberships:
        return self.exchange.memberships

    @property
    def life(self) -> Life:
        return self.standing.life

    def life_at(self, now_s: float) -> Life:
        """The stage of its life at a time, without an input."""
        return self.standing.at(now_s)

    @property
    def restarts(self) -> int:
        return self.exchange.restarts

    @property
    def violations(self) -> int:
        return self.exchange.violations

    @property
    def next_tick_s(self) -> float:
        """When `tick` has to be called; never, if it is infinite."""
        return inf if self.standing.has_ended else self.context.timers.next_s

    @property
    def is_dirty(self) -> bool:
        """Whether `end_turn` has to be called."""
        return self.context.is_dirty

    def isolation(self) -> str:
        """Why nothing may be started, where this node is isolated."""
        return self.standing.isolation()

    def problems(self) -> dict[int, str]:
        """Living nodes, as far as is known, that this one has something for and cannot reach → why."""
        problems = self.links.problems()
        return {other: why for other, why in problems.items() if not self.peer.believes_dead(other)}

    def crashed(self) -> dict[int, str]:
        """Nodes that count as crashed → on what evidence."""
        return {
            other: self.exchange.obituaries.evidence(other)
            for other in self._others
            if self.peer.is_up and self.peer.believes_dead(other)
        }

    def observe(self, observer: Observer) -> None:
        """From now on `observer` is told too."""
        self.exchange.observe(observer)

    def take_outputs(self) -> list[AnyOutput]:
        """What is to be carried out now, in this order."""
        context = self.context
        outputs = context.outputs
        if not outputs or context.is_storing:
            return []
        context.outputs = []
        if context.stores:
            for place, output in enumerate(outputs):
                if type(output) is Store:
                    context.stores -= 1
                    context.is_storing = True
                    context.outputs = outputs[place + 1 :]
                    return outputs[: place + 1]
        return outputs

    def check(self) -> None:
        """Raise AssertionError if an invariant of any part does not hold. For tests, after an input."""
        self.peer.check()
        self.links.check()
        self.majority.check()
        self.memberships.check()
        self.standing.check()

    # -- what the links tell -------------------------------------------------------------------

    def on_greeted(self, other: int, incarnation: int, is_newer: bool, dead: int) -> None:
        if self.exchange.is_over:
            return
        if self.standing.isolated:  # a round trip may be what is missing
            self.links.ping(other)
        if dead >= self.peer.incarnation:  # heard before anything else is said
            self.exchange.carry_out(self.peer.receive(other, Fence(incarnation, ANY_INCARNATION, dead)))
        # A newer one: so the one before it is no more. A node that is not up learns that in the course of being let in:
        # told now, it would take the other for dead, and go up without it.
        elif is_newer and incarnation > 0 and self.peer.is_up:
            self.exchange.obituaries.started_again(other, incarnation)
            self.exchange.carry_out(self.peer.suspect(other, incarnation - 1))

    def on_goodbye(self, other: int, incarnation: int) -> None:
        self.standing.lose(other)
        self.standing.judge()  # before the peer acts on it
        self.exchange.obituaries.said_goodbye(other, incarnation)
        self.exchange.carry_out(self.peer.suspect(other, incarnation))

    def on_round_trip(self, other: int, sent_at_s: float, at_once: bool) -> None:
        if self._is_living(other):
            self.majority.answered(other, sent_at_s)
        self.detector.on_round_trip(other, sent_at_s, at_once)
        self.standing.judge()

    def on_probe(self, asker: int, target: int) -> None:
        self.detector.on_probe(asker, target)

    def on_probed(self, helper: int, target: int) -> None:
        self.detector.on_probed(helper, target)

    def on_room(self) -> None:
        self.memberships.wake_all()

    def on_fatal(self, refusal: Refusal) -> None:
        self.standing.fail(f"node {self.id} cannot take part: {refusal.reason}", True)

    def dead_here(self, other: int) -> int:
        return self.peer.ended_incarnation(other)

    # -- what the detector asks and tells ------------------------------------------------------

    def watched(self) -> Iterable[int]:
        return [other for other in self._others if self._is_living(other)]

    def _is_living(self, other: int) -> bool:
        """Whether an incarnation of `other` may live: one that is not dead here, or has greeted and is not let in yet.
        The latter counts as contact too: it may be waited for to let it in."""
        return not self.peer.believes_dead(other) or self.links.link(other).incarnation > self.dead_here(
            other
        )

    def to_ask_first(self) -> Collection[int] | None:
        left_s = self.majority.lasts_until_s - self.context.now_s
        return self._voting if left_s < self.settings.detection.contact_s / 2 else None

    def may_suspect(self) -> bool:
        return self.life in (Life.STARTING, Life.UP) and not self.standing.isolated

    def on_silence(self, other: int, evidence: str) -> None:
        link = self.links.link(other)
        # Other nodes may know of a newer one than has ever been connected with this node.
        incarnation = max(0, link.incarnation, self.peer.known_incarnation(other))
        outputs = self.peer.suspect(other, incarnation)
        if outputs:
            self.exchange.obituaries.found_out(other, incarnation, evidence)
        self.exchange.carry_out(outputs)

    # -- what the peer says of this node, and of others ----------------------------------------

    def on_up(self) -> None:
        self.standing.judge()

    def on_restarted(self, reason: str, lost: Mapping[str, int]) -> None:
        if self.life is Life.CLOSING:
            self.standing.lost.update(lost)
        elif self.life is not Life.FAILED:
            self.standing.become(Life.STARTING, reason)

    def on_departed(self, other: int) -> None:
        self.standing.lose(other)

    def on_used_up(self) -> None:
        self.standing.fail(f"node {self.id} cannot take part: its id is used up", True)
