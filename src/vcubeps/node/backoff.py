"""How soon a node may start again: nothing, neither a mistake nor a forger, may make it burn through incarnations."""

from __future__ import annotations

_FREE = 2
"""So many restarts within `_WITHIN_S` are made at once; each further one waits twice as long as the one before."""
_WITHIN_S = 60.0
_PAUSE_S, _PAUSE_MAX_S = 1.0, 30.0


class Backoff:
    """The restarts of one node.

    >>> backoff = Backoff()
    >>> [backoff.restarted(now_s) for now_s in (0.0, 1.0, 2.0, 3.0, 4.0, 100.0)]
    [0.0, 0.0, 1.0, 2.0, 4.0, 0.0]
    """

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: list[float] = []
        """Of the restarts within `_WITHIN_S`."""

    @property
    def recent(self) -> int:
        """Restarts of late."""
        return len(self._times)

    def restarted(self, now_s: float) -> float:
        """It starts again now: for how long it has to wait first."""
        self._times = [at_s for at_s in self._times if now_s - at_s < _WITHIN_S]
        beyond = len(self._times) - _FREE
        self._times.append(now_s)
        return min(_PAUSE_S * 2.0**beyond, _PAUSE_MAX_S) if beyond >= 0 else 0.0
