"""The tables of docs/reference/cluster-file.md, made from the declarations in `settings`.

Run `python -m vcubeps.net.config_page` in the repository after a change of the settings: it renews the page.
"""

from __future__ import annotations

from pathlib import Path

from vcubeps.net.config_keys import HOMES, INTEGER_MAX, Key, keys_of

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "cluster-file.md"
BEGIN = "<!-- Made by python -m vcubeps.net.config_page from here on: change settings.py instead. -->"
END = "<!-- Made by python -m vcubeps.net.config_page up to here. -->"


def tables() -> str:
    """A Markdown table for each section of the cluster file."""
    parts = []
    for section, home in HOMES.items():
        title = f"`{home}`" if home else "The top of the file"
        rows = [_row(key) for key in keys_of(section).values()]
        head = ["| key | type | default | range | meaning |", "|---|---|---|---|---|"]
        parts.append("\n".join([f"### {title}", "", section.__doc__ or "", "", *head, *rows]))
    return "\n\n".join(parts) + "\n"


def renewed(page: str) -> str:
    """`page` with the tables as they are now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables()}\n{END}{after}"


def _row(key: Key) -> str:
    meaning = key.meaning or f"see `[{key.name}]`"
    return f"| `{key.name}` | {key.kind} | {_default(key)} | {_range(key)} | {meaning} |"


def _default(key: Key) -> str:
    if key.required:
        return "required"
    if key.default is None:
        return "none"
    if key.section is not None:
        return "as below"
    return f"{key.default:_}" if isinstance(key.default, int) else f"{key.default}"


def _range(key: Key) -> str:
    if key.kind == "whole number":
        return f"{key.low:_} or more" if key.high == INTEGER_MAX else f"{key.low:_} to {key.high:_}"
    if key.kind == "number":
        return f"above {key.low:g}"
    if key.kind == "table":
        return ""
    return key.expected()


def renew(page: Path = PAGE) -> None:
    page.write_text(renewed(page.read_text()))
    print(f"renewed {page}")


if __name__ == "__main__":
    renew()
