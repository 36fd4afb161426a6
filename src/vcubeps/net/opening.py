"""From a cluster file to a node that takes part."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

from vcubeps.net import config
from vcubeps.net.incarnation import IncarnationStore, VolatileIncarnation
from vcubeps.net.node import Node, Opening
from vcubeps.net.shell import Shell
from vcubeps.node.settings import ClusterSettings
from vcubeps.protocol.errors import UsageError


def open_node(
    cluster: str | os.PathLike[str] | ClusterSettings,
    node: int,
    *,
    sock: socket.socket | None = None,
    on_listening: Callable[[], None] | None = None,
) -> Opening[Node]:
    """This process becomes node `node` of a cluster: await it, or use `async with`.

    `cluster` is the cluster file (docs/reference/cluster-file.md), or its settings. `sock` may be a socket that
    listens already. Returns when the node takes part: it listens, the others have let it in if it has run before, and
    it is in contact with a quorum of the voters; `on_listening` is called when it listens.

        async with vcubeps.open("cluster.toml", node=3) as node, node.subscribe("room") as room:
            await room.publish(b"hello")
    """
    return Opening(lambda: _open(cluster, node, sock, on_listening))


async def _open(
    cluster: str | os.PathLike[str] | ClusterSettings,
    node: int,
    sock: socket.socket | None,
    on_listening: Callable[[], None] | None,
) -> Node:
    file = None if isinstance(cluster, ClusterSettings) else Path(cluster)
    settings = config.checked(cluster) if isinstance(cluster, ClusterSettings) else config.load(cluster)
    if node not in settings.ids:
        shown = ", ".join(map(str, settings.ids[:16])) + (", ..." if len(settings.ids) > 16 else "")
        raise UsageError(f"there is no node {node} in cluster {settings.cluster!r}: choose one of {shown}")
    store = IncarnationStore.open(config.state_directory(settings, file), node)
    try:
        return await start_node(
            settings, node, store, sock, config.trace_directory(settings, file), on_listening
        )
    except BaseException:
        store.close()
        raise


async def start_node(
    settings: ClusterSettings,
    node: int,
    incarnations: IncarnationStore | VolatileIncarnation,
    sock: socket.socket | None,
    trace_dir: Path | None,
    on_listening: Callable[[], None] | None = None,
) -> Node:
    """Everything that makes a node, from settings that have been checked."""
    mine = settings.node(node)
    tracer = None
    if trace_dir is not None:
        from vcubeps.net.trace import TraceWriter  # noqa: PLC0415 - needs pyarrow, which takes its time

        tracer = TraceWriter(trace_dir, node)
    shell = Shell(settings, node, incarnations, tracer)
    opened = Node(shell)
    try:
        await shell.sockets.listen(mine.listen or mine.address, sock)
        shell.start()
        if mine.gateway is not None:
            from vcubeps.net.gateway import Gateway  # noqa: PLC0415 - needs aiohttp, which takes its time

            opened.gateway = await Gateway.start(opened, mine.gateway)
        if on_listening is not None:
            on_listening()
        await shell.wait_until_up()
    except BaseException:
        await opened.close()
        raise
    return opened
