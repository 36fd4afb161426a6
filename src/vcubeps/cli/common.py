"""What all commands share: how arguments are read and how a refusal looks.

A refusal is one sentence on stderr that names the value, the limit and the fix; exit code 2.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeAlias

SHOWN_CHARACTERS = 40
"""Most of a bad argument that an error repeats."""


class CommandError(Exception):
    """The command cannot be carried out as given; the text is the sentence the user reads.

    `prog` is who refuses, for errors found before the command is known.
    """

    def __init__(self, message: str, prog: str | None = None) -> None:
        super().__init__(message)
        self.prog = prog


class Parser(argparse.ArgumentParser):
    """A parser that refuses in one sentence and keeps the line breaks of its examples."""

    intermixed = False
    """Options may stand between positional arguments of which there may be more or fewer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if not self.intermixed:
            return super().parse_known_args(args, namespace)
        self.intermixed = False  # argparse calls this method for each of two passes
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self.intermixed = True

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message.removeprefix('argument ')}; see {self.prog} --help", self.prog)


Subparsers: TypeAlias = "argparse._SubParsersAction[Parser]"
"""What a command's `register` receives."""


def integer(low: int, high: int) -> Callable[[str], int]:
    """A `type=` for arguments: a whole number from `low` to `high`."""

    def parse(text: str) -> int:
        value = whole_number(text)
        if value is None:
            raise argparse.ArgumentTypeError(
                f"{abbreviated(text)!r} is not a whole number: give one from {low} to {high}"
            )
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(
                f"{abbreviated(text)} is outside {low} to {high}: give a number in that range"
            )
        return value

    return parse


def whole_number(text: str) -> int | None:
    """The number written in `text`, or None. Narrower than int(): plain digits, at most 4000 of them."""
    return int(text) if re.fullmatch(r"-?[0-9]{1,4000}", text) else None


def abbreviated(text: str) -> str:
    """`text`, cut to what a reader needs to recognise it."""
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."


def usable_cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)  # not on every platform
    return len(affinity(0)) if affinity else os.cpu_count() or 1


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Callable[[int], None] | None]:
    """A bar on stderr if that is a terminal; yields what is to be called with each number done, or None."""
    if not sys.stderr.isatty():
        yield None
        return
    # Loaded only where a terminal shows it: it takes longer than the rest of the command line.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)
