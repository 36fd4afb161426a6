"""Where a sweep keeps its results: a directory of Parquet tables that grows and is never rewritten.

    STORE/store.json                     says that this is one
    STORE/runs/sweep=ID/…                what was to be run
    STORE/measurements/sweep=ID/…        what came out

Every task of a sweep writes one file, under a temporary name, and renames it when it is complete; a run is in one
file. So whatever is there is whole, also after a kill, and what is missing are runs, never parts of one. The lock
lets one program write at a time, so that no work is done twice. Where it cannot hold (a store that is no directory of
this machine, a Spark Connect server that goes on after its client was killed) a run may be there twice, with the same
results; whoever reads counts it once.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from vcubeps.spark.schemas import spark_schema

_MARK = {"what": "results of vcubeps sweeps", "format": 1}
_PATTERN = "*?[]{}\\"
"""Spark takes a name with one of these for a pattern when it reads, and not when it writes."""
_STALE_SECONDS = 3600.0


class StoreError(Exception):
    """The store cannot be used; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Store:
    """At a path, or at an address that Spark's workers and this program both reach (hdfs://…, s3a://…)."""

    address: str

    @property
    def path(self) -> Path | None:
        """None if it is not in a file system of this machine."""
        if "://" not in self.address:
            return Path(self.address).absolute()
        parts = urlsplit(self.address)
        return Path(parts.path).absolute() if parts.scheme == "file" else None

    def place(self, table: str, sweep: str | None = None) -> str:
        root = f"file://{self.path}" if self.path else self.address.rstrip("/")
        return f"{root}/{table}" if sweep is None else f"{root}/{table}/sweep={sweep}"

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Make the store if it is missing, and keep others from writing to it."""
        self.check()
        if self.path is None:
            yield
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.path / ".lock", os.O_CREAT | os.O_RDWR, 0o644)
        except OSError as error:
            raise _cannot_write(self.path, error) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise StoreError(
                f"another sweep is writing to {self.path}: wait for it, or name another directory"
            ) from None
        try:
            self._mark()
            self._sweep_out()
            yield
        finally:
            os.close(lock)

    def check(self) -> None:
        """Refuse a place that cannot be a store, or that holds something else."""
        place = self.address if self.path is None else str(self.path)
        for character in _PATTERN if self.path is None else _PATTERN + ":":
            if character in place:
                raise StoreError(
                    f"{place} has a {character} in its name, which Spark does not read: name another"
                )
        if self.path is None or not self.path.exists():
            return
        mark = self.path / "store.json"
        if not self.path.is_dir() or (not mark.exists() and any(map(_is_not_ours, os.listdir(self.path)))):
            raise StoreError(f"{self.path} holds something else: name a new directory, or one of a sweep")
        if mark.exists() and not self.is_marked():
            raise StoreError(f"{mark} is not of this version: name a new directory")

    def is_marked(self) -> bool:
        """Whether it says of itself that it is one."""
        if self.path is None:
            return False
        try:
            return bool(json.loads((self.path / "store.json").read_text()) == _MARK)
        except (OSError, ValueError):
            return False

    def _mark(self) -> None:
        assert self.path is not None
        if self.is_marked():
            return
        unfinished = self.path / f"store.json.{os.getpid()}"
        try:
            unfinished.write_text(json.dumps(_MARK) + "\n")
            unfinished.replace(self.path / "store.json")
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            raise _cannot_write(self.path, error) from None

    def _sweep_out(self) -> None:
        """What killed sweeps left half-written; nobody reads it, but it takes room."""
        assert self.path is not None
        for unfinished in self.path.glob("*/sweep=*/_temporary"):
            # A fresh one may be a server's that goes on without its client.
            if time.time() - unfinished.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(unfinished, ignore_errors=True)

    def read(self, session: SparkSession, table: str) -> DataFrame:
        """All there is of a table; its column `sweep` says where a row comes from."""
        schema = f"{spark_schema(table)}, sweep STRING"
        try:
            frame = session.read.schema(schema).parquet(self.place(table))
            frame.schema  # noqa: B018 — Spark Connect looks for the files only when it is asked
            return frame
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            return session.createDataFrame([], schema)


def _is_not_ours(name: str) -> bool:
    return name != ".lock" and not name.startswith("store.json.")


def _cannot_write(path: Path, error: OSError) -> StoreError:
    return StoreError(f"cannot write to {path} ({error.strerror}): make room, or name another directory")
