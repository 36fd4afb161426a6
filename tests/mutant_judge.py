"""Who notices a mutant: a ladder of processes, the cheapest first, that ends at the first one that fails.

All that matters of the checkout is copied once. Mutants take turns in the copy, so that a long run judges one state
of the code however much of it is edited meanwhile.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mutant_sources import Mutant, mutants

ROOT = Path(__file__).resolve().parent.parent

BEST_TESTS = ("directed_traces", "recovery", "topics", "spread_of_crashes", "usage", "crashes", "violations")
"""Of tests/protocol, in the order of what they caught per second in a sample; the others come after them."""

PAPER_TESTS = ("flaws_of_the_published_algorithm", "algorithms_1_and_2", "section3_proof")
"""Of tests/paper, those about the protocol."""

CAMPAIGN_SEED = 3

MEMORY_MAX = 2 << 30
"""Bytes; a mutant that loops for ever must not take the machine with it."""

FIRST_TIMEOUT = 600.0
"""Seconds that a rung may take with the package as it is."""


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
    found = {path.name: str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("tests/protocol/test_*.py"))}
    best = [found.pop(f"test_{name}.py") for name in BEST_TESTS if f"test_{name}.py" in found]
    return [*best, *found.values(), *(f"tests/paper/test_{name}.py" for name in PAPER_TESTS)]


class Judge:
    """Judges mutants of the protocol as it was when the judge was made; `folder` is for the copy."""

    def __init__(self, folder: Path, schedules: int, tests: Sequence[str] | None = None) -> None:
        self._root = folder
        self._schedules = schedules
        self._ladder = {
            "unit tests": ["-m", "pytest", "-x", "--tb=no", "-rfE", "--hypothesis-profile=unshrunk",
                           "-p", "no:cacheprovider", "-p", "no:xdist",
                           *(unit_tests() if tests is None else tests)],
            "schedules": ["-c", f"from mutant_judge import explore; explore({schedules})"],
        }  # fmt: skip
        self._timeouts = dict.fromkeys(self._ladder, FIRST_TIMEOUT)
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

    def calibrate(self) -> None:
        """Measure how long each rung takes if nothing is wrong; and nothing must be wrong."""
        for rung in self._ladder:
            began = time.monotonic()
            complaint = self._climb(rung, writes_bytecode=True)
            if complaint is not None:
                raise SystemExit(f"the package fails as it is, without a mutation: {complaint}")
            self._timeouts[rung] = 10 + 5 * (time.monotonic() - began)

    def judge(self, mutant: Mutant) -> Verdict:
        began = time.monotonic()
        with self._in_place(mutant):
            complaints = (self._climb(rung) for rung in self._ladder)
            by = next((complaint for complaint in complaints if complaint is not None), None)
        seconds = round(time.monotonic() - began, 1)
        verdict = "survived" if by is None else "killed"
        return Verdict(mutant.name, self.digest(mutant), verdict, by or "", self._schedules, seconds)

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

    def _climb(self, rung: str, writes_bytecode: bool = False) -> str | None:
        """What is wrong with the package as it lies there; None if nothing was found."""
        path = os.pathsep.join(str(self._root / part) for part in ("src", "tests"))
        flags = {} if writes_bytecode else {"PYTHONDONTWRITEBYTECODE": "1"}
        try:
            ended = subprocess.run(
                [sys.executable, *self._ladder[rung]],
                cwd=self._root,
                env={**os.environ, "PYTHONPATH": path, **flags},
                capture_output=True,
                text=True,
                timeout=self._timeouts[rung],
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX)),
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"{rung}: timeout"
        if ended.returncode == 0:
            return None
        said = [line for line in ended.stdout.splitlines() if line.startswith(("FAILED", "ERROR", "BROKEN"))]
        return said[0].split(" - ")[0] if said else f"{rung}: {ended.stderr.strip()[-100:]}"


def explore(schedules: int) -> None:
    """The rung of random schedules, in a process of its own: ends it when a promise is broken."""
    from vcubeps.sim.explore import Allowed, run_schedule, schedule_seed  # noqa: PLC0415 (the mutant's)
    from vcubeps.sim.explore.options import FAULTS  # noqa: PLC0415

    few = schedules // 4  # checking invariants after every input takes long
    for faults in (frozenset(), frozenset(FAULTS)):
        for algorithm, count in (("amended", schedules), ("checked", few)):
            for index in range(count):
                allowed = Allowed(nodes_max=16, faults=faults)
                violated = run_schedule(schedule_seed(CAMPAIGN_SEED, index), allowed, algorithm).violated
                if violated:
                    kind = "all faults" if faults else "crash-free"
                    print(f"BROKEN {', '.join(violated)} in schedule {index}, {kind}, {algorithm}")
                    sys.exit(1)
