"""Reading a table's files inside Spark's tasks, column by column.

For the large tables: Spark's own way from a Parquet file to Python leads through rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from vcubeps.spark.audit.errors import TraceError

_ROWS_PER_SLICE = 2_000_000
_ROWS_PER_BATCH = 1 << 17


def plain_files(frame: DataFrame, columns: Sequence[str]) -> list[str] | None:
    """Paths of the files that a table consists of; None if only Spark can read them as that table.

    That is so where they are in no file system of the machines, or have columns in the names of their folders.
    """
    addresses = frame.inputFiles()
    if any(urlsplit(address).scheme != "file" for address in addresses):
        return None
    paths = [unquote(urlsplit(address).path) for address in addresses]
    return None if any(f"/{name}=" in path for path in paths for name in columns) else sorted(paths)


def slices(paths: Sequence[str], rows: int) -> list[tuple[str, int, int]]:
    """Path, number and count of the slices that the files are read in, by row groups.

    >>> slices(["a", "b"], 6_000_000)
    [('a', 0, 2), ('a', 1, 2), ('b', 0, 2), ('b', 1, 2)]
    """
    count = max(1, -(-rows // (_ROWS_PER_SLICE * max(1, len(paths)))))
    return [(path, k, count) for path in paths for k in range(count)]


def read_slices(
    table: str, columns: Sequence[str], asked_for: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Rows (path, number, count) → batches of `columns`, whole numbers of 64 bits without nulls. Raises TraceError."""
    schema = pa.schema([(name, pa.int64()) for name in columns])
    for batch in asked_for:
        for path, k, count in zip(*(batch.column(n).to_pylist() for n in range(3)), strict=True):
            try:
                with pq.ParquetFile(path) as file:
                    groups = list(range(k, file.num_row_groups, count))
                    for rows in file.iter_batches(_ROWS_PER_BATCH, groups, list(columns), use_threads=False):
                        yield without_nulls(table, rows.select(list(columns)).cast(schema))
            except (OSError, KeyError, pa.ArrowException) as error:
                raise TraceError(
                    f"the file {path} of the table {table} cannot be read as Parquet with the columns of the others: "
                    "write it again, or remove it"
                ) from error


def without_nulls(table: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows. Raises TraceError if something in them is null."""
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if column.null_count:
            raise TraceError(null_found(table, name))
    return rows


def null_found(table: str, column: str) -> str:
    return f"the column {column} of the table {table} has nulls: fill them, or leave these rows out"
