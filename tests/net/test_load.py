"""Many topics, large payloads, and seeded churn with faults, all on live nodes."""

from __future__ import annotations

import asyncio
import os
import random

import pytest

from net.live import Live, Member, run, until
from vcubeps.node.settings import Limits

ROUNDS = 120
SEEDS = [int(os.environ["VCUBEPS_CHURN_SEED"])] if "VCUBEPS_CHURN_SEED" in os.environ else range(4)


def test_two_thousand_topics_at_once() -> None:
    async def main() -> None:
        async with Live(4) as live:
            topics = [f"topic {number}" for number in range(2_000)]
            pairs = [(number % 4, (number + 1 + number // 4 % 3) % 4) for number in range(len(topics))]
            joined = await asyncio.gather(
                *(live.join(node, topic) for topic, pair in zip(topics, pairs, strict=True) for node in pair)
            )
            receipts = [await member.publish(member.subscription.topic.encode()) for member in joined]
            await asyncio.gather(*(receipt.acknowledged() for receipt in receipts))
            await until(lambda: all(len(member.received) == 2 for member in joined))
            assert all(set(member.payloads) == {member.subscription.topic.encode()} for member in joined)
            await asyncio.gather(*(member.close() for member in joined))
            assert all(not node._shell.machine.memberships.topics for node in live.nodes.values())

    run(main(), within_s=60.0)


def test_the_largest_payloads_arrive_intact_in_both_directions_at_once() -> None:
    async def main() -> None:
        async with Live(4, limits=Limits(link_bytes_max=4 << 20)) as live:
            members = await live.join_all("room")
            size = Limits().payload_bytes_max
            payloads = [random.Random(number).randbytes(size) for number in range(8)]

            async def publish(member: Member, mine: list[bytes]) -> None:
                for payload in mine:
                    await member.publish(payload)

            await asyncio.gather(*(publish(members[node], payloads[node::4]) for node in range(4)))
            await until(lambda: all(len(member.received) == 8 for member in members))
            assert all(sorted(member.payloads) == sorted(payloads) for member in members)

    run(main())


def test_unsubscribing_while_everyone_publishes() -> None:
    async def main() -> None:
        async with Live(4) as live:
            members = await live.join_all("room")
            stop = asyncio.Event()

            async def publish_on(member: Member) -> None:
                number = 0
                while not stop.is_set():
                    await member.publish(b"%d" % number)
                    number += 1
                    await asyncio.sleep(0)

            publishing = [asyncio.create_task(publish_on(member)) for member in members[:2]]
            for _ in range(15):
                seen = len(members[2].received)
                await until(lambda seen=seen: len(members[2].received) > seen + 10)
                await members[2].close()
                members[2] = await live.join(2, "room")
            stop.set()
            await asyncio.gather(*publishing)

    run(main())


class Churn:
    """Nodes join, leave and publish, and connections are cut, as a seed says; with `crashes` nodes crash and come back,
    and are taken for crashed though they live."""

    def __init__(self, live: Live, seed: int, crashes: bool) -> None:
        self._live = live
        self._crashes = crashes
        self._dice = random.Random(seed)
        self._members: dict[tuple[int, str], Member] = {}
        self._published = 0

    async def run(self) -> None:
        dice = self._dice
        for _ in range(ROUNDS):
            topic, node = dice.choice("ab"), dice.randrange(4)
            changes = [self._turn(node, topic)] if dice.random() < 0.4 else []
            await asyncio.gather(
                *changes, *(self._publish() for _ in range(dice.randrange(12))), self._fault()
            )
            if self._crashes and dice.random() < 0.1:
                await self._crash(dice.randrange(4))
        assert self._live.proxies is not None
        for way in self._live.proxies.ways.values():
            way.delay_s, way.budget_bytes = 0.0, None
            way.release()

    async def _crash(self, node: int) -> None:
        live = self._live
        if self._dice.random() < 0.5:
            live.suspect((node + 1) % 4, node)
            return
        await live.crash(node)
        for key in [key for key in self._members if key[0] == node]:
            del self._members[key]
        await live.start(node)

    async def _turn(self, node: int, topic: str) -> None:
        member = self._members.pop((node, topic), None)
        if member is not None:
            await member.close()
        else:
            self._members[node, topic] = await self._live.join(node, topic)

    async def _publish(self) -> None:
        members = list(self._members.values())
        if members:
            self._published += 1
            number, size = self._published, self._dice.choice([0, 10, 3_000])
            member = self._dice.choice(members)
            if not member.subscription.is_closed:
                await member.publish(b"%d." % number + b"x" * size)

    async def _fault(self) -> None:
        assert self._live.proxies is not None
        dice = self._dice
        way = dice.choice(list(self._live.proxies.ways.values()))
        match dice.randrange(6):
            case 0:
                way.cut()
            case 1:
                way.budget_bytes = dice.randrange(1, 3_000)
            case 2:
                way.delay_s = dice.choice([0.0, 0.001, 0.003])
            case 3 if way.passages:
                passage = dice.choice(way.passages)
                passage.hold()
                asyncio.get_running_loop().call_later(dice.choice([0.005, 0.03]), passage.release)
            case 4 if way.passages:
                passage = dice.choice(way.passages)
                passage.lose_at_dialler()
                asyncio.get_running_loop().call_later(0.02, passage.release)


@pytest.mark.parametrize("crashes", [False, True], ids=["no crashes", "crashes"])
@pytest.mark.parametrize("seed", SEEDS)
def test_joins_leaves_publications_and_cuts_by_seed(seed: int, crashes: bool) -> None:
    async def main() -> None:
        async with Live(4, proxied=True) as live:
            await Churn(live, seed, crashes).run()

    try:
        run(main(), within_s=40.0)
    except BaseException:
        print(f"again: VCUBEPS_CHURN_SEED={seed} pytest tests/net/test_load.py -k by_seed")
        raise
