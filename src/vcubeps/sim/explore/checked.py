"""A peer that is looked at after every input: its invariants hold, and its outputs agree with what it answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vcubeps.protocol.outputs import (
    Arrived,
    Departed,
    MemberJoined,
    MemberLeft,
    Output,
    Restarted,
    Send,
    Subscribed,
    Unsubscribed,
)
from vcubeps.sim.explore.peers import WatchedPeer


class Told:
    """What the outputs of one peer have said of other nodes and of members, as a driver would follow it."""

    def __init__(self, peer: WatchedPeer) -> None:
        self._present = {
            node: (incarnation, peer.address_of(node)) for node, incarnation in peer.present.items()
        }
        """Node → its incarnation, and its address if one was told."""
        self._departed: dict[int, int] = {}
        """Node → newest incarnation that has departed since this node started last: it must not come again."""
        self._members: dict[str, set[int]] = {}
        """Topic → the other members, as far as the subscription is in effect."""

    def follow(self, peer: WatchedPeer, outputs: Iterable[Output]) -> None:
        """Raise AssertionError if the outputs of an input contradict each other, or what `peer` says now."""
        subscribed = set()
        for output in outputs:
            match output:
                case Arrived():
                    self._arrived(output)
                case Departed(node, incarnation):
                    found, _ = self._present.pop(node, (None, b""))
                    assert found == incarnation, (
                        f"incarnation {incarnation} of {node} departs, {found} was there"
                    )
                    self._departed[node] = incarnation
                case Restarted():
                    self._departed.clear()
                    self._members.clear()
                case Subscribed(topic):
                    subscribed.add(topic)
                case Unsubscribed(topic):
                    subscribed.discard(topic)
                case MemberJoined(topic, node) if topic in self._members:
                    assert node not in self._members[topic], f"{node} joins {topic}, where it is a member"
                    self._members[topic].add(node)
                case MemberLeft(topic, node) if topic in self._members:
                    assert node in self._members[topic], f"{node} leaves {topic}, where it is no member"
                    self._members[topic].remove(node)
                case Send(destination):
                    assert destination != peer.node, "sends something to itself"
        present = {node: (incarnation, peer.address_of(node)) for node, incarnation in peer.present.items()}
        assert self._present == present, f"has told of {self._present}, and {present} are present"
        for topic in [*self._members, *subscribed]:
            members = peer.members(topic).keys() - {peer.node}
            if not peer.can_unsubscribe(topic):
                self._members.pop(topic, None)
            elif topic in subscribed or topic not in self._members:
                self._members[topic] = members
            else:
                told = self._members[topic]
                assert told == members, f"has told that {told} are in {topic}, and {members} are"

    def _arrived(self, arrived: Arrived) -> None:
        node, incarnation = arrived.node, arrived.incarnation
        found, address = self._present.get(node, (None, b""))
        if found is None:
            departed = self._departed.get(node, -1)
            assert incarnation > departed, f"{node} arrives as {incarnation}, {departed} has departed"
        else:
            assert found == incarnation, f"{node} arrives as {incarnation}, and {found} has not departed"
            assert arrived.address != address, f"{node} arrives a second time, and nothing is new"
        self._present[node] = incarnation, arrived.address


class CheckedPeer(WatchedPeer):
    """A peer that checks after every input whether all of that holds."""

    __slots__ = ("_told",)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._told: Told | None = None

    def start(self) -> list[Output]:
        self._told = Told(self)
        return super().start()

    def _take_outputs(self) -> list[Output]:
        outputs = super()._take_outputs()
        self.check()
        if self._told is not None:
            self._told.follow(self, outputs)
        return outputs
