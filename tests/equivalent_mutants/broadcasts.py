"""Of `protocol/broadcasts.py`."""

_SHORTCUT = "a shortcut around the function that is called, which looks again and then does nothing"

_LEAF = "a shortcut: a relay with nobody to serve acknowledges at once too, and says the same"

EQUIVALENT = {
    ("Broadcasts.on_publication", "if len(recipients) == 1:", "condition:False"): _LEAF,
    ("Broadcasts.on_publication", "if len(recipients) == 1:", "constant:1→0"): _LEAF,
    ("Broadcasts.on_publication", "if not task.waiting:", "condition:True"): _SHORTCUT,
    (
        "Broadcasts.on_publication",
        "if released:",
        "condition:True",
    ): "a shortcut: of nothing nothing is released",
    ("Broadcasts.on_ack", "if task is not None and not task.waiting:", "operand:2→True"): _SHORTCUT,
    (
        "Broadcasts._forward",
        "self._tree.fan_out(task, rest, subcube(me, task.parent) - 1, shares, digest)",
        "constant:1→0",
    ): "the recipients lie in fewer subcubes (validation); one more only files their shares under another key",
}
