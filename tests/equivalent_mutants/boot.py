"""Of `protocol/boot.py`."""

_FASTER = "an equal list instead of the same one; that they are the same object only makes `_try_up` faster"

_CLOCK = (
    "stamps are given to publications and leaves of members only, and the acknowledgements of a SUB carry the clocks "
    "of all who live, which are not below the stamps of the floors that they report: that of a Welcome adds nothing"
)

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
    ("Boot.on_welcome", "local.clock = max(local.clock, welcome.clock)", "delete"): _CLOCK,
    ("Boot.on_welcome", "local.clock = max(local.clock, welcome.clock)", "call:max→min"): _CLOCK,
}
