"""Bad input from outside and from the application: refused with the reason to the one at fault, counted, and the node
goes on serving everyone else."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

import vcubeps
from net.live import FAST, PATIENT, Live, Member, run, until
from vcubeps.net.errors import ListenError
from vcubeps.net.incarnation import VolatileIncarnation
from vcubeps.net.node import Node
from vcubeps.net.opening import start_node
from vcubeps.node.frames import PROTOCOL_VERSION, FrameReader, Kind, frame, pack_header
from vcubeps.node.greeting import Identity, Refusal, read_refusal
from vcubeps.node.settings import ClusterSettings, Limits, NodeSettings, shared_settings
from vcubeps.node.wire import Wire
from vcubeps.protocol.batches import Batch
from vcubeps.protocol.messages import Ack, AnyMessage, Card, Copy, Hello, Publication

QUICK = msgspec.structs.replace(FAST, connect_timeout_s=0.2)


class Stranger:
    """A connection to a node, made by somebody who need not keep to any rules."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._frames = FrameReader(1 << 20)

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def next(self) -> tuple[int, int, bytes] | None:
        """The next frame; None at the end of the connection."""
        async for each in self.frames():
            return each
        return None

    async def frames(self) -> AsyncIterator[tuple[int, int, bytes]]:
        with contextlib.suppress(OSError):
            while data := await self._reader.read(4096):
                room = self._frames.room
                room[: len(data)] = data
                for kind, number, body in self._frames.received(len(data)):
                    yield kind, number, bytes(body)

    async def refusal(self) -> Refusal:
        """What the node says as it ends the connection."""
        async for kind, _, body in self.frames():
            if kind == Kind.REFUSAL:
                return read_refusal(memoryview(body))
        raise AssertionError("the connection has ended without a reason")


@asynccontextmanager
async def stranger(live: Live, node: int) -> AsyncIterator[Stranger]:
    host, _, port = live.addresses[node].rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield Stranger(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


SHARED = shared_settings(
    ClusterSettings(
        cluster="live",
        nodes=tuple(NodeSettings(id=node, address="") for node in range(3)),
        partition="continue",
        detection=PATIENT,
    )
)
"""What the nodes of these tests agree on."""


def redirect(node: Node, other: int, address: str) -> None:
    """From now on `node` looks for `other` there."""
    link = node._shell.machine.links.link(other)
    link.address = address
    if link.connection is not None:
        node._shell.sockets._transports[link.connection].abort()


def greeting(
    *, cluster: str = "live", node: int = 1, to: int = 0, incarnation: int = 1, number: int = 1
) -> bytes:
    others = frozenset(range(4)) - {node}
    return Identity(cluster, node, others, 4711, incarnation, SHARED).greeting(to, 0, 0, number, dead=-1)


async def still_serves(members: list[Member]) -> None:
    for member in members:
        await asyncio.wait_for((await member.publish(b"still here")).acknowledged(), 5.0)


# -- who has not said who he is ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "cause", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", "malformed", "it sent a frame of kind 47, which does not exist"),
        (frame(77), "malformed", "it sent a frame of kind 77, which does not exist"),
        (pack_header(5000, Kind.GREETING, 0), "malformed", "it sent a frame of 5000 bytes, the limit is 4096"),
        (frame(Kind.MESSAGE, 1, b"x"), "malformed", "it sent a frame of kind MESSAGE out of place"),
        (frame(Kind.RECEIVED, 1), "malformed", "it sent a frame of kind RECEIVED out of place"),
        (frame(Kind.PART, 1), "malformed", "it sent a frame of kind PART out of place"),
        (frame(Kind.GOODBYE, 1), "malformed", "it sent a frame of kind GOODBYE out of place"),
        (frame(Kind.GREETING, 0, b"\xc1"), "not-this-protocol", "the greeting is not one of VCube-PS"),
        (frame(Kind.GREETING), "not-this-protocol", "the greeting is not one of VCube-PS"),
        (greeting(cluster="other"), "cluster", "belongs to cluster 'live' and the caller to 'other'"),
        (greeting(node=3, to=2), "wrong-node", "this is node 0 and the caller wants node 2"),
        (greeting(node=3), "stranger", "node 3 is not in the cluster file of node 0: add it there"),
        (greeting(node=0), "taken", "node 0 runs already, with another process"),
    ],
)  # fmt: skip
def test_whoever_begins_badly_is_refused_with_the_reason(data: bytes, cause: str, reason: str) -> None:
    async def main() -> None:
        async with Live(3, absent=frozenset({1})) as live:
            members = await live.join_all("room")
            async with stranger(live, 0) as other:
                other.send(data)
                refusal = await other.refusal()
            assert refusal.cause.value == cause
            assert reason in refusal.reason
            assert live[0]._shell.machine.links.refused[cause] == 1
            await still_serves(members)

    run(main())


