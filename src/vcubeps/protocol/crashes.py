"""Nodes that crash: what the survivors tell each other, and when a crash is final.

Whoever learns of a crash repairs its broadcasts and *flushes*: it sends every living node what
it holds of the dead and where it stands itself. When the flushes of all living nodes cover all
crashes known here, nothing of the dead can turn up any more and the crashes are *final*: the
dead leave the views, and a dependency on a message that nobody holds counts as met.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vcubeps.protocol.aftermath import Aftermath
from vcubeps.protocol.broadcasts import Broadcasts
from vcubeps.protocol.causality import raise_entries
from vcubeps.protocol.local import LocalNode, StartAgain, merge_newest
from vcubeps.protocol.messages import (
    ANY_INCARNATION,
    Barrier,
    Fence,
    Flush,
    Incarnations,
    Publication,
    incarnation_of,
)
from vcubeps.protocol.outputs import RestartReason
from vcubeps.protocol.topic import Phase, Topic


class Crashes:
    """The crashes that one node knows of, and how far the survivors agree on them.

    Invariants, while this node is up: `_waiting_for` are the living nodes whose flushes do not cover all that is
    fresh; it is empty if nothing is fresh.
    """

    __slots__ = (
        "_aftermath", "_ahead", "_broadcasts", "_expected", "_flushed", "_last_publications", "_local", "_on_final",
        "_sequence", "_waiting_for",
    )  # fmt: skip

    def __init__(
        self,
        local: LocalNode,
        broadcasts: Broadcasts,
        aftermath: Aftermath,
        on_final: Callable[[], None],
    ) -> None:
        self._local = local
        self._broadcasts = broadcasts
        self._aftermath = aftermath
        self._on_final = on_final
        self._flushed: dict[int, Incarnations] = {}
        """Node → the crashes that its flushes covered, as far as they are not final."""
        self._waiting_for: set[int] = set()
        self._last_publications: dict[str, Barrier] = {}
        """Topic → node → its last publication when it flushed; becomes the cut when the crash is final."""
        self._sequence: dict[int, int] = {}
        """Living node → number of the last flush sent to it."""
        self._expected: dict[int, int] = {}
        """Living node → number of the next flush to handle from it."""
        self._ahead: dict[int, dict[int, Flush]] = {}
        """Living node → its flushes that overtook an earlier one, by number."""

    @property
    def unfinished(self) -> int:
        """Flushes that wait for an earlier one."""
        return sum(map(len, self._ahead.values()))

    # -- learning of crashes -------------------------------------------------------------------

    def learn(self, reported: Mapping[int, int]) -> None:
        """Another node says that these incarnations have crashed."""
        local = self._local
        if reported.get(local.me, -1) >= local.incarnation:
            raise StartAgain(RestartReason.DECLARED_CRASHED, reported[local.me])
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
        local = self._local
        local.declare_dead(crashes)
        for victim in crashes:
            self._drop(victim)
        self._aftermath.crashed(crashes)
        # Whoever flushed this before would have told this node of it.
        self._waiting_for = set(local.living)

    # -- flushing ------------------------------------------------------------------------------

    def flush(self) -> None:
        held: dict[str, dict[int, Publication]] = {}
        subscriptions: dict[str, tuple[int, int]] = {}
        for topic in self._broadcasts.topics():
            of_the_dead = topic.newest_of_the_dead()
            if of_the_dead:
                held[topic.name] = of_the_dead
            if topic.phase is not Phase.LEAVING:
                subscriptions[topic.name] = (topic.counter, topic.last_publication)
        dead = dict(self._local.dead)
        for of_the_dead in held.values():
            # Some may have been replaced by newer incarnations: the flush says that those are no more, too.
            merge_newest(dead, {source: incarnation_of(m.counter) for source, m in of_the_dead.items()})
        for other in self._local.living:
            self._send_flush(other, dead, held, subscriptions)

    def answer(self, sender: int, flush: Flush) -> None:
        """This node has done with what the sender is flushing, or holds nothing because it is not up; the sender
        waits for its flush all the same."""
        dead = {**flush.dead, **self._local.dead}
        self._send_flush(sender, dead, {}, {}, is_answer=True)

    def _has_done_with(self, node: int, incarnation: int) -> bool:
        """Whether this node has not flushed that `incarnation` has crashed, and never will: it is over here, or has
        never been dealt with, because the next one came first."""
        return node not in self._local.dead and self._aftermath.not_over.get(node, -1) < incarnation

    def _send_flush(
        self,
        destination: int,
        dead: Incarnations,
        held: dict[str, dict[int, Publication]],
        subscriptions: dict[str, tuple[int, int]],
        is_answer: bool = False,
    ) -> None:
        local = self._local
        target = local.living[destination]
        sequence = self._sequence[destination] = self._sequence.get(destination, 0) + 1
        local.send(
            destination,
            Flush(local.incarnation, target, sequence, dead, held, local.counter, subscriptions, is_answer),
        )

    def in_order(self, sender: int, flush: Flush) -> list[Flush]:
        """The flushes of `sender` that can be handled now, in their order; a later one waits."""
        expected = self._expected.get(sender, 1)
        if flush.sequence < expected:
            return []
        ready: list[Flush] = []
        ahead = self._ahead.setdefault(sender, {})
        ahead[flush.sequence] = flush
        while expected in ahead:
            ready.append(ahead.pop(expected))
            expected += 1
        self._expected[sender] = expected
        if not ahead:
            del self._ahead[sender]
        return ready

    def on_flush(self, sender: int, flush: Flush) -> None:
        local = self._local
        topics = {topic.name: topic for topic in self._broadcasts.topics()}
        for name, held in flush.held.items():
            self._take_held(topics.get(name), held)
        self.learn(flush.dead)
        if not flush.is_answer:
            for topic in self._broadcasts.topics():
                self._compare_membership(topic, sender, flush)
            if any(self._has_done_with(x, newest) for x, newest in flush.dead.items() if x != local.me):
                self.answer(sender, flush)
        if not local.is_settled():  # otherwise it is about crashes that are final here already
            for name, (_, publication) in flush.subscriptions.items():
                raise_entries(self._last_publications.setdefault(name, {}), {sender: publication})
            self.note_flushed(sender, flush.dead)
            self.try_final()

    def _take_held(self, topic: Topic | None, held: dict[int, Publication]) -> None:
        local = self._local
        for source, publication in held.items():
            local.clock = max(local.clock, publication.stamp)
            settled = incarnation_of(publication.counter) <= local.ended_finally(source)
            if topic is not None and source != local.me and not settled:
                self._broadcasts.receive_held(topic, publication)

    def _compare_membership(self, topic: Topic, sender: int, flush: Flush) -> None:
        """The sender has left, and the leave may have died with a relay."""
        member = topic.view.members.get(sender)
        if member is None or member.counter > flush.counter:
            return
        subscription = flush.subscriptions.get(topic.name)
        if subscription is None or subscription[0] != member.counter:
            # Noted, lest a late copy of its SUB make it a member again.
            topic.apply_leave(sender, member.counter)
            self._broadcasts.deliver_all(topic)

    def note_flushed(self, sender: int, dead: Mapping[int, int]) -> None:
        merge_newest(self._flushed.setdefault(sender, {}), dead)
        if self._covers(sender, self._local.fresh):
            self._waiting_for.discard(sender)

    def begin_with(self, newcomer: int) -> None:
        """A new incarnation of `newcomer` has flushed nothing yet."""
        self._drop(newcomer)
        self._aftermath.begin_with(newcomer)

    def give_up_copies(self) -> None:
        """This node may have passed something on to an incarnation that it had not let in, and that is no more."""
        self._broadcasts.repair()

    def _drop(self, node: int) -> None:
        """What was kept of an incarnation of `node` that is no more."""
        for kept in (self._ahead, self._expected, self._flushed, self._sequence):
            kept.pop(node, None)

    def start(self) -> None:
        """This node goes up: find out whose flushes it waits for, and tell them what it knows."""
        local = self._local
        self._waiting_for = {other for other in local.living if not self._covers(other, local.fresh)}
        if local.fresh:
            self.flush()
        else:
            self._flushed.clear()

    def _covers(self, other: int, crashes: Mapping[int, int]) -> bool:
        """Whether the flushes of `other` cover these crashes."""
        flushed = self._flushed.get(other, {})
        return all(flushed.get(victim, -1) >= newest for victim, newest in crashes.items())

    def check(self) -> None:
        """As `LocalNode.check`."""
        local = self._local
        for kept in (self._ahead, self._expected, self._flushed, self._sequence):
            strangers = kept.keys() - local.living.keys()
            assert not strangers, f"keeps flushes of {strangers}, who do not live"
        assert all(self._ahead.values()), "keeps an empty set of flushes"
        if local.up:
            waiting_for = {other for other in local.living if not self._covers(other, local.fresh)}
            assert self._waiting_for == waiting_for, f"waits for {self._waiting_for} instead of {waiting_for}"
            assert not local.fresh or waiting_for, "a crash is not final although all flushes are there"
            assert local.fresh or not (self._flushed or self._last_publications), "keeps what was flushed"

    # -- finality ------------------------------------------------------------------------------

    def try_final(self) -> None:
        local = self._local
        if local.is_settled() or self._waiting_for:
            return
        if not local.has_quorum():
            # Suspicions add up: those of two majorities that overlap may leave less than a quorum.
            raise StartAgain(RestartReason.NO_QUORUM)
        local.settle()
        self._flushed.clear()
        self._aftermath.final(local.final)
        last_publications, self._last_publications = self._last_publications, {}
        for topic in self._broadcasts.topics():
            raise_entries(topic.cut, last_publications.get(topic.name, {}))
            if topic.phase is Phase.MEMBER:
                topic.purge_dead()
                self._broadcasts.deliver_all(topic)
        self._broadcasts.resume()
        self._on_final()
