"""Many clients of one gateway: what they cost the node and each turn of its loop; none keeps the others waiting."""

import asyncio
import contextlib
import socket
from collections import Counter

import msgspec
import pytest

from gateways import serving, unread_until_disconnected
from vcubeps.net.events import Left
from vcubeps.net.gateway import feeds
from vcubeps.net.gateway.turns import TURN_BYTES
from vcubeps.net.gateway.websocket import UNSENT_BYTES_MAX, Socket

PAYLOAD = b"x" * 100_000


@contextlib.asynccontextmanager
async def subscribed(door, count, **options):
    """So many clients of the topic "room"."""
    async with contextlib.AsyncExitStack() as stack:
        talks = [await stack.enter_async_context(door.talk()) for _ in range(count)]
        for talk in talks:
            assert (await talk.ask(op="subscribe", topic="room", **options))["event"] == "subscribed"
        yield talks


def test_messages_are_encoded_once_for_each_representation_and_the_node_has_one_subscription(monkeypatch):
    encoded = []
    monkeypatch.setattr(
        feeds, "_encode", lambda event: encoded.append(type(event).__name__) or msgspec.json.encode(event)
    )

    async def main():
        async with (
            serving(2) as door,
            subscribed(door, 6) as talks,
            subscribed(door, 6, encoding="base64") as others,
        ):
            async with door.cluster[1].subscribe("room", reads=False) as room:
                for talk in (*talks, *others):
                    await talk.hear("joined")
                for number in range(5):
                    await room.publish(b"%d" % number)
                heard = [[(await talk.hear("message")) for _ in range(5)] for talk in (*talks, *others)]
            topic = door.cluster[0]._shell.machine.memberships.topics["room"]
            return heard, len(topic.readers)

    heard, readers = asyncio.run(main())

    assert readers == 1
    assert Counter(encoded)["MessageEvent"] == 10
    assert Counter(encoded)["JoinedEvent"] <= 2
    for each in heard[:6]:
        assert [message["text"] for message in each] == ["0", "1", "2", "3", "4"]
    for each in heard[6:]:
        assert [message["base64"] for message in each] == ["MA==", "MQ==", "Mg==", "Mw==", "NA=="]


def test_no_turn_of_the_loop_writes_more_than_its_budget_and_a_frame(monkeypatch):
    """Clients enter while a turn is under way too, so a turn may write what was granted in it and in the one before."""
    turn, written = 0, Counter()
    send = Socket.send_frame

    async def counted(self, frame, *more):
        written[turn] += len(frame)
        await send(self, frame, *more)

    async def main():
        nonlocal turn
        async with serving(2) as door, subscribed(door, 60) as talks:
            loop = asyncio.get_running_loop()

            def next_turn():
                nonlocal turn
                turn += 1
                ticking[0] = loop.call_soon(next_turn)

            ticking = [loop.call_soon(next_turn)]
            async with door.cluster[1].subscribe("room", reads=False) as room:
                await asyncio.gather(*(talk.hear("joined") for talk in talks))
                monkeypatch.setattr(Socket, "send_frame", counted)
                await asyncio.gather(*(room.publish(PAYLOAD) for _ in range(2)))
                for _ in range(2):
                    await asyncio.gather(*(talk.hear("message") for talk in talks))
            ticking[0].cancel()

    asyncio.run(main())

    assert sum(written.values()) > 2 * 60 * len(PAYLOAD)
    assert max(written.values()) <= 2 * (TURN_BYTES + len(PAYLOAD) + 200)
    assert len(written) >= 2 * 60 * len(PAYLOAD) // (2 * (TURN_BYTES + len(PAYLOAD)))


def test_clients_that_do_not_read_keep_nobody_waiting_and_get_everything_when_they_do():
    async def main():
        async with serving(2) as door, subscribed(door, 3) as stuck, subscribed(door, 3) as quick:
            async with door.cluster[1].subscribe("room", reads=False) as room:
                for _ in range(60):
                    receipt = await room.publish(PAYLOAD)
                await receipt.acknowledged()
                counts = []
                for talks in (quick, stuck):
                    for talk in talks:
                        await talk.hear("joined")
                        counts.append([(await talk.hear("message"))["counter"] for _ in range(60)])
            return counts, door.cluster[0].status().counts.disconnected_slow

    counts, disconnected = asyncio.run(main())

    assert len(counts) == 6
    assert all(each == counts[0] == sorted(set(each)) for each in counts)
    assert disconnected == 0


