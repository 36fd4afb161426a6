"""The command that reproduces the paper, as a user types it: Spark embedded, a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from commands import PROGRAM, vcubeps
from vcubeps.cli import main

Output = pytest.CaptureFixture[str]

pytestmark = pytest.mark.xdist_group("reproduce")
"""One process, so that the report they share is made once."""

SMALL = ["reproduce", "table1", "--runs", "2", "--master", "local[1]", "--memory", "1g"]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("reproduce") / "report"
    answer = vcubeps(*SMALL, "--out", out)
    assert answer.stderr == ""
    assert answer.returncode == 0
    assert answer.stdout.splitlines()[0] == "4 runs simulated, 0 were there already"
    assert answer.stdout.splitlines()[-1] == f"open {out}/index.html"
    return out


def test_page_rows_and_data_are_written(report: Path) -> None:
    """Table 1: SRPT's column is the paper's exactly, whatever the seed."""
    assert sorted(path.name for path in report.iterdir()) == [
        "curves.json", "data", "figures", "figures.json", "index.html"
    ]  # fmt: skip
    rows = json.loads((report / "figures.json").read_text())
    for row in rows:
        assert {"id", "place", "paper", "measured", "ci95", "unit", "verdict", "why"} <= set(row)
    exact = {row["paper"] for row in rows if row["measured"] == row["paper"] and row["ci95"] == 0}
    assert {512, 448, 60, 3, 1} <= exact


def test_page_tells_where_it_comes_from(report: Path) -> None:
    provenance = json.loads((report / "curves.json").read_text())["provenance"]

    assert {"vcubeps", "revision", "simulator", "spark", "python", "numba", "seed", "profile"} <= set(
        provenance
    )
    page = (report / "index.html").read_text()
    for name in ("vcubeps", "revision", "spark", "python", "seed"):
        assert str(provenance[name]) in page


def test_second_time_nothing_is_simulated_and_more_runs_add_to_it(report: Path) -> None:
    more = [word if word != "2" else "3" for word in SMALL]

    answer = vcubeps(*more, "--out", report)

    assert answer.stdout.splitlines()[0] == "2 runs simulated, 4 were there already"


def test_interrupt_ends_it_and_keeps_what_is_done(tmp_path: Path) -> None:
    """SIGINT, as Ctrl-C sends it to the whole group, while a run of seconds is under way."""
    out = tmp_path / "report"
    command = [
        *PROGRAM, "reproduce", "9a",
        "--runs", "20", "--master", "local[1]", "--memory", "1g", "--out", str(out),
    ]  # fmt: skip
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)
    wait_until(process, lambda: list(out.glob("data/measurements/*/_temporary")))

    os.killpg(process.pid, signal.SIGINT)

    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "")
    assert not (out / "index.html").exists()


def test_interrupt_while_spark_starts_leaves_no_java_behind(tmp_path: Path) -> None:
    command = [*PROGRAM, *SMALL]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path / "report")],
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(process, lambda: "org.apache.spark.deploy.SparkSubmit" in commands_of_group(process.pid))

    os.killpg(process.pid, signal.SIGINT)

    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "")
    deadline = time.monotonic() + 30
    while commands_of_group(process.pid):
        assert time.monotonic() < deadline, commands_of_group(process.pid)
        time.sleep(0.05)


def commands_of_group(group: int) -> str:
    """The command lines of all processes of a process group."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and os.getpgid(int(folder.name)) == group:
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return "\n".join(found)


def wait_until(process: subprocess.Popen[str], condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["4z"], "there is no figure '4z': choose among 4a"),
        (["--profile", "huge"], "invalid choice: 'huge'"),
        (["--runs", "0"], "0 is outside 1 to"),
        (["--master", "spark://127.0.0.1:1"], "no Spark master answers at spark://127.0.0.1:1"),
        (["--remote", "sc://127.0.0.1:1"], "no Spark Connect server answers"),
        (["--memory", "1m"], "1m of memory is too little for Spark: give at least 512m"),
        (["--conf", "memory=1"], "write spark.NAME=VALUE"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_written(
    arguments: list[str], text: str, tmp_path: Path, capsys: Output
) -> None:
    out = tmp_path / "report"

    assert main(["reproduce", *arguments, "--out", str(out)]) == 2

    said = capsys.readouterr().err
    assert text in said
    assert len(said.splitlines()) == 1
    assert not out.exists()


def test_directory_with_something_else_is_refused_and_left_alone(tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "thesis.tex").write_text("precious")

    assert main(["reproduce", "--out", str(tmp_path)]) == 2

    assert "holds something else (thesis.tex)" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_file_in_place_of_the_directory_is_refused(tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "report").write_text("")

    assert main(["reproduce", "--out", str(tmp_path / "report")]) == 2

    assert "is a file: name a directory" in capsys.readouterr().err


def test_directory_of_somebody_else_with_names_like_ours_is_left_alone(
    tmp_path: Path, capsys: Output
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "4a.svg").write_text("precious")

    assert main(["reproduce", "--out", str(tmp_path)]) == 2

    assert "holds something else (data)" in capsys.readouterr().err
    assert (tmp_path / "figures" / "4a.svg").read_text() == "precious"


def test_figure_of_the_other_profile_is_named_as_such(tmp_path: Path, capsys: Output) -> None:
    assert main(["reproduce", "beyond-storm", "--out", str(tmp_path / "report")]) == 2

    assert "figure beyond-storm is not in the profile: run --profile paper" in capsys.readouterr().err


def on_a_small_disk(kib: int, folder: Path, *arguments: str) -> tuple[int, str, str]:
    """A command with `folder` on a disk of its own: exit code, what it said, and what files there are afterwards."""
    mounted = f"mount -t tmpfs -o size={kib}k tmpfs {folder}"
    script = f'{mounted} && {{ "$@"; code=$?; find {folder} -type f >&3; exit $code; }}'
    namespace = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    if subprocess.run(
        [*namespace, "sh", "-c", script, "sh", "true"], capture_output=True, check=False
    ).returncode:
        pytest.skip("no disk of its own to be had here: mounting is not permitted")
    command = [*namespace, "sh", "-c", f"exec 3>&1 1>/dev/null; {script}", "sh", *PROGRAM]
    answer = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=300, check=False)
    return answer.returncode, answer.stderr, answer.stdout


def test_full_disk_is_said_and_nothing_is_half_written(tmp_path: Path) -> None:
    """The measurements have no room."""
    out = str(tmp_path / "report")

    code, said, files = on_a_small_disk(
        48, tmp_path, "reproduce", "4a", "--runs", "2", "--memory", "1g", "--out", out
    )

    assert code == 2
    assert "the disk is full: make room and run it again" in said
    assert len(said.splitlines()) == 1
    assert "store.json" in files
    assert "index.html" not in files
    assert "unfinished" not in files


def test_report_goes_onto_a_disk_of_its_own(tmp_path: Path) -> None:
    """Its directory is where another disk is mounted, as in a container: nothing can be moved there from beside it."""
    code, said, files = on_a_small_disk(1 << 16, tmp_path, *SMALL, "--out", str(tmp_path))

    assert (code, said) == (0, "")
    assert f"{tmp_path}/index.html" in files.splitlines()
