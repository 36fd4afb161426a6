"""`vcubeps cluster` and `vcubeps node`, with real processes: starting, looking, ending, and what goes wrong."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from commands import interrupted, started, vcubeps
from ports import free_port
from vcubeps.cli import main, processes
from vcubeps.cli.cluster_directory import ClusterDirectory
from vcubeps.cli.processes import StartedProcess

Output = pytest.CaptureFixture[str]
Cluster = tuple[Path, dict[str, Any]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes, a process each: the directory, and what `up` said."""
    directory = tmp_path_factory.mktemp("cluster") / "three"
    answer = vcubeps("cluster", "up", "--nodes", "3", "--processes", "--dir", directory, "--json")
    try:
        assert answer.returncode == 0, answer.stderr
        yield directory, json.loads(answer.stdout)
    finally:
        assert vcubeps("cluster", "down", "--remove", "--dir", directory).returncode == 0
    assert not directory.exists()


def cluster_file(directory: Path, *lines: str, gateways: bool = False) -> Path:
    """A cluster of two nodes on free ports."""
    file = directory / "cluster.toml"
    content = ['cluster = "chat"', 'state_dir = "state"', *lines]
    for number in range(2):
        content += ["[[nodes]]", f"id = {number}", f'address = "127.0.0.1:{free_port()}"']
        if gateways:
            content.append(f'gateway = "127.0.0.1:{free_port()}"')
    file.write_text("\n".join(content))
    return file


