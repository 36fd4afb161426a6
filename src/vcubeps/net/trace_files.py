"""The folder of Parquet files that the nodes of a live run write their trace into.

Every node appends files of its own. A file is written in a corner that no reader looks into, and then renamed: a
reader sees whole files only, also after `kill -9`. Several nodes, in one process or in many, share a folder without
knowing of each other; the folders of several machines may be copied into one.
"""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import repeat
from pathlib import Path

from vcubeps.net.config import ConfigError
from vcubeps.net.trace_rows import Arrivals, Change, Collected, Published
from vcubeps.provenance import git_revision, package_version
from vcubeps.tables import TRACE

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as error:
    raise ConfigError(
        "a trace (trace_dir) is written as Parquet files, which needs pyarrow: pip install 'vcubeps[sim]', or go "
        "without trace_dir"
    ) from error

from vcubeps.arrow_schemas import arrow_schema

RUN = 0
"""A live run is the only one of its trace."""

SCHEMAS = {table: arrow_schema(table) for table in (*TRACE, "topics", "unwritten")}

_UNFINISHED = ".unfinished"
_LIVE = "live.parquet"
_EMPTY = "empty.parquet"


class TraceDirectoryError(ConfigError):
    """The trace cannot be written there."""


class TraceFiles:
    """What one node has written of its trace, and goes on writing.

    A file's name has the node, when and by which process writing began, and how many rows of the table the node had
    written before: so names never meet, and a node that comes back goes on counting where it stopped.
    """

    def __init__(self, directory: Path, node: int) -> None:
        self._directory = directory.absolute()
        self._number = node
        self._node = f"node-{node:05}"
        self._writer = f"{self._node}-{time.time_ns() // 1000:016}-{os.urandom(3).hex()}"
        with self._explained():
            for table in SCHEMAS:
                (self._directory / table).mkdir(parents=True, exist_ok=True)
            (self._directory / _UNFINISHED).mkdir(exist_ok=True)
            self._begin_run()
            self._end([], 0)  # which shows that this can be written
            self.rows = {table: self._rows_before(table) for table in SCHEMAS}
            """Table → rows that this node has written, in this process or before."""

    def write(self, collected: Collected, ends: list[Change], unwritten: int | None) -> None:
        """Files of what was collected.

        The others are how the trace ends if this process writes nothing more, and take the place of what was said
        before: the leaves to assume, and from which counter on publications are not written, None if all are. They
        come before the changes and include their leaves, so that there is no moment at which a subscription seems to
        last for ever.
        """
        node = self._number
        self._append("topics", _topics(collected.topics))
        self._append("publications", _publications(node, collected.publications))
        self._append("receptions", self._arrivals("receptions", collected.receptions))
        self._append("deliveries", self._arrivals("deliveries", collected.deliveries))
        self._end(ends, unwritten)
        self._append("membership", _membership(node, collected.changes))

    # -- inside --------------------------------------------------------------------------------

    def _append(self, table: str, rows: pa.Table) -> None:
        """One more file, unless there are no rows."""
        if rows.num_rows:
            self._write(table, f"{self._writer}-{self.rows[table]:012}.parquet", rows)
            self.rows[table] += rows.num_rows

    def _arrivals(self, table: str, arrivals: Arrivals) -> pa.Table:
        return _arrivals(table, self._number, arrivals, self.rows[table])

    def _end(self, ends: list[Change], unwritten: int | None) -> None:
        name = f"{self._writer}-end.parquet"
        self._write("membership", name, _membership(self._number, ends))
        rows = [] if unwritten is None else [{"run": RUN, "source": self._number, "counter": unwritten}]
        self._write("unwritten", name, pa.Table.from_pylist(rows, SCHEMAS["unwritten"]))

    def _write(self, table: str, name: str, rows: pa.Table) -> None:
        # The same name every time: a crash leaves at most one of them, which the next start overwrites.
        unfinished = self._directory / _UNFINISHED / f"{self._node}-{table}.parquet"
        try:
            pq.write_table(rows, unfinished)
            unfinished.rename(self._directory / table / name)
        except BaseException:
            with suppress(OSError):
                unfinished.unlink()
            raise

    def _begin_run(self) -> None:
        """What is the same for all nodes, by whichever comes first: the run, and a file in every table."""
        if not (self._directory / "runs" / _LIVE).exists():
            if any(file.name != _LIVE for file in (self._directory / "runs").iterdir()):
                raise TraceDirectoryError(
                    f"{self._directory} holds a trace that no node has written: name another directory as trace_dir"
                )
            run = {
                "run": RUN, "scenario": "live", "system": "vcube-ps", "seed": 0, "parameters": "{}",
                "version": package_version(), "revision": git_revision(),
            }  # fmt: skip
            self._write("runs", _LIVE, pa.Table.from_pylist([run], SCHEMAS["runs"]))
        for table, schema in SCHEMAS.items():
            if table != "runs" and not (self._directory / table / _EMPTY).exists():
                self._write(table, _EMPTY, schema.empty_table())

    def _rows_before(self, table: str) -> int:
        """How many rows of `table` earlier processes of this node have written."""
        numbered = {
            int(number): file
            for file in (self._directory / table).glob(f"{self._node}-*.parquet")
            if (number := file.stem.rpartition("-")[2]).isdigit()
        }
        if not numbered:
            return 0
        last = max(numbered)
        rows: int = pq.read_metadata(numbered[last]).num_rows
        return last + rows

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise TraceDirectoryError(
                f"{getattr(error, 'filename', None) or self._directory}: the trace cannot be written "
                f"({getattr(error, 'strerror', None) or error}): make {self._directory} a directory that this user may "
                "write to, with room on the disk, or choose another with trace_dir"
            ) from error


