"""Which gateway a command talks to: the one it is given, that of the environment, or one of a local cluster."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from vcubeps.cli.cluster_directory import DEFAULT, ClusterDirectory
from vcubeps.cli.common import CommandError, Parser, integer

if TYPE_CHECKING:
    from vcubeps.net.status import Status

VARIABLE = "VCUBEPS_GATEWAY"
_NODE_MAX = (1 << 20) - 1
_ANSWER_S = 2.0
_PATIENCE_S = 1.5
"""A subscription that takes longer than this waits for a node that cannot be reached."""

CHOICE = f"""\
The command talks to the gateway of a node: --gateway, or one of the cluster in --dir,
or the one that {VARIABLE} names, or one of the cluster in ./{DEFAULT}, in this order."""


def add_gateway_options(parser: Parser, *, several: bool = False) -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--dir", metavar="DIR", help=f"directory of a cluster on this machine (default: ./{DEFAULT})"
    )
    where.add_argument(
        "--gateway",
        metavar="URL",
        nargs="+" if several else None,
        help=f"{'gateways' if several else 'a gateway'}, as http://HOST:PORT or HOST:PORT (default: ${VARIABLE})",
    )
    if not several:
        parser.add_argument(
            "--node",
            type=integer(0, _NODE_MAX),
            metavar="ID",
            help="which node of --dir (default: the first that runs)",
        )


def check_client() -> None:
    """Raises CommandError if what a client of a gateway needs is not installed."""
    try:
        import vcubeps.net.gateway.client  # noqa: F401, PLC0415
    except ImportError as error:
        raise CommandError(
            f"this command needs {error.name or error}, which is not installed: pip install 'vcubeps[live]'"
        ) from None


def chosen_gateway(args: argparse.Namespace) -> str:
    """The URL of the gateway that `args` ask for."""
    check_client()
    given = args.gateway or (os.environ.get(VARIABLE) if args.dir is None else None)
    if not given:
        return _gateway_in(ClusterDirectory(args.dir or DEFAULT), args.node)
    if args.node is not None:
        raise CommandError(
            f"--node chooses among the nodes of --dir, and the gateway is {given}: leave out one of them"
        )
    return str(given)


def chosen_gateways(args: argparse.Namespace) -> dict[str, int | None]:
    """URL → node, where that is known, of all gateways that `args` ask for; nodes that do not run are among them."""
    check_client()
    variable = os.environ.get(VARIABLE) if args.dir is None else None
    if given := args.gateway or (variable and [variable]):
        return dict.fromkeys(given)
    directory = ClusterDirectory(args.dir or DEFAULT)
    running_gateways(directory)
    return {url_of(node.gateway): node.id for node in directory.settings().nodes if node.gateway}


def _gateway_in(directory: ClusterDirectory, node: int | None) -> str:
    if node is None:
        return next(iter(running_gateways(directory).values()))
    settings = directory.settings()
    if node not in settings.ids:
        shown = ", ".join(map(str, settings.ids[:16])) + (", ..." if len(settings.ids) > 16 else "")
        raise CommandError(f"there is no node {node} in {directory.file}: choose --node among {shown}")
    gateway = settings.node(node).gateway
    if gateway is None:
        raise CommandError(f"node {node} has no gateway in {directory.file}: choose another --node")
    return url_of(gateway)


def running_gateways(directory: ClusterDirectory) -> dict[int, str]:
    """Node → URL, for the nodes of a local cluster that run; at least one."""
    settings = directory.settings()
    running = {node for process in directory.running() for node in process.nodes}
    gateways = {
        node.id: url_of(node.gateway) for node in settings.nodes if node.gateway and node.id in running
    }
    if not gateways:
        raise CommandError(
            f"no node of the cluster in {directory.shown} runs: start it with vcubeps cluster up{directory.option}"
        )
    return gateways


async def status_at(url: str | None, node: int | None = None) -> Status | None:
    """What the gateway at `url` says about its node; None if none answers, or one of another node than `node`."""
    from vcubeps.net.gateway.client import GatewayClient, GatewayError  # noqa: PLC0415 - needs aiohttp

    if url is None:
        return None
    try:
        async with asyncio.timeout(_ANSWER_S), GatewayClient(url) as client:
            status = await client.status()
    except (GatewayError, TimeoutError):
        return None
    return status if node in (None, status.node) else None


async def explain_waiting(url: str, is_waiting: Callable[[], bool]) -> None:
    """Say on stderr what the node at `url` waits for, if `is_waiting` a while from now."""
    await asyncio.sleep(_PATIENCE_S)
    status = await status_at(url) if is_waiting() else None
    if status is not None and status.problems and is_waiting():
        others = ", ".join(f"node {other} ({reason})" for other, reason in status.problems.items())
        print(f"node {status.node} waits for {others}, until it counts as crashed", file=sys.stderr)


def url_of(address: str) -> str:
    """The URL under which this machine reaches a gateway that listens on `address`.

    >>> url_of("127.0.0.1:8000"), url_of("0.0.0.0:8000"), url_of("[::]:8000")
    ('http://127.0.0.1:8000', 'http://127.0.0.1:8000', 'http://[::1]:8000')
    """
    host, _, port = address.rpartition(":")
    reachable = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)
    return f"http://{reachable}:{port}"
