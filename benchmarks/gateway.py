"""Whether the gateway holds up its node: 1,000 WebSocket clients, half of them not reading, 100 messages of 100 KB.

    python benchmarks/gateway.py [--clients 1000] [--messages 100] [--bytes 100000] [--nodes 4]

Nodes are processes of their own with one cluster file, the default detection, and gateways. All clients are at the
gateway of node 0, in another process, and subscribe to one topic: half as text, half as base64. Half of them stop
reading once they are subscribed. Node 1 publishes as fast as it may. When those who read have everything, the others
read on, and have to get everything too. Then all clients go at once.

From before the first client connects until all are gone, `/healthz` of node 0 is asked on a new connection every 20 ms;
the other nodes write down whom they suspect. The clients' process has a lower priority than the nodes', as clients are
usually on other machines, and the process that asks a higher one where it may. Where processors are short, answers are
late for that reason alone; how long node 0 and the process that asks had to wait for one is shown. Exit code 0 only if
every answer came within 100 ms, nobody was suspected or started again, and nothing was lost.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import os
import resource
import socket
import sys
import tempfile
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from gateway_clients import PHASE_S, TOPIC, be_clients
from rich.console import Console
from rich.table import Table

import vcubeps
from vcubeps.net.loops import run, spare_what_is_loaded

HEALTHZ_MS, EVERY_S = 100.0, 0.02
MIB = 1 << 20


# -- a node ------------------------------------------------------------------------------------


@dataclass
class Seen:
    """What one node saw."""

    suspected: list[str] = field(default_factory=list)
    """Whom, and for how long it was silent; or whom it took for crashed, and why."""
    lives: list[str] = field(default_factory=list)
    """What it was itself, in turn."""
    late_ms: float = 0.0
    """Longest time that a timer of its loop was late."""
    turn_ms: float = 0.0
    """The same in processor time of the loop's thread: about what its longest turn took, whoever else was running."""
    cpu_s: float = 0.0
    waited_s: float = 0.0
    """How long it could have run and had no processor."""
    peak_bytes: int = 0
    restarts: int = 0
    slow: int = 0
    """Clients that were unsubscribed because they read too slowly."""


def be_node(file: Path, node: int, line: Connection) -> None:
    """As `vcubeps node` does."""
    import vcubeps.net.gateway  # noqa: F401, PLC0415 - the clients' process does not need it

    spare_what_is_loaded()
    run(_live(file, node, line))


async def _live(file: Path, number: int, line: Connection) -> None:
    seen, loop = Seen(), asyncio.get_running_loop()
    async with vcubeps.open(file, node=number) as node:
        tasks = [asyncio.create_task(_listen(node, seen)), asyncio.create_task(_notice_lateness(seen))]
        line.send("up")
        while (asked := await loop.run_in_executor(None, line.recv)) != "report":
            tasks.append(asyncio.create_task(_publish(node, *asked)))
        for task in tasks:
            task.cancel()
        counts = node.status().counts
        seen.restarts, seen.slow = counts.restarts, counts.disconnected_slow
        seen.cpu_s, seen.waited_s = time.process_time(), waited_s()
        seen.peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        line.send(seen)
        await loop.run_in_executor(None, line.recv)


def waited_s() -> float:
    """How long the main thread of this process had to wait for a processor; 0 where the system does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
    return 0.0


async def _publish(node: vcubeps.Node, count: int, size: int) -> None:
    async with node.subscribe(TOPIC, reads=False) as room:
        for _ in range(count):
            receipt = await room.publish(b"x" * size)
        await receipt.acknowledged()


async def _listen(node: vcubeps.Node, seen: Seen) -> None:
    async for event in node.events():
        if isinstance(event, vcubeps.Suspected):
            seen.suspected.append(f"node {event.node} after {event.silent_s:.1f} s of silence")
        elif isinstance(event, vcubeps.Crashed):
            seen.suspected.append(f"node {event.node} as crashed: {event.evidence}")
        elif isinstance(event, vcubeps.LifeChanged):
            seen.lives.append(event.life)


async def _notice_lateness(seen: Seen) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due_s, cpu_s = loop.time() + 0.01, time.thread_time()
        await asyncio.sleep(0.01)
        seen.late_ms = max(seen.late_ms, 1000 * (loop.time() - due_s))
        seen.turn_ms = max(seen.turn_ms, 1000 * (time.thread_time() - cpu_s - 0.01))


# -- the whole ---------------------------------------------------------------------------------


@dataclass
class Probes:
    """Answers of `/healthz`."""

    phase: str = ""
    took_ms: dict[str, list[float]] = field(default_factory=dict)
    """Phase → how long each answer took."""
    bad: list[str] = field(default_factory=list)

    async def keep_asking(self, port: int) -> None:
        loop, tasks = asyncio.get_running_loop(), set()
        while True:
            task = asyncio.create_task(self._ask(port, self.phase))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            await asyncio.sleep(EVERY_S - loop.time() % EVERY_S)

    async def _ask(self, port: int, phase: str) -> None:
        began_s, answer = time.monotonic(), b""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answer = await reader.read()
            writer.close()
        except OSError as error:
            answer = str(error).encode()
        self.took_ms.setdefault(phase, []).append(1000 * (time.monotonic() - began_s))
        if b" 200 " not in answer.partition(b"\r\n")[0]:
            self.bad.append(answer[-200:].decode(errors="replace"))


async def hear(line: Connection, process: multiprocessing.process.BaseProcess) -> Any:
    """What the process says next."""
    deadline_s = time.monotonic() + 2 * PHASE_S
    while not line.poll():
        if not process.is_alive():
            raise SystemExit(f"{process.name} has ended with exit code {process.exitcode}")
        if time.monotonic() > deadline_s:
            raise SystemExit(f"{process.name} has said nothing for {2 * PHASE_S:g} s")
        await asyncio.sleep(0.01)
    return line.recv()


def cluster_file(directory: Path, nodes: int) -> tuple[Path, int]:
    """A file with free ports, and the port of node 0's gateway."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(2 * nodes)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        ports = [each.getsockname()[1] for each in sockets]
    tables = [
        f'[[nodes]]\nid = {node}\naddress = "127.0.0.1:{own}"\ngateway = "127.0.0.1:{door}"\n'
        for node, (own, door) in enumerate(zip(ports[::2], ports[1::2], strict=True))
    ]
    file = directory / "cluster.toml"
    file.write_text('cluster = "bench"\nstate_dir = "state"\n\n' + "\n".join(tables))
    return file, ports[1]


