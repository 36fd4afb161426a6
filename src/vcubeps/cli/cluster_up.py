"""`vcubeps cluster up`: makes the cluster file, starts the nodes, waits until they are up, or leaves nothing."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import signal
import socket
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from vcubeps.cli import processes
from vcubeps.cli.cluster_directory import STATE, TRACE, ClusterDirectory
from vcubeps.cli.common import CommandError, progress_bar
from vcubeps.cli.gateways import status_at, url_of
from vcubeps.cli.processes import StartedProcess, birth_of

if TYPE_CHECKING:
    from vcubeps.node.settings import ClusterSettings

NODES_MAX = 256
NODES_DEFAULT = 8
_GATEWAYS_ABOVE = 1000
BASE_PORT_MAX = 65535 - _GATEWAYS_ABOVE - NODES_MAX

_FIRST_PORT, _PORT_CHOICES = 10_000, 16_000
"""Below the ports that Linux gives to connections, which come and go."""
_PORT_ATTEMPTS = 50

_UP_WITHIN_S = 60.0
_POLL_S = 0.1
_END_S = 1.6
"""How long nodes have to end after Ctrl-C before they are killed."""
_LOG_LINES = 15


class _StartFailed(Exception):
    """A node did not come up; the text says which, and why."""


def run(args: argparse.Namespace, directory: ClusterDirectory, show: Callable[[], int]) -> int:
    """`show` prints the state of the cluster."""
    _make(directory)
    with _sigterm_as_interrupt():
        try:
            with directory.locked():
                settings = _start(args, directory)
            show()
            if not args.json:
                _say_what_next(directory, settings, foreground=args.foreground)
            return _stay(directory) if args.foreground else 0
        except _StartFailed as error:
            print(f"vcubeps cluster: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            if not args.foreground:
                raise
            _end(directory)
            return 0


def _end(directory: ClusterDirectory) -> None:
    if directory.is_cluster():
        processes.end(directory.running(), _END_S)
        directory.write(directory.made_file, ())


def _say_what_next(directory: ClusterDirectory, settings: ClusterSettings, *, foreground: bool) -> None:
    option, last = directory.option, settings.ids[-1]
    print("\ntry, each in a terminal of its own:")
    print(f"  vcubeps sub room{option} --node {last}")
    print(f"  vcubeps pub room hello{option}")
    print(f"  vcubeps top{option}")
    print("Ctrl-C ends it." if foreground else f"end it with: vcubeps cluster down{option}", flush=True)


# -- the cluster file ------------------------------------------------------------------------------


def _make(directory: ClusterDirectory) -> None:
    try:
        directory.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(
            f"--dir {directory.shown} cannot be made ({error.strerror}): name a directory that this user may "
            "write to"
        ) from None


def _new_settings(args: argparse.Namespace, directory: ClusterDirectory) -> ClusterSettings:
    from vcubeps.net import config  # noqa: PLC0415 - for the commands that need it
    from vcubeps.node.settings import ClusterSettings, NodeSettings  # noqa: PLC0415

    count: int = args.nodes or NODES_DEFAULT
    base = _free_base_port(directory, count) if args.base_port is None else args.base_port
    name = directory.path.name
    settings = ClusterSettings(
        cluster=name if name.isprintable() and 0 < len(name) <= 100 else "local",
        state_dir=STATE,
        trace_dir=TRACE if args.trace else None,
        nodes=tuple(
            NodeSettings(
                id=number,
                address=f"127.0.0.1:{base + number}",
                gateway=f"127.0.0.1:{base + _GATEWAYS_ABOVE + number}",
            )
            for number in range(count)
        ),
    )
    _check_ports(settings, "choose another --base-port")
    directory.write(made_file=True, processes=())
    directory.file.write_text(config.dump(settings))
    return settings


def _free_base_port(directory: ClusterDirectory, count: int) -> int:
    """The same for the same directory, if it is free, so that a cluster made anew has its old ports."""
    first = zlib.crc32(str(directory.path).encode())
    for attempt in range(_PORT_ATTEMPTS):
        base = _FIRST_PORT + (first + attempt * NODES_MAX) % _PORT_CHOICES
        ports = (base + above + number for above in (0, _GATEWAYS_ABOVE) for number in range(count))
        if not any(_is_taken("127.0.0.1", port) for port in ports):
            return base
    raise CommandError(f"no {2 * count} ports in a row are free: name a range that is, with --base-port")


def _old_settings(args: argparse.Namespace, directory: ClusterDirectory) -> ClusterSettings:
    settings = directory.settings()
    if running := directory.running():
        count = sum(len(process.nodes) for process in running)
        raise CommandError(
            f"a cluster runs in {directory.shown} already, with {count} nodes: end it with vcubeps cluster "
            f"down{directory.option}, or name another --dir"
        )
    otherwise = (
        f"leave the option out, name another --dir, or vcubeps cluster down --remove{directory.option}"
    )
    first = settings.nodes[0]
    if args.nodes not in (None, len(settings.nodes)):
        raise CommandError(f"{directory.file} has {len(settings.nodes)} nodes, not {args.nodes}: {otherwise}")
    if args.base_port is not None and first.address != f"127.0.0.1:{args.base_port + first.id}":
        raise CommandError(
            f"{directory.file} has node {first.id} at {first.address}, not on port {args.base_port + first.id}: "
            f"{otherwise}"
        )
    if args.trace and settings.trace_dir is None:
        raise CommandError(f"{directory.file} has no trace_dir: add it there, or {otherwise}")
    for node in settings.nodes:
        if node.gateway is None:
            raise CommandError(f"{directory.file} has no gateway for node {node.id}: add one")
    _check_ports(settings, f"change the port in {directory.file}")
    return settings


def _check_ports(settings: ClusterSettings, fix: str) -> None:
    from vcubeps.node.settings import host_and_port  # noqa: PLC0415 - for the commands that need it

    for node in settings.nodes:
        for address in (node.listen or node.address, node.gateway):
            if address is not None and _is_taken(*host_and_port(address)):
                raise CommandError(
                    f"node {node.id} cannot listen on {address}, which another program has: end that, or {fix}"
                )


def _is_taken(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE  # what else is wrong, the node says better
    return False


# -- starting --------------------------------------------------------------------------------------


def _start(args: argparse.Namespace, directory: ClusterDirectory) -> ClusterSettings:
    """All nodes are up when it returns; otherwise none runs, and what it made is gone."""
    is_new = not directory.is_cluster()
    if is_new and (strangers := directory.strangers()):
        raise CommandError(
            f"{directory.shown} has {', '.join(strangers)} in it, and no cluster.toml: name another --dir, where "
            "nothing of that name is"
        )
    try:
        settings = _new_settings(args, directory) if is_new else _old_settings(args, directory)
        _start_processes(args, directory, settings)
    except BaseException:
        if is_new:
            directory.remove()
        raise
    return settings


def _start_processes(
    args: argparse.Namespace, directory: ClusterDirectory, settings: ClusterSettings
) -> None:
    from vcubeps.net import loops  # noqa: PLC0415 - for the commands that need it

    started: list[StartedProcess] = []
    made_file = directory.made_file
    logs_from: dict[str, int] = {}
    try:
        for name, nodes in _shares(settings, args.processes):
            log = directory.log(name)
            log.parent.mkdir(exist_ok=True)
            logs_from[str(log)] = log.stat().st_size if log.exists() else 0
            started.append(_launch(directory, nodes, log))
            directory.write(made_file, tuple(started))
        with progress_bar("starting nodes", len(settings.nodes)) as advance:
            loops.run(_wait_until_up(settings, started, advance))
    except BaseException as error:
        processes.end(started, _END_S)
        directory.write(made_file, ())
        if isinstance(error, _NodeEnded):
            log = Path(error.process.log)
            raise _StartFailed(_with_log(error.process, log, logs_from[str(log)])) from None
        raise


def _shares(settings: ClusterSettings, separate: bool) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name of the log and nodes, for each process."""
    if separate:
        yield from ((f"node-{number}", (number,)) for number in settings.ids)
    else:
        yield "nodes", settings.ids


