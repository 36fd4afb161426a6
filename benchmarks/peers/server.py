"""The server of a system that needs one: started for one run, its CPU time read, and stopped."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from peers.failure import RunFailed

PATIENCE = 10.0
"""Seconds for a server to start, and to stop before it is killed."""

CpuSeconds = Callable[[], float]


def free_ports(number: int) -> list[int]:
    """Ports of loopback that are free, below those that the system gives to connections which the members make."""
    ports: list[int] = []
    while len(ports) < number:
        port = random.SystemRandom().randrange(16_000, 32_000)
        with socket.socket() as candidate:
            try:
                candidate.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports


@contextlib.contextmanager
def running(command: Callable[[int, Path, str], list[str]], port: int, variant: str) -> Iterator[CpuSeconds]:
    """Run a server that listens on `port`; gives a function that reads its CPU time so far."""
    with tempfile.TemporaryDirectory(prefix="pubsub-") as folder, open(f"{folder}/log", "w+b") as log:
        # In a session of its own, Ctrl-C does not end it before its clients.
        process = subprocess.Popen(
            command(port, Path(folder), variant), stdout=log, stderr=log, start_new_session=True, cwd=folder
        )
        try:
            _await_listening(process, port, Path(log.name))
            yield lambda: cpu_seconds(process.pid)
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads of a process, in the kernel's ticks, usually of 10 ms."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system = after_name[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _await_listening(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        with (
            contextlib.suppress(ConnectionRefusedError),
            socket.create_connection(("127.0.0.1", port), PATIENCE),
        ):
            return
        time.sleep(0.02)
    raise RunFailed(
        f"the server does not listen on port {port} after {PATIENCE:.0f} s; it wrote: "
        f"{log.read_text(errors='replace')[-2000:].strip() or 'nothing'}"
    )
