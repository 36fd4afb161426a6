"""Links over real sockets: whatever becomes of connections, nothing is lost, doubled or out of order."""

from __future__ import annotations

import asyncio
import itertools
import random
import socket
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from net.live import FAST, Live, Member, impatient, on_uvloop, remains, run, until
from vcubeps.net.events import Gap
from vcubeps.node.connection import Stage
from vcubeps.node.settings import Limits
from vcubeps.protocol.outputs import Arrived

LOOPS = pytest.mark.parametrize("loop", [None, on_uvloop], ids=["asyncio", "uvloop"])


def timing(**changes: float) -> Any:
    return msgspec.structs.replace(FAST, **changes)


def connections(live: Live, one: int, other: int) -> int:
    """How many connections node `one` has with node `other`."""
    return sum(
        connection.stage is Stage.OPEN and connection.other == other
        for connection in live[one]._shell.machine.links.connections
    )


def refusals(live: Live) -> set[str]:
    """Why any node has refused any connection."""
    return {cause for node in live.nodes.values() for cause in node._shell.machine.links.refused}


async def publish_all(member: Member, payloads: list[bytes]) -> None:
    for payload in payloads:
        await member.publish(payload)


# -- cut and restored -----------------------------------------------------------------------------


@LOOPS
def test_connections_cut_in_mid_frame_lose_and_double_nothing(loop: Callable[[], Any] | None) -> None:
    async def main() -> None:
        async with Live(2, proxied=True) as live:
            zero, one = await live.join_all("room")
            assert live.proxies is not None
            ways = live.proxies.between(0, 1)
            expected = 0
            for offset in [*range(1, 60), 500, 5_000, 70_000]:
                for way in ways:
                    way.budget_bytes = offset
                for member in (zero, one):
                    await member.publish(b"%d" % offset + b"x" * offset)
                    expected += 1
                await until(lambda count=expected: len(zero.received) == len(one.received) == count)
            assert sum(way.cuts for way in ways) > 50
            assert sum(live[node]._shell.machine.links.resent for node in (0, 1)) > 0

    run(main(), loop=loop)


@LOOPS
def test_a_large_message_cut_again_and_again_arrives_once(loop: Callable[[], Any] | None) -> None:
    async def main() -> None:
        async with Live(2, proxied=True, limits=Limits(frame_bytes_max=64 << 10)) as live:
            zero, one = await live.join_all("room")
            assert live.proxies is not None
            payload = random.Random(1).randbytes(1_000_000)
            publishing = asyncio.create_task(publish_all(zero, [payload]))
            for way in live.proxies.between(0, 1):
                way.budget_bytes = 300_000
            await until(lambda: sum(way.cuts for way in live.proxies.between(0, 1)) >= 1)
            for way in live.proxies.between(0, 1):
                way.budget_bytes = 500_000
            await publishing
            await until(lambda: one.received)
            assert one.payloads == [payload]

    run(main(), loop=loop)


def test_a_connection_that_both_lose_while_both_send_comes_back_as_one() -> None:
    async def main() -> None:
        async with Live(2, proxied=True) as live:
            members = await live.join_all("room")
            assert live.proxies is not None
            for round_number in range(1, 31):
                for way in live.proxies.between(0, 1):
                    way.cut()
                for member in members:
                    await member.publish(b"%d" % round_number)
                await until(
                    lambda expected=2 * round_number: all(len(m.received) == expected for m in members)
                )
            await until(lambda: connections(live, 0, 1) == connections(live, 1, 0) == 1)
            assert refusals(live) <= {"collision"}

    run(main())


def test_slow_links_lose_nothing_and_keep_the_order() -> None:
    async def main() -> None:
        async with Live(4, proxied=True) as live:
            members = await live.join_all("room")
            assert live.proxies is not None
            for number, way in enumerate(live.proxies.ways.values()):
                way.delay_s = 0.001 * (number % 5)
            for number in range(40):
                await members[number % 4].publish(b"%d" % number)
                if number % 10 == 9:
                    await until(lambda expected=number + 1: len(members[0].received) >= expected)
            await live.settle()
            assert [len(member.received) for member in members] == [40] * 4

    run(main())


