"""Every table that the project writes or reads: its columns, their kinds, units and meanings, in one place.

Data only: whoever writes Parquet (`sim.trace_tables`) or asks Spark makes its own schema of it. Simulator
and live nodes write the same trace tables, so one audit serves both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["integer", "text", "truth", "barrier"]
"""barrier: list of ⟨source, counter⟩."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column; none of them is ever null."""

    name: str
    kind: Kind
    meaning: str
    unit: str = ""


_RUN = Column("run", "integer", "number of the run in the table runs")
_TOPIC = Column("topic", "integer", "number of the topic")
_IDENTITY = (
    Column("source", "integer", "node that published"),
    Column("counter", "integer", "of the source; ⟨source, counter⟩ identifies the publication in its run"),
)
_NODE = Column("node", "integer", "node at which it happened")
_TIME = Column("time_ut", "integer", "when", "u.t.")

TABLES: Mapping[str, tuple[Column, ...]] = MappingProxyType(
    {
        "runs": (
            _RUN,
            Column("scenario", "text", "experiment, as vcubeps simulate --list names them"),
            Column("system", "text", "vcube-ps, srpt-s or srpt-b"),
            Column("seed", "integer", "of the run; with the parameters it determines everything"),
            Column("parameters", "text", "a JSON object: parameter → value"),
        ),
        "publications": (
            _RUN,
            _TOPIC,
            *_IDENTITY,
            Column("published_ut", "integer", "when the application asked for it", "u.t."),
            Column("started_ut", "integer", "when its broadcast began", "u.t."),
            Column("barrier", "barrier", "what it comes after"),
        ),
        "receptions": (_RUN, _TOPIC, *_IDENTITY, _NODE, _TIME),
        "deliveries": (
            _RUN,
            _TOPIC,
            *_IDENTITY,
            _NODE,
            _TIME,
            Column("position", "integer", "how many deliveries its node has had before in the run"),
        ),
        "membership": (
            _RUN,
            _TOPIC,
            _NODE,
            _TIME,
            Column("joins", "truth", "a subscription took effect; otherwise a leave has become known to all"),
        ),
    }
)
