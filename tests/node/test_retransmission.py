"""Outbox and inbox: whatever becomes of connections and instances, every message arrives once and in order."""

from __future__ import annotations

import math
from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from vcubeps.node import retransmission
from vcubeps.node.frames import HEADER_BYTES, KIND_AT, MESSAGE, PART, FrameReader
from vcubeps.node.retransmission import TELL_BYTES, Inbox, NumberingError, Outbox

BYTES_MAX = 8


def frames_of(written: list[bytes | memoryview]) -> list[tuple[int, int, bytes]]:
    stream = b"".join(written)
    reader = FrameReader(1000)
    read = []
    while stream:
        room = reader.room
        count = min(len(room), len(stream))
        room[:count] = stream[:count]
        read += [(kind, number, bytes(body)) for kind, number, body in reader.received(count)]
        stream = stream[count:]
    return read


class Links(RuleBasedStateMachine):
    """One direction of a link: a sender that stays, a receiver that comes back as other instances, connections that
    are cut with frames in flight, and acknowledgements that come late.

    The model is a list: what was appended for the present instance, in order.
    """

    @initialize()
    def begin(self) -> None:
        self.outbox, self.inbox = Outbox(BYTES_MAX), Inbox()
        self.incarnation = 0
        self.connected = False
        self.flying: deque[tuple[int, int, bytes]] = deque()
        self.acks: deque[int] = deque()
        self.expected: list[tuple[int, bytes]] = []
        """Target and body of all that this instance of the receiver must get."""
        self.got: list[bytes] = []
        self.serial = 0

    @rule(size=st.integers(0, 40), ahead=st.sampled_from([-1, 0, 0, 0, 1]), cut=st.integers(0, 20))
    def append(self, size: int, ahead: int, cut: int) -> None:
        target = -1 if ahead < 0 else self.incarnation + ahead
        self.serial += 1
        body = (b"%06d" % self.serial) + b"." * size
        self.outbox.append(target, body[:cut], body[cut:])
        self.expected.append((target, body))

    @precondition(lambda self: self.connected and not self.outbox.unsent_size)
    @rule()
    def append_and_write_at_once(self) -> None:
        self.serial += 1
        body = b"%08d" % self.serial
        assert len(body) == BYTES_MAX
        self.expected.append((self.incarnation, body))
        self.flying += frames_of([self.outbox.append_sent(self.incarnation, body[:3], body[3:])])

    @precondition(lambda self: self.connected)
    @rule(bytes_max=st.sampled_from([1, 40, 100, math.inf]))
    def write(self, bytes_max: float = math.inf) -> None:
        before = self.outbox.unsent_size
        parts, size = self.outbox.take_unsent(bytes_max)
        assert size == sum(map(len, parts)) == before - self.outbox.unsent_size
        assert size < bytes_max + BYTES_MAX + HEADER_BYTES
        assert not self.outbox.unsent_size or size >= bytes_max
        self.flying += frames_of(parts)

    @precondition(lambda self: self.flying)
    @rule(count=st.integers(1, 20))
    def arrive(self, count: int) -> None:
        for _ in range(min(count, len(self.flying))):
            kind, number, body = self.flying.popleft()
            if self.inbox.is_new(number, len(body)):
                if kind == PART:
                    self.inbox.add_part(body)
                else:
                    view = memoryview(body)
                    self.got.append(bytes(self.inbox.whole(view) if self.inbox.parts else view))

    @precondition(lambda self: self.connected)
    @rule()
    def acknowledge(self) -> None:
        self.acks.append(self.inbox.tell())

    @precondition(lambda self: self.acks)
    @rule()
    def hear_acknowledgement(self) -> None:
        self.outbox.acknowledged(self.acks.popleft())

    @rule()
    def cut(self) -> None:
        self.connected = False
        self.flying.clear()
        self.acks.clear()

    @precondition(lambda self: not self.connected)
    @rule()
    def connect(self) -> None:
        self.outbox.resume(self.inbox.last)
        self.connected = True

    @rule(later=st.integers(1, 2))
    def come_back_as_another_instance(self, later: int) -> None:
        self.cut()
        self.incarnation += later
        acknowledged = [body for body in self.got if not self.is_kept(body)]
        self.expected = [
            (target, body)
            for target, body in self.expected
            if (target < 0 or target >= self.incarnation) and body not in acknowledged
        ]
        self.outbox.restart(self.incarnation)
        self.inbox.restart()
        self.got = []
        self.connected = True

    def is_kept(self, body: bytes) -> bool:
        """Whether the outbox still holds the end of `body`, so that another instance gets it."""
        outbox = self.outbox
        return any(
            (
                first[HEADER_BYTES:] + kept
                if isinstance(kept, bytes)
                else outbox._heads.get(number, b"") + kept.obj
            )
            == body
            for number, (_, first, kept) in enumerate(outbox._kept, outbox.first)
            if first[KIND_AT] == MESSAGE
        )

    @invariant()
    def what_arrived_is_the_beginning_of_what_was_sent(self) -> None:
        assert self.got == [body for _, body in self.expected[: len(self.got)]]

    @invariant()
    def sizes_are_the_bytes_that_are_kept(self) -> None:
        kept = self.outbox._kept
        assert self.outbox.size == sum(len(first) + len(second) for _, first, second in kept)
        unsent = list(kept)[self.outbox._sent :]
        assert self.outbox.unsent_size == sum(len(first) + len(second) for _, first, second in unsent)
        assert len(kept) == self.outbox.last - self.outbox.first + 1
        assert all(self.outbox.first <= number <= self.outbox.last for number in self.outbox._heads)

    def teardown(self) -> None:
        if not hasattr(self, "outbox"):
            return
        if not self.connected:
            self.connect()
        self.write()
        self.arrive(len(self.flying)) if self.flying else None
        assert self.got == [body for _, body in self.expected]
        self.outbox.acknowledged(self.inbox.last)
        assert not self.outbox
        assert self.outbox.size == 0


