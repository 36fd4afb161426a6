"""Closing a node: it ends whatever happens meanwhile, says what was not acknowledged, and can be asked for twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import vcubeps
from net.live import run, until
from vcubeps.net.config import ConfigError
from vcubeps.node.lifecycle import Life

PUBLICATIONS = 20


@asynccontextmanager
async def one_that_waits_to_be_acknowledged() -> AsyncIterator[tuple[vcubeps.Node, vcubeps.Node]]:
    """The first node's publications are not acknowledged, because the application of the second does not read."""
    async with vcubeps.LocalCluster(2) as cluster:
        room = await cluster[0].subscribe("room", reads=False)
        unread = await cluster[1].subscribe("room", queue_messages_max=1)
        for number in range(PUBLICATIONS):
            await room.publish(b"%d" % number)
        await until(lambda: unread.backlog > 0)
        yield cluster[0], cluster[1]


async def begun(node: vcubeps.Node) -> asyncio.Task[None]:
    closing = asyncio.create_task(node.close())
    await until(lambda: node._shell.machine.life is Life.CLOSING)
    return closing


def test_a_node_that_fails_while_it_is_closed_ends_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def store(incarnation: int) -> None:
        raise ConfigError("the disk is full")

    async def main() -> None:
        async with one_that_waits_to_be_acknowledged() as (node, other):
            closing = await begun(node)
            monkeypatch.setattr(node._shell._incarnations, "store", store)
            other.declare_dead(0)
            with pytest.raises(vcubeps.NodeError, match="cannot go on as incarnation 1: the disk is full"):
                await closing
            assert node.status().life == "failed"
            await node.close()

    run(main())


def test_whoever_closes_a_node_that_is_being_closed_waits_for_the_same_end() -> None:
    async def main() -> None:
        async with one_that_waits_to_be_acknowledged() as (node, _):
            first = await begun(node)
            second = asyncio.create_task(node.close())
            results = await asyncio.gather(first, second, return_exceptions=True)
            assert [type(result) for result in results] == [vcubeps.Unacknowledged] * 2
            assert node._shell.machine.life is Life.CLOSED
            await node.close()

    run(main())


def test_what_was_under_way_when_a_node_had_to_start_again_while_it_was_closed_is_said() -> None:
    async def main() -> None:
        async with one_that_waits_to_be_acknowledged() as (node, other):
            closing = await begun(node)
            other.declare_dead(0)
            with pytest.raises(
                vcubeps.Unacknowledged, match=r"\d+ on 'room' were accepted and not acknowl"
            ) as e:
                await closing
            assert 0 < int(str(e.value).split("publications: ")[1].split()[0]) <= PUBLICATIONS

    run(main())
