"""The gateway described for programs: an OpenAPI 3.1 document, its schemas made from the structs that are sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from vcubeps.net.gateway.answers import DeclaredDead, MembersOf, Published
from vcubeps.net.gateway.dialogue import Event, Operation
from vcubeps.net.gateway.refusals import Refusal
from vcubeps.net.status import Health, Status
from vcubeps.provenance import package_version

_SCHEMAS = "#/components/schemas/"

_TOPIC = {
    "name": "topic",
    "in": "path",
    "required": True,
    "description": "1 to 255 bytes of UTF-8, percent-encoded; / is %2F.",
    "schema": {"type": "string", "minLength": 1},
}


def document() -> dict[str, Any]:
    """The OpenAPI document, as JSON values."""
    (operation, event), _ = msgspec.json.schema_components(
        (Operation, Event), ref_template=_SCHEMAS + "{name}"
    )
    _, components = msgspec.json.schema_components(
        (Health, Status, DeclaredDead, MembersOf, Published, Refusal, Operation, Event),
        ref_template=_SCHEMAS + "{name}",
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "VCube-PS gateway",
            "version": package_version(),
            "description": "Publish/subscribe with causal order per topic, for clients that are not nodes. Every "
            "refusal has a JSON body with its cause and a sentence that says what to do.",
        },
        "paths": _paths(),
        "components": {"schemas": components | {"Operation": operation, "Event": event}},
    }


def summaries(of: Mapping[str, Any]) -> dict[str, str]:
    """Method and path → what it does."""
    return {
        f"{method.upper()} {path}": operation["summary"]
        for path, operations in of["paths"].items()
        for method, operation in operations.items()
    }


def _paths() -> dict[str, Any]:
    return {
        "/": {"get": _operation("List the doors.", {200: _json_of("Method and path, and what it does.")})},
        "/healthz": {
            "get": _operation(
                "Whether the node can serve.",
                {200: _json_of("It can.", Health), 503: _json_of("It cannot; the body says why.", Health)},
            )
        },
        "/status": {"get": _operation("How the node is doing.", {200: _json_of("Its state.", Status)})},
        "/metrics": {
            "get": _operation(
                "Metrics for Prometheus.",
                {
                    200: {
                        "description": "Prometheus text, or OpenMetrics if `Accept` asks for it.",
                        "content": {
                            "text/plain": {"schema": {"type": "string"}},
                            "application/openmetrics-text": {"schema": {"type": "string"}},
                        },
                    }
                },
            )
        },
        "/openapi.json": {"get": _operation("This document.", {200: _json_of("OpenAPI 3.1.")})},
        "/topics/{topic}": {"post": _publish()},
        "/topics/{topic}/members": {
            "get": _operation(
                "The members of a topic, as this node sees it.",
                {200: _json_of("The nodes.", MembersOf)}
                | _refusals({400: "Bad topic.", 404: "This node is no member."}),
                parameters=[_TOPIC],
            )
        },
        "/nodes/{node}/declare-dead": {
            "post": _operation(
                "Say that a node has crashed. For operators, from the node's own machine only.",
                {200: _json_of("The others are told.", DeclaredDead)}
                | _refusals(
                    {
                        400: "No other node of the cluster file.",
                        403: "Asked from another machine, or by a page of another site.",
                        503: "The node cannot serve.",
                    }
                ),
                parameters=[
                    {
                        "name": "node",
                        "in": "path",
                        "required": True,
                        "description": "Its id. If it lives, it has to start again, and its subscriptions have a gap.",
                        "schema": {"type": "integer", "minimum": 0},
                    }
                ],
            )
        },
        "/ws": {"get": _websocket()},
    }


def _publish() -> dict[str, Any]:
    return _operation(
        "Publish the body of the request to a topic.",
        {201: _json_of("Accepted: the node sends it to every subscriber.", Published)}
        | _refusals(
            {
                400: "Bad topic or query.",
                403: "A page of another site asked.",
                408: "The payload did not come in time.",
                413: "The payload is too large.",
                503: "The node cannot serve at present, or whether all received the publication is not known.",
            }
        ),
        parameters=[
            _TOPIC,
            {
                "name": "acknowledged",
                "in": "query",
                "description": "Whether to answer only when every subscriber has received it.",
                "schema": {"type": "boolean", "default": False},
            },
        ],
        requestBody={
            "description": "The payload; any bytes, none at all included.",
            "content": {"application/octet-stream": {"schema": {}}, "*/*": {"schema": {}}},
        },
    )


def _websocket() -> dict[str, Any]:
    return _operation(
        "Subscribe, publish and more over a WebSocket.",
        {101: {"description": "From here on: text frames, each a JSON object."}}
        | _refusals(
            {
                400: "Not a WebSocket handshake.",
                403: "A page of another site asked.",
                503: "Too many clients.",
            }
        ),
        description=f"The client sends `{_SCHEMAS}Operation`, the gateway sends `{_SCHEMAS}Event`: see "
        "docs/reference/gateway.md.",
    )


def _operation(summary: str, responses: dict[int, Any], **more: Any) -> dict[str, Any]:
    return {
        "summary": summary,
        **more,
        "responses": {str(status): response for status, response in responses.items()},
    }


def _json_of(description: str, struct: type[msgspec.Struct] | None = None) -> dict[str, Any]:
    schema = {"type": "object"} if struct is None else {"$ref": _SCHEMAS + struct.__name__}
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _refusals(meanings: Mapping[int, str]) -> dict[int, Any]:
    return {status: _json_of(meaning, Refusal) for status, meaning in meanings.items()}
