"""How commands that run an event loop end: in order at the first signal, at once at the second, never late."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from commands import interrupted

PROGRAM = """
import asyncio, sys
from vcubeps.cli import interrupts

async def main():
    print("running", flush=True)
    try:
        await asyncio.sleep(60)
    finally:
        print("closing", flush=True)
        await asyncio.sleep(float(sys.argv[1]))
        print("closed", flush=True)

try:
    interrupts.run(main(), eval(sys.argv[2]))
except KeyboardInterrupt:
    print("interrupted")
"""


def running(close_s: float, within_s: float | None) -> Iterator[subprocess.Popen[str]]:
    """A process whose work takes `close_s` to close, and may take `within_s`."""
    command = [sys.executable, "-c", PROGRAM, str(close_s), str(within_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        yield process
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_lets_the_work_be_closed(number: signal.Signals) -> None:
    for process in running(close_s=0.0, within_s=None):
        interrupted(process, number)

        assert process.stdout is not None
        assert process.stdout.read() == "closing\nclosed\ninterrupted\n"
        assert process.returncode == 0


def test_the_second_signal_ends_the_process_at_once_with_130() -> None:
    for process in running(close_s=60.0, within_s=None):
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        assert process.stdout.readline() == "closing\n"

        assert interrupted(process) < 1

        assert process.returncode == 130


def test_closing_that_takes_too_long_is_given_up_with_130() -> None:
    for process in running(close_s=60.0, within_s=0.1):
        assert interrupted(process) < 1

        assert process.returncode == 130
