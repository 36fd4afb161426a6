"""`vcubeps audit`: what it prints, its exit codes, and what it leaves behind."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import planted
from commands import vcubeps
from vcubeps.cli import main
from vcubeps.spark import session as sessions
from vcubeps.spark.java import JavaMissing
from vcubeps.spark.session import SessionError, Wanted, open_session

Output = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def running() -> Iterator[SparkSession]:
    """Starting Spark takes longer than all of the commands here."""
    started = open_session(Wanted(master="local[2]", memory="1g"))
    yield started
    started.stop()


class Lent:
    """A session that is not stopped by who was given it, but knows that it should have been."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self.is_stopped = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def stop(self) -> None:
        self.is_stopped = True


@pytest.fixture
def lent(running: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Lent:
    session = Lent(running)
    monkeypatch.setattr(sessions, "open_session", lambda _: session)
    return session


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted.write(tmp_path_factory.mktemp("clean") / "trace", planted.churn("amended")[1])


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run 1 has a duplicate, a loss and a phantom."""
    good, bad = (planted.churn("amended", seed)[1] for seed in (1, 2))
    for plant in (planted.plant_duplicate, planted.plant_phantom, planted.plant_held_back):
        plant(bad)
    return planted.write(tmp_path_factory.mktemp("damaged") / "trace", good, bad)


def test_clean_trace_is_called_clean(lent: Lent, clean: Path, capsys: Output) -> None:
    assert main(["audit", str(clean)]) == 0

    text = capsys.readouterr().out
    assert text.startswith("runs 1, topics 1, nodes 30\npublications 40, receptions ")
    assert "causal               0  delivered before something that it depends on" in text
    assert text.endswith("\n\nNothing found.\n")
    assert lent.is_stopped


def test_findings_are_counted_and_told_in_words(lent: Lent, damaged: Path, capsys: Output) -> None:
    assert main(["audit", str(damaged), "--examples", "1"]) == 1

    text = capsys.readouterr().out
    assert "duplicate            1  delivered again" in text
    assert (
        "loss                 1  not delivered to a stable subscriber (1 of them received and held back)"
        in text
    )
    assert "run 1, topic 0: node " in text
    assert ", which nobody published" in text
    assert text.endswith("\n3 findings.\n")


def test_json_has_all_of_it(lent: Lent, damaged: Path, tmp_path: Path, capsys: Output) -> None:
    findings = tmp_path / "findings"

    assert main(["audit", str(damaged), "--json", "--examples", "5", "--findings", str(findings)]) == 1

    answer = json.loads(capsys.readouterr().out)
    assert answer["findings"] == {"causal": 0, "duplicate": 1, "phantom": 1, "loss": 1, "fifo": 0}
    assert answer["verdict"] == "findings"
    assert (answer["runs"], answer["topics"], answer["nodes"], answer["publications"]) == (2, 2, 32, 80)
    assert answer["dependency_checks"] > answer["deliveries"] / 2
    assert sorted(e["kind"] for e in answer["examples"]) == ["duplicate", "loss", "phantom"]
    written = pq.read_table(findings).to_pylist()
    assert sorted(written, key=str) == sorted(answer["examples"], key=str)
    assert [entry.name for entry in tmp_path.iterdir()] == ["findings"]


def test_losses_that_cannot_be_judged_are_not_called_none(lent: Lent, tmp_path: Path, capsys: Output) -> None:
    _, rows = planted.churn("amended")
    rows["membership"] = []
    path = planted.write(tmp_path / "trace", rows)

    assert main(["audit", str(path)]) == 0
    text = capsys.readouterr().out
    assert "loss                 ?" in text
    assert "Losses could not be judged on 1 of 1 topics: the table membership has no rows of them." in text

    assert main(["audit", str(path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["findings"]["loss"] is None
    assert answer["verdict"] == "losses not judged"


def test_failed_audit_leaves_no_findings(lent: Lent, clean: Path, tmp_path: Path, capsys: Output) -> None:
    path = planted.write(tmp_path / "trace", planted.no_rows())

    assert main(["audit", str(path), "--findings", str(tmp_path / "findings")]) == 2

    assert "the trace is empty, there is nothing to audit" in capsys.readouterr().err
    assert [entry.name for entry in tmp_path.iterdir()] == ["trace"]
    assert lent.is_stopped


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["{folder}/nothing"],
            "/nothing is no directory: name one that vcubeps simulate --trace or a node has",
        ),
        (["{folder}"], "is no trace, it has no folder publications: name a directory with the folders"),
        (["{clean}", "--findings", "{folder}"], "exists already: name a new directory"),
        (
            ["{clean}", "--findings", "{folder}/x/y"],
            "/x is no directory to write in: make it, or name another",
        ),
        (["{clean}", "--examples", "many"], "'many' is not a whole number"),
        (["{clean}", "--method", "guess"], "invalid choice: 'guess'"),
        ([], "required: TRACE"),
    ],
)
def test_bad_input_is_refused_before_spark_starts(
    arguments: list[str],
    text: str,
    clean: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Output,
) -> None:
    monkeypatch.setattr(sessions, "open_session", None)

    assert main(["audit", *(a.format(folder=tmp_path, clean=clean) for a in arguments)]) == 2

    captured = capsys.readouterr()
    assert captured.out == ""
    assert text in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize("error", [SessionError("there is no such master"), JavaMissing("there is no Java")])
def test_spark_that_does_not_start_is_a_sentence(
    error: Exception, clean: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    def refuse(_: Wanted) -> None:
        raise error

    monkeypatch.setattr(sessions, "open_session", refuse)

    assert main(["audit", str(clean)]) == 2
    assert capsys.readouterr().err == f"vcubeps audit: {error}\n"


def test_unreadable_file_is_a_sentence_and_spark_adds_nothing(tmp_path: Path) -> None:
    """In a process of its own, with a session as a user gets it."""
    path = planted.write(tmp_path / "trace", planted.churn("amended")[1])
    (path / "publications" / "0.parquet").write_text("nonsense" * 100)

    answer = vcubeps("audit", path, "--memory", "600m")

    assert answer.returncode == 2
    assert answer.stdout == ""
    assert "publications/0.parquet of the table publications cannot be read as Parquet" in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_without_its_libraries_the_audit_says_how_to_get_them() -> None:
    script = "import sys; sys.modules['pyspark'] = None; from vcubeps.cli import main; sys.exit(main())"
    answer = subprocess.run(
        [sys.executable, "-c", script, "audit", "trace"], check=False, capture_output=True, text=True
    )

    assert answer.returncode == 2
    assert "the audit needs pyspark, which is not installed: pip install 'vcubeps[spark]'" in answer.stderr
