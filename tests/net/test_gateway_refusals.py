"""What the gateway refuses, with which words, that it counts it, and that everybody else is served on."""

import asyncio

import aiohttp
import pytest

from gateways import serving
from vcubeps.net.gateway import shared, websocket
from vcubeps.net.gateway.http import CLIENTS_MAX
from vcubeps.net.gateway.server import OPERATORS_MAX
from vcubeps.net.gateway.shared import PUBLISHING_IDLE_S

BAD_FRAMES = {
    "not JSON": ("{", "malformed", "Input data was truncated"),
    "not an object": ("[1]", "malformed", "Expected `object`, got `array`"),
    "no op": ('{"topic":"t"}', "malformed", 'send a JSON object with "op"'),
    "unknown op": ('{"op":"shout","topic":"t"}', "malformed", "Invalid value 'shout' - at `$.op`"),
    "unknown field": ('{"op":"members","topic":"t","x":1}', "malformed", "unknown field `x`"),
    "no topic": ('{"op":"members"}', "malformed", "missing required field `topic`"),
    "wrong type": ('{"op":"members","topic":3}', "malformed", "Expected `str`, got `int` - at `$.topic`"),
    "empty topic": ('{"op":"subscribe","topic":""}', "topic", "a topic is a non-empty string"),
    "long topic": ('{"op":"subscribe","topic":"' + "é" * 128 + '"}', "topic", "the limit is 255"),
    "no payload": ('{"op":"publish","topic":"t"}', "malformed", "got neither: give one of them"),
    "two payloads": ('{"op":"publish","topic":"t","text":"","base64":""}', "malformed", "got both"),
    "bad base64": ('{"op":"publish","topic":"t","base64":"!"}', "malformed", "Invalid base64"),
    "lone surrogate": ('{"op":"publish","topic":"t","text":"\\ud800"}', "malformed", "JSON"),
    "too deep": ('{"x":' + "[" * 5000, "malformed", "recursion"),
    "bad slow": ('{"op":"subscribe","topic":"t","slow":"no"}', "malformed", "`$.slow`"),
    "not subscribed": ('{"op":"unsubscribe","topic":"t"}', "not-subscribed", "subscribe first"),
    "no member": ('{"op":"members","topic":"t"}', "not-a-member", "is not a member of 't'"),
    "too large": (
        '{"op":"publish","topic":"t","text":"' + "x" * 1001 + '"}',
        "too-large",
        "the limit is 1000",
    ),
}


def test_a_bad_operation_is_refused_with_the_reason_and_counted_and_the_connection_goes_on():
    async def main():
        async with serving(1, payload_bytes_max=1000) as door, door.talk() as talk:
            answers = {}
            for name, (frame, _, _) in BAD_FRAMES.items():
                await talk.send_text(frame)
                answers[name] = await talk.hear("error")
            await talk.send_bytes(b"{}")
            binary = await talk.hear("error")
            accepted = await talk.ask(op="publish", topic="t", text="fine")
            return answers, binary, accepted, dict(door.gateway.shared.refusals)

    answers, binary, accepted, counted = asyncio.run(main())

    for name, (_, cause, words) in BAD_FRAMES.items():
        assert answers[name]["cause"] == cause, name
        assert words in answers[name]["reason"], name
    assert "a binary frame" in binary["reason"]
    assert accepted["event"] == "accepted"
    causes = [cause for _, cause, _ in BAD_FRAMES.values()] + ["malformed"]
    assert counted == {cause: causes.count(cause) for cause in causes}


def test_an_error_bears_the_id_of_its_operation_also_where_the_operation_is_unknown():
    async def main():
        async with serving(1) as door, door.talk() as talk:
            await talk.send(op="shout", id="a")
            await talk.send(op="members", topic="", id=2)
            return [(await talk.hear("error"))["id"] for _ in range(2)]

    assert asyncio.run(main()) == ["a", 2]


def test_a_second_subscription_to_a_topic_is_refused():
    async def main():
        async with serving(1) as door, door.talk() as talk:
            await talk.ask(op="subscribe", topic="room")
            return await talk.ask(op="subscribe", topic="room")

    assert "subscribed to 'room' already: unsubscribe first" in asyncio.run(main())["reason"]


def test_an_oversized_frame_ends_its_connection_with_the_reason_and_no_other():
    async def main():
        async with serving(1, payload_bytes_max=1000) as door, door.talk() as talk, door.talk() as other:
            await talk.send_text(" " * 20_000)
            closed = await talk.receive()
            return closed, await other.ask(op="publish", topic="t", text="x"), door.gateway.shared.refusals

    closed, other, refusals = asyncio.run(main())

    assert (closed.type, closed.data) == (aiohttp.WSMsgType.CLOSE, 1009)
    assert closed.extra == "a frame has more than 18384 bytes: send less, or in base64"
    assert other["event"] == "accepted"
    assert refusals == {"too-large": 1}


