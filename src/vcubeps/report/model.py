"""What the report is made of: figures, numbers of the paper, and the values that runs gave for them.

Shares, increases, reductions and the like are fractions in all data (0.26, never 26): they become per cent
only where a person reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from vcubeps.sim.measures import Form, Measure
from vcubeps.sim.scenarios import Point

Operand: TypeAlias = tuple[Point, Measure]
Kind: TypeAlias = Literal["lines", "bars", "stacked bars", "table"]
Relation: TypeAlias = Literal["is", "about", "at most", "at least", "below"]

AMENDED, UNPRUNED = "amended", "unpruned"
"""Protocols of VCube-PS that have a look of their own beside the system's."""

FRACTIONS = frozenset({"share", "increase", "reduction"})
"""Units of values that are fractions of one and shown as per cent."""
TIMES = "times"
"""Unit of a ratio."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One point of a curve."""

    x: float
    """Place on the x axis; of bars and rows of a table their index from 0."""
    point: Point
    measure: Measure
    """Taken of each run, then averaged over runs."""
    over: Measure | None = None
    """If set, what is shown is the ratio to this one, both averaged first."""

    @property
    def form(self) -> Form:
        return "value" if self.over is None else "ratio"

    @property
    def operands(self) -> tuple[Operand, ...]:
        first = (self.point, self.measure)
        return (first,) if self.over is None else (first, (self.point, self.over))


@dataclass(frozen=True, slots=True)
class Curve:
    """One series of a figure."""

    series: str
    """Its name in the legend; unique in the figure."""
    samples: tuple[Sample, ...]
    drawn_as: str
    """Gives colour and marker: a system, AMENDED, UNPRUNED, or empty for neither."""
    variant: int = 0
    """Gives the dash and how markers are filled, or the hatch of bars."""
    faint: bool = False
    """A second reading, drawn thin behind the main one."""


@dataclass(frozen=True, slots=True)
class Published:
    """One point of a figure that the paper's text states."""

    series: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure or table of the report."""

    id: str
    place: str
    """In the paper; "beyond the paper" if it is not there."""
    title: str
    caption: str
    """What is shown: the set-up, and what a bar or point stands for."""
    look: str
    """What to see in it."""
    x_label: str
    y_label: str
    """Both with their units."""
    curves: tuple[Curve, ...]
    kind: Kind = "lines"
    x_log2: bool = False
    y_log: bool = False
    ticks: tuple[str, ...] = ()
    """Names of the places 0, 1, 2 … on the x axis, or of the rows of a table."""
    published: tuple[Published, ...] = ()

    @property
    def is_beyond(self) -> bool:
        return self.id.startswith("beyond")


@dataclass(frozen=True, slots=True)
class Number:
    """One number that the paper states, and how to get ours."""

    id: str
    place: str
    figure: str
    """Id of the figure that it belongs with, so that asking for the figure asks for it too."""
    statement: str
    """What it is, in our own words."""
    paper: float
    unit: str
    """"u.t.", "hops", "nodes" …; a fraction of one if it is in FRACTIONS."""
    step: float
    """One unit of the last digit that the paper prints."""
    relation: Relation
    form: Form = "value"
    operands: tuple[Operand, ...] = ()
    """Empty if nothing can be measured for it; `why` then says why not."""
    why: str = ""
    """Of a difference, where it is known; or why there is nothing to compare."""
    reading: str = ""
    """Empty for the main one; otherwise the name of another way to read the paper."""

    @property
    def section(self) -> str:
        return self.id.split("-", 1)[0]


@dataclass(frozen=True, slots=True)
class CurveValue:
    """What the runs gave for one sample; None where there is nothing."""

    figure: str
    series: str
    x: float
    mean: float | None
    ci95: float | None
    """Half the width of the 95 % confidence interval."""
    runs: int


@dataclass(frozen=True, slots=True)
class NumberValue:
    """What the runs gave for one number."""

    id: str
    measured: float | None
    ci95: float | None
    runs: int


FORMS: dict[Form, Callable[[Sequence[float]], float]] = {
    "value": lambda m: m[0],
    "ratio": lambda m: m[0] / m[1],
    "increase": lambda m: m[0] / m[1] - 1,
    "reduction": lambda m: 1 - m[0] / m[1],
    "difference": lambda m: m[0] - m[1],
    "extra": lambda m: m[0] / (m[1] - m[0]),
    "spread": lambda m: max(m) / min(m) - 1,
}
"""What is made of the means over runs of a number's operands; the judge of the pipeline's SQL."""


def combined(form: Form, means: Sequence[float | None]) -> float | None:
    """The value of a form; None if an operand is missing or it cannot be computed.

    >>> combined("increase", [150.0, 100.0]), combined("extra", [20.0, 100.0]), combined("ratio", [1.0, 0.0])
    (0.5, 0.25, None)
    """
    known = [mean for mean in means if mean is not None]
    if not known or len(known) != len(means):
        return None
    try:
        return FORMS[form](known)
    except ZeroDivisionError:
        return None
