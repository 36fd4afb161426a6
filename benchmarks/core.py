"""Speed of the protocol core, the size of its barriers beside the published algorithm's, and what scale costs.

    python benchmarks/core.py            everything, about a minute
    python benchmarks/core.py --quick    a fifth of it

CPU seconds of this process, not wall time: the machine may be shared.
"""

from __future__ import annotations

import argparse
import heapq
import random
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import scale

from vcubeps.protocol.outputs import Deliver, Send, Started
from vcubeps.protocol.peer import Peer
from vcubeps.sim.explore import Allowed, run_schedule, schedule_seed
from vcubeps.sim.explore.options import FAULTS
from vcubeps.sim.published import PublishedPeer

TRANSMISSION_UT = 1
PROPAGATION_UT = 100
PROCESSING_UT = 1
"""The paper's defaults (section 4)."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a fifth of the work")
    part = 5 if parser.parse_args().quick else 1
    explorer("crash-free", frozenset(), schedules=2000 // part)
    explorer("faulty", frozenset(FAULTS), schedules=1000 // part)
    receive_calls(nodes=16, publications=4000 // part)
    barriers(nodes=256, runs=max(1, 5 // part))
    scale.main()


def explorer(label: str, faults: frozenset[str], schedules: int) -> None:
    """Random schedules with all checkers on, N ≤ 16 and up to 40 operations, as `vcubeps explore` runs them."""
    allowed = Allowed(faults=faults)
    begin = time.process_time()
    outcomes = [run_schedule(schedule_seed(1, index), allowed) for index in range(schedules)]
    seconds = time.process_time() - begin
    events = sum(outcome.events for outcome in outcomes)
    operations = sum(len(outcome.operations) for outcome in outcomes) / schedules
    nodes = sum(len(outcome.options.nodes) for outcome in outcomes) / schedules
    broken = sum(bool(outcome.violations) for outcome in outcomes)
    print(
        f"explorer, {label}: {schedules / seconds:,.0f} schedules and {events / seconds:,.0f} receive calls "
        f"per CPU second, checkers included\n  ({schedules} schedules of {operations:.0f} operations on "
        f"{nodes:.1f} nodes on average, {broken} violated)"
    )


def receive_calls(nodes: int, publications: int) -> None:
    """All nodes are members and publish in turn; nothing but the peers and a queue between them."""
    peers = [Peer(node, range(nodes)) for node in range(nodes)]
    in_flight: deque[tuple[int, int, object]] = deque()
    calls = 0

    def carry_out(node: int, outputs: Iterable[object]) -> None:
        for output in outputs:
            if isinstance(output, Send):
                in_flight.append((output.destination, node, output.message))

    def run() -> None:
        nonlocal calls
        while in_flight:
            destination, sender, message = in_flight.popleft()
            calls += 1
            carry_out(destination, peers[destination].receive(sender, message))

    for node in range(nodes):
        carry_out(node, peers[node].subscribe("t"))
        run()
    calls = 0
    begin = time.process_time()
    for index in range(publications):
        carry_out(index % nodes, peers[index % nodes].publish("t", b"payload"))
        if index % nodes == nodes - 1:
            run()
    run()
    seconds = time.process_time() - begin
    delivered = publications * nodes
    print(
        f"peers alone, N={nodes}: {calls / seconds:,.0f} receive calls and {delivered / seconds:,.0f} deliveries "
        f"per CPU second"
    )


@dataclass
class Discussion:
    """Section 4.3 with p = 1: one node asks, everyone answers 0…99 u.t. after having delivered the question.

    Static membership, the paper's delays, serial send queue per node, acknowledgements free.
    """

    peers: list[Any]
    rng: random.Random
    now: int = 0
    number: int = 0
    events: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    busy_until: dict[int, int] = field(default_factory=dict)
    answered: set[int] = field(default_factory=set)
    sizes: list[int] = field(default_factory=list)

    def run(self, first: int) -> list[int]:
        for node, peer in enumerate(self.peers):
            self._join(node, peer)
        self.answered.add(first)
        self._carry_out(first, self.peers[first].publish("t", b"question"))
        while self.events:
            self.now, _, action = heapq.heappop(self.events)
            action()
        return self.sizes

    def _join(self, node: int, peer: Any) -> None:
        pending = deque((node, output) for output in peer.subscribe("t"))
        while pending:
            sender, output = pending.popleft()
            if isinstance(output, Send):
                receiver = output.destination
                pending += ((receiver, o) for o in self.peers[receiver].receive(sender, output.message))

    def _carry_out(self, node: int, outputs: Iterable[object]) -> None:
        for output in outputs:
            if isinstance(output, Send):
                self._send(node, output)
            elif isinstance(output, Started):
                self.sizes += [len(output.barrier)] + [1] * (len(output.batch) - 1)
            elif isinstance(output, Deliver) and node not in self.answered:
                self.answered.add(node)
                self._after(self.rng.randrange(100), lambda: self._answer(node))

    def _answer(self, node: int) -> None:
        self._carry_out(node, self.peers[node].publish("t", b"answer"))

    def _send(self, node: int, send: Send) -> None:
        depart = self.now
        if not type(send.message).__name__.startswith("Ack"):
            depart = max(self.now, self.busy_until.get(node, 0)) + TRANSMISSION_UT
            self.busy_until[node] = depart
        receiver = send.destination
        self._after(
            depart - self.now + PROPAGATION_UT + PROCESSING_UT,
            lambda: self._carry_out(receiver, self.peers[receiver].receive(node, send.message)),
        )

    def _after(self, delay: int, action: Callable[[], None]) -> None:
        self.number += 1
        heapq.heappush(self.events, (self.now + delay, self.number, action))


def barriers(nodes: int, runs: int) -> None:
    """Average entries of a barrier, both algorithms on the same seeds."""
    makers: dict[str, Callable[[int], Any]] = {
        "amended": lambda node: Peer(node, range(nodes)),
        "published, pruned": lambda node: PublishedPeer(node, range(nodes)),
        "published, unpruned": lambda node: PublishedPeer(node, range(nodes), prune=False),
    }
    means = {}
    for name, make in makers.items():
        sizes: list[int] = []
        for seed in range(runs):
            rng = random.Random(seed)
            discussion = Discussion([make(node) for node in range(nodes)], rng)
            sizes += discussion.run(rng.randrange(nodes))
        means[name] = sum(sizes) / len(sizes)
        print(
            f"barriers, N={nodes}, {name}: {means[name]:.3f} entries on average over {len(sizes)} publications, "
            f"largest {max(sizes)}"
        )
    print(f"barriers, amended / published, pruned: {means['amended'] / means['published, pruned']:.3f}")


if __name__ == "__main__":
    main()
