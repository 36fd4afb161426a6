"""A process of a `LocalCluster`: opens its share of the nodes, runs what it is told, closes them when told."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from vcubeps.net import loops
from vcubeps.net.errors import NodeError
from vcubeps.net.incarnation import VolatileIncarnation
from vcubeps.net.node import Node
from vcubeps.net.opening import start_node
from vcubeps.node.settings import ClusterSettings


@dataclass(frozen=True)
class Share:
    """What one process is responsible for."""

    settings: ClusterSettings
    sockets: dict[int, socket.socket]
    """Node → the socket that it listens on."""
    trace_dir: Path | None


@dataclass(frozen=True)
class Failed:
    """Answer in place of a result."""

    traceback: str


@dataclass(frozen=True)
class Ended:
    """The process with these nodes is no more."""

    nodes: tuple[int, ...]


def work(share: Share, pipe: Connection) -> None:
    """The whole life of the process: answers True once its nodes are open, then one answer for each request."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the parent too, which ends this process in order
    loops.run(_serve(share, pipe))


async def _serve(share: Share, pipe: Connection) -> None:
    nodes: dict[int, Node] = {}
    try:
        try:
            for number, sock in share.sockets.items():
                sock.setblocking(False)
                nodes[number] = await start_node(
                    share.settings, number, VolatileIncarnation(number), sock, share.trace_dir
                )
        except Exception:
            pipe.send(Failed(traceback.format_exc()))
            return
        pipe.send(True)
        requests = _Requests(pipe)
        job: asyncio.Task[None] | None = None
        async for request in requests:
            if isinstance(request, Ended):
                for node in nodes.values():
                    with contextlib.suppress(NodeError):  # it may have failed too
                        for ended in request.nodes:
                            node.declare_dead(ended)
            elif request is not None:
                job = asyncio.create_task(_answer(pipe, nodes, *request))
            elif job is not None:
                await asyncio.sleep(0)  # it must have begun, or it would not answer that it was cancelled
                job.cancel()
        if job is not None and not job.done():
            job.cancel()
            await asyncio.gather(job, return_exceptions=True)
    finally:
        await asyncio.gather(*(node.close() for node in nodes.values()))


async def _answer(pipe: Connection, nodes: dict[int, Node], main: Any, arguments: tuple[Any, ...]) -> None:
    try:
        results = await asyncio.gather(*(main(node, *arguments) for node in nodes.values()))
        answer: object = dict(zip(nodes, results, strict=True))
    except (Exception, asyncio.CancelledError):
        answer = Failed(traceback.format_exc())
    await asyncio.get_running_loop().run_in_executor(None, _send, pipe, answer)


def _send(pipe: Connection, answer: object) -> None:
    try:
        pipe.send(answer)
    except OSError:
        pass  # nobody waits for it any more
    except Exception:  # a result that does not pickle
        pipe.send(Failed(traceback.format_exc()))


class _Requests:
    """What comes through the pipe, until its other end is closed: a function and its arguments, None to end it, or the
    news that other nodes have ended."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._readable = asyncio.Event()
        asyncio.get_running_loop().add_reader(pipe.fileno(), self._readable.set)
        os.set_blocking(pipe.fileno(), True)  # uvloop has changed that, and an answer may be large

    def __aiter__(self) -> _Requests:
        return self

    async def __anext__(self) -> tuple[Any, tuple[Any, ...]] | Ended | None:
        while True:
            try:
                # The loop may tell of a request once more when it has been read already.
                while not self._pipe.poll():
                    self._readable.clear()
                    await self._readable.wait()
                request: tuple[Any, tuple[Any, ...]] | Ended | None = self._pipe.recv()
            except (EOFError, OSError):
                asyncio.get_running_loop().remove_reader(self._pipe.fileno())
                raise StopAsyncIteration from None
            except Exception:  # what is to be run cannot be imported here
                self._pipe.send(Failed(traceback.format_exc()))
            else:
                return request
