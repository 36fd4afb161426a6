"""A client of a gateway, for programs that are not nodes: the commands `pub`, `sub` and `top` stand on it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any, Literal, TypeVar
from urllib.parse import quote, urlsplit

import aiohttp
import msgspec
from yarl import URL

from vcubeps.net.gateway import dialogue
from vcubeps.net.gateway.answers import DeclaredDead, Published
from vcubeps.net.gateway.refusals import Refusal
from vcubeps.net.status import Status
from vcubeps.protocol.errors import UsageError
from vcubeps.protocol.limits import check_topic

_UNANSWERED_MAX = 1024
"""Publications of a stream that may be on their way; then `send` waits."""

_CONNECT_S = 5.0
"""For a connection, and again for a WebSocket on it: a process that hangs takes connections and never answers."""

_Answer = TypeVar("_Answer")


class GatewayError(Exception):
    """The gateway cannot be reached, refuses, or has ended the connection; the text is a sentence for the user."""


class GatewayClient:
    """A way to one gateway. Use it with `async with`."""

    def __init__(self, url: str) -> None:
        """`url` is "http://HOST:PORT", or HOST:PORT."""
        full = url if "://" in url else f"http://{url}"
        try:
            parts = urlsplit(full)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise GatewayError(
                f"{url!r} is not the address of a gateway: give http://HOST:PORT, or HOST:PORT"
            )
        self.url = full.rstrip("/")
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> GatewayClient:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S)
        self._session = aiohttp.ClientSession(timeout=timeout)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._session is not None
        await self._session.close()

    async def status(self) -> Status:
        return await self._ask("GET", "/status", Status)

    async def declare_dead(self, node: int) -> DeclaredDead:
        """Make the gateway's node say that `node` has crashed."""
        return await self._ask("POST", f"/nodes/{node}/declare-dead", DeclaredDead)

    async def publish(self, topic: str, payload: bytes, acknowledged: bool = False) -> Published:
        """Accepted, or with `acknowledged` received by every subscriber, when it returns."""
        _check(topic)
        if topic in (".", ".."):  # a path cannot hold them
            async with self.publish_stream(topic, acknowledged) as stream:
                await stream.send(payload)
            assert stream.last is not None
            return Published(topic, stream.last.source, stream.last.counter, acknowledged)
        query = "?acknowledged=true" if acknowledged else ""
        return await self._ask("POST", f"/topics/{quote(topic, safe='')}{query}", Published, payload)

    async def subscribe(
        self, topics: Sequence[str], slow: Literal["wait", "disconnect"] = "disconnect"
    ) -> AsyncGenerator[dialogue.Event, None]:
        """Everything that happens on `topics`, without end; raises `GatewayError` if the connection ends."""
        for topic in topics:
            _check(topic)
        async with self._connected() as socket:
            for topic in topics:
                await _say(socket, dialogue.Subscribe(topic=topic, encoding="base64", slow=slow))
            while True:
                event = await self._hear(socket)
                if isinstance(event, dialogue.ErrorEvent):
                    raise GatewayError(event.reason)
                yield event

    @contextlib.asynccontextmanager
    async def publish_stream(self, topic: str, acknowledged: bool = False) -> AsyncIterator[PublishStream]:
        """Many publications to one topic, without waiting for each. All are accepted when it ends."""
        _check(topic)
        async with self._connected() as socket:
            stream = PublishStream(self, socket, topic, acknowledged)
            try:
                yield stream
                await stream.drain()
            finally:
                await stream._close()

    # -- inside --------------------------------------------------------------------------------

    async def _ask(self, method: str, path: str, wanted: type[_Answer], body: bytes | None = None) -> _Answer:
        try:
            async with self._opened.request(
                method, URL(self.url + path, encoded=True), data=body
            ) as response:
                answer = await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unreachable(error) from None
        if response.status >= 400:
            raise GatewayError(_reason(answer) or f"{self.url} answered {response.status} {response.reason}")
        try:
            return msgspec.json.decode(answer, type=wanted)
        except msgspec.DecodeError:
            raise GatewayError(f"{self.url} answered what no gateway would: check the address") from None

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator[aiohttp.ClientWebSocketResponse[Any]]:
        try:
            async with asyncio.timeout(_CONNECT_S):
                socket = await self._opened.ws_connect(self.url + "/ws", max_msg_size=0)
        except aiohttp.WSServerHandshakeError as error:
            raise GatewayError(
                f"{self.url} did not open a WebSocket ({error.status}): check the address, and that the gateway has "
                "room for another client"
            ) from None
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unreachable(error) from None
        try:
            yield socket
        finally:
            await socket.close()

    async def _hear(self, socket: aiohttp.ClientWebSocketResponse[Any]) -> dialogue.Event:
        frame = await socket.receive()
        if frame.type is aiohttp.WSMsgType.TEXT:
            return dialogue.event_of(frame.data)
        reason = (
            frame.extra
            if frame.type is aiohttp.WSMsgType.CLOSE and frame.extra
            else "the connection was lost"
        )
        raise GatewayError(f"{self.url} ended the connection: {reason}")

    @property
    def _opened(self) -> aiohttp.ClientSession:
        assert self._session is not None, "use it with `async with`"
        return self._session

    def _unreachable(self, error: Exception) -> GatewayError:
        why = str(error)
        if isinstance(error, TimeoutError):
            why = f"no answer within {_CONNECT_S:g} s"
        elif isinstance(error, aiohttp.ClientConnectorError):
            number = error.os_error.errno or 0
            # The errors of name resolution have negative numbers and texts of their own.
            why = os.strerror(number) if number > 0 else error.os_error.strerror or str(error.os_error)
        return GatewayError(
            f"no gateway to be reached at {self.url}: {why}; check the address, and that its node runs"
        )


