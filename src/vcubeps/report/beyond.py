"""What the paper does not show: larger systems, and what churn costs in losses and barriers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from vcubeps.report import runs
from vcubeps.report.figures import LATENCY_LABEL, NODES_LABEL, percent, samples
from vcubeps.report.model import AMENDED, UNPRUNED, Curve, Figure
from vcubeps.report.profiles import Profile
from vcubeps.report.runs import NAMES
from vcubeps.sim.measures import Measure
from vcubeps.sim.scenarios import SRPT_B, SRPT_S, VCUBE

PLACE = "beyond the paper"
_STORM_PUBLISHERS_MAX = 1 << 15
"""Twice as many in 65,536 nodes need 32 GiB of address space for the copies."""
_PROTOCOLS = (("amended", "pruned", VCUBE), ("unpruned", "never pruned", UNPRUNED))
"""Protocol, name, and as what it is drawn."""


def beyond_figures(profile: Profile) -> Iterator[Figure]:
    yield _size(profile)
    if profile.storm_nodes_max:
        yield _storm(profile)
    if profile.brokers_nodes_max:
        yield _brokers(profile)
    yield from _discussion(profile)
    yield _losses(profile)
    yield from _churn_barriers(profile)


def _size(profile: Profile) -> Figure:
    nodes = runs.powers(8, profile.single_nodes_max)
    curves = tuple(
        Curve(
            f"{NAMES[system]}, {percent(share)} subscribers",
            samples({n: runs.single(system, n, share) for n in nodes}),
            system,
            variant,
        )
        for system, (variant, share) in product((VCUBE, SRPT_S), enumerate((0.25, 1.0)))
    )
    return Figure(
        "beyond-size", PLACE, "One publication in systems up to sixteen times larger",
        f"As figure 4(a), up to {nodes[-1]:,} nodes. Calibrated preset.",
        "The logarithm holds.",
        NODES_LABEL, LATENCY_LABEL, curves, x_log2=True,
    )  # fmt: skip


def _storm(profile: Profile) -> Figure:
    nodes = runs.powers(8, profile.storm_nodes_max)
    curves = tuple(
        Curve(
            f"{NAMES[system]}, {percent(share)} publishers",
            samples({n: runs.storm(system, n, share) for n in nodes if n * share <= _STORM_PUBLISHERS_MAX}),
            system,
            variant,
        )
        for system, (variant, share) in product((VCUBE, SRPT_S), enumerate((0.25, 1.0)))
    )
    return Figure(
        "beyond-storm", PLACE, "Several publishers in systems up to sixteen times larger",
        f"As figure 6(a), up to {nodes[-1]:,} nodes and {_STORM_PUBLISHERS_MAX:,} publishers, with two or three runs "
        "beyond 4,096 nodes. Calibrated preset.",
        "Once every node must send more copies than the window has time for, VCube-PS grows in proportion to the "
        "publishers, as it must at one copy per u.t. SRPT has one node to send what VCube-PS spreads over all.",
        NODES_LABEL, LATENCY_LABEL, curves, x_log2=True, y_log=True,
    )  # fmt: skip


def _brokers(profile: Profile) -> Figure:
    nodes = runs.powers(1024, profile.brokers_nodes_max)[::2]
    curves = [
        Curve("VCube-PS", samples({n: runs.brokers(VCUBE, n) for n in nodes}), VCUBE),
        Curve("SRPT-S", samples({n: runs.brokers(SRPT_S, n) for n in nodes}), SRPT_S),
    ]
    for variant, per_broker in enumerate((127, 15, 1)):
        measured = samples({n: runs.brokers(SRPT_B, n, n // (per_broker + 1)) for n in nodes})
        curves.append(Curve(f"SRPT-B, {per_broker} per broker", measured, SRPT_B, variant))
    return Figure(
        "beyond-brokers", PLACE, "Brokers in larger systems",
        f"As figure 10, up to {nodes[-1]:,} nodes, with the same numbers of subscribers per broker. Literal preset.",
        "Publishers grow with the system, so the same 128 messages come faster. Brokers with 127 subscribers each are "
        "overloaded from 16,384 nodes on.",
        NODES_LABEL, LATENCY_LABEL, tuple(curves), x_log2=True,
    )  # fmt: skip


def _discussion(profile: Profile) -> Iterator[Figure]:
    nodes = runs.powers(64, profile.discussion_nodes_max)
    set_up = f"As figure 7, from {nodes[0]} to {nodes[-1]:,} nodes, with one question and with ten. Literal preset."
    for id_, title, measure, label, look in (
        (
            "beyond-barriers", "Size of causal barriers by size of the system", runs.ENTRIES,
            "mean size of a barrier (entries)",
            "Pruning keeps barriers at a half to a third of their size, and they grow slowly with the system.",
        ),
        (
            "beyond-barriers-max", "Largest causal barrier by size of the system", Measure("barrier_entries", "max"),
            "largest barrier of a run (entries)",
            "The largest barrier of a run is several times the mean.",
        ),
    ):  # fmt: skip
        curves = tuple(
            Curve(
                f"{'one question' if questions == 1 else 'ten questions'}, {name}",
                samples({n: runs.discussion(n, questions, protocol) for n in nodes}, measure),
                drawn_as,
                variant,
            )
            for (protocol, name, drawn_as), (variant, questions) in product(_PROTOCOLS, enumerate((1, 10)))
        )
        yield Figure(
            id_, PLACE, title, set_up, look, NODES_LABEL, label, curves, x_log2=True, y_log=True
        )  # fmt: skip
    waits = Measure("causal_wait_ut", "share", low=1)
    yield Figure(
        "beyond-waits", PLACE, "Who waits for causal order, by size of the system",
        set_up, "The larger the system, the more answers cross each other, and the more have to wait.",
        NODES_LABEL, "share of receptions that wait",
        tuple(
            Curve(
                "one question" if questions == 1 else "ten questions",
                samples({n: runs.discussion(n, questions, "amended") for n in nodes}, waits),
                VCUBE,
                variant,
            )
            for variant, questions in enumerate((1, 10))
        ),
        x_log2=True,
    )  # fmt: skip


_CHURN_PROTOCOLS = (
    ("published", "published protocol", VCUBE),
    ("amended", "amended protocol", AMENDED),
)


def _losses(profile: Profile) -> Figure:
    nodes = runs.powers(256, profile.churn_nodes_max)
    curves: list[Curve] = []
    for (protocol, name, drawn_as), (variant, share) in product(_CHURN_PROTOCOLS, enumerate((0.125, 0.25))):
        points = {n: runs.churn(VCUBE, n, share, protocol) for n in nodes}
        lost = samples(points, Measure("lost"), over=Measure("expected"))
        curves.append(Curve(f"{name}, {percent(share)} churn", lost, drawn_as, variant))
    return Figure(
        "beyond-losses", PLACE, "Messages lost under churn",
        "As figure 9. Expected are the receptions by nodes whose subscription was in effect when a broadcast began and "
        "that had not asked to leave when all had acknowledged it.",
        "The protocol as published loses messages, which the paper does not mention. The amended one loses none.",
        NODES_LABEL, "share of the expected receptions", tuple(curves), x_log2=True,
    )  # fmt: skip


def _churn_barriers(profile: Profile) -> Iterator[Figure]:
    nodes = runs.powers(256, profile.churn_nodes_max)
    for id_, title, measure, label in (
        ("beyond-churn-barriers", "Causal barriers under churn", runs.ENTRIES, "mean entries of a barrier"),
        (
            "beyond-churn-barriers-max", "Largest causal barrier under churn", Measure("barrier_entries", "max"),
            "largest barrier of a run (entries)",
        ),
    ):  # fmt: skip
        curves = tuple(
            Curve(
                f"{name}, {percent(share)} churn",
                samples({n: runs.churn(VCUBE, n, share, protocol) for n in nodes}, measure),
                drawn_as,
                variant,
            )
            for (protocol, name, drawn_as), (variant, share) in product(
                _CHURN_PROTOCOLS, enumerate((0.125, 0.25))
            )
        )
        yield Figure(
            id_, PLACE, title, "As figure 9.",
            "What the amended protocol pays for losing nothing: its messages carry larger barriers.",
            NODES_LABEL, label, curves, x_log2=True, y_log=True,
        )  # fmt: skip