# -- rows as Arrow has them --------------------------------------------------------------------------


def _topics(topics: list[tuple[int, str]]) -> pa.Table:
    rows = [{"run": RUN, "topic": number, "name": name} for number, name in topics]
    return pa.Table.from_pylist(rows, SCHEMAS["topics"])


def _membership(node: int, changes: list[Change]) -> pa.Table:
    rows = [{"run": RUN, "node": node, **change._asdict()} for change in changes]
    return pa.Table.from_pylist(rows, SCHEMAS["membership"])


def _arrivals(table: str, node: int, arrivals: Arrivals, first_position: int) -> pa.Table:
    count = len(arrivals.counter)
    columns = {
        "run": _constant(RUN, count),
        "topic": _integers(arrivals.topic),
        "source": _integers(arrivals.source),
        "counter": _integers(arrivals.counter),
        "node": _constant(node, count),
        "time_ut": _integers(arrivals.time_ut),
        "position": _integers(range(first_position, first_position + count)),
    }
    return _table(table, columns)


def _publications(node: int, published: list[Published]) -> pa.Table:
    topic, counter, published_ut, started_ut, acknowledged_ut = (array("q") for _ in range(5))
    ends, on_source, on_counter = array("i", [0]), array("q"), array("q")
    for number, broadcast, acknowledged in published:
        count = len(broadcast.counters)
        topic.extend(repeat(number, count))
        counter.extend(broadcast.counters)
        published_ut.extend(broadcast.published_ut)
        started_ut.extend(repeat(broadcast.started_ut, count))
        acknowledged_ut.extend(repeat(acknowledged, count))
        on_source.extend(sorted(broadcast.barrier))
        on_counter.extend(broadcast.barrier[source] for source in sorted(broadcast.barrier))
        ends.append(len(on_source))
        ends.extend(range(len(on_source) + 1, len(on_source) + count))
        on_source.extend(repeat(node, count - 1))
        on_counter.extend(broadcast.counters[:-1])
    entries = pa.StructArray.from_arrays([_integers(on_source), _integers(on_counter)], ["source", "counter"])
    columns = {
        "run": _constant(RUN, len(counter)),
        "topic": _integers(topic),
        "source": _constant(node, len(counter)),
        "counter": _integers(counter),
        "published_ut": _integers(published_ut),
        "started_ut": _integers(started_ut),
        "barrier": pa.ListArray.from_arrays(_integers(ends), entries),
        "acknowledged_ut": _integers(acknowledged_ut),
    }
    return _table("publications", columns)


def _table(table: str, columns: dict[str, pa.Array]) -> pa.Table:
    return pa.table([columns[name] for name in SCHEMAS[table].names], schema=SCHEMAS[table])


def _integers(values: Iterable[int]) -> pa.Array:
    """Of 32 bits if they are an array of such."""
    column = values if isinstance(values, array) else array("q", values)
    kind = pa.int32() if column.typecode == "i" else pa.int64()
    return pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(column)])


def _constant(value: int, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.int64()), count)