BAD_REQUESTS = [
    ("GET", "/nowhere", {}, 404, "no-such-door", "there is no /nowhere: GET / lists what there is"),
    ("POST", "/status", {}, 405, "no-such-door", "/status does not take POST: use GET, HEAD"),
    ("GET", "/topics/none/members", {}, 404, "not-a-member", "node 0 is not a member of 'none'"),
    ("POST", "/topics/" + "x" * 256, {}, 400, "topic", "has 256 bytes, the limit is 255"),
    ("POST", "/topics/t?acknowledged=yes", {}, 400, "malformed", "acknowledged is 'yes': give true or false"),
    ("POST", "/topics/t", {"data": b"x" * 1001}, 413, "too-large", "payload has 1001 bytes, the limit is 1000"),
    ("GET", "/ws", {}, 400, "malformed", "this door speaks WebSocket"),
    (
        "POST", "/topics/t", {"headers": {"Origin": "http://evil.example"}}, 403, "cross-site",
        "a page of http://evil.example may not use the gateway at 127.0.0.1:",
    ),
    ("POST", "/topics/t", {"headers": {"Origin": "null"}}, 403, "cross-site", "a page of null may not"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "extra", "status", "cause", "words"), BAD_REQUESTS)
def test_a_bad_request_is_refused_with_the_reason_and_counted(method, path, extra, status, cause, words):
    async def main():
        async with serving(1, payload_bytes_max=1000) as door:
            return await door.ask(method, path, **extra), door.gateway.shared.refusals

    (got, answer), refusals = asyncio.run(main())

    assert (got, answer["cause"]) == (status, cause)
    assert words in answer["reason"]
    assert refusals == {cause: 1}


def test_a_payload_of_unknown_length_is_refused_once_it_is_too_large():
    async def main():
        async def chunks():
            for _ in range(3):
                yield b"x" * 500

        async with serving(1, payload_bytes_max=1000) as door:
            return await door.ask("POST", "/topics/t", data=chunks())

    status, answer = asyncio.run(main())

    assert (status, answer["cause"]) == (413, "too-large")


def test_pages_of_the_gateways_own_address_may_use_it_and_those_of_others_may_not_connect():
    async def main():
        async with serving(1) as door:
            own = {"Origin": f"http://127.0.0.1:{door.gateway.port}"}
            status, _ = await door.ask("POST", "/topics/t", headers=own)
            async with door.talk(headers=own) as talk:
                members = await talk.ask(op="members", topic="t")
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                await door.talk(headers={"Origin": "http://evil.example"}).__aenter__()
            return status, members, caught.value.status

    status, members, other = asyncio.run(main())

    assert status == 201
    assert members["members"] == [0]
    assert other == 403


def test_what_is_not_http_is_answered_and_counted():
    async def main():
        async with serving(1) as door:
            reader, writer = await asyncio.open_connection("127.0.0.1", door.gateway.port)
            writer.write(b"\x16\x03\x01 what\r\n\r\n")
            answer = await reader.read()
            writer.close()
            return answer, door.gateway.shared.refusals

    answer, refusals = asyncio.run(main())

    assert b" 400 Bad Request" in answer.splitlines()[0]
    assert refusals == {"malformed": 1}


def test_more_clients_than_allowed_are_refused_but_operators_can_look():
    async def main():
        async with serving(1) as door:
            door.gateway.shared.connections = lambda: CLIENTS_MAX + 1
            return await door.ask("GET", "/"), await door.ask("GET", "/healthz")

    (status, answer), (health, _) = asyncio.run(main())

    assert status == 503
    assert "this gateway has 1000 clients, which is the most" in answer["reason"]
    assert health == 200


def test_connections_beyond_those_for_operators_are_turned_away():
    async def main():
        async with serving(1) as door:
            door.gateway.shared.connections = lambda: CLIENTS_MAX + OPERATORS_MAX
            reader, writer = await asyncio.open_connection("127.0.0.1", door.gateway.port)
            try:
                return await reader.read()
            except ConnectionResetError:
                return b""
            finally:
                writer.close()

    assert asyncio.run(main()) == b""


def test_more_topics_published_to_than_allowed_are_refused_until_one_is_idle(monkeypatch):
    monkeypatch.setattr(shared, "PUBLISHING_TOPICS_MAX", 1)

    async def main():
        async with serving(1) as door:
            statuses = [(await door.ask("POST", f"/topics/{topic}"))[0] for topic in ("a", "a", "b")]
            door.gateway.shared.publishers.sweep(door.gateway.shared.loop.time() + PUBLISHING_IDLE_S)
            return [*statuses, (await door.ask("POST", "/topics/b"))[0]]

    assert asyncio.run(main()) == [201, 201, 503, 201]


def test_more_subscriptions_of_a_connection_than_allowed_are_refused(monkeypatch):
    monkeypatch.setattr(websocket, "SUBSCRIPTIONS_MAX", 1)

    async def main():
        async with serving(1) as door, door.talk() as talk:
            await talk.ask(op="subscribe", topic="a")
            return await talk.ask(op="subscribe", topic="b")

    assert (
        asyncio.run(main())["reason"]
        == "this connection has 1 subscriptions, which is the most: open another"
    )
