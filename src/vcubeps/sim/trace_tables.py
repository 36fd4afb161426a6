"""Traces of simulated runs as Parquet tables; `vcubeps.tables` says what their columns mean."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vcubeps.arrow_schemas import arrow_schema
from vcubeps.provenance import git_revision, package_version
from vcubeps.sim.identity import parameters_text
from vcubeps.sim.scenarios import Run
from vcubeps.sim.trace import Arrival, Change, Trace
from vcubeps.sim.workloads import build
from vcubeps.tables import TRACE

SCHEMAS = {name: arrow_schema(name) for name in TRACE}


@contextmanager
def directory(path: Path | None) -> Iterator[Path | None]:
    """Where to write meanwhile; it becomes `path` when all is written, and vanishes if it is not."""
    if path is None:
        yield None
        return
    path = path.absolute()
    unfinished = path.with_name(f"{path.name}.unfinished-{os.getpid()}")
    try:
        unfinished.mkdir()  # in here: a signal may come as soon as it is there
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
             "parameters": parameters_text(point.parameters),
             "version": package_version(), "revision": git_revision()}
        ],
        "publications": [
            {**row._asdict(), "barrier": [{"source": s, "counter": c} for s, c in row.barrier]}
            for row in events.publications
        ],
        "receptions": _numbered(events.receptions),
        "deliveries": _numbered(events.deliveries),
        "membership": [row._asdict() for row in (*_members_before(run), *events.membership)],
    }  # fmt: skip
    for name, rows in tables.items():
        table = pa.Table.from_pylist([{**row, "run": number} for row in rows], SCHEMAS[name])
        pq.write_table(table, path / name / f"{number:06}.parquet")


def _members_before(run: Run) -> list[Change]:
    """Those who are members when the run begins: no event of it, but a reader has to know them."""
    return [Change(-1, node, topic, True, -1) for topic, node in np.argwhere(build(run).members).tolist()]


def _numbered(arrivals: Sequence[Arrival]) -> list[dict[str, object]]:
    positions: Counter[int] = Counter()
    rows: list[dict[str, object]] = []
    for row in arrivals:
        rows.append({**row._asdict(), "position": positions[row.node]})
        positions[row.node] += 1
    return rows
