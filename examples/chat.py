"""A chat in the terminal: everybody who takes part is a node, and nobody runs a server.

    python examples/chat.py --config chat.toml --node 0 --name ada

Lines that you type go to everybody in the room; what they answer never shows before what it answers. An empty line, or
the end of the input, leaves. `--make chat.toml` writes a cluster file for a try on one machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from pathlib import Path

import vcubeps

CLUSTER_FILE = """\
cluster = "chat"
state_dir = "chat-state"
"""


async def chat(config: str, number: int, name: str, room: str) -> None:
    async with vcubeps.open(config, node=number) as node, node.subscribe(room, codec="json") as talk:
        print(f"* you are in {room!r} with nodes {list(talk.members)}", flush=True)
        reading = [
            asyncio.create_task(show(talk, number)),
            asyncio.create_task(tell_who_comes_and_goes(talk)),
        ]
        receipt = None
        try:
            async for line in lines_of_stdin():
                if not line:
                    break
                receipt = await talk.publish({"name": name, "text": line})
            if receipt is not None:
                await receipt.acknowledged()  # do not leave before everybody has what was said last
        finally:
            for task in reading:
                task.cancel()


async def show(talk: vcubeps.Subscription, me: int) -> None:
    async for message in talk:
        if message.source != me:
            print(f"{message.value['name']}: {message.value['text']}", flush=True)


async def tell_who_comes_and_goes(talk: vcubeps.Subscription) -> None:
    async for event in talk.events():
        print(f"* {event}", flush=True)


async def lines_of_stdin():
    """Lines as they are typed, without a thread that would have to be waited for at the end."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    except ValueError:  # a file, which is there at once
        for line in sys.stdin:
            yield line.strip()
        return
    while line := await reader.readline():
        yield line.decode(errors="replace").strip()


def make(file: str, nodes: int, base_port: int) -> None:
    """A cluster file for `nodes` people on one machine."""
    tables = [f'[[nodes]]\nid = {i}\naddress = "127.0.0.1:{base_port + i}"\n' for i in range(nodes)]
    Path(file).write_text("\n".join([CLUSTER_FILE, *tables]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A chat among peers, in the terminal.")
    parser.add_argument("--make", metavar="FILE", help="write a cluster file for one machine, and end")
    parser.add_argument("--people", type=int, default=3, help="for --make (default: 3)")
    parser.add_argument("--base-port", type=int, default=7400, help="for --make (default: 7400)")
    parser.add_argument("--config", default="chat.toml", help="the cluster file (default: chat.toml)")
    parser.add_argument("--node", type=int, default=0, help="which node of it you are (default: 0)")
    parser.add_argument("--name", default="somebody")
    parser.add_argument("--room", default="lobby")
    arguments = parser.parse_args()
    if arguments.make:
        make(arguments.make, arguments.people, arguments.base_port)
        sys.exit()
    with contextlib.suppress(KeyboardInterrupt):
        try:
            asyncio.run(chat(arguments.config, arguments.node, arguments.name, arguments.room))
        except (vcubeps.ConfigError, vcubeps.UsageError, vcubeps.NodeError, OSError) as error:
            sys.exit(f"chat: {error}")
