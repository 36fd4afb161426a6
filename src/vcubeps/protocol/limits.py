"""Bounds of everything that comes from outside, and the checks that hold them."""

from __future__ import annotations

from vcubeps.protocol.errors import UsageError

MAX_TOPIC_BYTES = 255
"""Longest topic name, in bytes of UTF-8."""

MAX_PAYLOAD_BYTES = 1 << 20
"""Largest payload of one publication."""

MAX_BATCH_ITEMS = 1024
"""Most publications that may leave as one batch (one tree walk, one barrier, one acknowledgement)."""

MAX_BATCH_BYTES = 4 << 20
"""Most payload that one batch may carry; room for any single publication."""

MAX_QUEUED = 1 << 16
"""Most publications of one topic that may wait for the broadcast under way."""

MAX_TIME_NS = (1 << 64) - 1
"""Latest time of a publication."""

MAX_INCARNATION = (1 << 22) - 1
"""A node may come back this many times."""

MAX_STAMP = (1 << 62) - 1
"""Largest Lamport time."""

COUNTERS_PER_INCARNATION = 1 << 40
"""Counters of incarnation k start at k times this, so a newer incarnation's always exceed an older's."""

COUNTERS_RESERVED = 1 << 32
"""Counters of an incarnation that are kept for joins and leaves already asked for: nobody has as many topics."""

RECIPIENTS_LISTED = 24
"""Recipients that a copy of a publication lists in any case: as many do not make it much larger."""

MAX_GRAVES = 4096
"""Departed nodes of which the last incarnation is kept one by one; beyond it, one number stands for all."""

MAX_LEFT_TOPICS = 1024
"""Left topics of which is kept one by one what a next subscription must come after; beyond it, one map serves all."""

MAX_ADDRESS_BYTES = 512
"""Longest address on a node's card."""

MAX_IDENTITY = (1 << 64) - 1
"""Largest identity on a node's card."""

MAX_COUNTER = (MAX_INCARNATION + 1) * COUNTERS_PER_INCARNATION - 1
"""Largest counter of the largest incarnation."""


def check_topic(topic: object) -> None:
    if isinstance(topic, str) and topic.isascii() and 0 < len(topic) <= MAX_TOPIC_BYTES:
        return
    if not isinstance(topic, str) or not topic:
        raise UsageError(
            f"a topic is a non-empty string of at most {MAX_TOPIC_BYTES} bytes, got {repr(topic)[:20]}: name it"
        )
    try:
        size = len(topic.encode())
    except UnicodeEncodeError:
        raise UsageError(f"topic {topic[:20]!r} is not valid Unicode: remove the lone surrogate") from None
    if size > MAX_TOPIC_BYTES:
        raise UsageError(
            f"topic {topic[:20]!r}… has {size} bytes, the limit is {MAX_TOPIC_BYTES}: use a shorter name"
        )


def check_payload(payload: object) -> None:
    if not isinstance(payload, bytes):
        raise UsageError(f"a payload is bytes, got {type(payload).__name__}: encode it first")
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise UsageError(
            f"payload has {len(payload)} bytes, the limit is {MAX_PAYLOAD_BYTES}: send it in parts"
        )