def test_another_version_is_refused_and_both_versions_are_named() -> None:
    async def main() -> None:
        async with Live(1) as live, stranger(live, 0) as other:
            fields = ["vcubeps", PROTOCOL_VERSION + 1, "live", 1, 0, 0, 4711, 0, 0, 1]
            other.send(frame(Kind.GREETING, 0, msgspec.msgpack.encode(fields)))
            refusal = await other.refusal()
            assert "node 0 speaks version 3 of the protocol and the caller version 4" in refusal.reason

    run(main())


@pytest.mark.parametrize(
    "data", [b"", b"\x00", greeting()[:-1]], ids=["nothing", "a byte", "most of a greeting"]
)
def test_whoever_does_not_greet_in_time_is_refused(data: bytes) -> None:
    async def main() -> None:
        async with Live(3, absent=frozenset({1}), timing=QUICK) as live:
            members = await live.join_all("room")
            async with stranger(live, 0) as other:
                other.send(data)
                assert "no greeting came in time" in (await other.refusal()).reason
            await still_serves(members)

    run(main())


def test_a_crowd_of_garbage_does_not_disturb_anyone() -> None:
    async def main() -> None:
        dice = random.Random(7)
        async with Live(3) as live:
            members = await live.join_all("room")

            async def throw(data: bytes) -> None:
                async with stranger(live, dice.randrange(3)) as other:
                    other.send(data)
                    await asyncio.sleep(0)

            await asyncio.gather(*(throw(dice.randbytes(dice.randrange(1, 300))) for _ in range(60)))
            await still_serves(members)
            await until(
                lambda: all(len(live[node]._shell.machine.links.connections) <= 2 for node in range(3))
            )

    run(main())


# -- a node that breaks the rules ------------------------------------------------------------------


def encoded(message: AnyMessage) -> bytes:
    return b"".join(Wire().encode(message))


def wrong_counter() -> bytes:
    publication = Publication(1, "room", 5, Batch(5, (b"12345678",)), {}, 0, 1)
    return encoded(Copy(1, 0, 1, {0: 1}, {}, publication))


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (frame(99), "it sent a frame of kind 99, which does not exist"),
        (pack_header(1 << 30, Kind.MESSAGE, 1), "it sent a frame of 1073741824 bytes, the limit is"),
        (frame(Kind.GREETING, 0, b""), "it sent a frame of kind GREETING out of place"),
        (frame(Kind.MESSAGE, 1, b""), "it sent a message that cannot be read"),
        (frame(Kind.MESSAGE, 1, b"\xff" * 50), "it sent a message that cannot be read"),
        (frame(Kind.MESSAGE, 1, b"\x91" * 5000 + b"\x01"), "it sent a message that cannot be read"),
        (
            frame(Kind.MESSAGE, 1, msgspec.msgpack.encode(["COPY", 0, 0])),
            "it sent a message that cannot be read",
        ),
        (
            frame(Kind.MESSAGE, 1, msgspec.msgpack.encode(["BOO", 0, 0])),
            "it sent a message that cannot be read",
        ),
        (frame(Kind.MESSAGE, 7, b""), "it sent message 7 where 1 should follow"),
        (frame(Kind.RECEIVED, 1000), "it sent an acknowledgement of message 1000, but the last one sent was"),
        (frame(Kind.MESSAGE, 1, wrong_counter()), "it sent counter 5, which is not one of its incarnation 1"),
        (
            frame(Kind.MESSAGE, 1, encoded(Ack(1, 0, 1, {}, False, {1 << 20: 1}, 0))),
            "it sent crashes with impossible nodes 1048576, of which the ids lie in 0…1048575",
        ),
    ],
)
def test_a_node_that_breaks_the_rules_is_told_how_and_not_listened_to_any_more(
    sent: bytes, reason: str
) -> None:
    async def main() -> None:
        async with Live(3, absent=frozenset({1})) as live:
            members = await live.join_all("room")
            async with stranger(live, 0) as other:
                other.send(greeting())
                assert (await other.next())[0] == Kind.GREETING
                other.send(sent)
                refusal = await other.refusal()
                assert reason in refusal.reason
            async with stranger(live, 0) as other:
                other.send(greeting(number=2))
                again = await other.refusal()
                assert reason in again.reason
                assert "start it again to be heard again" in again.reason
            await still_serves(members)
            links = live[0]._shell.machine.links
            assert links.refused[refusal.cause.value] + links.refused[again.cause.value] >= 2

    run(main())


