"""The limits as numbers: nodes of one cluster must agree on them, whatever release each of them runs."""

from __future__ import annotations

import pytest

from vcubeps.protocol import limits

MIB = 1_048_576


@pytest.mark.parametrize(
    ("limit", "value"),
    [
        ("MAX_TOPIC_BYTES", 255),
        ("MAX_PAYLOAD_BYTES", MIB),
        ("MAX_BATCH_ITEMS", 1_024),
        ("MAX_BATCH_BYTES", 4 * MIB),
        ("MAX_INCARNATION", 4_194_303),
        ("MAX_STAMP", 4_611_686_018_427_387_903),
        ("MAX_ADDRESS_BYTES", 512),
        ("MAX_IDENTITY", 18_446_744_073_709_551_615),
        ("COUNTERS_PER_INCARNATION", 1_099_511_627_776),
        ("MAX_COUNTER", 4_611_686_018_427_387_903),
    ],
)
def test_what_one_node_sends_the_others_accept(limit: str, value: int) -> None:
    """With another number, a node would refuse what a correct one sends, or take its counters for other ones."""
    assert getattr(limits, limit) == value


@pytest.mark.parametrize(
    ("limit", "value"),
    [("MAX_QUEUED", 65_536), ("MAX_GRAVES", 4_096), ("MAX_LEFT_TOPICS", 1_024)],
)
def test_what_is_kept_has_the_bounds_that_are_documented(limit: str, value: int) -> None:
    """In docs/internals/protocol.md."""
    assert getattr(limits, limit) == value
