"""The measures of a node for Prometheus. They are plain integers; this reads them when it is asked, never before."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from vcubeps.net.clock import now_s
from vcubeps.net.gateway import refusals
from vcubeps.net.measures import Histogram
from vcubeps.net.status import links_of, topics_of
from vcubeps.node import greeting
from vcubeps.node.lifecycle import Life
from vcubeps.provenance import package_version

if TYPE_CHECKING:
    from vcubeps.net.gateway.shared import Shared

_LATENCY_BUCKETS = range(3, 28)
"""Powers of two in microseconds: 8 µs to 134 s."""

_BARRIER_BUCKETS = range(17)
_BATCH_BUCKETS = range(1, 12)


class Exposition:
    """All metrics of one node, as text."""

    def __init__(self, shared: Shared) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_NodeCollector(shared))
        ProcessCollector(registry=self._registry)

    async def render(self, accept: str) -> tuple[bytes, str]:
        """The metrics, in the format that the header `Accept` asks for, and its content type.

        They are read at once; making text of them takes longer and happens in a thread.
        """
        encode, content_type = choose_encoder(accept)
        snapshot = CollectorRegistry(auto_describe=False)
        snapshot.register(_Snapshot(list(self._registry.collect())))
        return await asyncio.to_thread(encode, snapshot), content_type


class _Snapshot(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        return self._metrics


class _NodeCollector(Collector):
    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def collect(self) -> Iterator[Metric]:
        yield from self._node()
        yield from self._topics()
        yield from self._histograms()
        yield from self._links()
        yield from self._troubles()
        yield from self._gateway()

    def _node(self) -> Iterator[Metric]:
        shell = self._shared.shell
        info = GaugeMetricFamily(
            "vcubeps_node_info", "Which node this is; always 1.", labels=("cluster", "node", "version")
        )
        info.add_metric((shell.settings.cluster, str(shell.id), package_version()), 1)
        yield info
        up = shell.machine.life_at(now_s()) is Life.UP and shell.failure is None
        yield _gauge("vcubeps_up", "Whether the node takes part: 1 or 0.", int(up))
        isolated = shell.machine.life_at(now_s()) is Life.ISOLATED
        yield _gauge(
            "vcubeps_isolated", "Whether the node reaches no quorum of the voters: 1 or 0.", int(isolated)
        )
        silent, crashed = shell.machine.detector.silent(), shell.machine.crashed()
        yield _gauge("vcubeps_nodes_silent", "Nodes that do not answer.", len(silent))
        yield _gauge("vcubeps_nodes_crashed", "Nodes that count as crashed.", len(crashed))
        yield _gauge(
            "vcubeps_incarnation", "How often the node had started before.", shell.machine.peer.incarnation
        )
        yield _gauge("vcubeps_uptime_seconds", "Since the node started.", self._shared.uptime_s)

    def _topics(self) -> Iterator[Metric]:
        publications = _counters("vcubeps_publications", "Publications of this node.", "topic")
        receptions = _counters("vcubeps_receptions", "Publications of other nodes that arrived.", "topic")
        deliveries = _counters("vcubeps_deliveries", "Publications delivered in causal order.", "topic")
        members = _gauges("vcubeps_topic_members", "Nodes that are members, as this one sees it.", "topic")
        waiting = _gauges(
            "vcubeps_topic_waiting", "Publications received that wait for their causal past.", "topic"
        )
        unread = _gauges("vcubeps_topic_unread", "Messages unread in the fullest subscription.", "topic")
        unacknowledged = _gauges(
            "vcubeps_topic_unacknowledged",
            "Own publications that not every subscriber has received.",
            "topic",
        )
        full = _gauges("vcubeps_topic_full", "Whether publishers wait for this node: 1 or 0.", "topic")
        for each in topics_of(self._shared.shell, self._shared.topics.unread()):
            label = (each.topic,)
            publications.add_metric(label, each.publications)
            receptions.add_metric(label, each.receptions)
            deliveries.add_metric(label, each.deliveries)
            if each.stage == "out":
                continue
            members.add_metric(label, len(each.members))
            waiting.add_metric(label, each.waiting)
            unread.add_metric(label, each.unread)
            unacknowledged.add_metric(label, each.unacknowledged)
            full.add_metric(label, int(each.full))
        yield from (publications, receptions, deliveries, members, waiting, unread, unacknowledged, full)

    def _histograms(self) -> Iterator[Metric]:
        measures = self._shared.shell.measures
        measures.sort_in()
        yield _histogram_s(
            "vcubeps_latency_seconds",
            "From publication to delivery here, of other nodes' publications, by both nodes' clocks.",
            measures.latency_us,
        )
        yield _histogram_s(
            "vcubeps_causal_wait_seconds",
            "From reception to delivery, of other nodes' publications.",
            measures.causal_wait_us,
        )
        yield _histogram(
            "vcubeps_barrier_entries",
            "Entries of the causal barrier of each batch delivered.",
            measures.barrier_entries,
            _BARRIER_BUCKETS,
        )
        yield _histogram(
            "vcubeps_batch_publications",
            "Publications in each batch delivered.",
            measures.batch_items,
            _BATCH_BUCKETS,
        )

    def _links(self) -> Iterator[Metric]:
        connected = _gauges("vcubeps_link_connected", "Whether there is a connection: 1 or 0.", "peer")
        messages = _gauges(
            "vcubeps_link_unacknowledged_messages", "Messages to a node that it has not confirmed.", "peer"
        )
        size = _gauges("vcubeps_link_unacknowledged_bytes", "Their bytes.", "peer")
        for link in links_of(self._shared.shell):
            label = (str(link.node),)
            connected.add_metric(label, int(link.connected))
            messages.add_metric(label, link.unacknowledged_messages)
            size.add_metric(label, link.unacknowledged_bytes)
        yield from (connected, messages, size)

    def _troubles(self) -> Iterator[Metric]:
        machine, measures = self._shared.shell.machine, self._shared.shell.measures
        yield _counter(
            "vcubeps_resent", "Messages sent again after a connection was lost.", machine.links.resent
        )
        yield _by_cause(
            "vcubeps_refused", "Connections that this node ended.", greeting.Cause, machine.links.refused
        )
        yield _by_cause(
            "vcubeps_refused_by_others",
            "Connections that other nodes ended.",
            greeting.Cause,
            machine.links.refused_by_others,
        )
        yield _counter("vcubeps_violations", "Messages that no correct node would send.", machine.violations)
        yield _counter("vcubeps_usage_errors", "Calls of the application refused.", measures.usage_errors)
        yield _counter(
            "vcubeps_held_acknowledgements",
            "Acknowledgements held because a subscription was read too slowly.",
            machine.memberships.held_acks,
        )
        yield _counter(
            "vcubeps_slow_disconnects",
            "Subscriptions ended because they were read too slowly.",
            measures.disconnected_slow,
        )
        yield _counter(
            "vcubeps_restarts",
            "Times that this node went on as its next incarnation: taken for crashed, or left without a quorum.",
            measures.restarts,
        )

    def _gateway(self) -> Iterator[Metric]:
        shared = self._shared
        yield _gauge("vcubeps_gateway_clients", "Connections to the gateway.", shared.clients)
        subscriptions = sum(session.subscriptions for session in shared.sessions)
        yield _gauge(
            "vcubeps_gateway_subscriptions", "Subscriptions of clients of the gateway.", subscriptions
        )
        yield _by_cause(
            "vcubeps_gateway_refusals", "What the gateway refused.", refusals.Cause, shared.refusals
        )


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(name, meaning, value=value)


def _gauges(name: str, meaning: str, label: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, meaning, labels=(label,))


def _counter(name: str, meaning: str, value: int) -> Metric:
    return CounterMetricFamily(name, meaning, value=value)


def _counters(name: str, meaning: str, label: str) -> CounterMetricFamily:
    return CounterMetricFamily(name, meaning, labels=(label,))


def _by_cause(name: str, meaning: str, causes: type[StrEnum], counts: Mapping[str, int]) -> Metric:
    """Every cause from the start, so that its first occurrence is an increase."""
    family = _counters(name, meaning, "cause")
    for cause in causes:
        family.add_metric((cause.value,), counts.get(cause.value, 0))
    return family


def _histogram(name: str, meaning: str, values: Histogram, buckets: range) -> Metric:
    """Of whole numbers: bucket k holds those up to 2**k - 1."""
    bounds = [str(float((1 << k) - 1)) for k in buckets]
    return HistogramMetricFamily(
        name, meaning, buckets=_cumulated(values, buckets, bounds), sum_value=values.total
    )


def _histogram_s(name: str, meaning: str, values_us: Histogram) -> Metric:
    """Of durations, rounded down to microseconds: bucket k holds those below 2**k µs."""
    bounds = [str((1 << k) / 1e6) for k in _LATENCY_BUCKETS]
    return HistogramMetricFamily(
        name,
        meaning,
        buckets=_cumulated(values_us, _LATENCY_BUCKETS, bounds),
        sum_value=values_us.total / 1e6,
    )


def _cumulated(values: Histogram, buckets: range, bounds: list[str]) -> list[tuple[str, float]]:
    below, cumulated = sum(values.buckets[: buckets.start]), []
    for k, bound in zip(buckets, bounds, strict=True):
        below += values.buckets[k]
        cumulated.append((bound, float(below)))
    return [*cumulated, ("+Inf", float(values.count))]