def test_a_greeting_that_claims_to_have_received_what_was_never_sent_is_refused_and_the_next_is_not() -> None:
    async def main() -> None:
        async with Live(3, absent=frozenset({1})) as live:
            members = await live.join_all("room")
            links = live[0]._shell.machine.links
            async with stranger(live, 0) as other:
                other.send(greeting())
                assert (await other.next())[0] == Kind.GREETING
            identity = Identity("live", 1, frozenset({0, 2}), 4711, 1, SHARED)
            async with stranger(live, 0) as other:
                other.send(identity.greeting(0, links.identity.instance, 1000, 2, dead=-1))
                assert "an acknowledgement of message 1000" in (await other.refusal()).reason
            async with stranger(live, 0) as other:
                other.send(identity.greeting(0, links.identity.instance, 0, 3, dead=-1))
                assert (await other.next())[0] == Kind.GREETING
            await still_serves(members)

    run(main())


def test_bytes_that_a_message_is_made_of_may_be_anything_and_the_node_lives() -> None:
    async def main() -> None:
        dice = random.Random(11)
        hello = encoded(Hello(1, -1, Card(1), 0, {}))
        sound = [hello, wrong_counter(), encoded(Ack(1, 0, 1, {}, False, {}, 0))]
        async with Live(3, absent=frozenset({1})) as live:
            members = await live.join_all("room")
            for attempt in range(40):
                body = bytearray(dice.choice(sound))
                for _ in range(dice.randrange(1, 4)):
                    body[dice.randrange(len(body))] = dice.randrange(256)
                others = Identity("live", 1, frozenset({0, 2}), attempt + 1, attempt + 1, SHARED)
                async with stranger(live, 0) as other:
                    other.send(others.greeting(0, 0, 0, 1, dead=-1) + frame(Kind.MESSAGE, 1, bytes(body)))
                    assert (await other.next())[0] == Kind.GREETING
            await still_serves(members)

    run(main())


# -- nodes that are set up wrongly ---------------------------------------------------------------------


def test_two_clusters_with_each_others_addresses_refuse_each_other_and_say_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with Live(2, name="town") as town, Live(2, name="village") as village:
            people = await village.join_all("room")
            redirect(town[0], 1, village.addresses[1])
            redirect(town[1], 0, village.addresses[0])
            joining = [asyncio.create_task(town.join(node, "room")) for node in (0, 1)]
            await until(lambda: "cluster" in str(town[0].problems()) and "cluster" in str(town[1].problems()))
            assert town[0].problems() == {
                1: "node 1 belongs to cluster 'village' and the caller to 'town': correct the address in one of the "
                "cluster files"
            }
            await still_serves(people)
            assert village[1]._shell.machine.links.refused["cluster"] >= 1
            assert town[0]._shell.machine.links.refused_by_others["cluster"] >= 1
            for node in (0, 1):  # the mistake is mended
                redirect(town[node], 1 - node, town.addresses[1 - node])
            members = [await task for task in joining]
            await still_serves(members)
            assert town[0].problems() == {}

    run(main())
    assert "node 0: was refused by node 1: node 1 belongs to cluster 'village'" in caplog.text
    assert "node 1: refused 127.0.0.1:" in caplog.text


def test_a_node_id_taken_twice_ends_the_second_with_the_reason() -> None:
    async def main() -> None:
        async with Live(3) as live:
            members = await live.join_all("room")
            await still_serves(members)
            settings = live.settings(2)
            elsewhere = NodeSettings(id=2, address="127.0.0.1:0")
            settings = msgspec.structs.replace(settings, nodes=(*settings.nodes[:2], elsewhere))
            second = await start_node(settings, 2, VolatileIncarnation(2), None, None)
            async with second:
                with pytest.raises(
                    vcubeps.NodeRefused, match="node 2 runs already, with another process: give each its"
                ):
                    await second.subscribe("room")
                with pytest.raises(vcubeps.NodeRefused):
                    await second.subscribe("other")
            await still_serves(members)
            assert members[2].subscription.members == (0, 1, 2)

    run(main())


