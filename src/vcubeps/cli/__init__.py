"""The command line: `vcubeps COMMAND`. One thin module per command, with `register` and `run`.

Exit codes: 0, 1 (the command worked and the answer is no), 2 (it was asked for something that
makes no sense), 130 (interrupted), 141 (the reader of the output went away).
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Any

from vcubeps.cli import (
    audit,
    bench,
    chaos,
    cluster,
    demo,
    explore,
    node,
    pub,
    reproduce,
    simulate,
    sub,
    sweep,
    top,
    trace,
    tree,
)
from vcubeps.cli.common import CommandError, Parser, abbreviated
from vcubeps.protocol.errors import UsageError

COMMANDS = {
    "demo": demo,
    "tree": tree,
    "explore": explore,
    "simulate": simulate,
    "reproduce": reproduce,
    "audit": audit,
    "sweep": sweep,
    "trace": trace,
    "cluster": cluster,
    "chaos": chaos,
    "node": node,
    "sub": sub,
    "pub": pub,
    "top": top,
    "bench": bench,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    parser = _parser()
    command = parser.prog
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that cannot show a character shows "?" in its place instead of ending the command.
        sys.stdout.reconfigure(errors="replace")
    try:
        args, unknown = parser.parse_known_args(argv)
        command = f"{parser.prog} {args.command}"
        if unknown:
            raise CommandError(
                f"{abbreviated(unknown[0])!r} is no argument of this command: see {command} --help"
            )
        code: int = COMMANDS[args.command].run(args)
        sys.stdout.flush()
    except CommandError as error:
        print(f"{error.prog or command}: {error}", file=sys.stderr)
        return 2
    except UsageError as error:
        print(f"{command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The interpreter flushes stdout once more on its way out; what is left has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return code


def _parser() -> Parser:
    parser = Parser(
        prog="vcubeps",
        description="Topic-based publish/subscribe with causal order per topic and no broker.",
        epilog="example:\n  vcubeps tree --nodes 8 --source 2 --subscribers 0,2,3,5,7\n\n"
        "Each command explains itself: vcubeps COMMAND --help",
    )
    parser.add_argument("--version", action=_ShowVersion, nargs=0, help="print the version and exit")
    subparsers = parser.add_subparsers(
        title="commands", dest="command", metavar="COMMAND", required=True, parser_class=Parser
    )
    for command in COMMANDS.values():
        command.register(subparsers)
    return parser


class _ShowVersion(argparse.Action):
    """Asks the installed package only when the version is wanted, so a source tree works uninstalled."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(f"{parser.prog} {metadata.version('vcubeps')}")
        parser.exit()
