"""`vcubeps simulate`: rows, tables, traces, and refusals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from vcubeps.cli import main
from vcubeps.sim import sweep

Output = pytest.CaptureFixture[str]

ONE = ("simulate", "one-publisher", "--set", "nodes=64", "--set", "subscribers=0.25", "--jobs", "1")


def test_json_has_one_row_per_system_and_point(capsys: Output) -> None:
    assert main([*ONE, "--runs", "3", "--seed", "1", "--json"]) == 0

    rows = json.loads(capsys.readouterr().out)
    assert [row["system"] for row in rows] == ["vcube-ps", "srpt-s"]
    for row in rows:
        assert row["nodes"] == 64
        assert row["subscribers"] == 0.25
        assert row["runs"] == 3
        assert row["latency_mean_ut"] > 100
        assert row["latency_ci95_ut"] > 0
    assert rows[0]["pub_messages_mean"] == 15 < rows[1]["pub_messages_mean"]


def test_answer_does_not_depend_on_the_number_of_processes(capsys: Output) -> None:
    answers = []
    for jobs in ("1", "2"):
        arguments = ["simulate", "discussion", "--set", "nodes=16", "--set", "questions=1,2", "--runs", "3"]
        main([*arguments, "--jobs", jobs, "--json"])
        answers.append(capsys.readouterr().out)

    assert answers[0] == answers[1]


def test_several_values_make_an_axis(capsys: Output) -> None:
    main(["simulate", "many-publishers", "--set", "nodes=8,16", "--set", "publishers=50%", "--runs", "1",
          "--set", "propagation_ut=10", "--system", "srpt-s", "--jobs", "1", "--json"])  # fmt: skip

    rows = json.loads(capsys.readouterr().out)
    assert [(row["system"], row["nodes"], row["publishers"]) for row in rows] == [
        ("srpt-s", 8, 0.5), ("srpt-s", 16, 0.5),
    ]  # fmt: skip


def test_table_for_people_names_what_varies(capsys: Output) -> None:
    main([*ONE, "--runs", "2"])

    text = capsys.readouterr().out
    assert "system" in text.splitlines()[0]
    assert "latency" in text.splitlines()[0]
    assert "vcube-ps" in text
    assert "2 runs per row" in text


def test_list_explains_scenarios_and_parameters(capsys: Output) -> None:
    assert main(["simulate", "--list"]) == 0

    text = capsys.readouterr().out
    for word in ("one-publisher", "figure 10", "churn_interval_ut", "calibrated", "custom"):
        assert word in text


def test_trace_tables_hold_every_event(tmp_path: Path, capsys: Output) -> None:
    main(["simulate", "discussion", "--set", "nodes=8", "--set", "questions=1", "--set", "protocol=amended",
          "--runs", "2", "--trace", str(tmp_path / "trace"), "--jobs", "1", "--json"])  # fmt: skip

    rows = {name: pq.read_table(tmp_path / "trace" / name).to_pylist() for name in
            ("runs", "publications", "receptions", "deliveries", "membership")}  # fmt: skip
    assert [row["run"] for row in rows["runs"]] == [0, 1]
    assert len(rows["publications"]) == 2 * 8
    assert len(rows["receptions"]) == 2 * 8 * 7
    assert len(rows["deliveries"]) == 2 * 8 * 8
    assert {(row["run"], row["node"], row["joins"], row["time_ut"]) for row in rows["membership"]} == {
        (run, node, True, -1) for run in range(2) for node in range(8)
    }
    delivered = {
        (row["run"], row["node"], row["source"], row["counter"]): row["position"]
        for row in rows["deliveries"]
    }
    for publication in rows["publications"]:
        for node in range(8):
            here = (publication["run"], node)
            place = delivered[*here, publication["source"], publication["counter"]]
            for entry in publication["barrier"]:
                assert delivered[*here, entry["source"], entry["counter"]] < place
    assert list(tmp_path.iterdir()) == [tmp_path / "trace"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "which scenario? choose among one-publisher"),
        (["nothing"], "'nothing' is unknown: choose among one-publisher"),
        (["one-publisher", "--set", "nodes=100"], "nodes=100 is not a power of two: give 64 or 128"),
        (["one-publisher", "--set", "nodes=1"], "nodes is a number from 2 to 1048576, got 1"),
        (["one-publisher", "--set", "nodes=many"], "nodes is a number from 2 to"),
        (["one-publisher", "--set", "nodes=2.5"], "nodes is a whole number, got 2.5"),
        (["one-publisher", "--set", "nodes"], "sets nothing: write NAME=VALUE"),
        (["one-publisher", "--set", "nodes=8", "--set", "nodes=16"], "is given twice"),
        (["one-publisher", "--set", "nodes=8", "--set", "subscribers=9"], "subscribers=9 is more than the 8"),
        (["one-publisher", "--set", "colour=red"], "'colour' is unknown"),
        (["one-publisher", "--set", "preset=exact"], "preset is one of literal, calibrated, got 'exact'"),
        (["one-publisher", "--system", "kafka"], "--system 'kafka' is unknown: choose among vcube-ps"),
        (["one-publisher", "--system", "srpt-b"], "one-publisher does not run on srpt-b"),
        (["one-publisher", "--set", "nodes=6400%"], "nodes is a number from 2 to 1048576, got '6400%'"),
        (["one-publisher", "--set", "nodes=1_024"], "nodes is a number from"),
        (["one-publisher", "--set", "subscribers=200%"], "subscribers=200% is more than everyone"),
        (["one-publisher", "--set", "subscribers=0"], "subscribers is a share up to 1"),
        (["custom", "--set", "questions=2", "--system", "srpt-s"], "custom does not run on srpt-s"),
        (["one-publisher", "--runs", "0"], "0 is outside 1 to"),
        (["one-publisher", "--trace", "/nowhere/at/all"], "/nowhere/at is no directory to write in"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(arguments: list[str], text: str, capsys: Output) -> None:
    assert main(["simulate", *arguments]) == 2

    captured = capsys.readouterr()
    assert captured.out == ""
    assert text in captured.err
    assert captured.err.count("\n") == 1


def test_directory_with_something_in_it_is_not_written_to(tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "precious").touch()

    assert main([*ONE, "--trace", str(tmp_path)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [tmp_path / "precious"]


LONG = (
    sys.executable, "-c", "import sys; from vcubeps.cli import main; sys.exit(main())",
    "simulate", "many-publishers", "--set", "nodes=4096", "--set", "publishers=1", "--runs", "50", "--jobs", "1",
)  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_ends_a_long_run_and_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    """The signal comes when the unfinished directory is there, that is, when the runs have begun."""
    with subprocess.Popen([*LONG, "--trace", str(tmp_path / "trace")], stderr=subprocess.PIPE) as process:
        while not list(tmp_path.iterdir()):
            assert process.poll() is None
        process.send_signal(number)
        assert process.wait(timeout=30) == 130

    assert list(tmp_path.iterdir()) == []


def test_worker_that_dies_ends_the_command_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.setattr(sweep, "_run", _die)

    assert main([*ONE, "--runs", "2"]) == 2
    assert "a worker process was killed, perhaps for lack of memory" in capsys.readouterr().err


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_queues_and_barriers_are_told_as_the_paper_groups_them(capsys: Output) -> None:
    main(["simulate", "queues", "--set", "nodes=64", "--system", "srpt-s", "--runs", "2", "--json"])
    [row] = json.loads(capsys.readouterr().out)
    assert row["queue_groups_mean_nodes"]["0"] == 32
    assert sum(row["queue_groups_mean_nodes"].values()) == 64

    main(["simulate", "discussion", "--set", "nodes=16", "--set", "questions=1", "--set", "protocol=amended",
          "--runs", "2", "--json"])  # fmt: skip
    [row] = json.loads(capsys.readouterr().out)
    assert sum(row["barrier_entries_histogram"]) == 2 * 16
    assert sum(row["causal_wait_ut_histogram"]) == 2 * 16 * 15


@pytest.mark.parametrize("missing", ["numba", "numpy", "pyarrow"])
def test_without_its_libraries_the_simulator_says_how_to_get_them(missing: str) -> None:
    script = f"import sys; sys.modules[{missing!r}] = None; from vcubeps.cli import main; sys.exit(main())"
    answer = subprocess.run(
        [sys.executable, "-c", script, "simulate", "queues"], check=False, capture_output=True, text=True
    )

    assert answer.returncode == 2
    assert (
        f"the simulator needs {missing}, which is not installed: pip install 'vcubeps[sim]'" in answer.stderr
    )


def test_compiling_is_announced_once(tmp_path: Path) -> None:
    """With an empty cache of its own; the second command finds what the first has compiled."""
    command = [sys.executable, "-c", "import sys; from vcubeps.cli import main; sys.exit(main())",
               "simulate", "queues", "--set", "nodes=16", "--system", "vcube-ps", "--runs", "1"]  # fmt: skip
    said = [
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        ).stderr
        for _ in range(2)
    ]

    assert "compiling the simulation kernels" in said[0]
    assert said[1] == ""
