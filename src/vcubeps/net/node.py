"""A node as the application holds it: subscribe, look, close."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import Any, Generic, Literal, Protocol, TypeVar

from vcubeps.net.events import NodeEvent
from vcubeps.net.message import codec_named
from vcubeps.net.shell import Shell
from vcubeps.net.status import Status, status_of
from vcubeps.net.subscription import OnMessage, Slow, Subscription
from vcubeps.node.topics import Reader
from vcubeps.protocol.errors import UsageError
from vcubeps.protocol.limits import check_topic


class _Closable(Protocol):
    async def close(self) -> None: ...


_Opened = TypeVar("_Opened", bound=_Closable)


class Opening(Generic[_Opened]):
    """Await it, or enter it with `async with`, which also closes what was opened."""

    def __init__(self, start: Callable[[], Awaitable[_Opened]]) -> None:
        self._start = start
        self._opened: _Opened | None = None

    def __await__(self) -> Generator[Any, None, _Opened]:
        return self._start().__await__()

    async def __aenter__(self) -> _Opened:
        self._opened = await self._start()
        return self._opened

    async def __aexit__(self, *_: object) -> None:
        assert self._opened is not None
        await self._opened.close()


class Node:
    """One node of a cluster, in this process. Get it from `open` or from a `LocalCluster`."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self.gateway: _Closable | None = None
        self._closing: asyncio.Task[None] | None = None

    @property
    def id(self) -> int:
        return self._shell.id

    @property
    def incarnation(self) -> int:
        """How often this node had started before, or had been taken for crashed."""
        return self._shell.machine.peer.incarnation

    @property
    def nodes(self) -> tuple[int, ...]:
        """All nodes of the cluster file."""
        return self._shell.settings.ids

    def subscribe(
        self,
        topic: str,
        *,
        codec: Literal["bytes", "json", "msgpack"] = "bytes",
        slow: Slow = "wait",
        reads: bool = True,
        on_message: OnMessage | None = None,
        queue_messages_max: int | None = None,
        when_isolated: Literal["raise", "wait"] = "raise",
    ) -> Opening[Subscription]:
        """Subscribe to `topic`; await it, or use `async with`. In effect everywhere when it returns.

        - `codec`: what `publish` takes and `message.value` gives; payloads are bytes in any case.
        - `slow`: what happens when more than `queue_messages_max` messages wait to be read. "wait": the
          publishers of this topic wait. "disconnect": this subscription ends with a `Disconnected` event.
        - `reads`: False for those who only publish: nothing is kept for them to read.
        - `on_message`: called with each message right where it is delivered, in the event loop, instead of keeping it
          to be read: no task has to be woken, so nothing is faster. It must return soon, and is not awaited; what it
          raises goes to the loop's exception handler, and the next message comes all the same. The first message may
          come just before `subscribe` returns.
        - `when_isolated`: what this call, and `publish` on the subscription, do while the node is in contact with no
          quorum of the voters. "raise": they raise `Isolated`. "wait": they wait until it is.

        It may be called more than once for a topic; every subscription gets all messages from then on.

        >>> import asyncio, vcubeps
        >>> async def main():
        ...     async with vcubeps.LocalCluster(4) as cluster:
        ...         room = await cluster[2].subscribe("room")
        ...         return room.members
        >>> asyncio.run(main())
        (2,)
        """
        try:
            check_topic(topic)
            if slow not in ("wait", "disconnect"):
                raise UsageError(f'slow is "wait" or "disconnect", got {slow!r}: choose one')
            if when_isolated not in ("raise", "wait"):
                raise UsageError(f'when_isolated is "raise" or "wait", got {when_isolated!r}: choose one')
            if queue_messages_max is not None and not (
                isinstance(queue_messages_max, int) and queue_messages_max >= 1
            ):
                raise UsageError(
                    f"queue_messages_max is {queue_messages_max!r}: give a whole number from 1 up"
                )
            if on_message is not None and (not reads or slow != "wait" or queue_messages_max is not None):
                raise UsageError(
                    "with on_message nothing waits to be read: leave reads, slow and queue_messages_max out"
                )
            if on_message is not None and (
                not callable(on_message)
                or inspect.iscoroutinefunction(on_message)
                or inspect.iscoroutinefunction(type(on_message).__call__)
            ):
                raise UsageError(
                    f"on_message is a plain function of one message, got {on_message!r}: start a task in it if it has "
                    "to await something, or iterate over the subscription"
                )
            chosen = codec_named(codec)
        except UsageError as error:
            raise self._shell.refused(error) from None
        limits = self._shell.settings.limits
        keeps = reads and on_message is None
        reader = Reader(
            queue_messages_max or limits.queue_messages_max,
            limits.queue_bytes_max,
            keeps=keeps,
            ends_if_slow=slow == "disconnect",
        )
        subscription = Subscription(
            self._shell, topic, chosen, reader, reads, on_message, when_isolated == "wait"
        )
        return Opening(lambda: self._shell.join(subscription))

    def events(self) -> AsyncIterator[NodeEvent]:
        """What happens to this node and the others, from now on: `Suspected`, `Crashed` and `Recovered`, with the
        evidence, and `LifeChanged`, which also says that this node is isolated, and why.

        Ends with the node. Events that nobody reads are kept up to a few thousand, the newest ones.

        >>> import asyncio, vcubeps
        >>> async def main():
        ...     async with vcubeps.LocalCluster(2) as cluster:
        ...         events = cluster[0].events()
        ...         cluster[0].declare_dead(1)
        ...         return await anext(events)
        >>> asyncio.run(main())
        Crashed(node=1, incarnation=0, evidence='an operator has said so')
        """
        return self._shell.events()

    def members(self, topic: str) -> tuple[int, ...]:
        """The members of `topic` as this node sees it; empty if it is not a member itself."""
        return self._shell.members(topic)

    def status(self) -> Status:
        """How the node is doing: what it reaches, what waits, what went wrong, as `GET /status` shows it."""
        return status_of(self._shell)

    def problems(self) -> dict[int, str]:
        """Nodes that this one has something for and cannot reach, with the reason: a subscription waits for them."""
        return self._shell.problems()

    def declare_dead(self, node: int) -> None:
        """Say that `node` has crashed, without waiting for its silence. If it lives, it has to start again as its next
        incarnation, and its subscriptions have a gap."""
        if node == self.id or node not in self.nodes:
            raise self._shell.refused(
                UsageError(f"node {node} cannot be declared dead here: give another node of the cluster file")
            )
        self._shell.declare_dead(node)

    async def wait_failed(self) -> Exception:
        """Wait until the node can do nothing any more, because the others refuse it for good; returns why."""
        await self._shell.failed.wait()
        assert self._shell.failure is not None
        return self._shell.failure

    async def close(self) -> None:
        """Leave every topic and end; the other nodes know that it has ended.

        Raises `Unacknowledged` if it cannot be known whether all have received what was published here, and the reason
        if the node fails meanwhile; it has ended all the same. Whoever calls it while that is under way waits for the
        same end; later calls do nothing.
        """
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        elif self._closing.done():
            return
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self.gateway is not None:
            await self.gateway.close()
        await self._shell.close()

    async def __aenter__(self) -> Node:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"Node({self.id} of {self._shell.settings.cluster!r})"
