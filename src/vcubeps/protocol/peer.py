"""One node's state machine: inputs in, outputs out, nothing else.

Theory of operation. The application subscribes, publishes and unsubscribes; each is a
*broadcast* that walks a spanning tree rooted here and is acknowledged back up the same tree
(`dissemination`, `broadcasts`). A topic that this node is in has a *view* of its members
(`membership`) and delivers publications in causal order (`causality`, `topic`). Crashes are
reported by the shell, spread among the survivors and become final (`crashes`); a crashed node
comes back as a new incarnation (`admission`).

What a driver owes a peer, and what it may do, is at the head of the package.
"""

from __future__ import annotations

from collections.abc import Iterable

from vcubeps.cube import MAX_DIMENSION
from vcubeps.protocol.admission import Admission
from vcubeps.protocol.broadcasts import Broadcasts, Worker
from vcubeps.protocol.crashes import Crashes
from vcubeps.protocol.dissemination import Dissemination
from vcubeps.protocol.errors import ProtocolViolation, UsageError
from vcubeps.protocol.limits import MAX_BATCH_ITEMS, MAX_INCARNATION
from vcubeps.protocol.local import LocalNode, StartAgain
from vcubeps.protocol.messages import (
    ANY_INCARNATION,
    Ack,
    AnyMessage,
    Copy,
    Fence,
    Flush,
    Hello,
    Incarnations,
    Publication,
    Welcome,
)
from vcubeps.protocol.outputs import Output, Restarted, RestartReason
from vcubeps.protocol.topic import Phase
from vcubeps.protocol.validation import check_message
from vcubeps.protocol.voters import Voters


