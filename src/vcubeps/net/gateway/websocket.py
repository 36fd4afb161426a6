"""One client on the WebSocket: its operations one after the other, its subscriptions side by side.

Nothing is dropped: while a client is not ready to be sent something, it is not listened to, and its feeds are not taken
from.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import msgspec
from aiohttp import WSCloseCode, WSMsgType, web
from msgspec import UNSET

from vcubeps.net.errors import NodeError
from vcubeps.net.gateway import dialogue
from vcubeps.net.gateway.feeds import Feed
from vcubeps.net.gateway.refusals import Cause, Refused
from vcubeps.net.gateway.shared import Shared
from vcubeps.net.subscription import Receipt

log = logging.getLogger(__name__)

SUBSCRIPTIONS_MAX = 1000
"""Of one client."""

ACKNOWLEDGEMENTS_MAX = 1024
"""Publications of one client whose acknowledgement it waits for; then it is not listened to."""

SILENCE_S_MAX = 60
"""A client whose machine takes nothing of what is sent, or is gone, for this long is ended."""

UNSENT_BYTES_MAX = 128 << 10
"""What the system keeps for a client besides what is on its way to it; by itself it would keep megabytes."""

CLOSE_WITHIN_S = 0.3
"""For a client to answer that it is closing too."""

_FIX = 'send a JSON object with "op": "subscribe", "unsubscribe", "publish" or "members" (docs/reference/gateway.md)'


class Socket(web.WebSocketResponse):
    """Says why it closes when a frame was too large, and counts it."""

    def __init__(self, frame_bytes_max: int, refusals: Counter[str]) -> None:
        super().__init__(timeout=CLOSE_WITHIN_S, compress=False, max_msg_size=frame_bytes_max)
        self._frame_bytes_max = frame_bytes_max
        self._refusals = refusals

    async def close(self, *, code: int = WSCloseCode.OK, message: bytes = b"", drain: bool = True) -> bool:
        if code == WSCloseCode.MESSAGE_TOO_BIG:
            self._refusals[Cause.TOO_LARGE] += 1
            message = f"a frame has more than {self._frame_bytes_max} bytes: send less, or in base64".encode()
        return await super().close(code=code, message=message, drain=drain)


def frame_bytes_max(payload_bytes_max: int) -> int:
    """Room for any payload in base64, and for text that needs few escapes."""
    return 2 * payload_bytes_max + (16 << 10)


class _Reading:
    """A feed of a client, and the task that sends what it gets, once the client knows that it is subscribed."""

    __slots__ = ("feed", "task")

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.task: asyncio.Task[None] | None = None


class Session:
    """A client, from its handshake to its end."""

    def __init__(self, shared: Shared, connection: Socket) -> None:
        self._shared = shared
        self._socket = connection
        self._readings: dict[str, _Reading] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        """Everything that is under way for this client, besides `run`."""
        self._room = asyncio.Semaphore(ACKNOWLEDGEMENTS_MAX)
        self._encode = msgspec.json.Encoder().encode
        self._task = asyncio.current_task()

    @property
    def subscriptions(self) -> int:
        return len(self._readings)

    async def run(self) -> None:
        """Until the client goes, or is ended."""
        try:
            while True:
                frame = await self._socket.receive()
                if frame.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                    return
                await self._shared.operations.wait(len(frame.data))
                await self._handle(frame.data)
        except ConnectionError:
            pass  # it is gone
        finally:
            await self._clean_up()

    async def close(self) -> None:
        """Tell the client that the node closes, and end."""
        reason = f"node {self._shared.node.id} is closing".encode()
        try:
            await self._socket.close(code=WSCloseCode.GOING_AWAY, message=reason, drain=False)
        finally:
            if self._task is not None:
                self._task.cancel()

    async def _clean_up(self) -> None:
        try:
            await self._shared.operations.wait()  # all clients may go at once
        finally:
            for reading in self._readings.values():
                self._shared.topics.drop(reading.feed)
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._readings.clear()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- operations ----------------------------------------------------------------------------

    async def _handle(self, frame: str | bytes) -> None:
        if isinstance(frame, bytes):
            await self._refuse(Cause.MALFORMED, f"a binary frame: {_FIX}, as text", None)
            return
        try:
            operation = dialogue.operation_of(frame)
        except (msgspec.DecodeError, RecursionError) as error:
            await self._refuse(Cause.MALFORMED, f"{error}: {_FIX}", dialogue.id_of(frame))
            return
        try:
            await self._carry_out(operation)
        except Refused as refused:
            await self._refuse(refused.cause, refused.reason, operation.id)
        except NodeError as error:
            await self._refuse(Cause.NOT_UP, str(error), operation.id)

    async def _carry_out(self, operation: dialogue.Operation) -> None:
        match operation:
            case dialogue.Publish():
                await self._publish(operation)
            case dialogue.Subscribe():
                await self._subscribe(operation)
            case dialogue.Unsubscribe():
                await self._unsubscribe(operation)
            case dialogue.Members(topic=topic, id=number):
                await self._send(
                    dialogue.MembersEvent(topic=topic, members=self._shared.members(topic), id=number)
                )

    async def _subscribe(self, operation: dialogue.Subscribe) -> None:
        topic, shared = operation.topic, self._shared
        shared.check_topic(topic)
        shared.check_up()
        if topic in self._readings:
            raise Refused(
                400,
                Cause.TOPIC,
                f"this connection is subscribed to {topic[:50]!r} already: unsubscribe first",
            )
        if len(self._readings) >= SUBSCRIPTIONS_MAX:
            raise Refused(
                503,
                Cause.TOO_MANY,
                f"this connection has {SUBSCRIPTIONS_MAX} subscriptions, which is the most: open another",
            )
        feed, members = await shared.topics.subscribe(topic, operation.encoding, operation.slow == "wait")
        reading = self._readings[topic] = _Reading(feed)
        await self._send(dialogue.SubscribedEvent(topic=topic, members=members, id=operation.id))
        reading.task = self._start(self._pass_on(feed))

    async def _unsubscribe(self, operation: dialogue.Unsubscribe) -> None:
        reading = self._readings.get(operation.topic)
        if reading is None or reading.task is None:
            raise Refused(
                404,
                Cause.NOT_SUBSCRIBED,
                f"this connection is not subscribed to {operation.topic[:50]!r}: subscribe first",
            )
        await self._shared.topics.unsubscribe(reading.feed)
        await asyncio.wait((reading.task,))  # what was told before is sent
        self._readings.pop(operation.topic, None)
        await self._send(dialogue.UnsubscribedEvent(topic=operation.topic, id=operation.id))

    async def _publish(self, operation: dialogue.Publish) -> None:
        payload = _payload(operation)
        receipt = await self._shared.publish(operation.topic, payload)
        accepted = dialogue.AcceptedEvent(
            topic=receipt.topic, source=receipt.source, counter=receipt.counter, id=operation.id
        )
        await self._send(accepted)
        if operation.acknowledged:
            await self._room.acquire()
            self._start(self._tell_acknowledged(receipt, operation.id))

    async def _tell_acknowledged(self, receipt: Receipt, number: dialogue.Id) -> None:
        try:
            await self._shared.wait_acknowledged(receipt)
            await self._send(
                dialogue.AcknowledgedEvent(
                    topic=receipt.topic, source=receipt.source, counter=receipt.counter, id=number
                )
            )
        except Refused as refused:
            await self._refuse(refused.cause, refused.reason, number)
        except ConnectionError:
            pass  # `run` notices too
        finally:
            self._room.release()

    # -- what goes to the client ---------------------------------------------------------------

    async def _pass_on(self, feed: Feed) -> None:
        """Suspended while the client does not take what was sent before: then it costs nothing."""
        try:
            while frames := await feed.take():
                for frame in frames:
                    await self._socket.send_frame(frame, WSMsgType.TEXT)
            if feed.last_words is not None:
                self._readings.pop(feed.topic, None)
                await self._send(feed.last_words)
        except ConnectionError:
            pass  # `run` notices too

    async def _send(self, event: dialogue.Event) -> None:
        """Waits while the client does not take what was sent before."""
        await self._socket.send_frame(self._encode(event), WSMsgType.TEXT)

    async def _refuse(self, cause: Cause, reason: str, number: dialogue.Id) -> None:
        self._shared.refusals[cause] += 1
        log.debug("node %d's gateway refused a client: %s", self._shared.node.id, reason)
        await self._send(dialogue.ErrorEvent(cause=cause.value, reason=reason, id=number))


def _payload(operation: dialogue.Publish) -> bytes:
    text, base64 = operation.text, operation.base64
    if text is not UNSET and base64 is UNSET:
        return text.encode()
    if base64 is not UNSET and text is UNSET:
        return base64
    given = "neither" if text is UNSET else "both"
    raise Refused(
        400, Cause.MALFORMED, f'a publication has "text" or "base64", got {given}: give one of them'
    )


def limit_connection(transport: asyncio.BaseTransport | None) -> None:
    """Have the connection end by itself when the client is gone or takes nothing for `SILENCE_S_MAX`, and the system
    keep little for a client that does not read."""
    connection = None if transport is None else transport.get_extra_info("socket")
    if connection is None:
        return
    for option, value in (
        ("TCP_KEEPIDLE", SILENCE_S_MAX // 2),
        ("TCP_KEEPINTVL", SILENCE_S_MAX // 6),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", SILENCE_S_MAX * 1000),
        ("TCP_NOTSENT_LOWAT", UNSENT_BYTES_MAX),
    ):
        if hasattr(socket, option):  # some are of Linux only
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
