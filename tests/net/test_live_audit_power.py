"""The live audit finds each kind of violation that is planted, and nothing in a sound history."""

from __future__ import annotations

import asyncio

import pytest

from net.live import Live, run
from net.live_audit import Acknowledged, Audit, Delivered, Ended, Event, Joined, Left, Started, Suspected
from vcubeps.net.message import CODECS, Message

T = "t"


class History:
    """Nodes 0, 1 and 2 are members from the start; time passes with each event."""

    def __init__(self, members: tuple[int, ...] = (0, 1, 2)) -> None:
        self.events: list[Event] = []
        self._now = 0
        self._sent: dict[tuple[int, int], tuple[bytes, dict[int, int]]] = {}
        for node in members:
            self.join(node)

    def now(self) -> int:
        self._now += 1
        return self._now

    def join(self, node: int) -> None:
        self.events.append(Joined(self.now(), node, T))

    def leave(self, node: int, asked_ns: int | None = None) -> None:
        now = self.now()
        self.events.append(Left(now, node, T, now if asked_ns is None else asked_ns))

    def end(self, node: int) -> None:
        self.events.append(Ended(self.now(), node))

    def publish(self, source: int, counter: int, after: dict[int, int] | None = None) -> None:
        payload = b"%d-%d" % (source, counter)
        self._sent[source, counter] = payload, after or {}
        self.events.append(Started(self.now(), source, T, ((counter, payload),), after or {}))
        self.deliver(source, source, counter)

    def deliver(self, node: int, source: int, counter: int, payload: bytes | None = None) -> None:
        sent, after = self._sent.get((source, counter), (b"", {}))
        self.events.append(Delivered(self.now(), node, T, source, ((counter, payload or sent),), after))

    def acknowledge(self, source: int, counter: int) -> None:
        self.events.append(Acknowledged(self.now(), source, T, counter))

    def violations(self) -> list[str]:
        return Audit(self.events).run()


def a_sound_history() -> History:
    """0 publishes, 1 answers, 2 answers that; 1 leaves and comes back."""
    history = History()
    history.publish(0, 2)
    history.deliver(1, 0, 2)
    history.publish(1, 2, {0: 2})
    history.deliver(2, 0, 2)
    history.acknowledge(0, 2)
    history.deliver(2, 1, 2)
    history.publish(2, 2, {1: 2})
    history.deliver(0, 1, 2)
    history.deliver(0, 2, 2)
    history.acknowledge(1, 2)
    history.deliver(1, 2, 2)
    history.acknowledge(2, 2)
    history.leave(1)
    history.publish(0, 3, {2: 2, 0: 2})
    history.deliver(2, 0, 3)
    history.acknowledge(0, 3)
    history.join(1)
    history.publish(0, 4, {0: 3})
    history.deliver(2, 0, 4)
    history.deliver(1, 0, 4)
    history.acknowledge(0, 4)
    return history


def test_a_sound_history_has_no_violations() -> None:
    assert a_sound_history().violations() == []


def test_a_message_before_what_it_answers_is_found() -> None:
    history = History()
    history.publish(0, 2)
    history.deliver(1, 0, 2)
    history.publish(1, 2)  # the barrier is left out: what node 1 had delivered counts all the same
    history.deliver(2, 1, 2)
    history.deliver(2, 0, 2)
    assert history.violations() == ["node 2 delivered t⟨0, 2⟩ after something that comes after it"]


def test_a_violation_through_a_third_node_is_found() -> None:
    history = History((0, 1, 2, 3))
    history.publish(0, 2)
    history.deliver(1, 0, 2)
    history.publish(1, 2, {0: 2})
    history.deliver(2, 0, 2)
    history.deliver(2, 1, 2)
    history.publish(2, 2, {1: 2})
    history.deliver(3, 2, 2)
    history.deliver(3, 0, 2)
    assert history.violations() == ["node 3 delivered t⟨0, 2⟩ after something that comes after it"]


def test_a_message_whose_past_is_missing_for_good_is_found_although_the_node_leaves() -> None:
    history = History()
    history.publish(0, 2)
    history.deliver(1, 0, 2)
    history.acknowledge(0, 2)
    history.publish(1, 2, {0: 2})
    history.deliver(2, 1, 2)
    history.leave(2)
    assert history.violations() == ["node 2 has not delivered t⟨0, 2⟩ before t⟨1, 2⟩"]


def test_a_duplicate_is_found() -> None:
    history = a_sound_history()
    history.deliver(2, 0, 4)
    assert history.violations() == ["node 2 delivered t⟨0, 4⟩ twice"]


def test_a_duplicate_of_an_own_publication_is_found() -> None:
    history = a_sound_history()
    history.deliver(0, 0, 4)
    assert history.violations() == ["node 0 delivered t⟨0, 4⟩ twice"]


