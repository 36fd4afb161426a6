"""What a random schedule may contain, and the draw of one schedule's options from its seed.

Most options are on or off per schedule, so that small sharp configurations come up often
(four nodes, FIFO links, joins only) next to ones where everything happens at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from vcubeps.mixing import mix
from vcubeps.sim.explore.voting import Voting, draw_voting

NODES_MIN = 2
NODES_MAX = 64
"""Largest world of an exploration: beyond it a schedule takes long."""

NODES_USUAL_MAX = 16
"""Most nodes of a schedule that is not `large`: few nodes make races likelier per message."""

OPERATIONS_LONG = (200, 1000)
"""Fewest and most operations of a `long` schedule."""

SEED_MAX = (1 << 63) - 1
"""Seeds are 0 … this, so that they fit every language's signed integer."""

FEATURES: Mapping[str, str] = {
    "absent": "some positions of the cube have no node",
    "unordered": "links may reorder messages (otherwise they are FIFO)",
    "heavy-tail": "a few messages are very slow",
    "joins": "nodes subscribe while others publish",
    "leaves": "nodes unsubscribe while others publish",
    "rejoins": "nodes unsubscribe and subscribe again at once",
    "topics": "two or three topics instead of one",
    "reactive": "nodes answer what they deliver",
    "bursts": "several publications at once, which leave as a batch",
    "permuted": "what one input sends leaves in any order, on FIFO links too",
    "greetings": "a node that connects says which incarnation it is",
    "digests": "copies leave their recipients to the receiver's view, however few they are",
    "flat": "a source sends to every recipient itself, without a tree",
    "held": "publications wait for a release and leave together, as at the end of a node's turn",
    "large": f"more than {NODES_USUAL_MAX} nodes",
    "long": f"{OPERATIONS_LONG[0]} to {OPERATIONS_LONG[1]} operations, all on one topic",
}
"""Options of a world in which no node fails."""

FAULTS: Mapping[str, str] = {
    "crash": "one to four nodes crash",
    "recover": "crashed nodes come back as a new incarnation",
    "suspect": "a node that lives is reported as crashed",
    "cut": "some nodes cannot reach others for a while, and take them for crashed",
    "arrive": "some nodes come later, one by one or many at once, through seeds",
    "depart": "nodes leave for good, and others may come under their ids",
}
"""Faults, and comings and goings of nodes, that the user allows by name."""

AIMED: Mapping[str, tuple[str, frozenset[str]]] = {
    "relay-crash": ("a source and a node that had its copies crash together", frozenset({"crash"})),
    "join-crash": ("a node crashes while another subscribes", frozenset({"crash"})),
    "suspect-crash": (
        "a node suspects another falsely and crashes soon after",
        frozenset({"crash", "suspect"}),
    ),
    "boot-suspect": (
        "a node is suspected falsely while another boots",
        frozenset({"crash", "recover", "suspect"}),
    ),
    "boot-crash": ("a node crashes again while it boots", frozenset({"crash", "recover"})),
    "stale-up": (
        "a node that boots is told falsely that another has crashed",
        frozenset({"crash", "recover", "suspect"}),
    ),
    "islands": (
        "nodes that have run before start apart, live apart and meet",
        frozenset({"crash", "recover", "cut"}),
    ),
    "cut-reboot": (
        "nodes crash and start again while the network is cut",
        frozenset({"crash", "recover", "cut"}),
    ),
    "cut-join": (
        "a node lets others in that boot apart, subscribes and starts again",
        frozenset({"crash", "recover", "cut"}),
    ),
    "boot-reports": (
        "while nodes boot, others are told of crashes: late, or falsely",
        frozenset({"crash", "recover", "suspect"}),
    ),
    "reboots": ("many nodes start again, some repeatedly", frozenset({"crash", "recover"})),
    "suspect-all": ("all others suspect one node falsely", frozenset({"suspect"})),
    "restarts": ("nodes are told by their own drivers to start again", frozenset({"suspect"})),
    "goodbyes": (
        "nodes stop in good order and come back; what is sent to them meanwhile is dropped",
        frozenset({"crash", "recover"}),
    ),
    "late-copies": (
        "relays crash while a node joins and leaves, so that copies are sent again; the first ones come very late",
        frozenset({"crash"}),
    ),
}
"""Fault patterns that random timing rarely hits, with the faults that each needs."""

VOTERS = "voters"

VOTING: Mapping[str, tuple[str, frozenset[str]]] = {
    VOTERS: ("a quorum of the nodes decides when the network is cut, in many shapes", frozenset({"cut"})),
}
"""Other rules of the world, with the faults that each needs."""

OPTION_NAMES: tuple[str, ...] = (*FEATURES, *FAULTS, *AIMED, *VOTING)

