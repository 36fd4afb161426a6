"""How and when what is sent leaves: straight to the socket, at once if it comes alone, in batches if it does not."""

from __future__ import annotations

import socket
from typing import cast

import pytest

from net.live import Live, run
from vcubeps.net.connection import Connection
from vcubeps.net.measures import TopicMeasures
from vcubeps.net.settings import Limits
from vcubeps.net.topics import ALONE_NS, LocalTopic


class FullTransport:
    """A transport that is given what its socket did not take, and does not get rid of it."""

    def __init__(self) -> None:
        self.kept = b""

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return len(self.kept)

    def write(self, data: bytes) -> None:
        self.kept += data


@pytest.mark.parametrize("size", [1, 1000, 30_000])
def test_what_a_full_socket_does_not_take_follows_in_order(size: int) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        connection = Connection.__new__(Connection)
        transport = FullTransport()
        connection._transport = cast("object", transport)  # type: ignore[assignment]
        connection._fd = ours.fileno()
        written = b""
        number = 0
        while len(transport.kept) < 100_000:
            number += 1
            data = (b"%d," % number) * size
            connection.write_now(data)
            written += data
        theirs.setblocking(False)
        arrived = b""
        while len(arrived) < len(written) - len(transport.kept):
            arrived += theirs.recv(1 << 20)
        assert arrived + transport.kept == written
        assert arrived


def test_only_a_publication_that_comes_alone_after_one_that_did_is_not_gathered() -> None:
    topic = LocalTopic("room", TopicMeasures(), Limits())
    pauses = [2, 2, 0, 2, 2, 0, 0, 2, 2]
    now_ns, leaves_at_once = 10**18, []
    for pause in pauses:
        now_ns += pause * ALONE_NS
        leaves_at_once.append(topic.comes_alone(now_ns))
    #                         alone  alone | pair: then gathered | alone again, and so on
    assert leaves_at_once == [True, True, False, False, True, False, False, False, True]


def test_a_publication_that_comes_alone_is_under_way_when_publish_returns_and_a_burst_leaves_as_one_batch() -> (
    None
):
    async def main() -> None:
        async with Live(2) as live:
            room, _ = await live.join_all("room")
            peer = live[0]._runtime.peer
            first = await room.publish(b"alone")
            assert (peer.footprint()["broadcasts"], peer.footprint()["queued"]) == (1, 0)
            for number in range(3):
                last = await room.publish(b"%d" % number)
            assert (peer.footprint()["broadcasts"], peer.footprint()["queued"]) == (1, 3)
            await first.acknowledged()
            await last.acknowledged()
            for number in range(3):
                last = await room.publish(b"%d" % number)
            assert (peer.footprint()["broadcasts"], peer.footprint()["queued"]) == (0, 3)
            await last.acknowledged()
            measures = live[1]._runtime.measures
            measures.sort_in()
            assert (measures.batch_items.count, measures.batch_items.total) == (3, 7)

    run(main())
