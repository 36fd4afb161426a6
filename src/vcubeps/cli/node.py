"""`vcubeps node`: one node of a cluster, or several, in this process until it is told to end."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
from typing import TYPE_CHECKING

from vcubeps.cli import interrupts
from vcubeps.cli.common import CommandError, Subparsers, abbreviated, integer, whole_number
from vcubeps.cli.gateways import url_of
from vcubeps.protocol.limits import MAX_INCARNATION

if TYPE_CHECKING:
    from vcubeps.net.node import Node
    from vcubeps.node.settings import ClusterSettings

LEVELS = ("debug", "info", "warning", "error")

_CLOSE_MARGIN_S = 0.3
"""For the end of a node, on top of what its cluster file allows it for leaving its topics."""

DESCRIPTION = """\
Run one node of a cluster until Ctrl-C or SIGTERM.

The cluster file names every node and its address; all nodes read the same file,
each with its own --id. The node is up when it may subscribe and publish; one
that has run before waits until the others have let it in again."""

EXAMPLE = """\
example:
  $ cat cluster.toml
  cluster = "chat"
  nodes = [
    {id = 0, address = "127.0.0.1:7000", gateway = "127.0.0.1:8000"},
    {id = 1, address = "127.0.0.1:7001", gateway = "127.0.0.1:8001"},
  ]
  $ vcubeps node --config cluster.toml --id 0
  node 0 of 'chat' listens on 127.0.0.1:7000
  node 0 of 'chat' is up (incarnation 0): nodes on 127.0.0.1:7000, gateway http://127.0.0.1:8000

  In another terminal, the other node, and a subscriber at it:
  $ vcubeps node --config cluster.toml --id 1
  $ vcubeps sub room --gateway 127.0.0.1:8001

The first Ctrl-C or SIGTERM lets the node leave its topics and tell the others, which
takes two seconds at most (close_within_s in the cluster file); the second ends it at once.

