"""The applications on the simulated nodes: they subscribe, publish, leave, answer what they get, and come back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from vcubeps.mixing import mix
from vcubeps.protocol.outputs import Deliver, Output, Up
from vcubeps.sim.explore.checkers import Monitor
from vcubeps.sim.explore.operations import USUAL_DELAY
from vcubeps.sim.explore.options import Options
from vcubeps.sim.explore.peers import PeerLike

ANSWERS_DEEP_MAX = 3
"""An answer to an answer to an answer is not answered."""


class Nodes(Protocol):
    """What applications need of the world."""

    @property
    def time(self) -> int: ...
    @property
    def monitor(self) -> Monitor: ...
    def after(self, delay: int, callback: Callable[[], None]) -> None: ...
    def ready(self, node: int) -> PeerLike | None: ...
    def is_paused(self, node: int) -> bool: ...
    def feed(self, node: int, label: str, call: Callable[..., list[Output]], *arguments: object) -> None: ...


class Applications:
    """One on each node. A wish that makes no sense when its time comes is dropped."""

    def __init__(self, seed: int, options: Options, nodes: Nodes) -> None:
        self._seed = seed
        self._held = options.held
        self._nodes = nodes
        self._wishes: dict[int, set[str]] = {node: set() for node in options.nodes}
        self._published = dict.fromkeys(options.nodes, 0)
        self._answer_below = int(options.reactive / (len(options.nodes) - 1) * (1 << 16))
        handlers = nodes.monitor.outputs
        if options.resubscribe:
            handlers.setdefault(Up, []).append(self._on_up)
        if self._answer_below:
            handlers.setdefault(Deliver, []).append(self._on_deliver)

    def begin_anew(self, node: int) -> None:
        """Somebody else is there under this id."""
        self._wishes[node].clear()

    def subscribe(self, node: int, topic: str) -> None:
        peer = self._nodes.ready(node)
        if peer is None or not peer.is_up or not peer.can_subscribe(topic):
            return
        self._wishes[node].add(topic)
        self._tell("subscribe", node, peer, topic)
        self._nodes.feed(node, f"subscribe {topic}", peer.subscribe, topic)

    def unsubscribe(self, node: int, topic: str) -> None:
        peer = self._nodes.ready(node)
        if peer is None or not peer.is_up or not peer.can_unsubscribe(topic):
            return
        self._wishes[node].discard(topic)
        self._tell("unsubscribe", node, peer, topic)
        self._nodes.feed(node, f"unsubscribe {topic}", peer.unsubscribe, topic)

    def publish(self, node: int, topic: str, count: int, generation: int = 0) -> None:
        chance = mix(self._seed, 12, node, self._published[node])
        held = self._held and chance & 1 == 1
        for _ in range(count):
            peer = self._nodes.ready(node)
            if peer is None or not peer.is_up or not peer.can_publish(topic):
                return
            self._published[node] += 1
            payload = b"%c%d.%d" % (generation, node, self._published[node])
            self._tell("publish", node, peer, topic, payload)
            if held:
                self._nodes.feed(node, f"publish {topic}, more follow", peer.hold, topic, payload)
            else:
                self._nodes.feed(node, f"publish {topic}", peer.publish, topic, payload)
        if held:
            # Mostly at once; sometimes other inputs come between.
            delay = 0 if chance >> 1 & 3 else (chance >> 3) % USUAL_DELAY
            self._nodes.after(delay, lambda: self._release(node, topic))

    def _release(self, node: int, topic: str) -> None:
        if self._nodes.is_paused(node):
            self._nodes.after(USUAL_DELAY, lambda: self._release(node, topic))
            return
        peer = self._nodes.ready(node)
        if peer is not None:
            self._nodes.feed(node, f"release {topic}", peer.release, topic)

    def _tell(self, name: str, node: int, peer: PeerLike, *arguments: object) -> None:
        self._nodes.monitor.on_input(name, self._nodes.time, node, peer.incarnation, *arguments)

    def _on_deliver(self, time: int, node: int, incarnation: int, output: Deliver) -> None:
        if output.source == node:
            return
        for counter, payload in output.items:
            chance = mix(self._seed, 3, node, output.source, counter)
            if payload[0] < ANSWERS_DEEP_MAX and chance & 0xFFFF < self._answer_below:
                # Half of the answers come at once, the others when more may have been delivered.
                delay = 0 if chance >> 16 & 1 else (chance >> 17) % USUAL_DELAY
                topic, generation = output.topic, payload[0] + 1
                self._nodes.after(delay, lambda t=topic, g=generation: self.publish(node, t, 1, g))  # type: ignore[misc]

    def _on_up(self, time: int, node: int, incarnation: int, output: Up) -> None:
        for topic in sorted(self._wishes[node]):
            delay = mix(self._seed, 6, node, output.incarnation) % (3 * USUAL_DELAY)
            self._nodes.after(delay, lambda t=topic: self.subscribe(node, t))  # type: ignore[misc]
