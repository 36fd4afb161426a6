"""`vcubeps cluster`: a cluster on this machine. Start it, look at it, end it."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import TYPE_CHECKING, Any

from vcubeps.cli import cluster_repair, cluster_up, processes
from vcubeps.cli.cluster_directory import ClusterDirectory, add_directory_option
from vcubeps.cli.common import CommandError, Parser, Subparsers, integer
from vcubeps.cli.gateways import check_client, status_at, url_of
from vcubeps.cli.text_table import print_table

if TYPE_CHECKING:
    from vcubeps.cli.processes import StartedProcess
    from vcubeps.net.status import Status
    from vcubeps.node.settings import ClusterSettings

_DOWN_S = 3.0
"""How long the nodes may take to end before they are killed; longer if their cluster file says so."""

DESCRIPTION = """\
Run a cluster on this machine, in the background.

Everything about it is in one directory: the cluster file, which may be edited while
the cluster is down, the logs, and how often each node has started."""

EXAMPLE = """\
example:
  $ vcubeps cluster up --nodes 8
  $ vcubeps sub room --node 5          # in another terminal
  $ vcubeps pub room hello
  $ vcubeps cluster status
  $ vcubeps cluster down

Each of them explains itself: vcubeps cluster up --help"""

UP_DESCRIPTION = """\
Start all nodes of a cluster on this machine and return when they are up.

A directory that has a cluster already is started again as its cluster.toml says."""

UP_EXAMPLE = """\
examples:
  Eight nodes in one background process:
    $ vcubeps cluster up --nodes 8

  A process for each, gateways on ports 8000 to 8007, and a trace to audit later:
    $ vcubeps cluster up --nodes 8 --processes --base-port 7000 --trace --dir /tmp/chat

Exit code: 0 all nodes are up, 1 a node did not start (its log is shown, and nothing is left
running), 2 it cannot be started as asked for. With --foreground, 0 after Ctrl-C."""

STATUS_EXAMPLE = """\
examples:
  $ vcubeps cluster status
  $ vcubeps cluster status --dir /tmp/chat --json

Exit code: 0 all nodes are up, 1 some are not, 2 there is no cluster."""

DOWN_EXAMPLE = """\
examples:
  $ vcubeps cluster down
  $ vcubeps cluster down --dir /tmp/chat --remove

