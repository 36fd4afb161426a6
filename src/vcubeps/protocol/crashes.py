"""Nodes that crash: what the survivors tell each other, and when a crash is final.

Whoever learns of a crash repairs its broadcasts and *flushes*: it sends every living node what
it holds of the dead and where it stands itself. When the flushes of all living nodes cover all
crashes known here, nothing of the dead can turn up any more and the crashes are *final*: the
dead leave the views, and a dependency on a message that nobody holds counts as met.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from vcubeps.protocol.broadcasts import Broadcasts
from vcubeps.protocol.local import LocalNode, StartAgain, merge_newest
from vcubeps.protocol.messages import (
    ANY_INCARNATION,
    Fence,
    Flush,
    Incarnations,
    Publication,
    incarnation_of,
)
from vcubeps.protocol.outputs import RestartReason
from vcubeps.protocol.topic import Phase, Topic


class Crashes:
    """The crashes that one node knows of, and how far the survivors agree on them."""

    __slots__ = (
        "_ahead", "_broadcasts", "_expected", "_flushed", "_last_publications", "_local",
        "_on_final", "_sequence",
    )  # fmt: skip

    def __init__(
        self,
        local: LocalNode,
        broadcasts: Broadcasts,
        on_final: Callable[[], None],
    ) -> None:
        self._local = local
        self._broadcasts = broadcasts
        self._on_final = on_final
        self._flushed: dict[int, Incarnations] = {}
        """Node → the crashes that its flushes covered."""
        self._last_publications: dict[int, dict[str, int]] = {}
        """Node → topic → its last publication when it flushed; becomes the cut when the crash is final."""
        self._sequence: dict[tuple[int, int], int] = {}
        """(node, incarnation) → number of the last flush sent to it."""
        self._expected: dict[tuple[int, int], int] = {}
        """(node, incarnation) → number of the next flush to handle from it."""
        self._ahead: dict[tuple[int, int], dict[int, Flush]] = {}
        """Flushes that overtook an earlier one."""

    def __len__(self) -> int:
        """Flushes that wait for an earlier one."""
        return sum(map(len, self._ahead.values()))

    # -- learning of crashes -------------------------------------------------------------------

    def learn(self, reported: Mapping[int, int]) -> None:
        """Another node says that these incarnations have crashed."""
        local = self._local
        if reported.get(local.me, -1) >= local.incarnation:
            raise StartAgain(RestartReason.DECLARED_CRASHED)
        news = local.unknown_crashes(reported)
        if news:
            self.crashed(news)

    def crashed(self, crashes: Mapping[int, int]) -> None:
        """These incarnations, unknown as dead until now, have crashed (or are treated as if)."""
        local = self._local
        self.declare_dead(crashes)
        for victim, incarnation in crashes.items():
            # It may live, wrongly suspected: then it has to start again.
            local.send(victim, Fence(local.incarnation, ANY_INCARNATION, incarnation))
        self.flush()
        self._broadcasts.repair()
        self.try_final()

    def declare_dead(self, crashes: Mapping[int, int]) -> None:
        """Note these crashes and forget what could only matter to the dead."""
        self._local.declare_dead(crashes)
        dead = self._local.dead
        _drop_dead(self._ahead, dead)
        _drop_dead(self._expected, dead)
        _drop_dead(self._sequence, dead)

    # -- flushing ------------------------------------------------------------------------------

    def flush(self) -> None:
        local = self._local
        held: dict[str, dict[int, Publication]] = {}
        subscriptions: dict[str, tuple[int, int]] = {}
        for topic in self._broadcasts.topics():
            of_the_dead = topic.newest_of_the_dead()
            if of_the_dead:
                held[topic.name] = of_the_dead
            if topic.phase is not Phase.LEAVING:
                subscriptions[topic.name] = (topic.counter, topic.last_publication)
        for other in sorted(local.nodes):
            if other != local.me and not local.is_dead(other):
                self._send_flush(other, held, subscriptions)

    def answer_while_booting(self, sender: int) -> None:
        """A node that is not up holds nothing, but the others wait for its flush all the same."""
        self._send_flush(sender, {}, {})

    def _send_flush(
        self,
        destination: int,
        held: dict[str, dict[int, Publication]],
        subscriptions: dict[str, tuple[int, int]],
    ) -> None:
        local = self._local
        target = local.known_incarnation(destination)
        sequence = self._sequence.get((destination, target), 0) + 1
        self._sequence[destination, target] = sequence
        flush = Flush(
            local.incarnation, target, sequence, dict(local.dead), held, local.counter, subscriptions
        )
        local.send(destination, flush)

    def in_order(self, sender: int, flush: Flush) -> list[Flush]:
        """The flushes of `sender` that can be handled now, in their order; a later one waits."""
        key = (sender, flush.origin)
        expected = self._expected.get(key, 1)
        if flush.sequence != expected:
            if flush.sequence > expected:
                self._ahead.setdefault(key, {})[flush.sequence] = flush
            return []
        ready = [flush]
        ahead = self._ahead.get(key, {})
        while expected + len(ready) in ahead:
            ready.append(ahead.pop(expected + len(ready)))
        if not ahead:
            self._ahead.pop(key, None)
        self._expected[key] = expected + len(ready)
        return ready

    def on_flush(self, sender: int, flush: Flush) -> None:
        local = self._local
        if flush.dead.get(local.me, -1) >= local.incarnation:
            raise StartAgain(RestartReason.DECLARED_CRASHED)
        last = self._last_publications.setdefault(sender, {})
        for name, (_, publication) in flush.subscriptions.items():
            last[name] = max(last.get(name, 0), publication)
        topics = {topic.name: topic for topic in self._broadcasts.topics()}
        for name, held in flush.held.items():
            self._take_held(topics.get(name), held)
        self.learn(flush.dead)
        for topic in self._broadcasts.topics():
            self._compare_membership(topic, sender, flush)
        self.note_flushed(sender, flush.dead)
        self.try_final()

    def _take_held(self, topic: Topic | None, held: dict[int, Publication]) -> None:
        local = self._local
        for source, publication in held.items():
            local.clock = max(local.clock, publication.stamp)
            settled = incarnation_of(publication.counter) <= local.final.get(source, -1)
            if topic is not None and source != local.me and not settled:
                self._broadcasts.receive_held(topic, publication)

    def _compare_membership(self, topic: Topic, sender: int, flush: Flush) -> None:
        """The sender has left, and the leave may have died with a relay."""
        if topic.phase is Phase.LEAVING:
            return
        member = topic.view.members.get(sender)
        if member is None or member.counter > flush.counter:
            return
        subscription = flush.subscriptions.get(topic.name)
        if subscription is None or subscription[0] != member.counter:
            topic.remove(sender)
            self._broadcasts.deliver_all(topic)

    def note_flushed(self, sender: int, dead: Mapping[int, int]) -> None:
        merge_newest(self._flushed.setdefault(sender, {}), dead)

    def forget_flushes(self, sender: int) -> None:
        """A new incarnation of `sender` has flushed nothing yet."""
        self._flushed.pop(sender, None)

    def check(self) -> None:
        """As `LocalNode.check`."""
        for kept in (self._ahead, self._expected, self._sequence):
            for node, incarnation in kept:
                assert incarnation > self._local.dead.get(node, -1), f"keeps flushes of the dead node {node}"
        assert all(self._ahead.values()), "keeps an empty set of flushes"

    # -- finality ------------------------------------------------------------------------------

    def try_final(self) -> None:
        local = self._local
        if local.is_settled():
            return
        for other in local.nodes:
            if other == local.me or local.is_dead(other):
                continue
            flushed = self._flushed.get(other, {})
            for victim, incarnation in local.dead.items():
                if victim != other and flushed.get(victim, -1) < incarnation:
                    return
        if not local.has_quorum():
            # Suspicions add up: those of two majorities that overlap may leave less than a quorum.
            raise StartAgain(RestartReason.NO_QUORUM)
        local.settle()
        topics = [topic for topic in self._broadcasts.topics() if topic.phase is not Phase.LEAVING]
        for topic in topics:
            for other, last in self._last_publications.items():
                if topic.name in last:
                    topic.cut[other] = max(topic.cut.get(other, 0), last[topic.name])
        self._last_publications.clear()
        for topic in topics:
            if topic.phase is Phase.MEMBER:
                topic.purge_dead()
                self._broadcasts.deliver_all(topic)
        self._broadcasts.resume()
        self._on_final()


_Kept = TypeVar("_Kept")


def _drop_dead(kept: dict[tuple[int, int], _Kept], dead: Mapping[int, int]) -> None:
    for node, incarnation in list(kept):
        if incarnation <= dead.get(node, -1):
            del kept[node, incarnation]
