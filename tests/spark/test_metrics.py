"""The pipeline's SQL against the same measures in Python, run by run."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from vcubeps.sim.measures import COUNTS, HISTOGRAMS, QUEUE, Form, Measure, sparse
from vcubeps.sim.scenarios import Point, Run, points, run_seed
from vcubeps.sim.simulation import simulate
from vcubeps.sim.summary import confidence95
from vcubeps.spark.metrics import Estimate, Quantity, estimate
from vcubeps.spark.store import Store
from vcubeps.spark.sweep import sweep

RUNS, SEED = 6, 5

MEASURES = [
    *(Measure(name) for name in (*HISTOGRAMS, *COUNTS, QUEUE)),
    *(Measure("reception_ut", "percentile", percent=percent) for percent in (1, 50, 99, 100)),
    Measure("reception_ut", "max"),
    Measure("barrier_entries", "share", low=1, high=1),
    Measure("causal_wait_ut", "share", high=9),
    Measure("causal_wait_ut", "count", low=51),
    Measure(QUEUE, "count", low=1, high=2),
]


def discussion_and_trees() -> list[Point]:
    return points("discussion", {"nodes": (16, 32), "questions": (2,), "protocol": ("amended",)}) + points(
        "one-publisher", {"nodes": (32,), "subscribers": (0.5,)}
    )


@pytest.fixture(scope="module")
def store(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(str(tmp_path_factory.mktemp("sweep") / "store"))
    sweep(
        spark, store, [Run(point, run_seed(SEED, k)) for point in discussion_and_trees() for k in range(RUNS)]
    )
    return store


def taken(point: Point, measure: Measure, runs: int = RUNS) -> list[float]:
    values = [measure.taken(sparse(simulate(Run(point, run_seed(SEED, k)))[0])) for k in range(runs)]
    return [value for value in values if value is not None]


def test_every_measure_is_that_of_python(spark: SparkSession, store: Store) -> None:
    """Means over runs and Student's intervals, as `vcubeps simulate` has them."""
    cases = [(point, measure) for point in discussion_and_trees() for measure in MEASURES]
    quantities = [Quantity(f"{k}", "value", (case,), RUNS) for k, case in enumerate(cases)]

    found = estimate(spark, store, quantities, SEED)

    assert [one.name for one in found] == [one.name for one in quantities]
    for case, answer in zip(cases, found, strict=True):
        values = taken(*case)
        assert answer.runs == len(values)
        assert answer.value == (pytest.approx(np.mean(values)) if values else None)
        assert answer.ci95 == (pytest.approx(confidence95(values), abs=1e-9) if values else None)


@pytest.mark.parametrize("form", ["ratio", "increase", "reduction", "difference", "extra", "spread"])
def test_forms_are_of_the_means_and_their_intervals_by_the_jackknife(
    form: Form, spark: SparkSession, store: Store
) -> None:
    operands = tuple((point, Measure("reception_ut")) for point in discussion_and_trees())
    if form != "spread":
        operands = operands[:2]
    values = np.array([taken(*operand) for operand in operands])

    def formed(means: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        a, b = means[0], means[1]
        return {
            "ratio": a / b, "increase": a / b - 1, "reduction": 1 - a / b, "difference": a - b,
            "extra": a / (b - a), "spread": means.max() / means.min() - 1,
        }[form]  # fmt: skip

    without = [formed(np.delete(values, k, axis=1).mean(axis=1)) for k in range(RUNS)]
    error = np.sqrt((RUNS - 1) * np.var(without))

    [answer] = estimate(spark, store, [Quantity("x", form, operands, RUNS)], SEED)

    assert answer.value == pytest.approx(formed(values.mean(axis=1)))
    assert answer.ci95 == pytest.approx(2.571 * error)  # Student, 5 degrees of freedom


def test_run_that_is_there_twice_counts_once(spark: SparkSession, store: Store, tmp_path: Path) -> None:
    """As after a Spark Connect server went on while its client was killed and the sweep repeated."""
    shutil.copytree(store.path or "", tmp_path / "store")
    [original] = (tmp_path / "store/measurements").glob("sweep=*")
    shutil.copytree(original, original.with_name("sweep=again"))
    first, second = discussion_and_trees()[:2]
    quantities = [
        Quantity("a", "value", ((first, Measure("reception_ut")),), RUNS),
        Quantity("b", "ratio", ((first, Measure("reception_ut")), (second, Measure("reception_ut"))), RUNS),
    ]

    twice = estimate(spark, Store(str(tmp_path / "store")), quantities, SEED)

    assert twice == estimate(spark, store, quantities, SEED)
    assert [one.runs for one in twice] == [RUNS, RUNS]


def test_only_runs_count_in_which_all_operands_were_measured(spark: SparkSession, tmp_path: Path) -> None:
    """Three runs of one point, and six of the other."""
    store = Store(str(tmp_path / "store"))
    first, second = discussion_and_trees()[:2]
    sweep(
        spark,
        store,
        [Run(point, run_seed(SEED, k)) for point, n in ((first, 3), (second, 6)) for k in range(n)],
    )
    latency = Measure("reception_ut")

    [answer] = estimate(
        spark, store, [Quantity("x", "ratio", ((first, latency), (second, latency)), 6)], SEED
    )

    assert answer.runs == 3
    assert answer.value == pytest.approx(
        np.mean(taken(first, latency, 3)) / np.mean(taken(second, latency, 3))
    )


def test_one_run_has_no_interval(spark: SparkSession, store: Store) -> None:
    point = discussion_and_trees()[0]

    [answer] = estimate(spark, store, [Quantity("x", "value", ((point, Measure("reception_ut")),), 1)], SEED)

    assert answer == Estimate("x", pytest.approx(taken(point, Measure("reception_ut"), 1)[0]), None, 1)


def test_what_was_not_run_or_not_measured_has_no_value(spark: SparkSession, store: Store) -> None:
    point = discussion_and_trees()[0]
    [other] = points("one-publisher", {"nodes": (64,), "subscribers": (1.0,)}, ("vcube-ps",))
    latency = Measure("reception_ut")

    found = estimate(
        spark,
        store,
        [
            Quantity("not run", "value", ((other, latency),), RUNS),
            Quantity("nothing to measure", "value", ((point, Measure("last_hop_ut")),), RUNS),
            Quantity("half of it not run", "ratio", ((point, latency), (other, latency)), RUNS),
            Quantity("divided by nothing", "ratio", ((point, latency), (point, Measure("lost"))), RUNS),
        ],
        SEED,
    )
    [of_another_seed] = estimate(spark, store, [Quantity("x", "value", ((point, latency),), 1)], SEED + 1)

    assert [(one.name, one.value, one.ci95) for one in found] == [
        ("not run", None, None),
        ("nothing to measure", None, None),
        ("half of it not run", None, None),
        ("divided by nothing", None, None),
    ]
    assert of_another_seed.value is None
