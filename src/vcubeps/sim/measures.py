"""What figures and tables say of a run, each a number taken from one of its exact histograms.

Every measurement of a run is a histogram, a count being one with a single value: so the data pipeline has
one kind of row, and this page says what is made of it. `Measure.taken` is the judge of the pipeline's SQL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vcubeps.sim.measurements import Measurements

Sparse: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]
"""A histogram without its zeros: values, ascending, and how often each."""

Form: TypeAlias = Literal["value", "ratio", "increase", "reduction", "difference", "extra", "spread"]
"""What is made of measures a, b …: a; a/b; a/b − 1; 1 − a/b; a − b; a/(b − a); highest/lowest − 1."""

HISTOGRAMS = (
    "reception_ut", "delivery_ut", "causal_wait_ut", "barrier_entries", "path_hops", "broker_ut", "last_hop_ut",
)  # fmt: skip
COUNTS = (
    "publications", "pub_copies", "ack_copies", "sub_copies", "uns_copies", "false_positives", "forwarders",
    "expected", "lost", "events",
)  # fmt: skip
QUEUE = "queue_length"
"""Of the nodes, by the average length of their send queues, rounded up: a group (low, high] of table 1, whose limits
are whole numbers, is then low + 1 to high."""


def sparse(run: Measurements) -> Mapping[str, Sparse]:
    """Everything measured of a run, by name; what there is nothing of is left out."""
    dense = {name: getattr(run, name) for name in HISTOGRAMS}
    if len(run.queue_copies):
        copies = np.maximum(run.queue_copies, 1)
        dense[QUEUE] = np.bincount((run.queue_total + copies - 1) // copies)
    found: dict[str, Sparse] = {}
    for name, counts in dense.items():
        values = np.flatnonzero(counts)
        if len(values):
            found[name] = (values.astype(np.int64), np.asarray(counts[values], np.int64))
    one = np.ones(1, np.int64)
    return found | {name: (np.array([getattr(run, name)], np.int64), one) for name in COUNTS}


@dataclass(frozen=True, slots=True)
class Measure:
    """One number of a run.

    >>> counts = {"path_hops": (np.array([1, 2, 4]), np.array([5, 4, 1]))}
    >>> Measure("path_hops").taken(counts), Measure("path_hops", "share", low=2).taken(counts)
    (1.7, 0.5)
    >>> Measure("path_hops", "percentile", percent=90).taken(counts), Measure("path_hops", "max").taken(counts)
    (2.0, 4.0)
    """

    of: str
    """Name of a histogram, a count or the queues."""
    take: Literal["mean", "share", "count", "percentile", "max"] = "mean"
    """share, count: of the values from `low` to `high`, both included."""
    low: int = 0
    high: int | None = None
    percent: int = 50
    """percentile: the smallest value that at least so many per cent of the values do not exceed."""

    def __post_init__(self) -> None:
        if self.of not in (*HISTOGRAMS, *COUNTS, QUEUE):
            raise ValueError(f"{self.of!r} is not measured")

    def taken(self, histograms: Mapping[str, Sparse]) -> float | None:
        """None if there is nothing to measure."""
        if self.of not in histograms:
            return None
        values, counts = histograms[self.of]
        inside = (values >= self.low) & (values <= (np.inf if self.high is None else self.high))
        total = int(counts.sum())
        match self.take:
            case "mean":
                return float(values @ counts) / total
            case "count":
                return float(counts[inside].sum())
            case "share":
                return float(counts[inside].sum()) / total
            case "max":
                return float(values[-1])
            case "percentile":
                return float(values[np.searchsorted(100 * np.cumsum(counts), self.percent * total)])
