"""One Spark session for all tests of a process: its start is the slow part."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from vcubeps.spark.session import Wanted, spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with spark_session(Wanted(master="local[2]", memory="1g")) as session:
        yield session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All that need the session go to one process of pytest-xdist, so that Java starts once."""
    for item in items:
        if "tests/spark/" in item.nodeid and item.path.name != "test_cluster.py":
            item.add_marker(pytest.mark.xdist_group("spark"))
