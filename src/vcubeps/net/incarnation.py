"""Which incarnation a node starts as: one more than ever before, known to the disk before anyone else hears of it.

The counters of an incarnation must never be used twice: other nodes take a counter that they know for a copy of what
they have, and drop it. So nothing here returns a number that a crash, or the loss of power, could make it return
again, and two processes never hold the store of one node.
"""

from __future__ import annotations

import fcntl
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from vcubeps.net.config import ConfigError
from vcubeps.protocol.errors import UsageError
from vcubeps.protocol.limits import MAX_INCARNATION


class NodeRunning(ConfigError):
    """Another process runs this node."""


class StateError(ConfigError):
    """What is kept about a node cannot be read or written."""


class Incarnations(ABC):
    """The incarnations of one node, each given out once."""

    def __init__(self, node: int, last: int | None) -> None:
        self._node = node
        self._last = last

    def next(self) -> int:
        """The incarnation to start as: 0 the first time, then one more than the last one used."""
        incarnation = 0 if self._last is None else self._last + 1
        if incarnation > MAX_INCARNATION:
            raise StateError(
                f"node {self._node} may start as incarnation {MAX_INCARNATION} at most, and it has: give it an id "
                "that was never used, or the whole cluster another name"
            )
        self._advance(incarnation)
        return incarnation

    def store(self, incarnation: int) -> None:
        """Keep `incarnation`, which the node is about to use and has not taken from `next`."""
        if not 0 <= incarnation <= MAX_INCARNATION:
            raise UsageError(
                f"incarnations lie in 0…{MAX_INCARNATION}, got {incarnation}: store one in that range"
            )
        if self._last is not None and incarnation < self._last:
            raise UsageError(
                f"node {self._node} has used incarnation {self._last} already, got the earlier {incarnation}: "
                "its counters may be in use, take a later one"
            )
        if incarnation != self._last:
            self._advance(incarnation)

    def _advance(self, incarnation: int) -> None:
        self._keep(incarnation)
        self._last = incarnation

    @abstractmethod
    def _keep(self, incarnation: int) -> None:
        """Make sure that `incarnation` is known after the next start."""

    @abstractmethod
    def close(self) -> None:
        """Let another process run the node; closing twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class VolatileIncarnation(Incarnations):
    """For a node that ends with its whole cluster, in one process: it starts with 0."""

    def __init__(self, node: int) -> None:
        super().__init__(node, None)

    def _keep(self, incarnation: int) -> None:
        pass

    def close(self) -> None:
        pass


class IncarnationStore(Incarnations):
    """For a node that comes back: its last incarnation in a file, and a lock while it runs."""

    def __init__(self, directory: Path, node: int, lock: int, last: int | None) -> None:
        """Use `open`."""
        super().__init__(node, last)
        self._directory = directory
        self._lock: int | None = lock

    @classmethod
    def open(cls, directory: Path, node: int) -> Self:
        """The store of `node` in `directory`, which is made if it is not there; no other process can open it."""
        with _explained(node, directory):
            _make_durably(directory)
            lock = os.open(directory / f"node-{node}.lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            with _explained(node, directory):
                _take(lock, directory / f"node-{node}.lock", node)
                last = _read(_file(directory, node), node)
        except BaseException:
            os.close(lock)
            raise
        return cls(directory, node, lock, last)

    def close(self) -> None:
        # The file stays: were it removed, one process could hold the lock of the old file and one that of the new.
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _keep(self, incarnation: int) -> None:
        if self._lock is None:
            raise UsageError(f"the incarnations of node {self._node} are closed: open them again")
        file = _file(self._directory, self._node)
        fresh = file.with_suffix(".incarnation.new")
        with _explained(self._node, self._directory):
            with fresh.open("w") as stream:
                stream.write(f"{incarnation}\n")
                stream.flush()
                os.fsync(stream.fileno())
            fresh.replace(file)
            _sync_directory(self._directory)


def _file(directory: Path, node: int) -> Path:
    return directory / f"node-{node}.incarnation"


def _take(lock: int, path: Path, node: int) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        # Whoever has just taken the lock may not have written its number yet.
        holder = os.pread(lock, 20, 0).decode("ascii", "replace").strip()
        process = f"process {holder}" if holder.isdigit() else "another process"
        raise NodeRunning(
            f"{path}: node {node} of this cluster already runs on this machine, as {process}: stop that one first, "
            "or start another node"
        ) from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)


def _read(file: Path, node: int) -> int | None:
    try:
        with file.open("rb") as stream:
            content = stream.read(64)
    except FileNotFoundError:
        return None
    # Without the newline, digits may be missing.
    if re.fullmatch(rb"[0-9]{1,9}\n", content) and int(content) <= MAX_INCARNATION:
        return int(content)
    raise StateError(
        f"{file}: the last incarnation of node {node} must be a whole number from 0 to {MAX_INCARNATION} and a line "
        f"end, got {content[:20]!r}: write a higher number into it than the node has ever used (1000000 if "
        "nobody knows), because the counters of an incarnation must never be used twice"
    )


def _make_durably(directory: Path) -> None:
    """Make `directory` such that the loss of power does not undo it, and what is kept in it."""
    missing = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        _sync_directory(folder.parent)


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _explained(node: int, directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StateError(
            f"{error.filename or directory}: what is kept about node {node} cannot be read or written "
            f"({error.strerror or error}): make {directory} a directory that this user may write to, with room on the "
            "disk, or choose another with state_dir"
        ) from error