_ODDS: Mapping[str, float] = {
    "absent": 0.3,
    "unordered": 0.5,
    "heavy-tail": 0.6,
    "joins": 0.75,
    "leaves": 0.6,
    "rejoins": 0.4,
    "topics": 0.25,
    "reactive": 0.6,
    "bursts": 0.35,
    "crash": 0.8,
    "recover": 0.65,
    "suspect": 0.45,
    "relay-crash": 0.4,
    "join-crash": 0.2,
    "suspect-crash": 0.2,
    "boot-suspect": 0.2,
    "boot-crash": 0.15,
    "stale-up": 0.15,
    "permuted": 0.5,
    "greetings": 0.5,
    "cut": 0.3,
    "islands": 0.3,
    "cut-reboot": 0.25,
    "cut-join": 0.15,
    "boot-reports": 0.25,
    "reboots": 0.2,
    "suspect-all": 0.15,
    "arrive": 0.25,
    "digests": 0.4,
    "depart": 0.25,
    "held": 0.35,
    "large": 0.004,
    "long": 0.01,
    VOTERS: 0.25,
    "restarts": 0.15,
    "goodbyes": 0.2,
    "late-copies": 0.15,
    "flat": 0.3,
}
"""Probability of each option in one schedule."""

_DRAWN_APART = frozenset(
    {
        "permuted",
        "greetings",
        "cut",
        "islands",
        "cut-reboot",
        "cut-join",
        "boot-reports",
        "reboots",
        "suspect-all",
        "arrive",
        "digests",
        "depart",
        "held",
        "large",
        "long",
    }
)
"""Options that came later. They are drawn apart, so that the schedules of earlier options are what they were; those
of `VOTING` and of the sets below, which came later still, by generators of their own."""

_DRAWN_THEN, _DRAWN_LAST = frozenset({"restarts", "goodbyes"}), frozenset({"late-copies"})
_DRAWN_AT_LAST = frozenset({"flat"})


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the user allows; together with a seed it determines a schedule completely."""

    nodes_min: int = NODES_MIN
    """Fewest nodes of a schedule."""
    nodes_max: int = NODES_MAX
    """Most nodes of a schedule; only a `large` one has more than `NODES_USUAL_MAX`."""
    faults: frozenset[str] = frozenset()
    """Names of `FAULTS` that may happen; none: no node fails."""
    only: frozenset[str] | None = None
    """Names of the options that are on in every schedule, all others being off; None: draw them."""
    always: frozenset[str] = frozenset()
    """Names of the options that are on in every schedule, besides those that are drawn."""
    operations_max: int = 40
    """Most operations of a schedule that is not `long`, besides the subscriptions before it begins and the aimed
    faults."""

    def __post_init__(self) -> None:
        if not NODES_MIN <= self.nodes_min <= self.nodes_max <= NODES_MAX:
            raise ValueError(
                f"{self.nodes_min} to {self.nodes_max} nodes: give a range within {NODES_MIN} to {NODES_MAX}"
            )
        named = self.always | (self.only or frozenset())
        unknown = sorted((self.faults - FAULTS.keys()) | (named - set(OPTION_NAMES)))
        if unknown:
            raise ValueError(f"unknown: {', '.join(unknown)}; see FAULTS, FEATURES, AIMED and VOTING")
        missing = sorted(faults_needed(named) - self.faults)
        if missing:
            raise ValueError(f"these options need faults that are not allowed: {', '.join(missing)}")


@dataclass(frozen=True, slots=True)
class Options:
    """One schedule's options. The first block shapes the world, the second the operations."""

    nodes: tuple[int, ...]
    """Identifiers of the nodes; positions of the cube that are not listed have no node."""
    founders: tuple[int, ...]
    """Those of them that are there from the start; the others come later."""
    fifo: bool
    """Links keep the order of messages."""
    slow_of_256: int
    """How many of 256 messages take 5 to 40 times as long as usual."""
    reactive: float
    """Mean number of answers to a publication, if all nodes were subscribed."""
    resubscribe: bool
    """A node that comes up again subscribes to what it was subscribed to."""
    detector_delay: int
    """Longest time from a crash to its report, in ticks."""
    permuted: bool
    """What one input sends leaves in any order."""
    greetings: bool
    """A node is told of the earlier incarnations' end when another connects."""
    digests: bool
    """Copies leave the recipients out where they may."""
    flat: bool
    """A source sends to every recipient itself."""
    held: bool
    """Some publications wait for a release."""

    topics: int
    """Number of topics, 1 to 3."""
    joins: bool
    """Nodes subscribe during the schedule; otherwise all who ever do have done so before it begins."""
    leaves: bool
    """Nodes unsubscribe during the schedule."""
    rejoins: bool
    """Nodes unsubscribe and soon after subscribe again."""
    bursts: bool
    """Some publications come several at once."""
    operations: int
    """Number of operations drawn."""
    gap: int
    """Mean time between two operations, in ticks (a usual message takes 1 to 100)."""
    crashes: int
    """Number of crashes at random moments."""
    recover: bool
    """Crashed nodes come back."""
    suspicions: int
    """Number of false suspicions at random moments."""
    cuts: int
    """Number of cuts of the network at random moments."""
    departures: int
    """Number of nodes that leave for good."""
    aimed: frozenset[str]
    """Names of the `AIMED` fault patterns in this schedule."""

    voting: Voting | None
    """Who decides when the network is cut, and how it is cut; None: everybody goes on."""


