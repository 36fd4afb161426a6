"""How a node is doing, as typed values: what `Node.status`, GET /healthz and GET /status answer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from vcubeps.net.clock import now_s
from vcubeps.net.measures import Histogram
from vcubeps.net.shell import Shell
from vcubeps.node.lifecycle import Life
from vcubeps.provenance import package_version


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether the node can serve."""

    status: Literal["ok", "starting", "isolated", "failed"]
    cluster: str
    node: int
    reason: Annotated[str | None, Meta(description="why it cannot; absent if it can")] = None


class LinkStatus(msgspec.Struct, frozen=True):
    """The link to one other node that this one has talked with, or wants to."""

    node: int
    connected: bool
    unacknowledged_messages: int
    unacknowledged_bytes: int
    relay: Annotated[int | None, Meta(description="the node that it is reached through, if not directly")] = (
        None
    )


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


_NO_TOPICS: Mapping[str, Sequence[int]] = MappingProxyType({})


class Quantiles(msgspec.Struct, frozen=True):
    """Upper ends of the power-of-two buckets that these shares of all values are reached in."""

    p50: int
    p99: int
    count: int


class Contact(msgspec.Struct, frozen=True):
    """Whom a node reaches, and whom it has given up."""

    partition: str
    voters: tuple[int, ...]
    reached: Annotated[tuple[int, ...], Meta(description="voters that have answered just now")]
    silent: Annotated[dict[int, float], Meta(description="nodes that do not answer, for how many seconds")]
    crashed: Annotated[dict[int, str], Meta(description="nodes that count as crashed, and on what evidence")]


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
    up: Annotated[bool, Meta(description="whether it takes part: let in, in contact, and nothing has failed")]
    life: Annotated[str, Meta(description="starting, up, isolated, closing, closed or failed")]
    failure: Annotated[str | None, Meta(description="why it can do nothing any more")]
    problems: Annotated[
        dict[int, str], Meta(description="nodes that it has something for and cannot reach, why")
    ]
    contact: Contact
    links: tuple[LinkStatus, ...]
    topics: tuple[TopicStatus, ...]
    latency_us: Annotated[
        Quantiles, Meta(description="from publication to delivery here, of others' publications")
    ]
    causal_wait_us: Annotated[Quantiles, Meta(description="from reception to delivery")]
    batch_items: Annotated[Quantiles, Meta(description="publications in each batch delivered")]
    barrier_entries: Annotated[Quantiles, Meta(description="of each batch delivered")]
    counts: Counts

    def complaints(self) -> list[str]:
        """What an operator should know of, the worst first."""
        if self.failure is not None:
            return [self.failure]
        told = []
        if self.life == Life.ISOLATED.value:
            reached = ", ".join(map(str, self.contact.reached)) or "none"
            told.append(f"isolated: of the voters it reaches {reached}")
        elif not self.up:
            told.append("waits for the other nodes to let it in")
        told += [f"node {other}: {reason}" for other, reason in self.problems.items()]
        return told + [
            f"node {other} counts as crashed: {why}" for other, why in self.contact.crashed.items()
        ]


def health_of(shell: Shell) -> Health:
    cluster, node, life = shell.settings.cluster, shell.id, shell.machine.life_at(now_s())
    if shell.failure is not None:
        return Health("failed", cluster, node, str(shell.failure))
    if life is Life.ISOLATED:
        return Health("isolated", cluster, node, shell.machine.isolation())
    if life is not Life.UP:
        problems = shell.problems()
        missing = "".join(f"; node {other}: {reason}" for other, reason in list(problems.items())[:3])
        return Health(
            "starting",
            cluster,
            node,
            f"node {node} waits for the other nodes to let it in: try again{missing}",
        )
    return Health("ok", cluster, node)


def status_of(
    shell: Shell,
    clients: int = 0,
    refusals: Mapping[str, int] = MappingProxyType({}),
    unread: Mapping[str, Sequence[int]] = _NO_TOPICS,
) -> Status:
    """`clients`, `refusals` and `unread`, see `topics_of`, are those of its gateway."""
    machine, measures = shell.machine, shell.measures
    measures.sort_in()
    time_s = now_s()
    return Status(
        cluster=shell.settings.cluster,
        node=shell.id,
        incarnation=machine.peer.incarnation,
        version=package_version(),
        pid=os.getpid(),
        uptime_s=round(time_s - shell.started_s, 3),
        up=machine.life_at(time_s) is Life.UP and shell.failure is None,
        life=machine.life_at(time_s).value,
        failure=None if shell.failure is None else str(shell.failure),
        problems=shell.problems(),
        contact=Contact(
            partition=shell.settings.partition,
            voters=shell.settings.voting or (),
            reached=tuple(machine.majority.in_contact(time_s)),
            silent={other: round(since_s, 3) for other, since_s in machine.detector.silent().items()},
            crashed=machine.crashed(),
        ),
        links=links_of(shell),
        topics=topics_of(shell, unread),
        latency_us=_quantiles(measures.latency_us),
        causal_wait_us=_quantiles(measures.causal_wait_us),
        batch_items=_quantiles(measures.batch_items),
        barrier_entries=_quantiles(measures.barrier_entries),
        counts=Counts(
            resent=machine.links.resent,
            refused=dict(machine.links.refused),
            refused_by_others=dict(machine.links.refused_by_others),
            violations=machine.violations,
            usage_errors=measures.usage_errors,
            held_acks=machine.memberships.held_acks,
            disconnected_slow=measures.disconnected_slow,
            restarts=measures.restarts,
            gateway_clients=clients,
            gateway_refusals=dict(refusals),
        ),
    )


def links_of(shell: Shell) -> tuple[LinkStatus, ...]:
    return tuple(
        LinkStatus(
            link.other,
            link.connection is not None,
            len(link.outbox),
            link.outbox.size,
            None if link.connection is None or link.connection.via < 0 else link.connection.via,
        )
        for link in sorted(shell.machine.links, key=lambda link: link.other)
    )


def topics_of(
    shell: Shell, clients_unread: Mapping[str, Sequence[int]] = _NO_TOPICS
) -> tuple[TopicStatus, ...]:
    """`clients_unread`: topic → messages that wait for each client of the gateway, which is one reader for all."""
    return tuple(_topic(shell, name, clients_unread.get(name)) for name in sorted(shell.measures.topics))


def _topic(shell: Shell, name: str, clients_unread: Sequence[int] | None) -> TopicStatus:
    measures = shell.measures.topics[name]
    topic = shell.machine.memberships.topics.get(name)
    readers = topic.readers if topic is not None else []
    unread = [*(each.backlog for each in readers), *(clients_unread or ())]
    return TopicStatus(
        topic=name,
        stage=topic.stage.value if topic is not None else "out",
        members=shell.members(name),
        subscriptions=len(unread) - (clients_unread is not None and bool(readers)),
        publications=measures.publications,
        receptions=measures.receptions,
        deliveries=measures.deliveries,
        waiting=topic.pending if topic is not None else 0,
        unread=max(unread, default=0),
        unacknowledged=topic.unacknowledged if topic is not None else 0,
        full=topic.full if topic is not None else False,
    )


def _quantiles(histogram: Histogram) -> Quantiles:
    return Quantiles(histogram.quantile(0.5), histogram.quantile(0.99), histogram.count)
