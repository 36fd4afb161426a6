"""Messages ↔ bytes: what is forwarded is what was received, also after the buffer it came in is used again."""

from __future__ import annotations

from typing import Any

import pytest

from net.live import Live, run
from vcubeps.node.wire import Wire, WireError
from vcubeps.protocol.batches import batch_of
from vcubeps.protocol.messages import (
    Ack,
    Ask,
    Card,
    Copy,
    Fence,
    Final,
    Flush,
    Hello,
    Over,
    Publication,
    Report,
    Subscription,
    Taken,
    Welcome,
)

PUBLICATION = Publication(0, "room", 7, batch_of(((6, b"one"), (7, b"two"))), {1: 3}, 99, 12)

LARGE = Publication(0, "room", 7, batch_of(((6, b"one"), (7, b"two" * 5000))), {1: 3}, 99, 12)

COPIES = [Copy(0, 1, 5, {1: 4, 3: 9}, {2: 0}, publication) for publication in (PUBLICATION, LARGE)]

CARD = Card(1, identity=(1 << 64) - 1, address=b"\x00tcp")

MESSAGES = [
    *COPIES,
    Copy(0, 1, 6, {1: 0}, {}, Subscription(0, "room", 3)),
    Ack(1, 0, 5, {1: Report(4, 0, is_member=True)}, False, {2: 0}, 8),
    Flush(0, 0, 1, {2: 0}, {"room": {0: PUBLICATION}}, 9, {"room": (3, 7)}),
    Copy(0, 1, 7, None, {}, PUBLICATION),
    Copy(0, 1, 7, None, {}, LARGE),
    Ask(1, 0, 7),
    Final(1, 0, {2: 0}),
    Over(0, 1, {2: 0}),
    Hello(1, -1, CARD, (1 << 64) - 1, {2: Card(1)}),
    Welcome(0, 1, CARD, {2: 0}, 5, {2: Card(0), 3: CARD}, True, True),
    Welcome(0, 1, CARD, {2: 0}, 5, None, True, True),
    Taken(0, 1, (1 << 64) - 1),
    Fence(0, -1, 1),
]


def encoded(message: Any, wire: Wire | None = None) -> bytes:
    return b"".join((wire or Wire()).encode(message))


def test_copies_of_a_large_broadcast_share_its_bytes() -> None:
    wire = Wire()
    tails = [wire.encode(Copy(1, node, node, {node: 9}, {}, LARGE))[1] for node in (2, 3)]
    assert tails[0] is tails[1]
    assert len(tails[0]) > 15_000


def test_copies_of_what_is_forwarded_share_its_bytes_too() -> None:
    wire = Wire()
    copy = wire.decode(memoryview(encoded(COPIES[1])))
    assert isinstance(copy, Copy)
    tails = [wire.encode(Copy(1, node, node, {node: 9}, {}, copy.broadcast))[1] for node in (2, 3)]
    assert tails[0] is tails[1]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_is_read_as_it_was_written(message: object) -> None:
    assert Wire().decode(memoryview(encoded(message))) == message


@pytest.mark.parametrize("sent", COPIES, ids=["small", "large"])
def test_a_broadcast_is_forwarded_as_it_came(sent: Copy) -> None:
    wire = Wire()
    copy = wire.decode(memoryview(encoded(sent)))
    assert isinstance(copy, Copy)
    onward = Copy(1, 3, 1, {3: 9}, {}, copy.broadcast)
    assert Wire().decode(encoded(onward, wire)) == onward


def test_a_large_broadcast_is_forwarded_with_the_bytes_it_came_in() -> None:
    wire = Wire()
    received = bytearray(encoded(COPIES[1]))
    copy = wire.decode(memoryview(received))
    assert isinstance(copy, Copy)
    received[:] = received.replace(b"two", b"TWO")
    assert b"TWO" * 5000 in encoded(Copy(1, 3, 1, {3: 9}, {}, copy.broadcast), wire)


@pytest.mark.parametrize("sent", COPIES, ids=["small", "large"])
def test_what_is_forwarded_after_the_buffer_was_used_again_is_not_what_is_in_it_now(sent: Copy) -> None:
    wire = Wire()
    buffer = bytearray(encoded(sent))
    copy = wire.decode(memoryview(buffer))
    assert isinstance(copy, Copy)
    wire.forget()
    buffer[:] = b"x" * len(buffer)
    assert Wire().decode(encoded(copy, wire)) == sent


def test_a_node_keeps_no_view_of_a_buffer_that_it_has_given_back() -> None:
    async def main() -> None:
        async with Live(4) as live:
            members = await live.join_all("room")
            await (await members[0].publish(b"hello" * 1000)).acknowledged()
            assert all(
                node._shell.machine.exchange._wire._broadcast is None
                for node in list(live.nodes.values())[1:]
            )

    run(main())


@pytest.mark.parametrize(
    "body", [b"", b"\xc1", b"\x91" * 2000, b"\x93\xa4COPY\x00\x00", b"\x94\xa5FENCE\x00\x00\xa1x"]
)
def test_bytes_that_are_no_message_are_refused(body: bytes) -> None:
    with pytest.raises(WireError, match="a message that cannot be read"):
        Wire().decode(memoryview(body))
