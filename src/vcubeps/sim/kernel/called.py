"""How functions are compiled that only compiled functions call."""

from __future__ import annotations

from typing import Any

from vcubeps.sim.kernel.options import EVENT_LOOP

CALLED: dict[str, Any] = EVENT_LOOP | {"cache": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of `numba.njit`. What makes a function callable from Python takes half of the time to compile one
that is handed dozens of arrays. Python must not call these: it would not fail but crash."""
