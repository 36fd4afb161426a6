"""Back-pressure end to end: who reads slowly slows the publishers of that topic and nobody else; nothing is dropped."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

import vcubeps
from net.live import FAST, Live, Member, remains, run, until
from vcubeps.net.events import Disconnected
from vcubeps.node.settings import Limits

SMALL = Limits(queue_messages_max=20, unacknowledged_max=10, batch_items_max=5)


class Publisher:
    """Publishes numbers as fast as it is let."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self.published = 0
        self._task = asyncio.create_task(self._publish())

    async def _publish(self) -> None:
        while True:
            await self._member.publish(b"%d" % self.published)
            self.published += 1
            await asyncio.sleep(0)

    async def halts(self) -> int:
        """Wait until it comes to a halt; how many it has published then."""
        while True:
            before = self.published
            with contextlib.suppress(AssertionError):
                await remains(lambda before=before: self.published == before, turns=60)
                return before

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def read(member: Member, count: int) -> None:
    for _ in range(count):
        member.received.append(await member.subscription.receive())


def test_an_application_that_stops_reading_halts_the_publishers_of_that_topic_only() -> None:
    async def main() -> None:
        async with Live(4, limits=SMALL) as live:
            slow = await live.join(3, "slow", reads=False)
            publishers = [Publisher(await live.join(node, "slow")) for node in (0, 1)]
            others = await live.join_all("other")
            counts = [await publisher.halts() for publisher in publishers]
            # What may be under way: the queue, and per publisher what waits for acknowledgement and one batch.
            assert all(count <= 20 + 2 * 10 + 2 * 5 for count in counts), counts
            assert slow.subscription.backlog <= 20 + 2 * 5
            for number in range(100):
                await others[number % 4].publish(b"%d" % number)
            await until(lambda: all(len(member.received) == 100 for member in others))

            await read(slow, slow.subscription.backlog)
            await until(lambda: all(p.published > count for p, count in zip(publishers, counts, strict=True)))
            for publisher in publishers:
                await publisher.stop()
            while slow.subscription.backlog or any(live[0]._shell.machine.peer.footprint().values()):
                await read(slow, slow.subscription.backlog)
                await asyncio.sleep(0.005)
            assert len(slow.received) >= sum(counts)

    run(main())


def test_a_publisher_goes_on_as_fast_as_the_slowest_reads() -> None:
    async def main() -> None:
        async with Live(2, limits=SMALL) as live:
            slow = await live.join(1, "slow", reads=False)
            publisher = Publisher(await live.join(0, "slow"))
            for _ in range(10):
                await until(lambda: slow.subscription.backlog >= 20)
                await read(slow, slow.subscription.backlog - 5)
                assert publisher.published <= len(slow.received) + 20 + 10 + 5 + 1
            await publisher.stop()
            await read(slow, slow.subscription.backlog)

    run(main())


def test_a_node_that_does_not_read_its_own_publications_waits_with_a_word_about_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("vcubeps.net.shell._SLOW_WARNING_S", 0.01)

    async def main() -> None:
        async with Live(1, limits=SMALL) as live:
            alone = await live.join(0, "room", reads=False)
            publisher = Publisher(alone)
            await publisher.halts()
            assert alone.subscription.backlog <= 25
            await publisher.stop()
            await read(alone, alone.subscription.backlog)

    run(main())
    assert "messages of its own subscription are unread: read them in another task" in caplog.text


def test_those_who_only_publish_never_wait_for_themselves() -> None:
    async def main() -> None:
        async with Live(2, limits=SMALL) as live:
            subscription = await live[0].subscribe("room", reads=False)
            reader = await live.join(1, "room")
            for number in range(200):
                await subscription.publish(b"%d" % number)
            await until(lambda: len(reader.received) == 200)
            assert subscription.backlog == 0

    run(main())


