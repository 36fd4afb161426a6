"""What happened at nodes between two looks at them: rates per node and per topic, as rows to show or print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from vcubeps.net.status import Status


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One node; None where it is not known. Rates are per second since the last look."""

    gateway: str
    node: int | None
    up: bool
    topics: int | None = None
    publications_per_s: float | None = None
    deliveries_per_s: float | None = None
    latency_us_p50: int | None = None
    latency_us_p99: int | None = None
    """From publication to delivery here, since the node started."""
    waiting: int | None = None
    """Received and not delivered, because what they come after is missing."""
    unread: int | None = None
    held: int | None = None
    """Acknowledgements held because a subscriber read too slowly, since the node started."""
    resent: int | None = None
    """Messages sent again after a connection was lost, since the node started."""
    problems: tuple[str, ...] = ()


class TopicRow(msgspec.Struct, frozen=True, kw_only=True):
    """One topic, over all nodes that were asked."""

    topic: str
    members: int
    publications_per_s: float | None
    deliveries_per_s: float | None
    waiting: int
    unread: int
    """In the fullest subscription."""


class Snapshot(msgspec.Struct, frozen=True):
    nodes: tuple[NodeRow, ...]
    topics: tuple[TopicRow, ...]


Statuses = Mapping[str, "Status | None"]
"""URL of a gateway → what it said; None if nothing."""


def snapshot(nodes: Mapping[str, int | None], before: Statuses, now: Statuses) -> Snapshot:
    """What `now` says, with rates since `before`; `nodes` are those of the gateways, where they are known."""
    return Snapshot(
        tuple(_node_row(url, nodes[url], before.get(url), status) for url, status in now.items()),
        _topic_rows(before, now),
    )


def _node_row(gateway: str, node: int | None, before: Status | None, now: Status | None) -> NodeRow:
    if now is None:
        return NodeRow(gateway=gateway, node=node, up=False, problems=("its gateway does not answer",))
    publications, deliveries = (
        _rate(before, now, _total(before, count), _total(now, count))
        for count in ("publications", "deliveries")
    )
    return NodeRow(
        gateway=gateway,
        node=now.node,
        up=now.up,
        topics=sum(topic.stage == "in" for topic in now.topics),
        publications_per_s=publications,
        deliveries_per_s=deliveries,
        latency_us_p50=now.latency_us.p50 if now.latency_us.count else None,
        latency_us_p99=now.latency_us.p99 if now.latency_us.count else None,
        waiting=sum(topic.waiting for topic in now.topics),
        unread=max((topic.unread for topic in now.topics), default=0),
        held=now.counts.held_acks,
        resent=now.counts.resent,
        problems=tuple(now.complaints()),
    )


def _topic_rows(before: Statuses, now: Statuses) -> tuple[TopicRow, ...]:
    names = sorted(
        {topic.topic for status in now.values() if status for topic in status.topics if topic.stage == "in"}
    )
    return tuple(_topic_row(name, before, now) for name in names)


def _topic_row(name: str, before: Statuses, now: Statuses) -> TopicRow:
    present = [topic for status in now.values() if status for topic in status.topics if topic.topic == name]
    return TopicRow(
        topic=name,
        members=len({member for topic in present for member in topic.members}),
        publications_per_s=_topic_rate(name, "publications", before, now),
        deliveries_per_s=_topic_rate(name, "deliveries", before, now),
        waiting=sum(topic.waiting for topic in present),
        unread=max(topic.unread for topic in present),
    )


def _topic_rate(name: str, count: str, before: Statuses, now: Statuses) -> float | None:
    rates = [
        _rate(before.get(url), status, _total(before.get(url), count, name), _total(status, count, name))
        for url, status in now.items()
        if status is not None
    ]
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


def _total(status: Status | None, count: str, name: str | None = None) -> int:
    """Of topic `name`, or of all."""
    if status is None:
        return 0
    return sum(getattr(topic, count) for topic in status.topics if name in (None, topic.topic))


def _rate(before: Status | None, now: Status, total_before: int, total_now: int) -> float | None:
    """None if it is the first look at this process: what it counts began with its start."""
    if before is None or before.pid != now.pid or before.incarnation > now.incarnation:
        return None
    seconds = now.uptime_s - before.uptime_s
    return (total_now - total_before) / seconds if seconds > 0 and total_now >= total_before else None