def test_a_phantom_is_found() -> None:
    history = a_sound_history()
    history.deliver(2, 1, 7)
    assert history.violations() == ["node 2 delivered t⟨1, 7⟩, which nobody published"]


def test_a_source_out_of_order_is_found() -> None:
    history = History()
    history.publish(0, 2)
    history.publish(0, 3, {0: 2})
    history.deliver(1, 0, 3)
    history.deliver(1, 0, 2)
    assert history.violations() == ["node 1 delivered t⟨0, 2⟩ after 3 of the same source"]


def test_a_loss_is_found() -> None:
    history = History()
    history.publish(0, 2)
    history.deliver(1, 0, 2)
    history.acknowledge(0, 2)
    assert history.violations() == ["node 2 has not delivered t⟨0, 2⟩ at the end"]


def test_a_payload_that_changed_is_found() -> None:
    history = History()
    history.publish(0, 2)
    history.deliver(1, 0, 2, payload=b"something else")
    assert history.violations() == ["node 1 delivered t⟨0, 2⟩ with another payload"]


def test_a_barrier_that_changed_on_the_way_is_found() -> None:
    history = History()
    history.publish(0, 2)
    history.events.append(Delivered(history.now(), 1, T, 0, ((2, b"0-2"),), {1: 5}))
    assert history.violations() == ["node 1 delivered t⟨0, 2⟩ after {1: 5}, not {}"]


def test_a_delivery_outside_of_a_subscription_is_found() -> None:
    history = History((0, 1))
    history.publish(0, 2)
    history.deliver(2, 0, 2)
    assert history.violations() == ["node 2 delivered t⟨0, 2⟩ outside of a subscription"]


def test_a_delivery_after_leaving_was_asked_for_is_found() -> None:
    history = History()
    history.publish(0, 2)
    asked_ns = history.now()
    history.deliver(1, 0, 2)
    history.leave(1, asked_ns)
    assert history.violations() == ["node 1 delivered on t after it had left"]


def test_a_counter_used_twice_is_found() -> None:
    history = History((0,))
    history.publish(0, 2)
    history.publish(0, 2)
    assert "t⟨0, 2⟩ was published twice" in history.violations()


def test_what_came_before_joining_is_no_loss() -> None:
    history = History((0, 1))
    history.publish(0, 2)
    history.deliver(1, 0, 2)
    history.acknowledge(0, 2)
    history.join(2)
    assert history.violations() == []


def test_what_a_crashed_source_could_not_see_acknowledged_is_no_loss() -> None:
    history = History()
    history.publish(0, 2)
    history.deliver(1, 0, 2)
    history.end(0)
    history.join(0)
    history.publish(0, 1 << 40)
    history.deliver(1, 0, 1 << 40)
    history.deliver(2, 0, 1 << 40)
    history.acknowledge(0, 1 << 40)
    assert history.violations() == []


def test_what_a_source_publishes_while_others_take_it_for_crashed_may_pass_by_those() -> None:
    history = History()
    history.publish(0, 2)
    history.deliver(1, 0, 2)
    history.events.append(Suspected(history.now(), 0))
    history.publish(0, 3, {0: 2})
    history.acknowledge(0, 3)
    assert history.violations() == ["node 2 has not delivered t⟨0, 2⟩ at the end"]


def test_what_a_crashed_source_had_seen_acknowledged_is_a_loss() -> None:
    history = History()
    history.publish(0, 2)
    history.deliver(1, 0, 2)
    history.acknowledge(0, 2)
    history.end(0)
    assert history.violations() == ["node 2 has not delivered t⟨0, 2⟩ at the end"]


def test_a_live_run_is_audited_with_what_applications_gave_and_got() -> None:
    async def planted(where: str) -> None:
        async with Live(2) as live:
            zero, one = await live.join_all("room")
            receipt = await zero.publish(b"hello")
            await live.settle()
            if where == "given":
                live.record.published["room", 0, receipt.counter] = b"something else"
            elif where == "got":
                one.received.clear()
                one.received.append(Message("room", 0, 99, b"12345678x", {}, CODECS["bytes"]))
            elif where == "lost":
                live.record.events[:] = [
                    event
                    for event in live.record.events
                    if not (isinstance(event, Delivered) and event.node == 1)
                ]
                one.received.clear()

    run(planted("nowhere"))
    for where, message in (
        ("given", "is not what the application published"),
        ("got", "the application of node 1 got something else on room than was delivered"),
        ("lost", "node 1 has not delivered room⟨0, 2⟩ at the end"),
    ):
        with pytest.raises(AssertionError, match=message):
            asyncio.run(planted(where))
