"""Who does not answer any more. Decides when a node counts as crashed; the core then tells everybody.

Every node pings others in turn, as many per interval as the cube has dimensions, those first that it has not heard of
for longest; of several, nearest in the cube first, so that each node has another order. Where voters decide, they
come first when contact with a quorum of them is about to run out. Any traffic is a sign of
life: pings are for links on which nothing happens. So a node is asked by somebody every few hundredths of a second,
and nobody has more to do than a few pings in an interval, however many nodes there are.

A node is *silent* from the first question that it leaves unanswered. It is asked again, and so are others: whether
they reach it. They ask it themselves, and never vouch from memory. If one of them does, it lives, and is spoken to
through that one. If it stays silent for the limit, it counts as crashed. The limit is longer than contact lasts
(`majority`), counted from the question: whoever is cut off from a quorum knows that before it could suspect anybody
of the other side.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from vcubeps.node.connection import NOBODY
from vcubeps.node.context import Context
from vcubeps.node.frames import Kind
from vcubeps.node.links import Links
from vcubeps.node.outputs import Suspected

_FIRST_HELP, _SECOND_HELP = 0.3, 0.6
"""Shares of the limit after which others are asked."""

_LATE_S = 0.25
"""A timer that runs so much later than it was due shows that this process was held up."""

_HEALTH_MAX = 3
_HEALTH_S = 10.0
"""For so long after it was held up, a node gives others more time."""

_GAIN, _DEVIATION_GAIN = 1 / 8, 1 / 4
"""How fast what is known of a node's round trips follows new ones, as in TCP."""


class Judge(Protocol):
    """What the detector asks, and tells, its node."""

    def watched(self) -> Iterable[int]:
        """The nodes that should be alive."""

    def to_ask_first(self) -> Collection[int] | None:
        """Those with whom contact is needed and about to run out; None: all are as good."""

    def may_suspect(self) -> bool:
        """Whether a suspicion may be uttered now."""

    def on_silence(self, other: int, evidence: str) -> None:
        """`other` counts as crashed."""


class Watch:
    """One other node, as the detector sees it."""

    __slots__ = ("deviation_s", "helpers", "pinged_at_s", "round_trip_s", "silent_since_s")

    def __init__(self) -> None:
        self.silent_since_s: float | None = None
        """When it was asked what it has not answered; None while it answers."""
        self.pinged_at_s = float("-inf")
        self.helpers: list[int] = []
        """Who has been asked whether they reach it, since it has been silent."""
        self.round_trip_s = 0.0
        self.deviation_s = 0.0


