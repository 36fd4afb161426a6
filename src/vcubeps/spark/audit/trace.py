"""A trace to audit: its tables read, checked and counted.

Whoever wrote it: what is wrong with it is said in one sentence that names the table, the column and what to do.
Nothing but counts comes out of Spark here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    IntegralType,
    StructType,
)

from vcubeps.spark.audit.errors import TraceError
from vcubeps.spark.audit.files import null_found
from vcubeps.spark.errors import failure
from vcubeps.tables import TABLES

_IDENTITY = ("source", "counter")
NEEDED = {
    "publications": ("run", "topic", *_IDENTITY, "started_ut", "acknowledged_ut", "barrier"),
    "receptions": ("run", "topic", "node", *_IDENTITY, "position"),
    "deliveries": ("run", "topic", "node", *_IDENTITY, "position"),
    "membership": ("run", "topic", "node", "time_ut", "joins", "asked_ut"),
}
"""Table → columns that an audit reads."""


@dataclass(frozen=True, slots=True)
class Census:
    """How much there is."""

    runs: int
    topics: int
    """Counted once in every run."""
    nodes: int
    """That published or were members, by their numbers: the same in all runs."""
    publications: int
    receptions: int
    deliveries: int
    largest_topic: int
    """About how many receptions and deliveries the largest topic of a run has."""
    topics_without_membership: int
    """Topics on which something was published, but nobody is known to have joined."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Each table with the columns of NEEDED; whole numbers are bigint. Publications and membership have no nulls."""

    publications: DataFrame
    receptions: DataFrame
    deliveries: DataFrame
    membership: DataFrame
    unwritten: DataFrame | None
    """Run, source, counter: from where on publications may lack their rows. Only nodes write that."""
    census: Census


def check_folders(directory: Path) -> None:
    """What can be said of a local trace without Spark."""
    if not directory.is_dir():
        raise TraceError(
            f"{directory} is no directory: name one that vcubeps simulate --trace or a node has written"
        )
    for table in NEEDED:
        if not (directory / table).is_dir():
            raise TraceError(_no_table(str(directory), table))


def read(session: SparkSession, directory: str) -> Trace:
    """`directory` is a path as Spark understands it."""
    tables = {table: _read(session, directory.rstrip("/"), table) for table in NEEDED}
    unwritten = _read_if_there(session, directory.rstrip("/"), "unwritten")
    return Trace(**tables, unwritten=unwritten, census=_census(session, tables))


# -- reading ---------------------------------------------------------------------------------------


def _read(session: SparkSession, directory: str, table: str) -> DataFrame:
    with told_in_a_sentence():
        try:
            frame = session.read.parquet(f"{directory}/{table}")
            _ = frame.schema
        except AnalysisException as error:
            raise TraceError(_why_no_table(error, directory, table)) from None
    return _checked(frame, table, NEEDED[table])


def _read_if_there(session: SparkSession, directory: str, table: str) -> DataFrame | None:
    """All of a table that a trace need not have."""
    with told_in_a_sentence():
        try:
            frame = session.read.parquet(f"{directory}/{table}")
            _ = frame.schema
        except AnalysisException as error:
            if (error.getCondition() or "").startswith(("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")):
                return None
            raise
    return _checked(frame, table, [column.name for column in TABLES[table]])


def _checked(frame: DataFrame, table: str, names: Sequence[str]) -> DataFrame:
    """The columns `names`, of the kinds that they must have."""
    schema = frame.schema
    kinds = {column.name: column.kind for column in TABLES[table]}
    columns = []
    for name in names:
        if name not in schema.names:
            raise TraceError(
                f"the table {table} has no column {name}, only {', '.join(schema.names)}: write the trace with "
                "this version of vcubeps"
            )
        columns.append(_cast(table, name, kinds[name], schema[name].dataType))
    return frame.select(*columns)


def _cast(table: str, name: str, kind: str, found: DataType) -> Column:
    is_fit, wanted = {
        "integer": (_is_whole, "whole numbers"),
        "truth": (_is_truth, "true and false"),
        "barrier": (_is_barrier, "a list of (source, counter), both whole numbers"),
    }[kind]
    if not is_fit(found):
        raise TraceError(
            f"the column {name} of the table {table} holds {found.simpleString()}: write {wanted} into it"
        )
    return F.col(name).cast("bigint").alias(name) if kind == "integer" else F.col(name)


def _is_whole(kind: DataType) -> bool:
    return isinstance(kind, IntegralType) or (isinstance(kind, DecimalType) and kind.scale == 0)


def _is_truth(kind: DataType) -> bool:
    return isinstance(kind, BooleanType)


