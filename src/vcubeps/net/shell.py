"""The asyncio shell of one node: timers, disk and the application's futures around its machine, and its sockets.

Everything happens in one thread of one event loop. A message causes no task switch: it is handled where it is
read, and what it causes is written meanwhile, or at the end of the turn where more comes at a time.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
import weakref
from collections import deque
from collections.abc import Callable
from time import time_ns
from typing import Any

from vcubeps.net.clock import now_s
from vcubeps.net.config import ConfigError
from vcubeps.net.errors import NodeClosed, NodeRefused, Unacknowledged
from vcubeps.net.event_queue import EventQueue
from vcubeps.net.events import Crashed, Event, Gap, Joined, Left, LifeChanged, NodeEvent, Recovered, Suspected
from vcubeps.net.incarnation import IncarnationStore, VolatileIncarnation
from vcubeps.net.measures import Measures
from vcubeps.net.observers import Watch
from vcubeps.net.sockets import Sockets
from vcubeps.net.subscription import Receipt, Receipts, Subscription
from vcubeps.net.tracer import NOBODY_ASKED_NS, Tracer
from vcubeps.node import outputs as out
from vcubeps.node.errors import Isolated, NodeError
from vcubeps.node.lifecycle import Life
from vcubeps.node.machine import Machine
from vcubeps.node.settings import ClusterSettings
from vcubeps.protocol.errors import UsageError
from vcubeps.protocol.outputs import Acknowledged, MemberJoined, MemberLeft

log = logging.getLogger("vcubeps.node")

_SLOW_WARNING_S = 5.0
"""How long a publication may wait for its own node's subscription to be read before that is logged."""


