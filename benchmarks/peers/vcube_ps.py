"""VCube-PS itself: every member a node; no server, causal order, acknowledgements and flow control on."""

from __future__ import annotations

import asyncio

import vcubeps
from peers.asyncio_member import AsyncioMember
from peers.place import TOPIC
from vcubeps.net.incarnation import VolatileIncarnation
from vcubeps.net.loops import keep_freed_memory
from vcubeps.net.opening import start_node


class Member(AsyncioMember):
    """A node delivers its own publications too; they are left out, as with the other systems.

    Where latency counts, `on_message` is the application, or, as variant `in a task`, a task that reads.
    """

    async def open(self) -> None:
        keep_freed_memory()
        ports = self.place.ports
        settings = vcubeps.ClusterSettings(
            cluster="benchmark",
            nodes=tuple(
                vcubeps.NodeSettings(id=number, address=f"127.0.0.1:{port}")
                for number, port in enumerate(ports)
            ),
        )
        me = self.place.me
        self._node = await start_node(settings, me, VolatileIncarnation(me), None, None)
        deliver = self._deliver = self.deliver if self.place.variant != "in a task" else None
        self._subscription = await self._node.subscribe(
            TOPIC,
            on_message=(lambda message: deliver([message.payload]) if message.source != me else None)
            if deliver
            else None,
        )

    async def publish(self, payload: bytes) -> None:
        await self._subscription.publish(payload)

    async def receive_batch(self) -> list[bytes]:
        if self._deliver is not None:
            await asyncio.get_running_loop().create_future()  # there is nothing to be read
        me = self.place.me
        return [
            message.payload for message in await self._subscription.receive_batch() if message.source != me
        ]

    async def close(self) -> None:
        await self._node.close()
