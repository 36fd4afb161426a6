"""Corners in which something hung, escaped into the loop, or was not counted."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

import vcubeps
from net import jobs
from net.live import run
from ports import free_port
from vcubeps.net.incarnation import VolatileIncarnation
from vcubeps.net.opening import start_node
from vcubeps.node.frames import Kind, frame

BRIEF = vcubeps.Timing(close_within_s=0.3)


def test_the_last_subscription_is_disconnected_while_others_go_on() -> None:
    async def main() -> None:
        async with vcubeps.LocalCluster(2, timing=BRIEF) as cluster:
            slow = await cluster[0].subscribe("alone", slow="disconnect", queue_messages_max=2)
            other = await cluster[0].subscribe("other")
            receipts = [await slow.publish(b"x") for _ in range(5)]
            await other.publish(b"in the same turn")
            async with asyncio.timeout(5):
                await receipts[-1].acknowledged()
                assert (await other.receive()).payload == b"in the same turn"
                assert len(await slow.receive_batch()) == 5
            with pytest.raises(vcubeps.SlowSubscriber):
                await slow.receive()
            assert cluster[0]._shell.measures.disconnected_slow == 1

    run(main())


def test_a_subscription_that_waits_is_told_that_its_node_is_closed() -> None:
    async def main() -> None:
        nodes = tuple(
            vcubeps.NodeSettings(id=number, address=f"127.0.0.1:{free_port()}") for number in range(2)
        )
        settings = vcubeps.ClusterSettings(cluster="half", nodes=nodes, timing=BRIEF)
        node = await start_node(settings, 0, VolatileIncarnation(0), None, None)
        waiting = asyncio.create_task(_subscribe(node))
        while not node._shell.machine.memberships.topics:
            await asyncio.sleep(0)
        await node.close()
        async with asyncio.timeout(5):
            with pytest.raises((vcubeps.NodeClosed, vcubeps.SubscriptionClosed)):
                await waiting

    run(main())


async def _subscribe(node: vcubeps.Node) -> vcubeps.Subscription:
    return await node.subscribe("room")


@pytest.mark.parametrize(
    "body",
    [
        msgspec.msgpack.encode(["vcubeps", 1]).replace(b"vcubeps", b"vcub\xff\xfeps"[:7]),
        b"\x91" * 3000 + b"\xc0",
    ],
    ids=["not UTF-8", "nested deeply"],
)
@pytest.mark.parametrize("kind", [Kind.GREETING, Kind.REFUSAL])
def test_a_stranger_s_first_frame_that_cannot_be_read_is_refused_and_counted(kind: Kind, body: bytes) -> None:
    async def main() -> None:
        async with vcubeps.LocalCluster(1, timing=BRIEF) as cluster:
            links = cluster[0]._shell.machine.links
            host, port = cluster[0]._shell.settings.node(0).address.split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(frame(kind, 0, body))
            async with asyncio.timeout(5):
                answer = await reader.read()
            writer.close()
            await writer.wait_closed()
            if kind == Kind.GREETING:
                assert answer[4] == Kind.REFUSAL
                assert sum(links.refused.values()) == 1
            assert cluster[0]._shell.failure is None

    run(main())


def test_a_result_that_does_not_pickle_is_a_failure_that_says_so() -> None:
    async def main() -> None:
        async with vcubeps.LocalCluster(1, processes=True, timing=BRIEF) as cluster:
            with pytest.raises(vcubeps.WorkerFailed, match="pickle"):
                await cluster.run(jobs.unpicklable)
            assert await cluster.run(jobs.raise_in, 9) == [0]

    run(main())


def test_what_is_cancelled_here_ends_in_the_processes_too() -> None:
    async def main() -> None:
        async with vcubeps.LocalCluster(2, processes=True, timing=BRIEF) as cluster:
            forever = asyncio.create_task(cluster.run(jobs.wait_for_ever))
            await asyncio.sleep(0)
            forever.cancel()
            await asyncio.gather(forever, return_exceptions=True)
            async with asyncio.timeout(10):
                assert await cluster.run(jobs.raise_in, 9) == [0, 1]

    run(main())


def test_settings_made_in_a_program_are_checked_as_those_of_a_file() -> None:
    async def main() -> None:
        with pytest.raises(vcubeps.ConfigError, match=r"limits\.unacknowledged_max"):
            async with vcubeps.LocalCluster(2, limits=vcubeps.Limits(unacknowledged_max=0)):
                pass

    run(main())


def test_calls_that_are_refused_are_counted() -> None:
    async def main() -> None:
        async with vcubeps.LocalCluster(1, timing=BRIEF) as cluster:
            node = cluster[0]
            room = await node.subscribe("room", codec="json")
            for wrong in (
                lambda: node.subscribe("room", codec="xml"),  # type: ignore[arg-type]
                lambda: node.subscribe(""),
                lambda: node.subscribe("room", slow="never"),  # type: ignore[arg-type]
                lambda: node.subscribe("room", queue_messages_max="5"),  # type: ignore[arg-type]
            ):
                with pytest.raises(vcubeps.UsageError):
                    wrong()
            with pytest.raises(vcubeps.UsageError, match="cannot be encoded as json"):
                await room.publish(object())
            await room.close()
            with pytest.raises(vcubeps.SubscriptionClosed):
                await room.publish(1)
            assert node._shell.measures.usage_errors == 6

    run(main())
