"""One measurement: one system, one workload, in fresh processes."""

from __future__ import annotations

import importlib
import multiprocessing
import signal
import time
from array import array
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from peers.board import Board
from peers.failure import RunFailed
from peers.place import Place
from peers.plan import Workload
from peers.process import run_member
from peers.registry import System
from peers.server import CpuSeconds, free_ports, running
from peers.session import Report

GLANCE = 0.02
"""Seconds between two looks at the board."""
READY_WITHIN = 30.0
"""Seconds for all processes to start and to hear from all others."""
SETTLE = 0.3
"""Seconds of silence between the last hello and the start."""
LEAVE_WITHIN = 5.0
"""Seconds for a process to end before it is killed."""


@dataclass(frozen=True)
class Result:
    """What one measurement gave; deliveries are those of messages from other processes."""

    published: int
    delivered: int
    missing: int
    late: int
    duplicates: int
    stalled: bool
    seconds: float
    """From the start to the last delivery."""
    cpu_seconds: float
    server_cpu_seconds: float
    """The part of it that is the server's."""
    p50_us: float | None
    p99_us: float | None

    @property
    def cpu_us(self) -> float:
        """Per delivery; infinite without any."""
        return self.cpu_seconds * 1e6 / self.delivered if self.delivered else float("inf")

    @property
    def rate(self) -> float:
        return self.delivered / self.seconds


def measure(system: System, variant: str, workload: Workload) -> Result:
    """Run the workload once. Whatever happens, no process is left."""
    context = multiprocessing.get_context("spawn")
    *ports, server_port = free_ports(workload.processes + 1)
    board = Board(context, workload.processes)
    with ExitStack() as stack:
        server_cpu: CpuSeconds = float
        if system.program:
            command = importlib.import_module(system.module).server_command
            server_cpu = stack.enter_context(running(command, server_port, variant))
        members = []
        for me in range(workload.processes):
            place = Place(me, tuple(ports), server_port, variant)
            here, there = context.Pipe()
            process = context.Process(
                target=run_member, args=(system.module, place, workload, board, there), daemon=True
            )
            members.append(stack.enter_context(_started(process, here)))
            there.close()
        _await_ready(members, board)
        board.start_ns = time.monotonic_ns() + int(SETTLE * 1e9)
        time.sleep(SETTLE)
        cpu_before = server_cpu()
        stalled = _await_end(members, board, workload.patience)
        board.over = True
        reports = [_report(member) for member in members]
        server_seconds = server_cpu() - cpu_before
        board.closing = True
        for member, _ in members:
            member.join(LEAVE_WITHIN)
    return _result(reports, board.start_ns, server_seconds, stalled)


Started = tuple[BaseProcess, Connection]


@contextmanager
def _started(process: BaseProcess, connection: Connection) -> Iterator[Started]:
    # The process inherits this: Ctrl-C reaches all processes, but it is the parent that ends the others. The helper
    # process of multiprocessing would undo it if it were only started now.
    resource_tracker.ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        yield process, connection
    finally:
        process.terminate()
        process.join(LEAVE_WITHIN)
        if process.exitcode is None:
            process.kill()
            process.join()
        connection.close()


def _await_ready(members: list[Started], board: Board) -> None:
    deadline = time.monotonic() + READY_WITHIN
    while not all(board.ready):
        _glance(members)
        if time.monotonic() > deadline:
            deaf = [me for me, ready in enumerate(board.ready) if not ready]
            raise RunFailed(f"processes {deaf} have not heard from all others within {READY_WITHIN:.0f} s")


def _await_end(members: list[Started], board: Board, patience: float) -> bool:
    """Wait until all has been delivered; whether the members stalled before."""
    before, changed = -1, time.monotonic()
    while not all(board.done):
        _glance(members)
        progress = sum(board.progress)
        if progress != before:
            before, changed = progress, time.monotonic()
        elif time.monotonic() > changed + patience:
            return True
    return False


def _glance(members: list[Started]) -> None:
    """Sleep a little; before the end, members only send what ended them."""
    if wait([connection for _, connection in members], GLANCE):
        for member in members:
            if member[1].poll():
                _report(member)


def _report(member: Started) -> Report:
    process, connection = member
    try:
        report = connection.recv()
    except EOFError:
        process.join(LEAVE_WITHIN)
        raise RunFailed(f"a process ended without a word, exit code {process.exitcode}") from None
    if isinstance(report, Report):
        return report
    raise RunFailed(report)


def _result(reports: list[Report], start_ns: int, server_seconds: float, stalled: bool) -> Result:
    published = sum(report.published for report in reports)
    delivered = sum(report.delivered for report in reports)
    latencies = array("q")
    for report in reports:
        latencies.frombytes(report.latencies_ns)
    ordered = sorted(latencies)
    return Result(
        published=published,
        delivered=delivered,
        missing=published * (len(reports) - 1) - delivered,
        late=sum(report.late for report in reports),
        duplicates=sum(report.duplicates for report in reports),
        stalled=stalled,
        seconds=(max(report.last_delivery_ns for report in reports) - start_ns) / 1e9,
        cpu_seconds=sum(report.cpu_seconds for report in reports) + server_seconds,
        server_cpu_seconds=server_seconds,
        p50_us=ordered[len(ordered) // 2] / 1000 if ordered else None,
        p99_us=ordered[len(ordered) * 99 // 100] / 1000 if ordered else None,
    )
