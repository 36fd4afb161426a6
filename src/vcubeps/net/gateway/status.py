"""How a node is doing, as typed values: what GET /healthz and GET /status answer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from vcubeps.net.measures import Histogram
from vcubeps.net.topics import LocalTopic
from vcubeps.provenance import package_version

if TYPE_CHECKING:
    from vcubeps.net.gateway.shared import Shared
    from vcubeps.net.runtime import Runtime


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether the node can serve."""

    status: Literal["ok", "starting", "failed"]
    cluster: str
    node: int
    reason: Annotated[str | None, Meta(description="why it cannot; absent if it can")] = None


class LinkStatus(msgspec.Struct, frozen=True):
    """The link to one other node that this one has talked with, or wants to."""

    node: int
    connected: bool
    unacknowledged_messages: int
    unacknowledged_bytes: int


class TopicStatus(msgspec.Struct, frozen=True):
    """A topic that this node is, or was, a member of; the counts are since the node started."""

    topic: str
    stage: Literal["out", "joining", "in", "leaving"]
    members: Annotated[tuple[int, ...], Meta(description="as this node sees it; none if it is not a member")]
    subscriptions: Annotated[int, Meta(description="of this node, those for clients of the gateway included")]
    publications: Annotated[int, Meta(description="of this node")]
    receptions: Annotated[int, Meta(description="publications of others that arrived")]
    deliveries: Annotated[int, Meta(description="publications delivered in causal order, own ones included")]
    waiting: Annotated[
        int, Meta(description="publications received and not delivered: their past is missing")
    ]
    unread: Annotated[int, Meta(description="messages that wait in the fullest subscription to be read")]
    unacknowledged: Annotated[
        int, Meta(description="own publications that not every subscriber has received")
    ]
    full: Annotated[bool, Meta(description="whether its publishers are made to wait for this node")]


class Quantiles(msgspec.Struct, frozen=True):
    """Upper ends of the power-of-two buckets that these shares of all values are reached in."""

    p50: int
    p99: int
    count: int


class Counts(msgspec.Struct, frozen=True):
    """Since the node started, but `gateway_clients`."""

    resent: Annotated[int, Meta(description="messages sent again after a connection was lost")]
    refused: Annotated[dict[str, int], Meta(description="connections that this node ended, by cause")]
    refused_by_others: dict[str, int]
    violations: Annotated[int, Meta(description="messages that no correct node would send")]
    usage_errors: Annotated[int, Meta(description="calls of the application that were refused")]
    held_acks: Annotated[
        int, Meta(description="acknowledgements held because the application read too slowly")
    ]
    disconnected_slow: Annotated[int, Meta(description="subscriptions ended because they read too slowly")]
    restarts: Annotated[int, Meta(description="times that this node was taken for crashed although it lived")]
    gateway_clients: Annotated[int, Meta(description="connections to the gateway at present")]
    gateway_refusals: Annotated[dict[str, int], Meta(description="what the gateway refused, by cause")]


class Status(msgspec.Struct, frozen=True):
    """Everything worth knowing about a node at a glance."""

    cluster: str
    node: int
    incarnation: int
    version: str
    pid: int
    uptime_s: float
    up: Annotated[bool, Meta(description="whether the other nodes have let it in, and nothing has failed")]
    failure: Annotated[str | None, Meta(description="why it can do nothing any more")]
    problems: Annotated[
        dict[int, str], Meta(description="nodes that it has something for and cannot reach, why")
    ]
    links: tuple[LinkStatus, ...]
    topics: tuple[TopicStatus, ...]
    latency_us: Annotated[
        Quantiles, Meta(description="from publication to delivery here, of others' publications")
    ]
    causal_wait_us: Annotated[Quantiles, Meta(description="from reception to delivery")]
    batch_items: Annotated[Quantiles, Meta(description="publications in each batch delivered")]
    barrier_entries: Annotated[Quantiles, Meta(description="of each batch delivered")]
    counts: Counts


def health_of(runtime: Runtime) -> Health:
    cluster, node = runtime.settings.cluster, runtime.id
    if runtime.failure is not None:
        return Health("failed", cluster, node, str(runtime.failure))
    if not runtime.peer.is_up:
        problems = runtime.problems()
        missing = "".join(f"; node {other}: {reason}" for other, reason in list(problems.items())[:3])
        return Health(
            "starting",
            cluster,
            node,
            f"node {node} waits for the other nodes to let it in: try again{missing}",
        )
    return Health("ok", cluster, node)


def status_of(shared: Shared) -> Status:
    runtime, measures = shared.runtime, shared.runtime.measures
    measures.sort_in()
    return Status(
        cluster=runtime.settings.cluster,
        node=runtime.id,
        incarnation=runtime.peer.incarnation,
        version=package_version(),
        pid=os.getpid(),
        uptime_s=round(shared.uptime_s, 3),
        up=runtime.peer.is_up and runtime.failure is None,
        failure=None if runtime.failure is None else str(runtime.failure),
        problems=runtime.problems(),
        links=links_of(runtime),
        topics=topics_of(runtime),
        latency_us=_quantiles(measures.latency_us),
        causal_wait_us=_quantiles(measures.causal_wait_us),
        batch_items=_quantiles(measures.batch_items),
        barrier_entries=_quantiles(measures.barrier_entries),
        counts=Counts(
            resent=runtime.mesh.resent,
            refused=dict(runtime.mesh.refused),
            refused_by_others=dict(runtime.mesh.refused_by_others),
            violations=measures.violations,
            usage_errors=measures.usage_errors,
            held_acks=measures.held_acks,
            disconnected_slow=measures.disconnected_slow,
            restarts=measures.restarts,
            gateway_clients=shared.clients,
            gateway_refusals=dict(shared.refusals),
        ),
    )


def links_of(runtime: Runtime) -> tuple[LinkStatus, ...]:
    return tuple(
        LinkStatus(other, link.connection is not None, len(link.outbox), link.outbox.size)
        for other, link in sorted(runtime.mesh.links.items())
    )


def topics_of(runtime: Runtime) -> tuple[TopicStatus, ...]:
    return tuple(_topic(runtime, name) for name in sorted(runtime.measures.topics))


def _topic(runtime: Runtime, name: str) -> TopicStatus:
    measures = runtime.measures.topics[name]
    topic = runtime.topics.get(name) or LocalTopic(name, measures, runtime.settings.limits)  # it has left
    return TopicStatus(
        topic=name,
        stage=topic.stage.value,
        members=runtime.members(name),
        subscriptions=len(topic.subscriptions),
        publications=measures.publications,
        receptions=measures.receptions,
        deliveries=measures.deliveries,
        waiting=topic.pending,
        unread=max((each.backlog for each in topic.subscriptions), default=0),
        unacknowledged=len(topic.sent),
        full=topic.full,
    )


def _quantiles(histogram: Histogram) -> Quantiles:
    return Quantiles(histogram.quantile(0.5), histogram.quantile(0.99), histogram.count)
