"""Many runs of one point → one row: means over runs with their 95 % confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vcubeps.sim.measurements import Histogram, Measurements
from vcubeps.sim.scenarios import Point

Cell: TypeAlias = int | float | str | list[int] | dict[str, float] | None
Row: TypeAlias = dict[str, Cell]

QUEUE_LIMITS = (0, 2, 4, 8, 16, 32, 4096, 8192)
"""Of the groups of table 1; the first group is 0 alone, the last one all beyond."""

_DIGITS = 6


def mean(counts: Histogram) -> float | None:
    """Of the values that a histogram counts; None if it is empty.

    >>> mean(np.array([0, 1, 0, 1]))
    2.0
    """
    total = int(counts.sum())
    return float(counts @ np.arange(len(counts))) / total if total else None


def percentile(counts: Histogram, share: float) -> int | None:
    """The smallest value that at least this share of the values does not exceed.

    >>> percentile(np.array([5, 4, 1]), 0.9)
    1
    """
    cumulated = np.cumsum(counts)
    return int(np.searchsorted(cumulated, share * cumulated[-1])) if len(counts) and cumulated[-1] else None


def confidence95(values: Sequence[float]) -> float | None:
    """Half the width of the 95 % confidence interval of their mean (Student); None for fewer than two.

    >>> round(confidence95([1.0, 2.0, 3.0]), 3)
    2.484
    """
    if len(values) < 2:
        return None
    return student(len(values) - 1) * float(np.std(values, ddof=1)) / sqrt(len(values))


_STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Quantile 0.975 of Student's distribution with 1, 2, … degrees of freedom."""


def student(freedom: int) -> float:
    if freedom <= len(_STUDENT):
        return _STUDENT[freedom - 1]
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def summarise(point: Point, seed: int, runs: Sequence[Measurements]) -> Row:
    """One row of the answer of `vcubeps simulate`; null where a system has nothing to measure.

    Means are over runs. Histograms, and what is said of causal waits and barriers, are of all runs together.
    """
    row: Row = {"system": point.system, **point.parameters, "scenario": point.scenario, "seed": seed}
    row["runs"] = len(runs)
    latencies = [value for run in runs if (value := mean(run.reception_ut)) is not None]
    row["latency_mean_ut"] = _mean(latencies)
    row["latency_ci95_ut"] = _rounded(confidence95(latencies))
    receptions = _pooled([run.reception_ut for run in runs])
    row["latency_p50_ut"] = percentile(receptions, 0.5)
    row["latency_p99_ut"] = percentile(receptions, 0.99)
    row["latency_max_ut"] = len(receptions) - 1 if len(receptions) else None
    row["delivery_mean_ut"] = _mean_of([run.delivery_ut for run in runs])
    waits = _pooled([run.causal_wait_ut for run in runs])
    row["causal_wait_mean_ut"] = _rounded(mean(waits))
    row["causal_wait_none_share"] = _rounded(waits[0] / waits.sum()) if len(waits) else None
    row["causal_wait_max_ut"] = len(waits) - 1 if len(waits) else None
    barriers = _pooled([run.barrier_entries for run in runs])
    row["barrier_mean_entries"] = _rounded(mean(barriers))
    row["barrier_max_entries"] = len(barriers) - 1 if len(barriers) else None
    row["path_mean_hops"] = _mean_of([run.path_hops for run in runs])
    row["tree_mean_ut"] = _mean_of([run.broker_ut for run in runs])
    row["broker_to_subscriber_mean_ut"] = _mean_of([run.last_hop_ut for run in runs])
    queues = [_queue_means(run) for run in runs]
    row["queue_mean_copies"] = _mean([float(queue.mean()) for queue in queues if len(queue)])
    row["queue_max_copies"] = _mean([float(queue.max()) for queue in queues if len(queue)])
    row["queue_groups_mean_nodes"] = _queue_groups(queues)
    row["barrier_entries_histogram"] = barriers.tolist()
    row["causal_wait_ut_histogram"] = waits.tolist()
    for column, values in (
        ("publications_mean", [run.publications for run in runs]),
        ("pub_messages_mean", [run.pub_copies for run in runs]),
        ("ack_messages_mean", [run.ack_copies for run in runs]),
        ("sub_messages_mean", [run.sub_copies for run in runs]),
        ("uns_messages_mean", [run.uns_copies for run in runs]),
        ("forwarders_mean", [run.forwarders for run in runs]),
        ("false_positives_mean", [run.false_positives for run in runs]),
        ("expected_mean", [run.expected for run in runs]),
        ("lost_mean", [run.lost for run in runs]),
    ):
        row[column] = _mean(values)
    return row


def _queue_means(run: Measurements) -> NDArray[np.float64]:
    """Node → average length of its send queue; 0 if it forwards nothing (the paper's metric 3)."""
    return np.asarray(run.queue_total / np.maximum(run.queue_copies, 1), np.float64)


def _queue_groups(queues: Sequence[NDArray[np.float64]]) -> dict[str, float]:
    """Group of table 1 → how many nodes have such an average queue, on average over runs."""
    counts = {"0": [int((queue == 0).sum()) for queue in queues]}
    for low, high in pairwise((*QUEUE_LIMITS, float("inf"))):
        name = f"({low}, {high}]" if high != float("inf") else f"over {low}"
        counts[name] = [int(((low < queue) & (queue <= high)).sum()) for queue in queues]
    return {name: float(np.mean(values)) for name, values in counts.items() if any(values)}


def _pooled(histograms: Sequence[Histogram]) -> Histogram:
    pooled = np.zeros(max(map(len, histograms), default=0), np.int64)
    for counts in histograms:
        pooled[: len(counts)] += counts
    return pooled


def _mean_of(histograms: Sequence[Histogram]) -> float | None:
    return _mean([value for counts in histograms if (value := mean(counts)) is not None])


def _mean(values: Sequence[float]) -> float | None:
    return _rounded(float(np.mean(values))) if values else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(float(value), _DIGITS)
