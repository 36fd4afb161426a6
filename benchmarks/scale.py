"""What crashes, restarts, many nodes and many topics cost the core. Called by core.py; runs alone, too.

Each row has the figure of the commit before (7499e9a or earlier), as it was measured then, beside it. Where one node
is enough, the others are messages made here; CPU seconds of this process, bytes as they go on the wire.
"""

from __future__ import annotations

import gc
import random
import time
import tracemalloc
from collections import Counter, deque
from collections.abc import Callable, Iterable

import msgspec

from vcubeps.cube import spanning_tree, tree_depth
from vcubeps.protocol.messages import Ack, AnyMessage, Copy, Flush, Over, Publication, Report
from vcubeps.protocol.outputs import Output, Send, Up
from vcubeps.protocol.peer import Peer

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(AnyMessage).decode
TOPIC = "t"


def main() -> None:
    crash_of_one_among(256)
    for dead in (1, 32, 256):
        crash_seen_by_one_of(1024, dead)
    for nodes in (256, 1024, 4096, 16384):
        flushes_by_size(nodes, topics=10)
    held_in_flushes(nodes=16, crashes=8)
    publish_after_a_crash(nodes=64)
    topics_in_turn(nodes=64)
    for restarts in (0, 1000):
        copy_of_the_root(1024, restarts)
    left_topics(3000)
    admission(present=1000, positions=1 << 20)
    trees(present=1000, dimension=20)


def row(what: str, now: str, before: str) -> None:
    print(f"{what}: {now}  (before: {before})", flush=True)


class Net:
    """Peers in one process and a queue between them; counts what is sent."""

    def __init__(self, peers: dict[int, Peer]) -> None:
        self.peers = peers
        self.in_flight: deque[tuple[int, int, object]] = deque()
        self.sent: Counter[str] = Counter()
        self.bytes = 0
        self.measured: int | None = None
        """Of this node the CPU time is taken."""
        self.seconds = 0.0
        self.up: set[int] = set()

    def carry_out(self, node: int, outputs: Iterable[Output]) -> None:
        for output in outputs:
            if isinstance(output, Send):
                self.sent[type(output.message).__name__] += 1
                self.bytes += len(encode(output.message))
                if output.destination in self.peers:
                    self.in_flight.append((output.destination, node, output.message))
            elif isinstance(output, Up):
                self.up.add(node)

    def run(self) -> None:
        while self.in_flight:
            destination, sender, message = self.in_flight.popleft()
            if destination not in self.peers:
                continue
            begin = time.process_time()
            outputs = self.peers[destination].receive(sender, message)
            if destination == self.measured:
                self.seconds += time.process_time() - begin
            self.carry_out(destination, outputs)

    def reset(self) -> None:
        self.sent.clear()
        self.bytes = 0


def crash_of_one_among(nodes: int) -> None:
    """All are told of it."""
    net = Net({node: Peer(node, range(nodes)) for node in range(nodes)})
    victim = nodes // 2
    del net.peers[victim]
    for node in net.peers:
        net.carry_out(node, net.peers[node].suspect(victim, 0))
    net.run()
    others = sum(net.sent.values()) - net.sent["Flush"]
    row(
        f"N={nodes}, one crash, all nodes together",
        f"{net.sent['Flush']:,} flushes, {others:,} other messages, {net.bytes / 1e6:.1f} MB",
        "64,770 flushes, 1.8 MB",
    )


def member(me: int, nodes: int, counters: Callable[[int], int] = lambda node: 1) -> Peer:
    """Node `me` as a member of the topic together with all others, without them."""
    peer = Peer(me, range(nodes))
    for output in peer.subscribe(TOPIC):
        if isinstance(output, Send) and isinstance(output.message, Copy):
            copy = output.message
            assert copy.recipients is not None
            reports = {node: Report(counters(node), 0, is_member=True) for node in copy.recipients}
            peer.receive(output.destination, Ack(0, 0, copy.hop, reports, False, {}, 0))
    assert len(peer.members(TOPIC)) == nodes
    return peer


