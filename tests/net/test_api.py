"""The public API on live nodes: what holds when a call returns, and that anything may be cancelled at any time."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import textwrap
import time
from collections.abc import Coroutine
from typing import Any

import msgspec
import pytest

import vcubeps
from net.live import FAST, Live, remains, run, until
from vcubeps.net.events import Gap, Joined, Left
from vcubeps.node import outputs as out
from vcubeps.node.settings import Limits

# -- subscribe and publish ------------------------------------------------------------------------


def test_a_subscription_is_in_effect_everywhere_when_subscribe_returns() -> None:
    async def main() -> None:
        async with Live(8) as live:
            publishers = [await live[node].subscribe("room", reads=False) for node in range(7)]
            late = await live[7].subscribe("room")
            for number, publisher in enumerate(publishers):
                await publisher.publish(b"%d" % number)
            payloads = {(await late.receive()).payload for _ in publishers}
            assert payloads == {b"%d" % number for number in range(7)}

    run(main())


def test_a_receipt_is_acknowledged_when_every_subscriber_has_received() -> None:
    async def main() -> None:
        async with Live(4) as live:
            members = await live.join_all("room")
            receipt = await members[0].publish(b"hello")
            assert (receipt.topic, receipt.source) == ("room", 0)
            await receipt.acknowledged()
            await receipt.acknowledged()  # may be asked again
            for node in range(1, 4):
                assert live[node]._shell.measures.topics["room"].receptions == 1

    run(main())


def test_a_message_tells_its_source_its_time_and_what_it_comes_after() -> None:
    async def main() -> None:
        async with Live(2) as live:
            zero, one = await live.join_all("room")
            before = time.time()
            question = await zero.publish(b"question")
            await until(lambda: one.received)
            answer = await one.publish(b"answer")
            await until(lambda: len(zero.received) == 2)
            asked, answered = zero.received
            assert (asked.topic, asked.source, asked.counter, asked.payload, asked.value) == (
                "room", 0, question.counter, b"question", b"question",
            )  # fmt: skip
            assert asked.after == {}
            assert (answered.source, answered.counter) == (1, answer.counter)
            assert answered.after == {0: question.counter}
            assert before <= asked.published_at <= answered.published_at <= time.time()
            assert "payload=b'answer'" in repr(answered)

    run(main())


def test_publications_of_one_turn_come_after_each_other() -> None:
    async def main() -> None:
        async with Live(2) as live:
            zero, one = await live.join_all("room")
            receipts = [await zero.publish(b"%d" % number) for number in range(5)]
            await until(lambda: len(one.received) == 5)
            assert [message.after for message in one.received[1:]] == [
                {0: receipt.counter} for receipt in receipts[:-1]
            ]

    run(main())


def test_bytes_may_be_given_as_a_bytearray_or_a_view_and_nothing_else() -> None:
    async def main() -> None:
        async with Live(1) as live:
            member = await live.join(0, "room")
            for value in (b"1", bytearray(b"2"), memoryview(b"3")):
                await member.subscription.publish(value)
            with pytest.raises(
                vcubeps.UsageError, match="a payload is bytes, got str: encode it, or subscribe with codec"
            ):
                await member.subscription.publish("text")
            await until(lambda: member.payloads == [b"1", b"2", b"3"])

    run(main())


@pytest.mark.parametrize("codec", ["json", "msgpack"])
def test_values_travel_with_a_codec(codec: str) -> None:
    async def main() -> None:
        async with Live(2) as live:
            sender = await live[0].subscribe("room", codec=codec, reads=False)
            receiver = await live[1].subscribe("room", codec=codec)
            value = {"a": [1, 2.5, None, "ü"], "b": True}
            await sender.publish(value)
            assert (await receiver.receive()).value == value

    run(main())


def test_a_value_of_another_codec_raises_where_it_is_read_and_the_next_is_fine() -> None:
    async def main() -> None:
        async with Live(2) as live:
            raw = await live[0].subscribe("room", reads=False)
            reader = await live[1].subscribe("room", codec="json")
            await raw.publish(b"\xff not json")
            await raw.publish(b'"json"')
            message = await reader.receive()
            with pytest.raises(msgspec.DecodeError):
                _ = message.value
            assert message.payload == b"\xff not json"
            assert (await reader.receive()).value == "json"

    run(main())


def test_a_value_that_the_codec_cannot_take_is_refused_and_publishes_nothing() -> None:
    async def main() -> None:
        async with Live(1) as live:
            subscription = await live[0].subscribe("room", codec="json")
            with pytest.raises(vcubeps.UsageError, match="object cannot be encoded as json"):
                await subscription.publish(object())
            await subscription.publish(1)
            assert (await subscription.receive()).value == 1

    run(main())


# -- reading --------------------------------------------------------------------------------------


def test_breaking_off_an_iteration_and_beginning_another_loses_nothing() -> None:
    async def main() -> None:
        async with Live(2) as live:
            sender = await live[0].subscribe("room", reads=False)
            reader = await live[1].subscribe("room")
            for number in range(30):
                await sender.publish(b"%d" % number)
            read: list[bytes] = []
            while len(read) < 30:
                async for message in reader:
                    read.append(message.payload)
                    if len(read) % 7 == 0 or len(read) == 30:
                        break
            assert read == [b"%d" % number for number in range(30)]

    run(main())


def test_a_batch_has_all_that_waits_and_may_be_mixed_with_single_messages() -> None:
    async def main() -> None:
        async with Live(2) as live:
            sender = await live[0].subscribe("room", reads=False)
            reader = await live[1].subscribe("room")
            for number in range(30):
                await sender.publish(b"%d" % number)
            await until(lambda: reader.backlog == 30)
            first = await reader.receive()
            rest = await reader.receive_batch()
            assert reader.backlog == 0
            assert [message.payload for message in [first, *rest]] == [b"%d" % number for number in range(30)]

    run(main())


def test_two_subscriptions_of_one_node_each_get_everything_from_then_on() -> None:
    async def main() -> None:
        async with Live(2) as live:
            sender = await live.join(0, "room")
            first = await live.join(1, "room")
            await (await sender.publish(b"early")).acknowledged()
            await until(lambda: first.received)
            second = await live.join(1, "room")
            await (await sender.publish(b"late")).acknowledged()
            await until(lambda: len(first.received) == 2 and second.received)
            assert (first.payloads, second.payloads) == ([b"early", b"late"], [b"late"])
            await first.close()
            assert sender.subscription.members == (0, 1)
            await sender.publish(b"after")
            await until(lambda: len(second.received) == 2)
            assert first.payloads == [b"early", b"late"]
            await second.close()
            await until(lambda: sender.subscription.members == (0,))

    run(main())


def test_a_function_is_called_with_every_message_in_causal_order_and_nothing_is_kept_to_be_read() -> None:
    async def main() -> None:
        async with Live(4) as live:
            called: list[vcubeps.Message] = []
            quiet = await live[3].subscribe("room", codec="json", on_message=called.append)
            reader = await live[3].subscribe("room", codec="json")
            one, two = [await live[node].subscribe("room", codec="json") for node in (1, 2)]
            for number in range(20):
                await one.publish({"question": number})
                await two.receive()
                await (await two.publish({"answer": number})).acknowledged()
                await two.receive()  # its own
                await one.receive_batch()
            expected = [{kind: number} for number in range(20) for kind in ("question", "answer")]
            assert [message.value for message in called] == expected
            assert [(await reader.receive()).value for _ in expected] == expected
            assert quiet.backlog == 0

    run(main())


@pytest.mark.parametrize("error", [LookupError("bad"), asyncio.CancelledError("bad")])
def test_what_a_called_function_raises_is_reported_and_the_next_message_comes(error: BaseException) -> None:
    async def main() -> None:
        async with Live(2) as live:
            problems: list[tuple[str, BaseException]] = []
            asyncio.get_running_loop().set_exception_handler(
                lambda _, context: problems.append((context["message"], context["exception"]))
            )
            called: list[bytes] = []

            def picky(message: vcubeps.Message) -> None:
                called.append(message.payload)
                if message.payload == b"bad":
                    raise error

            await live[1].subscribe("room", on_message=picky)
            room = await live[0].subscribe("room", reads=False)
            for payload in (b"bad", b"good"):
                await (await room.publish(payload)).acknowledged()
            assert called == [b"bad", b"good"]
            [(message, reported)] = problems
            assert "on_message of node 1's subscription to 'room' failed" in message
            assert reported is error

    run(main())


def test_a_called_function_may_leave_and_publish_as_an_eager_task_does() -> None:
    """With asyncio's eager tasks a coroutine that is started in the function begins to run inside it."""

    async def main() -> None:
        async with Live(2) as live:
            begun: list[Coroutine[Any, Any, object]] = []
            seen: dict[str, list[bytes]] = {"first": [], "second": []}

            def begin(coroutine: Coroutine[Any, Any, object]) -> None:
                with contextlib.suppress(StopIteration):
                    coroutine.send(None)
                    begun.append(coroutine)

            def leaves(message: vcubeps.Message) -> None:
                seen["first"].append(message.payload)
                if message.payload == b"two":
                    begin(first.close())
                    begin(second.publish(b"answer"))

            first = await live[1].subscribe("room", on_message=leaves)
            second = await live[1].subscribe(
                "room", on_message=lambda message: seen["second"].append(message.payload)
            )
            alone = await live[1].subscribe("alone", on_message=lambda _: begin(alone.close()))
            room = await live[0].subscribe("room", reads=False)
            for payload in (b"one", b"two", b"three"):  # the last two leave as one batch
                await room.publish(payload)
            await until(lambda: len(seen["second"]) == 4)
            assert seen == {"first": [b"one", b"two"], "second": [b"one", b"two", b"three", b"answer"]}
            await alone.publish(b"goodbye")
            assert alone.is_closed
            for coroutine in begun:
                coroutine.close()

    run(main())


