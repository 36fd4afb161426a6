"""The simulated world: peers, links, crashes and a failure detector, in virtual time.

Fault model: links between live incarnations lose and duplicate nothing. When a node crashes, an
arbitrary part of its messages under way is lost; messages that arrive at a node that is down
vanish, those that arrive at one that is paused wait; messages to an old incarnation may reach the
new one; messages to a node that has said goodbye vanish until it is heard of again. Crashes are
reported as `detector` says, or as `probes` says where voters decide; other reports about a node
that lives come only from the schedule. All choices are hashes (see `vcubeps.mixing`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from random import Random
from typing import Any, NoReturn, TypeAlias

from vcubeps.mixing import mix
from vcubeps.protocol.messages import Copy, Fence
from vcubeps.protocol.outputs import Arrived, Deliver, IdTaken, Output, Restarted, Send, Up
from vcubeps.sim.explore.aimed_crashes import AimedCrashes
from vcubeps.sim.explore.applications import Applications
from vcubeps.sim.explore.arrivals import Arrivals
from vcubeps.sim.explore.checkers import Monitor
from vcubeps.sim.explore.detector import Detector, Lives
from vcubeps.sim.explore.electorate import Electorate
from vcubeps.sim.explore.links import Links, Waiting
from vcubeps.sim.explore.losses import Losses
from vcubeps.sim.explore.operations import SLOW_FACTOR_MAX, USUAL_DELAY, Operation, severed
from vcubeps.sim.explore.options import NODES_MAX, Options
from vcubeps.sim.explore.peers import PeerFactory, PeerLike
from vcubeps.sim.explore.trace import Trace
from vcubeps.sim.explore.winners import winners

EVENTS_MAX = 200_000
"""A world of usual size that has not come to rest after so many events is taken for one that never will."""

_CONTROL = -1
"""Destination of an event that is no message."""

Event: TypeAlias = tuple[int, int, int, int, Any, int, int]
"""(time, number, destination, source, message or callback, source's crashes so far, luck of 256).
The number keeps simultaneous events in order and the comparison away from the message."""


def _events_max(options: Options) -> int:
    """A flush takes N² messages, and cuts and reboots cause one per node."""
    nodes = len(options.nodes)
    return EVENTS_MAX * (1 + (nodes // 16) ** 2 + options.operations * nodes // 5000)


class PeerFailed(Exception):
    """A peer raised; the schedule ends there."""


class World:
    """One schedule. `run` carries it out; afterwards `monitor` has the violations."""

    def __init__(
        self,
        seed: int,
        options: Options,
        operations: Sequence[Operation],
        make_peer: PeerFactory,
        trace: Trace | None = None,
    ) -> None:
        self.time = 0
        self.overrun = False
        self.events = 0
        self.inputs = 0
        self.monitor = Monitor(options.voting, winners(options, operations))
        self._seed = seed
        self._options = options
        self._trace = trace
        nodes = options.nodes
        lives = Lives(dict.fromkeys(nodes, 0), dict.fromkeys(nodes, 0))
        self.live_peers, self._down = lives.peers, lives.down
        self._incarnation, self._crashes = lives.incarnation, lives.crashes
        self._losses = Losses(seed, nodes)
        self._links = Links(seed, options)
        self._detector = Detector(seed, options, lives, self._links, self.after, self.report)
        self._electorate = (
            Electorate(seed, options.voting, nodes, lives, self, self.monitor) if options.voting else None
        )
        if options.voting:
            make_peer = partial(make_peer, voters=options.voting.voters)
        if options.digests:
            make_peer = partial(make_peer, listed_max=0)
        if options.flat:
            make_peer = partial(make_peer, flat_max=NODES_MAX)
        self._arrivals = Arrivals(seed, options, lives, make_peer, self.after, self._greet)
        self._number = len(operations)
        self._heap: list[Event] = [
            (operation.time, number, _CONTROL, 0, self._operation(operation), 0, 0)
            for number, operation in enumerate(operations)
        ]
        heapify(self._heap)
        self._handlers = self.monitor.outputs
        self._handlers.setdefault(Restarted, []).append(self._on_restarted)
        self._handlers.setdefault(Arrived, []).append(self._on_arrived)
        self._handlers.setdefault(Up, []).append(self._on_up)
        self._handlers.setdefault(IdTaken, []).append(self._on_id_taken)
        self._applications = Applications(seed, options, self)
        self._aimed = AimedCrashes(
            seed, self._losses, self, lambda node, topic: self._applications.publish(node, topic, 1)
        )
        if "relay-crash" in options.aimed:
            self._handlers.setdefault(Deliver, []).append(self._aimed.on_deliver)

    def run(self) -> None:
        try:
            for node in self._options.founders:
                self._boot(node, self._arrivals.founder(node))
            self._run_events()
            while self._electorate is not None and not self.overrun:
                before = self.inputs
                self._electorate.settle()
                self._run_events()
                if self.inputs == before:
                    break
        except PeerFailed:
            return
        if self.overrun:
            self.monitor.at_overrun(self)
        else:
            self.monitor.at_end(self)

    @property
    def isolated(self) -> set[int]:
        return self._electorate.probes.isolated if self._electorate is not None else set()

    def _run_events(self) -> None:
        heap, peers, crashes, trace = self._heap, self.live_peers, self._crashes, self._trace
        greetings, electorate, is_lost = self._options.greetings, self._electorate, self._losses.is_lost
        links = self._links
        most = _events_max(self._options)
        while heap:
            event = heappop(heap)
            self.time, number, node, sender, message, epoch, luck = event
            if node == _CONTROL:
                message()
                continue
            self.events += 1
            if self.events == most:
                self.overrun = True
                break
            peer = peers.get(node)
            if peer is None or (epoch != crashes[sender] and is_lost(sender, node, number, luck)):
                if trace is not None:
                    trace.lost(self.time, node, sender, message)
                continue
            if links.goodbyes and epoch == crashes[sender]:
                links.goodbyes.pop((node, sender), None)
            if electorate is not None:
                if electorate.is_paused(node):
                    electorate.keep(node, event)
                    continue
                if epoch == crashes[sender]:
                    electorate.probes.arrived(node, sender)
                electorate.probes.judge(node)
            elif greetings and epoch == crashes[sender]:
                self._detector.arrived(node, sender)
            try:
                outputs = peer.receive(sender, message)
            except Exception as error:
                if trace is not None:
                    trace.received(self.time, node, sender, message, ())
                self._fail(node, error)
            if trace is not None:
                trace.received(self.time, node, sender, message, outputs)
            self._carry_out(node, outputs, sender)

    def _carry_out(self, node: int, outputs: list[Output], sender: int = -1) -> None:
        """What a message of `sender`, or another input, has caused."""
        self.inputs += 1
        if self._electorate is not None:
            self._electorate.noted(node, outputs)
        if self._options.permuted:
            self._permute_sends(node, outputs)
        time, links, epoch = self.time, self._links, self._crashes[node]
        for output in outputs:
            if type(output) is not Send:
                for handler in self._handlers.get(type(output), ()):
                    handler(time, node, self._incarnation[node], output)
                continue
            destination, message = output.destination, output.message
            if links.goodbyes and links.is_dropped(
                node, destination, message, self.live_peers[node].known_incarnation(destination)
            ):
                if self._trace is not None:
                    self._trace.lost(time, destination, node, message)
                continue
            if destination not in self.live_peers and type(message) is Copy:
                self._find_out(node, destination)  # it may never have dealt with it
            if links.severed and (node, destination) in links.severed:
                links.waiting.append(Waiting(node, destination, message))
                continue
            arrival, luck = links.arrival(time, node, destination)
            if links.lingering and links.lingers(sender, destination, message):
                arrival = time + SLOW_FACTOR_MAX * USUAL_DELAY
                if luck & 1:
                    # Whoever has passed it on to this node crashes: it is sent again, by another way.
                    self.after(luck, partial(self.crash, sender, 0))
            self._number += 1
            heappush(self._heap, (arrival, self._number, destination, node, message, epoch, luck))

    def again(self, event: Event) -> None:
        """A message that has arrived at a node that was paused."""
        heappush(self._heap, (self.time, *event[1:]))

    def _permute_sends(self, node: int, outputs: list[Output]) -> None:
        """The contract leaves the order of one input's sends open; some driver may write the last first."""
        places = [place for place, output in enumerate(outputs) if type(output) is Send]
        if len(places) < 2:
            return
        sends = [outputs[place] for place in reversed(places)]
        chance = mix(self._seed, 9, node, self._number)
        if chance & 1:
            Random(chance).shuffle(sends)
        for place, send in zip(places, sends, strict=True):
            outputs[place] = send

    # Inputs that are no messages.

    def feed(self, node: int, label: str, call: Callable[..., list[Output]], *arguments: object) -> None:
        try:
            outputs = call(*arguments)
        except Exception as error:
            if self._trace is not None:
                self._trace.noted(self.time, node, label)
            self._fail(node, error)
        if self._trace is not None:
            self._trace.noted(self.time, node, label, outputs)
        self._carry_out(node, outputs)

    def _fail(self, node: int, error: Exception) -> NoReturn:
        self.monitor.on_input("error", self.time, node, self._incarnation[node], error)
        raise PeerFailed from error

    def after(self, delay: int, callback: Callable[[], object]) -> None:
        self._number += 1
        heappush(self._heap, (self.time + delay, self._number, _CONTROL, 0, callback, 0, 0))

    def _operation(self, operation: Operation) -> Callable[[], object]:
        _, kind, node, topic, other = operation
        match kind:
            case "subscribe":
                return lambda: self._applications.subscribe(node, topic)
            case "unsubscribe":
                return lambda: self._applications.unsubscribe(node, topic)
            case "publish":
                return lambda: self._applications.publish(node, topic, other)
            case "arrive":
                return lambda: self._arrive(node)
            case "depart" | "crash":
                return lambda: self.crash(node)
            case "crash-relay":
                return lambda: self._aimed.with_relay(node, other)
            case "crash-silenced":
                return lambda: self._aimed.silenced(node)
            case "recover":
                return lambda: self.recover(node)
            case "recover-any":
                return lambda: self.recover(next(iter(self._down), node))
            case "reboot":
                return lambda: self._reboot(node)
            case "restart":
                return lambda: self._restart(node)
            case "suspect":
                return lambda: self._suspect(node, other)
            case "report-stale":
                return lambda: self.report(node, other, self._incarnation[other] - 1)
            case "cut":
                return lambda: self._cut(severed(topic), other)
            case "stop":
                return lambda: self._stop(node)
            case "linger":
                return lambda: self._links.lingering.add(node)
            case "lose-probes":
                return lambda: self._lose_probes(severed(topic), other)
            case "pause":
                return lambda: self._pause(node, other)
        raise ValueError(f"unknown kind of operation {kind!r}")

    def ready(self, node: int) -> PeerLike | None:
        """The peer of `node` if it can take an input, and knows whether it is isolated."""
        peer = self.live_peers.get(node)
        if peer is not None and self._electorate is not None:
            if self._electorate.is_paused(node):
                return None
            self._electorate.probes.judge(node)
        return peer

    def is_paused(self, node: int) -> bool:
        return self._electorate is not None and self._electorate.is_paused(node)

    # Faults.

    def crash(self, node: int, loss_of_256: int | None = None) -> bool:
        """Whether it has crashed: somebody must be left whom others can ask."""
        if any(peer.is_up for other, peer in self.live_peers.items() if other != node):
            self._end(node, loss_of_256)
        return node not in self.live_peers

    def addressees(self, node: int) -> set[int]:
        """Nodes to which something of `node` is under way."""
        return {event[2] for event in self._heap if event[3] == node and event[2] != _CONTROL}

    def _stop(self, node: int) -> None:
        """It tells all whom it reaches, and nothing that it has sent is lost."""
        incarnation = self._incarnation[node]
        if node in self.live_peers and self.crash(node, loss_of_256=0):
            for other in self._links.say_goodbye(node, incarnation, self.live_peers):
                delay = 1 + mix(self._seed, 17, node, other, incarnation) % (2 * USUAL_DELAY)
                self.after(delay, lambda x=other: self.report(x, node, incarnation))  # type: ignore[misc]

    def _reboot(self, node: int) -> None:
        """A crash after which the node starts again at once."""
        self._end(node)
        self.recover(node)

    def _restart(self, node: int) -> None:
        """Its driver wants it to start again, as the same process."""
        peer = self.ready(node)
        if peer is not None:
            self.feed(node, "is told to start again", peer.restart)

    def _end(self, node: int, loss_of_256: int | None = None) -> None:
        if node not in self.live_peers:
            return
        incarnation = self._incarnation[node]
        del self.live_peers[node]
        self._down[node] = None
        self._crashes[node] += 1
        self._aimed.crashed(node)
        self._losses.crashed(node, self._crashes[node], loss_of_256)
        self._links.forget(node)
        if self._trace is not None:
            self._trace.noted(self.time, node, "crash")
        self.monitor.on_input("crash", self.time, node, incarnation)
        (self._electorate or self._detector).crashed(node)

    def recover(self, node: int) -> None:
        if node not in self._down:
            return
        peer = self._arrivals.returned(node)
        if peer is not None:
            del self._down[node]
            self._incarnation[node] = peer.incarnation
            self._boot(node, peer)

    def _boot(self, node: int, peer: PeerLike) -> None:
        self.live_peers[node] = peer
        self._arrivals.started(node, peer.incarnation)
        if self._electorate is not None:
            self._electorate.probes.booted(node)
        self.feed(node, f"start as incarnation {peer.incarnation}", peer.start)
        (self._electorate or self._detector).started(node)

    def _arrive(self, node: int) -> None:
        """A node comes that has not been there, or another one under the id of one that has left."""
        if node in self.live_peers or (peer := self._arrivals.newcomer(node)) is None:
            return
        self.live_peers[node] = peer
        self._applications.begin_anew(node)
        self._arrivals.started(node, peer.incarnation)
        self.feed(node, f"come as a newcomer, incarnation {peer.incarnation}", peer.start)

    def _on_id_taken(self, time: int, node: int, incarnation: int, output: IdTaken) -> None:
        """It draws another id, which is none of this world's business any more."""
        self.after(0, lambda: self._end(node))

    def _greet(self, node: int, other: int) -> None:
        peer = self.live_peers[node]
        self.feed(node, f"ask node {other} too", peer.greet, other)

    def _on_arrived(self, time: int, node: int, incarnation: int, output: Arrived) -> None:
        self._arrivals.met(node, output.node)
        self._find_out(node, output.node)

    def _find_out(self, node: int, other: int) -> None:
        """`node` has something to do with `other`, and is told sooner or later if it is gone."""
        if self._electorate is None:  # where voters decide, nothing but the probes tells
            self._detector.met(node, other)

    def _on_up(self, time: int, node: int, incarnation: int, output: Up) -> None:
        self._arrivals.went_up(node, output.founded)

    def _on_restarted(self, time: int, node: int, incarnation: int, output: Restarted) -> None:
        # It comes last of the handlers: the others are about the incarnation that ended.
        self._incarnation[node] = output.incarnation
        self._arrivals.started(node, output.incarnation)
        (self._electorate or self._detector).started(node)

    def _suspect(self, observer: int, target: int) -> None:
        if target in self.live_peers and observer in self.live_peers and observer != target:
            if self._electorate is not None and not self._electorate.probes.may_suspect(observer):
                return
            self.report(observer, target, self._incarnation[target])
            self._aimed.accuses(observer, self._number)

    def _cut(self, pairs: frozenset[tuple[int, int]], ticks: int) -> None:
        """For `ticks` these pairs cannot reach each other."""
        if self._electorate is not None:
            self._electorate.cut(pairs, ticks)
            return
        self.reroute(pairs)
        cut = self._links.cuts
        self._detector.cut()
        self.after(ticks, lambda: self._heal(cut))

    def _lose_probes(self, pairs: frozenset[tuple[int, int]], ticks: int) -> None:
        if self._electorate is not None:
            self._electorate.lose_probes(pairs, ticks)

    def _pause(self, node: int, ticks: int) -> None:
        if self._electorate is not None:
            self._electorate.pause(node, ticks)

    def _heal(self, cut: int) -> None:
        if self._links.cuts == cut:  # not replaced by a later one
            self.reroute(frozenset())

    def reroute(self, pairs: frozenset[tuple[int, int]]) -> None:
        """From now on these pairs cannot reach each other; what has waited for others leaves."""
        for source, destination, message in self._links.cut(pairs):
            self._carry_out(source, [Send(destination, message)])

    def report(self, observer: int, node: int, incarnation: int) -> None:
        """`observer` is told that this incarnation has crashed."""
        peer = self.ready(observer)
        if peer is not None and observer != node and incarnation >= 0:
            self.feed(
                observer, f"suspect {node} (incarnation {incarnation})", peer.suspect, node, incarnation
            )
            self._arrivals.lost_sight(observer)

    def isolate(self, node: int, isolated: bool) -> None:
        """`node` finds out that it is in contact with no quorum, or with one again."""
        label = "is isolated" if isolated else "is in contact with a quorum"
        self.feed(node, label, self.live_peers[node].isolate, isolated)

    def hand_over(self, node: int, sender: int, message: Fence) -> None:
        """What a greeting says that is a message too."""
        label = f"is greeted by {sender}, which holds incarnation {message.incarnation} dead"
        self.feed(node, label, self.live_peers[node].receive, sender, message)
