"""Of `protocol/causality.py`."""

_NO_SUCH_COUNTER = (
    "nobody publishes as 0 or 1, since counters start at 1 and the first is that of a subscription: a default "
    "of −1, 0 or 1 is below all that can be depended on"
)

_DEPENDS = "if delivered.get(node, 0) < needed and needed > doubtful.get(node, 0) and node in self._present:"

EQUIVALENT = {
    ("Past.deliver", _DEPENDS, "constant:0→1"): _NO_SUCH_COUNTER,
    ("Past.deliver", _DEPENDS, "constant:0→-1"): _NO_SUCH_COUNTER,
    ("Past.deliver", _DEPENDS, "constant:0→1#2"): _NO_SUCH_COUNTER,
    ("Past.deliver", _DEPENDS, "constant:0→-1#2"): _NO_SUCH_COUNTER,
    ("Past.deliver", _DEPENDS, "compare:>→>="): "where they are equal, the same value is written again",
    (
        "HoldBack.wake",
        "if not waiting:",
        "condition:False",
    ): "a shortcut: where nobody waits, nobody is found either",
}