async def measure(
    options: argparse.Namespace, directory: Path
) -> tuple[Probes, list[Seen], int, dict[str, float]]:
    file, port = cluster_file(directory, options.nodes)
    spawn = multiprocessing.get_context("spawn")

    def start(target: Any, name: str, *arguments: object) -> tuple[Connection, Any]:
        here, there = spawn.Pipe()
        process = spawn.Process(target=target, name=name, args=(*arguments, there), daemon=True)
        process.start()
        return here, process

    nodes = [start(be_node, f"node {node}", file, node) for node in range(options.nodes)]
    for line, process in nodes:
        await hear(line, process)
    probes, lasted_s = Probes(), {}
    began_s, probes.phase = time.monotonic(), "clients connect"
    clients = start(be_clients, "the clients' process", port, options.clients, options.messages)
    with contextlib.suppress(PermissionError):
        os.nice(-10)  # who measures takes little time, and should not measure how long it waits for it
    asking = asyncio.create_task(probes.keep_asking(port))
    await hear(*clients)
    lasted_s[probes.phase] = time.monotonic() - began_s

    began_s, probes.phase = time.monotonic(), "half of them read"
    nodes[1][0].send((options.messages, options.bytes))
    await hear(*clients)
    lasted_s[probes.phase] = time.monotonic() - began_s

    began_s, probes.phase = time.monotonic(), "the others read on"
    clients[0].send("go")
    wrong, cpu_s = await hear(*clients)
    lasted_s[probes.phase] = time.monotonic() - began_s

    began_s, probes.phase = time.monotonic(), "all go at once"
    await asyncio.sleep(2.0)
    lasted_s[probes.phase] = time.monotonic() - began_s
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)

    seen = []
    for line, process in nodes:
        line.send("report")
        seen.append(await hear(line, process))
    for line, _ in nodes:
        line.send("stop")
    for _, process in (*nodes, clients):
        process.join(10)
    print(
        f"clients: {cpu_s:.1f} s of processor time; asking /healthz: {waited_s():.1f} s without a processor that it "
        "could have used"
    )
    return probes, seen, wrong, lasted_s


def raise_file_limit(needed: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise SystemExit(
            f"{needed} open files are needed, the limit is {hard} (ulimit -Hn): raise it, or give fewer --clients"
        )
    if soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=1000, help="up to 1000 (default: %(default)s)")
    parser.add_argument("--messages", type=int, default=100, help="(default: %(default)s)")
    parser.add_argument("--bytes", type=int, default=100_000, help="of each (default: %(default)s)")
    parser.add_argument("--nodes", type=int, default=4, help="2 or more (default: %(default)s)")
    options = parser.parse_args()
    if min(options.clients, options.messages, options.bytes) < 1 or options.nodes < 2:
        parser.error("give 1 or more of clients, messages and bytes, and 2 nodes or more")
    raise_file_limit(options.clients + 500)
    with tempfile.TemporaryDirectory() as place:
        probes, seen, wrong, lasted_s = asyncio.run(measure(options, Path(place)))

    table = Table("while", "lasted", "/healthz asked", "median", "longest", title="node 0")
    for phase, took_ms in probes.took_ms.items():
        table.add_row(
            phase,
            f"{lasted_s[phase]:.1f} s",
            str(len(took_ms)),
            f"{sorted(took_ms)[len(took_ms) // 2]:.1f} ms",
            f"{max(took_ms):.1f} ms",
        )
    Console().print(table)
    first, others = seen[0], seen[1:]
    print(
        f"node 0: {first.cpu_s:.1f} s of processor time, {first.waited_s:.1f} s without a processor that it could have "
        f"used, {first.peak_bytes / MIB:.0f} MiB at most, a timer was {first.late_ms:.0f} ms late at most "
        f"({first.turn_ms:.0f} ms of its own processor time); {first.slow} clients unsubscribed as too slow"
    )
    worst_ms = max(max(each) for each in probes.took_ms.values())
    suspicions = [told for each in others for told in each.suspected if told.startswith("node 0")]
    restarts = sum(each.restarts for each in seen)
    verdicts = {
        f"/healthz within {worst_ms:.0f} ms (limit {HEALTHZ_MS:g})": worst_ms <= HEALTHZ_MS,
        f"{len(probes.bad)} answers that were not 200 {probes.bad[:1] or ''}": not probes.bad,
        f"{len(suspicions)} suspicions of node 0 {suspicions[:3] or ''}": not suspicions,
        f"{restarts} restarts": not restarts,
        f"{wrong} clients without all messages in order": not wrong,
    }
    for words, holds in verdicts.items():
        print(f"{'holds ' if holds else 'MISSED'} {words.strip()}")
    return 0 if all(verdicts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
