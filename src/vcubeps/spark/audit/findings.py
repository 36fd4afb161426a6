"""What an audit finds: the kinds, the table of findings, and each finding in words."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from vcubeps.tables import TABLES

KINDS: Mapping[str, str] = MappingProxyType(
    {
        "causal": "delivered before something that it depends on",
        "duplicate": "delivered again",
        "phantom": "delivered, but never published",
        "loss": "not delivered to a stable subscriber",
        "fifo": "received after a later one of the same source",
    }
)

CHECKS = "checks"
"""In the column `kind`: no finding, but how many dependencies were compared, in the column `position`."""

COLUMNS = tuple(column.name for column in TABLES["findings"])
SCHEMA = ", ".join(
    f"{column.name} {'string' if column.kind == 'text' else 'bigint'}" for column in TABLES["findings"]
)
NUMBERS = tuple(column.name for column in TABLES["findings"] if column.kind == "integer")


def in_words(finding: Mapping[str, Any]) -> str:
    """
    >>> row = dict(run=3, topic=0, kind="causal", node=5, source=2, counter=7, position=11,
    ...            other_source=1, other_counter=4, other_position=14)
    >>> in_words(row)
    'run 3, topic 0: node 5 delivered ⟨2, 7⟩ at position 11, before what it depends on, ⟨1, 4⟩ at position 14'
    """
    return "run {run}, topic {topic}: node {node} ".format(**finding) + _PHRASES[_phrase(finding)].format(
        **finding
    )


def _phrase(finding: Mapping[str, Any]) -> str:
    if finding["kind"] == "loss" and finding["other_position"] >= 0:
        return "held back"
    return str(finding["kind"])


_PHRASES = {
    "causal": "delivered ⟨{source}, {counter}⟩ at position {position}, before what it depends on, "
    "⟨{other_source}, {other_counter}⟩ at position {other_position}",
    "duplicate": "delivered ⟨{source}, {counter}⟩ again at position {position}, after position {other_position}",
    "phantom": "delivered ⟨{source}, {counter}⟩ at position {position}, which nobody published",
    "loss": "was subscribed all the time and never received ⟨{source}, {counter}⟩",
    "held back": "was subscribed all the time and received ⟨{source}, {counter}⟩ at position {other_position}, "
    "but never delivered it",
    "fifo": "received ⟨{source}, {counter}⟩ at position {position}, after ⟨{other_source}, {other_counter}⟩",
}