def _launch(directory: ClusterDirectory, nodes: tuple[int, ...], log: Path) -> StartedProcess:
    ids = ",".join(map(str, nodes))
    # -P: a folder named vcubeps where the user happens to be is not the package.
    command = [sys.executable, "-P", "-m", "vcubeps", "node", "--config", str(directory.file), "--id", ids]
    with log.open("ab") as stream:
        process = subprocess.Popen(
            [*command, "--log-level", "info"],
            stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, start_new_session=True,
        )  # fmt: skip
    process.returncode = 0  # it is to go on without this command: no warning that it does
    return StartedProcess(process.pid, birth_of(process.pid) or "ended", nodes, str(log))


class _NodeEnded(Exception):
    def __init__(self, process: StartedProcess) -> None:
        self.process = process


async def _wait_until_up(
    settings: ClusterSettings, started: list[StartedProcess], advance: Callable[[int], None] | None
) -> None:
    waiting = {node.id: url_of(node.gateway) for node in settings.nodes if node.gateway}
    deadline_s = time.monotonic() + _UP_WITHIN_S
    while True:
        for process in started:
            if not process.is_running:
                raise _NodeEnded(process)
        answers = await asyncio.gather(*(status_at(url, number) for number, url in waiting.items()))
        up = [number for number, answer in zip(waiting, answers, strict=True) if answer and answer.up]
        for number in up:
            del waiting[number]
        if advance is not None:
            advance(len(up))
        if not waiting:
            return
        if time.monotonic() > deadline_s:
            late = ", ".join(map(str, waiting))
            raise _StartFailed(
                f"nodes {late} are not up after {_UP_WITHIN_S:g} s: see the logs in {Path(started[0].log).parent}"
            )
        await asyncio.sleep(_POLL_S)


def _with_log(process: StartedProcess, log: Path, begin: int) -> str:
    nodes = f"node {process.nodes[0]}" if len(process.nodes) == 1 else "the process of the nodes"
    with log.open("rb") as stream:
        stream.seek(begin)
        lines = stream.read().decode(errors="replace").splitlines()
    shown = "\n".join(f"  {line}" for line in lines[-_LOG_LINES:])
    return f"{nodes} did not start, and the others were ended; the end of its log:\n{shown}"


# -- staying ---------------------------------------------------------------------------------------


def _stay(directory: ClusterDirectory) -> int:
    """Until Ctrl-C, or until all processes have ended."""
    running = directory.running()
    while running:
        time.sleep(_POLL_S)
        left = directory.running()
        for process in running:
            if process not in left:
                nodes = ", ".join(map(str, process.nodes))
                print(f"the process of node {nodes} has ended: see {process.log}", file=sys.stderr)
        running = left
    return 1


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        with contextlib.suppress(TypeError):  # it was not set from Python
            signal.signal(signal.SIGTERM, before)
