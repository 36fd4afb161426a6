"""The mutants of a module: copies of its source that differ in one place, with names to call them by.

A mutant has two names. The short one has its line number, for people at a terminal. The key has the text of the line
instead, for a list that is to outlive changes elsewhere in the module.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from mutations import Node, edits

CONTEXT_MAX = 5
"""Most lines before its own that a key has, if the function has the same line more than once."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One module with one change."""

    module: str
    """File name of the module."""
    line: int
    function: str
    """As `Class.method`; empty at the top of the module."""
    text: str
    """The line that the change begins in, as it was; after lines before it where it takes them to tell it."""
    mutation: str
    """Kind and change, such as `compare:<→<=`; with #2 if it is the second of its kind on the line."""
    source: str
    """The whole module, changed."""

    @property
    def name(self) -> str:
        return f"{self.module}:{self.line}:{self.mutation}"

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.module, self.function, self.text, self.mutation


_Place: TypeAlias = tuple[str, str, int]
"""Function, mutation, line."""


def mutants(module: str, source: str) -> Iterator[Mutant]:
    """All mutants of `source`, in the order of its lines."""
    found = sorted(edits(ast.parse(source)), key=lambda each: (each[1][0].lineno, each[1][0].col_offset))
    seen: Counter[tuple[int, str]] = Counter()
    places: list[_Place] = []
    for function, (node, mutation, _) in found:
        seen[node.lineno, mutation] += 1
        count = seen[node.lineno, mutation]
        places.append((function, mutation if count == 1 else f"{mutation}#{count}", node.lineno))
    texts = _texts(source, places)
    for place, (_, (node, _, changed)) in zip(places, found, strict=True):
        function, mutation, line = place
        yield Mutant(module, line, function, texts[place], mutation, _replaced(source, node, changed))


def _texts(source: str, places: list[_Place]) -> dict[_Place, str]:
    lines = [line.strip() for line in source.split("\n")]
    texts: dict[_Place, str] = {}
    for before in range(CONTEXT_MAX + 1):
        tried = {place: " / ".join(lines[max(0, place[2] - 1 - before) : place[2]]) for place in places}
        alike = Counter(
            (function, mutation, tried[function, mutation, line]) for function, mutation, line in places
        )
        for (function, mutation, line), text in tried.items():
            if before == CONTEXT_MAX or alike[function, mutation, text] == 1:
                texts.setdefault((function, mutation, line), text)
    return texts


def _replaced(source: str, node: Node, text: str) -> str:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    lines = source.encode().split(b"\n")  # columns count bytes
    before = b"\n".join([*lines[: node.lineno - 1], lines[node.lineno - 1][: node.col_offset]])
    after = b"\n".join([lines[node.end_lineno - 1][node.end_col_offset :], *lines[node.end_lineno :]])
    return (before + text.encode() + after).decode()
