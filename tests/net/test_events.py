"""What a node tells of itself and of others: suspicions, crashes, returns, isolation, with the evidence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import vcubeps
from net.live import Live, impatient, run, until
from vcubeps.net.event_queue import EventQueue


async def _up_to_a_crash(events: AsyncIterator[vcubeps.NodeEvent]) -> AsyncIterator[Any]:
    async for event in events:
        yield event
        if isinstance(event, vcubeps.Crashed):
            return


def test_a_node_that_dies_is_suspected_then_counts_as_crashed_with_the_evidence() -> None:
    async def main() -> None:
        async with Live(4, detection=impatient(0.3)) as live:
            await live.join_all("room")
            told = live[0].events()
            await live.crash(3)
            async with asyncio.timeout(10):
                *suspicions, crash = [event async for event in _up_to_a_crash(told)]
            assert {event.node for event in suspicions} <= {3}
            assert all(set(event.asked) <= {1, 2} for event in suspicions)
            assert (crash.node, crash.incarnation) == (3, 0)
            assert "it has not answered for" in crash.evidence or crash.evidence == "other nodes have said so"
            await until(lambda: live[0].members("room") == (0, 1, 2))

    run(main())


def test_a_subscriber_tells_a_leave_from_a_crash() -> None:
    async def main() -> None:
        async with Live(3) as live:
            members = await live.join_all("room")
            events = members[0].subscription.events()
            await members[1].close()
            assert await anext(events) == vcubeps.Left("room", 1, crashed=False)
            await live.crash(2)
            live.suspect(0, 2)
            assert await anext(events) == vcubeps.Left("room", 2, crashed=True)

    run(main())


def test_a_node_that_is_declared_dead_comes_back_as_its_next_incarnation() -> None:
    async def main() -> None:
        async with Live(3) as live:
            await live.join_all("room")
            events = live[0].events()
            live[0].declare_dead(2)
            assert await anext(events) == vcubeps.Crashed(2, 0, "an operator has said so")
            assert await anext(events) == vcubeps.Recovered(2, 1)
            await until(lambda: live[2].incarnation == 1 and live[0].members("room") == (0, 1, 2))

    run(main())


@pytest.mark.parametrize("node", [0, 7])
def test_only_other_nodes_of_the_file_can_be_declared_dead(node: int) -> None:
    async def main() -> None:
        async with Live(2) as live:
            with pytest.raises(vcubeps.UsageError, match=f"node {node} cannot be declared dead here"):
                live[0].declare_dead(node)

    run(main())


def test_the_events_of_a_node_end_with_it() -> None:
    async def main() -> None:
        async with Live(1) as live:
            events = live[0].events()
            await live.close(0)
            lives = [event.life async for event in events if isinstance(event, vcubeps.LifeChanged)]
            assert lives == ["closing", "closed"]
            assert [event async for event in events] == []

    run(main())


def test_two_readers_of_one_iterator_share_its_events_and_both_end() -> None:
    async def main() -> None:
        queue: EventQueue[int] = EventQueue()

        async def read() -> list[int]:
            return [event async for event in queue]

        readers = [asyncio.create_task(read()) for _ in range(2)]
        await asyncio.sleep(0)
        for number in range(4):
            queue.put(number)
            await asyncio.sleep(0)
        queue.end()
        async with asyncio.timeout(5):
            assert sorted(each for part in await asyncio.gather(*readers) for each in part) == [0, 1, 2, 3]

    run(main())