def test_a_node_that_starts_with_an_incarnation_it_had_before_is_refused_with_the_one_to_use() -> None:
    async def main() -> None:
        async with Live(3) as live:
            members = await live.join_all("room")
            await still_serves(members)
            await live.crash(2)
            live._incarnations[2] = VolatileIncarnation(2)
            node = await live.start(2)
            with pytest.raises(vcubeps.NodeRefused, match="used up to 0: start it as incarnation 1"):
                await node.subscribe("room")
            await node.close()
            live._incarnations[2].next()
            live._incarnations[2] = VolatileIncarnation(2)
            live._incarnations[2].store(0)
            await live.start(2)
            await live.join(2, "room")
            await still_serves(members[:2])

    run(main())


def test_a_port_in_use_is_named_with_what_to_do() -> None:
    async def main() -> None:
        async with Live(2) as live:
            with pytest.raises(
                ListenError, match=r"node 1 cannot listen on 127.0.0.1:\d+: the port is in use; stop"
            ):
                await start_node(live.settings(1), 1, VolatileIncarnation(1), None, None)

    run(main())


def test_an_address_of_another_machine_is_named_with_what_to_do() -> None:
    async def main() -> None:
        mine = NodeSettings(id=0, address="127.0.0.1:7000", listen="192.0.2.1:7000")
        settings = ClusterSettings(cluster="live", nodes=(mine,))
        with pytest.raises(ListenError, match="give an address of this machine, as `address` or `listen`"):
            await start_node(settings, 0, VolatileIncarnation(0), None, None)

    run(main())


def test_a_name_that_is_none_is_tried_with_pauses_and_reported() -> None:
    async def main() -> None:
        async with Live(2) as live:
            redirect(live[0], 1, "no..such..name:7000")
            joining = asyncio.create_task(live.join(0, "room"))
            await until(lambda: live[0].problems() == {1: "out of reach at no..such..name:7000"})
            redirect(live[0], 1, live.addresses[1])
            await joining

    run(main())


# -- the application ---------------------------------------------------------------------------------------


def test_a_payload_over_the_limit_is_refused_and_counted_and_one_at_the_limit_is_not() -> None:
    async def main() -> None:
        async with Live(2, limits=Limits(payload_bytes_max=1000)) as live:
            zero, one = await live.join_all("room")
            with pytest.raises(vcubeps.UsageError, match="payload has 1001 bytes, the limit is 1000"):
                await zero.publish(b"x" * 1001)
            assert live[0]._shell.measures.usage_errors == 1
            await zero.publish(b"x" * 1000)
            await until(lambda: one.payloads == [b"x" * 1000])

    run(main())


def test_publishing_without_a_subscription_is_refused_with_what_to_do() -> None:
    async def main() -> None:
        async with Live(2) as live:
            member = await live.join(0, "room")
            await member.close()
            with pytest.raises(
                vcubeps.SubscriptionClosed, match="the subscription to 'room' has ended: subscribe again"
            ):
                await member.publish(b"too late")

    run(main())


@pytest.mark.parametrize("topic", ["", "x" * 256, "\ud800", None, 7])
def test_a_name_that_no_topic_can_have_is_refused(topic: str) -> None:
    async def main() -> None:
        async with Live(1) as live:
            with pytest.raises(vcubeps.UsageError, match="topic"):
                await live[0].subscribe(topic)
            await live.join(0, "room")

    run(main())


def test_options_that_do_not_exist_are_refused_with_those_that_do() -> None:
    async def main() -> None:
        async with Live(1) as live:
            with pytest.raises(
                vcubeps.UsageError, match="there is no codec 'xml': choose one of bytes, json, msgpack"
            ):
                await live[0].subscribe("room", codec="xml")  # type: ignore[arg-type]
            with pytest.raises(vcubeps.UsageError, match='slow is "wait" or "disconnect", got \'drop\''):
                await live[0].subscribe("room", slow="drop")  # type: ignore[arg-type]
            with pytest.raises(
                vcubeps.UsageError, match="queue_messages_max is 0: give a whole number from 1 up"
            ):
                await live[0].subscribe("room", queue_messages_max=0)

    run(main())
