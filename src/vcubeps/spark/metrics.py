"""From the histograms of runs to the numbers that figures show: means over runs and their 95 % intervals.

A *quantity* is a form of one or more operands, each a measure at a point: the latency of one system, the ratio of two.
It is formed of the means over runs; its interval comes from the jackknife (what it would be without each of the runs),
which for a single mean is Student's interval exactly, and holds for ratios of systems that met the same random numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from vcubeps.sim.identity import run_number
from vcubeps.sim.measures import Form, Measure
from vcubeps.sim.scenarios import Point, Run, run_seed
from vcubeps.sim.summary import student
from vcubeps.spark.errors import failure
from vcubeps.spark.store import Store

FORMS: dict[Form, str] = {
    "value": "{x}.a",
    "ratio": "try_divide({x}.a, {x}.b)",
    "increase": "try_divide({x}.a, {x}.b) - 1",
    "reduction": "1 - try_divide({x}.a, {x}.b)",
    "difference": "{x}.a - {x}.b",
    "extra": "try_divide({x}.a, {x}.b - {x}.a)",
    "spread": "try_divide({x}.highest, {x}.lowest) - 1",
}
"""In terms of the first operand a, the second one b, and the highest and lowest of all."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """What is wanted, under a name that is its own."""

    name: str
    form: Form
    operands: tuple[tuple[Point, Measure], ...]
    runs: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """What came out; None if there was nothing to measure, or too few runs for an interval."""

    name: str
    value: float | None
    ci95: float | None
    """Half the width of the interval."""
    runs: int


def estimate(
    session: SparkSession, store: Store, quantities: Iterable[Quantity], seed: int
) -> list[Estimate]:
    """One per quantity, in their order; `seed` is the sweep's. Raises SparkFailed."""
    wanted = list(quantities)
    try:
        rows = estimates(session, store, wanted, seed).collect()
    except Exception as error:
        raise failure(error, f"the metrics of {store.address}") from error
    found = {row.name: Estimate(row.name, row.value, row.ci95, row.runs) for row in rows}
    return [found.get(quantity.name, Estimate(quantity.name, None, None, 0)) for quantity in wanted]


def estimates(session: SparkSession, store: Store, quantities: Sequence[Quantity], seed: int) -> DataFrame:
    """Columns name, value, ci95, runs; quantities without any run are missing."""
    store.read(session, "measurements").createOrReplaceTempView("measurements")
    session.createDataFrame(_wanted(quantities, seed)).createOrReplaceTempView("wanted")
    session.createDataFrame(_students(quantities)).createOrReplaceTempView("students")
    return session.sql(_QUERY)


def _wanted(quantities: Sequence[Quantity], seed: int) -> pa.Table:
    """Quantity × operand × run."""
    columns: dict[str, list[object]] = {
        "quantity": [], "form": [], "operands": [], "operand": [], "sample": [], "run": [], "of": [],
        "take": [], "low": [], "high": [], "percent": [],
    }  # fmt: skip
    for quantity in quantities:
        for operand, (point, measure) in enumerate(quantity.operands):
            for sample in range(quantity.runs):
                number = run_number(Run(point, run_seed(seed, sample)))
                row = (quantity.name, quantity.form, len(quantity.operands), operand, sample, number, measure.of,
                       measure.take, measure.low, measure.high, measure.percent)  # fmt: skip
                for column, value in zip(columns.values(), row, strict=True):
                    column.append(value)
    schema = pa.schema(
        [
            (name, pa.string() if name in {"quantity", "form", "of", "take"} else pa.int64())
            for name in columns
        ]
    )
    return pa.table(columns, schema)


def _students(quantities: Sequence[Quantity]) -> pa.Table:
    """Number of runs → how many standard errors half a 95 % interval has."""
    counts = list(range(2, max((quantity.runs for quantity in quantities), default=2) + 1))
    return pa.table({"runs": pa.array(counts, pa.int64()), "factor": [student(n - 1) for n in counts]})


_INSIDE = """aggregate(
    zip_with(values, counts, (value, count) ->
        IF(value >= low AND (high IS NULL OR value <= high), count, 0L)),
    0L, (sum, count) -> sum + count)"""

_TAKEN = f"""
    CASE take
        WHEN 'mean' THEN aggregate(zip_with(values, counts, (value, count) -> value * count), 0L,
                                   (sum, product) -> sum + product) / total
        WHEN 'share' THEN {_INSIDE} / total
        WHEN 'count' THEN CAST({_INSIDE} AS DOUBLE)
        WHEN 'max' THEN CAST(element_at(values, -1) AS DOUBLE)
        WHEN 'percentile' THEN CAST(aggregate(
            arrays_zip(values, counts),
            named_struct('before', 0L, 'found', CAST(NULL AS BIGINT)),
            (state, one) -> named_struct(
                'before', state.before + one.counts,
                'found', IF(state.found IS NULL AND 100 * (state.before + one.counts) >= percent * total,
                            one.values, state.found)),
            state -> state.found) AS DOUBLE)
    END"""
"""A measure of a run's histogram; `sim.measures.Measure.taken` says the same in Python."""


def _operands(column: str) -> str:
    """What the forms speak of, from a column that has a row per operand."""
    return f"""named_struct(
        'a', max({column}) FILTER (WHERE operand = 0), 'b', max({column}) FILTER (WHERE operand = 1),
        'highest', max({column}), 'lowest', min({column}))"""


def _formed(x: str) -> str:
    cases = " ".join(f"WHEN '{form}' THEN {expression.format(x=x)}" for form, expression in FORMS.items())
    return f"CASE form {cases} END"


_QUERY = f"""
WITH measured AS (
    SELECT wanted.*, values, counts, aggregate(counts, 0L, (sum, count) -> sum + count) AS total
    FROM wanted JOIN measurements ON wanted.run = measurements.run AND wanted.of = measurements.name
),
taken AS (
    -- A run that is there twice has the same results twice.
    SELECT quantity, form, operands, operand, sample, any_value(value) AS value
    FROM (SELECT *, {_TAKEN} AS value FROM measured)
    GROUP BY quantity, form, operands, operand, sample
),
complete AS (
    -- The runs in which all operands could be measured.
    SELECT * FROM (SELECT *, count(value) OVER (PARTITION BY quantity, sample) AS measured FROM taken)
    WHERE measured = operands
),
averaged AS (
    SELECT *,
        count(*) OVER runs AS count,
        avg(value) OVER runs AS mean,
        try_divide((sum(value) OVER runs) - value, (count(*) OVER runs) - 1) AS mean_without
    FROM complete WINDOW runs AS (PARTITION BY quantity, operand)
),
gathered AS (
    SELECT quantity, form, sample, any_value(count) AS runs,
        {_operands("mean")} AS whole, {_operands("mean_without")} AS without
    FROM averaged GROUP BY quantity, form, sample
),
formed AS (
    SELECT quantity, runs, {_formed("whole")} AS value, {_formed("without")} AS value_without
    FROM gathered
)
SELECT quantity AS name, any_value(value) AS value,
    any_value(factor) * sqrt((any_value(runs) - 1) * var_pop(value_without)) AS ci95,
    any_value(runs) AS runs
FROM formed LEFT JOIN students USING (runs)
GROUP BY quantity
"""
