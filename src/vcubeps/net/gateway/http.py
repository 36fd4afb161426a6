"""The doors of the gateway over HTTP. What each does, in words, is in `openapi`."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.abc import AbstractAccessLogger

from vcubeps.net.errors import NodeError
from vcubeps.net.gateway import openapi
from vcubeps.net.gateway.answers import DeclaredDead, MembersOf, Published
from vcubeps.net.gateway.prometheus import Exposition
from vcubeps.net.gateway.refusals import Cause, Refusal, Refused
from vcubeps.net.gateway.shared import Shared
from vcubeps.net.gateway.websocket import Session, Socket, frame_bytes_max, limit_connection
from vcubeps.net.status import health_of, status_of
from vcubeps.protocol.errors import UsageError

log = logging.getLogger(__name__)

CLIENTS_MAX = 1000
"""Connections, WebSocket or not. Some more may ask how the node is doing, see `_FOR_OPERATORS`."""

BODY_WITHIN_S = 30.0
"""For a client to send the payload that it announced."""

_FOR_OPERATORS = ("/healthz", "/status", "/metrics")

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_CAUSE: web.ResponseKey[Cause] = web.ResponseKey("cause", Cause)


class Doors:
    """One handler for each route."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._limits = shared.shell.settings.limits
        self._exposition = Exposition(shared)
        self._document = openapi.document()
        self._requests: set[asyncio.Task[Any]] = set()
        """Those that are being handled, WebSocket connections left out."""

    def application(self) -> web.Application:
        app = web.Application(client_max_size=self._limits.payload_bytes_max, middlewares=[self._refusing])
        app.add_routes(
            [
                web.get("/", self.index),
                web.get("/healthz", self.healthz),
                web.get("/status", self.status),
                web.get("/metrics", self.metrics),
                web.get("/openapi.json", self.openapi),
                web.get("/topics/{topic:[^/]+}/members", self.members),
                web.post("/topics/{topic:[^/]+}", self.publish),
                web.post("/nodes/{node:[^/]+}/declare-dead", self.declare_dead),
                web.get("/ws", self.websocket, allow_head=False),
            ]
        )
        return app

    async def end_requests(self, within_s: float) -> None:
        """Answer what is being handled that the node closes."""
        requests = list(self._requests)
        for task in requests:
            task.cancel()
        if requests:
            await asyncio.wait(requests, timeout=within_s)

    # -- doors ---------------------------------------------------------------------------------

    async def index(self, _: web.Request) -> web.Response:
        return _json({"node": self._shared.node.id, "doors": openapi.summaries(self._document)})

    async def healthz(self, _: web.Request) -> web.Response:
        health = health_of(self._shared.shell)
        return _json(health, 200 if health.status == "ok" else 503)

    async def status(self, _: web.Request) -> web.Response:
        shared = self._shared
        return _json(status_of(shared.shell, shared.clients, shared.refusals, shared.topics.unread()))

    async def metrics(self, request: web.Request) -> web.Response:
        body, content_type = await self._exposition.render(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def openapi(self, _: web.Request) -> web.Response:
        return _json(self._document)

    async def members(self, request: web.Request) -> web.Response:
        topic = request.match_info["topic"]
        return _json(MembersOf(topic, self._shared.members(topic)))

    async def publish(self, request: web.Request) -> web.Response:
        wanted = request.query.get("acknowledged", "false")
        if wanted not in ("true", "false"):
            raise Refused(400, Cause.MALFORMED, f"acknowledged is {wanted[:20]!r}: give true or false")
        topic = request.match_info["topic"]
        self._shared.check_topic(topic)
        self._shared.check_size(request.content_length or 0)
        receipt = await self._shared.publish(topic, await self._body(request))
        if wanted == "true":
            await self._shared.wait_acknowledged(receipt)
        return _json(Published(topic, receipt.source, receipt.counter, wanted == "true"), 201)

    async def declare_dead(self, request: web.Request) -> web.Response:
        if not _is_local(request.remote):
            raise Refused(
                403,
                Cause.NOT_LOCAL,
                f"{request.remote} may not declare nodes dead: ask from the machine that the node runs on",
            )
        named = request.match_info["node"]
        if not named.isdecimal() or len(named) > 7:
            raise Refused(400, Cause.MALFORMED, f"{named[:20]!r} is no id of a node: give a whole number")
        try:
            self._shared.node.declare_dead(int(named))
        except UsageError as error:
            raise Refused(400, Cause.MALFORMED, str(error)) from None
        except NodeError as error:
            raise Refused(503, Cause.NOT_UP, str(error)) from None
        return _json(DeclaredDead(int(named)))

    async def _body(self, request: web.Request) -> bytes:
        try:
            async with asyncio.timeout(BODY_WITHIN_S):
                return await request.read()
        except TimeoutError:
            raise Refused(
                408, Cause.TOO_SLOW, f"the payload did not come within {BODY_WITHIN_S:g} s: try again"
            ) from None
        except web.HTTPRequestEntityTooLarge:
            limit = self._limits.payload_bytes_max
            raise Refused(
                413,
                Cause.TOO_LARGE,
                f"payload has more than {limit} bytes (limits.payload_bytes_max): send it in parts",
            ) from None

    async def websocket(self, request: web.Request) -> web.StreamResponse:
        connection = Socket(frame_bytes_max(self._limits.payload_bytes_max), self._shared.refusals)
        if not connection.can_prepare(request):
            raise Refused(
                400,
                Cause.MALFORMED,
                "this door speaks WebSocket, version 13: connect to it with a WebSocket client",
            )
        limit_connection(request.transport)
        await connection.prepare(request)
        session = Session(self._shared, connection)
        self._shared.sessions.add(session)
        try:
            await session.run()
        finally:
            self._shared.sessions.discard(session)
        return connection

    # -- what is refused -----------------------------------------------------------------------

    @web.middleware
    async def _refusing(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        try:
            self._check(request)
            if request.path == "/ws":
                return await handler(request)
            return await self._handle(request, handler)
        except Refused as refused:
            return _refusal(refused)
        except web.HTTPException as error:
            return _refusal(_in_words(request, error))
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception:
            log.exception("node %d's gateway failed at %s", self._shared.node.id, request.path)
            return _refusal(Refused(500, Cause.INTERNAL, "the gateway failed: its log has the details"))

    async def _handle(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self._requests.add(task)
        try:
            return await handler(request)
        except asyncio.CancelledError:
            if not self._shared.is_closing:
                raise
            task.uncancel()
            raise Refused(
                503, Cause.NOT_UP, f"node {self._shared.node.id} is closing: use another node"
            ) from None
        finally:
            self._requests.discard(task)

    def _check(self, request: web.Request) -> None:
        if request.path in _FOR_OPERATORS:
            return
        if self._shared.clients > CLIENTS_MAX:
            raise Refused(
                503,
                Cause.TOO_MANY,
                f"this gateway has {CLIENTS_MAX} clients, which is the most: use another node",
            )
        origin = request.headers.get("Origin")
        if origin is None or (request.method != "POST" and request.path != "/ws"):
            return
        if origin.partition("://")[2].lower() != request.headers.get("Host", "").lower():
            raise Refused(
                403,
                Cause.CROSS_SITE,
                f"a page of {origin[:100]} may not use the gateway at {request.host[:100]}: serve it from there, or "
                "from a proxy in front of both",
            )


def _is_local(remote: str | None) -> bool:
    try:
        return remote is not None and ipaddress.ip_address(remote).is_loopback
    except ValueError:
        return False


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")


def _refusal(refused: Refused) -> web.Response:
    response = _json(Refusal(refused.cause, refused.reason), refused.status)
    response[_CAUSE] = refused.cause
    if refused.cause is Cause.TOO_MANY:
        response.force_close()
    return response


def _in_words(request: web.Request, error: web.HTTPException) -> Refused:
    """What the HTTP library refused by itself."""
    path = request.path[:100]
    if isinstance(error, web.HTTPNotFound):
        return Refused(404, Cause.NO_SUCH_DOOR, f"there is no {path}: GET / lists what there is")
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        return Refused(405, Cause.NO_SUCH_DOOR, f"{path} does not take {request.method}: use {allowed}")
    return Refused(error.status, Cause.MALFORMED, f"{error.reason}: GET /openapi.json says what is expected")


def counting(shared: Shared) -> type[AbstractAccessLogger]:
    """Called by the HTTP library with every answer, also those to what it could not read: counts refusals."""

    class CountRefusals(AbstractAccessLogger):
        def log(self, request: web.BaseRequest, response: web.StreamResponse, time: float) -> None:
            if response.status < 400 or request.path == "/healthz":
                return
            cause = response.get(_CAUSE, Cause.MALFORMED)
            shared.refusals[cause] += 1
            log.debug("node %d's gateway refused %s: %s", shared.node.id, request.path, cause)

    return CountRefusals
