"""Every table that the project writes or reads: its columns, their kinds, units and meanings, in one place.

Data only: whoever writes Parquet (`arrow_schemas`) or asks Spark makes its own schema of it. Simulator
and live nodes write the same trace tables, so one audit serves both. In the trace of live nodes, times are
microseconds since 1970: a u.t. is a microsecond, and the clocks of the nodes must agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["integer", "real", "text", "truth", "integers", "barrier"]
"""integers: a list of them; barrier: list of ⟨source, counter⟩."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    name: str
    kind: Kind
    meaning: str
    unit: str = ""
    optional: bool = False
    """It may be null; the others never are."""


_RUN = Column("run", "integer", "number of the run in the table runs")
_TOPIC = Column("topic", "integer", "number of the topic")
_IDENTITY = (
    Column("source", "integer", "node that published"),
    Column("counter", "integer", "of the source; ⟨source, counter⟩ identifies the publication in its run"),
)
_NODE = Column("node", "integer", "node at which it happened")
_TIME = Column("time_ut", "integer", "when", "u.t.")

_POSITION = Column("position", "integer", "how many of them its node has had before in the run")

TRACE = ("runs", "publications", "receptions", "deliveries", "membership")
"""The tables that a trace consists of, each a folder of Parquet files."""

TABLES: Mapping[str, tuple[Column, ...]] = MappingProxyType(
    {
        "runs": (
            _RUN,
            Column(
                "scenario",
                "text",
                "experiment, as vcubeps simulate --list names them; live: written by nodes",
            ),
            Column("system", "text", "vcube-ps, srpt-s or srpt-b"),
            Column("seed", "integer", "of the run; with the parameters it determines everything"),
            Column("parameters", "text", "a JSON object: parameter → value"),
            Column("version", "text", "of the package that simulated it"),
            Column("revision", "text", "of its source; + if there were changes, unknown if it was installed"),
        ),
        "publications": (
            _RUN,
            _TOPIC,
            *_IDENTITY,
            Column("published_ut", "integer", "when the application asked for it", "u.t."),
            Column("started_ut", "integer", "when its broadcast began", "u.t."),
            Column("barrier", "barrier", "what it comes after"),
            Column(
                "acknowledged_ut",
                "integer",
                "when the last acknowledgement of the broadcast reached its source; −1: not known",
                "u.t.",
            ),
        ),
        "receptions": (_RUN, _TOPIC, *_IDENTITY, _NODE, _TIME, _POSITION),
        "deliveries": (_RUN, _TOPIC, *_IDENTITY, _NODE, _TIME, _POSITION),
        "membership": (
            _RUN,
            _TOPIC,
            _NODE,
            _TIME,
            Column("joins", "truth", "a subscription took effect; otherwise a leave has become known to all"),
            Column(
                "asked_ut",
                "integer",
                "when the application asked for it; as time_ut, −1 for a member from before the run began",
                "u.t.",
            ),
        ),
        "topics": (
            _RUN,
            Column("topic", "integer", "number of the topic: 63 bits of a hash of its name"),
            Column("name", "text", "of the topic; in traces of live nodes only, and there more than once"),
        ),
        "unwritten": (
            _RUN,
            Column(
                "source", "integer", "node whose trace has not been closed: it was killed, or it still runs"
            ),
            Column("counter", "integer", "from which on its publications may lack their rows"),
        ),
        "findings": (
            _RUN,
            _TOPIC,
            Column(
                "kind", "text", "causal, duplicate, phantom, loss or fifo; docs/auditing.md explains them"
            ),
            _NODE,
            *_IDENTITY,
            Column(
                "position", "integer", "of its delivery, or reception for fifo, at the node; −1 for a loss"
            ),
            Column(
                "other_source",
                "integer",
                "of what it came before (causal) or after (fifo); for a duplicate its own; −1: none",
            ),
            Column("other_counter", "integer", "likewise"),
            Column("other_position", "integer", "likewise; for a duplicate, of its first delivery"),
        ),
        "measurements": (
            _RUN,
            Column("name", "text", "what is counted, as in sim/measures.py; times in u.t."),
            Column("values", "integers", "the values that occurred, ascending; of a mere count, that one"),
            Column("counts", "integers", "how often each of them"),
        ),
        "figures": (
            Column("figure", "text", "as in the paper, such as 4a"),
            Column("series", "text", "curve of the figure, as its legend has it"),
            Column("x", "real", "place on the x axis, in the figure's unit"),
            Column(
                "mean", "real", "over runs, in the figure's unit; null if nothing was measured", optional=True
            ),
            Column(
                "ci95",
                "real",
                "half the width of its 95 % confidence interval; null for one run",
                optional=True,
            ),
            Column("runs", "integer", "how many"),
        ),
    }
)
