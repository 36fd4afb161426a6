"""`vcubeps explore --world nodes`."""

from __future__ import annotations

import json

import pytest

from vcubeps.cli import main


def test_whole_nodes_are_explored_and_every_promise_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                "explore",
                "--world",
                "nodes",
                "--schedules",
                "3",
                "--seed",
                "5",
                "--nodes",
                "2-4",
                "--jobs",
                "1",
            ]
        )
        == 0
    )

    told = capsys.readouterr().out
    assert "0 of 3 schedules broke a promise" in told
    assert "refused: no node refuses another one with the same file" in told


def test_a_schedule_of_whole_nodes_is_replayed_as_text_and_as_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = [
        "explore",
        "--world",
        "nodes",
        "--nodes",
        "3",
        "--replay",
        "4",
        "--faults",
        "kill",
        "--always",
        "kill",
    ]

    assert main(arguments) == 0
    assert "kill" in capsys.readouterr().out
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["nodes"] == [0, 1, 2]


def test_all_faults_are_more_than_the_usual_ones(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["explore", "--world", "nodes", "--nodes", "4", "--json", "--replay", "3"]
    kinds = []
    for faults in ([], ["--faults", "all"]):
        assert main([*arguments, *faults]) == 0
        operations = json.loads(capsys.readouterr().out)["operations"]
        kinds.append({operation["kind"] for operation in operations})

    assert "declare-dead" not in kinds[0]
    assert kinds[1] - kinds[0] == {"declare-dead"}


def test_a_scenario_tells_what_happens_second_by_second(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "--world", "nodes", "--scenario", "kill"]) == 0

    told = capsys.readouterr().out
    assert "one node is killed" in told
    assert "take incarnation 0 of 5 for crashed" in told


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--world", "nodes", "--faults", "crash"], "'crash' is no fault of whole nodes: choose among kill"),
        (["--world", "nodes", "--nodes", ""], "is neither a number nor a range"),
        (["--world", "nodes", "--only", "joins"], "--only is for peers"),
        (["--world", "nodes", "--algorithm", "published"], "--algorithm is for peers"),
        (["--world", "nodes", "--scenario", "flood"], "--scenario 'flood' is unknown: choose among kill"),
        (["--scenario", "kill"], "--scenario is one of whole nodes: add --world nodes"),
        (["--world", "nodes", "--no-shrink"], "--no-shrink only makes sense for one schedule"),
        (["--world", "nodes", "--replay", "1", "--seed", "2"], "which --seed says nothing about"),
    ],
)
def test_what_makes_no_sense_for_whole_nodes_is_refused(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explore", *arguments]) == 2

    assert reason in capsys.readouterr().err
