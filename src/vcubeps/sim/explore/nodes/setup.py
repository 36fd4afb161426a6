"""What one schedule of whole nodes is like: how many there are, their settings, the network between them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from msgspec import structs

from vcubeps.mixing import mix
from vcubeps.node.settings import ClusterSettings, Detection, Limits, NodeSettings, Timing
from vcubeps.sim.explore.nodes.faults import FAULTS, USUAL, stream
from vcubeps.sim.explore.options import NODES_MAX, NODES_MIN

_DETECTIONS = (
    Detection(),
    Detection(ping_s=0.2, contact_s=0.5, suspect_after_s=0.7, start_within_s=3.0),
    Detection(ping_s=0.2, contact_s=0.4, suspect_after_s=0.5, helpers=1, start_within_s=2.0),
    Detection(ping_s=0.5, contact_s=1.0, suspect_after_s=2.5, helpers=2, start_within_s=5.0),
)


_LITTLE_BYTES, _MUCH_BYTES = 4 << 10, 48 << 10
"""What is handed to the network at a time: little, where it is slow; or so much that it is not joined before."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the user allows; together with a seed it determines a schedule completely."""

    nodes_min: int = NODES_MIN
    nodes_max: int = 12
    faults: frozenset[str] = USUAL
    """Names of `FAULTS` that may happen."""
    always: frozenset[str] = frozenset()
    """Names of those that happen in every schedule."""
    operations_max: int = 40

    def __post_init__(self) -> None:
        if not NODES_MIN <= self.nodes_min <= self.nodes_max <= NODES_MAX:
            raise ValueError(
                f"{self.nodes_min} to {self.nodes_max} nodes: give a range within {NODES_MIN} to {NODES_MAX}"
            )
        unknown = sorted((self.faults | self.always) - FAULTS.keys())
        if unknown:
            raise ValueError(f"unknown: {', '.join(unknown)}; see FAULTS")


@dataclass(frozen=True, slots=True)
class Setup:
    """One schedule's world. Times are in seconds."""

    nodes: tuple[int, ...]
    voters: tuple[int, ...] | None
    """Who decides when the network is cut; None: everybody goes on."""
    detection: Detection
    delay_s: float
    """Longest usual time that bytes are under way."""
    slow_of_256: int
    """How many of 256 writes take up to 40 times as long, until the last fault is over: for ever, nodes whose answers
    take longer than `contact_s` can promise nothing."""
    split_of_256: int
    """How many of 256 writes arrive in two parts."""
    late_turns_of_256: int
    """How often, of 256 times, a node's turn ends only after more has happened to it."""
    drift: float
    """By what share, at most, a node's clock is fast or slow."""
    small_limits: bool
    """So little may wait, in topics and on links, that publishers often do."""
    faults: frozenset[str]
    topics: int
    operations: int
    gap_s: float
    """Mean time between two operations of the applications."""
    answering: tuple[int, ...] = ()
    """Nodes whose application is a function that is called with each message, and answers some of them at once."""
    impatient: tuple[int, ...] = ()
    """Nodes whose application's subscription is ended when it does not read fast enough; publishers do not wait."""
    burst_bytes_max: int = _LITTLE_BYTES
    has_instant_disk: bool = False
    """What is stored is there before the next output is carried out, as where the shell waits for the disk."""
    closes_at_end: bool = False
    """In the end all nodes are closed at once."""
    has_trees: bool = False
    """Messages travel over trees however few their recipients are."""
    has_even_delays: bool = False
    """All bytes are under way for `delay_s`."""

    def settings(self, partition: str | None = None) -> ClusterSettings:
        limits = Limits(burst_bytes_max=self.burst_bytes_max)
        if self.small_limits:
            limits = structs.replace(
                limits, unacknowledged_max=3, queue_messages_max=4, link_bytes_max=4 * _LITTLE_BYTES
            )
        if self.has_trees:
            limits = structs.replace(limits, flat_recipients_max=0)
        timing = Timing(connect_timeout_s=2.0, reconnect_max_s=1.0, close_within_s=2.0)
        return ClusterSettings(
            cluster="explored",
            nodes=tuple(NodeSettings(id=node, address=f"n{node}:1") for node in self.nodes),
            partition=partition or ("majority" if self.voters is not None else "continue"),  # type: ignore[arg-type]
            voters=self.voters if partition is None else None,
            limits=limits,
            timing=timing,
            detection=self.detection,
        )


def draw_setup(seed: int, allowed: Allowed) -> Setup:
    """Every draw is made whether it is used or not, and whatever was thought of later draws from a stream of its own,
    so that allowing or adding more leaves the rest as it was."""
    rng = Random(mix(seed, 31))
    count = rng.randint(allowed.nodes_min, allowed.nodes_max)
    if rng.random() < 0.6:
        count = min(max(allowed.nodes_min, rng.choice((2, 3, 4, 4, 5, 8, 8))), allowed.nodes_max)
    positions = 2 << (count - 1).bit_length()
    scattered = tuple(sorted(rng.sample(range(min(positions, NODES_MAX)), count)))
    nodes = scattered if rng.random() < 0.2 else tuple(range(count))
    some = tuple(sorted(rng.sample(nodes, min(rng.choice((1, 2, 3, 4, 5)), count))))
    has_voters = rng.random() < 0.8
    drawn = {name for name, (_, odds) in FAULTS.items() if stream(seed, name).random() < odds}
    detection = rng.choice(_DETECTIONS)
    voters = nodes if rng.random() < 0.7 else some
    setup = Setup(
        nodes=nodes,
        voters=voters if has_voters else None,
        detection=detection,
        delay_s=detection.ping_s * rng.choice((0.001, 0.01, 0.05)),
        slow_of_256=rng.choice((0, 0, 4, 16)),
        split_of_256=rng.choice((0, 8, 64)),
        late_turns_of_256=rng.choice((0, 32, 128)),
        drift=rng.choice((0.0, 0.0, 0.02)),
        small_limits=rng.random() < 0.3,
        faults=frozenset(drawn & allowed.faults) | allowed.always,
        topics=rng.choice((1, 1, 2, 3)),
        operations=rng.randint(min(6, allowed.operations_max), allowed.operations_max),
        gap_s=detection.suspect_after_s * rng.choice((0.001, 0.01, 0.05, 0.13)),
        answering=_some_of(nodes, stream(seed, "answering")),
        impatient=_some_of(nodes, stream(seed, "impatient")),
        has_instant_disk=stream(seed, "instant disk").random() < 0.5,
        closes_at_end=stream(seed, "closing").random() < 0.25,
        has_trees=stream(seed, "trees").random() < 0.5,
    )
    if "narrow" not in setup.faults and stream(seed, "bursts").random() < 0.5:
        setup = replace(setup, burst_bytes_max=_MUCH_BYTES)
    limit = setup.settings().voters_max
    return setup if setup.voters is None or len(setup.voters) <= limit else replace(setup, voters=some)


def _some_of(nodes: tuple[int, ...], rng: Random) -> tuple[int, ...]:
    return tuple(sorted(rng.sample(nodes, min(rng.choice((0, 0, 1, 2, 3)), len(nodes)))))
