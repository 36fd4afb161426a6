"""A topic as all clients of a gateway share it, and the feed of each: how far it is, and how far behind it may be.

What is told becomes an entry. It is encoded once for each representation, when the first client takes it, and kept
until the last one has. To put an entry takes about the same time however many clients there are; clients that do not
take anything cost nothing but what they hold. Knows no sockets.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

import msgspec

from vcubeps.net.gateway import dialogue
from vcubeps.net.gateway.turns import GRANT_BYTES, Steps, Turns
from vcubeps.net.message import Message

GRANT_FRAMES = 16
"""Frames that a client gets at a time if they are small; of large ones it gets one."""

_STEP = 1024
"""Entries that are given up, or not waited for any more, at a time."""

_encode = msgspec.json.Encoder().encode


class Entry:
    """A message, or another event, on its way to clients."""

    __slots__ = ("_frames", "_told", "holders", "size", "waits")

    def __init__(self, told: Message | dialogue.Event, size: int, holders: int, waits: int) -> None:
        self._told = told
        self._frames: dict[str, bytes] = {}
        self.size = size
        """Bytes of the payload; 0 of what is no message."""
        self.holders = holders
        """Feeds that have not taken it."""
        self.waits = waits
        """Feeds among them that publishers wait for."""

    @property
    def is_message(self) -> bool:
        return isinstance(self._told, Message)

    def frame(self, encoding: str) -> bytes:
        frame = self._frames.get(encoding)
        if frame is None:
            frame = self._frames[encoding] = self._encoded(encoding)
        return frame

    def _encoded(self, encoding: str) -> bytes:
        told = self._told
        if not isinstance(told, Message):
            return _encode(told)
        payload = told.payload
        event = dialogue.MessageEvent(
            topic=told.topic,
            source=told.source,
            counter=told.counter,
            after=told.after,
            published_at=told.published_at,
        )
        if encoding == "text":
            try:
                event.text = payload.decode()
            except UnicodeDecodeError:
                return self.frame("base64")
        else:
            event.base64 = payload
        return _encode(event)


class Feed:
    """What one client is told of one topic."""

    __slots__ = (
        "_at", "_bytes", "_encoding", "_end", "_messages", "_topic", "_turn", "_turns", "last_words",
        "released", "waits",
    )  # fmt: skip

    def __init__(self, topic: SharedTopic, turns: Turns, encoding: str, waits: bool) -> None:
        self._topic = topic
        self._turns = turns
        self._encoding = encoding
        self.waits = waits
        """Whether publishers wait for it, until it has ended; otherwise it is ended when it is too far behind."""
        self.released = 0
        """Entries before this one that it has not taken are not waited for any more."""
        self._at = topic.next
        self._end: float = math.inf
        """Entries from here on are not for it."""
        self._messages, self._bytes = topic.messages, topic.bytes
        """Of the topic, up to what it has taken."""
        self._turn: asyncio.Future[None] | None = None
        self.last_words: dialogue.Event | None = None
        """To be said after all that is for it, if it was ended."""

    @property
    def topic(self) -> str:
        return self._topic.name

    @property
    def unread(self) -> int:
        """Messages that wait for the client."""
        return self._topic.messages - self._messages

    @property
    def unread_bytes(self) -> int:
        return self._topic.bytes - self._bytes

    @property
    def cost(self) -> int:
        return self._topic.entries[self._at].size if self._has_some else 0

    def go(self) -> None:
        if self._turn is not None and not self._turn.done():  # its task may have been cancelled
            self._turn.set_result(None)

    async def take(self) -> list[bytes]:
        """Frames to be sent next, when it is this client's turn; none if there will be no more."""
        while self._has_some or not self._has_ended:
            self._turn = asyncio.get_running_loop().create_future()
            if self._has_some:
                self._turns.enter((self,))
            else:
                self._topic.idle[self] = None
            await self._turn
            if frames := self._collect():
                return frames
        return []

    def _collect(self) -> list[bytes]:
        frames: list[bytes] = []
        size = 0
        while self._has_some and size < GRANT_BYTES and len(frames) < GRANT_FRAMES:
            entry = self._topic.taken(self, self._at)
            self._at += 1
            if entry.is_message:
                self._messages += 1
                self._bytes += entry.size
            frames.append(entry.frame(self._encoding))
            size += entry.size
        return frames

    @property
    def _has_some(self) -> bool:
        return self._at < min(self._topic.next, self._end)

    @property
    def _has_ended(self) -> bool:
        return self._end != math.inf

    def end(self, last_words: dialogue.Event | None = None) -> None:
        """What is told from now on is not for it."""
        if not self._has_ended:
            self._end = self._topic.next
            self.last_words = last_words
            if not self._has_some:
                self.go()

    def drop(self) -> bool:
        """The client is gone: what it has not taken is not for it either. Whether there is more to be dropped."""
        for _ in range(_STEP):
            if not self._has_some:
                return False
            self._topic.taken(self, self._at)
            self._at += 1
        return self._has_some

    def release(self) -> None:
        """Publishers do not wait for it any more. It has ended; what it has not taken may be much."""
        if self.waits:
            Steps(self._release_some, self._turns).go()

    def _release_some(self) -> bool:
        first = max(self.released, self._at)
        self.released = min(first + _STEP, int(self._end))
        for number in range(first, self.released):
            self._topic.release(self._topic.entries[number])
        return self.released < self._end


