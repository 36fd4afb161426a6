"""Nodes that crash: what the survivors tell each other, and when a crash is final, and over.

Whoever learns of a crash repairs its broadcasts and *flushes*: it sends every living node what
it holds of the dead and where it stands itself. When the flushes of all living nodes cover all
crashes known here, nothing of the dead can turn up any more and the crashes are *final*: the
dead leave the views, and a dependency on a message that nobody holds counts as met.

A crash is *over* when it is final at every living node and nothing of the dead waits for its turn there: then
nobody needs what is kept of the dead. The living node with the smallest id collects who has got there, and says so.
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
        "_ahead", "_asked", "_broadcasts", "_expected", "_final_at", "_flushed", "_last_publications", "_local",
        "_not_over", "_on_final", "_reported", "_sequence", "_told", "_waiting_for", "is_report_due",
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
        self._not_over: Incarnations = {}
        """Crashes that are final here and not known to be over."""
        self._final_at: dict[int, Incarnations] = {}
        """Living node → crashes of `_not_over` that are final there too, by its own word or because it came later."""
        self._reported: tuple[int, Incarnations] | None = None
        """Whom this node has told last, and of which crashes."""
        self._asked: Incarnations = {}
        """Crashes of `_not_over` that this node has asked the others about, as their collector, or need not: nobody
        else can have collected them."""
        self._told: Incarnations = {}
        """Crashes that this node was told of when it came up: somebody else may have collected them."""
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
        # Some that are held may have been replaced by newer incarnations: the flush says that those are no more, too.
        dead = {source: incarnation_of(m.counter) for each in held.values() for source, m in each.items()}
        merge_newest(dead, self._local.dead)
        for other in self._local.living:
            self._send_flush(other, dead, held, subscriptions)

    def answer(self, sender: int, flush: Flush) -> None:
        """This node has done with what the sender is flushing, or holds nothing because it is not up; the sender
        waits for its flush all the same."""
        self._send_flush(sender, {**flush.dead, **self._local.dead}, {}, {}, is_answer=True)

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
            if any(x not in local.dead and x not in self._not_over for x in flush.dead if x != local.me):
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
        if self._not_over:
            self._final_at[newcomer] = dict(self._not_over)
            self.is_report_due = True

    def _drop(self, node: int) -> None:
        """What was kept of an incarnation of `node` that is no more."""
        if self._reported is not None and self._reported[0] == node:
            self._reported = None
        for kept in (self._ahead, self._expected, self._final_at, self._flushed, self._sequence):
            kept.pop(node, None)
        self._waiting_for.discard(node)

    def start(self) -> None:
        """This node goes up: find out whose flushes it waits for, and tell them what it knows."""
        local = self._local
        self._waiting_for = {other for other in local.living if not self._covers(other, local.fresh)}
        self._told = local.fresh
        if local.fresh:
            self.flush()

    def _covers(self, other: int, crashes: Mapping[int, int]) -> bool:
        """Whether the flushes of `other` cover these crashes."""
        flushed = self._flushed.get(other, {})
        return all(flushed.get(victim, -1) >= newest for victim, newest in crashes.items() if victim != other)

    def check(self) -> None:
        """As `LocalNode.check`."""
        local = self._local
        for kept in (self._ahead, self._expected, self._sequence, self._flushed, self._final_at):
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
        if self._collector() == local.me:
            collected = {x: newest for x, newest in local.fresh.items() if self._told.get(x, -1) < newest}
            merge_newest(self._asked, collected)
        local.settle()
        self._flushed.clear()
        merge_newest(self._not_over, local.final)
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
        """Tell the collector which crashes are final here, once nothing of the dead is held back any more."""
        local = self._local
        if not local.up or not local.is_settled():
            return
        if any(topic.holds_back_of(self._not_over) for topic in self._broadcasts.topics()):
            return
        self.is_report_due = False
        collector = self._collector()
        if collector == local.me:
            self._ask()
            self._try_over()
            return
        if self._not_over and self._reported != (collector, self._not_over):
            self._reported = collector, dict(self._not_over)
            local.send(collector, Final(local.incarnation, local.known[collector], dict(self._not_over)))

    def _collector(self) -> int:
        local = self._local
        return min(min(local.living, default=local.me), local.me)

    def _ask(self) -> None:
        """Who has been told by another collector that a crash is over does not report it to this one unless asked."""
        local = self._local
        news = {x: newest for x, newest in self._not_over.items() if self._asked.get(x, -1) < newest}
        if news:
            merge_newest(self._asked, news)
            for other, incarnation in local.living.items():
                local.send(other, Final(local.incarnation, incarnation, news, is_question=True))

    def on_final(self, sender: int, final: Final) -> None:
        local = self._local
        # What is not among these was over before, and forgotten, or final before this node came.
        open_here = {
            x: newest
            for x, newest in final.dead.items()
            if x in self._not_over or x in local.dead or newest >= self._present(x, newest + 1)
        }
        done = {x: newest for x, newest in final.dead.items() if x not in open_here}
        if done and final.is_question:
            local.send(sender, Final(local.incarnation, final.origin, done, is_answer=True))
        elif done and not final.is_answer:
            # Of a node that has come back, it cannot be told which of the two it is: somebody may hold things back.
            came_back = {x: newest for x, newest in done.items() if self._present(x, -1) >= 0}
            over = {x: newest for x, newest in done.items() if x not in came_back}
            if over:
                local.send(sender, Over(local.incarnation, final.origin, over))
            merge_newest(self._not_over, came_back)
            open_here.update(came_back)
        if open_here:
            merge_newest(self._final_at.setdefault(sender, {}), open_here)
            self.is_report_due = True

    def _present(self, node: int, otherwise: int) -> int:
        """As which incarnation `node`, which may be this one, is there."""
        local = self._local
        return local.incarnation if node == local.me else local.living.get(node, otherwise)

    def _try_over(self) -> None:
        """This node has no objection: is there anybody who has not said so?"""
        local = self._local
        over = {
            victim: newest
            for victim, newest in self._not_over.items()
            if all(self._final_at.get(other, {}).get(victim, -1) >= newest for other in local.living)
        }
        if over:
            for other, incarnation in local.living.items():
                local.send(other, Over(local.incarnation, incarnation, over))
            self._forget(over)

    def on_over(self, over: Over) -> None:
        local = self._local
        self._forget(
            {
                x: newest
                for x, newest in over.dead.items()
                if newest <= (local.incarnation - 1 if x == local.me else local.ended_finally(x))
            }
        )

    def _forget(self, over: Incarnations) -> None:
        local = self._local
        for kept in (self._not_over, self._asked, *self._final_at.values()):
            for victim, newest in over.items():
                if kept.get(victim, newest + 1) <= newest:
                    del kept[victim]
        self._final_at = {other: final for other, final in self._final_at.items() if final}
        self._broadcasts.forget(over)
        local.forget(over)