# -- connections that overtake each other ----------------------------------------------------------


def test_an_attempt_that_comes_after_a_later_connection_does_no_harm() -> None:
    """Node 1 greets, the greeting hangs; meanwhile they connect the other way round and go far ahead."""

    async def main() -> None:
        async with Live(2, proxied=True, timing=timing(connect_timeout_s=10.0)) as live:
            zero, one = await live.join_all("room")
            assert live.proxies is not None
            forth, back = live.proxies.between(0, 1)
            back.hold()
            forth.is_blocked = True
            forth.cut()
            back.cut()
            await until(lambda: not connections(live, 1, 0))
            await one.publish(b"hangs")
            await until(lambda: back.passages)  # node 1 has dialled
            forth.is_blocked = False
            for number in range(20):
                await (await zero.publish(b"%d" % number)).acknowledged()
            back.release()
            for number in range(20):
                await (await zero.publish(b"%d" % number)).acknowledged()
            assert len(one.received) == 41
            assert refusals(live) <= {"collision"}

    run(main())


def test_an_older_connection_whose_bytes_come_after_those_of_a_newer_one_does_no_harm() -> None:
    """Node 0 dials, its greeting hangs until it has given up and connected anew."""

    async def main() -> None:
        async with Live(2, proxied=True, timing=timing(connect_timeout_s=0.1)) as live:
            zero, one = await live.join_all("room")
            assert live.proxies is not None
            forth, back = live.proxies.between(0, 1)
            back.is_blocked = True
            forth.holds_new = True
            forth.cut()
            back.cut()
            await zero.publish(b"first")
            await until(lambda: forth.passages)
            older = forth.passages[0]
            forth.holds_new = False
            await until(lambda: len(one.received) == 1)
            for number in range(10):
                await (await zero.publish(b"%d" % number)).acknowledged()
            older.release()
            for number in range(10):
                await (await zero.publish(b"%d" % number)).acknowledged()
            assert len(one.received) == 21
            assert refusals(live) <= {"collision"}

    run(main())


def test_an_answer_that_never_comes_does_not_keep_the_next_attempt_out() -> None:
    """Node 1 believes in the connection that node 0 has given up without a word."""

    async def main() -> None:
        async with Live(2, proxied=True, timing=timing(connect_timeout_s=0.1)) as live:
            zero, one = await live.join_all("room")
            assert live.proxies is not None
            forth, back = live.proxies.between(0, 1)
            back.is_blocked = True
            forth.holds_answers = True
            forth.cut()
            back.cut()
            await zero.publish(b"hello")
            await until(lambda: connections(live, 1, 0) == 1)
            forth.passages[0].hold()  # the end of it does not reach node 1 either
            forth.holds_answers = False
            await until(lambda: len(one.received) == 1)

    run(main())


@pytest.mark.parametrize("who", ["dialler", "listener"])
def test_a_connection_that_one_side_only_has_lost_is_replaced(who: str) -> None:
    async def main() -> None:
        async with Live(2, proxied=True) as live:
            zero, one = await live.join_all("room")
            assert live.proxies is not None
            [passage] = [passage for way in live.proxies.between(0, 1) for passage in way.passages]
            links = live[0]._shell.machine.links.link(1), live[1]._shell.machine.links.link(0)
            before = [link.connection for link in links]
            passage.lose_at_dialler() if who == "dialler" else passage.lose_at_listener()
            await until(lambda: [link.connection for link in links] != before)
            for member in (zero, one):
                await member.publish(b"hello")
            await until(lambda: len(zero.received) == len(one.received) == 2)
            passage.release()
            for member in (zero, one):
                await (await member.publish(b"again")).acknowledged()

    run(main())


# -- back-off ----------------------------------------------------------------------------------------


