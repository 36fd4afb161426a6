"""Who notices a mutant: the unit tests of the protocol, then random schedules; the first that fails.

All that matters of the checkout is copied once, so that a long run judges one state of the code however much of it is
edited meanwhile. Nearly all mutants are judged by `mutant_bench`, in forks of one process. The few that change what is
evaluated when a module is loaded take turns in the copy, with processes of their own.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mutant_bench import MEMORY_MAX, can_swap
from mutant_sources import Mutant, mutants

ROOT = Path(__file__).resolve().parent.parent

PAPER_TESTS = ("flaws_of_the_published_algorithm", "algorithms_1_and_2", "section3_proof")
"""Of tests/paper, those about the protocol."""

TIMEOUT_S = 600.0
"""Of a process that judges one mutant."""


@dataclass(frozen=True, slots=True)
class Verdict:
    name: str
    digest: str
    """Of the whole mutated package: the verdict is about that."""
    verdict: str
    """killed, survived or equivalent."""
    by: str
    """What noticed, or why nothing can."""
    schedules: int
    seconds: float


def unit_tests() -> list[str]:
    """Without golden transcripts: they notice differences that break no promise."""
    found = [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("tests/protocol/test_*.py"))]
    return [*found, *(f"tests/paper/test_{name}.py" for name in PAPER_TESTS)]


class Judge:
    """Judges mutants of the protocol as it was when the judge was made; `folder` is for the copy."""

    def __init__(self, folder: Path, schedules: int, tests: Sequence[str] | None = None) -> None:
        self._root = folder
        self._schedules = schedules
        self._pytest = ["-m", "pytest", "-x", "--tb=no", "-rfE", "--hypothesis-profile=unshrunk",
                        "-p", "no:cacheprovider", "-p", "no:xdist",
                        *(unit_tests() if tests is None else tests)]  # fmt: skip
        for part in ("src/vcubeps", "tests"):
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        self._package = folder / "src/vcubeps/protocol"
        self._sources = {path.name: path.read_text() for path in sorted(self._package.glob("*.py"))}

    def mutants(self) -> list[Mutant]:
        return [mutant for module, source in self._sources.items() for mutant in mutants(module, source)]

    def digest(self, mutant: Mutant) -> str:
        package = {**self._sources, mutant.module: mutant.source}
        return hashlib.sha256(repr(package).encode()).hexdigest()[:16]

    def judge(self, todo: Sequence[Mutant], processes: int = 1) -> Iterator[Verdict]:
        """The verdicts, in the order in which they are found. Ends the program if the package fails as it is."""
        named = {mutant.name: mutant for mutant in todo}
        swapped = [mutant for mutant in todo if can_swap(mutant)]
        for said in self._bench(swapped, processes):
            if "broken" in said:
                raise SystemExit(f"the package fails as it is, without a mutation: {said['broken']}")
            yield self._verdict(named.pop(said["name"]), said["by"], said["seconds"])
        for mutant in named.values():
            began = time.monotonic()
            with self._in_place(mutant):
                by = self._run(self._pytest) or self._run(
                    ["-c", f"from mutant_schedules import main; main({self._schedules})"]
                )
            yield self._verdict(mutant, by, round(time.monotonic() - began, 1))

    def _verdict(self, mutant: Mutant, by: str | None, seconds: float) -> Verdict:
        verdict = "survived" if by is None else "killed"
        return Verdict(mutant.name, self.digest(mutant), verdict, by or "", self._schedules, seconds)

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join(str(self._root / part) for part in ("src", "tests"))
        return {**os.environ, "PYTHONPATH": path}

    def _bench(self, todo: Sequence[Mutant], processes: int) -> Iterator[dict[str, str | float | None]]:
        """What the process that judges in forks says, line by line."""
        orders = self._root / "orders.json"
        orders.write_text(
            json.dumps(
                {
                    "schedules": self._schedules,
                    "processes": processes,
                    "mutants": [asdict(mutant) for mutant in todo],
                }
            )
        )
        reader, writer = os.pipe()
        bench = subprocess.Popen(
            [sys.executable, *self._pytest, "-p", "mutant_bench"],
            cwd=self._root,
            env={
                **self._environment(),
                "MUTANT_BENCH_SAYS": str(writer),
                "MUTANT_BENCH_ORDERS": str(orders),
            },
            pass_fds=[writer],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        os.close(writer)
        count = 0
        with bench, os.fdopen(reader) as said:
            for line in said:
                count += 1
                yield json.loads(line)
            assert bench.stdout is not None
            rest = bench.stdout.read()
        if count < len(todo):
            yield {"broken": rest.strip()[-300:]}

    @contextlib.contextmanager
    def _in_place(self, mutant: Mutant) -> Iterator[None]:
        path = self._package / mutant.module
        path.write_text(mutant.source)
        # Bytecode is told by size and second of its source, which is not enough here.
        shutil.rmtree(self._package / "__pycache__", ignore_errors=True)
        try:
            yield
        finally:
            path.write_text(self._sources[mutant.module])

    def _run(self, arguments: Sequence[str]) -> str | None:
        """What is wrong with the package as it lies there; None if nothing was found."""
        try:
            ended = subprocess.run(
                [sys.executable, *arguments],
                cwd=self._root,
                env={**self._environment(), "PYTHONDONTWRITEBYTECODE": "1"},
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX)),
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "timeout"
        if ended.returncode == 0:
            return None
        lines = [*ended.stdout.splitlines(), *ended.stderr.splitlines()]
        said = [line for line in lines if line.startswith(("FAILED", "ERROR", "BROKEN"))]
        return said[0].split(" - ")[0] if said else ended.stderr.strip()[-100:]
