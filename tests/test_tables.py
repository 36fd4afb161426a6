"""The tables as data agree with what is written."""

from __future__ import annotations

import pytest

from vcubeps.sim import trace
from vcubeps.tables import TABLES

ROWS = {
    "publications": trace.Publication,
    "receptions": trace.Arrival,
    "deliveries": trace.Arrival,
    "membership": trace.Change,
}


@pytest.mark.parametrize("table", TABLES)
def test_every_column_is_explained_once(table: str) -> None:
    names = [column.name for column in TABLES[table]]

    assert len(set(names)) == len(names)
    assert names[0] == ("figure" if table == "figures" else "run")
    assert all(column.meaning for column in TABLES[table])


@pytest.mark.parametrize("table", ROWS)
def test_rows_of_a_trace_have_the_columns_of_their_table(table: str) -> None:
    written = {"run", *ROWS[table]._fields, *(["position"] if table in ("receptions", "deliveries") else [])}

    assert {column.name for column in TABLES[table]} == written


@pytest.mark.parametrize("table", TABLES)
def test_times_have_a_unit(table: str) -> None:
    for column in TABLES[table]:
        assert (column.unit == "u.t.") == column.name.endswith("_ut")
