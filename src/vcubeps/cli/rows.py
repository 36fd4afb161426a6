"""Rows of an answer, one per point of a grid: a table for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence


def print_rows(
    rows: Sequence[Mapping[str, object]], shown: Sequence[tuple[str, str]], *, as_json: bool
) -> None:
    """`shown` are the columns for people: title, and name in the rows; those without any value are left out."""
    if as_json:
        print(json.dumps(rows, indent=None if len(rows) == 1 else 1))
    else:
        _print_table(rows, shown)


def _print_table(rows: Sequence[Mapping[str, object]], shown: Sequence[tuple[str, str]]) -> None:
    from vcubeps.sim.parameters import PARAMETERS  # noqa: PLC0415

    varying = [
        name
        for name in ("system", *PARAMETERS)
        if name in {"system", "nodes"} or len({str(row[name]) for row in rows if name in row}) > 1
    ]
    shown = [(title, name) for title, name in shown if any(row[name] for row in rows)]
    header = [*varying, *(title for title, _ in shown)]
    lines = [
        [_cell(row.get(name, "")) for name in varying] + [_cell(row[name]) for _, name in shown]
        for row in rows
    ]
    widths = [max(len(line[k]) for line in [header, *lines]) for k in range(len(header))]
    for line in [header, *lines]:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    print(f"\n{rows[0]['runs']} runs per row; times in u.t.; all columns with --json")


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return (
        f"{value:,.1f}"
        if isinstance(value, float) and abs(value) >= 10
        else (f"{value:.3g}" if isinstance(value, float) else str(value))
    )
