"""Whether a message can come from a correct node at all. Pure: looks, and raises or does not.

Types are the shell's duty: it decodes bytes with a decoder that checks them. This module checks
values and the message's place in the tree, before anything is applied. A negative number stays one when it is
shifted right, so `id >> MAX_DIMENSION` is true of all that is no id.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence

from vcubeps.cube import MAX_DIMENSION
from vcubeps.protocol.batches import TIME_BYTES, Batch
from vcubeps.protocol.errors import ProtocolViolation, UsageError
from vcubeps.protocol.limits import (
    MAX_ADDRESS_BYTES,
    MAX_BATCH_BYTES,
    MAX_BATCH_ITEMS,
    MAX_COUNTER,
    MAX_IDENTITY,
    MAX_INCARNATION,
    MAX_PAYLOAD_BYTES,
    MAX_STAMP,
    MAX_TOPIC_BYTES,
    check_topic,
)
from vcubeps.protocol.local import LocalNode
from vcubeps.protocol.messages import (
    ANY_INCARNATION,
    Ack,
    AnyMessage,
    Ask,
    Card,
    Copy,
    Fence,
    Final,
    Flush,
    Hello,
    IsFinal,
    Message,
    Over,
    Publication,
    Subscription,
    Taken,
    Unsubscription,
    Welcome,
    incarnation_of,
)

_IDS = f"of which the ids lie in 0…{(1 << MAX_DIMENSION) - 1}"

_BROADCASTS = frozenset((Publication, Subscription, Unsubscription))


def check_message(local: LocalNode, sender: int, message: object, size_max: int) -> AnyMessage:
    """`message` itself, if it is sound. It has `size_max` bytes at most: what is below all limits is not measured."""
    # Few functions are called where nothing is amiss: this runs for every message.
    if sender == local.me or sender >> MAX_DIMENSION:
        raise ProtocolViolation(sender, f"a message, but only other nodes than {local.me} may, {_IDS}")
    if not isinstance(message, Message):
        raise ProtocolViolation(sender, f"{type(message).__name__}, which is no message of this protocol")
    if not (0 <= message.origin <= MAX_INCARNATION and ANY_INCARNATION <= message.target <= MAX_INCARNATION):
        raise ProtocolViolation(
            sender, f"incarnations {message.origin} and {message.target}; they lie in 0…{MAX_INCARNATION}"
        )
    if type(message) is Copy:
        _check_copy(local, sender, message, size_max)
    elif type(message) is Ack:
        if message.reports:
            _check_nodes(sender, message.reports, "reports")
            for report in message.reports.values():
                _check_counter(sender, report.counter)
                _check_counter(sender, report.floor)
        if message.dead:
            _check_crashes(local, sender, message.origin, message.dead)
        if not 0 <= message.clock <= MAX_STAMP:
            raise _impossible_time(sender, message.clock)
    elif type(message) is Ask:
        pass
    elif type(message) is Flush:
        _check_flush(local, sender, message)
    elif type(message) is Welcome:
        _check_card(sender, message.origin, message.card)
        _check_crashes(local, sender, message.origin, message.dead)
        if message.living is not None:
            _check_cards(sender, message.living)
            if local.me in message.living or message.living.get(sender) != message.card:
                raise ProtocolViolation(sender, "a list of the living without itself, or with its receiver")
    elif type(message) is Hello:
        _check_card(sender, message.origin, message.card)
        _check_cards(sender, message.news)
    elif type(message) is Fence:
        _check_end(local, sender, message.incarnation)
    elif type(message) is IsFinal or type(message) is Final or type(message) is Over:
        _check_crashes(local, sender, message.origin, message.dead)
    elif type(message) is Taken:
        if not 0 <= message.identity <= MAX_IDENTITY:
            raise ProtocolViolation(sender, f"identity {message.identity}; they have 64 bits")
    else:
        raise ProtocolViolation(sender, f"{type(message).__name__}, which is no message of this protocol")
    return message


def _check_copy(local: LocalNode, sender: int, copy: Copy, size_max: int) -> None:
    recipients, broadcast, me = copy.recipients, copy.broadcast, local.me
    outside = (sender ^ me).bit_length() - 1
    if recipients is None:
        if type(broadcast) is not Publication:
            raise ProtocolViolation(sender, "a copy without recipients of what is no publication")
    else:
        if me not in recipients:
            raise ProtocolViolation(sender, f"a copy that does not serve node {me}, which received it")
        largest_mark = MAX_INCARNATION if type(broadcast) is Subscription else MAX_COUNTER
        for recipient, mark in recipients.items():
            if (recipient ^ me) >> outside:
                raise ProtocolViolation(
                    sender, f"a copy for node {recipient}, which is not in the subtree of node {me}"
                )
            if not 0 <= mark <= largest_mark:
                raise ProtocolViolation(sender, f"a recipient marked {mark}; marks lie in 0…{largest_mark}")
    if copy.fresh:
        _check_crashes(local, sender, copy.origin, copy.fresh)
    if type(broadcast) not in _BROADCASTS:
        raise ProtocolViolation(sender, f"a copy of {type(broadcast).__name__}, which cannot be broadcast")
    source, counter = broadcast.source, broadcast.counter
    if not 1 <= counter <= MAX_COUNTER:
        raise _impossible_counter(sender, counter, smallest=1)
    if type(broadcast) is Publication:
        _check_publication(sender, broadcast, size_max)
    elif type(broadcast) is Unsubscription:
        _check_barrier(sender, source, counter, broadcast.barrier)
        _check_time(sender, broadcast.stamp)
    if source >> MAX_DIMENSION or not (source ^ me) >> outside:
        raise ProtocolViolation(
            sender, f"a broadcast of source {source}, which is not a node outside the subtree of node {me}"
        )
    if sender == source:
        if incarnation_of(counter) != copy.origin:
            raise ProtocolViolation(
                sender, f"counter {counter}, which is not one of its incarnation {copy.origin}"
            )
        # Only the source can be blamed: those who relay it do not know what this node has published.
        if copy.target == local.incarnation and not isinstance(broadcast, Subscription):
            needed = broadcast.barrier.get(me)
            if needed is not None and needed > local.counter:
                raise ProtocolViolation(
                    sender, f"a dependency on publication {needed} of node {me}, which it has not made"
                )
    if not (broadcast.topic.isascii() and 0 < len(broadcast.topic) <= MAX_TOPIC_BYTES):
        _check_name(sender, broadcast.topic)


def _check_publication(sender: int, publication: Publication, size_max: int) -> None:
    """`size_max` as in `check_message`."""
    batch, counter = publication.batch, publication.counter
    payloads, first = batch.payloads, batch.first
    count = len(payloads)
    if count != 1 or first != counter or batch.scattered:  # nearly never where little is published at a time
        _check_counters(sender, batch, counter)
    if batch.times and len(batch.times) != TIME_BYTES * count:
        raise ProtocolViolation(sender, f"{len(batch.times)} bytes of times for {count} publications")
    if size_max > MAX_PAYLOAD_BYTES:
        _check_sizes(sender, payloads)
    if publication.barrier:
        _check_barrier(sender, publication.source, first, publication.barrier)
    if not 0 <= publication.stamp <= MAX_STAMP:
        raise _impossible_time(sender, publication.stamp)


def _check_counters(sender: int, batch: Batch, counter: int) -> None:
    """Of a batch that ends with `counter`."""
    count, scattered = len(batch.payloads), batch.scattered
    if not 1 <= count <= MAX_BATCH_ITEMS or batch.last != counter:
        raise ProtocolViolation(
            sender, f"a batch of {count} publications that does not end with its counter {counter}"
        )
    if scattered and (
        len(scattered) != count
        or scattered[0] != batch.first
        or not all(map(operator.lt, scattered, scattered[1:]))
    ):
        raise ProtocolViolation(
            sender,
            f"a batch of {count} publications from {batch.first} on with counters {_brief_list(scattered)}; they must "
            "ascend",
        )
    if batch.first < 1 or incarnation_of(batch.first) != incarnation_of(counter):
        raise ProtocolViolation(
            sender, f"a batch with counters {batch.first} to {counter}; they must be of one incarnation"
        )


def _check_sizes(sender: int, payloads: tuple[bytes, ...]) -> None:
    sizes = list(map(len, payloads))
    if max(sizes) > MAX_PAYLOAD_BYTES:
        raise ProtocolViolation(sender, f"a payload of {max(sizes)} bytes; the limit is {MAX_PAYLOAD_BYTES}")
    if sum(sizes) > MAX_BATCH_BYTES:
        raise ProtocolViolation(sender, f"a batch of {sum(sizes)} bytes; the limit is {MAX_BATCH_BYTES}")


def _check_barrier(sender: int, source: int, counter: int, barrier: dict[int, int]) -> None:
    """`barrier` of what `source` issued as `counter`."""
    for node, needed in barrier.items():
        if node >> MAX_DIMENSION:
            raise _impossible_nodes(sender, barrier, "dependencies")
        if not 1 <= needed <= MAX_COUNTER:
            raise _impossible_counter(sender, needed, smallest=1)
    if source in barrier and barrier[source] >= counter:
        raise ProtocolViolation(
            sender, f"⟨{source}, {counter}⟩, which depends on itself or on what comes later"
        )


def _check_flush(local: LocalNode, sender: int, flush: Flush) -> None:
    _check_crashes(local, sender, flush.origin, flush.dead)
    if flush.sequence < 1:
        raise ProtocolViolation(sender, f"flush number {flush.sequence}; they count from 1")
    _check_counter(sender, flush.counter)
    for name, held in flush.held.items():
        _check_name(sender, name)
        _check_nodes(sender, held, "sources")
        for source, publication in held.items():
            if publication.source != source or publication.topic != name:
                raise ProtocolViolation(
                    sender, f"a publication filed under source {source} and topic {name!r}"
                )
            _check_counter(sender, publication.counter, smallest=1)
            if incarnation_of(publication.counter) > flush.dead.get(source, -1):
                raise ProtocolViolation(
                    sender, f"a flush that holds a publication of node {source}, which it does not call dead"
                )
            _check_publication(sender, publication, MAX_BATCH_BYTES)
    for name, (subscription, last_publication) in flush.subscriptions.items():
        _check_name(sender, name)
        _check_counter(sender, subscription, smallest=1)
        _check_counter(sender, last_publication)


def _check_crashes(local: LocalNode, sender: int, origin: int, crashes: dict[int, int]) -> None:
    _check_nodes(sender, crashes, "crashes")
    for incarnation in crashes.values():
        _check_incarnation(sender, incarnation)
    if crashes.get(sender, -1) >= origin:
        raise ProtocolViolation(sender, f"news of its own crash as incarnation {crashes[sender]}")
    if local.me in crashes:
        _check_end(local, sender, crashes[local.me])


def _check_end(local: LocalNode, sender: int, incarnation: int) -> None:
    """`sender` says that this incarnation of this node is no more; it must be possible to go on after it."""
    _check_incarnation(sender, incarnation)
    if incarnation == MAX_INCARNATION != local.incarnation:
        raise ProtocolViolation(sender, f"the end of incarnation {incarnation}, after which there is none")


def _check_card(sender: int, origin: int, card: Card) -> None:
    _check_cards(sender, {sender: card})
    if card.incarnation != origin:
        raise ProtocolViolation(sender, f"a card of incarnation {card.incarnation} as incarnation {origin}")


def _check_cards(sender: int, cards: dict[int, Card]) -> None:
    _check_nodes(sender, cards, "cards")
    for card in cards.values():
        _check_incarnation(sender, card.incarnation)
        if not 0 <= card.identity <= MAX_IDENTITY or len(card.address) > MAX_ADDRESS_BYTES:
            raise ProtocolViolation(
                sender,
                f"a card with identity {card.identity} and an address of {len(card.address)} bytes; an identity has "
                f"64 bits, and an address at most {MAX_ADDRESS_BYTES} bytes",
            )


def _check_incarnation(sender: int, incarnation: int) -> None:
    if not 0 <= incarnation <= MAX_INCARNATION:
        raise ProtocolViolation(sender, f"incarnation {incarnation}; they lie in 0…{MAX_INCARNATION}")


def _check_counter(sender: int, counter: int, smallest: int = 0) -> None:
    if not smallest <= counter <= MAX_COUNTER:
        raise _impossible_counter(sender, counter, smallest)


def _check_time(sender: int, stamp: int) -> None:
    if not 0 <= stamp <= MAX_STAMP:
        raise _impossible_time(sender, stamp)


def _check_nodes(sender: int, named: Mapping[int, object], what: str) -> None:
    if named and (min(named) < 0 or max(named) >> MAX_DIMENSION):
        raise _impossible_nodes(sender, named, what)


def _check_name(sender: int, name: str) -> None:
    try:
        check_topic(name)
    except UsageError as error:
        raise ProtocolViolation(sender, f"a bad topic: {error}") from None


def _impossible_counter(sender: int, counter: int, smallest: int) -> ProtocolViolation:
    return ProtocolViolation(sender, f"counter {counter}; counters lie in {smallest}…{MAX_COUNTER}")


def _impossible_time(sender: int, stamp: int) -> ProtocolViolation:
    return ProtocolViolation(sender, f"Lamport time {stamp}; it lies in 0…{MAX_STAMP}")


def _impossible_nodes(sender: int, named: Mapping[int, object], what: str) -> ProtocolViolation:
    strange = sorted(node for node in named if node >> MAX_DIMENSION)
    return ProtocolViolation(sender, f"{what} with impossible nodes {_brief_list(strange)}, {_IDS}")


def _brief_list(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:4]))
    return shown + (", ..." if len(numbers) > 4 else "")
