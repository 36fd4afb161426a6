"""The tables of the page: numbers beside the paper's, table 1, the values behind a figure, provenance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from vcubeps.report.model import Figure, Number
from vcubeps.report.shown import Series
from vcubeps.report.verdicts import Comparison, Verdict
from vcubeps.report.wording import NOTHING, interval, prose, quantity, short, signed_percent

SYMBOLS: Mapping[Verdict, str] = {"matches": "✓", "differs": "≠", "not comparable": "–"}
_COLUMNS = "".join(
    f'<col class="{name}">' for name in ("what", "amount", "ours", "difference", "verdict", "why")
)
_RELATIONS = {"is": "", "about": "about ", "at most": "at most ", "at least": "at least ", "below": "below "}


def verdict(name: Verdict) -> str:
    """A word and a symbol; colour only on top of them."""
    return f'<span class="verdict {name.replace(" ", "-")}">{SYMBOLS[name]} {name}</span>'


def numbers_table(caption: str, comparisons: Iterable[Comparison]) -> str:
    rows = "".join(_number_row(comparison) for comparison in comparisons)
    heads = ("What", "Paper", "Ours", "Difference", "Verdict", "Why")
    head = "".join(
        f'<th scope="col"{" class=number" if name in heads[1:4] else ""}>{name}</th>' for name in heads
    )
    return (
        f'<table class="numbers"><caption>{escape(caption)}</caption>{_COLUMNS}'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _number_row(comparison: Comparison) -> str:
    number = comparison.number
    tag = f' <span class="tag">{escape(number.reading)}</span>' if number.reading else ""
    cells = (
        f'<th scope="row">{prose(number.statement)}{tag}<br><small>{escape(number.place)}</small></th>'
        f'<td class="number" data-label="Paper">{prose(paper(number))}</td>'
        f"{_cell('Ours', ours(comparison))}{_cell('Difference', signed_percent(comparison.relative_difference))}"
        f'<td data-label="Verdict">{verdict(comparison.verdict)}</td>'
        f'<td data-label="Why">{prose(comparison.why)}</td>'
    )
    other = ' class="other"' if number.reading else ""
    return f'<tr id="{escape(number.id)}"{other}>{cells}</tr>'


def _cell(label: str, words: str) -> str:
    """A narrow screen leaves out what has no value."""
    nothing = " nothing" if words == NOTHING else ""
    return f'<td class="number{nothing}" data-label="{label}">{prose(words)}</td>'


def paper(number: Number) -> str:
    """As the paper prints it."""
    return _RELATIONS[number.relation] + quantity(number.paper, number.unit, number.step)


def ours(comparison: Comparison) -> str:
    """With the interval."""
    number, measured, ci95 = comparison.number, comparison.measured, comparison.ci95
    if measured is None:
        return quantity(None, number.unit, number.step)
    if not ci95 and measured == int(measured) and number.step >= 1:
        return quantity(measured, number.unit, number.step)
    more = 2 if number.step >= 1 and abs(measured) < 10 else 1
    middle = quantity(measured, number.unit, number.step, more_digits=more)
    if ci95 is None:
        return middle
    value, _, unit = middle.partition(" ")
    width = quantity(ci95, number.unit, number.step, more_digits=more).partition(" ")[0]
    return f"{value} ± {width} {unit}".rstrip()


def side_by_side(figure: Figure, series: Sequence[Series]) -> str:
    """A table of the paper: each column of it beside ours."""
    printed = {(point.series, point.x): point.y for point in figure.published}
    heads = "".join(
        f'<th scope="col" class="number">{escape(one.curve.series)}, {whose}</th>'
        for one in series
        for whose in ("paper", "ours")
    )
    rows = []
    for k, tick in enumerate(figure.ticks):
        cells = "".join(
            f'<td class="number">{short(printed.get((one.curve.series, float(k))))}</td>'
            f'<td class="number">{_with_interval(one.means[k], one.ci95s[k])}</td>'
            for one in series
        )
        rows.append(f'<tr><th scope="row">{escape(tick)}</th>{cells}</tr>')
    return _scrolling(
        figure.title,
        f"<thead><tr><th scope=col>{escape(figure.x_label)}</th>{heads}</tr></thead><tbody>{''.join(rows)}</tbody>",
        f"{figure.y_label}, ± half of the 95 % interval",
    )


def values_table(figure: Figure, series: Sequence[Series]) -> str:
    """What a figure shows, to be read, copied or read aloud."""
    xs = sorted({x for one in series for x in one.xs})
    is_share = figure.y_label.startswith("share")
    at = [
        {x: (one.means[k], one.ci95s[k]) for k, x in enumerate(one.xs)}
        for one in series
    ]  # fmt: skip
    heads = "".join(f'<th scope="col" class="number">{escape(one.curve.series)}</th>' for one in series)
    rows = []
    for x in xs:
        name = figure.ticks[int(x)].replace("\n", ", ") if figure.ticks else short(x)
        cells = "".join(
            f'<td class="number">{_with_interval(*places[x], is_share=is_share) if x in places else ""}</td>'
            for places in at
        )
        rows.append(f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>')
    head = f"<thead><tr><th scope=col>{escape(figure.x_label)}</th>{heads}</tr></thead>"
    table = _scrolling(
        f"Values of: {figure.title}",
        f"{head}<tbody>{''.join(rows)}</tbody>",
        f"{figure.y_label}, ± half of the 95 % interval",
    )
    return f"<details><summary>Values</summary>{table}</details>"


def _with_interval(mean: float | None, ci95: float | None, *, is_share: bool = False) -> str:
    text = short(mean, is_share=is_share)
    return f"{text} ± {interval(ci95, is_share=is_share)}" if mean is not None and ci95 else text


def _scrolling(label: str, content: str, caption: str) -> str:
    """Wide tables scroll in a box of their own, also from the keyboard."""
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(label)}">'
        f"<table><caption>{escape(caption)}</caption>{content}</table></div>"
    )


def provenance_list(provenance: Mapping[str, object]) -> str:
    items = "".join(
        f"<dt>{escape(str(name))}</dt><dd>{_told(value)}</dd>" for name, value in provenance.items()
    )
    return f'<dl class="provenance">{items}</dl>'


def _told(value: object) -> str:
    if isinstance(value, Mapping):
        return escape(", ".join(f"{name} {inner}" for name, inner in value.items()))
    if isinstance(value, list | tuple):
        return escape(", ".join(map(str, value)))
    return escape(str(value))
