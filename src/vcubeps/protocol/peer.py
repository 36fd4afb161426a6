"""One node's state machine: inputs in, outputs out, nothing else.

Theory of operation. The application subscribes, publishes and unsubscribes; each is a
*broadcast* that walks a spanning tree rooted here and is acknowledged back up the same tree
(`dissemination`, `broadcasts`). A topic that this node is in has a *view* of its members
(`membership`) and delivers publications in causal order (`causality`, `topic`). Crashes are
reported by the shell, spread among the survivors, become final (`crashes`) and are over
(`aftermath`). A node that comes, or comes back as a new incarnation, asks to be let in (`boot`),
and those who are up let it in (`admission`).

What a driver owes a peer, and what it may do, is at the head of the package.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from msgspec.structs import replace

from vcubeps.protocol.admission import Admission
from vcubeps.protocol.aftermath import Aftermath
from vcubeps.protocol.arguments import check_card, check_company, check_ids, check_other, check_sizes
from vcubeps.protocol.boot import Boot, Kept
from vcubeps.protocol.broadcasts import Broadcasts
from vcubeps.protocol.crashes import Crashes
from vcubeps.protocol.dissemination import Dissemination
from vcubeps.protocol.errors import ProtocolViolation, UsageError
from vcubeps.protocol.limits import MAX_BATCH_BYTES, MAX_BATCH_ITEMS, MAX_INCARNATION, RECIPIENTS_LISTED
from vcubeps.protocol.local import LocalNode, StartAgain
from vcubeps.protocol.messages import (
    ANY_INCARNATION,
    Ack,
    AnyMessage,
    Ask,
    Card,
    Copy,
    Fence,
    Final,
    Flush,
    Hello,
    IsFinal,
    Over,
    Publication,
    Taken,
    Welcome,
)
from vcubeps.protocol.outputs import Arrived, IdTaken, Output, Restarted, RestartReason
from vcubeps.protocol.topic import Phase
from vcubeps.protocol.validation import check_message
from vcubeps.protocol.voters import Voters
from vcubeps.protocol.worker import Worker


class Peer:
    """The protocol of one node.

    Every input returns the outputs it caused, in order, for the shell to carry out:

    >>> alice, bob = Peer(0, range(2)), Peer(1, range(2))
    >>> alice.start(), bob.start()
    ([], [])
    >>> [ask] = alice.subscribe("room")
    >>> [answer] = bob.receive(0, ask.message)
    >>> alice.receive(1, answer.message)
    [Subscribed(topic='room', counter=1, floors={})]
    >>> [type(output).__name__ for output in alice.publish("room", b"hello")]
    ['Accepted', 'Started', 'Deliver', 'Acknowledged']
    """

    __slots__ = (
        "_admission",
        "_aftermath",
        "_batch_items_max",
        "_boot",
        "_broadcasts",
        "_crashes",
        "_flat_max",
        "_has_been_up",
        "_listed_max",
        "_local",
        "_nodes",
        "_seeds",
        "_tree",
        "_voters",
    )  # fmt: skip

    def __init__(
        self,
        node: int,
        nodes: Iterable[int] = (),
        *,
        incarnation: int = 0,
        seeds: Iterable[int] = (),
        identity: int = 0,
        address: bytes = b"",
        addresses: Mapping[int, bytes] = MappingProxyType({}),
        batch_items_max: int = MAX_BATCH_ITEMS,
        flat_max: int = 0,
        listed_max: int = RECIPIENTS_LISTED,
        voters: Iterable[int] | None = None,
    ) -> None:
        """`nodes` are those that the cluster starts with, this one included. As first incarnations they know each
        other from the start; a later one expects them all, and is up when each has let it in or is reported crashed.

        With `seeds`, some nodes of a cluster that is there already, this is a newcomer: it learns from them who else
        is there, and is up when one of them, and all of those, have let it in. A newcomer draws its id, its `identity`
        and its first incarnation once, at random, and stores them; each later start has a greater incarnation, and goes
        through seeds, or names as `nodes` those it has met. The identity, not 0, tells newcomers apart that have drawn
        the same id; the incarnation is drawn from many (0…2^21, say) lest the newcomer get what was meant for a node
        that had the id before. `address` is told to all; `addresses` are those of `nodes`, for newcomers that ask.

        `batch_items_max` is how many publications may leave as one batch; 1 is the paper's protocol. Up to `flat_max`
        recipients are served by the source itself, without a tree; 0 is the paper's protocol. `listed_max` is how many
        recipients a copy of a publication lists although its receiver may know them.

        `voters` are the nodes of which a quorum decides when the network is cut, the same at every node: no crash
        is final, no publication acknowledged and no subscription in effect without them. Without voters all sides
        of a cut go on.
        """
        self._nodes, self._seeds = frozenset(nodes), frozenset(seeds) - {node}
        voting = frozenset(voters) if voters is not None else None
        check_ids({node} | self._nodes | self._seeds | (voting or frozenset()))
        check_company(node, self._nodes, self._seeds)
        check_card(incarnation, identity, address, is_newcomer=bool(self._seeds))
        check_sizes(batch_items_max, flat_max, listed_max)
        self._batch_items_max = batch_items_max
        self._flat_max = flat_max
        self._listed_max = listed_max
        self._voters = Voters(voting) if voting is not None else None
        self._has_been_up = not self._seeds and not incarnation
        known = dict.fromkeys(sorted(self._nodes - {node}), 0) if self._has_been_up else {}
        card = Card(incarnation, identity, address or addresses.get(node, b""))
        local = LocalNode(node, card, known, self._has_been_up, self._voters)
        local.cards = {other: Card(0, 0, addresses.get(other, b"")) for other in known}
        self._boot: Boot | None = None
        self._create(local)
        if not self._has_been_up:
            self._come()  # its outputs wait for `start`

    def _create(self, local: LocalNode) -> None:
        self._local = local
        self._tree = Dissemination(self._local, self._flat_max, self._listed_max)
        self._broadcasts = Broadcasts(self._local, self._tree, self._batch_items_max)
        self._admission = Admission(self._local)
        self._aftermath = Aftermath(self._local, self._broadcasts)
        self._crashes = Crashes(
            self._local, self._broadcasts, self._aftermath, on_final=self._admission.welcome_newcomers
        )
        self._admission.attach(self._crashes)

    def _come(self, told_by: frozenset[int] = frozenset()) -> None:
        """Ask the others to let this incarnation in."""
        may_found = self._has_been_up or not self._seeds
        self._boot = Boot(self._local, self._crashes, self._admission, self._on_up)
        self._boot.start(self._nodes - {self.node} | told_by, self._seeds, may_found)

    def _on_up(self, kept: Kept) -> None:
        self._boot = None
        for sender, message in kept:
            self._apply(sender, message)

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

    def publish(self, topic: str, payload: bytes, time_ns: int = 0) -> list[Output]:
        """Publish to the members of `topic`; `Accepted` has the counter, `Acknowledged` ends it.

        `time_ns`, if not 0, is when it was asked for, in nanoseconds since 1970; it is passed on to those who get it.
        """
        self._broadcasts.publish(topic, payload, time_ns)
        return self._take_outputs()

    def accept(self, topic: str, payload: bytes, time_ns: int = 0) -> int:
        """The counter of a publication that waits for `release`: so several leave as one batch. No outputs."""
        return self._broadcasts.accept(topic, payload, time_ns)

    def release(self, topic: str) -> list[Output]:
        """What has been accepted on `topic` leaves now, or after the broadcast under way."""
        self._broadcasts.release(topic)
        return self._take_outputs()

    def receive(self, sender: int, message: object, size_max: int = MAX_BATCH_BYTES) -> list[Output]:
        """A message from another node has arrived. Raises ProtocolViolation if it is unsound.

        `size_max`: it has so many bytes at most, as the driver knows from the frame that it came in.
        """
        local = self._local
        sound = check_message(local, sender, message, size_max)
        if (
            type(sound) is Ack
            and sound.target == local.incarnation
            and (complaint := self._tree.complaint_about(sender, sound))
        ):
            raise ProtocolViolation(sender, complaint)
        try:
            self._apply(sender, sound)
        except StartAgain as end:
            self._start_again(end)
        return self._take_outputs()

    def suspect(self, node: int, incarnation: int) -> list[Output]:
        """The failure detector reports that `incarnation` of `node`, the newest it knows, has crashed.

        There is no way back for that incarnation: if it lives, it starts again as the next one.
        """
        local = self._local
        check_other("suspect", node, local.me)
        if not 0 <= incarnation <= MAX_INCARNATION:
            raise UsageError(
                f"incarnations lie in 0…{MAX_INCARNATION}, got {incarnation}: name the one that crashed"
            )
        try:
            if self._boot is not None:
                self._boot.on_suspicion(node, incarnation)
            elif local.ended(node) < incarnation:
                self._crashes.crashed({node: incarnation})
        except StartAgain as end:
            self._start_again(end)
        return self._take_outputs()

    def greet(self, node: int) -> list[Output]:
        """Say Hello to one more node, because those before do not answer, or because it may not know this one."""
        check_other("greet", node, self.node)
        (self._boot or self._admission).greet(node)
        return self._take_outputs()

    def restart(self) -> list[Output]:
        """Start again as the next incarnation, as if the others had declared this node crashed."""
        self._start_again(StartAgain(RestartReason.ASKED))
        return self._take_outputs()

    def isolate(self, isolated: bool) -> list[Output]:
        """Whether this node is out of contact with every quorum of the voters.

        While it is, it starts nothing: `publish` and `subscribe` are refused, and what has been accepted waits.
        """
        if self._local.voters is None:
            raise UsageError(
                "without voters there is no quorum that this node could be cut off from: give voters"
            )
        self._local.isolated = isolated
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

    @property
    def present(self) -> Mapping[int, int]:
        """The other nodes that live, as far as is known here → their incarnations."""
        return MappingProxyType(self._local.living)

    def known_incarnation(self, node: int) -> int:
        """Newest incarnation of `node` that this one deals with, has dealt with, or has something under way to; −1 if
        there was none."""
        local = self._local
        return max([local.known.get(node, local.ended(node)), *self._tree.addressed(node)])

    def ended_incarnation(self, node: int) -> int:
        """Newest incarnation of `node` that is no more, as far as is known here; −1 if there was none."""
        return self._local.ended(node)

    def believes_dead(self, node: int) -> bool:
        """Whether nothing is expected of `node`: it is absent, or its incarnation that this one deals with has been
        declared crashed. Not if this node boots and has been told to expect it, or serves others who deal with a newer
        incarnation of it and waits for its acknowledgement."""
        if node in self._local.living or (self._boot is not None and self._boot.awaits(node)):
            return False
        return not self._tree.addressed(node)

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
            "queued": sum(len(worker.queue) + len(worker.waiting) for worker in workers),
            "pending": sum(len(topic.holdback) for topic in topics),
            "joining_or_leaving": sum(topic.phase is not Phase.MEMBER for topic in topics),
            "flushes": self._crashes.unfinished,
            "admissions": self._admission.unfinished
            + (self._boot.unfinished if self._boot is not None else 0),
            "crashes_not_final": len(self._local.fresh),
            "crashes_not_over": len(self._aftermath.not_over),
        }

    def retained(self, topic: str) -> set[str]:
        """What is left to do of a topic that this node is not in."""
        worker = self._broadcasts.workers.get(topic)
        if worker is None:
            return set()
        fresh = Worker()
        return {name for name in Worker.__slots__ if getattr(worker, name) != getattr(fresh, name)}

    def check(self) -> None:
        """Raise AssertionError if an invariant of any part does not hold. For tests, after an input."""
        self._local.check()
        self._admission.check()
        if self._boot is not None:
            self._boot.check()
        self._crashes.check()
        self._aftermath.check()
        self._tree.check()
        self._broadcasts.check()

    # -- inside --------------------------------------------------------------------------------

    def _apply(self, sender: int, message: AnyMessage) -> None:
        """Handle a sound message by the incarnations on its envelope, then by its kind."""
        local, origin = self._local, message.origin
        is_known = local.living.get(sender) == origin
        if is_known and local.up and message.target == local.incarnation:  # nearly always
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
            if type(message) is Ask:
                self._broadcasts.on_ask(sender, message)
                return
        if isinstance(message, Fence):
            if message.incarnation >= local.incarnation:
                raise StartAgain(RestartReason.DECLARED_CRASHED, message.incarnation, frozenset({sender}))
            return
        if message.target not in (local.incarnation, ANY_INCARNATION):
            return
        if type(message) is Hello and self._admission.is_taken(sender, message.card):
            self._admission.tell_taken(sender, message)
            return
        if origin <= local.ended(sender):
            local.send(sender, Fence(local.incarnation, ANY_INCARNATION, local.ended(sender)))
            return
        # One that is newer than known has been let in by others while this node came up without it: its Welcome,
        # which has been overtaken, will say so.
        if isinstance(message, Welcome):
            (self._boot or self._admission).on_welcome(sender, message)
        elif isinstance(message, Hello):
            (self._boot or self._admission).on_hello(sender, message)
        elif isinstance(message, Taken):
            self._admission.on_taken(message)
        elif self._boot is not None:
            self._boot.on_message(sender, message)
        elif is_known:
            self._apply_crash_message(sender, message)

    def _apply_crash_message(self, sender: int, message: AnyMessage) -> None:
        if isinstance(message, Flush):
            for flush in self._crashes.in_order(sender, message):
                self._crashes.on_flush(sender, flush)
        elif isinstance(message, IsFinal):
            self._aftermath.on_is_final(sender, message)
        elif isinstance(message, Final):
            self._aftermath.on_final(sender, message)
        elif isinstance(message, Over):
            self._aftermath.on_over(message)

    def _start_again(self, end: StartAgain) -> None:
        """What this incarnation was is void; go on as a newer one."""
        old = self._local
        incarnation = max(old.incarnation, end.ended) + 1
        if incarnation > MAX_INCARNATION:
            old.emit(IdTaken())
            return
        self._has_been_up |= old.up
        topics = tuple(name for name, worker in self._broadcasts.workers.items() if worker.wanted)
        card = replace(old.card, incarnation=incarnation)
        local = LocalNode(old.me, card, old.known, False, old.voters, old.isolated)
        local.inherit(old)
        self._create(local)
        local.outputs = old.outputs
        local.emit(Restarted(incarnation, topics, end.reason))
        for other in old.dead:
            local.emit(Arrived(other, local.known[other], local.card_of(other).address))
        # Two who were apart for so long that each has forgotten the other meet by a Fence.
        self._come(end.told_by)

    def _take_outputs(self) -> list[Output]:
        local = self._local
        if self._aftermath.is_due:
            self._aftermath.try_report()
        outputs, local.outputs = local.outputs, []
        return outputs
