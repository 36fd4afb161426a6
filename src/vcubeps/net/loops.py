"""Running the event loop of a process that is ours: uvloop where it is installed, memory kept for the next frame."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

_Result = TypeVar("_Result")

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 16 << 20


def run(main: Coroutine[Any, Any, _Result]) -> _Result:
    """As `asyncio.run`."""
    keep_freed_memory()
    try:
        import uvloop  # noqa: PLC0415
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


def keep_freed_memory() -> None:
    """Let freed memory be used again instead of giving it back to the system.

    By default glibc returns every buffer above 128 KiB at once; to get a new one, page by page, takes longer
    than to encode a batch into it.
    """
    with contextlib.suppress(OSError, AttributeError):  # another C library: then not
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES // 2)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def spare_what_is_loaded() -> None:
    """Let garbage collections leave out what there is now: modules, mostly, which stay as long as the process.

    A full collection looks at every object while the loop stands still, and about 50,000 of them are of modules.
    """
    gc.collect()
    gc.freeze()