def node_line(line: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(line)
    return told


# -- a cluster that is up --------------------------------------------------------------------------


def test_up_returns_when_every_node_is_up_in_a_process_of_its_own(cluster: Cluster) -> None:
    _, told = cluster

    assert told["up"]
    assert [node["id"] for node in told["nodes"]] == [0, 1, 2]
    assert all(node["up"] for node in told["nodes"])
    assert len({node["pid"] for node in told["nodes"]}) == 3


def test_status_is_a_table_with_a_row_for_each_node(cluster: Cluster) -> None:
    directory, _ = cluster

    answer = vcubeps("cluster", "status", "--dir", directory)

    assert answer.returncode == 0, answer.stderr
    titles, *rows = answer.stdout.splitlines()
    assert titles.split()[:3] == ["node", "pid", "up"]
    assert [row.split()[0] for row in rows] == ["0", "1", "2"]


def test_a_second_up_in_the_same_directory_is_refused(cluster: Cluster, capsys: Output) -> None:
    directory, _ = cluster

    assert main(["cluster", "up", "--dir", str(directory)]) == 2

    assert f"a cluster runs in {directory} already, with 3 nodes" in capsys.readouterr().err


def test_a_killed_node_shows_in_status(cluster: Cluster) -> None:
    directory, told = cluster
    victim = told["nodes"][1]["pid"]

    os.kill(victim, signal.SIGKILL)
    wait_until_gone(victim)
    answer = vcubeps("cluster", "status", "--dir", directory, "--json")

    assert answer.returncode == 1
    nodes = json.loads(answer.stdout)["nodes"]
    assert [node["up"] for node in nodes] == [True, False, True]
    assert nodes[1]["problems"] == ["not running"]


def wait_until_gone(pid: int) -> None:
    deadline_s = time.monotonic() + 5
    while processes.birth_of(pid) is not None:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


# -- up, down, up again ----------------------------------------------------------------------------


def test_a_cluster_that_is_down_is_started_again_with_the_same_file_and_next_incarnations(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "again"
    try:
        assert vcubeps("cluster", "up", "--nodes", "2", "--dir", directory).returncode == 0
        file = (directory / "cluster.toml").read_text()
        down = vcubeps("cluster", "down", "--dir", directory)
        assert (down.returncode, down.stdout) == (0, "2 nodes ended\n")
        answer = vcubeps("cluster", "up", "--dir", directory, "--json")

        assert answer.returncode == 0, answer.stderr
        assert json.loads(answer.stdout)["up"]
        assert (directory / "cluster.toml").read_text() == file
        assert "is up (incarnation 1)" in (directory / "logs" / "nodes.log").read_text()
    finally:
        (directory / "mine.txt").write_text("not made by the command")
        vcubeps("cluster", "down", "--remove", "--dir", directory)
    assert [file.name for file in directory.iterdir()] == ["mine.txt"]


def test_ctrl_c_of_a_cluster_in_the_foreground_ends_its_nodes_within_two_seconds(tmp_path: Path) -> None:
    directory = ClusterDirectory(tmp_path / "attached")
    with started("cluster", "up", "--nodes", "2", "--foreground", "--dir", directory.path) as process:
        assert process.stdout is not None
        while "Ctrl-C ends it." not in (line := process.stdout.readline()):
            assert line, process.communicate()[1]
        assert len(directory.running()) == 1
        with started("sub", "room", "--dir", directory.path) as sub:
            assert sub.stderr is not None
            assert sub.stderr.readline() == "subscribed to room: members 0\n"

            assert interrupted(process) < 2

            assert "ended the connection: node 0 is closing" in sub.stderr.read()
    assert (process.returncode, sub.wait()) == (0, 1)
    assert directory.running() == ()


def test_a_node_that_does_not_start_is_explained_by_its_log_and_nothing_is_left_running(
    tmp_path: Path,
) -> None:
    cluster_file(tmp_path, gateways=True)
    (tmp_path / "state").write_text("no directory")

    answer = vcubeps("cluster", "up", "--dir", tmp_path)

    assert answer.returncode == 1
    assert "did not start, and the others were ended; the end of its log:\n" in answer.stderr
    assert "make" in answer.stderr
    assert ClusterDirectory(tmp_path).running() == ()
    assert (tmp_path / "cluster.toml").exists()


# -- what cannot be done ---------------------------------------------------------------------------


def test_a_port_in_use_is_named_before_anything_is_started(tmp_path: Path, capsys: Output) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        base = sock.getsockname()[1] - 1
        directory = tmp_path / "taken"

        assert main(["cluster", "up", "--nodes", "2", "--base-port", str(base), "--dir", str(directory)]) == 2

    assert f"node 1 cannot listen on 127.0.0.1:{base + 1}" in capsys.readouterr().err
    assert not directory.exists()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--nodes", "5"], "has 2 nodes, not 5: leave the option out, name another --dir"),
        (["--base-port", "7000"], "not on port 7000: leave the option out"),
        (["--trace"], "has no trace_dir: add it there"),
        ([], "has no gateway for node 0: add one"),
    ],
)
def test_a_cluster_file_that_is_not_as_asked_for_is_not_changed(
    options: list[str], complaint: str, tmp_path: Path, capsys: Output
) -> None:
    before = cluster_file(tmp_path).read_text()

    assert main(["cluster", "up", "--dir", str(tmp_path), *options]) == 2

    assert complaint in capsys.readouterr().err
    assert (tmp_path / "cluster.toml").read_text() == before


@pytest.mark.parametrize("action", ["status", "down"])
def test_without_a_cluster_the_error_says_how_to_start_one(
    action: str, tmp_path: Path, capsys: Output
) -> None:
    assert main(["cluster", action, "--dir", str(tmp_path)]) == 2

    complaint = capsys.readouterr().err
    assert (
        f"there is no cluster in {tmp_path}: start one with vcubeps cluster up --dir {tmp_path}" in complaint
    )
    assert complaint.count("\n") == 1


def test_down_never_ends_a_process_that_only_has_the_number_of_one_of_its_nodes(
    tmp_path: Path, capsys: Output
) -> None:
    cluster_file(tmp_path)
    directory = ClusterDirectory(tmp_path)
    directory.write(False, (StartedProcess(os.getpid(), "another boot 17", (0, 1), "nodes.log"),))

    assert main(["cluster", "down", "--dir", str(tmp_path)]) == 0

    assert capsys.readouterr().out == "no node was running\n"


