"""Where a member is: what it needs to know to find the others."""

from __future__ import annotations

from dataclasses import dataclass

TOPIC = "hot"
"""The one topic of the benchmark."""


@dataclass(frozen=True)
class Place:
    """Process `me` of several on loopback, each with a free port of its own, and one more for a server."""

    me: int
    ports: tuple[int, ...]
    server_port: int
    variant: str
    """The name in `registry.py` of the settings to use, such as `NODROP`."""

    @property
    def processes(self) -> int:
        return len(self.ports)

    @property
    def others(self) -> list[int]:
        return [other for other in range(self.processes) if other != self.me]
