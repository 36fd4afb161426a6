"""Of `protocol/boot.py`."""

_FASTER = "an equal list instead of the same one; that they are the same object only makes `_try_up` faster"

EQUIVALENT = {
    ("Boot.greet", "if digest not in self._lists:", "condition:True"): _FASTER,
    (
        "Boot._note_reported",
        "if reported is not None and reported is not dealt_with:",
        "operand:2→True",
    ): _FASTER,
    (
        "Boot._go_up",
        "self._admission.send_welcome(other, self._admission.digest_for(other), {}, admit=False)",
        "constant:False→True",
    ): "whoever gets this has met this node and boots, or was welcomed by it before it went up, or fences it: only a "
    "node that came up without the sender looks at `admit`",
    (
        "Boot._declare_dead",
        "if news:",
        "condition:True",
    ): "to declare nobody dead changes nothing at a node that boots, which has told nobody that a crash is final",
}
