"""A golden transcript: a file that tells a short story and is a schedule of the explorer with what came of it.

The file begins with a few sentences for the reader and an empty line. The header after it is the input: seed, nodes,
the options that are not as in `QUIET`, the operations as the explorer prints them. The rest is the output.
"""

from __future__ import annotations

import ast
import difflib
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from vcubeps.sim.explore import Allowed, Operation, Options, Outcome, draw_options, run_operations
from vcubeps.sim.explore.trace import Trace

FOLDER = Path(__file__).resolve().parent / "golden"

TITLE = "   time node  event ⇒ what it caused\n"
"""Between header and transcript; the same as `vcubeps explore --replay` prints."""

QUIET = replace(draw_options(0, Allowed(only=frozenset())), resubscribe=False, detector_delay=100)
"""A world in which nothing happens that the operations do not ask for."""

FIELDS = ("seed", "nodes", "options", "shown from", "operations")

_WITH_A_NUMBER = {
    "suspect": r"suspect (\d+)",
    "report-stale": r"is told that the previous incarnation of (\d+) crashed",
    "pause": r"is stopped for (\d+) ticks",
    "crash-relay": r"crash, and within (\d+) ticks a node that gets its copies",
}
"""Kinds of operations that are printed as more than kind and topic; the number is `other`."""

_OF_THE_NETWORK = {"cut": "the network is cut", "lose-probes": "probes get lost"}
"""Kinds of operations that are not about one node."""

_IN_WORDS = {
    "crash, and nothing it sent when it suspected last arrives": "crash-silenced",
    "says goodbye and stops": "stop",
    "comes through seeds": "arrive",
    "leaves for good": "depart",
}
"""Sentences that are printed for some kinds of operations."""


@dataclass(frozen=True, slots=True)
class Story:
    """One file."""

    header: str
    """All before `TITLE`, as it is."""
    seed: int
    options: Options
    operations: tuple[Operation, ...]
    begins: int
    """What happens before this time is left out of the transcript."""
    transcript: str


def read(text: str) -> Story:
    header, _, transcript = text.partition(TITLE)
    _, _, given = header.partition("\n\n")
    fields: dict[str, str] = {}
    operations = []
    for line in filter(None, given.split("\n")):
        if line.startswith("  "):
            operations.append(read_operation(line.strip()))
            continue
        name, _, value = line.partition(":")
        if name not in FIELDS:
            raise ValueError(f"{line!r} is not part of a story: choose among {', '.join(FIELDS)}")
        fields[name] = value.strip()
    nodes = tuple(map(int, fields["nodes"].split()))
    changed: dict[str, Any] = {"nodes": nodes, "founders": nodes}
    for pair in fields.get("options", "").split():
        name, _, value = pair.partition("=")
        changed[name] = frozenset(value.split(",")) if name == "aimed" else ast.literal_eval(value)
    begins = int(fields.get("shown from", "t=0").removeprefix("t="))
    options = replace(QUIET, **changed)
    return Story(header, int(fields["seed"]), options, tuple(operations), begins, transcript)


def read_operation(text: str) -> Operation:
    """The inverse of `str(operation)`.

    >>> read_operation("t=40 node 1: publish a ×3")
    Operation(time=40, kind='publish', node=1, topic='a', other=3)
    """
    for kind, pattern in _OF_THE_NETWORK.items():
        if parts := re.fullmatch(rf"t=(\d+) {pattern} for (\d+) ticks: (.*)", text):
            return Operation(int(parts[1]), kind, 0, parts[3], int(parts[2]))
    parts = re.fullmatch(r"t=(\d+) node (\d+): (.*)", text)
    if parts is None:
        raise ValueError(f"{text!r} is no operation: write t=TIME node NODE: WHAT, as the explorer prints it")
    time, node, what = int(parts[1]), int(parts[2]), parts[3]
    for kind, pattern in _WITH_A_NUMBER.items():
        if number := re.fullmatch(pattern, what):
            return Operation(time, kind, node, "", int(number[1]))
    if what in _IN_WORDS:
        return Operation(time, _IN_WORDS[what], node)
    kind, _, rest = what.partition(" ")
    topic, _, count = rest.partition(" ×")
    return Operation(time, kind, node, topic, int(count or kind == "publish"))


def replay(story: Story) -> tuple[Outcome, str]:
    """What comes of the story now, and its transcript."""
    trace = Trace()
    outcome = run_operations(story.seed, story.options, story.operations, trace=trace)
    shown = [line for line in trace.lines if int(line.split()[0]) >= story.begins]
    return outcome, "".join(line + "\n" for line in shown)


def settle(path: Path, written: str, now: str, config: pytest.Config, test: str) -> None:
    """Write `now` into the file if that was asked for; otherwise fail if it is not what is `written`. `test` is the
    file that has the test."""
    if config.getoption("--rewrite-golden"):
        path.write_text(now)
    elif now != written:
        changes = difflib.unified_diff(
            written.splitlines(), now.splitlines(), "as written", "as it goes now", lineterm="", n=1
        )
        rewrite = f"pytest {test} --rewrite-golden && git diff tests/golden"
        advice = f"If that is meant, re-write the files and read the difference:\n  {rewrite}"
        pytest.fail("\n".join([f"{path.stem} goes another way now. {advice}", *changes]), pytrace=False)
