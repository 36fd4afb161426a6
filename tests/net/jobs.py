"""What nodes in processes of their own do in tests. In a module that those processes can import.

They talk to the test through files of one directory: names of files say what has happened, contents how often.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
from pathlib import Path

import vcubeps
from net.live import Record
from net.live_judge import Seen
from vcubeps.net.events import Gap

_PACE_S = 0.002


async def _until_there(*files: Path) -> None:
    while not all(file.exists() for file in files):
        await asyncio.sleep(_PACE_S)


def count_in(file: Path) -> int:
    """How often something has happened; written by renaming, so never half."""
    return int(file.read_text()) if file.exists() else 0


class _Count:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._count = 0

    def add(self) -> None:
        self._count += 1
        fresh = self._file.with_suffix(".new")
        fresh.write_text(str(self._count))
        fresh.rename(self._file)


async def _publish_on(subscription: vcubeps.Subscription, directory: Path, count: _Count) -> None:
    """Publish until the file `stop` is there; end when all is acknowledged."""
    receipt = None
    while not (directory / "stop").exists():
        receipt = await subscription.publish(b"x" * 500)
        count.add()
        await asyncio.sleep(_PACE_S)
    if receipt is not None:
        await receipt.acknowledged()


async def _read(subscription: vcubeps.Subscription) -> None:
    with contextlib.suppress(vcubeps.NodeError):
        async for _ in subscription:
            pass


async def publish_on_topics(
    node: vcubeps.Node, directory: Path, topics: dict[str, tuple[int, ...]]
) -> list[Seen]:
    """Topic → its members, of which the first publishes until the file `stop` is there. Returns what the node did.

    With the file `ready-N` node N says that it is a member everywhere; `gap-N` says that it has had a gap.
    """
    record = Record()
    record.follow(node)
    mine = [topic for topic, members in topics.items() if node.id in members]
    subscriptions = {topic: await node.subscribe(topic) for topic in mine}
    tasks = [asyncio.create_task(_read(subscription)) for subscription in subscriptions.values()]
    tasks += [
        asyncio.create_task(_note_gaps(each, directory / f"gap-{node.id}")) for each in subscriptions.values()
    ]
    (directory / f"ready-{node.id}").touch()
    await _until_there(*(directory / f"ready-{number}" for number in node.nodes))
    await asyncio.gather(
        *(
            _publish_on(subscriptions[topic], directory, _Count(directory / f"{topic}.count"))
            for topic, members in topics.items()
            if members[0] == node.id
        )
    )
    await _until_there(directory / "stop")
    (directory / f"done-{node.id}").touch()
    # What was published last has been acknowledged, and so received here, when its publisher is done.
    await _until_there(*(directory / f"done-{members[0]}" for members in topics.values()))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    (directory / f"events-{node.id}").write_bytes(pickle.dumps(record.seen))
    return record.seen


async def _note_gaps(subscription: vcubeps.Subscription, file: Path) -> None:
    async for event in subscription.events():
        if isinstance(event, Gap):
            file.touch()


async def raise_in(node: vcubeps.Node, which: int) -> int:
    if node.id == which:
        raise ValueError(f"in node {which}")
    return node.id


async def ring(node: vcubeps.Node, rounds: int) -> tuple[list[Seen], list[bytes]]:
    """Every node answers what the one before it published; returns what it did and what it got."""
    record = Record()
    record.follow(node)
    async with node.subscribe("ring") as room:
        while len(room.members) < len(node.nodes):
            await asyncio.sleep(_PACE_S)
        if node.id == 0:
            await room.publish(b"0")
        got = []
        async for message in room:
            got.append(message.payload)
            step = len(got)
            if step == rounds:
                break
            if step % len(node.nodes) == node.id:
                await room.publish(b"%d" % step)
        while len(room.members) == len(node.nodes) and any(node._shell.machine.peer.footprint().values()):
            await asyncio.sleep(_PACE_S)
    return record.seen, got


async def unpicklable(node: vcubeps.Node) -> object:
    return lambda: node.id


async def wait_for_ever(node: vcubeps.Node) -> None:
    await asyncio.Event().wait()
