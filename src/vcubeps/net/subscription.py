"""A subscription as the application holds it: publish, read, look, leave. And the receipt of a publication."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from vcubeps.net.errors import SlowSubscriber, SubscriptionClosed, Unacknowledged
from vcubeps.net.event_queue import EventQueue
from vcubeps.net.events import Disconnected, Event
from vcubeps.net.message import BYTES, Codec, Message, messages_of
from vcubeps.node.errors import Isolated
from vcubeps.node.topics import Reader
from vcubeps.protocol.errors import UsageError
from vcubeps.protocol.outputs import Deliver

Slow: TypeAlias = Literal["wait", "disconnect"]
"""What happens when a subscription is not read fast enough."""

OnMessage: TypeAlias = Callable[[Message], object]
"""Called with each message of a subscription."""


class Receipts:
    """The publications of one node on one topic: which are acknowledged, and who waits for that."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._up_to = 0
        """All that are not uncertain are acknowledged up to this counter."""
        self._uncertain: list[tuple[int, int]] = []
        """Counters, from … to, of which it cannot be known any more whether all received them."""
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._failure: str | None = None

    def acknowledged(self, counter: int) -> None:
        self._up_to = counter
        if self._waiters:
            done = [waiter for waiter in self._waiters if waiter[0] <= counter]
            self._waiters = [waiter for waiter in self._waiters if waiter[0] > counter]
            for _, future in done:
                if not future.done():
                    future.set_result(None)

    def void(self, first: int, last: int, reason: str) -> None:
        """Of these it will never be known."""
        self._uncertain.append((first, last))
        waiters, self._waiters = self._waiters, []
        for counter, future in waiters:
            if not future.done():
                future.set_exception(self._unknown(counter, reason))
                future.exception()  # whoever waits raises it; nobody may be left to

    def fail(self, reason: str) -> None:
        """The node has ended: of what is not acknowledged it will never be known."""
        self._failure = self._failure or reason
        self.void(0, -1, reason)

    async def wait(self, counter: int) -> None:
        if any(first <= counter <= last for first, last in self._uncertain):
            raise self._unknown(counter, "the node was taken for crashed, or closed, before")
        if self._up_to >= counter:
            return
        if self._failure is not None:
            raise self._unknown(counter, self._failure)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((counter, future))
        await future

    def _unknown(self, counter: int, reason: str) -> Unacknowledged:
        return Unacknowledged(
            f"whether everybody received publication {counter} on {self.topic!r} is not known: {reason}"
        )


