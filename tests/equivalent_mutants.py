"""Mutants that nothing can tell from the original, each with the argument why.

The key is the module, the function, the line as it is written there and the mutation, all as `tests/mutants.py
--show NAME` prints them, so that an entry stays right while the code around its line changes. When the line itself
changes, the entry matches nothing and `tests/test_mutants.py` asks for it to be thought over again.
"""

from __future__ import annotations

EQUIVALENT: dict[tuple[str, str, str, str], str] = {}
"""(module, function, line, mutation) → why no input and no output can ever differ."""
