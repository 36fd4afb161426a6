"""When what is published leaves: at once if it comes alone, in batches if it does not."""

from __future__ import annotations

import pytest

import vcubeps
from net.live import Live, run
from vcubeps.net import shell
from vcubeps.node import topics
from vcubeps.node.settings import Limits
from vcubeps.node.topics import ALONE_S, LocalTopic


def test_only_a_publication_that_comes_alone_after_one_that_did_is_not_gathered() -> None:
    topic = LocalTopic("room", Limits())
    pauses = [2, 2, 0, 2, 2, 0, 0, 2, 2]
    now_s, leaves_at_once = 1e6, []
    for pause in pauses:
        now_s += pause * ALONE_S
        leaves_at_once.append(topic.published(1, 0, now_s))
    #                         alone  alone | pair: then gathered | alone again, and so on
    assert leaves_at_once == [True, True, False, False, True, False, False, False, True]


def test_a_publication_that_comes_alone_is_under_way_when_publish_returns_and_a_burst_leaves_as_one_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topics, "ALONE_S", 1e3)  # only the first: nothing depends on how fast this machine is

    async def main() -> None:
        async with Live(2) as live:
            room, _ = await live.join_all("room")
            peer = live[0]._shell.machine.peer
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
            measures = live[1]._shell.measures
            measures.sort_in()
            assert (measures.batch_items.count, measures.batch_items.total) == (3, 7)

    run(main())


def test_every_publication_is_judged_by_the_clock_however_long_the_turn_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        async with vcubeps.LocalCluster(1) as cluster, cluster[0].subscribe("room", reads=False) as room:
            node, shown_s = cluster[0]._shell, list[float]()
            real_s = shell.now_s
            monkeypatch.setattr(shell, "now_s", lambda: real_s() + 5.0 * len(shown_s))
            node._turn_scheduled = True  # as in the middle of a turn
            for number in range(3):
                await room.publish(b"%d" % number)
                shown_s.append(node.machine.context.now_s)
            node._turn_scheduled = False
            monkeypatch.setattr(shell, "now_s", lambda: real_s() + 15.0)
            assert shown_s[1] - shown_s[0] >= 5.0
            assert shown_s[2] - shown_s[1] >= 5.0

    run(main())