def test_who_asks_is_answered_while_many_wait_to_be_told(monkeypatch):
    """What clients ask for has a budget of its own: it does not queue behind those who listen."""

    async def main():
        async with serving(2) as door, door.talk() as asking:
            await door.gateway.shared.turns.wait(TURN_BYTES)
            monkeypatch.setattr(door.gateway.shared.turns, "_next", lambda: None)  # its turn never comes
            door.gateway.shared.turns._is_scheduled = True
            return await asking.ask(op="publish", topic="room", text="x"), await door.ask("GET", "/healthz")

    accepted, (status, _) = asyncio.run(main())

    assert accepted["event"] == "accepted"
    assert status == 200


def test_the_node_leaves_a_topic_when_its_last_client_was_too_slow():
    async def main():
        async with (
            serving(2, queue_messages_max=8) as door,
            door.cluster[1].subscribe("room", reads=False) as room,
        ):
            events = room.events()
            async with subscribed(door, 1):
                await unread_until_disconnected(door.cluster)
                return [event async for event in _until(events, Left)][-1]

    assert asyncio.run(main()) == Left("room", 0)


async def _until(events, kind):
    async for event in events:
        yield event
        if isinstance(event, kind):
            return


def test_a_client_that_goes_while_its_subscription_is_not_in_effect_leaves_nothing_behind():
    async def main():
        async with serving(1) as door:
            topics = door.gateway.shared.topics
            never = asyncio.get_running_loop().create_future()
            door.cluster[0]._shell.join = lambda _: _wait(never)
            subscribing = asyncio.create_task(topics.subscribe("room", "text", False))
            await asyncio.sleep(0)
            (tap,) = topics._taps.values()
            await asyncio.sleep(0)
            subscribing.cancel()
            await asyncio.wait([subscribing])
            await asyncio.wait([tap.joined])
            return tap.joined.cancelled(), topics._taps

    async def _wait(future):
        await future

    assert asyncio.run(main()) == (True, {})


def test_clients_that_subscribe_at_once_share_one_subscription_of_the_node():
    async def main():
        async with serving(2) as door:
            topics = door.gateway.shared.topics
            feeds_of = await asyncio.gather(*(topics.subscribe("room", "text", False) for _ in range(5)))
            subscriptions = len(door.cluster[0]._shell.subscriptions["room"])
            for feed, _ in feeds_of[:-1]:
                await topics.unsubscribe(feed)
            still = door.cluster[0].members("room")
            await topics.unsubscribe(feeds_of[-1][0])
            return subscriptions, still, door.cluster[0].members("room")

    assert asyncio.run(main()) == (1, (0,), ())


def test_the_status_shows_each_clients_subscription_and_what_waits_in_the_fullest():
    async def main():
        async with (
            serving(2) as door,
            subscribed(door, 3),
            door.cluster[0].subscribe("room", reads=False),
            door.cluster[1].subscribe("room", reads=False) as room,
        ):
            topic = door.gateway.shared.topics._taps["room"].shared
            before, after = 0, 1
            while not before == after > 2:  # a socket may have taken something while the questions were asked
                receipt = await room.publish(PAYLOAD * 10)
                await receipt.acknowledged()
                before = max(feed.unread for feed in topic.feeds)
                status = (await door.ask("GET", "/status"))[1]["topics"][0]
                metrics = await door.metrics()
                after = max(feed.unread for feed in topic.feeds)
        return status, metrics["vcubeps_topic_unread", "room"], after

    status, unread, fullest = asyncio.run(main())

    assert status["subscriptions"] == 4
    assert status["unread"] == unread == fullest > 2


@pytest.mark.skipif(not hasattr(socket, "TCP_NOTSENT_LOWAT"), reason="of Linux and macOS")
def test_the_system_keeps_little_for_a_client_that_does_not_read():
    async def main():
        async with serving(1) as door, door.talk():
            (handler,) = [
                each for each in door.gateway._runner.server.connections if each.transport is not None
            ]
            sock = handler.transport.get_extra_info("socket")
            return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT)

    assert asyncio.run(main()) == UNSENT_BYTES_MAX
