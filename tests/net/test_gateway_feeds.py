"""What the clients of a topic share: each message encoded once, kept while somebody has not taken it, and no longer."""

import asyncio
from itertools import pairwise

import msgspec
import pytest

from vcubeps.net.gateway import feeds
from vcubeps.net.gateway.dialogue import DisconnectedEvent, JoinedEvent
from vcubeps.net.gateway.feeds import GRANT_FRAMES, SharedTopic
from vcubeps.net.gateway.turns import GRANT_BYTES, TURN_BYTES, Turns
from vcubeps.net.message import BYTES, Message, Origin
from vcubeps.protocol.batches import Batch


def message(counter: int, payload: bytes = b"hi") -> Message:
    return Message(1, payload, 0, Origin("room", Batch(counter, (payload,)), {}, BYTES))


class Room:
    """A shared topic whose turns come when the test says so."""

    def __init__(self, messages_max: int = 1000, bytes_max: int = 1 << 30) -> None:
        self.soon = []
        self.turns = Turns(self.soon.append)
        self.released = 0
        self.topic = SharedTopic("room", self.turns, messages_max, bytes_max, self._on_release)
        self.put = self.topic.put_message

    def _on_release(self) -> None:
        self.released += 1

    def turn(self) -> None:
        due, self.soon[:] = self.soon[:], []
        for function in due:
            function()

    async def take(self, feed) -> list[bytes]:
        """What the feed gives within a few turns."""
        task = asyncio.create_task(feed.take())
        for _ in range(5):
            await asyncio.sleep(0)
            self.turn()
        assert task.done(), "it waits for more"
        return await task


@pytest.fixture
def encodings(monkeypatch):
    """What was encoded."""
    done = []

    def encode(event):
        done.append(event)
        return msgspec.json.encode(event)

    monkeypatch.setattr(feeds, "_encode", encode)
    return done


def test_a_message_is_encoded_once_for_each_representation_however_many_clients_take_it(encodings):
    async def main():
        room = Room()
        clients = [room.topic.add(encoding, False) for encoding in ("text", "base64") * 20]
        room.put(message(1), 2)
        return [await room.take(client) for client in clients]

    taken = asyncio.run(main())

    assert len(encodings) == 2
    assert len({frame for (frame,) in taken}) == 2
    assert len({id(frame) for (frame,) in taken}) == 2, "the bytes are shared"


def test_what_is_not_text_is_encoded_once_for_those_who_want_text_and_those_who_want_base64(encodings):
    async def main():
        room = Room()
        clients = [room.topic.add(encoding, False) for encoding in ("text", "base64")]
        room.put(message(1, b"\xff"), 1)
        return [await room.take(client) for client in clients]

    first, second = asyncio.run(main())

    assert len(encodings) == 1
    assert first == second


def test_an_event_is_encoded_once_for_all(encodings):
    async def main():
        room = Room()
        clients = [room.topic.add(encoding, False) for encoding in ("text", "text")]
        room.topic.put_event(JoinedEvent(topic="room", node=3))
        return [await room.take(client) for client in clients]

    first, second = asyncio.run(main())

    assert first == second == [b'{"event":"joined","topic":"room","node":3}']
    assert len(encodings) == 1


def test_nothing_is_encoded_before_a_client_takes_it(encodings):
    async def main():
        room = Room()
        room.topic.add("text", False)
        room.put(message(1), 2)

    asyncio.run(main())

    assert encodings == []


def test_an_entry_is_kept_until_the_last_client_has_taken_it_or_is_gone():
    async def main():
        room = Room()
        quick, slow, gone = (room.topic.add("text", False) for _ in range(3))
        for counter in range(3):
            room.put(message(counter), 2)
        kept = []
        await room.take(quick)
        kept.append(len(room.topic.entries))
        room.topic.remove(gone)
        assert not gone.drop()
        kept.append(len(room.topic.entries))
        await room.take(slow)
        return [*kept, len(room.topic.entries)]

    assert asyncio.run(main()) == [3, 3, 0]


def test_clients_that_come_and_go_while_nothing_is_told_leave_nothing_behind():
    async def main():
        room = Room()
        for _ in range(10):
            feed = room.topic.add("text", False)
            taking = asyncio.create_task(feed.take())
            await asyncio.sleep(0)
            room.topic.remove(feed)
            assert await taking == []
        return len(room.topic.idle), len(room.topic.feeds), len(room.topic.entries)

    assert asyncio.run(main()) == (0, 0, 0)


def test_much_that_a_gone_client_has_not_taken_is_given_up_in_parts(monkeypatch):
    monkeypatch.setattr(feeds, "_STEP", 4)

    async def main():
        room = Room()
        gone = room.topic.add("text", False)
        for counter in range(10):
            room.put(message(counter), 2)
        room.topic.remove(gone)
        left = []
        while gone.drop():
            left.append(len(room.topic.entries))
        return [*left, len(room.topic.entries)]

    assert asyncio.run(main()) == [6, 2, 0]