def test_a_slow_link_halts_the_topics_that_need_it_and_no_other() -> None:
    async def main() -> None:
        async with Live(3, limits=Limits(link_bytes_max=5_500_000), proxied=True) as live:
            pairs = [[await live.join(node, f"one {number}") for node in (0, 1)] for number in range(6)]
            other, _ = [await live.join(node, "two") for node in (0, 2)]
            assert live.proxies is not None
            ways = live.proxies.between(0, 1)
            for way in ways:
                way.hold()
            for pair in pairs:
                await pair[0].publish(b"x" * 1_000_000)
            await until(lambda: live[0]._shell.machine.links.congested == {1})
            publishing = [asyncio.create_task(pair[0].publish(b"waits")) for pair in pairs]
            for number in range(50):
                await (await other.publish(b"%d" % number)).acknowledged()
            assert not any(task.done() for task in publishing)
            for way in ways:
                way.release()
            await asyncio.gather(*publishing)
            await until(lambda: all(len(pair[1].received) == 2 for pair in pairs))
            assert live[0]._shell.machine.links.congested == set()

    run(main())


def test_publishers_that_wait_for_a_congested_link_go_on_when_its_node_is_gone() -> None:
    """Nothing of theirs is under way: only that the member left can tell them."""

    async def main() -> None:
        async with Live(3) as live:
            members = await live.join_all("room")
            await live.settle()
            links = live[0]._shell.machine.links
            await until(lambda: not any(link.outbox for link in links))
            links.congested.add(2)
            publishing = asyncio.create_task(members[0].publish(b"waits"))
            await remains(lambda: not publishing.done(), turns=10)
            await live.crash(2)
            live.suspect(1, 2)
            await publishing

    run(main(), within_s=8.0)


def test_a_subscriber_that_would_rather_be_disconnected_is_with_an_event() -> None:
    async def main() -> None:
        async with Live(2, limits=SMALL) as live:
            slow = await live.join(1, "room", reads=False, slow="disconnect")
            events = slow.subscription.events()
            publisher = await live.join(0, "room")
            for number in range(100):
                await publisher.publish(b"%d" % number)
            ended = [event async for event in events]
            assert ended[-1] == Disconnected("room", slow.subscription.backlog)
            with contextlib.suppress(vcubeps.SlowSubscriber):
                async for message in slow.subscription:
                    slow.received.append(message)
            assert slow.payloads == [b"%d" % number for number in range(len(slow.received))]
            assert 20 < len(slow.received) <= 20 + 5
            with pytest.raises(vcubeps.SlowSubscriber, match='read faster, or subscribe with slow="wait"'):
                await slow.subscription.receive()
            with pytest.raises(vcubeps.SlowSubscriber):
                await slow.subscription.publish(b"too late")
            await until(lambda: publisher.subscription.members == (0,))
            assert live[1]._shell.measures.disconnected_slow == 1

    run(main())


def test_a_slow_subscription_of_the_same_node_does_not_hold_one_that_was_disconnected() -> None:
    async def main() -> None:
        async with Live(2, limits=SMALL) as live:
            fast = await live.join(1, "room")
            slow = await live.join(1, "room", reads=False, slow="disconnect", queue_messages_max=3)
            publisher = await live.join(0, "room")
            for number in range(60):
                await publisher.publish(b"%d" % number)
            await until(lambda: len(fast.received) == 60)
            assert slow.subscription.is_closed
            assert publisher.subscription.members == (0, 1)

    run(main())


def test_leaving_lets_publishers_go_on_that_waited_for_it_to_read() -> None:
    async def main() -> None:
        async with Live(2, limits=SMALL) as live:
            slow = await live.join(1, "room", reads=False)
            publisher = Publisher(await live.join(0, "room"))
            count = await publisher.halts()
            await slow.close()
            await until(lambda: publisher.published > count + 100)
            await publisher.stop()

    run(main())


def test_a_node_taken_for_crashed_while_it_was_full_holds_nobody_afterwards() -> None:
    async def main() -> None:
        async with Live(3, limits=SMALL, timing=FAST) as live:
            slow = await live.join(2, "room", reads=False)
            publisher = Publisher(await live.join(0, "room"))
            await publisher.halts()
            live.suspect(1, 2)
            await until(lambda: live[2].incarnation == 1)
            await read(slow, slow.subscription.backlog)
            await until(lambda: publisher.published > 100 or slow.subscription.backlog > 15)
            await publisher.stop()
            while slow.subscription.backlog or any(live[0]._shell.machine.peer.footprint().values()):
                await read(slow, slow.subscription.backlog)
                await asyncio.sleep(0.005)

    run(main())