class Awaited:
    async def __call__(self, message: vcubeps.Message) -> None: ...


@pytest.mark.parametrize("on_message", [asyncio.sleep, Awaited(), 7])
def test_what_cannot_be_called_with_a_message_is_refused(on_message: object) -> None:
    async def main() -> None:
        async with Live(1) as live:
            with pytest.raises(
                vcubeps.UsageError, match="on_message is a plain function of one message, got"
            ):
                live[0].subscribe("room", on_message=on_message)  # type: ignore[arg-type]

    run(main())


def test_where_a_function_is_called_there_is_nothing_to_be_read() -> None:
    async def main() -> None:
        async with Live(1) as live:
            for other in ({"reads": False}, {"slow": "disconnect"}, {"queue_messages_max": 5}):
                with pytest.raises(vcubeps.UsageError, match="with on_message nothing waits to be read"):
                    live[0].subscribe("room", on_message=print, **other)  # type: ignore[arg-type]
            room = await live[0].subscribe("room", on_message=lambda message: None)
            for read in (room.receive, room.receive_batch, room.__anext__):
                with pytest.raises(vcubeps.UsageError, match="messages of 'room' go to on_message"):
                    await read()

    run(main())


def test_what_was_delivered_before_leaving_can_be_read_afterwards() -> None:
    async def main() -> None:
        async with Live(2) as live:
            sender = await live[0].subscribe("room", reads=False)
            reader = await live[1].subscribe("room")
            for number in range(3):
                await sender.publish(b"%d" % number)
            await until(lambda: reader.backlog == 3)
            await reader.close()
            await reader.close()  # may be called again
            await sender.publish(b"nobody")
            assert [message.payload async for message in reader] == [b"0", b"1", b"2"]
            with pytest.raises(vcubeps.SubscriptionClosed):
                await reader.receive()
            with pytest.raises(vcubeps.SubscriptionClosed):
                await reader.receive_batch()

    run(main())