def test_a_message_for_many_idle_clients_wakes_no_more_of_them_in_a_turn_than_the_budget_allows():
    async def main():
        room = Room()
        clients = [room.topic.add("text", False) for _ in range(1000)]
        tasks = [asyncio.create_task(client.take()) for client in clients]
        await asyncio.sleep(0)
        room.put(message(1), 0)
        woken = []
        while room.soon:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            woken.append(sum(task.done() for task in tasks))
            room.turn()
        await asyncio.gather(*tasks)
        return woken

    woken = asyncio.run(main())

    per_turn = TURN_BYTES // GRANT_BYTES
    assert woken[0] == per_turn
    assert {after - before for before, after in pairwise(woken[:-1])} == {per_turn}
    assert woken[-1] == 1000


def test_a_client_that_takes_nothing_is_not_woken_by_what_is_told():
    async def main():
        room = Room()
        room.topic.add("text", False)  # nothing takes from it, as while a socket does not drain
        for counter in range(100):
            room.put(message(counter), 2)
        return room.soon

    assert asyncio.run(main()) == []


def test_a_client_gets_several_small_frames_at_a_time_and_one_large_one():
    async def main():
        room = Room()
        client = room.topic.add("text", False)
        for counter in range(GRANT_FRAMES + 1):
            room.put(message(counter), 2)
        for counter in range(2):
            room.put(message(100 + counter, b"x" * GRANT_BYTES), GRANT_BYTES)
        return [len(await room.take(client)) for _ in range(3)]

    assert asyncio.run(main()) == [GRANT_FRAMES, 2, 1]


# Those who are behind.


@pytest.mark.parametrize("limits", [{"messages_max": 3}, {"bytes_max": 7}])
def test_a_client_that_is_too_far_behind_is_ended_gets_what_waits_and_is_told_how_much_that_was(limits):
    async def main():
        room = Room(**limits)
        slow, quick = room.topic.add("text", False), room.topic.add("text", False)
        ended = []
        for counter in range(6):
            ended.append(room.put(message(counter), 2))
            await room.take(quick)
        frames = await room.take(slow)
        return slow, ended, frames, await slow.take(), list(room.topic.feeds) == [quick], room.topic.entries

    slow, ended, frames, after, only_quick, entries = asyncio.run(main())

    assert ended == [[], [], [], [slow], [], []]
    assert len(frames) == 4
    assert after == []
    assert slow.last_words == DisconnectedEvent(topic="room", waiting=4)
    assert only_quick
    assert entries == {}


def test_who_is_behind_is_looked_for_only_when_somebody_may_be_too_far():
    async def main():
        room, looked = Room(messages_max=100), []
        look, room.topic._end_slow = room.topic._end_slow, lambda: looked.append(1) or look()
        client = room.topic.add("text", False)
        for counter in range(1000):
            room.put(message(counter), 2)
            await room.take(client)
        return len(looked)

    assert asyncio.run(main()) <= 10


def test_a_client_that_publishers_wait_for_is_not_ended_and_holds_what_it_has_not_taken():
    async def main():
        room = Room(messages_max=2)
        patient, quick = room.topic.add("text", True), room.topic.add("text", True)
        ended = [room.put(message(counter), 10) for counter in range(4)]
        await room.take(quick)
        before = room.topic.held, room.topic.held_bytes, room.released
        await room.take(patient)
        return ended, before, (room.topic.held, room.topic.held_bytes, room.released)

    ended, before, after = asyncio.run(main())

    assert ended == [[], [], [], []]
    assert before == (4, 40, 0)
    assert after == (0, 0, 4)


def test_publishers_do_not_wait_for_a_client_that_is_no_longer_subscribed_but_it_still_gets_what_waits():
    async def main():
        room = Room()
        patient = room.topic.add("text", True)
        for counter in range(3):
            room.put(message(counter), 10)
        room.topic.remove(patient)
        room.put(message(9), 10)
        return room.topic.held, room.released, len(await room.take(patient)), await patient.take()

    assert asyncio.run(main()) == (0, 3, 3, [])


def test_much_that_publishers_wait_for_no_more_is_released_in_turns_and_each_entry_once(monkeypatch):
    monkeypatch.setattr(feeds, "_STEP", 1)

    async def main():
        room = Room()
        patient = room.topic.add("text", True)
        for counter in range(40):
            room.put(message(counter), 10)
        room.topic.remove(patient)
        held = [room.topic.held]
        taken = len(await room.take(patient))
        while room.soon:
            room.turn()
            held.append(room.topic.held)
        while frames := await room.take(patient):
            taken += len(frames)
        return held, taken, room.released

    held, taken, released = asyncio.run(main())

    assert 0 < held[0] < 40, "not all at once"
    assert held[-1] == 0
    assert (taken, released) == (40, 40)


def test_a_client_that_comes_later_gets_what_is_told_from_then_on():
    async def main():
        room = Room()
        room.topic.add("text", False)
        room.put(message(1), 2)
        late = room.topic.add("text", False)
        room.put(message(2), 2)
        (frame,) = await room.take(late)
        return msgspec.json.decode(frame)["counter"]

    assert asyncio.run(main()) == 2
