"""How event loops are compiled."""

from __future__ import annotations

from typing import Any

EVENT_LOOP: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}
"""Options of `numba.njit`. Without its runtime (`_nrt`) numba counts no references to the arrays; where
functions are inlined into a loop it would count them, atomically, for every event, which takes more
time than the events do. Such a function cannot make arrays: they all come from outside."""