def crash_seen_by_one_of(nodes: int, dead: int) -> None:
    """`dead` have crashed at node 0, of which all but the last are final and not over; then the last."""
    peer = member(0, nodes)
    gone = dict.fromkeys(range(nodes - dead, nodes), 0)
    last = nodes - 1
    survivors = range(1, nodes - dead)

    def flushed(crashes: dict[int, int], sequence: int) -> None:
        for other in survivors if last in crashes else (*survivors, last):
            peer.receive(other, Flush(0, 0, sequence, crashes, {}, 1, {TOPIC: (1, 0)}))

    earlier = {node: 0 for node in gone if node != last}
    if earlier:
        for node in earlier:
            peer.suspect(node, 0)
        flushed(earlier, 1)
        assert peer.footprint()["crashes_not_final"] == 0
    begin = time.process_time()
    peer.suspect(last, 0)
    flushed(gone, 2 if earlier else 1)
    seconds = time.process_time() - begin
    assert peer.footprint()["crashes_not_final"] == 0
    before = {1: "0.15 s", 32: "1.2 s", 256: "4.6 s"}[dead]
    row(f"N={nodes}, a crash at one node, {dead} dead by then", f"{seconds:.3f} s of CPU", before)


def flushes_by_size(nodes: int, topics: int) -> None:
    """What one crash costs one node that is in some topics, with its flushes to and from all others as bytes."""
    peer = Peer(0, range(nodes))
    for number in range(topics):
        for output in peer.subscribe(f"topic {number}"):
            if isinstance(output, Send) and isinstance(output.message, Copy):
                peer.receive(output.destination, Ack(0, 0, output.message.hop, {}, False, {}, 0))
    last = nodes - 1
    subscriptions = {f"topic {number}": (1 + number, 0) for number in range(topics)}
    flush = encode(Flush(0, 0, 1, {last: 0}, {}, topics, subscriptions))
    begin = time.process_time()
    sent = [encode(output.message) for output in peer.suspect(last, 0) if isinstance(output, Send)]
    for other in range(1, last):
        peer.receive(other, decode(flush))
    seconds = time.process_time() - begin
    assert peer.footprint()["crashes_not_final"] == 0
    row(
        f"N={nodes}, one crash, one node in {topics} topics",
        f"{len(sent):,} messages, {sum(map(len, sent)) / 1e3:,.0f} KB, {1000 * seconds:.0f} ms of CPU with coding",
        "not measured",
    )


def together(nodes: int, topics: tuple[str, ...] = (TOPIC,)) -> Net:
    """All nodes are members of all topics."""
    net = Net({node: Peer(node, range(nodes)) for node in range(nodes)})
    for topic in topics:
        for node in net.peers:
            net.carry_out(node, net.peers[node].subscribe(topic))
            net.run()
    return net


def held_in_flushes(nodes: int, crashes: int) -> None:
    """Nodes that have published 64 KiB each crash one after the other; bytes of one flush about the last."""
    net = together(nodes)
    for node in range(nodes):
        net.carry_out(node, net.peers[node].publish(TOPIC, bytes(64 << 10)))
        net.run()
    for victim in range(nodes - crashes, nodes):
        del net.peers[victim]
        net.reset()
        for node in list(net.peers):
            net.carry_out(node, net.peers[node].suspect(victim, 0))
        net.run()
    row(
        f"N={nodes}, the last of {crashes} crashes, 64 KiB messages",
        f"{net.bytes / net.sent['Flush'] / 1e3:.0f} KB per flush",
        "525 KB per flush",
    )


def cpu_per_publication(net: Net, topics: tuple[str, ...] = (TOPIC,), count: int = 400) -> float:
    """CPU of node 0 for a publication of its own, from the call to its end; in µs."""
    peer = net.peers[0]
    total = 0.0
    for index in range(count):
        begin = time.process_time()
        outputs = peer.publish(topics[index % len(topics)], b"x" * 64)
        total += time.process_time() - begin
        net.carry_out(0, outputs)
        net.run()
    return total / count * 1e6


def publish_after_a_crash(nodes: int) -> None:
    net = together(nodes)
    cpu_per_publication(net, count=50)
    fresh = cpu_per_publication(net)
    victim = nodes - 1
    del net.peers[victim]
    for node in list(net.peers):
        net.carry_out(node, net.peers[node].suspect(victim, 0))
    net.run()
    net.peers[victim] = Peer(victim, range(nodes), incarnation=1)
    net.carry_out(victim, net.peers[victim].start())
    net.run()
    assert victim in net.up
    row(
        f"N={nodes}, `publish` after a crash and a restart",
        f"{cpu_per_publication(net) / fresh:.2f} × that before",
        "3 ×",
    )


