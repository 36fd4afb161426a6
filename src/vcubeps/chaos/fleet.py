"""The processes of a chaos run: one per node, started, killed, stopped, continued, ended."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from vcubeps.chaos import reports
from vcubeps.chaos.proxies import Pair
from vcubeps.chaos.record import LOGS, NODES, STATE, TRACE
from vcubeps.net import config
from vcubeps.node.settings import ClusterSettings, NodeSettings

_KILLED_WITHIN_S = 10.0
_LINE_BYTES_MAX = 1 << 20

OnReport = Callable[[int, reports.Report], None]
OnEnded = Callable[[int, int], None]


class Fleet:
    """All processes. A node has one at a time."""

    def __init__(
        self, directory: Path, seed: int, per_s: float, on_report: OnReport, on_ended: OnEnded
    ) -> None:
        """`on_ended` is told of processes that end without being asked to, with their exit codes."""
        self._directory = directory
        self._seed, self._per_s = seed, per_s
        self._on_report, self._on_ended = on_report, on_ended
        self._reserved: list[socket.socket] = []
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._readers: dict[int, asyncio.Task[None]] = {}
        self._is_asked_to_end: set[int] = set()
        """Pids."""
        self._decoder: msgspec.json.Decoder[reports.Report] = msgspec.json.Decoder(reports.Report)

    # -- files ---------------------------------------------------------------------------------

    def reserve(self, count: int) -> dict[int, tuple[str, int]]:
        """Where each node will listen. The ports are bound here, not listened on, so that nobody else takes them
        while a node is down, and connections to it are refused meanwhile."""
        for _ in range(count):
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("127.0.0.1", 0))
            self._reserved.append(sock)
        return {number: sock.getsockname() for number, sock in enumerate(self._reserved)}

    def write_files(
        self, name: str, targets: Mapping[int, tuple[str, int]], ways: Mapping[Pair, str]
    ) -> None:
        """A cluster file for each node: they differ only in the addresses, since each has proxies of its own."""
        for folder in (NODES, LOGS, STATE, TRACE):
            (self._directory / folder).mkdir(parents=True, exist_ok=True)
        for me in targets:
            nodes = tuple(
                NodeSettings(id=number, address=f"{host}:{port}" if number == me else ways[me, number])
                for number, (host, port) in targets.items()
            )
            settings = ClusterSettings(
                cluster=name, nodes=nodes, state_dir=f"../{STATE}", trace_dir=f"../{TRACE}"
            )
            self._file(me).write_text(config.dump(settings))
            config.load(self._file(me))

    def _file(self, node: int) -> Path:
        return self._directory / NODES / f"node-{node}.toml"

    def log(self, node: int) -> Path:
        return self._directory / LOGS / f"node-{node}.log"

    # -- processes -----------------------------------------------------------------------------

    async def start(self, node: int) -> None:
        # -P: a folder named vcubeps where the user happens to be is not the package.
        command = [sys.executable, "-P", "-m", "vcubeps.chaos.application"]
        arguments = [str(self._file(node)), str(node), str(self._seed), str(self._per_s)]
        with self.log(node).open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *command, *arguments,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log,
                start_new_session=True, limit=_LINE_BYTES_MAX,
            )  # fmt: skip
        self._processes[node] = process
        self._readers[node] = asyncio.create_task(self._follow(node, process))

    async def _follow(self, node: int, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            with contextlib.suppress(msgspec.MsgspecError):  # the last words of one that was killed
                self._on_report(node, self._decoder.decode(line))
        code = await process.wait()
        if process.pid not in self._is_asked_to_end:
            self._on_ended(node, code)

    def runs(self, node: int) -> bool:
        process = self._processes.get(node)
        return process is not None and process.returncode is None

    def tell(self, node: int, command: reports.Command) -> None:
        process = self._processes[node]
        if self.runs(node) and process.stdin is not None:
            process.stdin.write(msgspec.json.encode(command) + b"\n")

    async def kill(self, node: int) -> None:
        """Returns when it is gone and all it said has been read."""
        self._signal(node, signal.SIGKILL)
        await self._readers[node]

    def stop(self, node: int) -> None:
        self._signal(node, signal.SIGSTOP)

    def go_on(self, node: int) -> None:
        self._signal(node, signal.SIGCONT)

    async def end(self, node: int, within_s: float) -> bool:
        """In good order; False if it had to be killed."""
        self._signal(node, signal.SIGTERM)
        done, _ = await asyncio.wait([self._readers[node]], timeout=within_s)
        if done:
            return True
        await self.kill(node)
        return False

    def _signal(self, node: int, number: signal.Signals) -> None:
        process = self._processes[node]
        if number in (signal.SIGKILL, signal.SIGTERM):
            self._is_asked_to_end.add(process.pid)
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)

    async def close(self) -> None:
        """Whatever runs is killed."""
        for node in self._processes:
            if self.runs(node):
                self._signal(node, signal.SIGKILL)
        if self._readers:
            await asyncio.wait(self._readers.values(), timeout=_KILLED_WITHIN_S)
        for sock in self._reserved:
            sock.close()
