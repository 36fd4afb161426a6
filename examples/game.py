"""A small game loop with one hot topic: players run about on a grid, and one of them is "it".

    python examples/game.py [--players 4] [--ticks 60] [--rate 30]

Every player has a copy of the whole world, changed only by what is delivered. A player's moves come in their order.
Who is "it" passes from hand to hand, and each tag answers the one before: causal order makes every copy see the same
history of tags, without a server that decides, although nobody orders the moves of different players.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time

import vcubeps

SIDE = 16


class World:
    """One player's copy of the game."""

    def __init__(self, players: int) -> None:
        self.places = {player: (player * 3 % SIDE, player * 5 % SIDE) for player in range(players)}
        self.tags = [0]
        """Everybody who has been "it", in order."""

    def change(self, player: int, post: dict) -> None:
        if "move" in post:
            x, y = self.places[player]
            dx, dy = post["move"]
            self.places[player] = (x + dx) % SIDE, (y + dy) % SIDE
        else:
            self.tags.append(post["tag"])

    def nearest(self, me: int) -> int:
        def distance(player: int) -> int:
            return sum(abs(a - b) for a, b in zip(self.places[player], self.places[me], strict=True))

        return min((player for player in self.places if player != me), key=distance)


async def play(node: vcubeps.Node, ticks: int, rate: float) -> dict:
    me, players, chance = node.id, len(node.nodes), random.Random(node.id)
    world, latencies_ms, done = World(players), [], set()
    async with node.subscribe("world", codec="msgpack") as hot:
        while len(hot.members) < players:
            await asyncio.sleep(0.01)

        async def follow() -> None:
            async for message in hot:
                if message.source != me:
                    latencies_ms.append((time.time() - message.published_at) * 1000)
                if message.value == {"done": True}:
                    done.add(message.source)
                    if len(done) == players:
                        return
                    continue
                world.change(message.source, message.value)

        following = asyncio.create_task(follow())
        for _ in range(ticks):
            await hot.publish({"move": [chance.randint(-1, 1), chance.randint(-1, 1)]})
            if world.tags[-1] == me:
                await hot.publish({"tag": world.nearest(me)})
                while world.tags[-1] == me:  # until this copy of the world has it
                    await asyncio.sleep(0)
            await asyncio.sleep(1 / rate)
        await hot.publish({"done": True})
        await following
    return {"places": world.places, "tags": world.tags, "latencies_ms": latencies_ms}


async def main(players: int, ticks: int, rate: float) -> int:
    async with vcubeps.LocalCluster(players) as cluster:
        copies = await cluster.run(play, ticks, rate)
    latencies_ms = sorted(latency for copy in copies for latency in copy["latencies_ms"])
    print(f"{len(copies[0]['tags']) - 1} tags: {' → '.join(map(str, copies[0]['tags'][:20]))} …")
    print(f"latency: median {latencies_ms[len(latencies_ms) // 2]:.2f} ms, worst {latencies_ms[-1]:.1f} ms")
    agree = all(
        copy["tags"] == copies[0]["tags"] and copy["places"] == copies[0]["places"] for copy in copies
    )
    print("all copies of the world are the same" if agree else "the copies of the world differ!")
    return 0 if agree else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A game loop with one hot topic.")
    parser.add_argument("--players", type=int, default=4)
    parser.add_argument("--ticks", type=int, default=60)
    parser.add_argument("--rate", type=float, default=30, help="ticks per second")
    arguments = parser.parse_args()
    sys.exit(asyncio.run(main(arguments.players, arguments.ticks, arguments.rate)))
