"""A plain table for people, in any terminal or file."""

from __future__ import annotations

from collections.abc import Sequence


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Numbers to the right, words to the left."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(titles)
    rights = [all(cell[:1].isdigit() or cell in ("", "–") for cell in column) for column in columns]
    widths = [max(map(len, (title, *column))) for title, column in zip(titles, columns, strict=True)]
    for row in (titles, *rows):
        cells = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, rights, strict=True)
        )
        print("  ".join(cells).rstrip())
