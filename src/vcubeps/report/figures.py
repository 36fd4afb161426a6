"""The figures and the table of the paper's section 4, as data. The paper's images are not at hand: only points that
its text states are marked as published."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product

from vcubeps.report import runs
from vcubeps.report.model import AMENDED, Curve, Figure, Published, Sample
from vcubeps.report.profiles import Profile
from vcubeps.report.runs import NAMES
from vcubeps.sim.measures import Measure
from vcubeps.sim.scenarios import SRPT_B, SRPT_S, VCUBE, Point

LATENCY_LABEL = "mean reception latency (u.t.)"
NODES_LABEL = "nodes N"
_BOTH = (VCUBE, SRPT_S)
_PRESETS = (("calibrated", False), ("literal", True))

BARRIER_GROUPS = ((0, 0), (1, 1), (2, 4), (5, 9), (10, 10), (11, 14), (15, 19), (20, 29), (30, None))
"""Smallest and largest size in each group of figure 7. The paper's own are not in its text."""
BARRIER_NAMES = ("0", "1", "2–4", "5–9", "10", "11–14", "15–19", "20–29", "30+")


def paper_figures(profile: Profile) -> Iterator[Figure]:
    """In the paper's order, as far as the profile goes."""
    yield _latency_by_nodes(profile)
    yield _pubs_by_nodes(profile)
    yield from _by_subscribers(profile)
    yield _several_publishers(profile, "6a", "6(a)", 100)
    yield _several_publishers(profile, "6b", "6(b)", 1000)
    yield _queues()
    yield _barriers("7", "one question", 1, Published("the paper", 1, 0.199))
    yield _barriers("7-ten", "ten questions", 10, Published("the paper", 4, 0.352))
    yield _topics()
    yield from _churn(profile)
    yield _brokers(profile)


def samples(
    points: Mapping[int, Point], measure: Measure = runs.LATENCY, over: Measure | None = None
) -> tuple[Sample, ...]:
    """The same measure, or ratio, at several places."""
    return tuple(Sample(x, point, measure, over) for x, point in points.items())


def percent(share: float) -> str:
    """
    >>> percent(0.25), percent(0.125)
    ('25 %', '12.5 %')
    """
    return f"{100 * share:g} %"


def _size(nodes: int, meant: int) -> str:
    """How a caption says the number of nodes when it is not the paper's."""
    return f"{nodes:,} nodes" if nodes == meant else f"{nodes:,} nodes here (the paper has {meant:,})"


def _by_presets(make: Callable[[str, str, bool], Iterator[Curve]]) -> tuple[Curve, ...]:
    """The main curves by the calibrated preset, and the same by the literal one, faint."""
    return tuple(
        curve for preset, faint in _PRESETS for curve in make(preset, ", literal" if faint else "", faint)
    )


def _latency_by_nodes(profile: Profile) -> Figure:
    nodes = runs.powers(8, profile.nodes_max)

    def curves(preset: str, suffix: str, faint: bool) -> Iterator[Curve]:
        for system, (variant, share) in product(_BOTH, enumerate((0.25, 1.0))):
            measured = samples({n: runs.single(system, n, share, preset) for n in nodes})
            name = f"{NAMES[system]}, {percent(share)} subscribers{suffix}"
            yield Curve(name, measured, system, variant, faint)

    published = (
        Published(f"{NAMES[VCUBE]}, 25 % subscribers", 4096, 533),
        Published(f"{NAMES[SRPT_S]}, 25 % subscribers", 4096, 720),
    )
    return Figure(
        "4a", "section 4.1, figure 4(a)", "Latency of one publication",
        "One random subscriber publishes one message; 25 % or 100 % of the nodes subscribe. Calibrated preset; "
        "the faint curves are the literal one.",
        "Both grow with the logarithm of N. VCube-PS grows with the number of subscribers, SRPT with the number of "
        "nodes, and it has one hop more.",
        NODES_LABEL, LATENCY_LABEL, _by_presets(curves), x_log2=True,
        published=published if 4096 in nodes else (),
    )  # fmt: skip


def _pubs_by_nodes(profile: Profile) -> Figure:
    nodes = runs.powers(8, profile.nodes_max)
    curves = tuple(
        Curve(NAMES[system], samples({n: runs.single(system, n, 0.25) for n in nodes}, runs.PUBS), system)
        for system in _BOTH
    )
    return Figure(
        "4b", "section 4.1, figure 4(b)", "PUB messages of one publication",
        "25 % of the nodes subscribe. Copies on the tree; a publisher's hop to SRPT's root is not counted. "
        "They do not depend on the preset.",
        "VCube-PS sends one copy per subscriber. SRPT also sends through forwarders.",
        NODES_LABEL, "PUB messages", curves, x_log2=True, y_log=True,
    )  # fmt: skip


