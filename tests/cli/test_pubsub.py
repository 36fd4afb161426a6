"""`vcubeps sub`, `pub` and `top`, against a real cluster: what is published is printed, and Ctrl-C ends."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import PROGRAM, interrupted, started, vcubeps
from vcubeps.cli import main
from vcubeps.cli.cluster_directory import ClusterDirectory
from vcubeps.cli.gateways import VARIABLE, running_gateways

Output = pytest.CaptureFixture[str]
Running = subprocess.Popen[str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Three nodes in one process."""
    directory = tmp_path_factory.mktemp("cluster")
    answer = vcubeps("cluster", "up", "--nodes", "3", "--dir", directory)
    try:
        assert answer.returncode == 0, answer.stderr
        yield directory
    finally:
        vcubeps("cluster", "down", "--dir", directory)


def subscribed(process: Running) -> str:
    """Wait until the subscription is in effect; what the command says then."""
    assert process.stderr is not None
    return process.stderr.readline()


def lines_of(process: Running) -> list[str]:
    """All that the command prints until it ends."""
    assert process.stdout is not None
    lines = process.stdout.read().splitlines()
    process.wait()
    return lines


def test_a_subscriber_prints_what_is_published_at_another_node(cluster: Path) -> None:
    with started("sub", "room", "--dir", cluster, "--node", "2", "--count", "1") as sub:
        assert subscribed(sub) == "subscribed to room: members 2\n"

        pub = vcubeps("pub", "room", "hello, Zoë", "--acknowledged", "--dir", cluster, "--node", "1")

        [line] = lines_of(sub)
    assert pub.returncode == 0, pub.stderr
    name = pub.stdout.removeprefix("published ").strip()
    assert name.startswith("1:")
    assert line == f"room {name}  hello, Zoë"
    assert sub.returncode == 0


def test_lines_of_standard_input_arrive_in_order(cluster: Path) -> None:
    texts = [f"line {number}" for number in range(2000)]
    with started("sub", "lines", "--dir", cluster, "--node", "1", "--count", "2000") as sub:
        subscribed(sub)
        with started("pub", "lines", "--dir", cluster) as pub:
            said, _ = pub.communicate("\n".join(texts))

        received = [line.split("  ", 1)[1] for line in lines_of(sub)]
    assert pub.returncode == 0
    assert said.startswith("published 2,000 lines, the last as 0:")
    assert received == texts


def test_json_has_what_a_program_needs_and_bytes_that_are_no_text_in_base64(cluster: Path) -> None:
    payload = b"\xff\x00"
    with started("sub", "data", "more", "--json", "--dir", cluster, "--count", "2") as sub:
        subscribed(sub), subscribed(sub)

        vcubeps("pub", "data", "text", "--dir", cluster)
        pub = subprocess.run(
            [*PROGRAM, "pub", "more", "--json", "--dir", cluster],
            input=payload,
            capture_output=True,
            check=True,
        )

        text, binary = map(json.loads, lines_of(sub))
    told = json.loads(pub.stdout)
    assert (text["topic"], text["source"], text["text"], text["after"]) == ("data", 0, "text", {})
    assert text["published_at"] > 1.7e9
    assert base64.b64decode(binary["base64"]) == payload
    assert told == {"topic": "more", "published": 1, "source": 0, "counter": binary["counter"]}


def test_what_could_command_a_terminal_is_escaped(cluster: Path) -> None:
    with started("sub", "escapes", "--dir", cluster, "--count", "1") as sub:
        subscribed(sub)
        vcubeps("pub", "escapes", "\x1b[31mred\nnext", "--dir", cluster)

        [line] = lines_of(sub)
    assert line.endswith(r"  \x1b[31mred\nnext")


def test_ctrl_c_ends_a_subscriber_within_two_seconds_with_130(cluster: Path) -> None:
    with started("sub", "quiet", "--dir", cluster) as sub:
        subscribed(sub)

        assert interrupted(sub) < 2

        assert sub.stderr is not None
        assert sub.stderr.read() == ""
    assert sub.returncode == 130


def test_ctrl_c_ends_a_publisher_that_waits_for_input(cluster: Path) -> None:
    with (
        started("sub", "typed", "--dir", cluster, "--count", "1") as sub,
        started("pub", "typed", "--dir", cluster) as pub,
    ):
        subscribed(sub)
        assert pub.stdin is not None
        pub.stdin.write("first\n")
        pub.stdin.flush()
        assert len(lines_of(sub)) == 1  # so it is in the middle of its work

        assert interrupted(pub) < 2

    assert pub.returncode == 130


