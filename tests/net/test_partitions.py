"""Networks that are cut, on real sockets: who goes on, who says that it is isolated, who relays."""

from __future__ import annotations

import asyncio

import pytest

import vcubeps
from net.live import Live, impatient, run, until
from vcubeps.net.node import Opening
from vcubeps.node.connection import NOBODY


def cut_off(live: Live, node: int) -> list[tuple[int, int]]:
    """Nothing passes between `node` and all others; the pairs."""
    pairs = [(node, other) for other in range(len(live.addresses)) if other != node]
    assert live.proxies is not None
    for one, other in pairs:
        for way in live.proxies.between(one, other):
            way.hold()
    return pairs


def heal(live: Live, pairs: list[tuple[int, int]]) -> None:
    assert live.proxies is not None
    for one, other in pairs:
        for way in live.proxies.between(one, other):
            way.cut()  # what was held is lost: links send it again
            way.release()


def test_a_node_that_is_cut_off_says_so_and_alone_starts_again() -> None:
    async def main() -> None:
        async with Live(3, proxied=True, partition="majority", detection=impatient(0.4)) as live:
            members = await live.join_all("room")
            events = members[2].subscription.events()
            pairs = cut_off(live, 2)
            await until(lambda: live[2].status().life == "isolated")

            with pytest.raises(vcubeps.Isolated, match="node 2 is in contact with no quorum of the voters"):
                await members[2].publish(b"alone")
            with pytest.raises(vcubeps.Isolated):
                await live[2].subscribe("other")
            with pytest.raises(vcubeps.Isolated):
                live[2].declare_dead(0)
            assert [topic.topic for topic in live[2].status().topics] == ["room"], (
                "what was refused leaves nothing"
            )
            shell = live[2]._shell
            assert {"other"}.isdisjoint({*shell.receipts, *shell._joins, *shell.watch._asked})
            await (await members[0].publish(b"we go on")).acknowledged()
            assert live[0].members("room") == (0, 1)

            heal(live, pairs)
            await until(lambda: live[0].members("room") == (0, 1, 2), "all to be members again")
            assert [live[node].incarnation for node in range(3)] == [0, 0, 1]
            while not isinstance(event := await anext(events), vcubeps.Gap):
                pass
            assert event.topic == "room"
            assert live[2].members("room") == (0, 1, 2), "the gap is told when the subscription is in effect"

    run(main())


def test_an_application_may_wait_until_its_node_is_in_contact_again() -> None:
    async def main() -> None:
        async with Live(3, proxied=True, partition="majority", detection=impatient(0.4)) as live:
            members = await live.join_all("room")
            patient = await live[2].subscribe("room", when_isolated="wait")
            pairs = cut_off(live, 2)
            await until(lambda: live[2].status().life == "isolated")

            publishing = asyncio.create_task(patient.publish(b"later"))
            joining = asyncio.create_task(joined(live[2].subscribe("other", when_isolated="wait")))
            await until(lambda: len(live[2]._shell._contacts) == 2)
            heal(live, pairs)

            await (await publishing).acknowledged()
            other = await joining
            assert other.members == (2,)
            await until(lambda: b"later" in members[0].payloads, "it to arrive")

    run(main())


def test_whoever_waits_for_contact_finds_out_that_the_subscription_has_ended_meanwhile() -> None:
    async def main() -> None:
        async with Live(3, proxied=True, partition="majority", detection=impatient(0.4)) as live:
            await live.join_all("room")
            patient = await live[2].subscribe("room", when_isolated="wait")
            pairs = cut_off(live, 2)
            await until(lambda: live[2].status().life == "isolated")
            publishing = asyncio.create_task(patient.publish(b"never"))
            await until(lambda: bool(live[2]._shell._contacts))

            await patient.close()
            heal(live, pairs)

            with pytest.raises(vcubeps.SubscriptionClosed):
                await publishing

    run(main())


async def joined(opening: Opening[vcubeps.Subscription]) -> vcubeps.Subscription:
    return await opening


def test_two_nodes_that_do_not_reach_each_other_talk_through_the_third() -> None:
    async def main() -> None:
        async with Live(3, proxied=True, partition="majority", detection=impatient(0.6)) as live:
            members = await live.join_all("room")
            assert live.proxies is not None
            ways = live.proxies.between(1, 2)
            for way in ways:
                way.hold()

            await (await members[1].publish(b"round about")).acknowledged()

            link = live[1]._shell.machine.links.link(2)
            assert link.connection is not None
            assert link.connection.via == 0
            assert [link.relay for link in live[1].status().links if link.node == 2] == [0]
            assert [live[node].incarnation for node in range(3)] == [0, 0, 0]
            for way in ways:
                way.cut()
                way.release()
            await until(
                lambda: (c := live[1]._shell.machine.links.link(2).connection) is not None and c.via == NOBODY
            )

    run(main())
