"""What is measured of one run: exact integer histograms and counts, the same for every system and simulator."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Histogram = NDArray[np.int64]
"""Value → how often; values are integers from 0."""


def _empty() -> Histogram:
    return np.zeros(0, np.int64)


@dataclass(slots=True)
class Measurements:
    """Of one run. Times in u.t.; a *subscriber* is a node that has asked to subscribe and not to leave."""

    reception_ut: Histogram = field(default_factory=_empty)
    """From the application's publish to a reception at a member other than the source."""
    delivery_ut: Histogram = field(default_factory=_empty)
    """From the application's publish to a delivery at a member other than the source."""
    causal_wait_ut: Histogram = field(default_factory=_empty)
    """From a reception to the delivery of the same publication."""
    barrier_entries: Histogram = field(default_factory=_empty)
    """Entries of the causal barriers that publications carry."""
    path_hops: Histogram = field(default_factory=_empty)
    """Hops from the source to a member that receives, the hop to a root included."""
    broker_ut: Histogram = field(default_factory=_empty)
    """With brokers: from the application's publish to a reception at a broker."""
    last_hop_ut: Histogram = field(default_factory=_empty)
    """With brokers: from the reception at the broker to the reception at its subscriber."""
    queue_total: Histogram = field(default_factory=_empty)
    """Node → sum over its PUB copies of the length of its send queue just after the copy was put in."""
    queue_copies: Histogram = field(default_factory=_empty)
    """Node → its PUB copies."""
    publications: int = 0
    pub_copies: int = 0
    """PUB messages on the tree; the hop to a root is not counted."""
    ack_copies: int = 0
    sub_copies: int = 0
    uns_copies: int = 0
    false_positives: int = 0
    """PUB messages received by nodes that are not subscribers at that moment."""
    forwarders: int = 0
    """Nodes of the trees that are not members, summed over topics, when membership does not change."""
    expected: int = 0
    """Receptions by the nodes, the source excepted, whose subscription was in effect when the broadcast of
    the publication began and that had not asked to leave when it was acknowledged by all."""
    lost: int = 0
    """Of the expected ones, those that did not happen."""
    events: int = 0
    """Messages that arrived."""


def histogram(values: list[int]) -> Histogram:
    """
    >>> histogram([0, 2, 2]).tolist()
    [1, 0, 2]
    """
    return np.bincount(np.asarray(values, np.int64)).astype(np.int64) if values else _empty()


def trimmed(counts: Histogram) -> Histogram:
    """Without the zeros at its end.

    >>> trimmed(np.array([0, 3, 0, 0])).tolist()
    [0, 3]
    """
    present = np.flatnonzero(counts)
    return counts[: present[-1] + 1].copy() if len(present) else _empty()