def _by_subscribers(profile: Profile) -> Iterator[Figure]:
    nodes = profile.nodes_max
    size = _size(nodes, 4096)
    x_label = "subscribers (% of the nodes)"
    xs = range(10, 101, 10)

    def curves(preset: str, suffix: str, faint: bool) -> Iterator[Curve]:
        for system in _BOTH:
            measured = samples({x: runs.single(system, nodes, x / 100, preset) for x in xs})
            yield Curve(NAMES[system] + suffix, measured, system, faint=faint)

    yield Figure(
        "5a", "section 4.1, figure 5(a)", "Latency by share of subscribers",
        f"One publication, {size}. The paper's caption says 8192 nodes, its text 4096. Calibrated preset; the faint "
        "curves are the literal one.",
        "VCube-PS pays for the subscribers there are. SRPT pays for the whole tree at any share.",
        x_label, LATENCY_LABEL, _by_presets(curves),
    )  # fmt: skip
    srpt = NAMES[SRPT_S]
    for id_, title, measure, label, look, extra, published in (
        (
            "5b", "Forwarders of SRPT", runs.FORWARDERS, "forwarders (nodes)",
            "Forwarders are most where about a quarter of the nodes subscribe; beyond, subscribers take their places.",
            "", (Published(srpt, 30, 779),),
        ),
        (
            "5b-path", "Path of a message in SRPT", runs.PATH, "mean path (hops)",
            "The path does not depend on the share of subscribers.",
            " A path includes the hop from the publisher to the root.",
            tuple(Published(srpt, x, 7) for x in xs),
        ),
    ):  # fmt: skip
        curve = Curve(srpt, samples({x: runs.single(SRPT_S, nodes, x / 100) for x in xs}, measure), SRPT_S)
        yield Figure(
            id_, "section 4.1, figure 5(b)", title,
            f"One publication, {size}.{extra}", look, x_label, label, (curve,),
            published=published if nodes == 4096 else (),
        )  # fmt: skip


def _several_publishers(profile: Profile, id_: str, name: str, propagation_ut: int) -> Figure:
    nodes = runs.powers(8, profile.nodes_max)

    def curves(preset: str, suffix: str, faint: bool) -> Iterator[Curve]:
        for system, (variant, share) in product(_BOTH, enumerate((0.25, 1.0))):
            measured = samples({n: runs.storm(system, n, share, preset, propagation_ut) for n in nodes})
            label = f"{NAMES[system]}, {percent(share)} publishers{suffix}"
            yield Curve(label, measured, system, variant, faint)

    return Figure(
        id_, f"section 4.2, figure {name}", f"Latency with several publishers, t_pp = {propagation_ut} u.t.",
        "All nodes subscribe; each publisher publishes one message within 1000 u.t. Calibrated preset; the faint "
        "curves are the literal one, mostly hidden behind it.",
        "SRPT's root is the bottleneck from 256 nodes on. VCube-PS spreads the work, until every node must send "
        "more copies than there is time."
        if propagation_ut == 100
        else "With links ten times longer, waiting at the root weighs less. The two curves of VCube-PS coincide.",
        NODES_LABEL, LATENCY_LABEL, _by_presets(curves), x_log2=True, y_log=True,
    )  # fmt: skip


TABLE_1 = {VCUBE: (0, 0, 0, 495, 510, 19, 0, 0), SRPT_S: (512, 448, 60, 3, 0, 0, 0, 1)}
"""Nodes per group, as printed."""


def _queues() -> Figure:
    curves, published = [], []
    for system in _BOTH:
        measures = [runs.queue_group(*group) for group in runs.QUEUE_GROUPS]
        point = runs.queues(system)
        measured = tuple(Sample(x, point, measure) for x, measure in enumerate(measures))
        curves.append(Curve(NAMES[system], measured, system))
        published += [Published(NAMES[system], x, count) for x, count in enumerate(TABLE_1[system])]
    return Figure(
        "table1", "section 4.2, table 1", "Nodes by the average length of their send queue",
        "1,024 nodes that all subscribe and publish one message. A node's average is over the PUB copies that it "
        "sends, each counting the queue just after it was put in. Ours is the mean over runs, the paper's is one "
        "run. Literal preset; the other one differs less than runs do.",
        "In SRPT half of the nodes do nothing and one does nearly all. In VCube-PS all have a similar load.",
        "average length of the queue (messages)", "nodes", tuple(curves), kind="table", ticks=runs.QUEUE_NAMES,
        published=tuple(published),
    )  # fmt: skip


def _barriers(id_: str, title: str, questions: int, published: Published) -> Figure:
    groups = [Measure("barrier_entries", "share", low, high) for low, high in BARRIER_GROUPS]
    curves = []
    for variant, (protocol, name) in enumerate(
        (("amended", "pruned, as the algorithm is written"), ("unpruned", "never pruned"))
    ):
        point = runs.discussion(256, questions, protocol)
        measured = tuple(Sample(x, point, measure) for x, measure in enumerate(groups))
        curves.append(Curve(name, measured, VCUBE, variant))
    return Figure(
        id_, "section 4.3, figure 7", f"Sizes of causal barriers, {title}",
        "256 nodes; everybody answers once, a little after having delivered the question(s). The groups are ours.",
        "The share that the paper states lies between the two readings of the algorithm."
        if questions == 1
        else "The share that the paper states agrees with barriers that are never pruned.",
        "direct causal dependencies of a message", "share of the messages", tuple(curves), kind="bars",
        ticks=BARRIER_NAMES, published=(published,),
    )  # fmt: skip


