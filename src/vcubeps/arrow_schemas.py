"""The tables of `vcubeps.tables` as Arrow has them."""

from __future__ import annotations

import pyarrow as pa

from vcubeps.tables import TABLES

_KINDS = {
    "integer": pa.int64(),
    "real": pa.float64(),
    "text": pa.string(),
    "truth": pa.bool_(),
    "integers": pa.list_(pa.int64()),
    "barrier": pa.list_(pa.struct([("source", pa.int64()), ("counter", pa.int64())])),
}


def arrow_schema(table: str) -> pa.Schema:
    """
    >>> arrow_schema("measurements").names
    ['run', 'name', 'values', 'counts']
    """
    return pa.schema([(column.name, _KINDS[column.kind]) for column in TABLES[table]])
