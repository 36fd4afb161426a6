"""The directory of a local cluster: what is in it, which of its processes run, and removing what a command made.

    cluster.toml    the cluster file
    cluster.json    the processes that were started, and whether the cluster file was made here
    logs/           one log per process
    state/          how often each node has started
    trace/          with --trace: what the nodes wrote down

Starts and ends no process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from vcubeps.cli.common import CommandError, Parser
from vcubeps.cli.processes import StartedProcess

if TYPE_CHECKING:
    from vcubeps.node.settings import ClusterSettings

DEFAULT = "vcubeps-cluster"
STATE, TRACE, LOGS = "state", "trace", "logs"

_MADE = {
    LOGS: ("nodes.log", "node-*.log"),
    STATE: ("node-*.incarnation", "node-*.incarnation.new", "node-*.lock"),
    TRACE: ("*/node-*.parquet", "*/live.parquet", "*/empty.parquet"),
}
"""Folder → what is in it that nodes or commands made."""


class _Record(msgspec.Struct, frozen=True):
    """cluster.json."""

    made_file: bool
    """The cluster file was made by `cluster up`, and goes with `cluster down --remove`."""
    processes: tuple[StartedProcess, ...] = ()


class ClusterDirectory:
    """May not be there yet."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.shown = os.fspath(path)
        """As the user wrote it."""
        self.path = Path(path).absolute()
        self.file = self.path / "cluster.toml"
        self._record_file = self.path / "cluster.json"

    @property
    def option(self) -> str:
        """What names this directory on the command line; nothing for the one that is looked in anyway."""
        return "" if self.shown == DEFAULT else f" --dir {shlex.quote(self.shown)}"

    def is_cluster(self) -> bool:
        return self.file.is_file()

    def settings(self) -> ClusterSettings:
        from vcubeps.net import config  # noqa: PLC0415 - for the commands that need it

        if not self.is_cluster():
            raise CommandError(
                f"there is no cluster in {self.shown}: start one with vcubeps cluster up{self.option}, or name "
                "its directory with --dir"
            )
        try:
            return config.load(self.file)
        except config.ConfigError as error:
            raise CommandError(str(error)) from None

    # -- processes -----------------------------------------------------------------------------

    def running(self) -> tuple[StartedProcess, ...]:
        return tuple(process for process in self._record().processes if process.is_running)

    def write(self, made_file: bool, processes: tuple[StartedProcess, ...]) -> None:
        fresh = self._record_file.with_suffix(".json.new")
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(_Record(made_file, processes)), indent=1))
        fresh.replace(self._record_file)

    @property
    def made_file(self) -> bool:
        return self._record().made_file

    def _record(self) -> _Record:
        try:
            return msgspec.json.decode(self._record_file.read_bytes(), type=_Record)
        except FileNotFoundError:
            return _Record(made_file=False)
        except (OSError, msgspec.MsgspecError) as error:
            raise CommandError(
                f"{self._record_file} cannot be read ({error}): end the processes of this cluster yourself and "
                "delete the file"
            ) from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Meanwhile no other command starts or ends this cluster. The directory must be there."""
        handle = os.open(self.path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CommandError(
                    f"another command starts or ends the cluster in {self.shown}: wait until it is done"
                ) from None
            yield
        finally:
            os.close(handle)

    # -- files ---------------------------------------------------------------------------------

    def log(self, name: str) -> Path:
        return self.path / LOGS / f"{name}.log"

    def strangers(self) -> list[str]:
        """What is there, by the names that a new cluster would use."""
        return [name for name in _MADE if (self.path / name).exists()]

    def remove(self) -> None:
        """Delete what `cluster up` and its nodes made, and the folders that are empty then.

        Where somebody else wrote the cluster file, its nodes may have run before, so their state stays.
        """
        made_file = self.made_file
        for folder, patterns in _MADE.items() if made_file else [(LOGS, _MADE[LOGS])]:
            for pattern in patterns:
                for file in (self.path / folder).glob(pattern):
                    file.unlink(missing_ok=True)
            for inner in (self.path / folder).glob("*/"):
                _remove_if_empty(inner)
            _remove_if_empty(self.path / folder)
        self._record_file.unlink(missing_ok=True)
        if made_file:
            self.file.unlink(missing_ok=True)
        _remove_if_empty(self.path)


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def add_directory_option(parser: Parser) -> None:
    parser.add_argument(
        "--dir", metavar="DIR", default=DEFAULT, help=f"directory of the cluster (default: ./{DEFAULT})"
    )
