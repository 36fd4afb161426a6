"""The door of a node for clients that are not nodes: HTTP, WebSocket and Prometheus. docs/reference/gateway.md."""

from __future__ import annotations

from vcubeps.net.gateway.server import Gateway

__all__ = ["Gateway"]