def test_attempts_come_at_growing_distances_up_to_the_longest() -> None:
    async def main() -> None:
        limits = timing(reconnect_min_s=0.02, reconnect_max_s=0.16)
        async with Live(2, proxied=True, timing=limits) as live:
            zero, one = await live.join_all("room")
            assert live.proxies is not None
            forth, back = live.proxies.between(0, 1)
            forth.is_blocked = back.is_blocked = True
            forth.cut()
            back.cut()
            await zero.publish(b"waits")
            loop, seen, at = asyncio.get_running_loop(), forth.accepted, []
            while len(at) < 7:
                await until(lambda seen=seen: forth.accepted > seen)
                seen, now_s = forth.accepted, loop.time()
                at.append(now_s)
            pauses = [later - earlier for earlier, later in itertools.pairwise(at)]
            least = [0.01, 0.02, 0.04, 0.08, 0.08, 0.08]
            slack_s = 0.005  # between an attempt and our looking
            assert all(pause >= low - slack_s for pause, low in zip(pauses, least, strict=True)), pauses
            forth.is_blocked = back.is_blocked = False
            await until(lambda: len(one.received) == 1)

    run(main())


# -- nodes that end, hang and come back ----------------------------------------------------------------


def test_a_node_that_ends_under_load_is_gone_at_once_for_the_others() -> None:
    async def main() -> None:
        async with Live(4) as live:
            members = await live.join_all("room")
            stop = asyncio.Event()

            async def publish_on(member: Member) -> None:
                while not stop.is_set():
                    await member.publish(b"x" * 2_000)
                    await asyncio.sleep(0)

            publishers = [asyncio.create_task(publish_on(member)) for member in members[:3]]
            await until(lambda: len(members[3].received) > 200)
            await live.close(3)
            await until(lambda: members[0].subscription.members == (0, 1, 2), within_s=5.0)
            stop.set()
            await asyncio.gather(*publishers)
            for node in range(3):
                await asyncio.wait_for(live.join(node, "another"), 5.0)  # nobody waits for node 3

    run(main())


def test_who_is_said_to_be_back_is_sent_to_although_it_had_said_goodbye() -> None:
    """It may not know this node, and so never speak first: newcomers are told of each other by third nodes."""

    async def main() -> None:
        async with Live(2) as live:
            await live.join_all("room")
            shell = live[0]._shell
            await live.close(1)
            await until(lambda: shell.machine.links.link(1).has_ended())

            shell.machine.exchange.carry_out([Arrived(1, 1, b"")])

            assert not shell.machine.links.link(1).has_ended()

    run(main())


def test_a_node_that_comes_back_as_a_new_incarnation_is_reported_and_let_in() -> None:
    async def main() -> None:
        async with Live(4) as live:
            members = await live.join_all("room")
            await members[3].publish(b"before")
            await live.settle()
            await live.crash(3)
            back = await live.start(3)
            assert back.incarnation == 1
            rejoined = await live.join(3, "room")
            await members[0].publish(b"after")
            await rejoined.publish(b"from the new one")
            await live.settle()
            assert members[0].payloads == [b"before", b"after", b"from the new one"] or members[0].payloads == [
                b"before", b"from the new one", b"after",
            ]  # fmt: skip
            assert sorted(rejoined.payloads) == [b"after", b"from the new one"]

    run(main())


def test_a_node_that_vanishes_counts_as_crashed_after_a_while() -> None:
    async def main() -> None:
        async with Live(4, detection=impatient(0.2)) as live:
            members = await live.join_all("room")
            await live.crash(3)
            receipt = await members[0].publish(b"hello")
            await receipt.acknowledged()
            await until(lambda: all(member.subscription.members == (0, 1, 2) for member in members[:3]))

    run(main())


def test_a_node_taken_for_crashed_that_then_vanishes_counts_as_crashed_as_its_newest_incarnation() -> None:
    async def main() -> None:
        async with Live(2, detection=impatient(0.2)) as live:
            zero, _ = await live.join_all("room")
            live.suspect(0, 1)
            await until(lambda: live[1].incarnation == 1 and live[1].members("room") == (0, 1))
            assert live[0]._shell.machine.links.link(1).incarnation == 1  # it has greeted anew
            await live.crash(1)
            await (await zero.publish(b"hello")).acknowledged()
            await until(lambda: zero.subscription.members == (0,))

    run(main())


