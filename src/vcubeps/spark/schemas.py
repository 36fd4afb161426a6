"""The tables of `vcubeps.tables` as Spark has them."""

from __future__ import annotations

from vcubeps.tables import TABLES

_KINDS = {
    "integer": "BIGINT",
    "real": "DOUBLE",
    "text": "STRING",
    "truth": "BOOLEAN",
    "integers": "ARRAY<BIGINT>",
    "barrier": "ARRAY<STRUCT<source: BIGINT, counter: BIGINT>>",
}


def spark_schema(table: str) -> str:
    """
    >>> spark_schema("measurements")
    'run BIGINT, name STRING, values ARRAY<BIGINT>, counts ARRAY<BIGINT>'
    """
    return ", ".join(f"{column.name} {_KINDS[column.kind]}" for column in TABLES[table])
