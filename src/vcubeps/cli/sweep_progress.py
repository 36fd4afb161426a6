"""How far a sweep is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vcubeps.spark.sweep import Progress

_LINE_SECONDS = 30.0
"""Between lines where there is no terminal."""


@contextmanager
def sweep_progress() -> Iterator[Callable[[Progress], None]]:
    """Yields what is to be told of every progress."""
    if not sys.stderr.isatty():
        yield _Lines().tell
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, TextColumn  # noqa: PLC0415
    from rich.progress import Progress as Bar  # noqa: PLC0415

    columns = (TextColumn("simulating"), BarColumn(), TextColumn("{task.description}"))
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda progress: bar.update(task, completed=progress.share, description=in_words(progress))


class _Lines:
    def __init__(self) -> None:
        self._next = _LINE_SECONDS

    def tell(self, progress: Progress) -> None:
        if progress.seconds >= self._next:
            self._next = progress.seconds + _LINE_SECONDS
            print(in_words(progress), file=sys.stderr, flush=True)


def in_words(progress: Progress) -> str:
    """
    >>> from vcubeps.spark.sweep import Progress
    >>> in_words(Progress(runs=120, all_runs=400, events=9_000_000, seconds=3.0, share=0.25))
    '120 of 400 runs, 3.0 million events per second, 9 s left'
    """
    if not progress.runs:
        return f"0 of {progress.all_runs:,} runs: loading the kernels, which are compiled at their first use"
    rate = progress.events / progress.seconds / 1e6 if progress.seconds else 0.0
    left = f", {_duration(progress.seconds_left)} left" if progress.seconds_left is not None else ""
    return f"{progress.runs:,} of {progress.all_runs:,} runs, {rate:.1f} million events per second{left}"


def _duration(seconds: float) -> str:
    """
    >>> _duration(61), _duration(7300)
    ('1 min 1 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
