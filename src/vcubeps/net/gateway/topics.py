"""The topics that clients of a gateway are subscribed to: the node subscribes once to each, for all of them.

So what a message costs the node does not depend on how many clients there are. What it costs the gateway is spent in
turns (`turns`), from what is shared (`feeds`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from vcubeps.net.events import Event, Gap, Joined, Left
from vcubeps.net.gateway import dialogue
from vcubeps.net.gateway.feeds import Feed, SharedTopic
from vcubeps.net.gateway.leaving import Leaving
from vcubeps.net.gateway.turns import Steps, Turns
from vcubeps.net.message import Message, codec_named
from vcubeps.net.shell import Shell
from vcubeps.net.subscription import Subscription
from vcubeps.node.topics import Reader


class Topics:
    """Invariant: there is a tap for each topic that a client is subscribed to or is about to be."""

    def __init__(self, shell: Shell, leaving: Leaving, turns: Turns) -> None:
        self._shell = shell
        self._leaving = leaving
        self._turns = turns
        self._taps: dict[str, _Tap] = {}

    async def subscribe(self, name: str, encoding: str, waits: bool) -> tuple[Feed, tuple[int, ...]]:
        """In effect everywhere when it returns; with the members of the topic. Raises `NodeError`."""
        tap = self._taps.get(name)
        if tap is None:
            tap = self._taps[name] = _Tap(self._shell, name, self._turns, self._ended)
        tap.joiners += 1
        try:
            await asyncio.shield(tap.joined)
            return tap.add(encoding, waits), tap.members
        finally:
            tap.joiners -= 1
            if self._end_unused(tap):
                self._leaving.start(tap)

    async def unsubscribe(self, feed: Feed) -> None:
        """Known everywhere when it returns, or `close_within_s` later. What was told before may still be taken."""
        tap = self._removed_from(feed)
        if tap is not None and self._end_unused(tap):
            await tap.close()

    def drop(self, feed: Feed) -> None:
        """The client is gone."""
        tap = self._removed_from(feed)
        if tap is not None and self._end_unused(tap):
            self._leaving.start(tap)
        Steps(feed.drop, self._turns).go()

    def unread(self) -> dict[str, list[int]]:
        """Topic → messages that wait for each client."""
        return {name: [feed.unread for feed in tap.shared.feeds] for name, tap in self._taps.items()}

    def _removed_from(self, feed: Feed) -> _Tap | None:
        tap = self._taps.get(feed.topic)
        if tap is None or feed not in tap.shared.feeds:
            return None
        tap.remove(feed)
        return tap

    def _end_unused(self, tap: _Tap) -> bool:
        """Whether nobody needs it any more, and it has to be closed."""
        if tap.joiners or tap.shared.feeds or self._taps.get(tap.topic) is not tap:
            return False
        del self._taps[tap.topic]
        tap.joined.cancel()
        return True

    def _ended(self, tap: _Tap) -> None:
        if self._taps.get(tap.topic) is tap:
            del self._taps[tap.topic]


class _Tap(Subscription):
    """The node's subscription to a topic for all clients of its gateway.

    What it is given goes to the feeds at once. Its reader's backlog is what feeds that publishers wait for have not
    taken, so that back-pressure is the node's own.
    """

    def __init__(self, shell: Shell, name: str, turns: Turns, on_end: Callable[[_Tap], None]) -> None:
        limits = shell.settings.limits
        reader = Reader(limits.queue_messages_max, limits.queue_bytes_max, keeps=False)
        super().__init__(shell, name, codec_named("bytes"), reader, True, self._put)
        self._shell = shell
        self._on_end = on_end
        self.shared = SharedTopic(
            name, turns, limits.queue_messages_max, limits.queue_bytes_max, self._released
        )
        self.joiners = 0
        """Clients that wait for it to be in effect."""
        self.joined = shell.loop.create_task(shell.join(self))
        self.joined.add_done_callback(_retrieve)

    def add(self, encoding: str, waits: bool) -> Feed:
        self.check_open()
        feed = self.shared.add(encoding, waits)
        self._weigh()
        return feed

    def remove(self, feed: Feed) -> None:
        self.shared.remove(feed)
        self._weigh()

    def tell(self, event: Event) -> None:
        super().tell(event)
        told = _in_words(event)
        if told is not None:
            self.shared.put_event(told)

    def end(self, error: Exception | None = None) -> None:
        super().end(error)
        self._on_end(self)
        last_words = None if error is None else dialogue.EndedEvent(topic=self.topic, reason=str(error))
        for feed in list(self.shared.feeds):
            self.shared.remove(feed, last_words)

    def _put(self, message: Message) -> None:
        slow = self.shared.put_message(message, len(message.payload))
        self._weigh()
        if slow:
            self._shell.measures.disconnected_slow += len(slow)
            if not self.shared.feeds and not self.joiners:
                self._on_end(self)
                self._shell.loop.call_soon(self._shell.detach, self)

    def _weigh(self) -> None:
        """Publishers wait for those who asked for it, and for nobody else."""
        shared, reader = self.shared, self.reader
        reader.keeps = bool(shared.waiting)
        reader.backlog, reader.backlog_bytes = shared.held, shared.held_bytes

    def _released(self) -> None:
        self._weigh()
        self._home.took(self)


def _in_words(event: Event) -> dialogue.Event | None:
    match event:
        case Joined(topic, node):
            return dialogue.JoinedEvent(topic=topic, node=node)
        case Left(topic, node, crashed):
            return dialogue.LeftEvent(topic=topic, node=node, crashed=crashed)
        case Gap(topic, reason, after):
            return dialogue.GapEvent(topic=topic, reason=reason, after=after)
        case _:
            return None


def _retrieve(task: asyncio.Task[Subscription]) -> None:
    """Whoever waits raises the error of a join; nobody may be left to."""
    if not task.cancelled():
        task.exception()