def test_a_reader_that_waits_ends_when_the_subscription_does() -> None:
    async def main() -> None:
        async with Live(2) as live:
            reader = await live[1].subscribe("room")
            waiting = [asyncio.create_task(call()) for call in (reader.receive, reader.receive_batch)]
            await remains(lambda: not any(task.done() for task in waiting), turns=3)
            await reader.close()
            for task in waiting:
                with pytest.raises(vcubeps.SubscriptionClosed, match="the subscription to 'room' has ended"):
                    await task

    run(main())


# -- members and events -----------------------------------------------------------------------------


def test_members_and_events_tell_who_comes_and_goes() -> None:
    async def main() -> None:
        async with Live(3) as live:
            watcher = await live.join(0, "room")
            assert live[1].members("room") == ()
            events = watcher.subscription.events()
            one = await live.join(1, "room")
            assert live[0].members("room") == live[1].members("room") == (0, 1)
            two = await live.join(2, "room")
            await one.close()
            assert watcher.subscription.members == (0, 2)
            await two.close()
            seen = [await anext(events) for _ in range(4)]
            assert seen == [Joined("room", 1), Joined("room", 2), Left("room", 1), Left("room", 2)]
            await watcher.close()
            with pytest.raises(StopAsyncIteration):
                await anext(events)

    run(main())


