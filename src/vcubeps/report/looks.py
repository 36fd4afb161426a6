"""How series look: they differ in marker and dash or hatch as well as in colour, so that they read in grey."""

from __future__ import annotations

from typing import Any

from vcubeps.report.model import AMENDED, UNPRUNED, Curve
from vcubeps.sim.scenarios import SRPT_B, SRPT_S, VCUBE

_COLOURS = {VCUBE: "#0060a8", SRPT_S: "#c24a00", SRPT_B: "#007a5a", AMENDED: "#8a2f8a", UNPRUNED: "#5f5f5f"}
_MARKERS = {VCUBE: "o", SRPT_S: "s", SRPT_B: "^", AMENDED: "D", UNPRUNED: "v"}
_DASHES: tuple[Any, ...] = ((0, (4, 2)), "solid", (0, (1, 1.5)))
_HATCHES = ("", "////")
_NEITHER = "#7d8794"

RC: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: it can be read aloud, searched and copied
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10.5,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#d9dde2",
    "grid.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#49525c",
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "hatch.linewidth": 0.8,
    "lines.markersize": 5,
}


def line(curve: Curve) -> dict[str, Any]:
    """Arguments of `errorbar`."""
    colour = _COLOURS[curve.drawn_as]
    dash = _DASHES[curve.variant]
    if curve.faint:
        return {"color": colour, "linestyle": dash, "linewidth": 0.7, "alpha": 0.6}
    return {
        "color": colour,
        "linestyle": dash,
        "linewidth": 1.6,
        "marker": _MARKERS[curve.drawn_as],
        "markerfacecolor": colour if curve.variant == 1 else "white",
        "markeredgewidth": 1.2,
        "capsize": 2.5,
        "elinewidth": 1,
    }


def bar(curve: Curve) -> dict[str, Any]:
    """Arguments of `bar`."""
    colour = _COLOURS.get(curve.drawn_as, _NEITHER)
    hatch = _HATCHES[curve.variant % len(_HATCHES)]
    return {
        "color": "white" if hatch else colour,
        "edgecolor": colour,
        "hatch": hatch,
        "linewidth": 1,
        "capsize": 2.5,
        "ecolor": "#1c1c1c",
        "error_kw": {"elinewidth": 1},
    }


PUBLISHED: dict[str, Any] = {
    "marker": "*", "markersize": 12, "color": "#1c1c1c", "markeredgecolor": "white", "markeredgewidth": 0.8,
    "linestyle": "none", "zorder": 5,
}  # fmt: skip
LITERAL: dict[str, Any] = {"color": "#5f5f5f", "linewidth": 0.7, "alpha": 0.8}
