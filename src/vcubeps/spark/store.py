"""Where a sweep keeps its results: a directory of Parquet tables that grows and is never rewritten.

    STORE/store.json                     says that this is one
    STORE/runs/sweep=ID/…                what was to be run
    STORE/measurements/sweep=ID/…        what came out

Every task of a sweep writes one file, under a temporary name, and renames it when it is complete; a run is in one
file. So whatever is there is whole, also after a kill, and what is missing are runs, never parts of one. The lock
lets one sweep write at a time, so no run is there twice.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from vcubeps.spark.schemas import spark_schema

_MARK = {"what": "results of vcubeps sweeps", "format": 1}


class StoreError(Exception):
    """The store cannot be used; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Store:
    """At a path, or at an address that Spark's workers and this program both reach (hdfs://…, s3a://…)."""

    address: str

    @property
    def path(self) -> Path | None:
        """None if it is not in a file system of this machine."""
        parts = urlsplit(self.address)
        if parts.scheme not in {"", "file"}:
            return None
        return Path(parts.path if parts.scheme else self.address).absolute()

    def place(self, table: str, sweep: str | None = None) -> str:
        root = f"file://{self.path}" if self.path else self.address.rstrip("/")
        return f"{root}/{table}" if sweep is None else f"{root}/{table}/sweep={sweep}"

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Make the store if it is missing, and keep others from writing to it."""
        if self.path is None:
            yield
            return
        self.check()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.path / ".lock", os.O_CREAT | os.O_RDWR, 0o644)
        except OSError as error:
            raise StoreError(
                f"cannot write to {self.path} ({error.strerror}): name another directory"
            ) from None
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
        """Refuse a directory that holds something else."""
        if self.path is None or not self.path.exists():
            return
        mark = self.path / "store.json"
        if not self.path.is_dir() or (not mark.exists() and set(os.listdir(self.path)) - {".lock"}):
            raise StoreError(f"{self.path} holds something else: name a new directory, or one of a sweep")
        if mark.exists() and _read(mark) != _MARK:
            raise StoreError(f"{mark} is not of this version: name a new directory")

    def _mark(self) -> None:
        assert self.path is not None
        unfinished = self.path / f"store.json.{os.getpid()}"
        unfinished.write_text(json.dumps(_MARK) + "\n")
        unfinished.replace(self.path / "store.json")

    def _sweep_out(self) -> None:
        """What killed sweeps left half-written; nobody reads it, but it takes room."""
        assert self.path is not None
        for unfinished in self.path.glob("*/sweep=*/_temporary"):
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


def _read(mark: Path) -> Any:
    try:
        return json.loads(mark.read_text())
    except (OSError, ValueError):
        return None