TestLinks = Links.TestCase
TestLinks.settings = settings(max_examples=60, stateful_step_count=40)


def filled(count: int) -> Outbox:
    outbox = Outbox(100)
    for number in range(count):
        outbox.append(0, b"%d" % number)
    return outbox


def test_an_acknowledgement_of_what_was_never_sent_is_refused() -> None:
    with pytest.raises(NumberingError, match="an acknowledgement of message 4, but the last one sent was 3"):
        filled(3).acknowledged(4)


def test_a_greeting_that_an_acknowledgement_has_overtaken_takes_nothing_back() -> None:
    outbox = filled(3)
    outbox.acknowledged(2)
    outbox.resume(1)
    assert (outbox.first, len(outbox)) == (3, 1)


def test_a_number_left_out_is_refused() -> None:
    inbox = Inbox()
    assert inbox.is_new(1, 10)
    with pytest.raises(NumberingError, match="message 3 where 2 should follow"):
        inbox.is_new(3, 10)


def test_a_number_seen_before_is_counted_and_not_taken_again() -> None:
    inbox = Inbox()
    assert [inbox.is_new(number, 10) for number in (1, 2, 1, 2)] == [True, True, False, False]
    assert (inbox.duplicates, inbox.last) == (2, 2)


def test_what_comes_again_is_acknowledged_again_because_the_sender_has_not_heard() -> None:
    inbox = Inbox()
    for number in (1, 2, 3):
        inbox.is_new(number, 10)
    assert (inbox.tell(), inbox.told) == (3, inbox.last)

    inbox.is_new(3, 10)

    assert inbox.told != inbox.last
    assert inbox.tell() == 3


def test_much_that_came_is_told_without_waiting_and_then_nothing_is_owed() -> None:
    many, large = Inbox(), Inbox()
    while many.untold_bytes < TELL_BYTES:
        assert many.is_new(many.last + 1, 0)
    assert large.is_new(1, 1 << 30)
    assert large.untold_bytes >= TELL_BYTES
    for inbox in (many, large):
        assert inbox.tell() == inbox.last
        assert inbox.untold_bytes == 0


def test_what_is_sent_again_is_counted() -> None:
    outbox = filled(3)
    outbox.take_unsent()
    outbox.resume(1)
    assert outbox.resent == 2


def test_a_message_in_parts_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retransmission, "MESSAGE_BYTES_MAX", 10)
    inbox = Inbox()
    inbox.add_part(b"12345678")
    with pytest.raises(NumberingError, match="a message of 16 bytes or more, the limit is 10"):
        inbox.add_part(b"12345678")


def test_what_is_meant_for_one_that_has_ended_or_for_anyone_is_dropped_and_the_rest_is_not() -> None:
    outbox = Outbox(100)
    for target in (-1, 0, 1, 2):
        outbox.append(target, b"%d" % target)
    outbox.take_unsent()
    outbox.end(1)
    assert frames_of(outbox.take_unsent()[0]) == [(MESSAGE, 1, b"2")]


def test_the_tail_of_a_message_in_parts_is_shared_by_all_links() -> None:
    tail = b"x" * 250
    outboxes = [Outbox(100) for _ in range(2)]
    for outbox in outboxes:
        outbox.append(0, b"head", tail)

    for outbox in outboxes:
        parts, _ = outbox.take_unsent()
        assert [(kind, len(body)) for kind, _, body in frames_of(parts)] == [
            (PART, 100),
            (PART, 100),
            (MESSAGE, 54),
        ]
        assert all(part.obj is tail for part in parts[1::2] if isinstance(part, memoryview))
        assert b"".join(body for _, _, body in frames_of(parts)) == b"head" + tail


def test_no_more_than_asked_for_is_handed_over_at_a_time() -> None:
    outbox = filled(10)
    whole = outbox.unsent_size

    parts, size = outbox.take_unsent(2 * whole // 10)

    assert len(frames_of(parts)) == 2
    assert outbox.unsent_size == whole - size
    assert len(frames_of(outbox.take_unsent()[0])) == 8
