"""Numbers as a person reads them."""

from __future__ import annotations

from html import escape
from math import floor, log10

from vcubeps.report.model import FRACTIONS, TIMES

NOTHING = "—"


def quantity(value: float | None, unit: str, step: float, *, more_digits: int = 0) -> str:
    """With its unit, and as many digits as `step` has.

    >>> quantity(0.388, "increase", 0.001), quantity(2.4849, "times", 0.01, more_digits=1), quantity(65280.0, "u.t.", 1)
    ('38.8 %', '2.485 ×', '65,280 u.t.')
    """
    if value is None:
        return NOTHING
    shown = amount(value, unit, step, more_digits=more_digits)
    return f"{shown} {_unit(unit) if shown != '1' else _unit(unit).removesuffix('s')}".rstrip()


def amount(value: float, unit: str, step: float, *, more_digits: int = 0) -> str:
    """Without its unit."""
    shown, precision = (100 * value, 100 * step) if unit in FRACTIONS else (value, step)
    decimals = max(0, -floor(log10(precision) + 1e-9) + more_digits)
    return f"{shown:,.{decimals}f}"


def _unit(unit: str) -> str:
    if unit in FRACTIONS:
        return "%"
    return "×" if unit == TIMES else unit


def prose(words: str) -> str:
    """Ready for HTML; a number and its sign stay on one line.

    >>> prose("25 % of A & B")
    '25\\xa0% of A &amp; B'
    """
    return escape(words.replace(" %", "\xa0%"))


def interval(ci95: float, *, is_share: bool = False) -> str:
    """Two digits are enough.

    >>> interval(0.5553), interval(107.2), interval(0.0123, is_share=True)
    ('0.56', '107', '1.2 %')
    """
    shown = 100 * ci95 if is_share else ci95
    return (f"{shown:,.0f}" if shown >= 10 else f"{shown:.2g}") + (" %" if is_share else "")


def short(value: float | None, *, is_share: bool = False) -> str:
    """For tables of values, where each has another size.

    >>> short(1234567.8), short(12.345), short(0.01234), short(0.5, is_share=True), short(None)
    ('1,234,568', '12.3', '0.0123', '50.0 %', '—')
    """
    if value is None:
        return NOTHING
    if is_share:
        return f"{100 * value:.3g} %" if abs(value) < 0.01 else f"{100 * value:.1f} %"
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def signed_percent(fraction: float | None) -> str:
    """
    >>> signed_percent(-0.0234), signed_percent(3.9), signed_percent(None)
    ('−2.3 %', '+390 %', '—')
    """
    if fraction is None:
        return NOTHING
    percent = 100 * fraction
    text = f"{abs(percent):.1f}" if abs(percent) < 100 else f"{abs(percent):.0f}"
    sign = "" if float(text) == 0 else "−" if percent < 0 else "+"
    return f"{sign}{text} %"
