"""A subscription as the application holds it: publish, read, look, leave. And the receipt of a publication."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from vcubeps.net.errors import SlowSubscriber, SubscriptionClosed
from vcubeps.net.events import Disconnected, Event
from vcubeps.net.message import Codec, Message, messages_of
from vcubeps.net.topics import LocalTopic
from vcubeps.protocol.errors import UsageError
from vcubeps.protocol.outputs import Deliver

if TYPE_CHECKING:
    from vcubeps.net.runtime import Runtime

Slow: TypeAlias = Literal["wait", "disconnect"]
"""What happens when a subscription is not read fast enough."""

OnMessage: TypeAlias = Callable[[Message], object]
"""Called with each message of a subscription."""

_EVENTS_MAX = 4096
"""Events that wait to be read in one iterator; the oldest go first."""


class Receipt:
    """A publication that was accepted: it will reach every subscriber that was in effect before it."""

    __slots__ = ("_topic", "counter", "source")

    def __init__(self, topic: LocalTopic, source: int, counter: int) -> None:
        self._topic = topic
        self.source = source
        self.counter = counter
        """With `source` it identifies the publication, as in `Message`."""

    @property
    def topic(self) -> str:
        return self._topic.name

    async def acknowledged(self) -> None:
        """Wait until every subscriber has received it. Raises `Unacknowledged` if that cannot be known any more."""
        await self._topic.wait_acknowledged(self.counter)

    def __repr__(self) -> str:
        return f"Receipt(topic={self.topic!r}, source={self.source}, counter={self.counter})"


class Subscription:
    """In effect everywhere. Iterate over it, or use `receive_batch` where speed matters.

    Invariants: `backlog` is the number of messages in `_ready` and `_batches`; those in `_ready` come first, and
    are few. `backlog_bytes` is the size of `_batches`.
    """

    def __init__(
        self,
        runtime: Runtime,
        topic: LocalTopic,
        codec: Codec,
        slow: Slow,
        reads: bool,
        on_message: OnMessage | None,
        messages_max: int,
        bytes_max: int,
    ) -> None:
        self._runtime = runtime
        self._topic = topic
        self._codec = codec
        self._slow = slow
        self._reads = reads and on_message is None
        self._on_message = on_message
        self.holds_publishers = self._reads and slow == "wait"
        """Whether a backlog here slows the publishers of the topic."""
        self.messages_max = messages_max
        self.bytes_max = bytes_max
        self._ready: deque[Message] = deque()
        self._batches: deque[Deliver] = deque()
        self._sizes: deque[int] = deque()
        """Bytes of each of them."""
        self.backlog_bytes = 0
        self._readers: deque[asyncio.Future[None]] = deque()
        self._listeners: weakref.WeakSet[_Events] = weakref.WeakSet()
        self._error: Exception | None = None
        self.is_closed = False
        """Nothing more will come; what waits can still be read."""
        self.backlog = 0
        """Messages that wait to be read."""

    # -- what the application does -------------------------------------------------------------

    @property
    def topic(self) -> str:
        return self._topic.name

    @property
    def members(self) -> tuple[int, ...]:
        """The nodes that are members of the topic, as this node sees it."""
        return self._runtime.members(self._topic.name)

    async def publish(self, value: Any) -> Receipt:
        """Publish to all members. Returns once it is accepted; waits while the topic is under back-pressure.

        `value` is bytes, or what the codec of the subscription takes.

        >>> import asyncio, vcubeps
        >>> async def main():
        ...     async with vcubeps.LocalCluster(2) as cluster, cluster[0].subscribe("room", codec="json") as room:
        ...         receipt = await room.publish({"text": "hello"})
        ...         await receipt.acknowledged()
        ...         return receipt, (await room.receive()).value
        >>> asyncio.run(main())
        (Receipt(topic='room', source=0, counter=2), {'text': 'hello'})
        """
        if self.is_closed:
            raise self._runtime.refused(self._closed())
        try:
            payload = self._codec.encode(value)
        except Exception as error:
            raise self._runtime.refused(self._codec.refusal(value, error)) from None
        flow = self._runtime.flow
        if not flow.may_publish(self._topic, payload):
            await flow.wait_to_publish(self, self._topic)
        return self._runtime.publish(self._topic, payload)

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        ready = self._ready
        while not ready:
            if self._batches:
                ready.extend(messages_of((self._batches.popleft(),), self._codec))
                self.backlog_bytes -= self._sizes.popleft()
            elif self.is_closed:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            else:
                await self._wait()
        self._take(1)
        return ready.popleft()

    async def receive(self) -> Message:
        """The next message. Raises `SubscriptionClosed` if there will be none."""
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise self._closed() from None

    async def receive_batch(self) -> list[Message]:
        """All messages that wait, at least one, in order: the fast way to read.

        Raises `SubscriptionClosed` if there will be none.

        >>> import asyncio, vcubeps
        >>> async def main():
        ...     async with vcubeps.LocalCluster(1) as cluster, cluster[0].subscribe("room") as room:
        ...         for number in range(3):
        ...             receipt = await room.publish(b"%d" % number)
        ...         await receipt.acknowledged()
        ...         return [message.payload for message in await room.receive_batch()]
        >>> asyncio.run(main())
        [b'0', b'1', b'2']
        """
        while not self.backlog:
            self.check_open()
            await self._wait()
        messages = list(self._ready)
        self._ready.clear()
        messages += messages_of(self._batches, self._codec)
        self._batches.clear()
        self._sizes.clear()
        self.backlog_bytes = 0
        self._take(len(messages))
        return messages

    def events(self) -> AsyncIterator[Event]:
        """What happens besides messages, from now on: `Joined`, `Left`, `Gap`, `Disconnected`.

        Ends with the subscription. Events that nobody reads are kept up to a few thousand, the newest ones.

        >>> import asyncio, vcubeps
        >>> async def main():
        ...     async with vcubeps.LocalCluster(2) as cluster, cluster[0].subscribe("room") as room:
        ...         events = room.events()
        ...         async with cluster[1].subscribe("room"):
        ...             return await anext(events), room.members
        >>> asyncio.run(main())
        (Joined(topic='room', node=1), (0, 1))
        """
        events = _Events()
        self._listeners.add(events)
        if self.is_closed:
            events.end()
        return events

    async def close(self) -> None:
        """Leave the topic: nothing is delivered from now on. Returns when that is known everywhere.

        Where it takes longer than `close_within_s`, it goes on in the background. What has been delivered
        before can still be read. May be called again.
        """
        await self._runtime.memberships.leave(self)

    async def __aenter__(self) -> Subscription:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else f"{len(self.members)} members"
        return f"Subscription({self.topic!r}, {state}, {self.backlog} unread)"

    # -- what the runtime does -----------------------------------------------------------------

    def check_open(self) -> None:
        if self.is_closed:
            raise self._closed()

    def deliver(self, batch: Deliver, size: int) -> bool:
        """Whether the batch, of `size` bytes, waits to be read now."""
        if not self._reads:
            if self._on_message is not None:
                self._runtime.calls.append((self, batch))
            return False
        self._batches.append(batch)
        self._sizes.append(size)
        self.backlog += len(batch.items)
        self.backlog_bytes += size
        if self._slow == "disconnect" and (
            self.backlog > self.messages_max or self.backlog_bytes > self.bytes_max
        ):
            self._runtime.memberships.give_up(self)
        if self._readers:
            self._wake()
        return True

    def call(self, batch: Deliver) -> None:
        """Give the application's function what was delivered."""
        on_message = self._on_message
        assert on_message is not None
        for message in messages_of((batch,), self._codec):
            if self.is_closed:
                return
            try:
                on_message(message)
            except (Exception, asyncio.CancelledError) as error:  # the latter is of a task that it looked at
                self._runtime.loop.call_exception_handler(
                    {
                        "message": f"on_message of node {self._runtime.id}'s subscription to {self.topic!r} failed; "
                        "the next message will be given to it all the same",
                        "exception": error,
                    }
                )

    def tell(self, event: Event) -> None:
        for listener in self._listeners:
            listener.put(event)

    def end(self, error: Exception | None = None) -> None:
        """Nothing more will come."""
        self.is_closed = True
        self._error = error
        self._wake()
        for listener in self._listeners:
            listener.end()

    def end_as_slow(self) -> None:
        self.tell(Disconnected(self.topic, self.backlog))
        self.end(
            SlowSubscriber(
                f"the subscription to {self.topic!r} had {self.backlog} messages of {self.backlog_bytes} bytes unread, "
                f"where {self.messages_max} and {self.bytes_max} are the limits, and was ended: read faster, or "
                'subscribe with slow="wait"'
            )
        )

    # -- inside --------------------------------------------------------------------------------

    async def _wait(self) -> None:
        if self._on_message is not None:
            raise self._runtime.refused(
                UsageError(f"messages of {self.topic!r} go to on_message: subscribe without it to read them")
            )
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._readers.append(future)
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._wake()  # it was woken for a message that it will not take: another reader may
            raise

    def _wake(self) -> None:
        while self._readers:
            future = self._readers.popleft()
            if not future.done():
                future.set_result(None)

    def _take(self, count: int) -> None:
        self.backlog -= count
        topic = self._topic
        if topic.full:
            self._runtime.flow.relieve(topic)

    def _closed(self) -> Exception:
        return self._error or SubscriptionClosed(
            f"the subscription to {self.topic!r} has ended: subscribe again to go on"
        )


class _Events(AsyncIterator[Event]):
    """Events of one subscription for one reader."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=_EVENTS_MAX)
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False

    def put(self, event: Event) -> None:
        self._events.append(event)
        self._wake()

    def end(self) -> None:
        self._ended = True
        self._wake()

    async def __anext__(self) -> Event:
        while not self._events:
            if self._ended:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._events.popleft()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
