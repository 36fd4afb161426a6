"""Gateways for tests, and a client on the WebSocket that says and hears plain JSON."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
from prometheus_client.parser import text_string_to_metric_families

from vcubeps import Limits, LocalCluster
from vcubeps.net.gateway import Gateway
from vcubeps.net.node import Node


class Door:
    """A gateway with a client of it; `cluster` where it has one of its own."""

    def __init__(self, gateway: Gateway, session: aiohttp.ClientSession) -> None:
        self.gateway = gateway
        self._session = session

    cluster: LocalCluster

    async def ask(self, method: str, path: str, **more: Any) -> tuple[int, Any]:
        """Status and JSON."""
        async with self._session.request(method, path, **more) as response:
            return response.status, await response.json()

    async def text(self, path: str, **headers: str) -> str:
        async with self._session.get(path, headers=headers) as response:
            return await response.text()

    async def metrics(self) -> dict[tuple[str, str], float]:
        """Name and value of the last label → value."""
        return {
            (sample.name, next(reversed(sample.labels.values()), "")): sample.value
            for family in text_string_to_metric_families(await self.text("/metrics"))
            for sample in family.samples
        }

    def talk(self, headers: dict[str, str] | None = None) -> "Talk":
        return Talk(self.gateway, headers)


@contextlib.asynccontextmanager
async def serving(nodes: int, **limits: int) -> AsyncIterator[Door]:
    """A cluster and the gateway of its node 0."""
    async with LocalCluster(nodes, limits=Limits(**limits)) as cluster, door_of(cluster[0]) as door:
        door.cluster = cluster
        yield door


@contextlib.asynccontextmanager
async def door_of(node: Node) -> AsyncIterator[Door]:
    gateway = await Gateway.start(node, "127.0.0.1:0")
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{gateway.port}") as session:
            yield Door(gateway, session)
    finally:
        await gateway.close()


class Talk:
    """A WebSocket connection to a gateway."""

    def __init__(self, gateway: Gateway, headers: dict[str, str] | None) -> None:
        self._url = f"http://127.0.0.1:{gateway.port}/ws"
        self._headers = headers

    async def __aenter__(self) -> "Talk":
        self._session = aiohttp.ClientSession()
        try:
            self._socket = await self._session.ws_connect(self._url, headers=self._headers, max_msg_size=0)
        except BaseException:
            await self._session.close()
            raise
        self.receive = self._socket.receive
        self.send_text = self._socket.send_str
        self.send_bytes = self._socket.send_bytes
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._socket.close()
        await self._session.close()

    async def send(self, **operation: Any) -> None:
        await self._socket.send_str(msgspec.json.encode(operation).decode())

    async def hear_any(self) -> dict[str, Any]:
        return msgspec.json.decode(await self._socket.receive_str())

    async def hear(self, event: str) -> dict[str, Any]:
        """The next event, which must be of this kind."""
        heard = await self.hear_any()
        assert heard["event"] == event, heard
        return heard

    async def ask(self, **operation: Any) -> dict[str, Any]:
        """Send an operation, hear what is said next."""
        await self.send(**operation)
        return await self.hear_any()


async def unread_until_disconnected(cluster: LocalCluster) -> int:
    """Publish on "room" at node 1 until a client of node 0, which reads nothing, is disconnected."""
    payload, sent = b"x" * 60_000, 0
    async with cluster[1].subscribe("room", reads=False) as room:
        while cluster[0]._shell.measures.disconnected_slow == 0:
            receipt = await room.publish(payload)
            await receipt.acknowledged()
            sent += 1
    return sent