@pytest.mark.parametrize("count", [2, 4])
def test_nodes_that_started_again_while_nobody_reached_anybody_find_each_other(count: int) -> None:
    async def main() -> None:
        async with Live(count, proxied=True, detection=impatient(0.2)) as live:
            for number in range(count):
                await live.crash(number)
            assert live.proxies is not None
            for way in live.proxies.ways.values():
                way.is_blocked = True
            await asyncio.gather(*(live.start(number) for number in range(count)))
            members = await live.join_all("room")
            assert [member.subscription.members for member in members] == [(n,) for n in range(count)]
            for way in live.proxies.ways.values():
                way.is_blocked = False
            everyone = tuple(range(count))
            await until(lambda: all(live[n].members("room") == everyone for n in everyone), "one cluster")
            await members[0].publish(b"hello")
            await until(lambda: all(b"hello" in member.payloads for member in members))

    run(main())


def test_a_node_that_hangs_with_its_connections_open_counts_as_crashed_and_comes_back_with_a_gap() -> None:
    async def main() -> None:
        slow = timing(connect_timeout_s=0.1)
        async with Live(4, proxied=True, timing=slow, detection=impatient(0.4)) as live:
            members = await live.join_all("room")
            events = members[3].subscription.events()
            assert live.proxies is not None
            ways = [way for pair, way in live.proxies.ways.items() if 3 in pair]
            for way in ways:
                way.hold()
            await (await members[0].publish(b"without the third")).acknowledged()
            await until(lambda: all(member.subscription.members == (0, 1, 2) for member in members[:3]))
            for way in ways:
                way.release()
            async for event in events:
                if isinstance(event, Gap):
                    break
            await until(lambda: live[3].members("room") == (0, 1, 2, 3))
            await members[0].publish(b"with it again")
            await until(lambda: b"with it again" in members[3].payloads)

    run(main())


def test_nodes_that_start_again_remember_who_said_goodbye() -> None:
    async def main() -> None:
        async with Live(3, proxied=True, detection=impatient(0.2)) as live:
            members = await live.join_all("room")
            await live.close(2)
            await until(lambda: all(live[n].members("room") == (0, 1) for n in (0, 1)))
            assert live.proxies is not None
            ways = live.proxies.between(0, 1)
            for way in ways:
                way.is_blocked = True
                way.cut()
            peers = [live[n]._shell.machine.peer for n in (0, 1)]
            await until(lambda: peers[0].believes_dead(1) and peers[1].believes_dead(0))
            for way in ways:
                way.is_blocked = False
            await until(lambda: all(live[n].members("room") == (0, 1) for n in (0, 1)), "both up again")
            await members[0].publish(b"hello")
            await until(lambda: b"hello" in members[1].payloads)

    run(main())


def test_a_node_that_vanishes_counts_as_crashed_though_nothing_waits_for_it_but_this_node_does() -> None:
    """It had taken the publication in, on its link, and held its acknowledgement back because its reader was slow."""

    async def main() -> None:
        async with Live(2, detection=impatient(0.2), limits=Limits(queue_messages_max=1)) as live:
            zero = await live.join(0, "room")
            await live.join(1, "room", reads=False)
            for number in range(3):
                receipt = await zero.publish(b"%d" % number)
            link = live[0]._shell.machine.links.link(1)
            await until(
                lambda: live[1]._shell.machine.memberships.held_acks and not link.outbox, "its link has all"
            )
            await live.crash(1)
            await receipt.acknowledged()
            assert live[0].members("room") == (0,)

    run(main())


def test_a_node_that_boots_does_not_wait_for_one_that_vanished_after_it_had_been_asked() -> None:
    async def main() -> None:
        async with Live(3, detection=impatient(0.5)) as live:
            for number in (2, 1):
                await live.crash(number)
            zero = live[0]._shell.machine
            booting = asyncio.create_task(live.start(1))
            # 0 cannot let 1 in before it has missed 2; what 1 asked has arrived there by then.
            await until(lambda: zero.links.link(1).incarnation >= 0 and zero.peer.footprint()["admissions"])
            await live.crash(0)
            assert (await booting).incarnation == 1

    run(main())


