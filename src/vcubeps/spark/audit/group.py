"""The findings at some nodes of one topic of one run, with numpy.

Memory is a small multiple of the rows that come in: what grows with the product of deliveries and dependencies
is made and used in pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vcubeps.spark.audit.index import Index, Ints

NEVER = np.iinfo(np.int64).max
"""When a subscription ends that nobody asks to end."""

_PIECE = 1 << 21
"""Pairs that are looked at together."""


class Arrivals(NamedTuple):
    """Receptions or deliveries, one element each."""

    node: Ints
    source: Ints
    counter: Ints
    position: Ints


class Publications(NamedTuple):
    """All of the topic, each once."""

    source: Ints
    counter: Ints
    started_ut: Ints
    acknowledged_ut: Ints


class Dependencies(NamedTuple):
    """⟨source, counter⟩ comes after ⟨on_source, on_counter⟩; each pair once."""

    source: Ints
    counter: Ints
    on_source: Ints
    on_counter: Ints


class Subscriptions(NamedTuple):
    """In effect from `joined_ut`; the node asks to leave at `until_ut`."""

    node: Ints
    joined_ut: Ints
    until_ut: Ints


class Found(NamedTuple):
    """Findings of one kind, in the columns of the table; a number stands for all."""

    kind: str
    node: Ints
    source: Ints
    counter: Ints
    position: Ints | int = -1
    other_source: Ints | int = -1
    other_counter: Ints | int = -1
    other_position: Ints | int = -1


class Group:
    """Nodes, and publications by ⟨source, counter⟩, have numbers here; (node, publication) is a *cell*."""

    checks: int
    """Dependencies compared so far."""

    def __init__(
        self,
        publications: Publications,
        dependencies: Dependencies,
        subscriptions: Subscriptions,
        receptions: Arrivals,
        deliveries: Arrivals,
    ) -> None:
        self.checks = 0
        self._publications, self._subscriptions = publications, subscriptions
        self._receptions, self._deliveries = receptions, deliveries
        self._nodes = Index(_joined(subscriptions.node, receptions.node, deliveries.node))
        mentioned = (publications, dependencies, receptions, deliveries)
        self._sources = Index(_joined(*(rows.source for rows in mentioned), dependencies.on_source))
        self._counters = Index(_joined(*(rows.counter for rows in mentioned), dependencies.on_counter))
        self._published = self._identify(publications.source, publications.counter)
        self._after = self._identify(dependencies.source, dependencies.counter)
        self._on = self._identify(dependencies.on_source, dependencies.on_counter)
        self._delivered = self._identify(deliveries.source, deliveries.counter)
        self._identities = Index(_joined(self._published, self._after, self._on, self._delivered))
        cells = self._cells(self._nodes.of(deliveries.node), self._identities.of(self._delivered))
        self._filled = Index(cells)
        """The cells that have a delivery."""
        self._filling = self._filled.of(cells)
        """Delivery → number of its cell among them."""
        self._first = np.full(len(self._filled), NEVER)
        """Number of a cell → position of its first delivery."""
        np.minimum.at(self._first, self._filling, deliveries.position)

    def findings(self) -> Iterator[Found]:
        yield from self._out_of_causal_order()
        yield self._duplicates()
        yield self._phantoms()
        yield self._losses()
        yield self._out_of_fifo_order()

    # -- names -------------------------------------------------------------------------------------

    def _identify(self, source: Ints, counter: Ints) -> Ints:
        """One number for ⟨source, counter⟩; both must be known."""
        return self._sources.of(source) * max(1, len(self._counters)) + self._counters.of(counter)

    def _names(self, publication: Ints) -> tuple[Ints, Ints]:
        """⟨source, counter⟩ of publications given by number."""
        source, counter = np.divmod(self._identities.values[publication], max(1, len(self._counters)))
        return self._sources.values[source], self._counters.values[counter]

    def _cells(self, node: Ints, publication: Ints) -> Ints:
        return node * max(1, len(self._identities)) + publication

    def _parts(self, cells: Ints) -> tuple[Ints, Ints]:
        """Number of the node, number of the publication."""
        return np.divmod(cells, max(1, len(self._identities)))

    # -- kinds -------------------------------------------------------------------------------------

    def _out_of_causal_order(self) -> Iterator[Found]:
        """Every first delivery against the first deliveries, at the same node, of what it depends on."""
        after, on = self._identities.of(self._after), self._identities.of(self._on)
        order = np.argsort(after, kind="stable")
        on = on[order]
        begin = np.searchsorted(after[order], np.arange(len(self._identities) + 1))
        node, publication = self._parts(self._filled.values)
        for delivery, entry in _pairs(begin[publication], begin[publication + 1]):
            self.checks += len(entry)
            other = self._filled.of(self._cells(node[delivery], on[entry]))
            wrong = (other >= 0) & (self._first[other] > self._first[delivery])
            delivery, entry, other = delivery[wrong], entry[wrong], other[wrong]  # noqa: PLW2901
            yield Found(
                "causal",
                self._nodes.values[node[delivery]],
                *self._names(publication[delivery]),
                self._first[delivery],
                *self._names(on[entry]),
                self._first[other],
            )

    def _duplicates(self) -> Found:
        repeated = np.flatnonzero(np.bincount(self._filling, minlength=len(self._filled))[self._filling] > 1)
        order = repeated[np.lexsort((self._deliveries.position[repeated], self._filling[repeated]))]
        cell = self._filling[order]
        extra = order[1:][cell[1:] == cell[:-1]]
        node, source, counter, position = (column[extra] for column in self._deliveries)
        first = self._first[self._filling[extra]]
        return Found("duplicate", node, source, counter, position, source, counter, first)

    def _phantoms(self) -> Found:
        unknown = Index(self._published).of(self._delivered) < 0
        return Found("phantom", *(column[unknown] for column in self._deliveries))

    def _losses(self) -> Found:
        """Each publication that started within a subscription, unless that may have ended before it was through.

        What was received and not delivered is lost only to those who stay: who leaves has ended the waiting.
        """
        order = np.argsort(self._publications.started_ut, kind="stable")
        started, acknowledged = (
            self._publications.started_ut[order],
            self._publications.acknowledged_ut[order],
        )
        publication = self._identities.of(self._published)[order]
        through = np.where(acknowledged < 0, NEVER - 1, acknowledged)
        node, joined, until = self._subscriptions
        begin = np.searchsorted(started, joined, side="right")
        end = np.maximum(begin, np.searchsorted(started, until))
        missing, missing_at_stayers = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for subscription, entry in _pairs(begin, end):
            expected = until[subscription] > through[entry]
            subscription, entry = subscription[expected], entry[expected]  # noqa: PLW2901
            cells = self._cells(self._nodes.of(node[subscription]), publication[entry])
            is_missing = self._filled.of(cells) < 0
            missing.append(cells[is_missing])
            missing_at_stayers.append(cells[is_missing & (until[subscription] == NEVER)])
        cells = np.unique(np.concatenate(missing))
        received = self._received_at(cells)
        is_lost = (received < 0) | np.isin(cells, np.concatenate(missing_at_stayers))
        received = received[is_lost]
        at, missed = self._parts(cells[is_lost])
        return Found("loss", self._nodes.values[at], *self._names(missed), other_position=received)

    def _received_at(self, cells: Ints) -> Ints:
        """Position of the first reception in each cell, −1 if there is none; few cells are asked for."""
        if not len(cells):
            return cells
        rows = self._receptions
        wanted = Index(cells)
        publication = self._identities.of(self._identify(rows.source, rows.counter))
        number = np.where(publication < 0, -1, wanted.of(self._cells(self._nodes.of(rows.node), publication)))
        positions = np.full(len(cells), NEVER)
        np.minimum.at(positions, number[number >= 0], rows.position[number >= 0])
        return np.where(positions == NEVER, -1, positions)

    def _out_of_fifo_order(self) -> Found:
        """Per node and source, in the order of positions: below the highest counter so far."""
        rows = self._receptions
        stream = self._nodes.of(rows.node) * max(1, len(self._sources)) + self._sources.of(rows.source)
        stream = Index(stream).of(stream)
        counter = self._counters.of(rows.counter)
        order = np.lexsort((counter, rows.position, stream))
        # With the number of the stream in front, a maximum never comes from an earlier stream.
        ranks = stream[order] * max(1, len(self._counters)) + counter[order]
        highest = np.maximum.accumulate(ranks)
        late = np.flatnonzero(highest > ranks)
        node, source, number, position = (column[order[late]] for column in rows)
        before = self._counters.values[highest[late] % max(1, len(self._counters))]
        return Found("fifo", node, source, number, position, source, before)


def _joined(*columns: Ints) -> Ints:
    return np.concatenate(columns)


def _pairs(begin: Ints, end: Ints) -> Iterator[tuple[Ints, NDArray[np.int64]]]:
    """All (k, i) with begin[k] ≤ i < end[k], as two arrays, a piece at a time.

    >>> [(k.tolist(), i.tolist()) for k, i in _pairs(np.array([5, 0, 2]), np.array([7, 0, 3]))]
    [([0, 0, 2], [5, 6, 2])]
    """
    sizes = end - begin
    upto = np.cumsum(sizes)
    first = 0
    while first < len(sizes):
        done = upto[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(upto, done + _PIECE, side="right")))
        piece = slice(first, last)
        k = np.repeat(np.arange(first, last), sizes[piece])
        i = np.arange(len(k)) + np.repeat(begin[piece] - (upto[piece] - sizes[piece] - done), sizes[piece])
        if len(k):
            yield k, i
        first = last
