"""Nodes that crash: what the survivors tell each other, and when a crash is final, and over.

Whoever learns of a crash repairs its broadcasts and *flushes*: it sends every living node what
it holds of the dead and where it stands itself. When the flushes of all living nodes cover all
crashes known here, nothing of the dead can turn up any more and the crashes are *final*: the
dead leave the views, and a dependency on a message that nobody holds counts as met.

A crash is *over* when it is final at every living node and nothing of the dead waits for its turn there: then
nobody needs what is kept of the dead. The living node with the smallest id, the *collector*, is told of crashes that
are final, asks those who say nothing, and tells all when everybody has got there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vcubeps.protocol.broadcasts import Broadcasts
from vcubeps.protocol.local import LocalNode, StartAgain, merge_newest
from vcubeps.protocol.messages import (
    ANY_INCARNATION,
    Fence,
    Final,
    Flush,
    Incarnations,
    IsFinal,
    Over,
    Publication,
    incarnation_of,
)
from vcubeps.protocol.outputs import RestartReason
from vcubeps.protocol.topic import Phase, Topic


class Crashes:
    """The crashes that one node knows of, and how far the survivors agree on them.

    Invariants, while this node is up: `_waiting_for` are the living nodes whose flushes do not cover all that is
    fresh; it is empty if nothing is fresh. `is_report_due` if this node has something to tell that it may tell soon.
    """

    __slots__ = (
        "_ahead", "_asked_by", "_broadcasts", "_expected", "_final_at", "_flushed", "_inquired",
        "_last_publications", "_local", "_on_final", "_sequence", "_told", "_waiting_for", "is_report_due",
        "not_over",
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
        """Node → the crashes that its flushes covered, as far as they are not final."""
        self._waiting_for: set[int] = set()
        self._last_publications: dict[int, dict[str, int]] = {}
        """Node → topic → its last publication when it flushed; becomes the cut when the crash is final."""
        self._sequence: dict[int, int] = {}
        """Living node → number of the last flush sent to it."""
        self._expected: dict[int, int] = {}
        """Living node → number of the next flush to handle from it."""
        self._ahead: dict[int, dict[int, Flush]] = {}
        """Living node → its flushes that overtook an earlier one, by number."""
        self.not_over: Incarnations = {}
        """Crashes that are final here and not known to be over."""
        self._final_at: dict[int, Incarnations] = {}
        """Living node → crashes, not known to be over, that are final there, by its own word or because it came later.
        Kept by whoever is told, collector or not: nobody says it twice unless asked."""
        self._inquired: dict[int, Incarnations] = {}
        """At the collector: living node → crashes that it has been asked about."""
        self._asked_by: dict[int, Incarnations] = {}
        """Living node → crashes that it has asked this one about, until that is answered."""
        self._told: dict[int, Incarnations] = {}
        """Living node → crashes, not over yet, of which this one has told it, since the last crash, that they are final
        here. Whoever dies may have told some that it is over and others not; those say it again."""
        self.is_report_due = False

    def __len__(self) -> int:
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
        self._told.clear()
        for other in local.living:
            if other not in self._waiting_for and not self._covers(other, crashes):
                self._waiting_for.add(other)

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
        return node not in self._local.dead and self.not_over.get(node, -1) < incarnation

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
        if flush.sequence != expected:
            if flush.sequence > expected:
                self._ahead.setdefault(sender, {})[flush.sequence] = flush
            return []
        ready = [flush]
        ahead = self._ahead.get(sender, {})
        while expected + len(ready) in ahead:
            ready.append(ahead.pop(expected + len(ready)))
        if not ahead:
            self._ahead.pop(sender, None)
        self._expected[sender] = expected + len(ready)
        return ready

    def on_flush(self, sender: int, flush: Flush) -> None:
        local = self._local
        if flush.dead.get(local.me, -1) >= local.incarnation:
            raise StartAgain(RestartReason.DECLARED_CRASHED, flush.dead[local.me])
        if not flush.is_answer:
            last = self._last_publications.setdefault(sender, {})
            for name, (_, publication) in flush.subscriptions.items():
                last[name] = max(last.get(name, 0), publication)
            topics = {topic.name: topic for topic in self._broadcasts.topics()}
            for name, held in flush.held.items():
                self._take_held(topics.get(name), held)
        self.learn(flush.dead)
        if not flush.is_answer:
            for topic in self._broadcasts.topics():
                self._compare_membership(topic, sender, flush)
            if any(self._has_done_with(x, newest) for x, newest in flush.dead.items() if x != local.me):
                self.answer(sender, flush)
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
        if dead:
            merge_newest(self._flushed.setdefault(sender, {}), dead)
            if sender in self._waiting_for and self._covers(sender, self._local.fresh):
                self._waiting_for.discard(sender)

    def let_in(self, newcomer: int) -> None:
        """A new incarnation of `newcomer` has flushed nothing yet; it needs nothing of what is final by now."""
        self._drop(newcomer)
        candidates = self._candidates()
        if candidates:
            self._final_at[newcomer] = candidates
            self.is_report_due = True

    def give_up_copies(self) -> None:
        """This node may have passed something on to an incarnation that it had not let in, and that is no more."""
        self._broadcasts.repair()

    def _drop(self, node: int) -> None:
        """What was kept of an incarnation of `node` that is no more."""
        for kept in (
            self._ahead, self._asked_by, self._expected, self._final_at, self._flushed, self._inquired, self._sequence,
            self._told,
        ):  # fmt: skip
            kept.pop(node, None)
        self._waiting_for.discard(node)

    def start(self) -> None:
        """This node goes up: find out whose flushes it waits for, and tell them what it knows."""
        local = self._local
        self._waiting_for = {other for other in local.living if not self._covers(other, local.fresh)}
        if local.fresh:
            self.flush()

    def _covers(self, other: int, crashes: Mapping[int, int]) -> bool:
        """Whether the flushes of `other` cover these crashes."""
        flushed = self._flushed.get(other, {})
        return all(flushed.get(victim, -1) >= newest for victim, newest in crashes.items() if victim != other)

    def check(self) -> None:
        """As `LocalNode.check`."""
        local = self._local
        for kept in (
            self._ahead, self._asked_by, self._expected, self._final_at, self._flushed, self._inquired, self._sequence,
            self._told,
        ):  # fmt: skip
            strangers = kept.keys() - local.living.keys()
            assert not strangers, f"keeps flushes of {strangers}, who do not live"
        assert all(self._ahead.values()), "keeps an empty set of flushes"
        if local.up:
            waiting_for = {other for other in local.living if not self._covers(other, local.fresh)}
            assert self._waiting_for == waiting_for, f"waits for {self._waiting_for} instead of {waiting_for}"
            assert not local.fresh or waiting_for, "a crash is not final although all flushes are there"

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
        merge_newest(self.not_over, local.final)
        self.is_report_due = True
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

    # -- when it is over -----------------------------------------------------------------------

    def try_report(self) -> None:
        """Say which crashes are final here, once nothing of the dead is held back any more."""
        local = self._local
        if not local.up or not local.is_settled():
            return
        subject = dict(self.not_over)
        for dead in self._asked_by.values():
            merge_newest(subject, dead)
        if any(topic.holds_back_of(subject) for topic in self._broadcasts.topics()):
            return
        self.is_report_due = False
        asked_by, self._asked_by = self._asked_by, {}
        collector = min(local.living, default=local.me)
        if collector < local.me:
            self._inquired.clear()
            merge_newest(asked_by.setdefault(collector, {}), self.not_over)
        for asker, dead in asked_by.items():
            self._report(asker, dead)
        if collector >= local.me:
            self._try_over()

    def _report(self, destination: int, dead: Incarnations) -> None:
        """Unless it has been told already."""
        told = self._told.setdefault(destination, {})
        news = {x: newest for x, newest in dead.items() if told.get(x, -1) < newest}
        if news:
            merge_newest(told, news)
            self._local.send(
                destination, Final(self._local.incarnation, self._local.living[destination], news)
            )

    def on_is_final(self, sender: int, question: IsFinal) -> None:
        merge_newest(self._asked_by.setdefault(sender, {}), question.dead)
        told = self._told.get(sender, {})
        for victim in question.dead:
            told.pop(victim, None)  # whoever asks does not know it, or not any more
        self.is_report_due = True

    def on_final(self, sender: int, final: Final) -> None:
        merge_newest(self._final_at.setdefault(sender, {}), final.dead)
        self.is_report_due = True

    def _candidates(self) -> Incarnations:
        """Crashes that may be over, as far as this node knows."""
        candidates = dict(self.not_over)
        for final in self._final_at.values():
            merge_newest(candidates, final)
        return candidates

    def _try_over(self) -> None:
        """This node, the collector, has no objection: ask those who have not said so, if there are any."""
        local = self._local
        over = self._candidates()
        for other, incarnation in local.living.items():
            final = self._final_at.get(other, {})
            missing = {x: newest for x, newest in over.items() if final.get(x, -1) < newest}
            if not missing:
                continue
            inquired = self._inquired.setdefault(other, {})
            if any(inquired.get(x, -1) < newest for x, newest in missing.items()):
                merge_newest(inquired, missing)
                local.send(other, IsFinal(local.incarnation, incarnation, missing))
            over = {x: newest for x, newest in over.items() if x not in missing}
        if over:
            for other, incarnation in local.living.items():
                local.send(other, Over(local.incarnation, incarnation, over))
            self._forget(over)

    def on_over(self, over: Over) -> None:
        local = self._local
        # What is said of it is void in any case; what is kept of it, only if this node has done with it too.
        self._forget_reports(over.dead)
        self._forget(
            {
                x: newest
                for x, newest in over.dead.items()
                if newest <= local.ended_finally(x)
                or (
                    newest < local.incarnation
                    if x == local.me
                    else x not in local.living.keys() | local.fresh
                )
            }
        )

    def _forget(self, over: Incarnations) -> None:
        self._forget_reports(over)
        for victim, newest in over.items():
            if self.not_over.get(victim, newest + 1) <= newest:
                del self.not_over[victim]
        self._broadcasts.forget(over)
        self._local.forget(over)

    def _forget_reports(self, over: Incarnations) -> None:
        """What nodes have said, asked or been told of these crashes."""
        for each in (self._final_at, self._inquired, self._told):
            for other, kept in list(each.items()):
                for victim, newest in over.items():
                    if kept.get(victim, newest + 1) <= newest:
                        del kept[victim]
                if not kept:
                    del each[other]
