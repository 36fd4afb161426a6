"""The clock that a node lives by."""

from __future__ import annotations

import time
from functools import partial

now_s = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
"""Seconds; it does not go back, and goes on while the computer sleeps."""
