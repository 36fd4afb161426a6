"""How a gateway starts, what it says while its node cannot serve, and how it ends."""

import asyncio
import socket
import subprocess
import sys

import aiohttp
import pytest

from gateways import door_of, serving, unread_until_disconnected
from vcubeps.net.errors import ListenError
from vcubeps.net.events import Joined, Left
from vcubeps.net.gateway import Gateway
from vcubeps.net.incarnation import VolatileIncarnation
from vcubeps.net.node import Node
from vcubeps.net.opening import start_node
from vcubeps.net.shell import Shell
from vcubeps.node.settings import ClusterSettings, NodeSettings


def free_address() -> str:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{sock.getsockname()[1]}"


def test_a_node_that_is_not_let_in_yet_says_so_and_publishes_nothing():
    async def main():
        address, other = free_address(), free_address()
        nodes = (NodeSettings(id=0, address=address), NodeSettings(id=1, address=other))
        incarnations = VolatileIncarnation(0)
        incarnations.next()
        shell = Shell(ClusterSettings(cluster="c", nodes=nodes), 0, incarnations)
        node = Node(shell)
        await shell.sockets.listen(address)
        shell.start()
        async with door_of(node) as door:
            answers = [
                await door.ask("GET", "/healthz"),
                await door.ask("POST", "/topics/t"),
                await door.ask("GET", "/status"),
            ]
        await node.close()
        return answers

    health, publish, status = asyncio.run(main())

    assert health[0] == 503
    assert health[1]["status"] == "starting"
    assert "node 0 waits for the other nodes to let it in: try again" in health[1]["reason"]
    assert (publish[0], publish[1]["cause"]) == (503, "not-up")
    assert status[1]["up"] is False


def test_a_node_starts_its_gateway_from_its_settings_and_ends_it():
    async def main():
        door = free_address()
        nodes = (NodeSettings(id=0, address=free_address(), gateway=door),)
        node = await start_node(
            ClusterSettings(cluster="c", nodes=nodes), 0, VolatileIncarnation(0), None, None
        )
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://{door}/healthz") as response:
                health = response.status, await response.json()
            await node.close()
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get(f"http://{door}/healthz")
        return health

    assert asyncio.run(main()) == (200, {"status": "ok", "cluster": "c", "node": 0})


def test_a_port_in_use_is_told_with_the_fix():
    async def main():
        async with serving(1) as door:
            with pytest.raises(ListenError) as caught:
                await Gateway.start(door.cluster[0], f"127.0.0.1:{door.gateway.port}")
            return str(caught.value)

    text = asyncio.run(main())

    assert text.startswith("the gateway of node 0 cannot listen on 127.0.0.1:")
    assert "the port is in use" in text
    assert "another address" in text


def test_the_runtime_does_not_load_the_libraries_of_the_gateway():
    code = (
        "import sys, vcubeps; vcubeps.open, vcubeps.LocalCluster; "
        "print([name for name in ('aiohttp', 'prometheus_client') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_a_node_that_has_failed_says_so_and_ends_the_subscriptions_of_its_clients():
    async def main():
        async with serving(1) as door, door.talk() as talk:
            await talk.ask(op="subscribe", topic="room")
            door.cluster[0]._shell.machine.standing.fail("node 0 cannot take part: its id is taken", True)
            ended = await talk.hear_any()
            refused = await talk.ask(op="publish", topic="room", text="x")
            return ended, refused, await door.ask("GET", "/healthz"), await door.ask("GET", "/status")

    ended, refused, (code, health), (_, status) = asyncio.run(main())

    reason = "node 0 cannot take part: its id is taken"
    assert ended == {"event": "ended", "topic": "room", "reason": reason}
    assert (refused["cause"], refused["reason"]) == ("not-up", reason)
    assert (code, health["status"], health["reason"]) == (503, "failed", reason)
    assert (status["up"], status["failure"]) == (False, reason)


def test_closing_tells_clients_why_takes_no_time_and_leaves_nothing_behind():
    async def main():
        async with serving(2, queue_messages_max=8) as door, door.talk() as idle, door.talk() as stuck:
            await idle.ask(op="subscribe", topic="quiet")
            await stuck.ask(op="subscribe", topic="room")
            await unread_until_disconnected(door.cluster)
            posting = asyncio.create_task(post_without_a_body(door.gateway))
            while not door.gateway._doors._requests:
                await asyncio.sleep(0)
            loop = asyncio.get_running_loop()
            before_s = loop.time()
            await door.gateway.close()
            await door.cluster.close()
            took_s = loop.time() - before_s
            closed, posted = await idle.receive(), await posting
        left = asyncio.all_tasks() - {asyncio.current_task()}
        return took_s, closed, posted, left

    took_s, closed, posted, left = asyncio.run(main())

    assert took_s < 2
    assert (closed.data, closed.extra) == (1001, "node 0 is closing")
    assert b"503" in posted.splitlines()[0]
    assert b"node 0 is closing: use another node" in posted
    assert not left


async def post_without_a_body(gateway: Gateway) -> bytes:
    """The answer to a request that announces a body and does not send it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(b"POST /topics/t HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer


def test_a_client_that_goes_takes_its_subscriptions_with_it():
    async def main():
        async with serving(2) as door, door.cluster[1].subscribe("room") as room:
            events = room.events()
            async with door.talk() as talk:
                await talk.ask(op="subscribe", topic="room")
                joined = await anext(events)
            return joined, await anext(events)

    assert asyncio.run(main()) == (Joined("room", 0), Left("room", 0))
