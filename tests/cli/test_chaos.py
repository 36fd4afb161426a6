"""`vcubeps chaos`: the plan it prints, a short run with real processes, and what makes it say no."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from commands import interrupted, started
from vcubeps.cli import main
from vcubeps.spark import session as sessions
from vcubeps.spark.session import Wanted, spark_session

Output = pytest.CaptureFixture[str]
Run = tuple[Path, int]

NODES, SEED = 4, 7


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """Starting Spark takes longer than the audits here."""
    with (
        pytest.MonkeyPatch.context() as patch,
        spark_session(Wanted(master="local[2]", memory="1g")) as session,
    ):
        patch.setattr(sessions, "open_session", lambda _: Lent(session))
        yield session


class Lent:
    """A session that is not stopped by who was given it."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def stop(self) -> None:
        pass


@pytest.fixture(scope="module")
def chaos(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A quarter of a minute: the directory, and the exit code."""
    directory = tmp_path_factory.mktemp("chaos") / "run"
    code = main([
        "chaos", "--minutes", "0.25", "--nodes", str(NODES), "--seed", str(SEED), "--rate", "60",
        "--faults", "kill,stop,pair,slow,reset", "--out", str(directory),
    ])  # fmt: skip
    return directory, code


def verdict(directory: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((directory / "verdict.json").read_text())
    return told


def test_a_short_run_holds_and_tells_how_long_each_fault_took_to_overcome(chaos: Run) -> None:
    directory, code = chaos

    told = verdict(directory)
    assert code == 0, told
    assert told["held"]
    assert told["problems"] == []
    assert not any(told["audit"]["findings"].values())
    assert told["audit"]["deliveries"] > 100
    assert {fault["kind"] for fault in told["faults"]} == {"kill", "slow", "stop", "pair"}
    assert all(fault["back_s"] is not None for fault in told["faults"])
    assert any(fault["living_s"] is not None for fault in told["faults"])


def test_a_run_leaves_its_traces_logs_timeline_and_verdict(chaos: Run) -> None:
    directory, _ = chaos

    assert verdict(directory)["seed"] == SEED
    assert json.loads((directory / "timeline.json").read_bytes())["options"]["seed"] == SEED
    assert len(list((directory / "logs").iterdir())) == NODES
    assert list((directory / "trace" / "deliveries").glob("*.parquet"))


def test_an_altered_trace_is_found_when_the_run_is_judged_again(
    chaos: Run, tmp_path: Path, capsys: Output
) -> None:
    directory = tmp_path / "altered"
    shutil.copytree(chaos[0], directory)
    file = max((directory / "trace" / "deliveries").glob("node-*.parquet"))
    table = pq.read_table(file)
    later = table.set_column(
        table.schema.get_field_index("position"),
        "position",
        [[each + 10**6 for each in range(table.num_rows)]],
    )
    pq.write_table(later, file.with_name("planted.parquet"))

    code = main(["chaos", "--judge", str(directory)])

    told = capsys.readouterr().out
    assert code == 1
    assert "again at position 10000" in told
    assert "NOT all held" in told
    assert f"seed {SEED}; everything is in {directory}" in told


def test_an_interrupt_ends_all_processes_and_tells_what_was_found_so_far(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    command = (
        "chaos",
        "--nodes",
        "3",
        "--minutes",
        "5",
        "--rate",
        "60",
        "--faults",
        "stop",
        "--out",
        directory,
    )
    with started(*command, within_s=60.0) as process:
        assert process.stderr is not None
        line = ""
        while "stop" not in line:
            line = process.stderr.readline()
            assert line, "it ended by itself"

        took_s = interrupted(process)

        assert process.returncode == 130
        assert took_s < 10
        assert process.stdout is not None
        assert "stop" in process.stdout.read()
        assert "the traces have not been audited" in process.stderr.read()
    assert not _processes_of(directory)


def _processes_of(directory: Path) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue  # it has just ended
        if (
            any(os.fsencode(str(directory)) in word for word in words)
            and b"vcubeps.chaos.application" in words
        ):
            found.append(entry.parent.name)
    return found


# -- the plan --------------------------------------------------------------------------------------


def test_the_plan_is_the_same_for_the_same_seed(capsys: Output) -> None:
    assert main(["chaos", "--plan", "--minutes", "10", "--nodes", "16", "--seed", "7"]) == 0
    first = capsys.readouterr().out
    main(["chaos", "--plan", "--minutes", "10", "--nodes", "16", "--seed", "7"])

    assert capsys.readouterr().out == first
    assert "faults in 10 minutes on 16 nodes, seed 7" in first


def test_the_plan_as_json_has_every_fault(capsys: Output) -> None:
    assert main(["chaos", "--plan", "--minutes", "2", "--faults", "kill,pair", "--json"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert {fault["kind"] for fault in told["faults"]} == {"kill", "pair"}
    assert {"number", "at_s", "kind", "nodes", "for_s", "sides", "manner"} == set(told["faults"][0])


# -- what makes no sense ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--faults", "kill,earthquake"], "there is no fault 'earthquake': choose among kill, stop"),
        (["--minutes", "0"], "0 is outside 0.2 to 1440"),
        (["--minutes", "ten"], "'ten' is not a number"),
        (["--nodes", "2"], "2 is outside 3 to 64"),
        (["--rate", "1e3"], "'1e3' is not a number"),
        (["--out", "."], "--out . exists already: name a new directory"),
        (["--judge", "nowhere"], "--judge nowhere has no run that can be judged"),
    ],
)
def test_nonsense_is_refused_in_one_sentence(arguments: list[str], sentence: str, capsys: Output) -> None:
    assert main(["chaos", *arguments]) == 2

    [line] = capsys.readouterr().err.splitlines()
    assert sentence in line
