"""A whole cluster on this machine, embedded: for tests, notebooks, first steps and benchmarks."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from vcubeps.cube import MAX_DIMENSION
from vcubeps.net import config
from vcubeps.net.cluster_worker import Ended, Failed, Share, work
from vcubeps.net.errors import NodeError
from vcubeps.net.incarnation import VolatileIncarnation
from vcubeps.net.node import Node
from vcubeps.net.opening import start_node
from vcubeps.node.settings import ClusterSettings, Detection, Limits, NodeSettings, Timing
from vcubeps.protocol.errors import UsageError

_Result = TypeVar("_Result")

_BY_ITS_END = Detection(suspect_after_s=1e9)
"""On one machine nobody is silent but because the machine is busy: only a node that has ended counts as crashed."""


class WorkerFailed(NodeError):
    """A process of the cluster ended, or what it was to run raised; the text has its traceback."""


class _WorkerEnded(WorkerFailed):
    """It is not there any more."""


class LocalCluster:
    """`count` nodes on loopback, over real connections, in this process or in processes of their own.

    >>> import asyncio, vcubeps
    >>> async def main():
    ...     async with vcubeps.LocalCluster(4) as cluster:
    ...         async with cluster[0].subscribe("room") as alice, cluster[3].subscribe("room") as bob:
    ...             await alice.publish(b"hello")
    ...             return await bob.receive()
    >>> asyncio.run(main())
    Message(topic='room', source=0, counter=2, payload=b'hello')

    `run` calls an async function for every node, wherever that node is.
    """

    def __init__(
        self,
        count: int,
        *,
        processes: bool | int = False,
        limits: Limits | None = None,
        timing: Timing | None = None,
        detection: Detection | None = None,
        trace_dir: str | Path | None = None,
        name: str = "local",
    ) -> None:
        """`processes`: False for this process, True for one per node, or how many share the nodes. A node counts as
        crashed when it, or its process, has ended; with `detection`, also when it is silent for too long."""
        if not isinstance(count, int) or not 1 <= count <= 1 << MAX_DIMENSION:
            raise UsageError(
                f"a cluster has 1 to {1 << MAX_DIMENSION} nodes, got {count}: choose in that range"
            )
        if not isinstance(processes, bool) and not 1 <= processes <= count:
            raise UsageError(f"{count} nodes can share 1 to {count} processes, got {processes}")
        self._count = count
        self._processes = count if processes is True else int(processes)
        self._limits, self._timing, self._name = limits or Limits(), timing or Timing(), name
        self._detection = detection or _BY_ITS_END
        self._trace_dir = None if trace_dir is None else Path(trace_dir)
        if self._trace_dir is not None and any(self._trace_dir.glob("publications/*.parquet")):
            raise UsageError(f"{trace_dir} has the trace of another run already: give a new directory")
        self._nodes: list[Node] = []
        self._workers: list[_Worker] = []
        self._watching: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> LocalCluster:
        sockets = [_listening() for _ in range(self._count)]
        settings = ClusterSettings(
            cluster=self._name,
            nodes=tuple(
                NodeSettings(id=number, address=f"127.0.0.1:{sock.getsockname()[1]}")
                for number, sock in enumerate(sockets)
            ),
            limits=self._limits,
            timing=self._timing,
            detection=self._detection,
            partition="continue",
        )
        try:
            settings = config.checked(settings)
            if self._processes:
                self._start_workers(settings, sockets)
                await asyncio.gather(*(worker.answer() for worker in self._workers))
                for worker in self._workers:
                    worker.watch(self._on_ended)
            else:
                for number, sock in enumerate(sockets):
                    self._nodes.append(
                        await start_node(settings, number, VolatileIncarnation(number), sock, self._trace_dir)
                    )
                self._watching = [asyncio.create_task(self._watch(node)) for node in self._nodes]
        except BaseException:
            for sock in sockets:
                sock.close()
            await self.close()
            raise
        if self._processes:
            for sock in sockets:
                sock.close()
        return self

    def _start_workers(self, settings: ClusterSettings, sockets: list[socket.socket]) -> None:
        for index in range(self._processes):
            mine = dict(list(enumerate(sockets))[index :: self._processes])
            self._workers.append(_Worker(Share(settings, mine, self._trace_dir)))

    async def _watch(self, node: Node) -> None:
        """Tell the others if `node` fails."""
        await node.wait_failed()
        for other in self._nodes:
            with contextlib.suppress(NodeError):  # it may have failed too
                if other is not node:
                    other.declare_dead(node.id)

    def _on_ended(self, ended: _Worker) -> None:
        for worker in self._workers:
            if worker is not ended:
                worker.tell(Ended(ended.nodes))

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        for watching in self._watching:
            watching.cancel()
        for worker in self._workers:
            worker.stop_watching()
        nodes, workers = self._nodes, self._workers
        self._nodes, self._workers, self._watching = [], [], []
        await asyncio.gather(*(worker.close() for worker in workers))
        for result in await asyncio.gather(*(node.close() for node in nodes), return_exceptions=True):
            if result is not None:
                raise result

    # -- nodes ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> Node:
        """Node `number`, if the nodes are in this process."""
        if self._processes:
            raise UsageError(
                "the nodes of this cluster are in other processes: give `run` a function to call there, or "
                "leave `processes` out"
            )
        return self._nodes[number]

    def __iter__(self) -> Iterator[Node]:
        return (self[number] for number in range(len(self)))

    async def run(self, main: Callable[..., Awaitable[_Result]], *arguments: Any) -> list[_Result]:
        """Call `await main(node, *arguments)` for every node; the results in the order of the nodes.

        With processes, `main` must be a function that another process can import, and the arguments and results
        must pickle. Where it raises, it is ended everywhere and `WorkerFailed` is raised. A process that dies is a
        node that crashes: the others go on, and it is raised when they are done.
        """
        if not self._processes:
            return list(await asyncio.gather(*(main(node, *arguments) for node in self)))
        asking = [asyncio.create_task(worker.ask((main, arguments))) for worker in self._workers]
        pending = set(asking)
        try:
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_EXCEPTION)
                if any(type(task.exception()) not in (type(None), _WorkerEnded) for task in done):
                    break
        finally:
            for task in pending:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        results: dict[int, _Result] = {}
        for task in sorted(asking, key=asyncio.Task.cancelled):  # what failed first, then what that ended
            results |= task.result()
        return [results[number] for number in range(self._count)]

    @property
    def pids(self) -> list[int]:
        """Of the processes, if there are any."""
        return [worker.process.pid or 0 for worker in self._workers]


class _Worker:
    """A process with some of the nodes, seen from here."""

    def __init__(self, share: Share) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe: Connection
        self._pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(share, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.nodes = tuple(share.sockets)
        self.last: Any = None
        """Its last answer."""
        self._is_watched = False
        self._owed = 1
        """Answers that have not come yet: nobody may have waited for the last ones."""

    def watch(self, on_ended: Callable[[_Worker], None]) -> None:
        """`on_ended` is called if the process ends before it is told to."""
        loop, sentinel = asyncio.get_running_loop(), self.process.sentinel

        def ended() -> None:
            self.stop_watching()
            on_ended(self)

        loop.add_reader(sentinel, ended)
        self._is_watched = True

    def stop_watching(self) -> None:
        if self._is_watched:
            self._is_watched = False
            asyncio.get_running_loop().remove_reader(self.process.sentinel)

    def tell(self, news: Ended) -> None:
        """What is not answered."""
        with contextlib.suppress(OSError):
            self._pipe.send(news)

    async def ask(self, request: object) -> Any:
        while self._owed:
            with contextlib.suppress(WorkerFailed):
                await self.answer()
        try:
            self._pipe.send(request)
        except OSError:
            raise _WorkerEnded(f"process {self.process.pid} of the cluster has ended") from None
        self._owed += 1
        try:
            return await self.answer()
        except asyncio.CancelledError:
            with contextlib.suppress(OSError):
                self._pipe.send(None)
            raise

    async def answer(self) -> Any:
        loop = asyncio.get_running_loop()
        readable: asyncio.Future[None] = loop.create_future()
        pipe = self._pipe.fileno()
        # One time only: the pipe stays readable until the answer is read, after this task has woken.
        loop.add_reader(pipe, _once(loop, pipe, readable))
        os.set_blocking(pipe, True)  # uvloop changes that, and an answer may be large
        try:
            await readable
        finally:
            loop.remove_reader(pipe)
        self._owed -= 1
        try:
            answer = self._pipe.recv()
        except (EOFError, OSError):
            raise _WorkerEnded(f"process {self.process.pid} of the cluster has ended") from None
        self.last = answer
        if isinstance(answer, Failed):
            raise WorkerFailed(f"process {self.process.pid} of the cluster:\n{answer.traceback}")
        return answer

    async def close(self) -> None:
        """The end of the pipe tells it to close its nodes."""
        self._pipe.close()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self.process.join, 5.0)
        if self.process.exitcode is None:
            self.process.kill()
            await loop.run_in_executor(None, self.process.join)
        with contextlib.suppress(ValueError):
            self.process.close()


def _once(loop: asyncio.AbstractEventLoop, pipe: int, readable: asyncio.Future[None]) -> Callable[[], None]:
    def tell() -> None:
        loop.remove_reader(pipe)
        if not readable.done():  # whoever waits may have been cancelled in this turn
            readable.set_result(None)

    return tell


def _listening() -> socket.socket:
    """A socket on a free port of loopback, so that addresses are known before any node starts."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    sock.listen(128)
    sock.setblocking(False)
    return sock
