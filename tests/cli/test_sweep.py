"""Own sweeps on Spark, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import vcubeps
from vcubeps.cli import main

Output = pytest.CaptureFixture[str]

GRID = [
    "one-publisher",
    "--set",
    "nodes=16,32",
    "--set",
    "subscribers=50%",
    "--runs",
    "3",
    "--seed",
    "7",
    "--json",
]


def test_sweep_says_what_simulate_says(tmp_path: Path, capsys: Output) -> None:
    """Means and intervals of the two ways to the same runs."""
    answer = vcubeps("sweep", *GRID, "--data", tmp_path / "sweep", "--master", "local[1]", "--memory", "1g")
    assert answer.stderr == ""
    assert main(["simulate", *GRID, "--jobs", "1"]) == 0

    swept = json.loads(answer.stdout)
    simulated = json.loads(capsys.readouterr().out)
    assert len(swept) == len(simulated) == 4
    same = ("system", "nodes", "scenario", "seed", "runs")
    close = ("latency_mean_ut", "latency_ci95_ut", "delivery_mean_ut", "path_mean_hops", "pub_messages_mean",
             "forwarders_mean", "false_positives_mean", "expected_mean", "lost_mean")  # fmt: skip
    for ours, theirs in zip(swept, simulated, strict=True):
        assert [ours[name] for name in same] == [theirs[name] for name in same]
        assert [ours[name] for name in close] == pytest.approx([theirs[name] for name in close], abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "which scenario? choose among one-publisher"),
        (["one-publisher", "--set", "nodes=100"], "nodes=100 is not a power of two"),
        (["one-publisher", "--set", "nodes=64", "--master", "mesos://x"], "'mesos://x' is no Spark master"),
        (["one-publisher", "--set", "nodes=64", "--master", "local[0]"], "'local[0]' is no Spark master"),
        (["one-publisher", "--set", "nodes=64", "--data", "a[1]"], "has a [ in its name"),
        (["one-publisher", "--set", "nodes=64", "--data", "run:1"], "has a : in its name"),
    ],
)
def test_what_makes_no_sense_is_refused(
    arguments: list[str], text: str, tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(["sweep", *arguments]) == 2

    assert text in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_place_with_something_else_is_refused_before_spark_starts(tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "thesis.tex").write_text("precious")

    assert main(["sweep", "one-publisher", "--data", str(tmp_path)]) == 2

    assert "holds something else" in capsys.readouterr().err
