"""The table of figures in a store: what the curves are drawn from, a folder per figure."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from vcubeps.spark.errors import failure
from vcubeps.spark.schemas import spark_schema
from vcubeps.spark.store import Store


def keep_figures(
    session: SparkSession,
    store: Store,
    rows: Sequence[tuple[str, str, float, float | None, float | None, int]],
) -> None:
    """Replace the figures that the rows are of; others stay as they are. Raises SparkFailed."""
    try:
        table = session.createDataFrame(
            [(figure, series, float(x), mean, ci95, runs) for figure, series, x, mean, ci95, runs in rows],
            spark_schema("figures"),
        )
        writer = table.coalesce(1).write.partitionBy("figure").mode("overwrite")
        writer.option("partitionOverwriteMode", "dynamic").parquet(store.place("figures"))
    except Exception as error:
        raise failure(error, f"the figures of {store.address}") from error
