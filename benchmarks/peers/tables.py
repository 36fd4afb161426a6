"""The tables of a run, one for every mode and size."""

from __future__ import annotations

from rich.table import Table

from peers.registry import SYSTEMS
from peers.rows import Row, Value, compared, cpu_us, p50_us, p99_us, rate, reference

REFERENCES = ("zeromq", "zenoh")
TITLES = {
    "saturation": "Saturation, closed loop",
    "flood": "Flood, open loop",
    "latency": "Latency at light load",
}


def table(rows: list[Row], mode: str, size: int) -> Table:
    """A row per system: medians of the rounds, their range, and the ratio to ZeroMQ's and Zenoh's median."""
    made = Table(title=f"{TITLES[mode]}, {size} B", title_justify="left")
    made.add_column("")
    if mode == "latency":
        headings = ["p50 µs", "range", *_ratio_headings(), "p99 µs", "CPU µs / delivery", "lost"]
    else:
        headings = ["CPU µs / delivery", "range", *_ratio_headings(), "deliveries / s", "lost"]
    for heading in headings:
        made.add_column(heading, justify="right")
    made.add_column("faults")
    for row in rows:
        if (row.mode, row.size) == (mode, size):
            made.add_row(row.title, *_figures(rows, row, len(headings)), _faults(row))
    return made


def _ratio_headings() -> list[str]:
    return [f"× {SYSTEMS[system].title}" for system in REFERENCES]


def _figures(rows: list[Row], row: Row, number: int) -> list[str]:
    if not row.results:
        return ["–"] * number
    value = compared(row.mode)
    low, high = row.extremes(value)
    ratios = []
    for system in REFERENCES:
        other = reference(rows, row.mode, row.size, system)
        ratios.append(f"{row.median(value) / other.median(value):.2f}" if other else "–")
    others = [_brief(row, p99_us), _brief(row, cpu_us)] if value is p50_us else [f"{row.median(rate):,.0f}"]
    return [_brief(row, value), f"{_short(low)}–{_short(high)}", *ratios, *others, _lost(row)]


def _brief(row: Row, value: Value) -> str:
    return _short(row.median(value))


def _short(figure: float) -> str:
    return f"{figure:.2f}" if figure < 100 else f"{figure:.0f}"


def _lost(row: Row) -> str:
    return f"{100 * row.loss:.2g} %" if row.missing else "0"


def _faults(row: Row) -> str:
    stalled = sum(result.stalled for result in row.results)
    counts = {
        "late": row.late,
        "twice": row.duplicates,
        "rounds stalled": stalled,
        "rounds failed": len(row.failures),
    }
    return ", ".join(f"{number} {what}" for what, number in counts.items() if number) or "none"