def topics_in_turn(nodes: int) -> None:
    net = together(nodes, ("a", "b"))
    cpu_per_publication(net, ("a",), 50)
    one = cpu_per_publication(net, ("a",))
    two = cpu_per_publication(net, ("a", "b"))
    row(
        f"N={nodes}, `publish` on two topics in turn",
        f"{two / one:.2f} × that on one",
        "the split was made anew",
    )


def copy_of_the_root(nodes: int, restarts: int) -> None:
    """The largest copy that the source of a 64-byte publication sends."""
    incarnations = 5 if restarts else 0
    outputs = member(0, nodes, lambda node: (incarnations << 40) + 1000 + node).publish(TOPIC, b"x" * 64)
    sizes = [
        len(encode(output.message))
        for output in outputs
        if isinstance(output, Send)
        and isinstance(output.message, Copy)
        and isinstance(output.message.broadcast, Publication)
    ]
    row(
        f"N={nodes}, largest copy of a 64-byte publication{', after restarts of all' if restarts else ''}",
        f"{max(sizes):,} bytes",
        "6.3 KB" if restarts else "2.2 KB",
    )


def left_topics(count: int) -> None:
    """What is kept of topics that were joined, published on by another, and left."""
    net = together(2, ())
    tracemalloc.start()

    def round_trip(first: int) -> int:
        for index in range(first, first + count):
            topic = f"topic-{index}"
            for node in (0, 1):
                net.carry_out(node, net.peers[node].subscribe(topic))
                net.run()
            net.carry_out(1, net.peers[1].publish(topic, b"x"))
            net.run()
            for node in (0, 1):
                net.carry_out(node, net.peers[node].unsubscribe(topic))
                net.run()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    first, second = round_trip(0), round_trip(count)
    tracemalloc.stop()
    row(
        "a further topic joined and left, two nodes",
        f"{max(0, second - first) / count / 2:.0f} bytes kept per node",
        "1.2 KB",
    )


def admission(present: int, positions: int) -> None:
    """A newcomer with a random id joins through one seed."""
    rng = random.Random(1)
    *nodes, newcomer = rng.sample(range(positions), present + 1)
    net = Net({node: Peer(node, nodes) for node in nodes})
    seed = nodes[0]
    net.measured = newcomer
    begin = time.process_time()
    peer = net.peers[newcomer] = Peer(
        newcomer, seeds=[seed], incarnation=1, identity=7, address=b"10.0.0.1:7000"
    )
    outputs = peer.start()
    net.seconds = time.process_time() - begin
    net.carry_out(newcomer, outputs)
    net.run()
    assert newcomer in net.up
    assert all(net.peers[node].known_incarnation(newcomer) == 1 for node in nodes)
    row(
        f"one admission, {present:,} present of {positions:,} positions",
        f"{sum(net.sent.values()) / present:.2f} messages per living node ({dict(net.sent)}), "
        f"{net.bytes / 1e3:.0f} KB, {net.seconds * 1e3:.0f} ms of CPU at the newcomer",
        "not possible",
    )
    assert Over.__name__ not in net.sent


def trees(present: int, dimension: int) -> None:
    """Trees over random ids beside those over dense ones: hops to the farthest, and children of the source."""
    rng = random.Random(2)
    sparse = rng.sample(range(1 << dimension), present)
    shapes = {}
    for name, nodes, size in (("dense", list(range(present)), 10), ("random", sparse, dimension)):
        edges = [spanning_tree(source, nodes, size) for source in rng.sample(nodes, 20)]
        depth = sum(tree_depth(each) for each in edges) / len(edges)
        children = sum(sum(parent == each[0][0] for parent, _ in each) for each in edges) / len(edges)
        shapes[name] = f"{name} ids {depth:.1f} hops, {children:.1f} children"
    row(f"{present:,} members, trees of 20 sources", "; ".join(shapes.values()), "ids were dense")


if __name__ == "__main__":
    main()
