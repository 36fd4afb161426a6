"""`vcubeps cluster declare-dead` and `voters`: what it costs is said first, and nothing is done without --yes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateways import serving
from vcubeps.cli import main
from vcubeps.cli.cluster_repair import with_voters
from vcubeps.net import config
from vcubeps.net.gateway.client import GatewayClient, GatewayError

Output = pytest.CaptureFixture[str]

FILE = """\
cluster = "chat"  # ours

[[nodes]]
id = 0
address = "127.0.0.1:7001"

[[nodes]]
id = 1
address = "127.0.0.1:7002"

[[nodes]]
id = 2
address = "127.0.0.1:7003"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "cluster.toml").write_text(FILE)
    return tmp_path / "cluster.toml"


def voters(file: Path, *arguments: str) -> int:
    return main(["cluster", "voters", *arguments, "--config", str(file)])


def test_voters_are_written_and_all_else_stays(file: Path, capsys: Output) -> None:
    assert voters(file, "0,2", "--yes") == 0

    assert config.load(file).voters == (0, 2)
    assert file.read_text() == FILE.replace("# ours\n", "# ours\nvoters = [0, 2]\n")
    assert "the voters are 0, 2. Do the same with the file of every node" in capsys.readouterr().out
    assert voters(file, "all", "--yes") == 0
    assert file.read_text() == FILE


def test_nothing_is_written_before_the_operator_has_read_what_it_may_cost(file: Path, capsys: Output) -> None:
    assert voters(file, "0") == 2

    assert "two clusters go on apart: add --yes" in capsys.readouterr().err
    assert file.read_text() == FILE


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        ("7", "'7' is no node of the cluster: choose among 0, 1, 2"),
        ("0,x", "'x' is no node"),
        ("1,1", "different"),
    ],
)
def test_voters_that_make_no_sense_are_refused(file: Path, capsys: Output, ids: str, reason: str) -> None:
    assert voters(file, ids, "--yes") == 2

    assert reason in capsys.readouterr().err
    assert file.read_text() == FILE


def test_where_nobody_votes_there_are_no_voters_to_change(file: Path, capsys: Output) -> None:
    file.write_text('partition = "continue"\n' + FILE)

    assert voters(file, "all", "--yes") == 2
    assert 'has partition = "continue", in which nobody votes' in capsys.readouterr().err


def test_an_array_over_several_lines_is_replaced_as_a_whole() -> None:
    text = 'cluster = "a"\nvoters = [\n  0,\n  1,\n]\n[[nodes]]\nid = 0\n'

    assert with_voters(text, [2]) == 'cluster = "a"\nvoters = [2]\n[[nodes]]\nid = 0\n'


def test_a_gateway_declares_another_node_dead_and_no_stranger() -> None:
    async def run() -> tuple[int, list[str]]:
        async with serving(2) as door, GatewayClient(f"127.0.0.1:{door.gateway.port}") as client:
            room = await door.cluster[0].subscribe("room")
            assert (await client.declare_dead(1)).node == 1
            while door.cluster[1].incarnation == 0:
                await asyncio.sleep(0.01)
            refused = []
            for node in (0, 9):
                try:
                    await client.declare_dead(node)
                except GatewayError as error:
                    refused.append(str(error))
            await room.close()
            return door.cluster[1].incarnation, refused

    incarnation, refused = asyncio.run(run())

    assert incarnation == 1
    assert refused == [
        f"node {node} cannot be declared dead here: give another node of the cluster file" for node in (0, 9)
    ]
