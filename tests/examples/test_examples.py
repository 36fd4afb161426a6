"""The programs in examples/ do what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import IO

from ports import free_ports_in_a_row

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_no_answer_shows_before_its_question():
    done = example("questions.py", "--nodes", "4", "--questions", "10")

    assert done.stdout.splitlines()[-1] == "4 nodes saw 480 answers, 0 of them before the question"
    assert (done.returncode, done.stderr) == (0, "")


def test_every_copy_of_the_game_sees_the_same_history():
    done = example("game.py", "--players", "3", "--ticks", "20", "--rate", "50")

    assert done.stdout.splitlines()[-1] == "all copies of the world are the same"
    assert (done.returncode, done.stderr) == (0, "")


class Person:
    """Somebody in the chat, at a terminal of their own."""

    def __init__(self, config: Path, node: int, name: str) -> None:
        command = [sys.executable, str(EXAMPLES / "chat.py"), "--config", str(config), "--node", str(node)]
        self.process = subprocess.Popen(
            [*command, "--name", name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.stdin: IO[str] = self.process.stdin  # type: ignore[assignment]
        self.stdout: IO[str] = self.process.stdout  # type: ignore[assignment]

    def says(self, line: str) -> None:
        self.stdin.write(line + "\n")

    def reads(self, wanted: str) -> list[str]:
        """The lines up to the one that contains `wanted`."""
        lines = []
        for line in self.stdout:
            lines.append(line.rstrip())
            if wanted in line:
                return lines
        raise AssertionError(f"{wanted!r} never came; there was {lines}")

    def leaves(self) -> int:
        self.stdin.close()
        return self.process.wait(20)


def test_people_chat_each_in_a_process_of_their_own(tmp_path):
    config = tmp_path / "chat.toml"
    made = example(
        "chat.py", "--make", str(config), "--people", "3", "--base-port", str(free_ports_in_a_row(3))
    )
    assert made.returncode == 0, made.stderr
    people = [Person(config, node, name) for node, name in enumerate(("ada", "bob", "eve"))]
    try:
        ada, bob, eve = people
        for person in people:
            person.reads("* you are in 'lobby'")
        for other in (bob, eve):
            other.says("hello")
        ada.reads("hello")
        ada.reads("hello")
        ada.says("who wants tea?")
        bob.reads("ada: who wants tea?")
        bob.says("me")

        seen = eve.reads("bob: me")

        assert "ada: who wants tea?" in seen  # the question, before the answer
        assert [person.leaves() for person in people] == [0, 0, 0]
    finally:
        for person in people:
            person.process.kill()
            person.process.wait(20)
            person.stdout.close()


def test_a_chat_without_its_file_says_what_is_missing(tmp_path):
    done = example("chat.py", "--config", str(tmp_path / "none.toml"))

    assert done.returncode == 1
    assert done.stderr.startswith("chat: ")
    assert "none.toml" in done.stderr
