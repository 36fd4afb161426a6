"""Live clusters for tests: nodes in one process, behind proxies if wanted; all is recorded, and audited at the end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Literal, TypeVar

import uvloop

import vcubeps
from net.live_judge import CRASHED, Seen, violations
from net.proxy import Proxies
from vcubeps.net.clock import now_s
from vcubeps.net.incarnation import VolatileIncarnation
from vcubeps.net.message import Message
from vcubeps.net.node import Node
from vcubeps.net.opening import start_node
from vcubeps.net.subscription import Receipt, Subscription
from vcubeps.node.settings import ClusterSettings, Detection, Limits, NodeSettings, Timing
from vcubeps.protocol import outputs

_Result = TypeVar("_Result")

FAST = Timing(
    connect_timeout_s=1.0,
    reconnect_min_s=0.005,
    reconnect_max_s=0.05,
    acknowledge_within_s=0.01,
    close_within_s=1.0,
)
"""Nothing waits for long."""

PATIENT = Detection(ping_s=0.2, contact_s=100.0, suspect_after_s=1e6)
"""Nobody counts as crashed unless a test says so."""


def impatient(suspect_after_s: float) -> Detection:
    """A node that does not answer for so long counts as crashed."""
    return Detection(
        ping_s=suspect_after_s / 4,
        contact_s=suspect_after_s / 1.5,
        suspect_after_s=suspect_after_s,
        start_within_s=suspect_after_s,
    )


def run(
    main: Coroutine[Any, Any, _Result], *, within_s: float = 30.0, loop: Callable[[], Any] | None = None
) -> _Result:
    """As `asyncio.run`, but fails where tasks are left, exceptions are lost, or anything is not closed or awaited."""
    problems: list[str] = []

    async def guarded() -> _Result:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: problems.append(f"{context['message']}: {context.get('exception')!r}")
        )
        async with asyncio.timeout(within_s):
            result = await main
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        problems.extend(f"a task is left: {task!r}" for task in left)
        return result

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with asyncio.Runner(loop_factory=loop) as runner:
            result = runner.run(guarded())
        gc.collect()
    problems += [str(warning.message) for warning in caught]
    assert not problems, "\n".join(problems)
    return result


def on_uvloop() -> Any:
    return uvloop.new_event_loop()


async def until(condition: Callable[[], object], what: str = "", within_s: float = 10.0) -> None:
    """Wait for `condition`; the deadline is for failures, nothing is timed by it."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, f"in vain waited for: {what or 'a condition'}"
        await asyncio.sleep(0.002)


async def remains(condition: Callable[[], object], turns: int = 40) -> None:
    """`condition` holds and goes on to hold while other tasks get their turns."""
    for _ in range(turns):
        assert condition()
        await asyncio.sleep(0.002)