def test_leaving_and_joining_again_at_once_is_one_after_the_other() -> None:
    async def main() -> None:
        async with Live(3) as live:
            await live.join(0, "room")
            for _ in range(5):
                member = await live.join(1, "room")
                closing = asyncio.create_task(member.close())
                await asyncio.sleep(0)
                again = await live.join(1, "room")
                started = time.monotonic()
                await closing
                assert time.monotonic() - started < FAST.close_within_s / 2, "the first leave was not noticed"
                assert live[0].members("room") == (0, 1)
                await again.close()

    run(main())


# -- crashes of this node, as the others see it -------------------------------------------------------


def test_a_node_taken_for_crashed_though_it_lives_tells_of_the_gap_and_subscribes_again() -> None:
    async def main() -> None:
        async with Live(4) as live:
            members = await live.join_all("room")
            events = members[2].subscription.events()
            await members[2].publish(b"before")
            await live.settle()
            live.suspect(0, 2)
            async for event in events:
                if isinstance(event, Gap):
                    break
            assert (event.topic, event.reason) == ("room", "the other nodes took node 2 for crashed")
            assert event.after == {}, "nobody else had published"
            await until(lambda: live[2].members("room") == (0, 1, 2, 3) and live[2].incarnation == 1)
            await (await members[0].publish(b"after")).acknowledged()
            await (await members[2].publish(b"and from it")).acknowledged()
            await until(lambda: len(members[2].received) == 3)
            assert live[2]._shell.measures.restarts == 1

    run(main())


def test_what_was_not_acknowledged_before_a_restart_is_reported_as_unknown() -> None:
    async def main() -> None:
        async with Live(2, proxied=True) as live:
            zero, one = await live.join_all("room")
            assert live.proxies is not None
            for way in live.proxies.between(0, 1):
                way.hold()
            receipt = await one.publish(b"who knows")
            waiting = asyncio.create_task(receipt.acknowledged())
            live.suspect(0, 1)
            for way in live.proxies.between(0, 1):
                way.release()
            with pytest.raises(vcubeps.Unacknowledged, match="whether everybody received publication"):
                await waiting
            with pytest.raises(vcubeps.Unacknowledged):
                await receipt.acknowledged()
            await until(lambda: live[1].members("room") == (0, 1))
            await (await one.publish(b"known")).acknowledged()
            assert b"known" in zero.payloads

    run(main())


def test_publications_wait_while_the_node_is_let_in_again() -> None:
    async def main() -> None:
        async with Live(3) as live:
            members = await live.join_all("room")
            live.suspect(0, 2)
            await until(lambda: live[2].incarnation == 1)
            receipt = await members[2].publish(b"after the gap")
            await receipt.acknowledged()
            await until(lambda: b"after the gap" in members[0].payloads)

    run(main())


def test_subscribing_while_the_node_is_let_in_again_waits_for_that() -> None:
    async def main() -> None:
        async with Live(3, proxied=True) as live:
            zero = await live.join(0, "room")
            assert live.proxies is not None
            ways = [way for pair, way in live.proxies.ways.items() if set(pair) == {1, 2}]
            for way in ways:
                way.hold()
            live.suspect(0, 2)
            await until(lambda: live[2].incarnation == 1)
            joining = asyncio.create_task(live.join(2, "room"))
            await remains(lambda: not joining.done(), turns=10)
            for way in ways:
                way.release()
            await joining
            assert zero.subscription.members == (0, 2)

    run(main())


# -- cancellation --------------------------------------------------------------------------------------


def test_cancelling_subscribe_at_any_moment_leaves_nothing_behind() -> None:
    async def main() -> None:
        async with Live(3) as live:
            watcher = await live.join(0, "room")
            for turns in range(25):
                task = asyncio.create_task(live[1].subscribe("room")._start())
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await (await task).close()
                await until(
                    lambda: (
                        watcher.subscription.members == (0,)
                        and "room" not in live[1]._shell.machine.memberships.topics
                    )
                )
            member = await live.join(1, "room")
            await (await watcher.publish(b"hello")).acknowledged()
            await until(lambda: member.received)

    run(main())


