"""Ports of loopback that are free at the moment."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def free_ports_in_a_row(count: int) -> int:
    """The first of so many ports that follow each other, below those that the system gives out by itself."""
    choose = random.SystemRandom()  # tests that run beside each other must not all begin at the same place
    while True:
        first = choose.randrange(20_000, 32_000)
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
        return first
