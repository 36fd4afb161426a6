"""Mutants that no test can or should tell from the original, each with the argument why.

One module here for each module of the protocol. The key of an entry is that of the mutant, as
`tests/mutants.py --show NAME` prints it, without the module: function, line and mutation. So an entry stays right while
the code around its line changes. When the line itself changes, the entry matches nothing, and `tests/test_mutants.py`
asks for it to be thought over again.

Most are *equivalent*: whatever the inputs, the outputs are the same. The others differ only in what no promise is
about, such as how soon something is forgotten or a message that says nothing new; their reasons say what differs.
"""

from __future__ import annotations

import importlib
import pkgutil

EQUIVALENT: dict[tuple[str, str, str, str], str] = {
    (f"{module.name}.py", *key): reason
    for module in pkgutil.iter_modules(__path__)
    for key, reason in importlib.import_module(f"{__name__}.{module.name}").EQUIVALENT.items()
}
"""Key → why."""
