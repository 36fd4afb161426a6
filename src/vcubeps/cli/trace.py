"""`vcubeps trace export`: a trace for other tools to show."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vcubeps.cli import shiviz
from vcubeps.cli.common import CommandError, Subparsers, abbreviated, whole_number

EVENTS_DRAWN_EASILY = 5_000
"""More than that ShiViz draws slowly, if at all."""

DESCRIPTION = """\
Do something with a trace, the tables that simulate --trace and nodes write."""

EXPORT_DESCRIPTION = """\
Write a trace as a log for ShiViz, a page that draws what happened as a space-time
diagram: one line for each node, and an arrow for each publication received.

TRACE is a directory with the tables publications, receptions, deliveries and
membership, as simulate --trace and nodes write them."""

EXPORT_EPILOG = f"""\
example:
  $ vcubeps simulate discussion --set nodes=8 --set questions=2 --set protocol=amended --runs 1 --trace DIR
  $ vcubeps trace export --shiviz DIR --out discussion.log

  Open https://bestchai.bitbucket.io/shiviz/ and choose discussion.log as the file of
  its input page. To paste it instead: leave the first two lines out, and give the
  page this log parsing regular expression:

    {shiviz.PARSER}

  and, if the trace has several runs, this delimiter of executions:

    {shiviz.DELIMITER}

  Of a trace of live nodes, one topic only:
    $ vcubeps trace export --shiviz traces --topic room --out room.log"""

_COLUMNS = {
    "publications": ("run", "topic", "source", "counter", "started_ut", "barrier"),
    "receptions": ("run", "topic", "source", "counter", "node", "time_ut", "position"),
    "deliveries": ("run", "topic", "source", "counter", "node", "time_ut", "position"),
    "membership": ("run", "topic", "node", "time_ut", "joins"),
}
"""Table → columns that are read of it."""


def register(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("trace", help="export a trace to ShiViz", description=DESCRIPTION)
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    export = actions.add_parser(
        "export",
        help="write a trace as a log for ShiViz",
        description=EXPORT_DESCRIPTION,
        epilog=EXPORT_EPILOG,
    )
    export.add_argument("trace", type=Path, metavar="TRACE", help="directory with the tables of the trace")
    export.add_argument("--shiviz", action="store_true", required=True, help="as a log for ShiViz")
    export.add_argument(
        "--topic", metavar="TOPIC", help="only this topic, by its name or number (default: all)"
    )
    export.add_argument(
        "--out", type=Path, metavar="FILE", help="write it there (default: to standard output)"
    )


def run(args: argparse.Namespace) -> int:
    try:
        # Loaded here: the other commands need no Parquet.
        import pyarrow as pa  # noqa: PLC0415
    except ImportError:
        raise CommandError(
            "reading a trace needs pyarrow, which is not installed: pip install 'vcubeps[sim]'"
        ) from None
    _check(args)
    try:
        names = _names(args.trace)
        topic = None if args.topic is None else _topic(args.topic, names, args.trace)
        tables = {table: _rows(args.trace, table, topic) for table in _COLUMNS}
    except (OSError, pa.ArrowException) as error:
        raise CommandError(
            f"{args.trace} cannot be read as a trace: {' '.join(str(error).split())}"
        ) from None
    runs = _by_run(tables)
    if not runs:
        raise CommandError(f"there is nothing to export: the trace {args.trace} is empty")
    events = sum(map(len, tables.values()))
    if events > EVENTS_DRAWN_EASILY:
        print(
            f"vcubeps trace export: {events:,} events are more than ShiViz draws easily, some "
            f"{EVENTS_DRAWN_EASILY:,}: choose a topic with --topic, or trace a shorter run",
            file=sys.stderr,
        )
    lines = (f"{line}\n" for line in _lines(runs, names))
    if args.out is None:
        sys.stdout.writelines(lines)
    else:
        _write(args.out, lines)
    return 0


def _lines(runs: dict[int, shiviz.Rows], names: dict[int, str]) -> Iterator[str]:
    yield from shiviz.header(is_one_run=len(runs) == 1)
    for number, rows in sorted(runs.items()):
        if len(runs) > 1:
            yield shiviz.run_title(number)
        # As Python writes it: on one line, whatever the name.
        yield from shiviz.log_lines(
            rows, lambda topic: repr(names[topic]) if topic in names else f"topic {topic}"
        )


# -- reading ---------------------------------------------------------------------------------------


def _check(args: argparse.Namespace) -> None:
    if not args.trace.is_dir():
        raise CommandError(
            f"{args.trace} is no directory: name one that vcubeps simulate --trace or a node has written"
        )
    for table in _COLUMNS:
        if not (args.trace / table).is_dir():
            raise CommandError(
                f"{args.trace} is no trace, it has no folder {table}: name a directory with the folders "
                f"{', '.join(_COLUMNS)}"
            )
    if args.out is None:
        return
    if args.out.exists():
        raise CommandError(f"--out {args.out} exists already: name a new file")
    if not args.out.absolute().parent.is_dir():
        raise CommandError(
            f"--out {args.out}: {args.out.absolute().parent} is no directory: make it, or name another"
        )


def _names(trace: Path) -> dict[int, str]:
    """Number → name of the topics; simulated ones have none."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    if not (trace / "topics").is_dir():
        return {}
    return {row["topic"]: row["name"] for row in pq.read_table(trace / "topics").to_pylist()}


def _topic(text: str, names: dict[int, str], trace: Path) -> int:
    """The number of the topic that is called `text`."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    numbers = {name: number for number, name in names.items()}
    if text in numbers:
        return numbers[text]
    known = set(names)
    for table in ("publications", "membership"):
        known.update(pq.read_table(trace / table, columns=["topic"]).column("topic").unique().to_pylist())
    number = whole_number(text)
    if number is not None and number in known:
        return number
    called = sorted(numbers) or [str(number) for number in sorted(known)]
    near = difflib.get_close_matches(text, called, n=3) or called[:8]
    shown = ", ".join(map(abbreviated, near)) + (", ..." if len(called) > len(near) else "")
    raise CommandError(
        f"--topic {abbreviated(text)!r} is not in the trace: choose {shown or 'another trace, it has no topics'}"
    )


def _rows(trace: Path, table: str, topic: int | None) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq  # noqa: PLC0415

    filters = None if topic is None else [("topic", "=", topic)]
    rows: list[dict[str, Any]] = pq.read_table(
        trace / table, columns=list(_COLUMNS[table]), filters=filters
    ).to_pylist()
    return rows


def _by_run(tables: dict[str, list[dict[str, Any]]]) -> dict[int, shiviz.Rows]:
    runs: defaultdict[int, dict[str, list[dict[str, Any]]]]
    runs = defaultdict(lambda: {table: [] for table in _COLUMNS})
    for table, rows in tables.items():
        for row in rows:
            runs[row["run"]][table].append(row)
    return dict(runs)


# -- writing ---------------------------------------------------------------------------------------


def _write(path: Path, lines: Iterator[str]) -> None:
    """It gets its name when all is written."""
    unfinished = path.with_name(f"{path.name}.unfinished-{os.getpid()}")
    try:
        with unfinished.open("x", encoding="utf-8") as stream:
            stream.writelines(lines)
        unfinished.rename(path)
    except OSError as error:
        raise CommandError(f"--out {path} cannot be written: {error.strerror or error}") from None
    finally:
        unfinished.unlink(missing_ok=True)