Exit code: 0 ended as told, 1 the other nodes refuse this one, 2 it cannot start as
configured, 130 ended by a second signal."""


def register(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "node", help="run one node of a cluster", description=DESCRIPTION, epilog=EXAMPLE
    )
    parser.add_argument("--config", required=True, metavar="FILE", help="the cluster file")
    parser.add_argument(
        "--id",
        required=True,
        metavar="ID",
        help="which node of the file; several as 0,1,2 or all of them as all share this process",
    )
    parser.add_argument(
        "--incarnation",
        type=integer(1, MAX_INCARNATION),
        metavar="N",
        help="start as this incarnation, for a node whose state directory was lost (default: one more than "
        "the last)",
    )
    parser.add_argument(
        "--log-level", choices=LEVELS, default="warning", help="what is written to stderr (default: warning)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")


def run(args: argparse.Namespace) -> int:
    from vcubeps.net import config  # noqa: PLC0415 - for the commands that need it
    from vcubeps.net.errors import ListenError, NodeError  # noqa: PLC0415

    _log_to_stderr(args.log_level)
    try:
        settings = config.load(args.config)
        ids = _ids(args.id, settings)
        if args.incarnation is not None:
            _start_as(args, settings, ids)
        interrupts.run(_serve(args, settings, ids), end_within_s=None)
    except KeyboardInterrupt:
        return 0
    except (config.ConfigError, ListenError) as error:
        raise CommandError(str(error)) from None
    except NodeError as error:
        print(f"vcubeps node: {error}", file=sys.stderr)
        return 1
    except ImportError as error:
        raise CommandError(
            f"this node needs {error.name or error}, which is not installed: pip install 'vcubeps[live]'"
        ) from None
    return 0


def _log_to_stderr(level: str) -> None:
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.WARNING,
        format="%(asctime)s %(levelname)s %(message)s",
        datefmt="%Y-%m-%d %H:%M:%S",
    )
    logging.getLogger("vcubeps").setLevel(level.upper())


def _ids(text: str, settings: ClusterSettings) -> tuple[int, ...]:
    if text.strip() == "all":
        return settings.ids
    ids: dict[int, None] = {}
    for part in text.split(","):
        number = whole_number(part.strip())
        if number is None:
            raise CommandError(
                f"--id: {abbreviated(part)!r} is not the id of a node: give a whole number, several as 0,1,2, or all"
            )
        if number not in settings.ids:
            shown = ", ".join(map(str, settings.ids[:16])) + (", ..." if len(settings.ids) > 16 else "")
            raise CommandError(
                f"--id: there is no node {abbreviated(part)} in cluster {settings.cluster!r}: choose one of {shown}"
            )
        ids[number] = None
    return tuple(ids)


def _start_as(args: argparse.Namespace, settings: ClusterSettings, ids: tuple[int, ...]) -> None:
    """Write down that the incarnation before the one asked for has been used."""
    from pathlib import Path  # noqa: PLC0415

    from vcubeps.net.config import state_directory  # noqa: PLC0415
    from vcubeps.net.incarnation import IncarnationStore  # noqa: PLC0415
    from vcubeps.protocol.errors import UsageError  # noqa: PLC0415

    if len(ids) != 1:
        raise CommandError("--incarnation is for one node: give a single --id with it")
    with IncarnationStore.open(state_directory(settings, Path(args.config)), ids[0]) as store:
        try:
            store.store(args.incarnation - 1)
        except UsageError:
            raise CommandError(
                f"--incarnation: node {ids[0]} has used {args.incarnation} already, and its counters may be in use: "
                "give a higher number, or leave it out"
            ) from None


# -- running ---------------------------------------------------------------------------------------


async def _serve(args: argparse.Namespace, settings: ClusterSettings, ids: tuple[int, ...]) -> None:
    """Open the nodes, all at the same time since they let each other in, and close them at the first signal."""
    _import_what_takes_time(settings, ids)
    try:
        async with asyncio.TaskGroup() as group:
            for number in ids:
                group.create_task(_live(args, settings, number))
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


def _import_what_takes_time(settings: ClusterSettings, ids: tuple[int, ...]) -> None:
    """So that a node that is not up soon waits for others, and for nothing else."""
    from vcubeps.net import loops  # noqa: PLC0415 - for the commands that need it

    if any(settings.node(number).gateway for number in ids):
        import vcubeps.net.gateway  # noqa: PLC0415
    if settings.trace_dir is not None:
        import vcubeps.net.trace  # noqa: F401, PLC0415
    loops.spare_what_is_loaded()


async def _live(args: argparse.Namespace, settings: ClusterSettings, number: int) -> None:
    from vcubeps.net.opening import open_node  # noqa: PLC0415 - for the commands that need it

    tell = _Teller(settings, number, args.json)
    node = await open_node(args.config, number, on_listening=tell.listening)
    try:
        tell.up(node)
        raise await node.wait_failed()
    finally:
        await _close(node, settings)


async def _close(node: Node, settings: ClusterSettings) -> None:
    """What could not be acknowledged in time is said, and no reason to fail: it was asked to end."""
    from vcubeps.net.errors import Unacknowledged  # noqa: PLC0415 - for the commands that need it

    log = logging.getLogger(__name__)
    try:
        async with asyncio.timeout(settings.timing.close_within_s + _CLOSE_MARGIN_S):
            await node.close()
    except TimeoutError:
        log.warning("node %d could not leave all its topics in time", node.id)
    except Unacknowledged as error:
        log.warning("%s", error)


class _Teller:
    """What the command prints about one node."""

    def __init__(self, settings: ClusterSettings, number: int, as_json: bool) -> None:
        mine = settings.node(number)
        self._cluster, self._node, self._as_json = settings.cluster, number, as_json
        self._address = mine.listen or mine.address
        self._gateway = None if mine.gateway is None else url_of(mine.gateway)

    def up(self, node: Node) -> None:
        if self._as_json:
            self._print_json("up", incarnation=node.incarnation, gateway=self._gateway)
            return
        gateway = f", gateway {self._gateway}" if self._gateway else ", no gateway"
        print(
            f"node {self._node} of {self._cluster!r} is up (incarnation {node.incarnation}): "
            f"nodes on {self._address}{gateway}",
            flush=True,
        )

    def listening(self) -> None:
        if self._as_json:
            self._print_json("listening")
        else:
            print(f"node {self._node} of {self._cluster!r} listens on {self._address}", flush=True)

    def _print_json(self, event: str, **more: object) -> None:
        told = {"event": event, "cluster": self._cluster, "node": self._node, "address": self._address}
        print(json.dumps(told | more), flush=True)