class Receipt(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A publication that was accepted: its node sends it to every subscriber that was in effect before it. If the node
    ends before it is acknowledged, some may have it and others not, or nobody."""

    _receipts: Receipts
    source: int
    counter: int
    """With `source` it identifies the publication, as in `Message`."""

    @property
    def topic(self) -> str:
        return self._receipts.topic

    async def acknowledged(self) -> None:
        """Wait until every subscriber has received it. Raises `Unacknowledged` if that cannot be known any more."""
        await self._receipts.wait(self.counter)

    def __repr__(self) -> str:
        return f"Receipt(topic={self.topic!r}, source={self.source}, counter={self.counter})"


class Home(Protocol):
    """What a subscription needs of its node."""

    @property
    def id(self) -> int: ...
    def members(self, name: str) -> tuple[int, ...]: ...
    def refused(self, error: Exception) -> Exception: ...
    def publish(self, subscription: Subscription, payload: bytes) -> Receipt | None: ...
    async def publish_later(
        self, subscription: Subscription, payload: bytes, *, is_isolated: bool = False
    ) -> Receipt: ...
    def took(self, subscription: Subscription) -> None: ...
    async def leave(self, subscription: Subscription) -> None: ...


class Subscription:
    """In effect everywhere. Iterate over it, or use `receive_batch` where speed matters.

    Invariants: the reader's backlog is the number of messages in `_ready` and `_batches`; those in `_ready` come first,
    and are few.
    """

    def __init__(
        self,
        home: Home,
        topic: str,
        codec: Codec,
        reader: Reader,
        reads: bool,
        on_message: OnMessage | None,
        waits_for_contact: bool = False,
    ) -> None:
        self._home = home
        self.topic = topic
        self._codec = codec
        self.reader = reader
        """What the node knows of how far this is read."""
        self.receipts = Receipts(topic)
        """Of its node's publications on the topic; those of all its subscriptions, once it has joined."""
        self.waits_for_contact = waits_for_contact
        """Whether `publish` and joining wait while the node is isolated."""
        self._takes_bytes = codec is BYTES
        self._reads = reads and on_message is None
        self._on_message = on_message
        self._ready: deque[Message] = deque()
        self._batches: deque[tuple[Deliver, int]] = deque()
        """With the bytes of each."""
        self._readers: deque[asyncio.Future[None]] = deque()
        self._listeners: weakref.WeakSet[EventQueue[Event]] = weakref.WeakSet()
        self._error: Exception | None = None
        self.is_closed = False
        """Nothing more will come; what waits can still be read."""

    # -- what the application does -------------------------------------------------------------

    @property
    def backlog(self) -> int:
        """Messages that wait to be read."""
        return self.reader.backlog

    @property
    def members(self) -> tuple[int, ...]:
        """The nodes that are members of the topic, as this node sees it."""
        return self._home.members(self.topic)

    async def publish(self, value: Any) -> Receipt:
        """Publish to all members. Returns once it is accepted; waits while the topic is under back-pressure. While the
        node is isolated, raises `Isolated`, or waits if the subscription was made with `when_isolated="wait"`.

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
            raise self._home.refused(self._closed())
        if self._takes_bytes and type(value) is bytes:
            payload = value
        else:
            try:
                payload = self._codec.encode(value)
            except Exception as error:
                raise self._home.refused(self._codec.refusal(value, error)) from None
        try:
            receipt = self._home.publish(self, payload)
        except Isolated:
            if not self.waits_for_contact:
                raise
            return await self._home.publish_later(self, payload, is_isolated=True)
        return receipt if receipt is not None else await self._home.publish_later(self, payload)

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        ready = self._ready
        while not ready:
            if self._batches:
                batch, size = self._batches.popleft()
                ready.extend(messages_of((batch,), self._codec))
                self.reader.backlog_bytes -= size
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
        while not self._ready and not self._batches:
            self.check_open()
            await self._wait()
        messages = list(self._ready)
        self._ready.clear()
        messages += messages_of([batch for batch, _ in self._batches], self._codec)
        self._batches.clear()
        self.reader.backlog_bytes = 0
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
        events = EventQueue[Event]()
        self._listeners.add(events)
        if self.is_closed:
            events.end()
        return events

    async def close(self) -> None:
        """Leave the topic: nothing is delivered from now on. Returns when that is known everywhere.

        Where it takes longer than `close_within_s`, it goes on in the background. What has been delivered
        before can still be read. May be called again.
        """
        await self._home.leave(self)

    async def __aenter__(self) -> Subscription:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else f"{len(self.members)} members"
        return f"Subscription({self.topic!r}, {state}, {self.backlog} unread)"

    # -- what the node does --------------------------------------------------------------------

    def check_open(self) -> None:
        if self.is_closed:
            raise self._closed()

    def deliver(self, batch: Deliver, size: int) -> bool:
        """A batch of `size` bytes, which the reader's backlog counts already if it waits to be read here. Whether it
        has to be given to `call`."""
        if self._reads:
            self._batches.append((batch, size))
            if self._readers:
                self._wake()
            return False
        return self._on_message is not None

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
                asyncio.get_running_loop().call_exception_handler(
                    {
                        "message": f"on_message of node {self._home.id}'s subscription to {self.topic!r} failed; "
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
                f"the subscription to {self.topic!r} had {self.backlog} messages of {self.reader.backlog_bytes} bytes "
                f"unread, where {self.reader.messages_max} and {self.reader.bytes_max} are the limits, and was ended: "
                'read faster, or subscribe with slow="wait"'
            )
        )

    # -- inside --------------------------------------------------------------------------------

    async def _wait(self) -> None:
        if self._on_message is not None:
            raise self._home.refused(
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
        self.reader.backlog -= count
        self._home.took(self)

    def _closed(self) -> Exception:
        return self._error or SubscriptionClosed(
            f"the subscription to {self.topic!r} has ended: subscribe again to go on"
        )
