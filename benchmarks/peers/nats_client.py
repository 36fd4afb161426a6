"""NATS: core publish/subscribe through one nats-server; nats-py on asyncio."""

from __future__ import annotations

import asyncio
from pathlib import Path

import nats
from nats.aio.msg import Msg

from peers.asyncio_member import AsyncioMember
from peers.place import TOPIC


class Member(AsyncioMember):
    """The server does not send a member its own messages."""

    async def open(self) -> None:
        self._arrived: list[bytes] = []
        self._some = asyncio.Event()
        self._connection = await nats.connect(
            f"nats://127.0.0.1:{self.place.server_port}",
            no_echo=True,
            allow_reconnect=False,
            skip_subject_validation=True,
        )
        await self._connection.subscribe(TOPIC, cb=self._note)

    async def _note(self, message: Msg) -> None:
        if self.deliver is not None:
            self.deliver([message.data])
            return
        self._arrived.append(message.data)
        self._some.set()

    async def publish(self, payload: bytes) -> None:
        await self._connection.publish(TOPIC, payload)

    async def receive_batch(self) -> list[bytes]:
        await self._some.wait()
        self._some.clear()
        arrived, self._arrived = self._arrived, []
        return arrived

    async def close(self) -> None:
        await self._connection.close()


def server_command(port: int, folder: Path, variant: str) -> list[str]:
    return ["nats-server", "--addr", "127.0.0.1", "--port", str(port)]
