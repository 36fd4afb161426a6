"""Processes that another command started: which of them run, and ending them. Never one that only has their number."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

_POLL_S = 0.02
_KILL_S = 2.0
"""How long a killed process may take to be gone: the kernel frees its memory first."""


class StartedProcess(msgspec.Struct, frozen=True):
    """A process with nodes in it."""

    pid: int
    birth: str
    """Tells it from a later process with the same number."""
    nodes: tuple[int, ...]
    log: str
    """Path of its log, in the cluster's directory."""

    @property
    def is_running(self) -> bool:
        return birth_of(self.pid) == self.birth


def birth_of(pid: int) -> str | None:
    """When process `pid` began, as exactly as the system says; None if there is no such process.

    >>> birth_of(os.getpid()) == birth_of(os.getpid()) is not None
    True
    """
    if not Path("/proc/self/stat").exists():
        answer = subprocess.run(
            ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        return answer.stdout.strip() or None
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name of the program, in parentheses, may contain anything; what follows is numbers and the state.
    fields = stat.rpartition(")")[2].split()
    state, ticks_since_boot = fields[0], fields[19]
    if state in "ZX":  # it has ended, and waits for its parent to ask how
        return None
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {ticks_since_boot}"


def end(processes: Sequence[StartedProcess], within_s: float) -> tuple[StartedProcess, ...]:
    """Ask them to end, and kill those that have not after `within_s`; returns the ones that were killed."""
    for process in processes:
        _signal(process, signal.SIGTERM)
    left = _wait(processes, within_s)
    for process in left:
        _signal(process, signal.SIGKILL)
    _wait(left, _KILL_S)
    return left


def _signal(process: StartedProcess, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        if process.is_running:
            os.kill(process.pid, number)


def _wait(processes: Sequence[StartedProcess], within_s: float) -> tuple[StartedProcess, ...]:
    """Those that still run after `within_s`."""
    deadline_s = time.monotonic() + within_s
    while left := tuple(process for process in processes if process.is_running):
        if time.monotonic() >= deadline_s:
            break
        time.sleep(_POLL_S)
    return left