class Shell:
    """What `Subscription` and `Node` stand on."""

    def __init__(
        self,
        settings: ClusterSettings,
        node: int,
        incarnations: IncarnationStore | VolatileIncarnation,
        tracer: Tracer | None = None,
    ) -> None:
        self.settings = settings
        self._payload_bytes_max = settings.limits.payload_bytes_max
        self.id = node
        self.loop = asyncio.get_running_loop()
        self.measures = Measures()
        self.tracer = tracer
        self.watch = Watch(node, self.measures, tracer)
        self._incarnations = incarnations
        self.machine = Machine(
            settings,
            node,
            incarnations.next(),
            secrets.randbits(62),
            now_s(),
            self.watch,
            tells_all=tracer is not None,
        )
        self._context = self.machine.context
        self.sockets = Sockets(node, self.machine, self.carry_out)
        self._context.write_at_once = self.sockets.write
        self.started_s = now_s()
        self.failure: Exception | None = None
        """Why this node can do nothing any more."""
        self.failed = asyncio.Event()
        self._up = asyncio.Event()
        self._closed: asyncio.Future[dict[str, int]] | None = None
        """Topic → publications that were not acknowledged: how closing has ended."""
        self._turn_scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_s = math.inf
        self._is_carrying = False
        self.subscriptions: dict[str, list[Subscription]] = {}
        self.receipts: dict[str, Receipts] = {}
        self._listeners: weakref.WeakSet[EventQueue[NodeEvent]] = weakref.WeakSet()
        self._joins: dict[str, asyncio.Future[None]] = {}
        self._leaves: dict[str, asyncio.Future[None]] = {}
        self._rooms: dict[str, deque[asyncio.Future[None]]] = {}
        self._contacts: list[asyncio.Future[None]] = []
        """Who waits until this node is not isolated any more."""
        self._carriers: dict[type, Callable[[Any], None]] = {
            **self.sockets.carriers,
            out.Store: self._store,
            out.Delivered: self._deliver,
            Acknowledged: lambda o: self.receipts[o.topic].acknowledged(o.counter),
            MemberJoined: lambda o: self._tell(o.topic, Joined(o.topic, o.node)),
            MemberLeft: lambda o: self._tell(o.topic, Left(o.topic, o.node, o.crashed)),
            out.Joined: lambda o: _resolve(self._joins.pop(o.topic, None)),
            out.Left: self._left,
            out.Voided: self._voided,
            out.Gap: lambda o: self._tell(o.topic, Gap(o.topic, o.reason, o.after)),
            out.Room: self._room,
            out.TooSlow: self._too_slow,
            out.LifeChanged: self._life_changed,
            out.Failed: self._failed,
            out.Closed: self._on_closed,
            out.Suspected: lambda o: self._say(Suspected(o.node, o.silent_s, o.asked)),
            out.Crashed: lambda o: self._say(Crashed(o.node, o.incarnation, o.evidence)),
            out.Recovered: lambda o: self._say(Recovered(o.node, o.incarnation)),
            out.Log: lambda o: log.log(o.level, "%s", o.text),
        }

    # -- driving the machine -------------------------------------------------------------------

    def start(self) -> None:
        self.machine.start(now_s())
        self.carry_out()

    def carry_out(self) -> None:
        """What the machine has to say."""
        if self._is_carrying:
            return
        machine, context = self.machine, self._context
        if context.outputs:
            self._is_carrying = True
            context.write_at_once = (
                None  # the application may publish from inside: that comes after these outputs
            )
            carriers = self._carriers
            try:
                while outputs := machine.take_outputs():
                    try:
                        for output in outputs:
                            carriers[type(output)](output)
                    except (
                        Exception
                    ) as error:  # what was at hand is lost: it must not go on as if it were not
                        log.exception("node %d: a fault", self.id)
                        machine.fault(error)
                    if not context.outputs:
                        break
            finally:
                self._is_carrying = False
                context.write_at_once = self.sockets.write
        if context.is_dirty and not self._turn_scheduled:
            self._turn_scheduled = True
            self.loop.call_soon(self._end_turn)
        if context.timers.next_s < self._timer_at_s:
            self._set_timer(machine.next_tick_s)

    def _set_timer(self, at_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_s = at_s
        self._timer = self.loop.call_later(max(0.0, at_s - now_s()), self._tick)

    def _end_turn(self) -> None:
        self._turn_scheduled = False
        self.machine.end_turn(now_s())
        self.carry_out()

    def _tick(self) -> None:
        self._timer, self._timer_at_s = None, math.inf
        self.machine.tick(now_s())
        self.carry_out()

    # -- the disk ------------------------------------------------------------------------------

    def _store(self, output: out.Store) -> None:
        if self.machine.life is Life.FAILED:
            return
        try:
            self._incarnations.store(output.incarnation)
        except ConfigError as error:
            self.machine.store_failed(str(error), now_s())
        else:
            self.machine.stored(now_s())

    # -- the application -----------------------------------------------------------------------

    def _deliver(self, output: out.Delivered) -> None:
        batch = output.batch
        for subscription in list(self.subscriptions.get(batch.topic, ())):
            if not subscription.is_closed and subscription.deliver(batch, output.size):
                subscription.call(batch)

    def publish(self, subscription: Subscription, payload: bytes) -> Receipt | None:
        """Accepted when it returns; None while the topic is under back-pressure."""
        if len(payload) > self._payload_bytes_max:
            raise self.refused(
                UsageError(
                    f"payload has {len(payload)} bytes, the limit is {self._payload_bytes_max} "
                    "(limits.payload_bytes_max): send it in parts"
                )
            )
        name, machine = subscription.topic, self.machine
        counter = machine.publish(name, payload, now_s(), time_ns())
        if not counter:
            self.carry_out()
            self.check_alive()
            return None
        if not self._turn_scheduled or self._context.outputs:
            self.carry_out()
        return Receipt(subscription.receipts, self.id, counter)

    async def publish_later(
        self, subscription: Subscription, payload: bytes, *, is_isolated: bool = False
    ) -> Receipt:
        """Wait until there is room, and contact, where the subscription waits for that."""
        while True:
            await (self._wait_for_contact() if is_isolated else self._wait_for_room(subscription))
            self.check_alive()
            subscription.check_open()
            try:
                receipt, is_isolated = self.publish(subscription, payload), False
            except Isolated:
                if not subscription.waits_for_contact:
                    raise
                receipt, is_isolated = None, True
            if receipt is not None:
                return receipt

    async def _wait_for_contact(self) -> None:
        """Until this node is not isolated, or has ended."""
        if self.machine.life is Life.ISOLATED:
            waiter: asyncio.Future[None] = self.loop.create_future()
            self._contacts.append(waiter)
            await waiter

    async def _wait_for_room(self, subscription: Subscription) -> None:
        warning = None
        if subscription.reader.is_behind(1.0):
            warning = self.loop.call_later(_SLOW_WARNING_S, self._warn_of_unread, subscription)
        waiter: asyncio.Future[None] = self.loop.create_future()
        self._rooms.setdefault(subscription.topic, deque()).append(waiter)
        try:
            await waiter
        finally:
            if warning is not None:
                warning.cancel()

    def _warn_of_unread(self, subscription: Subscription) -> None:
        log.warning(
            "node %d: a publication on %r waits because %d messages of its own subscription are unread: read them in "
            "another task, or subscribe with reads=False",
            self.id, subscription.topic, subscription.backlog,
        )  # fmt: skip

    def took(self, subscription: Subscription) -> None:
        """Some of what waited there has been read."""
        if self.machine.is_full(subscription.topic):
            self.machine.read(subscription.topic, now_s())
            self.carry_out()

    def events(self) -> EventQueue[NodeEvent]:
        """What happens to this node, from now on."""
        events = EventQueue[NodeEvent]()
        self._listeners.add(events)
        if self.failure is not None:
            events.end()
        return events

    def _say(self, event: NodeEvent) -> None:
        for listener in self._listeners:
            listener.put(event)

    def _tell(self, topic: str, event: Event) -> None:
        for subscription in self.subscriptions.get(topic, ()):
            subscription.tell(event)

    def _left(self, output: out.Left) -> None:
        _resolve(self._leaves.pop(output.topic, None))
        if self._forget(output.topic):
            self.measures.leave(output.topic)

    def _forget(self, name: str) -> bool:
        """Drop what is kept of a topic, unless it is still subscribed to, or being left. Whether it was dropped."""
        if self.subscriptions.get(name) or name in self.machine.memberships.topics:
            return False
        self.subscriptions.pop(name, None)
        self.receipts.pop(name, None)
        self.watch.left(name)
        return True

    def _voided(self, output: out.Voided) -> None:
        receipts = self.receipts.get(output.topic)
        if receipts is not None and output.last:
            receipts.void(output.first, output.last, output.reason)

    def _room(self, output: out.Room) -> None:
        for waiter in self._rooms.pop(output.topic, ()):
            _resolve(waiter)

    def _too_slow(self, output: out.TooSlow) -> None:
        for subscription in list(self.subscriptions.get(output.topic, ())):
            if subscription.reader is output.reader and not subscription.is_closed:
                self.measures.disconnected_slow += 1
                subscription.end_as_slow()
                self.detach(subscription)

    def _life_changed(self, output: out.LifeChanged) -> None:
        log.info("node %d is %s: %s", self.id, output.life.value, output.reason)
        self._say(LifeChanged(output.life.value, output.reason))
        if output.life is Life.STARTING:
            self._up.clear()
        else:
            self._up.set()
        if output.life is not Life.ISOLATED:
            self._let_go_on()

    def _let_go_on(self) -> None:
        """Those who waited for contact: they find out how it stands."""
        contacts, self._contacts = self._contacts, []
        for waiter in contacts:
            _resolve(waiter)

    async def wait_until_up(self) -> None:
        while self.machine.life is Life.STARTING:
            self.check_alive()
            await self._up.wait()
        self.check_alive()

    async def join(self, subscription: Subscription) -> Subscription:
        """In effect everywhere when it returns."""
        name = subscription.topic
        self.check_alive()
        while True:
            await self.wait_until_up()
            try:
                self._subscribe(subscription)
            except Isolated:
                if not subscription.waits_for_contact:
                    raise
                await self._wait_for_contact()
            else:
                break
        self.measures.topic(name)
        joined = self._joins.get(name)
        if joined is None:
            joined = self._joins[name] = self.loop.create_future()
        self.subscriptions.setdefault(name, []).append(subscription)
        try:
            self.carry_out()
            await asyncio.shield(joined)
            self.check_alive()
            subscription.check_open()
        except BaseException:
            self.detach(subscription)
            raise
        return subscription

    def _subscribe(self, subscription: Subscription) -> None:
        """Ask for it; what is refused leaves nothing."""
        name = subscription.topic
        subscription.receipts = self.receipts.setdefault(name, Receipts(name))
        self.watch.joins(name)
        try:
            self.machine.subscribe(name, subscription.reader, now_s())
        except Exception:
            self._forget(name)
            raise

    def detach(self, subscription: Subscription) -> None:
        """Nothing more is delivered to it; with the last one of its topic, the topic is left."""
        name = subscription.topic
        subscribed = self.subscriptions.get(name, [])
        if subscription not in subscribed:
            return
        subscribed.remove(subscription)
        if not subscription.is_closed:
            subscription.end()
        if not subscribed:
            self.watch.leaves(name)
        self.machine.unsubscribe(name, subscription.reader, now_s())
        self.carry_out()

    async def leave(self, subscription: Subscription) -> None:
        """End `subscription`; known everywhere when it returns, or `close_within_s` later."""
        self.detach(subscription)
        name = subscription.topic
        if name in self.machine.memberships.topics and not self.subscriptions.get(name):
            left = self._leaves.get(name)
            if left is None:
                left = self._leaves[name] = self.loop.create_future()
            await asyncio.wait([left], timeout=self.settings.timing.close_within_s)

    def declare_dead(self, node: int) -> None:
        self.check_alive()
        self.machine.declare_dead(node, now_s())
        self.carry_out()

    def refused(self, error: Exception) -> Exception:
        """`error`, for the caller to raise, counted."""
        self.measures.usage_errors += 1
        return error

    # -- looking in ----------------------------------------------------------------------------

    def members(self, name: str) -> tuple[int, ...]:
        return tuple(sorted(self.machine.peer.members(name)))

    def problems(self) -> dict[int, str]:
        """Living nodes, as far as is known, that this one has something for and cannot reach, with the reason."""
        return self.machine.problems()

    def check_alive(self) -> None:
        if self.failure is not None:
            raise self.failure

    # -- the end -------------------------------------------------------------------------------

    def _failed(self, output: out.Failed) -> None:
        error = NodeRefused(output.reason) if output.is_refusal else NodeError(output.reason)
        log.error("%s", error)
        self._end_all(error)
        self.failed.set()
        if self._closed is not None and not self._closed.done():
            self._closed.set_exception(error)

    def _end_all(self, error: Exception) -> None:
        self.failure = self.failure or error
        self._up.set()  # whoever waits for it finds the failure
        self._let_go_on()
        for subscriptions in list(self.subscriptions.values()):
            for subscription in list(subscriptions):
                if not subscription.is_closed:
                    subscription.end(error)
        waiters = [
            *self._joins.values(),
            *self._leaves.values(),
            *(w for q in self._rooms.values() for w in q),
        ]
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(error)
                waiter.exception()
        self._joins.clear()
        self._leaves.clear()
        self._rooms.clear()
        for receipts in self.receipts.values():
            receipts.fail(str(error))
        if self.machine.life.has_ended:
            for listener in self._listeners:
                listener.end()

    def _on_closed(self, output: out.Closed) -> None:
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(output.unacknowledged)

    async def close(self) -> None:
        """Leave every topic, say goodbye, end everything; within `close_within_s` or a little more. Once."""
        unacknowledged: dict[str, int] = {}
        error: Exception | None = None
        await self.sockets.stop_listening()
        if self.failure is None:
            self._closed = self.loop.create_future()
            self.failure = NodeClosed(f"node {self.id} has been closed: open it again")
            for subscriptions in list(self.subscriptions.values()):
                for subscription in list(subscriptions):
                    self.detach(subscription)
            self.machine.close(now_s())
            self.carry_out()
            try:
                unacknowledged = await self._closed
            except NodeError as failure:
                error = failure
            if self.tracer is not None:
                for topic in list(self.machine.memberships.topics):
                    self.tracer.left(topic, NOBODY_ASKED_NS, time.time_ns())
        self._end_all(self.failure)
        if self._timer is not None:
            self._timer.cancel()
        await self.sockets.close()
        if self.tracer is not None:
            await self.tracer.close()
        self._incarnations.close()
        if error is not None:
            raise error
        if unacknowledged:
            counts = ", ".join(f"{count} on {topic!r}" for topic, count in unacknowledged.items())
            raise Unacknowledged(
                f"node {self.id} was closed before all had received its publications: {counts} were accepted and not "
                "acknowledged; wait for their receipts before, or raise timing.close_within_s"
            )


def _resolve(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
