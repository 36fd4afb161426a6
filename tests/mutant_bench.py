"""Judges many mutants in one process that has everything loaded: a plugin of pytest, started by `mutant_judge`.

It runs the collected tests once, on the package as it is, and notes how long each takes and which functions of the
protocol it calls. Then it forks for every mutant: the child swaps the code of one function, runs the tests that call
it, quickest first, and, if they pass, random schedules. Most mutants are killed within a tenth of a second that way; a
process that starts anew and collects the tests needs seconds.

What it says goes to the file descriptor `MUTANT_BENCH_SAYS`, as JSON lines; what it is to judge comes from the file
`MUTANT_BENCH_ORDERS`.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from mutant_schedules import explore
from mutant_sources import Mutant

MEMORY_MAX = 2 << 30
"""Bytes; a mutant that loops for ever must not take the machine with it."""

CPU_LEAST_S = 2.0
CPU_FACTOR = 10.0
"""A test, or a schedule, may use this many seconds of CPU, and so many times what it takes without a mutation."""


_PACKAGE = "vcubeps.protocol"


@dataclass(frozen=True, slots=True)
class Observed:
    """One test on the package as it is."""

    item: pytest.Item
    seconds: float
    functions: frozenset[tuple[str, str]]
    """Module and qualified name of each function of the protocol that it calls."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    says = os.fdopen(int(os.environ["MUTANT_BENCH_SAYS"]), "w", buffering=1)
    orders = json.loads(Path(os.environ["MUTANT_BENCH_ORDERS"]).read_text())

    def say(**what: Any) -> None:
        says.write(json.dumps(what, ensure_ascii=False) + "\n")

    observed = []
    for item in session.items:
        seen = _observe(item)
        if seen is None:
            say(broken=f"FAILED {item.nodeid}")
            return True
        observed.append(seen)
    observed.sort(key=lambda each: each.seconds)
    schedules = orders["schedules"]
    if (complaint := explore(schedules, _limit_cpu)) is not None:
        say(broken=complaint)
        return True
    _limit_cpu(0.0)
    todo = iter([Mutant(**order) for order in orders["mutants"]])
    for mutant, by, seconds in _judge_all(todo, observed, schedules, orders["processes"]):
        say(name=mutant.name, by=by, seconds=seconds)
    return True


def _limit_cpu(seconds: float) -> None:
    """Unless this is called again before, the process ends by a signal; 0: no limit."""
    signal.setitimer(signal.ITIMER_PROF, seconds)


# -- the package as it is ------------------------------------------------------------------------


def _observe(item: pytest.Item) -> Observed | None:
    """None if it fails."""
    called: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.add(frame.f_code)

    began = time.process_time()
    sys.setprofile(note)
    try:
        passed = _passes(item)
    finally:
        sys.setprofile(None)
    package = os.path.dirname(importlib.import_module(_PACKAGE).__file__ or "")
    functions = frozenset(
        (os.path.basename(code.co_filename), _outermost(code.co_qualname))
        for code in called
        if os.path.dirname(code.co_filename) == package
    )
    return Observed(item, time.process_time() - began, functions) if passed else None


def _passes(item: pytest.Item) -> bool:
    reports = runtestprotocol(item, nextitem=None, log=False)
    return not any(report.failed for report in reports)


def _outermost(qualified_name: str) -> str:
    """Functions inside a function are part of its code."""
    return qualified_name.partition(".<locals>")[0]


# -- mutants -------------------------------------------------------------------------------------


def _judge_all(
    todo: Iterator[Mutant], observed: list[Observed], schedules: int, processes: int
) -> Iterator[tuple[Mutant, str | None, float]]:
    """Each mutant with what noticed it, and how long that took."""
    running: dict[int, tuple[Mutant, int, float]] = {}
    while True:
        while len(running) < processes and (mutant := next(todo, None)) is not None:
            pid, reader = _fork(lambda mutant=mutant: _judge(mutant, observed, schedules))  # type: ignore[misc]
            running[pid] = mutant, reader, time.monotonic()
        if not running:
            return
        pid, status = os.wait()
        mutant, reader, began = running.pop(pid)
        with os.fdopen(reader) as said:
            by = said.read() or None
        if os.WIFSIGNALED(status):
            by = "timeout" if os.WTERMSIG(status) == signal.SIGPROF else f"signal {os.WTERMSIG(status)}"
        yield mutant, by, round(time.monotonic() - began, 1)


def _fork(work: Callable[[], str | None]) -> tuple[int, int]:
    """A child that does `work` and writes what comes of it to the descriptor returned."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    by: str | None = "the judge itself failed"
    try:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
        by = work()
    except BaseException as error:
        by = f"{type(error).__name__} outside of any test: {error}"
    finally:
        os.write(writer, (by or "").encode()[:4096])
        os._exit(0)


def _judge(mutant: Mutant, observed: list[Observed], schedules: int) -> str | None:
    """What notices this mutant, first of all; None if nothing does."""
    function = function_of(mutant)
    assert function is not None
    function.__code__ = changed_code(mutant, function)
    key = mutant.module, _outermost(function.__qualname__)
    for each in observed:
        if key in each.functions:
            _limit_cpu(CPU_LEAST_S + CPU_FACTOR * each.seconds)
            if not _passes(each.item):
                return f"FAILED {each.item.nodeid}"
    return explore(schedules, _limit_cpu)


def can_swap(mutant: Mutant) -> bool:
    """Whether the mutant differs in the code of a function, and not in what is evaluated when the module is loaded."""
    function = function_of(mutant)
    return function is not None and _meaning(changed_code(mutant, function)) != _meaning(function.__code__)


def function_of(mutant: Mutant) -> FunctionType | None:
    """The function of the loaded package, at the top of its module or of a class there, that the change lies in."""
    owner: Any = importlib.import_module(f"{_PACKAGE}.{mutant.module.removesuffix('.py')}")
    for name in mutant.function.split(".") if mutant.function else ():
        found = vars(owner).get(name)
        found = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
        if isinstance(found, FunctionType):
            return found
        if not isinstance(found, type):
            return None
        owner = found
    return None


def changed_code(mutant: Mutant, function: FunctionType) -> CodeType:
    wanted = function.__code__
    module = compile(mutant.source, wanted.co_filename, "exec", dont_inherit=True)
    return next(
        code
        for code in _codes(module)
        if (code.co_qualname, code.co_firstlineno) == (wanted.co_qualname, wanted.co_firstlineno)
    )


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)


def _meaning(code: CodeType) -> tuple[object, ...]:
    """All but where its lines are."""
    consts = tuple(
        _meaning(each) if isinstance(each, CodeType) else (type(each), each) for each in code.co_consts
    )
    return code.co_code, code.co_names, code.co_varnames, consts
