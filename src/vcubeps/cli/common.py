"""What all commands share: how arguments are read and how a refusal looks.

A refusal is one sentence on stderr that names the value, the limit and the fix; exit code 2.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
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

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)

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