class PublishStream:
    """Publications on their way over one WebSocket. Get it from `GatewayClient.publish_stream`."""

    def __init__(
        self,
        client: GatewayClient,
        socket: aiohttp.ClientWebSocketResponse[Any],
        topic: str,
        acknowledged: bool,
    ) -> None:
        self._client = client
        self._socket = socket
        self._topic = topic
        self._acknowledged = acknowledged
        self._sent = 0
        self._changed = asyncio.Event()
        self._error: GatewayError | None = None
        self.done = 0
        """Publications accepted, or with `acknowledged` received by every subscriber."""
        self.last: dialogue.AcceptedEvent | None = None
        self._listening = asyncio.create_task(self._listen())

    async def send(self, payload: bytes) -> None:
        """Send one more. Raises `GatewayError` if one before it was refused."""
        await self._wait_until_on_their_way(_UNANSWERED_MAX - 1)
        self._sent += 1
        operation = dialogue.Publish(topic=self._topic, base64=payload, acknowledged=self._acknowledged)
        await _say(self._socket, operation)

    async def drain(self) -> None:
        """Wait until everything is accepted, or acknowledged."""
        await self._wait_until_on_their_way(0)

    async def _wait_until_on_their_way(self, count_max: int) -> None:
        while self._error is None and self._sent - self.done > count_max:
            self._changed.clear()
            await self._changed.wait()
        if self._error is not None:
            raise self._error

    async def _listen(self) -> None:
        try:
            while True:
                event = await self._client._hear(self._socket)
                if isinstance(event, dialogue.ErrorEvent):
                    raise GatewayError(event.reason)
                if isinstance(event, dialogue.AcceptedEvent):
                    self.last = event
                self.done += isinstance(event, dialogue.AcknowledgedEvent) or not self._acknowledged
                self._changed.set()
        except GatewayError as error:
            self._error = error
            self._changed.set()

    async def _close(self) -> None:
        self._listening.cancel()
        await asyncio.wait([self._listening])


async def _say(socket: aiohttp.ClientWebSocketResponse[Any], operation: dialogue.Operation) -> None:
    with contextlib.suppress(ConnectionError):  # whoever listens finds the reason
        await socket.send_frame(msgspec.json.encode(operation), aiohttp.WSMsgType.TEXT)


def _check(topic: str) -> None:
    try:
        check_topic(topic)
    except UsageError as error:
        raise GatewayError(str(error)) from None


def _reason(answer: bytes) -> str | None:
    try:
        return msgspec.json.decode(answer, type=Refusal).reason
    except msgspec.DecodeError:
        return None