class SharedTopic:
    """Invariants: an entry is in `entries` while a feed has not taken it; the feeds in `idle` have taken all."""

    def __init__(
        self, name: str, turns: Turns, messages_max: int, bytes_max: int, on_release: Callable[[], None]
    ) -> None:
        """`on_release` is called when less is `held` than before."""
        self.name = name
        self._turns = turns
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._on_release = on_release
        self.feeds: dict[Feed, None] = {}
        """Those that have not ended, in the order in which they came."""
        self.idle: dict[Feed, None] = {}
        """Those that wait for something to be told."""
        self.entries: dict[int, Entry] = {}
        """By number."""
        self.next = 0
        """The number of the next entry."""
        self.messages = self.bytes = 0
        """Told so far."""
        self.waiting = 0
        """Feeds that publishers wait for."""
        self.held = self.held_bytes = 0
        """Messages that not all of those have taken."""
        self._slowest_messages = self._slowest_bytes = 0
        """No feed that may be ended has taken less of the topic than this."""

    def add(self, encoding: str, waits: bool) -> Feed:
        feed = Feed(self, self._turns, encoding, waits)
        if not self.feeds:
            self._slowest_messages, self._slowest_bytes = self.messages, self.bytes
        self.feeds[feed] = None
        self.waiting += waits
        return feed

    def remove(self, feed: Feed, last_words: dialogue.Event | None = None) -> None:
        """Nothing more is told to it; what it has not taken yet, it may."""
        if feed in self.feeds:
            del self.feeds[feed]
            self.idle.pop(feed, None)
            self.waiting -= feed.waits
            feed.end(last_words)
            feed.release()

    def put_message(self, message: Message, size: int) -> list[Feed]:
        """For all feeds. Those that are too far behind are ended, and returned."""
        if not self.feeds:
            return []
        self.messages += 1
        self.bytes += size
        if self.waiting:
            self.held += 1
            self.held_bytes += size
        self._put(message, size)
        if (
            self.messages - self._slowest_messages > self._messages_max
            or self.bytes - self._slowest_bytes > self._bytes_max
        ):
            return self._end_slow()
        return []

    def put_event(self, event: dialogue.Event) -> None:
        if self.feeds:
            self._put(event, 0)

    def _put(self, told: Message | dialogue.Event, size: int) -> None:
        waits = self.waiting if isinstance(told, Message) else 0
        self.entries[self.next] = Entry(told, size, len(self.feeds), waits)
        self.next += 1
        if self.idle:
            idle, self.idle = self.idle, {}
            self._turns.enter(idle)

    def _end_slow(self) -> list[Feed]:
        """Rarely has to look: only when the slowest, where it was the last time, would be too slow now."""
        mortal = [feed for feed in self.feeds if not feed.waits]
        slow = [
            feed for feed in mortal if feed.unread > self._messages_max or feed.unread_bytes > self._bytes_max
        ]
        for feed in slow:
            self.remove(feed, dialogue.DisconnectedEvent(topic=self.name, waiting=feed.unread))
        rest = [feed for feed in mortal if feed in self.feeds]
        self._slowest_messages = self.messages - max((feed.unread for feed in rest), default=0)
        self._slowest_bytes = self.bytes - max((feed.unread_bytes for feed in rest), default=0)
        return slow

    def taken(self, feed: Feed, number: int) -> Entry:
        """`feed` has taken an entry."""
        entry = self.entries[number]
        entry.holders -= 1
        if not entry.holders:
            del self.entries[number]
        if feed.waits and number >= feed.released:
            self.release(entry)
        return entry

    def release(self, entry: Entry) -> None:
        """A feed that publishers wait for has taken an entry, or they do not wait for it any more."""
        if not entry.waits:
            return
        entry.waits -= 1
        if not entry.waits:
            self.held -= 1
            self.held_bytes -= entry.size
            self._on_release()
