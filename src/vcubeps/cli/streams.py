"""Standard input and output beside an event loop: neither a slow reader nor a silent writer stops Ctrl-C.

A read or a write may take for ever, and files cannot be waited for by an event loop. So a thread does it, which the
end of the process does not wait for.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncGenerator

from vcubeps.cli.common import CommandError

_WAITING_BYTES_MAX = 1 << 20
"""What may wait to be written; then `write` waits."""
_READ_BYTES = 1 << 16
_LINES_MAX = 8
"""Chunks of input that may wait to be taken."""


class Output:
    """Standard output. What comes while a write is under way is written with the next one."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: list[bytes] = []
        self._size = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._room = asyncio.Event()
        self._room.set()
        self._error: OSError | None = None

    async def write(self, line: str) -> None:
        """Print `line`; raises what the last write raised, such as BrokenPipeError."""
        if self._error is not None:
            raise self._error
        encoded = f"{line}\n".encode(sys.stdout.encoding or "utf-8", "replace")
        self._waiting.append(encoded)
        self._size += len(encoded)
        if self._idle.is_set():
            self._start()
        if self._size > _WAITING_BYTES_MAX:
            self._room.clear()
            await self._room.wait()

    async def flush(self) -> None:
        """Wait until everything has been written."""
        await self._idle.wait()
        if self._error is not None:
            raise self._error

    def _start(self) -> None:
        self._idle.clear()
        data = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        self._room.set()
        threading.Thread(target=self._write, args=(data,), daemon=True).start()

    def _write(self, data: bytes) -> None:
        error = None
        try:
            while data:
                data = data[os.write(sys.stdout.fileno(), data) :]
        except OSError as raised:
            error = raised
        _call(self._loop, self._written, error)

    def _written(self, error: OSError | None) -> None:
        self._idle.set()
        if error is not None:
            self._error = error
            self._room.set()
        elif self._waiting:
            self._start()


async def input_lines(bytes_max: int) -> AsyncGenerator[bytes, None]:
    """The lines of standard input without their ends, of at most `bytes_max` bytes."""
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes] = asyncio.Queue()
    room = threading.Semaphore(_LINES_MAX)

    def read() -> None:
        while True:
            room.acquire()
            try:
                chunk = os.read(sys.stdin.fileno(), _READ_BYTES)
            except OSError:
                chunk = b""
            if not _call(loop, chunks.put_nowait, chunk) or not chunk:
                return

    threading.Thread(target=read, daemon=True).start()
    begun, number = b"", 0
    while chunk := await chunks.get():
        room.release()
        *lines, begun = (begun + chunk).split(b"\n")
        for line in lines:
            number += 1
            yield _checked(line.removesuffix(b"\r"), number, bytes_max)
        _checked(begun, number + 1, bytes_max)
    if begun:
        yield _checked(begun.removesuffix(b"\r"), number + 1, bytes_max)


def _checked(line: bytes, number: int, bytes_max: int) -> bytes:
    if len(line) > bytes_max:
        raise CommandError(
            f"line {number} of standard input has more than {bytes_max:,} bytes: cut it into shorter lines"
        )
    return line


def _call(loop: asyncio.AbstractEventLoop, function: object, *arguments: object) -> bool:
    """Call `function` in the loop, from another thread; False if the loop has ended."""
    try:
        loop.call_soon_threadsafe(function, *arguments)  # type: ignore[arg-type]
    except RuntimeError:
        return False
    return True
