"""The client of a gateway, as the commands use it."""

import asyncio
import socket

import pytest

from gateways import serving
from vcubeps.net.gateway.client import GatewayClient, GatewayError
from vcubeps.net.gateway.dialogue import DisconnectedEvent, JoinedEvent, MessageEvent, SubscribedEvent


def client_of(door) -> GatewayClient:
    return GatewayClient(f"127.0.0.1:{door.gateway.port}")


def test_status_comes_as_typed_values():
    async def main():
        async with serving(2) as door, client_of(door) as client, door.cluster[0].subscribe("room"):
            return await client.status()

    status = asyncio.run(main())

    assert (status.cluster, status.node, status.up) == ("local", 0, True)
    assert [(topic.topic, topic.members) for topic in status.topics] == [("room", (0,))]


@pytest.mark.parametrize("topic", ["room", "a/b", ".", "..", "ü ?#%2F", "a\nb"])
def test_any_topic_can_be_published_to(topic):
    async def main():
        async with serving(2) as door, client_of(door) as client, door.cluster[1].subscribe(topic) as there:
            published = await client.publish(topic, b"\xff", acknowledged=True)
            return published, await there.receive()

    published, message = asyncio.run(main())

    assert (published.topic, published.source, published.counter) == (topic, 0, message.counter)
    assert published.acknowledged
    assert message.payload == b"\xff"


def test_events_and_messages_of_several_topics_come_as_typed_values():
    async def main():
        async with serving(2) as door, client_of(door) as client:
            events = client.subscribe(["a", "b"])
            heard = [await anext(events), await anext(events)]
            async with door.cluster[1].subscribe("b") as there:
                heard.append(await anext(events))
                await there.publish(b"\xff")
                heard.append(await anext(events))
            await events.aclose()
            return heard

    first, second, joined, message = asyncio.run(main())

    assert [first, second] == [
        SubscribedEvent(topic="a", members=(0,)),
        SubscribedEvent(topic="b", members=(0,)),
    ]
    assert joined == JoinedEvent(topic="b", node=1)
    assert isinstance(message, MessageEvent)
    assert (message.topic, message.source, message.payload) == ("b", 1, b"\xff")


def test_a_stream_of_publications_arrives_in_order_and_is_acknowledged_at_its_end():
    async def main():
        async with serving(2) as door, client_of(door) as client, door.cluster[1].subscribe("room") as there:
            async with client.publish_stream("room", acknowledged=True) as stream:
                for number in range(3000):
                    await stream.send(b"%d" % number)
            return stream.done, [(await there.receive()).payload for _ in range(3000)]

    done, payloads = asyncio.run(main())

    assert done == 3000
    assert payloads == [b"%d" % number for number in range(3000)]


def test_a_stream_ends_with_the_reason_when_a_publication_is_refused():
    async def main():
        async with (
            serving(1, payload_bytes_max=10) as door,
            client_of(door) as client,
            client.publish_stream("room") as stream,
        ):
            await stream.send(b"fine")
            await stream.send(b"more than ten bytes")

    with pytest.raises(GatewayError, match=r"payload has 19 bytes, the limit is 10 .*: send it in parts"):
        asyncio.run(main())


def test_a_refusal_is_raised_with_the_gateways_words():
    async def main():
        async with serving(1, payload_bytes_max=10) as door, client_of(door) as client:
            await client.publish("room", b"x" * 11)

    with pytest.raises(GatewayError, match=r"payload has 11 bytes, the limit is 10 .*: send it in parts"):
        asyncio.run(main())


@pytest.mark.parametrize("topic", ["", "x" * 256, "\udcff"])
def test_a_bad_topic_is_refused_before_anything_is_sent(topic):
    async def main():
        async with GatewayClient("127.0.0.1:1") as client:
            await client.publish(topic, b"")

    with pytest.raises(GatewayError, match="topic"):
        asyncio.run(main())


@pytest.mark.parametrize("url", ["", "ftp://h:1", "http://", "h:99999", "http://[::1"])
def test_what_is_no_address_is_refused(url):
    with pytest.raises(
        GatewayError, match="is not the address of a gateway: give http://HOST:PORT, or HOST:PORT"
    ):
        GatewayClient(url)


def test_nobody_there_is_told_in_a_sentence():
    async def main():
        async with GatewayClient("127.0.0.1:1") as client:
            await client.status()

    with pytest.raises(
        GatewayError, match=r"no gateway to be reached at http://127.0.0.1:1: Connection refused; "
    ):
        asyncio.run(main())


def test_the_end_of_the_node_ends_a_subscription_with_the_reason():
    async def main():
        async with serving(1) as door, client_of(door) as client:
            events = client.subscribe(["room"])
            await anext(events)
            await door.gateway.close()
            await anext(events)

    with pytest.raises(GatewayError, match="ended the connection: node 0 is closing"):
        asyncio.run(main())


def test_a_slow_reader_gets_everything_up_to_its_disconnection():
    async def main():
        async with serving(2, queue_messages_max=8) as door, client_of(door) as client:
            events = client.subscribe(["room"])
            await anext(events)
            async with door.cluster[1].subscribe("room", reads=False) as there:
                while door.cluster[0]._shell.measures.disconnected_slow == 0:
                    receipt = await there.publish(b"x" * 60_000)
                    await receipt.acknowledged()
            heard = []
            async for event in events:
                heard.append(event)
                if isinstance(event, DisconnectedEvent):
                    break
            await events.aclose()
            return heard

    heard = asyncio.run(main())

    assert heard[-1].waiting == 9


def test_a_gateway_that_takes_connections_and_never_answers_is_given_up(monkeypatch) -> None:
    monkeypatch.setattr("vcubeps.net.gateway.client._CONNECT_S", 0.2)

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            async with GatewayClient(f"127.0.0.1:{silent.getsockname()[1]}") as client:
                with pytest.raises(GatewayError, match=r"no answer within 0\.2 s; check the address"):
                    await anext(client.subscribe(["room"]))

    asyncio.run(main())