def test_remove_leaves_a_cluster_file_that_somebody_else_wrote(tmp_path: Path) -> None:
    file = cluster_file(tmp_path)

    assert main(["cluster", "down", "--remove", "--dir", str(tmp_path)]) == 0

    assert file.exists()
    assert not (tmp_path / "cluster.json").exists()


# -- one node --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_node_says_when_it_is_up_and_ends_within_two_seconds(
    number: signal.Signals, tmp_path: Path
) -> None:
    file = cluster_file(tmp_path)  # node 0 is a quorum of the two
    with started("node", "--config", file, "--id", "0", "--json") as process:
        assert process.stdout is not None
        listening, up = node_line(process.stdout.readline()), node_line(process.stdout.readline())

        assert interrupted(process, number) < 2

    assert process.returncode == 0
    assert (listening["event"], listening["node"]) == ("listening", 0)
    assert (up["event"], up["cluster"], up["incarnation"], up["gateway"]) == ("up", "chat", 0, None)


def test_a_node_that_waits_for_others_says_that_it_listens_and_ends_within_two_seconds(
    tmp_path: Path,
) -> None:
    file = cluster_file(tmp_path)
    with started("node", "--config", file, "--id", "0", "--incarnation", "5") as process:
        assert process.stdout is not None
        line = process.stdout.readline()

        assert interrupted(process) < 2

    assert process.returncode == 0
    assert " listens on 127.0.0.1:" in line
    assert (tmp_path / "state" / "node-0.incarnation").read_text() == "5\n"


def test_a_node_that_has_lost_its_state_is_refused_and_told_how_to_start(tmp_path: Path) -> None:
    file = cluster_file(tmp_path)
    with (
        started("node", "--config", file, "--id", "0") as other,
        started("node", "--config", file, "--id", "1") as first,
    ):
        wait_until_up(other)
        wait_until_up(first)
        assert interrupted(first) < 2
        (tmp_path / "state" / "node-1.incarnation").unlink()

        with started("node", "--config", file, "--id", "1") as second:
            second.wait()
            assert second.stderr is not None
            complaint = second.stderr.read().splitlines()[-1]

    assert second.returncode == 1
    assert complaint.startswith("vcubeps node: node 1 cannot take part")
    assert complaint.endswith("start it as incarnation 1")


def wait_until_up(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    while " is up " not in (line := process.stdout.readline()):
        assert line, process.communicate()[1]


def test_a_node_that_runs_already_is_not_started_twice(tmp_path: Path) -> None:
    file = cluster_file(tmp_path)
    with started("node", "--config", file, "--id", "0") as process:
        assert process.stdout is not None
        process.stdout.readline()

        second = vcubeps("node", "--config", file, "--id", "0")

    assert second.returncode == 2
    assert "node 0 of this cluster already runs on this machine" in second.stderr
    assert second.stderr.count("\n") == 1


def test_a_port_in_use_is_an_error_in_one_sentence(tmp_path: Path) -> None:
    file = cluster_file(tmp_path)
    address = file.read_text().split('"')[-4]
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", int(address.rpartition(":")[2])))
        sock.listen()

        answer = vcubeps("node", "--config", file, "--id", "0")

    assert answer.returncode == 2
    assert f"node 0 cannot listen on {address}: the port is in use" in answer.stderr
    assert answer.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--id", "7"], "there is no node 7 in cluster 'chat': choose one of 0, 1"),
        (["--id", "one"], "'one' is not the id of a node"),
        (["--id", "0,1", "--incarnation", "3"], "--incarnation is for one node"),
        ([], "--id"),
    ],
)
def test_a_wrong_id_is_refused_in_one_sentence(
    options: list[str], complaint: str, tmp_path: Path, capsys: Output
) -> None:
    assert main(["node", "--config", str(cluster_file(tmp_path)), *options]) == 2

    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1


def test_a_bad_cluster_file_is_explained_with_the_key(tmp_path: Path, capsys: Output) -> None:
    file = cluster_file(tmp_path, 'colour = "red"')

    assert main(["node", "--config", str(file), "--id", "0"]) == 2

    assert f"vcubeps node: {file}: colour is unknown" in capsys.readouterr().err