def draw_options(seed: int, allowed: Allowed) -> Options:
    """The options of schedule `seed`; every draw is made whether it is used or not, so that
    allowing one option more leaves the others as they were."""
    rng, apart = Random(seed), Random(mix(seed, 11))
    on = _draw_switches(seed, rng, apart, allowed)
    cuts = apart.choice((1, 1, 2))
    crashes = rng.choice((1, 1, 1, 2, 2, 3, 4))
    suspicions = rng.choice((1, 1, 2, 3))
    topics = rng.choice((2, 3))
    reactive = rng.choice((0.2, 0.5, 0.9))
    slow_of_256 = rng.choice((8, 32))
    resubscribe = rng.random() < 0.8
    detector_delay = rng.choice((20, 150, 150, 400, 400, 1000, 4000))
    gap = rng.choice((3, 15, 40, 40, 100, 400))
    operations = rng.randint(min(6, allowed.operations_max), allowed.operations_max)
    many = apart.randint(*OPERATIONS_LONG)
    departures = apart.choice((1, 1, 2, 3))
    nodes = _draw_nodes(rng, apart, allowed, absent="absent" in on, large="large" in on)
    founders = tuple(sorted(apart.sample(nodes, apart.randint(1, len(nodes)))))
    return Options(
        nodes=nodes,
        founders=founders if "arrive" in on and VOTERS not in on else nodes,
        fifo="unordered" not in on,
        slow_of_256=slow_of_256 if "heavy-tail" in on else 0,
        reactive=reactive if "reactive" in on else 0.0,
        resubscribe=resubscribe,
        detector_delay=detector_delay,
        topics=topics if "topics" in on and "long" not in on else 1,
        joins="joins" in on,
        leaves="leaves" in on,
        rejoins="rejoins" in on,
        bursts="bursts" in on,
        operations=many if "long" in on else operations,
        gap=gap,
        crashes=crashes if "crash" in on else 0,
        recover="recover" in on,
        suspicions=suspicions if "suspect" in on else 0,
        permuted="permuted" in on,
        greetings="greetings" in on,
        digests="digests" in on,
        flat="flat" in on,
        held="held" in on,
        cuts=cuts if "cut" in on else 0,
        departures=departures if "depart" in on and VOTERS not in on else 0,
        aimed=frozenset(AIMED) & on,
        voting=draw_voting(seed, nodes) if VOTERS in on else None,
    )


def faults_needed(names: frozenset[str]) -> frozenset[str]:
    """The faults that these options make use of."""
    needed = {name for name in names if name in FAULTS}
    for name in names:
        if name in AIMED:
            needed |= AIMED[name][1]
        if name in VOTING:
            needed |= VOTING[name][1]
    return frozenset(needed)


def _draw_switches(seed: int, rng: Random, apart: Random, allowed: Allowed) -> frozenset[str]:
    later = {
        **dict.fromkeys(_DRAWN_APART, apart),
        **dict.fromkeys(VOTING, Random(mix(seed, 15))),
        **dict.fromkeys(_DRAWN_THEN, Random(mix(seed, 16))),
        **dict.fromkeys(_DRAWN_LAST, Random(mix(seed, 18))),
        **dict.fromkeys(_DRAWN_AT_LAST, Random(mix(seed, 19))),
    }
    drawn = {name for name in OPTION_NAMES if later.get(name, rng).random() < _ODDS[name]}
    if allowed.only is not None:
        return allowed.only
    possible = {name for name in drawn if faults_needed(frozenset({name})) <= allowed.faults}
    return allowed.always | possible


def _draw_nodes(
    rng: Random, apart: Random, allowed: Allowed, *, absent: bool, large: bool
) -> tuple[int, ...]:
    low, high = allowed.nodes_min, allowed.nodes_max
    if low < NODES_USUAL_MAX:
        high = min(high, NODES_USUAL_MAX)
    # Half of the schedules are small: few nodes make races likelier per message, and traces short.
    count = rng.randint(low, high if rng.random() < 0.5 else max(low, min(high, 6)))
    spread = _scatter(rng, count)
    # Two nodes have one link and little to race; four are the smallest world with a relay.
    odds = {2: 1, 4: 5, 8: 4, 16: 1, 32: 1, 64: 1}
    full = [size for size in odds if low <= size <= high]
    if full:
        count = rng.choices(full, [odds[size] for size in full])[0]
    if large and allowed.nodes_max > high:
        count = apart.randint(high + 1, allowed.nodes_max)
        spread = _scatter(apart, count)
    return spread if absent else tuple(range(count))


def _scatter(rng: Random, count: int) -> tuple[int, ...]:
    """So many nodes in a cube with twice the positions they need."""
    positions = 1 << (count - 1).bit_length()
    return tuple(sorted(rng.sample(range(min(2 * positions, NODES_MAX)), count)))
