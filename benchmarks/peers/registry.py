"""The systems that can be measured, and what has to be installed for each."""

from __future__ import annotations

import importlib.util
import shutil
from dataclasses import dataclass


@dataclass(frozen=True)
class System:
    """One system; its module is imported only when it is measured, so that its library may be missing."""

    title: str
    module: str
    imports: str
    """The Python module of its library."""
    install: str
    """How to install the library."""
    program: str | None = None
    """The server, if it has one."""
    variants: tuple[str, ...] = ("",)
    """Settings, by name; the first, which must not lose anything, in every mode, the others in floods only."""
    for_latency: tuple[str, ...] = ()
    """Further ones, for latency only."""

    def left_out(self) -> str | None:
        """Why the system cannot be measured here, and the fix; None if it can."""
        if importlib.util.find_spec(self.imports) is None:
            return f"there is no Python module {self.imports}: {self.install}"
        if self.program and shutil.which(self.program) is None:
            return (
                f"there is no program {self.program}: install the package that has it, or put it on the PATH"
            )
        if importlib.util.find_spec(self.module) is None:
            path = f"benchmarks/{self.module.replace('.', '/')}.py"
            return f"there is no {path}: write it as benchmarks/peers/__init__.py describes"
        return None

    def variants_in(self, mode: str) -> tuple[str, ...]:
        if mode == "flood":
            return self.variants
        return self.variants[:1] + (self.for_latency if mode == "latency" else ())

    def title_of(self, variant: str) -> str:
        return f"{self.title} {variant}".strip()


SYSTEMS = {
    "bare": System("bare sockets", "peers.bare", "asyncio", "it comes with Python"),
    "zeromq": System("ZeroMQ", "peers.zeromq", "zmq", "pip install pyzmq", variants=("NODROP", "default")),
    "zenoh": System(
        "Zenoh", "peers.zenoh_peer", "zenoh", "pip install eclipse-zenoh", variants=("BLOCK", "DROP")
    ),
    "nats": System("NATS", "peers.nats_client", "nats", "pip install nats-py", program="nats-server"),
    "redis": System(
        "Redis",
        "peers.redis_client",
        "redis",
        "pip install redis",
        program="redis-server",
        variants=("unbounded", "default"),
    ),
    "vcubeps": System(
        "VCube-PS", "peers.vcube_ps", "vcubeps", "pip install -e .", for_latency=("in a task",)
    ),
}