def _topics() -> Figure:
    messages = runs.powers(1 << 8, 1 << 14)
    curves = tuple(
        Curve(
            f"{NAMES[system]}, {distribution}",
            samples({m: runs.topics(system, m, distribution) for m in messages}),
            system,
            variant,
        )
        for system, (variant, distribution) in product(_BOTH, enumerate(("uniform", "zipf")))
    )
    return Figure(
        "8", "section 4.4, figure 8", "Latency with many topics",
        "256 nodes subscribe to 128 topics; each publishes every 500 u.t., on a topic drawn uniformly or by Zipf's "
        "law (0.825). Literal preset; acknowledgements use the send queues.",
        "Popular topics overload the roots that SRPT gives them. VCube-PS has no such roots.",
        "messages in all", LATENCY_LABEL, curves, x_log2=True,
    )  # fmt: skip


_CHURN_VARIANTS = (
    (VCUBE, "published", "VCube-PS", VCUBE),
    (SRPT_S, "", "SRPT", SRPT_S),
    (VCUBE, "amended", "VCube-PS amended", AMENDED),
)
"""System, protocol, name, and as what it is drawn."""


def _churn(profile: Profile) -> Iterator[Figure]:
    nodes = runs.powers(256, profile.churn_nodes_max)
    for id_, name, title, measure, label, y_log, look in (
        (
            "9a", "9(a)", "Latency under churn", runs.LATENCY, LATENCY_LABEL, True,
            "SRPT must pass every change of membership through its root, and breaks down as N grows.",
        ),
        (
            "9b", "9(b)", "False positives under churn", runs.FALSE_POSITIVES,
            "false positives (PUB messages)", False,
            "False positives are PUB messages that reach non-subscribers. SRPT's forwarders are permanent; those of "
            "VCube-PS are nodes that have just left.",
        ),
    ):  # fmt: skip
        curves = tuple(
            Curve(
                f"{system_name}, {percent(share)} churn",
                samples({n: runs.churn(system, n, share, protocol) for n in nodes}, measure),
                drawn_as,
                variant,
            )
            for (system, protocol, system_name, drawn_as), (variant, share) in product(
                _CHURN_VARIANTS, enumerate((0.125, 0.25))
            )
        )
        yield Figure(
            id_, f"section 4.5, figure {name}", title,
            "75 % of the nodes subscribe; 12.5 % or 25 % of them are replaced again and again while 128 messages are "
            "published. A wave every 3,000 u.t., not every 300 as the paper says, which no system here survives. "
            "Literal preset; acknowledgements use the send queues. VCube-PS is the published protocol, "
            "amended this project's. Where SRPT is furthest behind, with 25 % churn and from 1,024 nodes on, fewer "
            "than 128 messages come to be published in it.",
            look, NODES_LABEL, label, curves, x_log2=True, y_log=y_log,
        )  # fmt: skip


def _brokers(profile: Profile) -> Figure:
    nodes = profile.nodes_max
    counts = (nodes // 128, nodes // 16, nodes // 2)
    whole = Curve(
        "whole latency",
        (
            Sample(0, runs.brokers(VCUBE, nodes), runs.LATENCY),
            Sample(1, runs.brokers(SRPT_S, nodes), runs.LATENCY),
        ),
        "",
    )
    parts = tuple(
        Curve(
            name,
            tuple(
                Sample(2 + k, runs.brokers(SRPT_B, nodes, count), measure) for k, count in enumerate(counts)
            ),
            SRPT_B,
            variant,
        )
        for variant, (name, measure) in enumerate(
            (
                ("Tree: publisher to brokers", runs.TREE),
                ("B-S: broker to subscribers", runs.BROKER_TO_SUBSCRIBER),
            )
        )
    )
    return Figure(
        "10", "section 4.6, figure 10", "Latency with brokers",
        f"{_size(nodes, 4096)}; {counts[0]}, {counts[1]} or {counts[2]:,} brokers with 127, 15 and 1 subscribers each; "
        "128 messages, from an eighth of the tree's nodes, which start within 10 u.t. Literal preset.",
        "Few brokers have a fast tree and slow last hops; many have the reverse. VCube-PS does better than brokers in "
        "large systems; in small ones its publishers wait for acknowledgements.",
        "", LATENCY_LABEL, (whole, *parts), kind="stacked bars",
        ticks=("VCube-PS", "SRPT-S", *(f"SRPT-B\n{count:,}" for count in counts)),
    )  # fmt: skip