def test_cancelling_one_of_two_that_subscribe_does_not_disturb_the_other() -> None:
    async def main() -> None:
        async with Live(3, proxied=True) as live:
            watcher = await live.join(0, "room")
            assert live.proxies is not None
            for way in live.proxies.ways.values():
                way.hold()
            one, other = (asyncio.create_task(live.join(1, "room")) for _ in range(2))
            await remains(lambda: not one.done(), turns=3)
            one.cancel()
            for way in live.proxies.ways.values():
                way.release()
            member = await other
            with pytest.raises(asyncio.CancelledError):
                await one
            await watcher.publish(b"hello")
            await until(lambda: member.payloads == [b"hello"])

    run(main())


def test_cancelling_receive_loses_no_message() -> None:
    async def main() -> None:
        async with Live(2) as live:
            sender = await live[0].subscribe("room", reads=False)
            reader = await live[1].subscribe("room")
            read: list[bytes] = []
            for number in range(40):
                task = asyncio.create_task(reader.receive())
                await sender.publish(b"%d" % number)
                for _ in range(number % 12):
                    await asyncio.sleep(0)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    read.append((await task).payload)
            while len(read) < 40:
                read += [message.payload for message in await reader.receive_batch()]
            assert read == [b"%d" % number for number in range(40)]

    run(main())


def test_cancelling_publish_publishes_all_or_nothing() -> None:
    async def main() -> None:
        async with Live(
            2, limits=Limits(queue_messages_max=4, unacknowledged_max=2, batch_items_max=1)
        ) as live:
            reader = await live.join(1, "room", reads=False)
            sender = await live.join(0, "room")
            accepted: list[bytes] = []
            while True:
                task = asyncio.create_task(sender.publish(b"%d" % len(accepted)))
                done, _ = await asyncio.wait([task], timeout=0.2)
                if not done:
                    break
                accepted.append(b"%d" % len(accepted))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            waits = asyncio.create_task(sender.publish(b"last"))
            while len(reader.received) < len(accepted) + 1:
                reader.received.append(await reader.subscription.receive())
            await waits
            assert reader.payloads == [*accepted, b"last"]

    run(main())


def test_cancelling_acknowledged_disturbs_nobody_else_who_waits() -> None:
    async def main() -> None:
        async with Live(2, proxied=True) as live:
            zero, _ = await live.join_all("room")
            assert live.proxies is not None
            for way in live.proxies.between(0, 1):
                way.hold()
            receipt = await zero.publish(b"hello")
            one, other = (asyncio.create_task(receipt.acknowledged()) for _ in range(2))
            await remains(lambda: not one.done(), turns=3)
            one.cancel()
            for way in live.proxies.between(0, 1):
                way.release()
            await other
            with pytest.raises(asyncio.CancelledError):
                await one

    run(main())


def test_cancelling_a_wait_for_events_loses_none() -> None:
    async def main() -> None:
        async with Live(2) as live:
            watcher = await live.join(0, "room")
            events = watcher.subscription.events()
            task = asyncio.create_task(anext(events))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await live.join(1, "room")
            assert await anext(events) == Joined("room", 1)

    run(main())


# -- the end ---------------------------------------------------------------------------------------------


def test_closing_a_node_while_it_publishes_ends_its_publishers_with_the_reason() -> None:
    async def main() -> None:
        async with Live(3) as live:
            members = await live.join_all("room")

            async def publish_on() -> None:
                while True:
                    await members[1].publish(b"x" * 100)
                    await asyncio.sleep(0)

            publishing = asyncio.create_task(publish_on())
            await until(lambda: len(members[0].received) > 100)
            await live.close(1)
            with pytest.raises((vcubeps.SubscriptionClosed, vcubeps.NodeClosed)):
                await publishing
            await until(lambda: members[0].subscription.members == (0, 2))
            await (await members[0].publish(b"still here")).acknowledged()

    run(main())


def test_everything_that_waits_on_a_node_ends_with_it() -> None:
    async def main() -> None:
        async with Live(2, proxied=True, limits=Limits(unacknowledged_max=1)) as live:
            zero, _ = await live.join_all("room")
            third, _ = await live.join_all("third")
            assert live.proxies is not None
            for way in live.proxies.between(0, 1):
                way.hold()
            receipt = await zero.publish(b"hello")
            waiting = {
                "acknowledged": asyncio.create_task(receipt.acknowledged()),
                "publish": asyncio.create_task(zero.publish(b"waits")),
                "subscribe": asyncio.create_task(live.join(0, "other")),
                "close": asyncio.create_task(third.subscription.close()),
            }
            await remains(lambda: not any(task.done() for task in waiting.values()), turns=3)
            with pytest.raises(
                vcubeps.Unacknowledged, match="1 on 'room' were accepted and not acknowledged"
            ):
                await live.close(0)
            await asyncio.wait(waiting.values(), timeout=5.0)
            failures = {name: task.exception() for name, task in waiting.items()}
            assert isinstance(failures["acknowledged"], vcubeps.Unacknowledged)
            assert isinstance(failures["publish"], vcubeps.NodeError)
            assert isinstance(failures["subscribe"], vcubeps.NodeClosed)
            assert failures["close"] is None
            for way in live.proxies.between(0, 1):
                way.release()
            live.suspect(1, 0)  # its goodbye was lost

    run(main())