def test_a_short_pause_of_a_link_is_no_crash() -> None:
    async def main() -> None:
        async with Live(4, proxied=True, detection=impatient(5.0)) as live:
            members = await live.join_all("room")
            assert live.proxies is not None
            for way in live.proxies.ways.values():
                way.hold()
            receipt = await members[0].publish(b"hello")
            acknowledged = asyncio.create_task(receipt.acknowledged())
            await remains(lambda: not acknowledged.done())
            for way in live.proxies.ways.values():
                way.release()
            await acknowledged
            assert [live[node].incarnation for node in range(4)] == [0] * 4

    run(main())


# -- messages larger than a frame ------------------------------------------------------------------------


def test_messages_larger_than_a_frame_arrive_whole() -> None:
    async def main() -> None:
        async with Live(4, limits=Limits(frame_bytes_max=64 << 10)) as live:
            members = await live.join_all("room")
            payloads = [
                random.Random(size).randbytes(size) for size in (65_000, 65_536, 70_000, 200_000, 1_000_000)
            ]
            await publish_all(members[0], payloads)
            await live.settle()
            assert all(member.payloads == payloads for member in members)
            assert refusals(live) <= {"collision"}

    run(main())


def test_what_survivors_hold_of_a_crashed_publisher_may_be_larger_than_a_frame() -> None:
    async def main() -> None:
        limits = Limits(frame_bytes_max=64 << 10)
        async with Live(4, limits=limits, detection=impatient(0.3)) as live:
            topics = [await live.join_all(f"topic {number}") for number in range(10)]
            for members in topics:
                await (await members[3].publish(b"x" * 50_000)).acknowledged()
            await live.crash(3)
            for members in topics:
                await (await members[0].publish(b"still here")).acknowledged()
            await until(lambda: all(members[1].subscription.members == (0, 1, 2) for members in topics))
            assert refusals(live) <= {"collision"}

    run(main())


def test_what_has_arrived_is_confirmed_after_a_while_again_and_again() -> None:
    async def main() -> None:
        async with Live(2) as live:
            room, _ = await live.join_all("room")
            links = [link for node in live.nodes.values() for link in node._shell.machine.links]
            for _ in range(3):
                await (await room.publish(b"hello")).acknowledged()
                await until(lambda: not any(link.outbox for link in links), "all to be confirmed")

    run(main())


def test_what_cannot_be_confirmed_because_the_connection_is_full_is_confirmed_later() -> None:
    async def main() -> None:
        timing = msgspec.structs.replace(FAST, acknowledge_within_s=60.0)
        async with Live(2, timing=timing) as live:
            room, _ = await live.join_all("room")
            shell = live[1]._shell
            links = shell.machine.links
            link = links.link(0)
            assert link.connection is not None
            received = link.inbox.last
            link.connection.is_paused = True
            await room.publish(b"hello")
            await until(lambda: link.inbox.last > received)
            links._acknowledge()
            assert link.inbox.told <= received
            assert link in links._ways.owing
            shell.sockets.on_writable(link.connection)
            links._acknowledge()
            shell.carry_out()
            await until(lambda: live[0]._shell.machine.links.link(1).outbox.first > received)

    run(main())


@pytest.mark.skipif(not hasattr(socket, "TCP_NOTSENT_LOWAT"), reason="of Linux and macOS")
def test_the_system_keeps_little_that_has_not_left() -> None:
    """Signs of life would wait behind it."""

    async def main() -> None:
        async with Live(2) as live:
            await live.join_all("room")
            (transport,) = live[0]._shell.sockets._transports.values()
            sock = transport.socket.get_extra_info("socket")
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == 128 << 10
            assert transport.socket.get_write_buffer_limits()[1] == 128 << 10

    run(main())