def _is_barrier(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    entry = kind.elementType
    return set(_IDENTITY) <= set(entry.names) and all(_is_whole(entry[name].dataType) for name in _IDENTITY)


def _why_no_table(error: AnalysisException, directory: str, table: str) -> str:
    condition = error.getCondition() or ""
    if condition.startswith("PATH_NOT_FOUND"):
        return _no_table(directory, table)
    if condition.startswith("UNABLE_TO_INFER_SCHEMA"):
        return f"the table {table} has no Parquet file in {directory}/{table}: write one, if need be without rows"
    return _sentence(error)


def _no_table(directory: str, table: str) -> str:
    return f"{directory} is no trace, it has no folder {table}: name a directory with the folders {', '.join(NEEDED)}"


@contextmanager
def told_in_a_sentence() -> Iterator[None]:
    """What Spark raises inside the block comes out as a TraceError."""
    try:
        yield
    except TraceError:
        raise
    except Exception as error:  # of PySpark, of its bridge to Java, or of its connection to a server
        raise TraceError(_sentence(error)) from error


def _sentence(error: Exception) -> str:
    said = re.search(r"TraceError: (.*)", str(error))  # in a task
    if said is not None:
        return said[1]
    exists = re.search(r"PATH_ALREADY_EXISTS\] Path (\S+)", str(error))
    if exists is not None:
        return f"{exists[1]} exists already: name a new directory"
    file = re.search(rf"[^\s\[]*/({'|'.join(NEEDED)})/[^\s\]]*\.parquet", str(error))
    if file is not None:
        return (
            f"the file {file[0]} of the table {file[1]} cannot be read as Parquet with the columns of the others: "
            "write it again, or remove it"
        )
    return str(failure(error, "the audit"))


# -- counting --------------------------------------------------------------------------------------

_COUNT = """
    WITH known AS (
        -- Who and what the small tables name; the large ones are not read for it.
        SELECT run, topic, source AS node, true AS published FROM {publications}
        UNION ALL SELECT run, topic, node, false FROM {membership}
    ),
    topics AS (
        SELECT run, topic, count_if(published) AS publications, count(DISTINCT node) AS nodes,
            count_if(NOT published) AS changes
        FROM known GROUP BY run, topic
    ),
    publications AS (
        SELECT run, topic, source, counter, count(*) AS times FROM {publications} GROUP BY ALL
    )
    SELECT count(DISTINCT run) AS runs, count(*) AS topics, coalesce(sum(publications), 0) AS publications,
        -- A topic has about as many deliveries as publications times nodes.
        coalesce(try_divide(max(publications * nodes), sum(publications * nodes)), 1) AS largest_share,
        count_if(publications > 0 AND changes = 0) AS topics_without_membership,
        (SELECT count(DISTINCT node) FROM known) AS nodes,
        (SELECT count(*) FROM {receptions}) AS receptions,
        (SELECT count(*) FROM {deliveries}) AS deliveries,
        (SELECT count_if(times > 1) FROM publications) AS repeated,
        (SELECT max({place_publications}) FROM {publications}) AS null_in_publications,
        (SELECT max({place_membership}) FROM {membership}) AS null_in_membership
    FROM topics
"""


def _census(session: SparkSession, tables: dict[str, Any]) -> Census:
    with told_in_a_sentence():
        query = _COUNT
        for table in ("publications", "membership"):
            query = query.replace(f"{{place_{table}}}", _column_with_null(table))
        [row] = session.sql(query, **tables).collect()
    _refuse(row)
    return Census(
        runs=row["runs"],
        topics=row["topics"],
        nodes=row["nodes"],
        publications=row["publications"],
        receptions=row["receptions"],
        deliveries=row["deliveries"],
        largest_topic=ceil(float(row["largest_share"]) * (row["receptions"] + row["deliveries"])),
        topics_without_membership=row["topics_without_membership"],
    )


def refuse_nulls(frame: DataFrame, table: str) -> None:
    """Raises TraceError if a column of a table that `read` has read is null somewhere."""
    with told_in_a_sentence():
        [row] = frame.selectExpr(f"max({_column_with_null(table)}) AS place").collect()
    _refuse_null(table, row["place"])


def _refuse_null(table: str, place: int | None) -> None:
    """`place` is that in NEEDED; None if the table is empty."""
    if place is not None and place >= 0:
        raise TraceError(null_found(table, NEEDED[table][place]))


def _column_with_null(table: str) -> str:
    """Place in NEEDED of a column that is null in a row, −1 if none is."""
    cases = []
    for place, name in enumerate(NEEDED[table]):
        is_null = f"{name} IS NULL"
        if name == "barrier":
            is_null += " OR exists(barrier, e -> e IS NULL OR e.source IS NULL OR e.counter IS NULL)"
        cases.append(f"WHEN {is_null} THEN {place}")
    return f"CASE {' '.join(cases)} ELSE -1 END"


def _refuse(row: Row) -> None:
    _refuse_null("publications", row["null_in_publications"])
    _refuse_null("membership", row["null_in_membership"])
    if row["repeated"]:
        raise TraceError(
            f"the table publications has {row['repeated']} publications more than once: (source, counter) identifies "
            "one in its run and topic; was a file written twice?"
        )
    if not row["publications"] and not row["deliveries"]:
        raise TraceError("the trace is empty, there is nothing to audit: no publication and no delivery")
