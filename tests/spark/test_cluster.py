"""The same sweep and the same audit on real clusters: a standalone master with two workers, and Spark Connect."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from commands import vcubeps
from spark_cluster import connect_server, standalone_cluster
from vcubeps.cli import main

Output = pytest.CaptureFixture[str]

GRID = ["one-publisher", "--set", "nodes=16,32", "--set", "subscribers=50%", "--runs", "3", "--json"]


def quiet(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    answer = vcubeps(*arguments)
    assert answer.stderr == ""
    return answer


@pytest.fixture(scope="module")
def latencies_here() -> list[float]:
    """What the kernels say without Spark."""
    answer = quiet("simulate", *GRID, "--jobs", "1")
    return [row["latency_mean_ut"] for row in json.loads(answer.stdout)]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the published protocol under churn, which loses messages."""
    folder = tmp_path_factory.mktemp("trace") / "trace"
    grid = ["--set", "nodes=32", "--set", "churn=0.25", "--set", "protocol=published", "--set", "messages=32"]
    assert (
        main(["simulate", "churn", "--system", "vcube-ps", *grid, "--runs", "2", "--trace", str(folder)]) == 0
    )
    return folder


def check_sweep_and_audit(where: list[str], folder: Path, latencies: list[float], trace: Path) -> None:
    answer = quiet("sweep", *GRID, "--data", folder / "sweep", *where)
    assert [row["latency_mean_ut"] for row in json.loads(answer.stdout)] == pytest.approx(latencies, abs=1e-6)

    answer = quiet("audit", trace, "--json", *where)
    assert answer.returncode == 1
    found = json.loads(answer.stdout)
    assert found["findings"]["loss"] > 0
    assert found["findings"]["causal"] == found["findings"]["duplicate"] == 0


def test_standalone_master_with_two_workers(tmp_path: Path, latencies_here: list[float], trace: Path) -> None:
    with standalone_cluster(tmp_path) as master:
        where = ["--master", master, "--conf", "spark.executor.memory=512m"]
        check_sweep_and_audit(where, tmp_path, latencies_here, trace)

    said = "".join(log.read_text() for log in tmp_path.glob("worker-*.log"))
    assert said.count("Launching executor") + said.count("Asked to launch executor") >= 2


def test_spark_connect(tmp_path: Path, latencies_here: list[float], trace: Path) -> None:
    with connect_server(tmp_path) as remote:
        check_sweep_and_audit(["--remote", remote], tmp_path, latencies_here, trace)