class Detector:
    """The nodes that one node watches."""

    __slots__ = (
        "_context", "_detection", "_health", "_held_up_at_s", "_judge", "_links", "_requests", "_slot_s",
        "_started_at_s", "_watches",
    )  # fmt: skip

    def __init__(self, context: Context, links: Links, judge: Judge) -> None:
        self._context = context
        self._detection = context.settings.detection
        self._links = links
        self._judge = judge
        self._watches: dict[int, Watch] = {}
        self._requests: dict[int, dict[int, float]] = {}
        """Node → who has asked for it to be probed → when."""
        self._slot_s = self._detection.ping_s / max(1, (len(context.settings.nodes) - 1).bit_length())
        self._started_at_s = context.now_s
        self._health = 0
        """How often this process was held up lately, up to a limit."""
        self._held_up_at_s = float("-inf")

    def start(self) -> None:
        self._context.timers.at(self._context.now_s + self._slot_s * self._context.draw(), self._slot)

    # -- asking --------------------------------------------------------------------------------

    def _slot(self) -> None:
        context = self._context
        now_s = context.now_s
        context.timers.at(now_s + self._slot_s, self._slot)
        if self._health and now_s - self._held_up_at_s > _HEALTH_S:
            self._health -= 1
            self._held_up_at_s = now_s
        watched = set(self._judge.watched())
        for other in [other for other in self._watches if other not in watched]:
            del self._watches[other]
        for other in watched:
            watch = self._watches.get(other)
            if watch is None:
                watch = self._watches[other] = Watch()
            if watch.silent_since_s is not None:
                self._check_silent(other, watch, watch.silent_since_s)
        next_ = self._next(watched)
        if next_ is not None:
            self._ping(next_, self._watches[next_])

    def _next(self, watched: set[int]) -> int | None:
        """Who is asked now: who has not answered for longest, unless all have just done so."""
        context, links = self._context, self._links
        best: tuple[float, int, int] | None = None
        first = self._judge.to_ask_first()
        for other in watched if first is None else watched.intersection(first):
            watch = self._watches[other]
            if watch.silent_since_s is None:
                answered_s = max(links.link(other).round_trip_at_s, watch.pinged_at_s)
                candidate = answered_s, other ^ context.id, other
                if best is None or candidate < best:
                    best = candidate
        if best is None or context.now_s - best[0] < self._detection.ping_s / 2:
            return None
        return best[2]

    def _ping(self, other: int, watch: Watch) -> None:
        now_s = self._context.now_s
        watch.pinged_at_s = now_s
        if watch.silent_since_s is None:
            watch.silent_since_s = now_s
            watch.helpers = []
        self._links.ping(other)

    # -- answers -------------------------------------------------------------------------------

    def on_round_trip(self, other: int, sent_at_s: float, at_once: bool) -> None:
        """`other` has answered what was sent then, and had to do so `at_once`; otherwise it may have taken its time,
        and nothing is learnt of how long the way is."""
        watch = self._watches.get(other)
        if watch is not None:
            watch.silent_since_s = None
            if at_once:
                took_s = self._context.now_s - sent_at_s
                difference_s = abs(took_s - watch.round_trip_s)
                watch.deviation_s += _DEVIATION_GAIN * (difference_s - watch.deviation_s)
                watch.round_trip_s += _GAIN * (took_s - watch.round_trip_s)
        for asker, asked_at_s in self._requests.pop(other, {}).items():
            if sent_at_s >= asked_at_s:
                self._links.say(asker, Kind.PROBED, other)

    def on_late(self, late_s: float) -> None:
        """This process was held up: whoever seems silent may have answered."""
        if late_s < _LATE_S:
            return
        self._health = min(self._health + 1, _HEALTH_MAX)
        self._held_up_at_s = self._context.now_s
        self.forgive()

    def forgive(self) -> None:
        """Nobody is blamed for the time until now."""
        for watch in self._watches.values():
            if watch.silent_since_s is not None:
                watch.silent_since_s = self._context.now_s
                watch.helpers = []

    # -- silence -------------------------------------------------------------------------------

    def limit_s(self, watch: Watch) -> float:
        """How long a node may be silent."""
        spread_s = 4 * (watch.round_trip_s + 4 * watch.deviation_s)
        base_s = self._detection.suspect_after_s
        return (base_s + min(spread_s, 2 * base_s)) * (1 + self._health)

    def _check_silent(self, other: int, watch: Watch, since_s: float) -> None:
        now_s = self._context.now_s
        link = self._links.link(other)
        if link.heard_at_s > since_s:
            watch.silent_since_s = None
            return
        if now_s - watch.pinged_at_s >= self._detection.ping_s / 2:
            watch.pinged_at_s = now_s
            self._links.ping(other)
        silent_s, limit_s = now_s - since_s, self.limit_s(watch)
        count = self._detection.helpers
        if (
            silent_s >= (_FIRST_HELP if not watch.helpers else _SECOND_HELP) * limit_s
            and len(watch.helpers) < 2 * count
        ):
            self._ask_others(other, watch, count, silent_s)
        is_new = link.incarnation < 0 and now_s - self._started_at_s < self._detection.start_within_s
        if silent_s >= limit_s and not is_new and self._judge.may_suspect():
            helpers = ", ".join(map(str, watch.helpers))
            asked = f"nor do nodes {helpers} reach it" if helpers else "and nobody else could be asked"
            watch.silent_since_s, watch.helpers = now_s, []  # silent still: it cannot help to find others
            self._judge.on_silence(other, f"it has not answered for {silent_s:.1f} s, {asked}")

    def _ask_others(self, other: int, watch: Watch, count: int, silent_s: float) -> None:
        """Those who have answered last, and have not been asked yet; first those that could relay, too."""
        fresh = sorted(
            (not self._is_direct(helper), -self._links.link(helper).round_trip_at_s, helper)
            for helper, each in self._watches.items()
            if each.silent_since_s is None and helper != other and helper not in watch.helpers
        )
        asked = [helper for *_, helper in fresh[:count] if self._links.say(helper, Kind.PROBE, other)]
        if asked:
            watch.helpers += asked
            self._context.outputs.append(Suspected(other, round(silent_s, 3), tuple(asked)))

    # -- helping others ------------------------------------------------------------------------

    def on_probe(self, asker: int, target: int) -> None:
        """`asker` cannot reach `target`: see whether this node can."""
        if target != self._context.id and target in self._watches:
            self._requests.setdefault(target, {})[asker] = self._context.now_s
            self._links.ping(target)

    def on_probed(self, helper: int, target: int) -> None:
        """`helper` reaches `target`: so it lives, and can be reached by that way."""
        watch = self._watches.get(target)
        if watch is not None and watch.silent_since_s is not None and helper in watch.helpers:
            watch.silent_since_s = self._context.now_s
            watch.helpers = []
            if self._is_direct(helper):  # otherwise it would take two relays, which there are not
                self._links.connect_by(target, helper)

    def _is_direct(self, other: int) -> bool:
        """Whether there is a connection with `other` that does not go through a third node."""
        connection = self._links.link(other).connection
        return connection is not None and connection.via == NOBODY

    def silent(self) -> dict[int, float]:
        """Nodes that do not answer → for how long."""
        now_s = self._context.now_s
        return {
            other: now_s - watch.silent_since_s
            for other, watch in self._watches.items()
            if watch.silent_since_s is not None and watch.silent_since_s < now_s
        }
