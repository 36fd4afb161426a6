"""A figure → SVG and PNG. The same values give the same bytes: no dates, no random identifiers."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from math import log10, nan
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    LogLocator,
    NullFormatter,
    NullLocator,
)

from vcubeps.report import looks
from vcubeps.report.model import Figure
from vcubeps.report.shown import Series, is_empty

_WIDTH_IN, _HEIGHT_IN = 5.4, 3.3
_LEGEND_ROW_IN = 0.22
_TICK_PT = 9
_PNG_DPI = 160
_LONG_LABEL = 30
"""Characters; legends with longer ones have a single column."""


def draw(figure: Figure, series: Sequence[Series]) -> tuple[bytes, bytes]:
    """The figure as SVG and as PNG."""
    with mpl.rc_context({**looks.RC, "svg.hashsalt": figure.id}):
        canvas = Canvas(layout=ConstrainedLayoutEngine(w_pad=0.09, h_pad=0.06))
        axes = canvas.add_subplot()
        axes.set_xlabel(figure.x_label)
        axes.set_ylabel(figure.y_label)
        handles = [] if is_empty(series) else _data(axes, figure, series)
        if not handles:
            axes.text(0.5, 0.5, "not run", transform=axes.transAxes, ha="center", va="center", fontsize=16)
            axes.set_xticks([])
            axes.set_yticks([])
        columns = 1 if max((len(str(h.get_label())) for h in handles), default=0) > _LONG_LABEL else 2
        rows = -(-len(handles) // columns)
        canvas.set_size_inches(_WIDTH_IN, _HEIGHT_IN + _LEGEND_ROW_IN * rows)
        if handles:
            canvas.legend(handles=handles, loc="outside lower center", ncols=columns, handlelength=2.6)
        return _saved(canvas, "svg", metadata={"Date": None, "Creator": None}), _saved(
            canvas, "png", dpi=_PNG_DPI, metadata={"Software": None}
        )


def _saved(canvas: Canvas, kind: str, **options: Any) -> bytes:
    buffer = BytesIO()
    canvas.savefig(buffer, format=kind, facecolor="white", **options)
    return buffer.getvalue()


def _data(axes: Axes, figure: Figure, series: Sequence[Series]) -> list[Any]:
    """Draws everything inside the axes; gives what the legend has to name."""
    match figure.kind:
        case "lines":
            handles = _lines(axes, series)
        case "bars":
            handles = _bars(axes, series)
        case "stacked bars":
            handles = _stacked(axes, series)
        case "table":
            raise ValueError(f"figure {figure.id} is a table, which is written, not drawn")
    for published in figure.published:
        axes.plot([published.x], [published.y], **looks.PUBLISHED)
    if figure.published:
        handles.append(Line2D([], [], label="stated in the paper's text", **looks.PUBLISHED))
    _x_axis(axes, figure)
    _y_axis(axes, figure)
    return handles


def _lines(axes: Axes, series: Sequence[Series]) -> list[Any]:
    handles = []
    # The faint ones first, so that they lie behind.
    for one in sorted(series, key=lambda one: not one.curve.faint):
        means = [nan if mean is None else mean for mean in one.means]
        errors = None if one.curve.faint else [ci95 or 0 for ci95 in one.ci95s]
        style = looks.line(one.curve)
        axes.errorbar(one.xs, means, yerr=errors, **style)
        if not one.curve.faint:
            plain = {name: value for name, value in style.items() if name not in {"capsize", "elinewidth"}}
            handles.append(Line2D([], [], label=one.curve.series, **plain))
    if any(one.curve.faint for one in series):
        handles.append(Line2D([], [], label="thin: literal preset", **looks.LITERAL))
    return handles


def _bars(axes: Axes, series: Sequence[Series]) -> list[Any]:
    """Groups of bars side by side."""
    width = 0.8 / len(series)
    handles = []
    for k, one in enumerate(series):
        places = [x + (k - (len(series) - 1) / 2) * width for x in one.xs]
        handles.append(_bar(axes, one, places, width, [0.0] * len(places)))
    return handles


def _stacked(axes: Axes, series: Sequence[Series]) -> list[Any]:
    """Bars on top of each other."""
    tops: dict[float, float] = {}
    handles = []
    for one in series:
        handles.append(_bar(axes, one, list(one.xs), 0.6, [tops.get(x, 0.0) for x in one.xs]))
        for x, mean in zip(one.xs, one.means, strict=True):
            tops[x] = tops.get(x, 0.0) + (mean or 0)
    return handles


def _bar(axes: Axes, one: Series, places: list[float], width: float, bottoms: list[float]) -> Any:
    return axes.bar(
        places,
        [nan if mean is None else mean for mean in one.means],
        width,
        bottoms,
        yerr=[ci95 or 0 for ci95 in one.ci95s],
        label=one.curve.series,
        **looks.bar(one.curve),
    )


def _x_axis(axes: Axes, figure: Figure) -> None:
    if figure.ticks:
        axes.set_xticks(range(len(figure.ticks)), figure.ticks, fontsize=_TICK_PT)
        axes.grid(visible=False, axis="x")
        return
    if figure.x_log2:
        places = sorted({sample.x for curve in figure.curves for sample in curve.samples})
        axes.set_xscale("log", base=2)
        # Where there is room for every second number only, both ends have theirs.
        named = {places[0], *places[::-2]} if len(places) > 8 else places
        axes.xaxis.set_major_locator(FixedLocator(sorted(named)))
        axes.xaxis.set_minor_locator(FixedLocator(places))
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(_plain))


def _y_axis(axes: Axes, figure: Figure) -> None:
    if figure.y_log:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        few = log10(high / low) < 2.5
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))
        axes.yaxis.set_minor_locator(NullLocator() if few else LogLocator(subs=range(2, 10)))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=0)
    if figure.y_label.startswith("share"):
        axes.yaxis.set_major_formatter(FuncFormatter(_percent))
    else:
        axes.yaxis.set_major_formatter(FuncFormatter(_plain))


def _percent(value: float, _: object) -> str:
    return f"{100 * value:g} %"


def _plain(value: float, _: object) -> str:
    """Without powers of ten.

    >>> _plain(65536.0, None), _plain(0.5, None)
    ('65,536', '0.5')
    """
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:g}"
