"""The audit in Spark SQL, one query per kind of finding: slow, and the judge of the fast one."""

from __future__ import annotations

from functools import reduce
from typing import Any

from pyspark.sql import DataFrame

from vcubeps.spark.audit.findings import COLUMNS
from vcubeps.spark.audit.trace import Trace, refuse_nulls

SUBSCRIPTIONS = """
    -- From when a subscription is in effect until its node asks to leave, or for ever.
    -- Requests count in the order in which they were made; at one moment, in the order in which they took effect.
    SELECT run, topic, node, time_ut AS joined_ut, coalesce(leaves_ut, 9223372036854775807) AS until_ut
    FROM (
        SELECT *, min(CASE WHEN NOT joins THEN asked_ut END) OVER (
            PARTITION BY run, topic, node ORDER BY asked_ut, time_ut, joins DESC
            ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        ) AS leaves_ut
        FROM {membership}
    )
    WHERE joins
"""

DEPENDENCIES = """
    SELECT DISTINCT run, topic, source, counter,
        CAST(entry.source AS BIGINT) AS on_source, CAST(entry.counter AS BIGINT) AS on_counter
    FROM (SELECT run, topic, source, counter, explode(barrier) AS entry FROM {publications})
"""

_FIRST_DELIVERIES = """
    SELECT run, topic, node, source, counter, min(position) AS position
    FROM {deliveries}
    GROUP BY run, topic, node, source, counter
"""

_QUERIES = {
    "causal": """
        SELECT message.*, cause.source AS other_source, cause.counter AS other_counter,
            cause.position AS other_position
        FROM {first_deliveries} AS message
        JOIN {dependencies} AS barrier USING (run, topic, source, counter)
        JOIN {first_deliveries} AS cause
            ON cause.run = message.run AND cause.topic = message.topic AND cause.node = message.node
            AND cause.source = barrier.on_source AND cause.counter = barrier.on_counter
        WHERE cause.position > message.position
    """,
    "duplicate": """
        SELECT run, topic, node, source, counter, position,
            source AS other_source, counter AS other_counter, first_position AS other_position
        FROM (
            SELECT *, row_number() OVER same AS place, min(position) OVER same AS first_position
            FROM {deliveries}
            WINDOW same AS (PARTITION BY run, topic, node, source, counter ORDER BY position)
        )
        WHERE place > 1
    """,
    "phantom": """
        SELECT *, -1 AS other_source, -1 AS other_counter, -1 AS other_position
        FROM {deliveries} LEFT ANTI JOIN {publications} USING (run, topic, source, counter)
    """,
    "loss": """
        -- What was received and not delivered is lost only to those who stay: who leaves has ended the waiting.
        SELECT expected.*, -1 AS position, -1 AS other_source, -1 AS other_counter,
            coalesce(received.position, -1) AS other_position
        FROM (
            SELECT run, topic, node, source, counter, max(until_ut) = 9223372036854775807 AS stays
            FROM {publications} JOIN {subscriptions} USING (run, topic)
            WHERE joined_ut < started_ut AND until_ut > started_ut
                AND CASE WHEN acknowledged_ut < 0 THEN until_ut = 9223372036854775807
                    ELSE until_ut > acknowledged_ut END
            GROUP BY run, topic, node, source, counter
        ) AS expected
        LEFT ANTI JOIN {deliveries} USING (run, topic, node, source, counter)
        LEFT JOIN (
            SELECT run, topic, node, source, counter, min(position) AS position
            FROM {receptions} GROUP BY run, topic, node, source, counter
        ) AS received USING (run, topic, node, source, counter)
        WHERE stays OR received.position IS NULL
    """,
    "fifo": """
        SELECT run, topic, node, source, counter, position,
            source AS other_source, highest AS other_counter, -1 AS other_position
        FROM (
            SELECT *, max(counter) OVER (
                PARTITION BY run, topic, node, source ORDER BY position, counter
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS highest
            FROM {receptions}
        )
        WHERE counter < highest
    """,
    "checks": """
        SELECT -1 AS run, -1 AS topic, -1 AS node, -1 AS source, -1 AS counter, count(*) AS position,
            -1 AS other_source, -1 AS other_counter, -1 AS other_position
        FROM {first_deliveries} JOIN {dependencies} USING (run, topic, source, counter)
    """,
}


def find(trace: Trace) -> DataFrame:
    """The table of findings, and a row of kind `findings.CHECKS`."""
    session = trace.publications.sparkSession
    refuse_nulls(trace.receptions, "receptions")
    refuse_nulls(trace.deliveries, "deliveries")
    tables: dict[str, Any] = {
        "publications": trace.publications,
        "receptions": trace.receptions,
        "deliveries": trace.deliveries,
        "subscriptions": session.sql(SUBSCRIPTIONS, membership=trace.membership),
        "dependencies": session.sql(DEPENDENCIES, publications=trace.publications),
        "first_deliveries": session.sql(_FIRST_DELIVERIES, deliveries=trace.deliveries),
    }
    found = [
        session.sql(query, **{name: frame for name, frame in tables.items() if f"{{{name}}}" in query})
        .selectExpr(*(_column(name, kind) for name in COLUMNS))
        for kind, query in _QUERIES.items()
    ]  # fmt: skip
    return reduce(DataFrame.unionByName, found)


def _column(name: str, kind: str) -> str:
    return f"'{kind}' AS kind" if name == "kind" else f"CAST({name} AS BIGINT) AS {name}"