Exit code: 0 no node runs any more, 2 there is no cluster."""


def register(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "cluster", help="run a cluster on this machine", description=DESCRIPTION, epilog=EXAMPLE
    )
    actions = parser.add_subparsers(
        title="actions", dest="action", metavar="ACTION", required=True, parser_class=Parser
    )
    up = actions.add_parser(
        "up", help="start the nodes in the background", description=UP_DESCRIPTION, epilog=UP_EXAMPLE
    )
    up.add_argument(
        "--nodes",
        type=integer(1, cluster_up.NODES_MAX),
        metavar="N",
        help=f"how many, 1 to {cluster_up.NODES_MAX} (default: as many as DIR has, or {cluster_up.NODES_DEFAULT})",
    )
    up.add_argument("--processes", action="store_true", help="a process for each node (default: one for all)")
    add_directory_option(up)
    up.add_argument(
        "--base-port",
        type=integer(1024, cluster_up.BASE_PORT_MAX),
        metavar="P",
        help="node i listens on port P+i and its gateway on P+1000+i (default: free ports)",
    )
    up.add_argument(
        "--trace", action="store_true", help="let the nodes write a trace into DIR/trace, for vcubeps audit"
    )
    up.add_argument("--foreground", action="store_true", help="stay until Ctrl-C, and end the nodes then")
    up.add_argument("--json", action="store_true", help="print one JSON object, as status does")

    status = actions.add_parser(
        "status",
        help="which nodes are up",
        description="Show every node of a cluster.",
        epilog=STATUS_EXAMPLE,
    )
    add_directory_option(status)
    status.add_argument("--json", action="store_true", help="print one JSON object")

    down = actions.add_parser(
        "down",
        help="end the nodes",
        description="End all nodes of a cluster; those that do not within 3 s are killed.",
        epilog=DOWN_EXAMPLE,
    )
    add_directory_option(down)
    cluster_repair.register(actions)
    down.add_argument(
        "--remove",
        action="store_true",
        help="then delete what cluster up and the nodes made in DIR, and DIR if nothing else is in it",
    )


def run(args: argparse.Namespace) -> int:
    directory = ClusterDirectory(args.dir)
    if args.action in ("declare-dead", "voters"):
        return cluster_repair.run(args)
    if args.action == "down":
        return _down(directory, remove=args.remove)
    check_client()
    if args.action == "up":
        return cluster_up.run(args, directory, lambda: _status(directory, args.json))
    return _status(directory, args.json)


# -- status ----------------------------------------------------------------------------------------


def _status(directory: ClusterDirectory, as_json: bool) -> int:
    from vcubeps.net import loops  # noqa: PLC0415 - for the commands that need it

    settings = directory.settings()
    running = {node: process for process in directory.running() for node in process.nodes}
    answers = loops.run(_ask_all(settings))
    rows = [_row(settings, number, running.get(number), answers[number]) for number in settings.ids]
    all_up = all(row["up"] for row in rows)
    if as_json:
        answer = {"cluster": settings.cluster, "directory": str(directory.path), "up": all_up, "nodes": rows}
        print(json.dumps(answer))
    else:
        print_table(("node", "pid", "up", "nodes on", "gateway", "topics", "deliveries", "problems"),
                    [_shown(row) for row in rows])  # fmt: skip
    return 0 if all_up else 1


async def _ask_all(settings: ClusterSettings) -> dict[int, Status | None]:
    answers = await asyncio.gather(
        *(status_at(node.gateway and url_of(node.gateway), node.id) for node in settings.nodes)
    )
    return dict(zip(settings.ids, answers, strict=True))


def _row(
    settings: ClusterSettings, number: int, process: StartedProcess | None, status: Status | None
) -> dict[str, Any]:
    mine = settings.node(number)
    return {
        "id": number,
        "pid": status.pid if status else process.pid if process else None,
        "up": status is not None and status.up,
        "address": mine.address,
        "gateway": mine.gateway and url_of(mine.gateway),
        "topics": None if status is None else sum(topic.stage == "in" for topic in status.topics),
        "deliveries": None if status is None else sum(topic.deliveries for topic in status.topics),
        "problems": _problems(process, status),
    }


def _problems(process: StartedProcess | None, status: Status | None) -> list[str]:
    if status is None:
        return [f"its gateway does not answer: see {process.log}"] if process else ["not running"]
    return status.complaints()


def _shown(row: dict[str, Any]) -> tuple[str, ...]:
    shown = ("–" if row[name] is None else str(row[name]) for name in ("topics", "deliveries"))
    return (
        str(row["id"]), str(row["pid"] or "–"), "yes" if row["up"] else "no", row["address"],
        row["gateway"] or "none", *shown, "; ".join(row["problems"]) or "none",
    )  # fmt: skip


# -- down ------------------------------------------------------------------------------------------


def _down(directory: ClusterDirectory, *, remove: bool) -> int:
    settings = directory.settings()
    with directory.locked():
        running = directory.running()
        killed = processes.end(running, max(_DOWN_S, settings.timing.close_within_s + 1.5))
        if left := directory.running():
            raise CommandError(
                f"process {left[0].pid} does not end even when killed: wait for what it does in the kernel"
            )
        directory.write(directory.made_file, ())
        if remove:
            directory.remove()
    nodes = sum(len(process.nodes) for process in running)
    said = f"{nodes} {'node' if nodes == 1 else 'nodes'} ended" if running else "no node was running"
    if killed:
        said += f", {sum(len(process.nodes) for process in killed)} of them killed because they took too long"
    print(f"{said}; removed what was made in {directory.shown}" if remove else said)
    return 0