def test_a_closed_node_says_so() -> None:
    async def main() -> None:
        async with Live(2) as live:
            node = live[0]
            await node.close()
            await node.close()  # may be called again
            with pytest.raises(vcubeps.NodeClosed, match="node 0 has been closed: open it again"):
                await node.subscribe("room")
            live.record.ended(live.nodes.pop(0))
            live.suspect(1, 0)  # there may have been nobody yet to say goodbye to

    run(main())


def test_nested_contexts_leave_one_after_the_other_even_when_the_body_raises() -> None:
    class Oops(Exception):
        pass

    async def main() -> None:
        async with vcubeps.LocalCluster(3) as cluster:
            with contextlib.suppress(Oops):
                async with (
                    cluster[0].subscribe("a") as a,
                    cluster[0].subscribe("b") as b,
                    cluster[1].subscribe("a"),
                ):
                    await a.publish(b"x")
                    await b.publish(b"y")
                    raise Oops
            assert cluster[0].members("a") == cluster[0].members("b") == cluster[1].members("a") == ()

    run(main())


def test_a_body_that_is_cancelled_leaves_cleanly() -> None:
    async def main() -> None:
        async with Live(2) as live:
            zero = await live.join(0, "room")
            entered = asyncio.Event()

            async def stay() -> None:
                async with live[1].subscribe("room") as room:
                    entered.set()
                    await room.receive()

            task = asyncio.create_task(stay())
            await entered.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert zero.subscription.members == (0,)

    run(main())


def test_a_node_that_ended_in_good_order_may_come_back() -> None:
    async def main() -> None:
        async with Live(3) as live:
            members = await live.join_all("room")
            for _ in range(2):
                await live.close(2)
                await until(lambda: members[0].subscription.members == (0, 1))
                await live.start(2)
                back = await live.join(2, "room")
                await (await members[0].publish(b"hello")).acknowledged()
                await (await back.publish(b"hello")).acknowledged()
                await until(lambda back=back: len(back.received) == 2)

    run(main())


def test_a_small_program_runs_without_any_warning() -> None:
    program = textwrap.dedent(
        """
        import asyncio, vcubeps

        async def main():
            async with vcubeps.LocalCluster(4) as cluster:
                async with cluster[0].subscribe("room") as alice, cluster[3].subscribe("room", codec="json") as bob:
                    receipt = await alice.publish(b'"hello"')
                    await receipt.acknowledged()
                    print((await bob.receive()).value)
                    events = bob.events()
                    waits = asyncio.create_task(bob.receive_batch())
                    await asyncio.sleep(0)
                try:
                    await waits
                except vcubeps.SubscriptionClosed:
                    pass

        asyncio.run(main())
        """
    )
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    slow_import = [
        line for line in done.stderr.splitlines() if not (line.startswith("Executing") and " took " in line)
    ]
    assert (done.returncode, done.stdout, slow_import) == (0, "hello\n", [])


def test_topics_that_were_left_leave_nothing_behind() -> None:
    async def main() -> None:
        async with Live(2) as live:
            for number in range(20):
                async with live[0].subscribe(f"room {number}"):
                    pass
            shell = live[0]._shell
            assert not shell.receipts
            assert not shell.watch._asked
            assert not shell.subscriptions

    run(main())


def test_a_mistake_while_outputs_are_carried_out_ends_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with vcubeps.LocalCluster(2) as cluster:
            shell = cluster[0]._shell

            def fails(*_: object) -> None:
                raise RuntimeError("a mistake")

            monkeypatch.setitem(shell._carriers, out.Joined, fails)
            with pytest.raises(vcubeps.NodeError, match="a mistake"):
                await cluster[0].subscribe("room")
            assert shell.failed.is_set()

    run(main())
