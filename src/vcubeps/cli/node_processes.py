"""Commands that start node processes of their own: how they end."""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

from vcubeps.cli import interrupts
from vcubeps.cli.common import CommandError

_Result = TypeVar("_Result")


def run(main: Coroutine[Any, Any, _Result]) -> _Result:
    """The result of `main`, which uses a `LocalCluster`; what fails in a process is shown."""
    from vcubeps.net.cluster import WorkerFailed  # noqa: PLC0415 - for the commands that need it

    try:
        return interrupts.run(main, end_within_s=None)
    except WorkerFailed as failure:
        print(failure, file=sys.stderr)
        raise CommandError("a node process failed: see above") from None
