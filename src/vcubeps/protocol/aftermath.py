"""After a crash is final: when it is over, so that nobody needs what is kept of the dead.

A crash is *over* when it is final at every living node and nothing of the dead waits for its turn there. The living
node with the smallest id, the *collector*, is told of crashes that are final, asks those who say nothing, and tells all
when everybody has got there.
"""

from __future__ import annotations

from collections.abc import Iterable

from vcubeps.protocol.broadcasts import Broadcasts
from vcubeps.protocol.local import LocalNode, merge_newest
from vcubeps.protocol.messages import Final, Incarnations, IsFinal, Over


class Aftermath:
    """The crashes that are final here and not over, and what nodes have said, asked and been told of them.

    `is_due` if this node has something to tell that it may tell soon.
    """

    __slots__ = (
        "_asked_by", "_broadcasts", "_final_at", "_inquired", "_local", "_told", "is_due", "not_over",
    )  # fmt: skip

    def __init__(self, local: LocalNode, broadcasts: Broadcasts) -> None:
        self._local = local
        self._broadcasts = broadcasts
        self.not_over: Incarnations = {}
        """Crashes that are final here and not known to be over."""
        self._final_at: dict[int, Incarnations] = {}
        """Living node → crashes, not known to be over, that are final there, by its own word or because it came later.
        Kept by whoever is told, collector or not: nobody says it twice unless asked, or somebody else crashes."""
        self._inquired: dict[int, Incarnations] = {}
        """Living node → crashes, not known to be over, that this one, as the collector, has asked it about."""
        self._asked_by: dict[int, Incarnations] = {}
        """Living node → crashes that it has asked this one about, until that is answered."""
        self._told: dict[int, Incarnations] = {}
        """Living node → crashes, not over yet, of which this one has told it, since the last crash, that they are final
        here. Whoever dies may have told some that it is over and others not; those say it again."""
        self.is_due = False

    def check(self) -> None:
        """As `LocalNode.check`."""
        for kept in (self._asked_by, self._final_at, self._inquired, self._told):
            strangers = kept.keys() - self._local.living.keys()
            assert not strangers, f"keeps reports of {strangers}, who do not live"

    # -- what happens elsewhere ----------------------------------------------------------------

    def crashed(self, victims: Iterable[int]) -> None:
        self._told.clear()
        for kept in (self._asked_by, self._final_at, self._inquired):
            for victim in victims:
                kept.pop(victim, None)

    def begin_with(self, newcomer: int) -> None:
        """A new incarnation of `newcomer` needs nothing of what is final by now. It may be the next collector."""
        self._final_at[newcomer] = self._candidates()
        self.is_due = True

    def final(self, crashes: Incarnations) -> None:
        """These are final here."""
        merge_newest(self.not_over, crashes)
        self.is_due = True

    # -- telling -------------------------------------------------------------------------------

    def try_report(self) -> None:
        """Say which crashes are final here, once nothing of the dead is held back any more."""
        local = self._local
        if not local.is_settled():
            # Whoever is told now may still hear from a collector that has died, and forget what it was told.
            return
        if any(topic.holds_back_of(self.not_over) for topic in self._broadcasts.topics()):
            return
        self.is_due = False
        asked_by, self._asked_by = self._asked_by, {}
        collector = min(local.living, default=local.me)
        if collector < local.me:
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
        self.is_due = True

    def on_final(self, sender: int, final: Final) -> None:
        merge_newest(self._final_at.setdefault(sender, {}), final.dead)
        self.is_due = True

    # -- collecting ----------------------------------------------------------------------------

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
        self._forget(over.dead)

    def _has_done_with(self, node: int, incarnation: int) -> bool:
        """Whether no incarnation of `node` up to this one lives here, and all their crashes known here are final."""
        local = self._local
        if node == local.me:
            return incarnation < local.incarnation
        is_settled = node not in local.living and node not in local.fresh
        return is_settled or incarnation <= local.ended_finally(node)

    def _forget(self, over: Incarnations) -> None:
        """These crashes, and what nodes have said, asked or been told of them. Only a liar calls over what lives; of a
        node that has crashed again since, which is not final here yet, the last crash will be over too."""
        reports = (self._final_at, self._inquired, self._told)
        for kept in (self.not_over, *(kept for each in reports for kept in each.values())):
            for victim, newest in over.items():
                if victim in kept and kept[victim] <= newest:
                    del kept[victim]
        done_with = {x: newest for x, newest in over.items() if self._has_done_with(x, newest)}
        self._broadcasts.forget(done_with)
        self._local.forget(done_with)