class Peer:
    """The protocol of one node.

    Every input returns the outputs it caused, in order, for the shell to carry out:

    >>> alice, bob = Peer(0, range(2)), Peer(1, range(2))
    >>> alice.start(), bob.start()
    ([], [])
    >>> [ask] = alice.subscribe("room")
    >>> [answer] = bob.receive(0, ask.message)
    >>> alice.receive(1, answer.message)
    [Subscribed(topic='room', counter=1)]
    >>> [type(output).__name__ for output in alice.publish("room", b"hello")]
    ['Accepted', 'Started', 'Deliver', 'Acknowledged']
    """

    __slots__ = ("_admission", "_batch_items_max", "_broadcasts", "_crashes", "_local", "_tree", "_voters")

    def __init__(
        self,
        node: int,
        nodes: Iterable[int],
        *,
        incarnation: int = 0,
        batch_items_max: int = MAX_BATCH_ITEMS,
        voters: Iterable[int] | None = None,
    ) -> None:
        """`batch_items_max` is how many publications may leave as one batch; 1 is the paper's protocol.

        `voters` are the nodes of which a quorum decides when the network is cut, the same at every node: no crash
        is final, no publication acknowledged and no subscription in effect without them. Without voters all sides
        of a cut go on.
        """
        everyone = frozenset(nodes)
        misplaced = [
            other for other in everyone if not isinstance(other, int) or other < 0 or other >> MAX_DIMENSION
        ]
        if misplaced:
            named = ", ".join(sorted(repr(other)[:20] for other in misplaced)[:8])
            raise UsageError(
                f"node ids are whole numbers in 0…{(1 << MAX_DIMENSION) - 1}, got {named}: renumber the nodes"
            )
        if node not in everyone:
            raise UsageError(
                f"node {node} is not one of the {len(everyone)} nodes given: add it, or choose another"
            )
        if not 0 <= incarnation <= MAX_INCARNATION:
            raise UsageError(
                f"incarnations lie in 0…{MAX_INCARNATION}, got {incarnation}: store the last one used, and add 1"
            )
        if not 1 <= batch_items_max <= MAX_BATCH_ITEMS:
            raise UsageError(
                f"a batch has 1…{MAX_BATCH_ITEMS} items, got {batch_items_max}: choose a number in between"
            )
        self._batch_items_max = batch_items_max
        self._voters = Voters(voters) if voters is not None else None
        self._create(node, everyone, incarnation, {})
        if incarnation:
            self._admission.boot()  # its outputs wait for `start`

    def _create(
        self, me: int, nodes: frozenset[int], incarnation: int, known: Incarnations, isolated: bool = False
    ) -> None:
        dimension = max(nodes).bit_length()
        self._local = LocalNode(me, nodes, dimension, incarnation, known, self._voters, isolated)
        self._tree = Dissemination(self._local)
        self._broadcasts = Broadcasts(self._local, self._tree, self._batch_items_max)
        self._admission = Admission(self._local, self._apply)
        self._crashes = Crashes(
            self._local,
            self._broadcasts,
            on_final=self._admission.welcome_newcomers,
        )
        self._admission.attach(self._crashes)

    # -- inputs --------------------------------------------------------------------------------

    def start(self) -> list[Output]:
        """Begin; a node that crashed before, under its next incarnation, asks to be let in again."""
        return self._take_outputs()

    def subscribe(self, topic: str) -> list[Output]:
        """Ask to be a member of `topic`; in effect everywhere with `Subscribed`."""
        self._broadcasts.subscribe(topic)
        return self._take_outputs()

    def unsubscribe(self, topic: str) -> list[Output]:
        """Leave `topic`: nothing is delivered from now on; known everywhere with `Unsubscribed`."""
        self._broadcasts.unsubscribe(topic)
        return self._take_outputs()

    def publish(self, topic: str, payload: bytes, *, more: bool = False) -> list[Output]:
        """Publish to the members of `topic`; `Accepted` has the counter, `Acknowledged` ends it.

        With `more` the shell says that others follow at once and calls `release` after the last, so that
        they leave as one batch; the only output is then `Accepted`.
        """
        self._broadcasts.publish(topic, payload, more)
        return self._take_outputs()

    def release(self, topic: str) -> list[Output]:
        """What was published on `topic` with `more` leaves now, or after the broadcast under way."""
        self._broadcasts.release(topic)
        return self._take_outputs()

    def receive(self, sender: int, message: object) -> list[Output]:
        """A message from another node has arrived. Raises ProtocolViolation if it is unsound."""
        sound = check_message(self._local, sender, message)
        if type(sound) is Ack and (complaint := self._tree.complaint_about(sender, sound)):
            raise ProtocolViolation(sender, complaint)
        try:
            self._apply(sender, sound)
        except StartAgain as end:
            self._start_again(end.reason)
        return self._take_outputs()

    def suspect(self, node: int, incarnation: int) -> list[Output]:
        """The failure detector reports that `incarnation` of `node`, the newest it knows, has crashed.

        There is no way back for that incarnation: if it lives, it starts again as the next one.
        """
        local = self._local
        if node not in local.nodes or node == local.me:
            raise UsageError(f"cannot suspect node {node}: name one of the other nodes")
        if not 0 <= incarnation <= MAX_INCARNATION:
            raise UsageError(
                f"incarnations lie in 0…{MAX_INCARNATION}, got {incarnation}: name the one that crashed"
            )
        if local.dead.get(node, -1) < incarnation:
            try:
                if local.up:
                    self._crashes.crashed({node: incarnation})
                else:
                    self._crashes.declare_dead({node: incarnation})
                self._admission.try_up()
            except StartAgain as end:
                self._start_again(end.reason)
        return self._take_outputs()

    def restart(self) -> list[Output]:
        """Start again as the next incarnation, as if the others had declared this node crashed."""
        self._start_again(RestartReason.ASKED)
        return self._take_outputs()

    def isolate(self, isolated: bool) -> list[Output]:
        """Whether this node is out of contact with every quorum of the voters.

        While it is, it starts nothing: `publish` and `subscribe` are refused, and what has been accepted waits.
        """
        self._local.isolated = isolated
        if not isolated:
            self._broadcasts.pump_all()
        return self._take_outputs()

    # -- looking in ----------------------------------------------------------------------------

    @property
    def node(self) -> int:
        return self._local.me

    @property
    def incarnation(self) -> int:
        return self._local.incarnation

    @property
    def is_up(self) -> bool:
        """Whether this incarnation has been let in."""
        return self._local.up

    def known_incarnation(self, node: int) -> int:
        """Newest incarnation of `node` that this one deals with."""
        return self._local.known_incarnation(node)

    def believes_dead(self, node: int) -> bool:
        """Whether the incarnation of `node` that this one deals with has been declared crashed."""
        return self._local.is_dead(node)

    def can_subscribe(self, topic: str) -> bool:
        return self._broadcasts.can_subscribe(topic)

    def can_unsubscribe(self, topic: str) -> bool:
        worker = self._broadcasts.workers.get(topic)
        return worker is not None and worker.wanted

    def can_publish(self, topic: str) -> bool:
        return self._broadcasts.is_member(topic) and not self._local.isolated

    def members(self, topic: str) -> dict[int, int]:
        """Members of `topic` as seen here, with the counters of their subscriptions; empty if not a member."""
        if not self._broadcasts.is_member(topic):
            return {}
        state = self._broadcasts.workers[topic].topic
        assert state is not None
        return {self.node: state.counter} | {n: m.counter for n, m in state.view.members.items()}

    def footprint(self) -> dict[str, int]:
        """Work in progress by kind; all zero when nothing is under way."""
        workers = self._broadcasts.workers.values()
        topics = self._broadcasts.topics()
        return {
            "copies": len(self._tree),
            "broadcasts": sum(worker.current is not None for worker in workers),
            "queued": sum(len(worker.queue) for worker in workers),
            "pending": sum(len(topic.holdback) for topic in topics),
            "joining_or_leaving": sum(topic.phase is not Phase.MEMBER for topic in topics),
            "flushes": len(self._crashes),
            "admissions": len(self._admission),
            "crashes_not_final": len(self._local.fresh),
        }

    def retained(self, topic: str) -> set[str]:
        """What is kept of a topic that this node is not in: at most what the next subscription needs."""
        worker = self._broadcasts.workers.get(topic)
        if worker is None:
            return set()
        fresh = Worker()
        return {name for name in Worker.__slots__ if getattr(worker, name) != getattr(fresh, name)}

    def check(self) -> None:
        """Raise AssertionError if an invariant of any part does not hold. For tests, after an input."""
        self._local.check()
        self._admission.check()
        self._crashes.check()
        self._tree.check()
        for worker in self._broadcasts.workers.values():
            worker.check()

    # -- inside --------------------------------------------------------------------------------

    def _apply(self, sender: int, message: AnyMessage) -> None:
        """Handle a sound message by the incarnations on its envelope, then by its kind."""
        local = self._local
        if isinstance(message, Fence):
            if message.incarnation == local.incarnation:
                raise StartAgain(RestartReason.DECLARED_CRASHED)
            return
        if message.target not in (local.incarnation, ANY_INCARNATION):
            return
        origin = message.origin
        if local.dead and origin <= local.dead.get(sender, -1):
            local.send(sender, Fence(local.incarnation, ANY_INCARNATION, origin))
            return
        # One that is newer than known has been let in by others while this node came up without it: its Welcome,
        # which has been overtaken, will say so.
        is_known = origin <= local.known.get(sender, 0)
        if is_known and local.up:
            if type(message) is Copy:
                if message.fresh:
                    self._crashes.learn(message.fresh)
                if type(message.broadcast) is Publication:
                    self._broadcasts.on_publication(sender, message, message.broadcast)
                else:
                    self._broadcasts.on_copy(sender, message)
                return
            if type(message) is Ack:
                if message.clock > local.clock:
                    local.clock = message.clock
                if message.dead:
                    self._crashes.learn(message.dead)
                self._broadcasts.on_ack(sender, message)
                return
        if isinstance(message, Welcome):
            self._admission.on_welcome(sender, message)
        elif isinstance(message, Hello):
            self._admission.on_hello(sender, message)
        elif not local.up:
            self._admission.on_message_while_booting(sender, message)
        elif is_known and isinstance(message, Flush):
            for flush in self._crashes.in_order(sender, message):
                if origin > local.dead.get(sender, -1):  # an earlier one may have told of its crash
                    self._crashes.on_flush(sender, flush)

    def _start_again(self, reason: RestartReason) -> None:
        """What this incarnation was is void; go on as the next one."""
        old = self._local
        topics = tuple(name for name, worker in self._broadcasts.workers.items() if worker.wanted)
        self._create(old.me, old.nodes, old.incarnation + 1, old.known, old.isolated)
        self._local.outputs = old.outputs
        self._local.emit(Restarted(self._local.incarnation, topics, reason))
        self._admission.boot()

    def _take_outputs(self) -> list[Output]:
        local = self._local
        outputs, local.outputs = local.outputs, []
        return outputs
