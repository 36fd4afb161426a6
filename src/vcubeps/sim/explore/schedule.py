"""From a seed and options to an explicit list of operations in virtual time.

A schedule is only a wish list: an operation that makes no sense when its time comes (a crash
of a node that is down, a publication of a node that left) is skipped by the world. So any
subset of the operations is a schedule too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from random import Random

from vcubeps.mixing import mix
from vcubeps.sim.explore.cuts import draw_cuts
from vcubeps.sim.explore.operations import SLOW_FACTOR_MAX, TOPICS, USUAL_DELAY, Operation
from vcubeps.sim.explore.options import Options


def draw_operations(seed: int, options: Options) -> list[Operation]:
    """The operations of schedule `seed`, in order of time."""
    draw = _Draw(Random(mix(seed, 1)), options)
    draw.initial_subscriptions()
    draw.random_operations()
    draw.random_faults()
    draw.arrivals_and_departures()
    for name in sorted(options.aimed):
        draw.aimed_fault(name)
    if options.voting is not None:
        draw.operations += draw_cuts(seed, options, options.voting, draw.begin, draw.end)
    if draw.has_faults:
        draw.epilogue()
    return sorted(draw.operations, key=lambda operation: operation.time)


class _Draw:
    """The draw in progress. `members` follows what would happen without faults, only to make
    most operations sensible."""

    def __init__(self, rng: Random, options: Options) -> None:
        self.rng = rng
        self.options = options
        self.nodes = options.nodes
        self.topics = TOPICS[: options.topics]
        self.members: dict[str, set[int]] = {topic: set() for topic in self.topics}
        self.operations: list[Operation] = []
        self.begin = 0
        self.end = 0
        self.has_faults = bool(
            options.crashes
            or options.suspicions
            or options.cuts
            or options.departures
            or options.aimed
            or options.voting
        )

    def initial_subscriptions(self) -> None:
        """Members from the beginning subscribe one after the other, so far apart that nothing overlaps."""
        depth = max(self.nodes).bit_length()
        round_trip = 2 * depth * USUAL_DELAY * (SLOW_FACTOR_MAX if self.options.slow_of_256 else 1)
        for topic in self.topics:
            # A join from an empty topic is a sharp case of its own, but only if there are joins.
            least = 0 if self.options.joins else 2
            most = len(self.options.founders)
            least = min(least, most)
            everybody = self.rng.random() < (0.6 if self.has_faults else 0.3)
            count = most if everybody else self.rng.randint(least, most)
            for node in self.rng.sample(self.options.founders, count):
                self._add(self.begin, "subscribe", node, topic)
                self.members[topic].add(node)
                self.begin += round_trip + 1
        self.end = self.begin

    def random_operations(self) -> None:
        kinds: dict[Callable[[int], None], float] = {self._publish: 6.0}
        if self.options.joins:
            kinds[self._join] = 2.0
        if self.options.leaves:
            kinds[self._leave] = 1.5
        if self.options.rejoins:
            kinds[self._rejoin] = 1.5
        actions, weights = list(kinds), list(kinds.values())
        time = self.begin
        for _ in range(self.options.operations):
            time += int(self.rng.expovariate(1.0 / self.options.gap))
            if self.rng.random() < 0.04:
                time += self.rng.choice((300, 3000))  # a pause in which some things settle
            self.rng.choices(actions, weights)[0](time)
        self.end = max(self.end, time)

    def random_faults(self) -> None:
        for _ in range(self.options.crashes):
            self._crash(self._moment(), self.rng.choice(self.nodes))
        for _ in range(self.options.suspicions):
            time, target = self._moment(), self.rng.choice(self.nodes)
            for _ in range(self.rng.choice((1, 1, 1, 2, 3))):
                self._suspect(time + self.rng.randint(0, 100), self._other_than(target), target)
        for _ in range(self.options.cuts):
            self._cut(self._moment())

    def arrivals_and_departures(self) -> None:
        """Newcomers come singly or in a burst; of those who leave for good, the id may be used again."""
        newcomers = [node for node in self.nodes if node not in self.options.founders]
        together = self._moment() if self.rng.random() < 0.5 else None
        for node in newcomers:
            self._arrive(self._moment() if together is None else together + self.rng.randint(0, 50), node)
        for _ in range(self.options.departures):
            time, node = self._moment(), self.rng.choice(self.nodes)
            self._add(time, "depart", node)
            if self.rng.random() < 0.6:
                self._arrive(time + self.rng.choice((1, 10, 50)) * USUAL_DELAY, node)

    def _arrive(self, time: int, node: int) -> None:
        self._add(time, "arrive", node)
        for _ in range(self.rng.choice((0, 1, 2))):
            # It is up some round trips later.
            asked = time + self.rng.randint(2, 30) * USUAL_DELAY
            self._add(asked, "subscribe", node, self.rng.choice(self.topics))

    def aimed_fault(self, name: str) -> None:
        patterns: Mapping[str, Callable[[int], None]] = {
            "relay-crash": self._relay_crash,
            "join-crash": self._join_crash,
            "suspect-crash": self._suspect_crash,
            "boot-suspect": self._boot_suspect,
            "boot-crash": self._boot_crash,
            "stale-up": self._stale_up,
            "islands": self._islands,
            "cut-reboot": self._cut_reboot,
            "cut-join": self._cut_join,
            "boot-reports": self._boot_reports,
            "reboots": self._reboots,
            "suspect-all": self._suspect_all,
            "restarts": self._restarts,
            "goodbyes": self._goodbyes,
            "late-copies": self._late_copies,
        }
        for _ in range(self.rng.choice((1, 1, 2))):
            # In a quiet moment nothing keeps the pattern from unfolding as it is meant to.
            patterns[name](self._quiet_moment() if self.rng.random() < 0.5 else self._moment())

    def epilogue(self) -> None:
        """Life goes on after the last fault: what it broke must show."""
        time = max(self.end, *(operation.ends for operation in self.operations))
        for _ in range(max(3, self.options.operations // 5)):
            time += int(self.rng.expovariate(1.0 / (2 * USUAL_DELAY)))
            self.rng.choices((self._publish, self._join), (3, 1))[0](time)

    # Ordinary life.

    def _publish(self, time: int) -> None:
        topic = self.rng.choice(self.topics)
        members = sorted(self.members[topic]) or self.nodes
        count = self.rng.choice((1, 2, 5)) if self.options.bursts else 1
        self._add(time, "publish", self.rng.choice(members), topic, count)

    def _join(self, time: int) -> None:
        topic = self.rng.choice(self.topics)
        outside = [node for node in self.nodes if node not in self.members[topic]]
        node = self.rng.choice(outside or self.nodes)
        self.members[topic].add(node)
        self._add(time, "subscribe", node, topic)

    def _leave(self, time: int) -> None:
        topic = self.rng.choice(self.topics)
        node = self.rng.choice(sorted(self.members[topic]) or self.nodes)
        self.members[topic].discard(node)
        self._add(time, "unsubscribe", node, topic)

    def _rejoin(self, time: int) -> None:
        topic = self.rng.choice(self.topics)
        node = self.rng.choice(sorted(self.members[topic]) or self.nodes)
        self._add(time, "unsubscribe", node, topic)
        back = time + self.rng.choice((0, 1, 30, 150, 400))
        self._add(back, "subscribe", node, topic)
        if self.rng.random() < 0.5:
            self._add(back + self.rng.choice((0, 100, 300)), "publish", node, topic, 1)

    # Faults.

    def _crash(self, time: int, node: int) -> None:
        self._add(time, "crash", node)
        if self.options.recover and self.rng.random() < 0.8:
            self._recover(time + self._downtime(), node)

    def _recover(self, time: int, node: int) -> None:
        self._add(time, "recover", node)

    def _suspect(self, time: int, observer: int, target: int) -> None:
        self._add(time, "suspect", observer, "", target)

    def _relay_crash(self, time: int) -> None:
        topic = self.rng.choice(self.topics)
        members = sorted(self.members[topic]) or list(self.nodes)
        source = self.rng.choice(members)
        # Something for the source to depend on that may still be on its way elsewhere; not from
        # those two who are to publish next, for a node has one broadcast of a topic at a time.
        nearest_first = sorted(members, key=lambda node: node ^ source)
        others = nearest_first[2:] or members
        for _ in range(self.rng.choice((1, 2, 4))):
            before = max(0, time - self.rng.randint(USUAL_DELAY, 3 * USUAL_DELAY))
            self._add(before, "publish", self.rng.choice(others), topic, 1)
        if self.rng.random() < 0.3:
            # Somebody is on the way in: long out, asked before, perhaps not in yet when it happens.
            joiner = self.rng.choice(others)
            self._add(max(0, time - USUAL_DELAY * SLOW_FACTOR_MAX), "unsubscribe", joiner, topic)
            before = max(0, time - self.rng.randint(USUAL_DELAY, 5 * USUAL_DELAY))
            self._add(before, "subscribe", joiner, topic)
        self._add(time, "publish", source, topic, self.rng.choice((1, 1, 2)))
        crash = time + self.rng.randint(0, self.rng.choice((0, 0, USUAL_DELAY)))
        self._add(crash, "crash-relay", source, "", self.rng.choice((60, 200, 200, 200)))
        if self.options.recover:
            for _ in range(2):
                self._add(crash + self._downtime(), "recover-any", source)

    def _restarts(self, time: int) -> None:
        """One node, or some at nearly the same time."""
        for node in self.rng.sample(self.nodes, min(len(self.nodes), self.rng.choice((1, 1, 2, 3)))):
            self._add(time + self.rng.randint(0, 2 * USUAL_DELAY), "restart", node)
        self._publish(time + self.rng.randint(0, 3 * USUAL_DELAY))

    def _goodbyes(self, time: int) -> None:
        """One node after the other stops in good order, and most come back. Others start again as they do."""
        moment = time
        for node in self.rng.sample(self.nodes, self.rng.randint(1, len(self.nodes))):
            moment += self.rng.randint(0, self.rng.choice((1, 10)) * USUAL_DELAY)
            back = moment + self._downtime()
            self._add(moment, "stop", node)
            if self.rng.random() < 0.9:
                self._add(back, "recover", node)
            if self.rng.random() < 0.5:
                around = back + self.rng.randint(-2 * USUAL_DELAY, 2 * USUAL_DELAY)
                self._add(max(moment, around), "restart", self._other_than(node))
        self._live(time, max(USUAL_DELAY, moment - time))

    def _join_crash(self, time: int) -> None:
        topic = self.rng.choice(self.topics)
        joiner = self.rng.choice(self.nodes)
        self._add(time, "subscribe", joiner, topic)
        self._crash(time + self.rng.randint(0, 2 * USUAL_DELAY), self._other_than(joiner))
        self._publish(time + self.rng.randint(0, 3 * USUAL_DELAY))

    def _late_copies(self, time: int) -> None:
        """A node joins and leaves, perhaps again. To the one that is farthest from it, copies of that come when much
        has happened since: relays have crashed, so that others have sent them again; there was a further crash; that
        node may have left, and be about to join."""
        topic, begin = self.rng.choice(self.topics), time
        source = self.rng.choice(self.nodes)
        late = max(self.nodes, key=lambda node: node ^ source)
        others = [node for node in self.nodes if node not in (source, late)]
        asks = self.rng.choice((("subscribe", "unsubscribe"), ("unsubscribe", "subscribe", "unsubscribe")))
        for ask in asks:
            if self.rng.random() < 0.8:
                self._add(time, "linger", late)
            self._add(time, ask, source, topic)
            time += self.rng.randint(5, 12) * USUAL_DELAY
            if ask == "subscribe":
                self._add(time, "publish", source, topic, 1)
                time += self.rng.randint(1, 4) * USUAL_DELAY
        # Some of these are dead already.
        for node in self.rng.sample(others, min(2, len(others))):
            self._crash(time - self.rng.randint(0, 8 * USUAL_DELAY), node)
        slowest = begin + SLOW_FACTOR_MAX * USUAL_DELAY
        if self.rng.random() < 0.4:
            self._add(time - self.rng.randint(3, 20) * USUAL_DELAY, "unsubscribe", late, topic)
            self._add(slowest - self.rng.randint(0, 2 * USUAL_DELAY), "subscribe", late, topic)
        # After the last of them.
        self._add(
            slowest + (time - begin) + 10 * USUAL_DELAY, "publish", self.rng.choice(self.nodes), topic, 1
        )

    def _suspect_crash(self, time: int) -> None:
        target = self.rng.choice(self.nodes)
        observer = self._other_than(target)
        for _ in range(self.rng.choice((1, 2, 4))):
            # Copies that the observer may relay, leaving out whom it suspects.
            self._publish(time + self.rng.randint(-USUAL_DELAY // 2, USUAL_DELAY // 2))
        self._suspect(time, observer, target)
        crash = time + self.rng.randint(0, 2 * USUAL_DELAY)
        if self.rng.random() < 0.5:
            crash = time + self.rng.randint(0, USUAL_DELAY // 2)
            self._add(crash, "crash-silenced", observer)
        self._crash(crash, observer)

    def _boot_suspect(self, time: int) -> None:
        booting = self.rng.choice(self.nodes)
        up = self._boot(time, booting)
        target = self._other_than(booting)
        self._suspect(up + self.rng.randint(0, 3 * USUAL_DELAY), self._other_than(target), target)

    def _boot_crash(self, time: int) -> None:
        booting = self.rng.choice(self.nodes)
        self._crash(self._boot(time, booting) + self.rng.randint(0, 3 * USUAL_DELAY), booting)

    def _stale_up(self, time: int) -> None:
        booting = self.rng.choice(self.nodes)
        up = self._boot(time, booting)
        for _ in range(self.rng.choice((1, 1, 2, len(self.nodes) - 1))):
            self._suspect(up + self.rng.randint(0, USUAL_DELAY), booting, self._other_than(booting))

    def _islands(self, time: int) -> None:
        """Nodes that have run before start apart, live apart and meet."""
        ticks = self._cut(time)
        everybody = self.rng.random() < 0.7
        for node in self.nodes:
            if everybody or self.rng.random() < 0.7:
                self._add(time + self.rng.randint(0, USUAL_DELAY), "reboot", node)
        self._live(time, ticks)

    def _cut_reboot(self, time: int) -> None:
        ticks = self._cut(time)
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            node, moment = self.rng.choice(self.nodes), time + self.rng.randint(0, ticks)
            if self.rng.random() < 0.5:
                self._add(moment, "reboot", node)
            else:
                self._boot(moment, node)
        self._live(time, ticks)

    def _cut_join(self, time: int) -> None:
        """Nodes that boot do not reach each other. One that they do reach lets them in, subscribes, and starts again
        too: what it had sent is older than what they know of it when they go up."""
        count = len(self.nodes) if self.rng.random() < 0.7 else self.rng.randint(2, len(self.nodes))
        seed, *booting = self.rng.sample(self.nodes, count)
        topic = self.rng.choice(self.topics)
        self._add(max(0, time - USUAL_DELAY * SLOW_FACTOR_MAX), "unsubscribe", seed, topic)
        ticks = self._cut_among(time, booting) if len(booting) > 1 else 10 * USUAL_DELAY
        for node in booting:
            self._add(time + self.rng.randint(0, 20), "reboot", node)
            # It goes up soon after the cut is healed.
            self._add(time + ticks + self.rng.randint(2, 6) * USUAL_DELAY, "subscribe", node, topic)
        asked = time + self.rng.randint(USUAL_DELAY, 10 * USUAL_DELAY)
        self._add(asked, "subscribe", seed, topic)
        self._add(asked + self.rng.randint(0, 2 * USUAL_DELAY), "reboot", seed)
        self._live(time, ticks)

    def _cut(self, time: int) -> int:
        """Cut the network in one of many shapes. Returns for how many ticks."""
        nodes = self.rng.sample(self.nodes, len(self.nodes))
        count = len(nodes)
        shape = self.rng.choice(("singles", "one", "halves", "thirds", "any", "some pairs"))
        if shape == "some pairs":
            return self._cut_among(time, nodes[: self.rng.randint(2, max(2, count - 1))])
        borders = {
            "singles": list(range(1, count)),
            "one": [1],
            "halves": [count // 2],
            "thirds": sorted({max(1, count * 3 // 8), max(1, count * 3 // 4)}),
            "any": sorted(self.rng.sample(range(1, count), self.rng.randint(1, min(3, count - 1)))),
        }[shape]
        islands = [nodes[low:high] for low, high in zip([0, *borders], [*borders, count], strict=True)]
        return self._add_cut(time, "|".join(" ".join(map(str, sorted(island))) for island in islands))

    def _cut_among(self, time: int, nodes: list[int]) -> int:
        """These do not reach each other; all others reach everybody. Returns for how many ticks."""
        return self._add_cut(time, " ".join(f"{x}/{y}" for x, y in combinations(sorted(nodes), 2)))

    def _add_cut(self, time: int, text: str) -> int:
        ticks = self.rng.choice((USUAL_DELAY, 10 * USUAL_DELAY, 10 * USUAL_DELAY, 50 * USUAL_DELAY))
        self._add(time, "cut", self.nodes[0], text, ticks)
        return ticks

    def _live(self, time: int, ticks: int) -> None:
        for _ in range(self.rng.choice((0, 2, 5))):
            self.rng.choices((self._publish, self._join), (3, 1))[0](time + self.rng.randint(0, 2 * ticks))

    def _boot_reports(self, time: int) -> None:
        """Some nodes boot at about the same time, while some are told of crashes: of earlier ones, or false."""
        for node in self.rng.sample(self.nodes, self.rng.randint(1, len(self.nodes))):
            self._add(time + self.rng.randint(0, 2 * USUAL_DELAY), "reboot", node)
        for _ in range(self.rng.choice((1, 2, len(self.nodes)))):
            target, moment = self.rng.choice(self.nodes), time + self.rng.randint(0, 5 * USUAL_DELAY)
            kind = self.rng.choice(("report-stale", "report-stale", "suspect"))
            self._add(moment, kind, self._other_than(target), "", target)

    def _reboots(self, time: int) -> None:
        """Many nodes start again, some repeatedly, so that some end while others that they let in still boot."""
        window = self.rng.choice((4, 10, 25)) * USUAL_DELAY
        for node in self.rng.sample(self.nodes, self.rng.randint(2, len(self.nodes))):
            for _ in range(self.rng.choice((1, 1, 2, 3))):
                moment = time + self.rng.randint(0, window)
                self._add(moment, "reboot", node)
                self._add(
                    moment + self.rng.randint(0, window), "subscribe", node, self.rng.choice(self.topics)
                )

    def _suspect_all(self, time: int) -> None:
        target = self.rng.choice(self.nodes)
        for observer in self.nodes:
            if observer != target:
                self._suspect(time + self.rng.randint(0, USUAL_DELAY), observer, target)

    def _boot(self, time: int, node: int) -> int:
        """Crash and recovery of a node; the time at which it starts again."""
        up = time + self._downtime()
        self._add(time, "crash", node)
        self._add(up, "recover", node)
        return up

    # Draws.

    def _moment(self) -> int:
        return self.rng.randint(self.begin, max(self.begin + USUAL_DELAY, self.end))

    def _quiet_moment(self) -> int:
        self.end += 2 * USUAL_DELAY * SLOW_FACTOR_MAX
        return self.end

    def _downtime(self) -> int:
        return self.rng.randint(1, self.rng.choice((50, 500, 5000)))

    def _other_than(self, node: int) -> int:
        return self.rng.choice([other for other in self.nodes if other != node])

    def _add(self, time: int, kind: str, node: int, topic: str = "", other: int = 0) -> None:
        self.operations.append(Operation(time, kind, node, topic, other))
