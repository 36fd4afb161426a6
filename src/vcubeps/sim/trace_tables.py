"""Traces of simulated runs as Parquet tables; `vcubeps.tables` says what their columns mean."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from vcubeps.sim.scenarios import Run
from vcubeps.sim.trace import Arrival, Trace
from vcubeps.tables import TABLES

_ARROW = {
    "integer": pa.int64(),
    "text": pa.string(),
    "truth": pa.bool_(),
    "barrier": pa.list_(pa.struct([("source", pa.int64()), ("counter", pa.int64())])),
}

SCHEMAS = {
    name: pa.schema([(column.name, _ARROW[column.kind]) for column in columns])
    for name, columns in TABLES.items()
}


@contextmanager
def directory(path: Path | None) -> Iterator[Path | None]:
    """Where to write meanwhile; it becomes `path` when all is written, and vanishes if it is not."""
    if path is None:
        yield None
        return
    path = path.absolute()
    unfinished = path.with_name(f"{path.name}.unfinished-{os.getpid()}")
    unfinished.mkdir()
    try:
        for table in SCHEMAS:
            (unfinished / table).mkdir()
        yield unfinished
        if path.exists():
            path.rmdir()  # an empty one, as the caller has checked
        unfinished.rename(path)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def write(path: Path, number: int, run: Run, events: Trace) -> None:
    point = run.point
    tables: dict[str, list[dict[str, object]]] = {
        "runs": [
            {"run": number, "scenario": point.scenario, "system": point.system, "seed": run.seed,
             "parameters": json.dumps(dict(point.parameters))}
        ],
        "publications": [
            {**row._asdict(), "barrier": [{"source": s, "counter": c} for s, c in row.barrier]}
            for row in events.publications
        ],
        "receptions": [row._asdict() for row in events.receptions],
        "deliveries": _numbered(events.deliveries),
        "membership": [row._asdict() for row in events.membership],
    }  # fmt: skip
    for name, rows in tables.items():
        table = pa.Table.from_pylist([{**row, "run": number} for row in rows], SCHEMAS[name])
        pq.write_table(table, path / name / f"{number:06}.parquet")


def _numbered(deliveries: Sequence[Arrival]) -> list[dict[str, object]]:
    positions: Counter[int] = Counter()
    rows: list[dict[str, object]] = []
    for row in deliveries:
        rows.append({**row._asdict(), "position": positions[row.node]})
        positions[row.node] += 1
    return rows
