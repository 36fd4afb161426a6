"""A scripted wire that joins N peers, of either algorithm, in one thread and without a clock.

An input on a node carries out the outputs at once: what is sent is in flight until `run()` delivers it,
oldest first, so links are FIFO and a script gives the same run every time. `hold` makes a link slow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from vcubeps.protocol.errors import UsageError
from vcubeps.protocol.outputs import Arrived, Deliver, Output, Received, Restarted, Send, Started, Subscribed

MAX_STEPS = 100_000
"""Messages that one `run()` delivers at most; more means that the peers talk in circles."""


class InFlight(NamedTuple):
    source: int
    destination: int
    message: Any
    sent_from: int = -1
    """The place of the source, if that is not its id: see `Wire.arrive`."""


class Call(NamedTuple):
    """An input of the script, as the log shows it."""

    name: str
    topic: str


class Wire:
    """Joins the peers that `peer_factory(node, nodes)` makes; a recovering one also gets `incarnation=`.

    What has happened, in order: `log` holds (node, call or output) of all nodes, `outputs[node]` the outputs
    of one node, `delivered[node]` its (source, payload), `received[node]` its (source, counter) and
    `started[node]` its own broadcasts. `subscribed` holds the (node, topic) whose subscription is in effect:
    from Subscribed on until the node unsubscribes or crashes.

    A peer's *place* is its id, except where two peers have the same id: then one of them is at another place, a number
    that is no id, and what others send to that id goes to whoever they believe has it.
    """

    def __init__(
        self,
        peer_factory: Callable[..., Any],
        nodes: Iterable[int],
        *,
        ran_before: bool = False,
        last_first: bool = False,
    ) -> None:
        """`ran_before`: all start as incarnation 1. `last_first`: what an input sends leaves in reverse order, as the
        runtime writes it."""
        self._factory = peer_factory
        self._last_first = last_first
        self.nodes = sorted(nodes)
        self.peers: dict[int, Any] = {}
        self.incarnations = dict.fromkeys(self.nodes, 0)
        self.in_flight: list[InFlight] = []
        self._slow: dict[tuple[int, int], Callable[[Any], bool]] = {}
        self._newcomers: dict[int, dict[str, Any]] = {}
        self.addresses: dict[bytes, int] = {}
        self._routes: dict[tuple[int, int], int] = {}
        """Place, id → place of whom the peer there believes to have that id."""
        self._publications: defaultdict[tuple[int, str], list[bytes]] = defaultdict(list)
        self.subscribed: set[tuple[int, str]] = set()
        self.log: list[tuple[int, Call | Output]] = []
        self.outputs: defaultdict[int, list[Output]] = defaultdict(list)
        self.delivered: defaultdict[int, list[tuple[int, bytes]]] = defaultdict(list)
        self.received: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self.started: defaultdict[int, list[Started]] = defaultdict(list)
        for node in self.nodes:
            self.peers[node] = peer_factory(node, self.nodes, **({"incarnation": 1} if ran_before else {}))
        if ran_before:
            self.incarnations = dict.fromkeys(self.nodes, 1)
            for node in self.nodes:
                self._carry_out(node, self.peers[node].start())

    # Inputs.

    def subscribe(self, node: int, topic: str) -> None:
        outputs = self.peers[node].subscribe(topic)
        self.log.append((node, Call("subscribe", topic)))
        self._carry_out(node, outputs)

    def unsubscribe(self, node: int, topic: str) -> None:
        outputs = self.peers[node].unsubscribe(topic)
        self.log.append((node, Call("unsubscribe", topic)))
        self.subscribed.discard((node, topic))
        self._carry_out(node, outputs)

    def publish(self, node: int, topic: str, payload: bytes) -> None:
        self._carry_out(node, self.peers[node].publish(topic, payload))

    def publish_when_allowed(self, node: int, topic: str, payload: bytes) -> None:
        """Publish now, or on the next Subscribed if the peer still refuses."""
        try:
            self.publish(node, topic, payload)
        except UsageError:
            self._publications[node, topic].append(payload)

    def arrive(
        self,
        node: int,
        seeds: Iterable[int],
        *,
        place: int | None = None,
        address: bytes = b"",
        **options: Any,
    ) -> None:
        """A newcomer starts that knows `seeds`; at another place than its id if that is taken."""
        at = node if place is None else place
        options.setdefault("identity", 1 + node)
        self._newcomers[at] = {"node": node, "seeds": tuple(seeds), "address": address, **options}
        if address:
            self.addresses[address] = at
        self.incarnations[at] = options.get("incarnation", 0)
        self.peers[at] = self._factory(**self._newcomers[at])
        self._carry_out(at, self.peers[at].start())

    def greet(self, node: int, other: int) -> None:
        self._carry_out(node, self.peers[node].greet(other))

    def receive(self, node: int, sender: int, message: Any) -> None:
        """A message arrives that the script has made up."""
        self._carry_out(node, self.peers[node].receive(sender, message))

    def suspect(self, observer: int, node: int, incarnation: int) -> None:
        self._carry_out(observer, self.peers[observer].suspect(node, incarnation))

    # Faults.

    def hold(self, source: int, destination: int, only: Callable[[Any], bool] = lambda message: True) -> None:
        """Make a link slow: messages on it wait for `release`; with `only`, those it picks, others overtake."""
        self._slow[source, destination] = only

    def release(self, source: int, destination: int) -> None:
        del self._slow[source, destination]

    def crash(self, node: int) -> None:
        """Drop the node and what is in flight to it; what it had sent still arrives."""
        del self.peers[node]
        self._forget_subscriptions(node)
        self.in_flight = [entry for entry in self.in_flight if entry.destination != node]

    def recover(self, node: int) -> None:
        """Start the crashed node again as its next incarnation."""
        self.incarnations[node] += 1
        if node in self._newcomers:
            options = self._newcomers[node] | {"incarnation": self.incarnations[node]}
            self.peers[node] = self._factory(**options)
        else:
            self.peers[node] = self._factory(node, self.nodes, incarnation=self.incarnations[node])
        self._carry_out(node, self.peers[node].start())

    # Running.

    def run(self) -> None:
        """Deliver all that is in flight and not held, and all that this causes."""
        for _ in range(MAX_STEPS):
            if not self.step():
                return
        raise AssertionError(f"{MAX_STEPS} messages and still {len(self.in_flight)} in flight")

    def step(self) -> bool:
        """Deliver the oldest message that is not held; False if there is none."""
        for index, (source, destination, message, sent_from) in enumerate(self.in_flight):
            slow = self._slow.get((source, destination))
            if slow is None or not slow(message):
                del self.in_flight[index]
                if sent_from >= 0 and source not in self.peers[destination].present:
                    self._routes[destination, source] = sent_from
                self._carry_out(destination, self.peers[destination].receive(source, message))
                return True
        return False

    def _carry_out(self, node: int, outputs: list[Output]) -> None:
        if self._last_first:
            sends = [output for output in outputs if isinstance(output, Send)]
            outputs = [output for output in outputs if not isinstance(output, Send)] + sends[::-1]
        for output in outputs:
            self.log.append((node, output))
            self.outputs[node].append(output)
            match output:
                case Send(destination, message, address):
                    self._send(node, destination, message, address)
                case Arrived(other, _, address) if address:
                    self._routes[node, other] = self.addresses[address]
                case Deliver():
                    self.delivered[node] += [(output.source, payload) for _, payload in output.items]
                case Received():
                    self.received[node] += [(output.source, counter) for counter in output.counters]
                case Started():
                    self.started[node].append(output)
                case Subscribed(topic):
                    self.subscribed.add((node, topic))
                case Restarted(incarnation):
                    self.incarnations[node] = incarnation
                    self._forget_subscriptions(node)
        for output in outputs:
            if isinstance(output, Subscribed):
                for payload in self._publications.pop((node, output.topic), []):
                    self.publish(node, output.topic, payload)

    def _send(self, place: int, destination: int, message: Any, address: bytes) -> None:
        to = self.addresses[address] if address else self._routes.get((place, destination), destination)
        if to in self.peers:
            node = self._newcomers[place]["node"] if place in self._newcomers else place
            self.in_flight.append(InFlight(node, to, message, place if place != node else -1))

    def _forget_subscriptions(self, node: int) -> None:
        self.subscribed = {entry for entry in self.subscribed if entry[0] != node}
        self._publications = defaultdict(list, {k: v for k, v in self._publications.items() if k[0] != node})
