"""The gateway: what clients can do over HTTP and the WebSocket, and what happens to slow ones."""

import asyncio

import pytest

from gateways import serving, unread_until_disconnected
from vcubeps.net.events import Gap
from vcubeps.net.gateway.shared import PUBLISHING_IDLE_S


def test_a_client_gets_what_nodes_and_other_clients_publish_with_its_causal_past():
    async def main():
        async with serving(2) as door, door.talk() as alice, door.talk() as bob:
            subscribed = await alice.ask(op="subscribe", topic="room", id="s")
            async with door.cluster[1].subscribe("room") as room:
                assert (await alice.hear("joined"))["node"] == 1
                accepted = await bob.ask(op="publish", topic="room", text="héllo", id=7)
                first = await room.receive()
                await room.publish(b"answer")
                heard = [await alice.hear("message"), await alice.hear("message")]
            return subscribed, accepted, first, heard, await alice.hear("left")

    subscribed, accepted, first, heard, left = asyncio.run(main())

    assert subscribed == {"event": "subscribed", "topic": "room", "members": [0], "id": "s"}
    assert accepted == {"event": "accepted", "topic": "room", "source": 0, "counter": first.counter, "id": 7}
    assert first.payload == "héllo".encode()
    assert [(each["source"], each["text"]) for each in heard] == [(0, "héllo"), (1, "answer")]
    assert heard[1]["after"] == {"0": first.counter}
    assert heard[0]["published_at"] == pytest.approx(first.published_at)
    assert left == {"event": "left", "topic": "room", "node": 1, "crashed": False}


def test_payloads_that_are_not_text_come_as_base64_also_where_text_was_asked_for():
    async def main():
        async with serving(1) as door, door.talk() as talk:
            await talk.ask(op="subscribe", topic="room")
            await talk.send(op="publish", topic="room", base64="/wA=")
            await talk.hear("accepted")
            return await talk.hear("message")

    message = asyncio.run(main())

    assert message["base64"] == "/wA="
    assert "text" not in message


def test_a_client_that_asked_for_base64_gets_text_so_too():
    async def main():
        async with serving(1) as door, door.talk() as talk:
            await talk.ask(op="subscribe", topic="room", encoding="base64")
            await talk.send(op="publish", topic="room", text="hi")
            await talk.hear("accepted")
            return await talk.hear("message")

    assert asyncio.run(main())["base64"] == "aGk="


def test_an_acknowledged_publication_is_accepted_then_acknowledged():
    async def main():
        async with serving(2) as door, door.talk() as talk, door.cluster[1].subscribe("room") as room:
            await talk.send(op="publish", topic="room", text="hi", acknowledged=True, id="p")
            return await talk.hear("accepted"), await talk.hear("acknowledged"), room.backlog

    accepted, acknowledged, backlog = asyncio.run(main())

    assert accepted | {"event": "acknowledged"} == acknowledged
    assert backlog == 1


def test_no_message_follows_an_unsubscription_and_the_node_leaves_with_its_last_one():
    async def main():
        async with serving(1) as door, door.talk() as talk:
            await talk.ask(op="subscribe", topic="room")
            await talk.send(op="publish", topic="room", text="before")
            before = [await talk.hear_any(), await talk.hear_any()]
            await talk.send(op="unsubscribe", topic="room", id=1)
            await talk.send(op="publish", topic="room", text="after")
            heard = [*before, await talk.hear_any(), await talk.hear_any()]
            members = door.cluster[0].members("room")
            door.gateway.shared.publishers.sweep(door.gateway.shared.loop.time() + PUBLISHING_IDLE_S)
            await door.gateway.shared.leaving.close()
            return heard, members, door.cluster[0].members("room")

    heard, while_publishing, at_the_end = asyncio.run(main())

    assert [each["event"] for each in heard] == ["accepted", "message", "unsubscribed", "accepted"]
    assert while_publishing == (0,)
    assert at_the_end == ()


def test_members_are_told_over_the_websocket():
    async def main():
        async with serving(2) as door, door.talk() as talk, door.cluster[1].subscribe("room"):
            await talk.ask(op="subscribe", topic="room")
            return await talk.ask(op="members", topic="room", id="m")

    assert asyncio.run(main()) == {"event": "members", "topic": "room", "members": [0, 1], "id": "m"}


def test_a_body_is_published_with_post_and_members_are_listed_with_get():
    async def main():
        async with serving(2) as door, door.cluster[1].subscribe("a/b ü") as room:
            answer = await door.ask("POST", "/topics/a%2Fb%20%C3%BC?acknowledged=true", data=b"\xff\x00")
            return answer, await room.receive(), await door.ask("GET", "/topics/a%2Fb%20%C3%BC/members")

    (status, published), message, members = asyncio.run(main())

    assert status == 201
    assert published == {"topic": "a/b ü", "source": 0, "counter": message.counter, "acknowledged": True}
    assert message.payload == b"\xff\x00"
    assert members == (200, {"topic": "a/b ü", "members": [0, 1]})


# Slow clients.


def test_a_client_that_reads_too_slowly_is_unsubscribed_and_told_after_its_last_message():
    async def main():
        limits = {"queue_messages_max": 8}
        async with serving(2, **limits) as door, door.talk() as talk:
            await talk.ask(op="subscribe", topic="room")
            sent = await unread_until_disconnected(door.cluster)
            heard = []
            while not heard or heard[-1]["event"] != "disconnected":
                heard.append(await talk.hear_any())
            again = await talk.ask(op="subscribe", topic="room")
            return sent, heard, again

    sent, heard, again = asyncio.run(main())

    messages = [each["counter"] for each in heard if each["event"] == "message"]
    assert messages == sorted(messages)
    assert sent - 1 <= len(messages) <= sent
    assert heard[-1] == {"event": "disconnected", "topic": "room", "waiting": 9}
    assert again["event"] == "subscribed"


def test_a_slow_client_that_asked_for_it_makes_publishers_wait():
    async def main():
        limits = {"queue_messages_max": 8, "unacknowledged_max": 4}
        async with serving(2, **limits) as door, door.talk() as talk:
            await talk.ask(op="subscribe", topic="room", slow="wait")
            async with door.cluster[1].subscribe("room", reads=False) as room:
                await talk.hear("joined")
                sent = 0

                async def publish_all():
                    nonlocal sent
                    for _ in range(400):
                        await room.publish(b"x" * 60_000)
                        sent += 1

                publishing = asyncio.create_task(publish_all())
                topic = door.cluster[0]._shell.machine.memberships.topics["room"]
                while not topic.full:
                    await asyncio.sleep(0)
                waited_at = sent
                heard = [await talk.hear("message") for _ in range(400)]
                await publishing
            return waited_at, heard

    waited_at, heard = asyncio.run(main())

    assert waited_at < 400
    assert len({each["counter"] for each in heard}) == 400


def test_a_gap_is_passed_on():
    async def main():
        async with serving(1) as door, door.talk() as talk:
            await talk.ask(op="subscribe", topic="room")
            door.cluster[0]._shell._tell("room", Gap("room", "taken for crashed", {1: 7}))
            return await talk.hear_any()

    assert asyncio.run(main()) == {
        "event": "gap",
        "topic": "room",
        "reason": "taken for crashed",
        "after": {"1": 7},
    }
