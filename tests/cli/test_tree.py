"""`vcubeps tree`, and what the command line does for every command."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from importlib import metadata

import pytest

from vcubeps.cli import main, tree

FIGURE_3 = ["tree", "--nodes", "8", "--source", "2", "--subscribers", "0,2,3,5,7"]
RUN_MAIN = "import sys; from vcubeps.cli import main; sys.exit(main())"

Output = pytest.CaptureFixture[str]


def edges_of(arguments: list[str], capsys: Output) -> list[list[int]]:
    assert main([*arguments, "--json"]) == 0
    edges: list[list[int]] = json.loads(capsys.readouterr().out)["edges"]
    return edges


def test_json_is_the_tree_of_figure_3(capsys: Output) -> None:
    assert main([*FIGURE_3, "--json"]) == 0

    assert capsys.readouterr().out == (
        '{"source": 2, "edges": [[2,3],[2,0],[2,7],[7,5]], "depth": 2, "receivers": 4}\n'
    )


def test_the_drawing_shows_the_tree_its_receivers_and_its_depth(capsys: Output) -> None:
    assert main(FIGURE_3) == 0

    assert capsys.readouterr().out == ("2\n├── 3\n├── 0\n└── 7\n    └── 5\n\n4 receivers, depth 2\n")


def test_the_drawing_keeps_the_line_of_an_outer_branch_beside_inner_ones(capsys: Output) -> None:
    assert main(["tree", "--nodes", "7", "--source", "2"]) == 0

    assert capsys.readouterr().out.splitlines()[:6] == [
        "2",
        "├── 3",
        "├── 0",
        "│   └── 1",
        "└── 6",
        "    └── 4",
    ]


def test_the_drawing_is_plain_ascii_where_lines_cannot_be_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))

    assert main(FIGURE_3) == 0

    assert written.getvalue() == b"2\n|-- 3\n|-- 0\n`-- 7\n    `-- 5\n\n4 receivers, depth 2\n"


def test_the_example_in_the_help_is_what_the_command_prints(capsys: Output) -> None:
    main(FIGURE_3)
    main([*FIGURE_3, "--json"])
    printed = capsys.readouterr().out.splitlines()

    shown = [line.removeprefix("  ") for line in tree.EXAMPLE.splitlines()]
    assert set(printed) <= set(shown)


def test_a_single_node_has_a_tree_without_receivers(capsys: Output) -> None:
    assert main(["tree", "--nodes", "1", "--source", "0"]) == 0

    assert capsys.readouterr().out == "0\n\n0 receivers, depth 0\n"


def test_one_receiver_is_not_written_in_the_plural(capsys: Output) -> None:
    assert main(["tree", "--nodes", "2", "--source", "0"]) == 0

    assert capsys.readouterr().out.endswith("1 receiver, depth 1\n")


def test_without_subscribers_all_nodes_subscribe(capsys: Output) -> None:
    everyone = edges_of(["tree", "--nodes", "5", "--source", "0"], capsys)

    assert everyone == edges_of(["tree", "--nodes", "5", "--source", "0", "--subscribers", "all"], capsys)
    assert sorted(child for _, child in everyone) == [1, 2, 3, 4]


def test_subscribers_may_be_ranges_spaced_and_repeated(capsys: Output) -> None:
    edges = edges_of(["tree", "--nodes", "8", "--source", "0", "--subscribers", "0-3, 7,7, 2"], capsys)

    assert sorted(child for _, child in edges) == [1, 2, 3, 7]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--nodes", "0", "--source", "0"], "--nodes: 0 is outside 1 to 1048576"),
        (["--nodes", "1048577", "--source", "0"], "--nodes: 1048577 is outside 1 to 1048576"),
        (["--nodes", "eight", "--source", "0"], "--nodes: 'eight' is not a whole number"),
        (["--nodes", "", "--source", "0"], "--nodes: '' is not a whole number"),
        (["--nodes", "9" * 5000, "--source", "0"], "--nodes: '" + "9" * 40 + "...' is not a whole number"),
        (["--nodes", "8", "--source", "-1"], "--source '-1' is not a number from 0 to 7"),
        (["--nodes", "8", "--source", "8"], "--source '8' is not a number from 0 to 7"),
        (["--nodes", "8", "--source", "a\nb"], "--source 'a\\nb' is not a number from 0 to 7"),
        (["--nodes", "8"], "--source"),
        (["--nodes", "8", "--source", "0", "--depth", "3"], "'--depth' is no argument"),
        (["--nodes", "8", "--source", "2", "--subscribers", "0,3"], "--source 2 is not a subscriber"),
        (["--nodes", "8", "--source", "2", "--subscribers", "2,8"], "--subscribers: 8 is outside 0 to 7"),
        (
            ["--nodes", "8", "--source", "2", "--subscribers", "0-99999999999"],
            "0-99999999999 is outside 0 to 7",
        ),
        (["--nodes", "8", "--source", "2", "--subscribers", "5-2"], "range 5-2 runs backwards"),
        (["--nodes", "8", "--source", "2", "--subscribers", "2,x"], "--subscribers: 'x' is neither"),
        (["--nodes", "8", "--source", "2", "--subscribers", "-1"], "--subscribers: '-1' is neither"),
        (["--nodes", "8", "--source", "2", "--subscribers", "1-2-3"], "--subscribers: '1-2-3' is neither"),
        (["--nodes", "8", "--source", "2", "--subscribers", "2,²"], "--subscribers: '²' is neither"),
        (["--nodes", "8", "--source", "2", "--subscribers", ""], "--subscribers has an empty identifier"),
        (["--nodes", "8", "--source", "2", "--subscribers", "2,,3"], "--subscribers has an empty identifier"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(arguments: list[str], complaint: str, capsys: Output) -> None:
    assert main(["tree", *arguments]) == 2

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("vcubeps tree: ")
    assert complaint in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["grow"], ["--grow"]])
def test_a_missing_or_unknown_command_is_refused_in_one_sentence(
    arguments: list[str], capsys: Output
) -> None:
    assert main(arguments) == 2

    captured = capsys.readouterr()
    assert captured.err.startswith("vcubeps: ")
    assert captured.err.endswith("see vcubeps --help\n")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--help"], ["tree", "--help"]])
def test_help_teaches_with_an_example(arguments: list[str], capsys: Output) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)

    assert stop.value.code == 0
    assert "vcubeps tree --nodes 8 --source 2 --subscribers 0,2,3,5,7\n" in capsys.readouterr().out


def test_version_is_that_of_the_installed_package(capsys: Output) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--version"])

    assert stop.value.code == 0
    assert capsys.readouterr().out == f"vcubeps {metadata.version('vcubeps')}\n"


def test_an_interrupt_ends_the_command_quietly(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(tree, "run", interrupted)

    assert main(FIGURE_3) == 130
    assert capsys.readouterr().err == ""


def test_a_reader_that_goes_away_ends_the_command_quietly() -> None:
    command = [sys.executable, "-c", RUN_MAIN, "tree", "--nodes", "65536", "--source", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()

        complaints = process.stderr.read()

    assert process.returncode == 141
    assert complaints == b""