class Record:
    """What the nodes did, in order, and what their applications gave and got."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.deliveries: defaultdict[tuple[int, str], list[tuple[int, int, bytes]]] = defaultdict(list)
        """Node and topic → source, counter, payload, in order."""
        self.published: dict[tuple[str, int, int], bytes] = {}
        """What `publish` was given."""
        self.members: list[Member] = []

    def follow(self, node: Node) -> None:
        """From now on what `node` does is written down here."""
        node._shell.machine.observe(self._note)

    def _note(self, now_s: float, node: int, incarnation: int, what: object) -> None:
        self.seen.append((now_s, node, incarnation, what))
        if type(what) is outputs.Deliver:
            self.deliveries[node, what.topic] += [
                (what.source, counter, payload) for counter, payload in what.items
            ]

    def ended(self, node: Node) -> None:
        """`node` is no more."""
        self.seen.append((now_s(), node.id, node.incarnation, CRASHED))

    def judge(self, living: Iterable[Node]) -> None:
        """Raises AssertionError with every violation of what is promised."""
        found = violations(self.seen, living)
        for _, node, _, what in self.seen:
            if type(what) is outputs.Started:
                for counter, payload in what.items:
                    given = self.published.get((what.topic, node, counter))
                    if given is not None and given != payload:
                        found.append(f"⟨{node}, {counter}⟩ is not what the application published")
        for member in self.members:
            found += member.discrepancies()
        assert not found, "\n".join([f"{len(found)} violations:", *found[:20]])


class Member:
    """A subscription that is read all the time, by a task of its own."""

    def __init__(
        self, record: Record, node: Node, subscription: Subscription, reads: bool, asked_at: int
    ) -> None:
        """`asked_at`: how much its node had delivered on the topic when it was asked for."""
        self._record = record
        self.node = node
        self.subscription = subscription
        self.received: list[Message] = []
        self._starts = range(asked_at, len(record.deliveries[node.id, subscription.topic]) + 1)
        """Between these it began."""
        self._reader = asyncio.create_task(self._read()) if reads else None

    @property
    def payloads(self) -> list[bytes]:
        return [message.payload for message in self.received]

    async def publish(self, payload: bytes) -> Receipt:
        receipt = await self.subscription.publish(payload)
        self._record.published[receipt.topic, receipt.source, receipt.counter] = payload
        return receipt

    async def _read(self) -> None:
        with contextlib.suppress(vcubeps.NodeError):
            async for message in self.subscription:
                self.received.append(message)

    async def close(self) -> None:
        await self.subscription.close()
        await self.stop_reading()

    async def stop_reading(self) -> None:
        """The reader takes what waits, and ends if the subscription has."""
        if self._reader is not None:
            if not self.subscription.is_closed:
                self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)

    def discrepancies(self) -> list[str]:
        """Where the application did not get what its node delivered, in that order."""
        topic, node = self.subscription.topic, self.node.id
        got = [(message.source, message.counter, message.payload) for message in self.received]
        delivered = self._record.deliveries[node, topic]
        if any(got == delivered[start : start + len(got)] for start in self._starts):
            return []
        return [f"the application of node {node} got something else on {topic} than was delivered"]


class Live:
    """`count` nodes in this process, with proxies between them if `proxied`; ends with the audit."""

    def __init__(
        self,
        count: int,
        *,
        proxied: bool = False,
        limits: Limits | None = None,
        timing: Timing = FAST,
        detection: Detection = PATIENT,
        partition: Literal["majority", "continue"] = "continue",
        name: str = "live",
        absent: frozenset[int] = frozenset(),
    ) -> None:
        """`absent` nodes are not started, and the others count them as crashed."""
        self._count = count
        self._absent = absent
        self._limits, self._timing, self._name = limits or Limits(), timing, name
        self._detection = detection
        self._partition = partition
        self.proxies = Proxies(count) if proxied else None
        self.record = Record()
        self.nodes: dict[int, Node] = {}
        self.listening = [_listening() for _ in range(count)]
        self.addresses = [f"127.0.0.1:{sock.getsockname()[1]}" for sock in self.listening]
        self._incarnations = [VolatileIncarnation(number) for number in range(count)]

    def __getitem__(self, number: int) -> Node:
        return self.nodes[number]

    def settings(self, number: int) -> ClusterSettings:
        """The cluster as node `number` sees it."""
        ways = self.proxies.ways if self.proxies is not None else {}
        return ClusterSettings(
            cluster=self._name,
            nodes=tuple(
                NodeSettings(
                    id=other, address=ways[number, other].address if (number, other) in ways else address
                )
                for other, address in enumerate(self.addresses)
            ),
            limits=self._limits,
            timing=self._timing,
            detection=self._detection,
            partition=self._partition,
        )

    async def __aenter__(self) -> Live:
        if self.proxies is not None:
            for (_, other), way in self.proxies.ways.items():
                await way.open(*self.listening[other].getsockname())
        for number in self._absent:
            self.listening[number].close()
        # All at once: where voters decide, the first waits for others.
        present = [number for number in range(self._count) if number not in self._absent]
        started = await asyncio.gather(*(self._open(number) for number in present))
        self.nodes = dict(zip(present, started, strict=True))
        for node in self.nodes.values():
            for number in self._absent:
                node._shell.machine.on_silence(number, "it is absent")
                node._shell.carry_out()
        await self.settle()
        return self

    async def start(self, number: int) -> Node:
        """Start node `number`; where it ran before, as its next incarnation."""
        node = self.nodes[number] = await self._open(number)
        return node

    async def _open(self, number: int) -> Node:
        if self.listening[number].fileno() < 0:
            self.listening[number] = _listening(int(self.addresses[number].rpartition(":")[2]))
        sock = self.listening[number]
        node = await start_node(self.settings(number), number, self._incarnations[number], sock, None)
        self.record.follow(node)
        return node

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                await self.settle()
                self.record.judge(self.living)
        finally:
            await self._close()
        if kind is None:
            self.record.judge(())

    @property
    def living(self) -> list[Node]:
        return [node for node in self.nodes.values() if not node._shell.machine.life.has_ended]

    async def _close(self) -> None:
        await asyncio.gather(*(node.close() for node in self.nodes.values()))
        for node in self.nodes.values():
            self.record.ended(node)
        for member in self.record.members:
            await member.stop_reading()
        if self.proxies is not None:
            await self.proxies.close()
        for sock in self.listening:
            sock.close()

    async def join(self, number: int, topic: str, *, reads: bool = True, **options: Any) -> Member:
        """A subscription in effect; `reads=False` leaves the reading to the test."""
        asked_at = len(self.record.deliveries[number, topic])
        subscription = await self.nodes[number].subscribe(topic, **options)
        member = Member(self.record, self.nodes[number], subscription, reads, asked_at)
        self.record.members.append(member)
        return member

    async def join_all(self, topic: str, **options: Any) -> list[Member]:
        return [await self.join(number, topic, **options) for number in sorted(self.nodes)]

    async def crash(self, number: int) -> None:
        """The node is gone without a word."""
        node = self.nodes.pop(number)
        self.record.ended(node)
        shell = node._shell
        shell.machine.exchange.ignore_observers()
        shell.machine.fault(RuntimeError("a test has crashed it"))  # so that it does not leave in good order
        shell.carry_out()
        await node.close()

    async def close(self, number: int) -> None:
        """The node ends in good order."""
        node = self.nodes.pop(number)
        try:
            await node.close()
        finally:
            self.record.ended(node)

    def suspect(self, judge: int, node: int) -> None:
        """Node `judge` takes `node`, which lives, for crashed."""
        shell = self.nodes[judge]._shell
        shell.machine.on_silence(node, "a test says so")
        shell.carry_out()

    async def settle(self) -> None:
        """Wait until nothing is under way any more."""
        await until(self._is_settled, "all work done", within_s=15.0)

    def _is_settled(self) -> bool:
        for node in self.nodes.values():
            machine = node._shell.machine
            if machine.life.has_ended:
                continue
            if any(machine.peer.footprint().values()) or machine.is_dirty:
                return False
            if any(topic.unacknowledged for topic in machine.memberships):
                return False
            if not machine.peer.is_up or not all(
                machine.peer.known_incarnation(other.id) == other.incarnation
                and not machine.peer.believes_dead(other.id)
                for other in self.living
                if other is not node
            ):
                return False
        return all(
            member.subscription.is_closed or not member.subscription.backlog
            for member in self.record.members
            if member._reader is not None
        )


def _listening(port: int = 0) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    sock.listen(64)
    sock.setblocking(False)
    return sock
