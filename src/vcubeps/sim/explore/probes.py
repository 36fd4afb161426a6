"""Probes of the simulated world: who is in contact with whom, who is isolated, and who is suspected by whom.

The rules of a network in which voters decide:

- *Contact* with a node is an own round trip, direct or by one relay, not older than `Voting.contact`. A probe is
  answered by who runs and is reached; the answer says which incarnation answers, and if it holds the asker dead.
- A node without contact with a quorum of the voters is *isolated*. That is judged when it matters, before every input,
  and not at the last probe. An isolated node suspects nobody.
- Who is silent for `Voting.suspicion` is taken for crashed.
- A greeting comes before any message on a new connection. It says which incarnation sends it, and so that those before
  it have ended, which needs no quorum; and it says if the receiver is held dead, which then starts again.
- A goodbye is certain too.

Probes are not sent one by one. A pair whose probes are answered is in contact, as of some ticks ago, for as long as
nothing changes; when that changes, the age of the last answer is drawn, and so is the time that the next one takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from vcubeps.mixing import mix
from vcubeps.protocol.messages import ANY_INCARNATION, Fence
from vcubeps.protocol.voters import Voters
from vcubeps.sim.explore.detector import Lives
from vcubeps.sim.explore.operations import USUAL_DELAY
from vcubeps.sim.explore.reach import Reach
from vcubeps.sim.explore.voting import AGE_MAX, Voting

ROUND_TRIP = 2 * USUAL_DELAY
"""Longest time that an answer to a probe takes, in ticks."""

_NEVER = -(1 << 60)
_FOREVER = 1 << 60


class Driver(Protocol):
    """What probes make the world do."""

    @property
    def time(self) -> int: ...
    def after(self, delay: int, call: Callable[[], None]) -> None: ...
    def report(self, observer: int, node: int, incarnation: int) -> None: ...
    def isolate(self, node: int, isolated: bool) -> None: ...
    def hand_over(self, node: int, sender: int, message: Fence) -> None: ...


class Greeting(NamedTuple):
    """What the first frame of a connection says."""

    incarnation: int
    """Of the sender."""
    dead: int
    """Newest incarnation of the receiver that the sender holds dead; −1: none."""


class Contact:
    """What one node knows of another by its probes.

    Invariant: while `answered`, the last answer is younger than any limit, and `last` means nothing.
    """

    __slots__ = ("answered", "attempt", "incarnation", "last", "reached")

    def __init__(self, answered: bool) -> None:
        self.reached = answered
        """Probes are answered now, whatever the answer is."""
        self.answered = answered
        """They have been, and the answers were no refusal."""
        self.last = _NEVER
        """When the last one that was answered had been sent."""
        self.incarnation = 0
        """Who answered it."""
        self.attempt = 0
        """Number of the last attempt, over all contacts: an answer to an earlier one is void."""


class Probes:
    def __init__(
        self, seed: int, voting: Voting, nodes: tuple[int, ...], lives: Lives, driver: Driver
    ) -> None:
        self._seed = seed
        self._voting = voting
        self._nodes = nodes
        self._lives = lives
        self._driver = driver
        self._voters = Voters(voting.voters)
        self.reach = Reach(nodes, voting.relays)
        self.stopped: set[int] = set()
        """Nodes whose process is paused."""
        self.isolated: set[int] = set()
        # The first incarnations know each other from the start.
        self._contacts = {x: {y: Contact(answered=True) for y in nodes if y != x} for x in nodes}
        self._patient_since = dict.fromkeys(nodes, _NEVER)
        """Node → when it began to blame others for their silence."""
        self._judged_until = dict.fromkeys(nodes, 0)
        """Node → until when it is as isolated as it was found last, if nothing changes."""
        self._next_check: dict[int, int] = {}
        self._greetings: dict[tuple[int, int], Greeting] = {}
        """(receiver, sender) → what will be said before the next message."""
        self._greeted: dict[tuple[int, int], int] = {}
        """(receiver, sender) → newest incarnation of the sender that the receiver's process has heard of so."""
        self._draws = self._attempts = 0

    # -- the world changes -----------------------------------------------------------------------

    def changed(self) -> None:
        """Who reaches whom, or who holds whom dead, may have changed."""
        severed = self.reach.severed
        self.reach.renew(node for node in self._lives.peers if node not in self.stopped)
        for sender, receiver in sorted(severed - self.reach.severed):
            self._connect(receiver, sender)
        for observer in self._lives.peers:
            if observer not in self.stopped:
                for node in self._contacts[observer]:
                    self._look_again(observer, node)

    def crashed(self, node: int) -> None:
        for other in self._nodes:
            self._greeted.pop((node, other), None)
            self._greetings.pop((node, other), None)
            self._greetings.pop((other, node), None)
        self.stopped.discard(node)
        self.isolated.discard(node)
        self.changed()

    def booted(self, node: int) -> None:
        """A process starts: it has been in contact with nobody. Called before its first input."""
        if not self._lives.incarnation[node]:
            return
        self._contacts[node] = {other: Contact(answered=False) for other in self._nodes if other != node}
        self._patient_since[node] = self._driver.time
        self._judged_until[node] = 0
        self.judge(node)

    def started(self, node: int) -> None:
        """An incarnation has begun: it greets all, and is greeted by those that do not know it yet."""
        for other in self._lives.peers:
            if other != node:
                self._connect(other, node)
                self._connect(node, other)
                self._contacts[other][node].reached = False  # its answers come from the next incarnation
        self._judged_until[node] = 0
        self.changed()
        self._check_later(node)

    def stop(self, node: int) -> None:
        """The process is paused: it does nothing, and its clock goes on."""
        self.stopped.add(node)
        for contact in self._contacts[node].values():
            self._end(contact)
            contact.reached = False
        self.changed()

    def go_on(self, node: int) -> None:
        """It finds out how long it was paused before it does anything else, and blames nobody for that time."""
        self.stopped.discard(node)
        self._patient_since[node] = self._driver.time
        self._judged_until[node] = 0
        self.judge(node)
        self.changed()
        self._check_later(node)

    def noted(self, node: int) -> None:
        """`node` holds other incarnations dead than before: it refuses them, and they do not count for it."""
        self._judged_until[node] = 0
        for other in self._lives.peers:
            if other != node and other not in self.stopped:
                self._look_again(other, node)

    # -- contact ---------------------------------------------------------------------------------

    def _look_again(self, observer: int, node: int) -> None:
        """Compare what `observer` can get of `node` with what it got last."""
        contact = self._contacts[observer][node]
        reached = self.reach.answers(observer, node)
        if contact.answered and (not reached or self._refuses(node, observer)):
            self._end(contact)
            self._judged_until[observer] = 0
            self._check_at(observer, contact.last + self._voting.suspicion)
            contact.reached = False
        if reached == contact.reached:
            return
        contact.reached = reached
        contact.attempt = 0
        if reached:
            self._attempts += 1
            attempt = contact.attempt = self._attempts
            self._driver.after(1 + self._chance() % ROUND_TRIP, lambda: self._answer(observer, node, attempt))

    def _end(self, contact: Contact) -> None:
        if contact.answered:
            contact.answered = False
            contact.last = self._driver.time - self._chance() % int(AGE_MAX * self._voting.contact)
        contact.attempt = 0

    def _answer(self, observer: int, node: int, attempt: int) -> None:
        contact = self._contacts[observer][node]
        if contact.attempt != attempt or observer not in self._lives.peers or observer in self.stopped:
            return
        self._greet(observer, node, self._greeting_of(node, observer))
        if self._refuses(node, observer) or contact.attempt != attempt:
            return  # it was told so and starts again
        contact.answered = True
        contact.incarnation = self._lives.incarnation[node]
        self._judged_until[observer] = 0
        self.judge(observer)

    def _refuses(self, node: int, asker: int) -> bool:
        peer = self._lives.peers.get(node)
        return peer is not None and peer.dead_incarnation(asker) >= self._lives.incarnation[asker]

    # -- greetings -------------------------------------------------------------------------------

    def _connect(self, receiver: int, sender: int) -> None:
        if sender in self._lives.peers:
            self._greetings[receiver, sender] = self._greeting_of(sender, receiver)

    def _greeting_of(self, sender: int, receiver: int) -> Greeting:
        dead = self._lives.peers[sender].dead_incarnation(receiver)
        return Greeting(self._lives.incarnation[sender], dead)

    def arrived(self, node: int, sender: int) -> None:
        """A message of `sender` is about to be handed to `node`: what its connection began with comes first."""
        greeting = self._greetings.pop((node, sender), None)
        if greeting is not None:
            self._greet(node, sender, greeting)

    def _greet(self, node: int, sender: int, greeting: Greeting) -> None:
        self.judge(node)
        if greeting.dead >= self._lives.incarnation[node]:
            self._driver.hand_over(node, sender, Fence(greeting.incarnation, ANY_INCARNATION, greeting.dead))
        if greeting.incarnation > self._greeted.get((node, sender), 0):
            self._greeted[node, sender] = greeting.incarnation
            if self._lives.peers[node].is_up:
                self._driver.report(node, sender, greeting.incarnation - 1)

    # -- isolation and suspicion -----------------------------------------------------------------

    def judge(self, node: int) -> None:
        """Tell the peer if it has become isolated, or is no more. Before every other input."""
        now = self._driver.time
        if now < self._judged_until[node]:
            return
        counted, until = {node}, _FOREVER
        peer = self._lives.peers[node]
        for other, contact in self._contacts[node].items():
            if peer.dead_incarnation(other) >= contact.incarnation:
                continue
            if contact.answered:
                counted.add(other)
            elif (ends := contact.last + self._voting.contact) > now:
                counted.add(other)
                until = min(until, ends)
        self._judged_until[node] = until
        isolated = not self._voters.is_quorum(counted)
        if isolated is (node in self.isolated):
            return
        if isolated:
            self.isolated.add(node)
        else:
            self.isolated.discard(node)
            if not self._voting.hasty:
                self._patient_since[node] = now
            self._check_later(node)
        self._tell(node, isolated)

    def _tell(self, node: int, isolated: bool) -> None:
        self._driver.isolate(node, isolated)

    def may_suspect(self, node: int) -> bool:
        return node not in self.isolated

    def check(self, observer: int) -> None:
        """Whom `observer` has not heard of for too long, it takes for crashed."""
        if observer not in self._lives.peers or observer in self.stopped:
            return
        self.judge(observer)
        incarnation = self._lives.incarnation[observer]
        for node, contact in list(self._contacts[observer].items()):
            if self._lives.incarnation[observer] != incarnation or not self.may_suspect(observer):
                return
            if contact.answered or contact.reached:
                continue
            due = max(contact.last, self._patient_since[observer]) + self._voting.suspicion
            if due > self._driver.time:
                self._check_at(observer, due)
                continue
            peer = self._lives.peers[observer]
            newest = max(peer.known_incarnation(node), self._greeted.get((observer, node), 0))
            if peer.dead_incarnation(node) < newest or not peer.believes_dead(node):
                self._driver.report(observer, node, newest)

    def _check_later(self, node: int) -> None:
        self._check_at(node, self._driver.time + self._voting.suspicion)

    def _check_at(self, node: int, time: int) -> None:
        """One check is planned at a time, the next one that is due."""
        if time >= self._next_check.get(node, _FOREVER):
            return
        self._next_check[node] = time

        def due() -> None:
            if self._next_check.get(node) == time:
                del self._next_check[node]
                self.check(node)

        self._driver.after(max(0, time - self._driver.time), due)

    def has_quorum(self) -> bool:
        """Whether the nodes that live are a quorum."""
        return self._voters.is_quorum(self._lives.peers)

    def _chance(self) -> int:
        self._draws += 1
        return mix(self._seed, 16, self._draws)
