"""`vcubeps cluster declare-dead` and `vcubeps cluster voters`: what an operator may do when waiting does not help."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from vcubeps.cli.cluster_directory import ClusterDirectory, add_directory_option
from vcubeps.cli.common import CommandError, Parser, whole_number
from vcubeps.cli.gateways import check_client, url_of

if TYPE_CHECKING:
    from vcubeps.node.settings import ClusterSettings

DEAD_DESCRIPTION = """\
Say that a node has crashed, without waiting for its silence.

The command asks a living node of the cluster, which tells all others. If the node lives
after all, it has to start again as its next incarnation, and its subscriptions have a gap."""

DEAD_EXAMPLE = """\
example:
  $ vcubeps cluster declare-dead 5 --yes

Exit code: 0 the others are told, 1 no node could be asked, 2 the command line makes no sense."""

VOTERS_DESCRIPTION = """\
Write into the cluster file which nodes decide when the network is cut.

For when more than half of the voters are gone for good: the others wait for them for ever.
Do it with the file of every node, and restart all of them; nodes whose files differ refuse
each other. If the lost nodes come back with the old file, two clusters go on apart, and what
the lost ones alone had acknowledged is not known to the others."""

VOTERS_EXAMPLE = """\
examples:
  $ vcubeps cluster voters 0,1,2 --yes
  $ vcubeps cluster voters all --config /etc/vcubeps/cluster.toml --yes

Exit code: 0 the file is written, 2 it cannot be as asked for."""

_TABLE = re.compile(r"^\s*\[", re.MULTILINE)
_VOTERS = re.compile(r"^voters[ \t]*=[ \t]*\[[^\]]*\][^\n]*\n?", re.MULTILINE)


def register(actions: argparse._SubParsersAction[Parser]) -> None:
    dead = actions.add_parser(
        "declare-dead",
        help="say that a node has crashed",
        description=DEAD_DESCRIPTION,
        epilog=DEAD_EXAMPLE,
    )
    dead.add_argument("id", metavar="ID", help="of the node")
    add_directory_option(dead)
    dead.add_argument("--yes", action="store_true", help="do it, knowing what it may cost")

    voters = actions.add_parser(
        "voters",
        help="write into the cluster file who decides when the network is cut",
        description=VOTERS_DESCRIPTION,
        epilog=VOTERS_EXAMPLE,
    )
    voters.add_argument("ids", metavar="IDS", help="ids separated by commas; all: as if none were named")
    add_directory_option(voters)
    voters.add_argument("--config", metavar="FILE", help="the cluster file (default: that of DIR)")
    voters.add_argument("--yes", action="store_true", help="do it, knowing what it may cost")


def run(args: argparse.Namespace) -> int:
    directory = ClusterDirectory(args.dir)
    return _declare_dead(args, directory) if args.action == "declare-dead" else _voters(args, directory)


# -- declaring a node dead ---------------------------------------------------------------------------


def _declare_dead(args: argparse.Namespace, directory: ClusterDirectory) -> int:
    from vcubeps.net import loops  # noqa: PLC0415 - for the commands that need it

    check_client()
    settings = directory.settings()
    node = _id(args.id, settings)
    if not args.yes:
        raise CommandError(
            f"if node {node} lives, it has to start again, and its subscriptions have a gap: add --yes to declare it "
            "dead"
        )
    told, refusals = loops.run(_tell(settings, node))
    if told is None:
        why = "; ".join(refusals) or "no other node answers"
        print(f"vcubeps cluster: node {node} is not declared dead: {why}", file=sys.stderr)
        return 1
    print(f"node {told} tells the others that node {node} has crashed")
    return 0


async def _tell(settings: ClusterSettings, node: int) -> tuple[int | None, list[str]]:
    """The node that has done it, the first that can; None, and what each has said, if none can."""
    from vcubeps.net.gateway.client import GatewayClient, GatewayError  # noqa: PLC0415

    refusals = []
    for other in settings.nodes:
        if other.id == node or other.gateway is None:
            continue
        try:
            async with GatewayClient(url_of(other.gateway)) as client:
                await client.declare_dead(node)
        except GatewayError as error:
            refusals.append(str(error))
            continue
        return other.id, []
    return None, refusals


# -- voters ------------------------------------------------------------------------------------------


def _voters(args: argparse.Namespace, directory: ClusterDirectory) -> int:
    from vcubeps.net import config  # noqa: PLC0415 - for the commands that need it

    file = Path(args.config) if args.config is not None else directory.file
    try:
        settings = config.load(file) if args.config is not None else directory.settings()
        voters = None if args.ids == "all" else [_id(text.strip(), settings) for text in args.ids.split(",")]
        text = with_voters(file.read_text(), voters)
        now = config.parse(text, str(file))
    except config.ConfigError as error:
        raise CommandError(str(error)) from None
    if now.partition != "majority":
        raise CommandError(f'{file} has partition = "continue", in which nobody votes: change that first')
    if not args.yes:
        raise CommandError(
            "nodes with the old file and nodes with the new one refuse each other, and if lost voters come back with "
            "the old one, two clusters go on apart: add --yes, do it with the file of every node, and restart all of "
            "them"
        )
    fresh = file.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(file)
    shown = ", ".join(map(str, now.voting or ()))
    print(
        f"{file}: the voters are {shown}. Do the same with the file of every node, and restart all of them."
    )
    return 0


def with_voters(text: str, voters: list[int] | None) -> str:
    """A cluster file with other voters; all else stays as it is, comments too.

    >>> print(with_voters('cluster = "a"\\nvoters = [0]\\n\\n[[nodes]]\\nid = 0\\n', [0, 2]))
    cluster = "a"
    voters = [0, 2]
    <BLANKLINE>
    [[nodes]]
    id = 0
    <BLANKLINE>
    """
    table = _TABLE.search(text)
    keys, rest = (text[: table.start()], text[table.start() :]) if table is not None else (text, "")
    line = "" if voters is None else f"voters = {voters}\n"
    if _VOTERS.search(keys):
        return _VOTERS.sub(line, keys, count=1) + rest
    body = keys.rstrip("\n")
    return (f"{body}\n{line}{keys[len(body) + 1 :]}" if line else keys) + rest


def _id(text: str, settings: ClusterSettings) -> int:
    node = whole_number(text)
    if node is None or node not in settings.ids:
        shown = ", ".join(map(str, settings.ids[:16])) + (", …" if len(settings.ids) > 16 else "")
        raise CommandError(f"{text[:20]!r} is no node of the cluster: choose among {shown}")
    return node
