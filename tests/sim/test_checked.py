"""Whoever follows a peer's outputs knows who is present and who is a member; `checked` notices where that fails."""

from __future__ import annotations

import pytest

from vcubeps.protocol.messages import Card, Fence
from vcubeps.protocol.outputs import (
    Arrived,
    Departed,
    MemberJoined,
    MemberLeft,
    Output,
    Restarted,
    RestartReason,
    Send,
    Subscribed,
)
from vcubeps.sim.explore.checked import Told
from vcubeps.sim.explore.peers import WatchedPeer
from wire import Wire

T = "a"


def told() -> tuple[Told, WatchedPeer]:
    """By node 0 of three, who is a member of T with node 1."""
    wire = Wire(WatchedPeer, range(3))
    peer = wire.peers[0]
    following = Told(peer)
    for node in (0, 1):
        wire.subscribe(node, T)
        wire.run()
    following.follow(peer, [Subscribed(T, 1)])
    return following, peer


@pytest.mark.parametrize(
    ("outputs", "complaint"),
    [
        ([Departed(1, 5)], "incarnation 5 of 1 departs, 0 was there"),
        ([Departed(1, 0)], "are present"),
        ([Departed(1, 0), Arrived(1, 0, b"")], "1 arrives as 0, 0 has departed"),
        ([Arrived(1, 0, b"")], "1 arrives a second time, and nothing is new"),
        ([Arrived(1, 1, b"")], "1 arrives as 1, and 0 has not departed"),
        ([Arrived(3, 0, b"")], "are present"),
        ([MemberJoined(T, 1)], "1 joins a, where it is a member"),
        ([MemberJoined(T, 2)], "are in a"),
        ([MemberLeft(T, 2)], "2 leaves a, where it is no member"),
        ([MemberLeft(T, 1)], "are in a"),
        ([Send(0, Fence(0, 0, 0))], "sends something to itself"),
    ],
)
def test_outputs_that_are_not_so_are_noticed(outputs: list[Output], complaint: str) -> None:
    following, peer = told()

    with pytest.raises(AssertionError, match=complaint):
        following.follow(peer, outputs)


@pytest.mark.parametrize(
    "outputs",
    [
        [Departed(1, 0), Restarted(1, (), RestartReason.ASKED), Arrived(1, 0, b"")],
        [MemberLeft(T, 1), MemberJoined(T, 1)],
        [MemberLeft("b", 1)],
    ],
)
def test_a_new_start_and_other_topics_are_no_contradiction(outputs: list[Output]) -> None:
    following, peer = told()

    following.follow(peer, outputs)


def test_a_new_address_is_told_by_one_more_arrival() -> None:
    following, peer = told()
    peer._local.renew_card(1, Card(0, 0, b"there"))

    with pytest.raises(AssertionError, match="has told of"):
        following.follow(peer, [])
    following.follow(peer, [Arrived(1, 0, b"there")])
