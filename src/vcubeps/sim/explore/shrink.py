"""From a failing schedule to a small one that fails in the same way.

First simpler options, then fewer operations (delta debugging), then fewer nodes, until nothing
can be taken away. "In the same way": the same checker finds something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from vcubeps.sim.explore.explore import Outcome, run_operations
from vcubeps.sim.explore.operations import Operation
from vcubeps.sim.explore.options import Options

RUNS_MAX = 3000
"""Schedules that one shrinking may run; reached only by worlds that fail in long chains."""


def shrink(
    outcome: Outcome,
    checker: str,
    algorithm: str = "amended",
    runs_max: int = RUNS_MAX,
) -> Outcome:
    """The smallest outcome found in which `checker` still finds something."""
    return _Shrink(outcome, checker, algorithm, runs_max).run()


_Part = TypeVar("_Part")


def leave_out(
    best: Callable[[], tuple[_Part, ...]], still_fails: Callable[[tuple[_Part, ...]], bool]
) -> bool:
    """Delta debugging: leave out ever smaller parts of `best`, which is less whenever the rest `still_fails`. Whether
    anything could be left out."""
    shrunk = False
    part = max(1, len(best()) // 2)
    while True:
        position = 0
        while position < len(best()):
            if still_fails(best()[:position] + best()[position + part :]):
                shrunk = True
            else:
                position += part
        if part == 1:
            return shrunk
        part //= 2


class _OutOfRuns(Exception):
    """The budget is used up; what was found so far stands."""


class _Shrink:
    def __init__(self, outcome: Outcome, checker: str, algorithm: str, runs_max: int) -> None:
        self.best = outcome
        self._checker = checker
        self._algorithm = algorithm
        self._runs_left = runs_max

    def run(self) -> Outcome:
        try:
            while self._simplify_options() | self._drop_operations() | self._drop_nodes():
                pass
        except _OutOfRuns:
            pass
        return self.best

    def _try(self, options: Options, operations: Sequence[Operation]) -> bool:
        if not self._runs_left:
            raise _OutOfRuns
        self._runs_left -= 1
        outcome = run_operations(self.best.seed, options, operations, self._algorithm)
        if self._checker not in outcome.violated:
            return False
        self.best = outcome
        return True

    def _simplify_options(self) -> bool:
        simpler: tuple[Callable[[Options], Options], ...] = (
            lambda options: replace(options, reactive=0.0),
            lambda options: replace(options, slow_of_256=0),
            lambda options: replace(options, fifo=True),
            lambda options: replace(options, resubscribe=False),
            lambda options: replace(options, permuted=False),
            lambda options: replace(options, greetings=False),
            lambda options: replace(options, held=False),
            lambda options: replace(options, digests=False),
        )
        shrunk = False
        for simplify in simpler:
            options = simplify(self.best.options)
            if options != self.best.options:
                shrunk |= self._try(options, self.best.operations)
        return shrunk

    def _drop_operations(self) -> bool:
        shrunk = leave_out(lambda: self.best.operations, lambda rest: self._try(self.best.options, rest))
        return self._split_bursts() or shrunk

    def _split_bursts(self) -> bool:
        shrunk = False
        for position, operation in enumerate(self.best.operations):
            if operation.kind != "publish":
                continue
            for count in range(1, operation.other):
                operations = list(self.best.operations)
                operations[position] = operation._replace(other=count)
                if self._try(self.best.options, operations):
                    shrunk = True
                    break
        return shrunk

    def _drop_nodes(self) -> bool:
        shrunk = False
        for node in self._idle_nodes():
            options = self.best.options
            nodes = tuple(other for other in options.nodes if other != node)
            founders = tuple(other for other in options.founders if other != node)
            voting = options.voting and options.voting.without(node)
            shrunken = replace(options, nodes=nodes, founders=founders, voting=voting)
            if len(nodes) > 1 and founders and self._try(shrunken, self.best.operations):
                shrunk = True
        return shrunk

    def _idle_nodes(self) -> Iterator[int]:
        """Nodes that no operation names; they may still relay."""
        named = {operation.node for operation in self.best.operations}
        named |= {operation.other for operation in self.best.operations if operation.kind == "suspect"}
        return (node for node in reversed(self.best.options.nodes) if node not in named)
