"""How one node stands: the stage of its life, whether it is in contact with a quorum, and its end."""

from __future__ import annotations

from collections import Counter

from vcubeps.node.context import Context
from vcubeps.node.detector import Detector
from vcubeps.node.errors import Isolated, NodeEnded
from vcubeps.node.exchange import Exchange
from vcubeps.node.lifecycle import TRANSITIONS, Life
from vcubeps.node.links import Links
from vcubeps.node.majority import NEVER_S, Majority
from vcubeps.node.outputs import DONE_NO_MORE, Closed, Failed, LifeChanged
from vcubeps.protocol import Peer

_LEAVING_SHARE = 0.8
"""Of the time that closing may take, for what is to be acknowledged."""
_GOODBYE_S = 0.2
"""How long the others are given to end their connections after a goodbye."""


class Standing:
    """Invariants: `has_ended` is that of `life`; `isolated` is what the peer has been told. Before `calm_until_s`
    nothing changes but by an input: no timer is due, and contact lasts."""

    def __init__(
        self,
        context: Context,
        peer: Peer,
        links: Links,
        exchange: Exchange,
        majority: Majority,
        detector: Detector,
    ) -> None:
        self._context = context
        self._peer = peer
        self._links = links
        self._exchange = exchange
        self._majority = majority
        self._detector = detector
        self.life = Life.STARTING
        self.has_ended = False
        self.isolated = False
        self.calm_until_s = NEVER_S
        self._has_said_goodbye = False
        self.lost: Counter[str] = Counter()
        """Topic → publications that were under way when this node, being closed, had to start again."""
        voting = context.settings.voting
        self._why_up = "it is in contact with a quorum" if voting else "it has been let in"

    # -- contact -------------------------------------------------------------------------------

    def begin(self, now_s: float) -> None:
        """An input is made at this time."""
        context = self._context
        context.now_s = now_s
        if now_s > context.timers.next_s:
            self._detector.on_late(now_s - context.timers.next_s)
        if self._majority.is_isolated(now_s) != self.isolated:
            self.judge()
        self.calm_until_s = min(context.timers.next_s, self._majority.surely_lasts_until_s)

    def end(self) -> None:
        """The input has been handled."""
        if self.life is Life.CLOSING:
            self.advance_closing()

    def judge(self) -> None:
        """Find out whether this node is isolated, and at which stage of its life it is."""
        if self.has_ended:
            return
        isolated = self._majority.is_isolated(self._context.now_s)
        if isolated != self.isolated:
            self.isolated = isolated
            if not isolated:
                self._detector.forgive()
            self._exchange.carry_out(self._peer.isolate(isolated))
        if self.life is Life.CLOSING:
            return  # it stays that, isolated or not
        if not self._peer.is_up:
            self.become(Life.STARTING, "it asks to be let in")
        elif not isolated:
            self.become(Life.UP, self._why_up)
        elif self.life is not Life.STARTING:
            self.become(Life.ISOLATED, self.isolation())

    def isolation(self) -> str:
        """Why nothing may be started, where this node is isolated."""
        reached = self._majority.in_contact(self._context.now_s)
        return (
            f"node {self._context.id} is in contact with no quorum of the voters, only with "
            f"{reached or 'none of them'}: it starts nothing until it is"
        )

    def lose(self, other: int) -> None:
        """`other` does not count as contact any more."""
        self._majority.drop(other)
        self.calm_until_s = NEVER_S

    # -- life ----------------------------------------------------------------------------------

    def become(self, life: Life, reason: str) -> None:
        if life is self.life:
            return
        assert life in TRANSITIONS[self.life], f"{self.life.value} does not become {life.value}"
        self.life = life
        self.has_ended = life.has_ended
        self._context.outputs.append(LifeChanged(life, reason))
        if life is Life.UP:
            self._exchange.memberships.renew()
            self._exchange.memberships.wake_all()

    def at(self, now_s: float) -> Life:
        """The stage at a time, without an input."""
        if self.life is Life.UP and self._majority.is_isolated(now_s):
            return Life.ISOLATED
        return self.life

    def check_open(self) -> None:
        if self.life in (Life.CLOSING, Life.CLOSED, Life.FAILED):
            raise NodeEnded(f"node {self._context.id} has ended: open it again")

    def check_contact(self) -> None:
        """Raise Isolated where nothing may be started."""
        if self.life is Life.ISOLATED:
            raise Isolated(self.isolation())

    # -- the end -------------------------------------------------------------------------------

    def fail(self, reason: str, is_refusal: bool) -> None:
        """Nothing that has not been written yet is sent any more."""
        if self.has_ended:
            return
        context = self._context
        context.outputs[:] = [each for each in context.outputs if not isinstance(each, DONE_NO_MORE)]
        context.stores = 0
        context.is_storing = False  # whatever became of it: what is left to say waits for nothing
        self.become(Life.FAILED, reason)
        self._links.abort_all()
        context.outputs.append(Failed(reason, is_refusal))

    def close(self) -> None:
        """Leave every topic, say goodbye, end."""
        self.become(Life.CLOSING, "it was closed")
        memberships = self._exchange.memberships
        for topic in memberships:
            for reader in list(topic.readers):
                memberships.unsubscribe(topic.name, reader)
        context = self._context
        within_s = context.settings.timing.close_within_s
        context.timers.at(context.now_s + within_s * _LEAVING_SHARE, self._say_goodbye)
        context.timers.at(context.now_s + within_s + _GOODBYE_S, self._closed)

    def advance_closing(self) -> None:
        """Say goodbye once nothing is left to be acknowledged; end when all connections have."""
        if self._has_said_goodbye:
            if not self._links.connections:
                self._closed()
        elif not self._exchange.memberships.topics and not self._links.has_unacknowledged:
            self._say_goodbye()

    def _say_goodbye(self) -> None:
        if self.life is Life.CLOSING and not self._has_said_goodbye:
            self._has_said_goodbye = self._exchange.is_over = True
            self._links.say_goodbye()

    def _closed(self) -> None:
        if self.life is Life.CLOSING:
            topics = self._exchange.memberships
            unacknowledged = self.lost + Counter({topic.name: topic.unacknowledged for topic in topics})
            self.become(Life.CLOSED, "it has said goodbye")
            self._links.abort_all()
            self._context.outputs.append(Closed(dict(unacknowledged)))

    def check(self) -> None:
        """Raise AssertionError if an invariant does not hold. For tests, after an input."""
        assert self.has_ended == self.life.has_ended
        if self.has_ended:
            assert not self._links.connections, "has ended and has connections"