def test_a_reader_that_goes_away_ends_a_subscriber_quietly(cluster: Path) -> None:
    with started("sub", "pipe", "--dir", cluster) as sub:
        subscribed(sub)
        assert sub.stdout is not None
        assert sub.stderr is not None
        sub.stdout.close()
        with started("pub", "pipe", "--dir", cluster) as pub:
            assert pub.stdin is not None
            while sub.poll() is None:
                pub.stdin.write("anybody there?\n")
                pub.stdin.flush()
        assert sub.stderr.read() == ""
    assert sub.returncode == 141


def test_ctrl_c_ends_a_subscriber_whose_output_nobody_reads(cluster: Path) -> None:
    many = "\n".join(["x" * 1000] * 3000)
    with started("sub", "flood", "--dir", cluster) as sub:
        subscribed(sub)
        with started("pub", "flood", "--acknowledged", "--dir", cluster) as pub:
            pub.communicate(many)  # more than the pipe takes

        assert interrupted(sub) < 2

    assert sub.returncode == 130


def test_the_environment_names_a_gateway(
    cluster: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.setenv(VARIABLE, running_gateways(ClusterDirectory(cluster))[2])

    assert main(["pub", "room", "hello"]) == 0

    assert capsys.readouterr().out.startswith("published 2:")


# -- top -------------------------------------------------------------------------------------------


def test_top_once_is_one_table_of_nodes_and_one_of_topics(cluster: Path) -> None:
    with started("sub", "watched", "--dir", cluster, "--node", "1") as sub:
        subscribed(sub)
        answer = vcubeps("top", "--once", "--interval", "0.2", "--dir", cluster)
        seen = json.loads(vcubeps("top", "--once", "--interval", "0.2", "--dir", cluster, "--json").stdout)

    assert answer.returncode == 0, answer.stderr
    assert [line.split()[:2] for line in answer.stdout.splitlines() if " yes " in line] == [
        ["0", "yes"],
        ["1", "yes"],
        ["2", "yes"],
    ]
    assert any(line.split()[:2] == ["watched", "1"] for line in answer.stdout.splitlines())
    assert [(node["node"], node["up"]) for node in seen["nodes"]] == [(0, True), (1, True), (2, True)]
    assert "watched" in [topic["topic"] for topic in seen["topics"]]


def test_ctrl_c_ends_top_within_two_seconds(cluster: Path) -> None:
    with started("top", "--interval", "0.2", "--json", "--dir", cluster) as top:
        assert top.stdout is not None
        json.loads(top.stdout.readline())

        assert interrupted(top) < 2

    assert top.returncode == 0


# -- what cannot be done ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["sub", "room", "--gateway", "127.0.0.1:1"], 2, "no gateway to be reached at http://127.0.0.1:1"),
        (["pub", "room", "x", "--gateway", "127.0.0.1:1"], 2, "no gateway to be reached"),
        (["top", "--gateway", "127.0.0.1:1"], 1, "no gateway answers at 127.0.0.1:1"),
        (
            ["sub", "room", "--gateway", "127.0.0.1:1", "--node", "1"],
            2,
            "--node chooses among the nodes of --dir",
        ),
        (["sub", "room", "--dir", "nowhere"], 2, "there is no cluster in nowhere: start one with"),
        (["top", "--dir", "nowhere"], 2, "there is no cluster in nowhere: start one with"),
        (["top", "--interval", "0"], 2, "'0' is no number of seconds from 0.1 to 3600"),
        (["sub", "", "--gateway", "127.0.0.1:1"], 2, "a topic is a non-empty string"),
        (["sub"], 2, "TOPIC"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(
    arguments: list[str], code: int, complaint: str, capsys: Output
) -> None:
    assert main(arguments) == code

    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "example"),
    [
        ("sub", "vcubeps sub room\n"),
        ("pub", "vcubeps pub room hello\n"),
        ("top", "vcubeps top --once --interval 5"),
        ("cluster", "vcubeps cluster up --nodes 8\n"),
        ("node", "vcubeps node --config cluster.toml --id 0\n"),
    ],
)
def test_help_teaches_with_an_example(command: str, example: str, capsys: Output) -> None:
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])

    assert stop.value.code == 0
    assert example in capsys.readouterr().out
