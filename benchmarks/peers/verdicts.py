"""What VCube-PS is meant to reach beside the others in the same run, and whether it did."""

from __future__ import annotations

from dataclasses import dataclass

from peers.plan import MODES
from peers.registry import SYSTEMS
from peers.rows import Row, compared, reference

OURS = "vcubeps"


@dataclass(frozen=True)
class Verdict:
    """One aim; `met` is None when what it needs was not measured."""

    text: str
    required: bool
    met: bool | None

    def __str__(self) -> str:
        word = {True: "met", False: "MISSED", None: "open"}[self.met]
        return f"{word:>6}  {'required' if self.required else 'aim':>8}: {self.text}"


def verdicts(rows: list[Row], sizes: list[int]) -> list[Verdict]:
    """One for every aim and size, in a fixed order."""
    found = []
    for size in sizes:
        found += [
            _at_most(rows, "saturation", size, "zeromq", 1.05 if size < 1024 else 0.85, required=False),
            _at_most(rows, "saturation", size, "zenoh", 1.0, required=True),
            _at_most(rows, "latency", size, "zenoh", 1.05, required=False),
            _at_most(rows, "latency", size, "zenoh", 1.2, required=True),
            *(_no_loss(rows, mode, size) for mode in MODES),
        ]
    return found


def _at_most(rows: list[Row], mode: str, size: int, other: str, factor: float, required: bool) -> Verdict:
    what = "p50 at light load" if mode == "latency" else "CPU per delivery at saturation"
    limit = f"{SYSTEMS[other].title}'s" + (f" x {factor}" if factor != 1 else "")
    ours, theirs = (reference(rows, mode, size, system) for system in (OURS, other))
    if not (ours and theirs):
        absent = SYSTEMS[other].title if ours else SYSTEMS[OURS].title
        return Verdict(f"{what}, {size} B, at most {limit}: {absent} was not measured", required, None)
    mine, bound = ours.median(compared(mode)), factor * theirs.median(compared(mode))
    return Verdict(
        f"{what}, {size} B: {mine:.2f} µs, at most {limit}: {bound:.2f} µs", required, mine <= bound
    )


def _no_loss(rows: list[Row], mode: str, size: int) -> Verdict:
    row = reference(rows, mode, size, OURS)
    if row is None:
        return Verdict(f"{mode}, {size} B, loses nothing: {SYSTEMS[OURS].title} was not measured", True, None)
    return Verdict(
        f"{mode}, {size} B: {row.missing} lost, {row.late} late, {row.duplicates} twice", True, row.faultless
    )
