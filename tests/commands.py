"""The commands in processes of their own: for Spark, whose Java lives as long as its process, and for nodes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAM = [sys.executable, "-c", "import sys; from vcubeps.cli import main; sys.exit(main())"]
"""`vcubeps`, of this environment."""


def vcubeps(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [*PROGRAM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@contextmanager
def started(
    *arguments: str | Path, within_s: float = 30.0, cwd: Path | None = None, **environment: str
) -> Iterator[subprocess.Popen[str]]:
    """The command, running, with pipes; killed if it has not ended after `within_s`, or with the block."""
    process = subprocess.Popen(
        [*PROGRAM, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=os.environ | environment,
    )
    watchdog = threading.Timer(within_s, process.kill)
    watchdog.start()
    try:
        with process:
            try:
                yield process
            finally:
                process.kill()
    finally:
        watchdog.cancel()


def interrupted(process: subprocess.Popen[str], number: signal.Signals = signal.SIGINT) -> float:
    """Send Ctrl-C, or another signal, and wait for the end; how many seconds it took."""
    begin_s = time.monotonic()
    process.send_signal(number)
    process.wait()
    return time.monotonic() - begin_s
