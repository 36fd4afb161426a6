"""Of `protocol/local.py`."""

_ORDER = "stamps are only compared with each other, and all of them start one later"

_MARK = "it is only compared with what it was: any number that it has not had before will do"

_OVER = (
    "how recipients were shared out stays right, because who is forgotten had ended before or was never dealt with "
    "here; they are shared out again, with the same result"
)

_OFFSET = "every digest differs in the same bit, and digests are only compared with each other"

_SAVED = "of whoever is not fresh, `fresh` comes out the same; the condition only saves the time"

_CHANGED = "self.changes += 1"

EQUIVALENT = {
    (
        "StartAgain.__init__",
        "def __init__(self, reason: RestartReason, ended: int = -1, told_by: frozenset[int] = frozenset()) -> None:",
        "constant:-1→0",
    ): "only the larger of it and the own incarnation matters, which is at least 0",
    ("LocalNode.__init__", "self.clock = 0", "constant:0→1"): _ORDER,
    ("LocalNode.__init__", "self.changes = 0", "constant:0→1"): _MARK,
    ("LocalNode.__init__", "self.changes = 0", "constant:0→-1"): _MARK,
    ("LocalNode.deal_with", _CHANGED, "constant:1→2"): _MARK,
    ("LocalNode.declare_dead", _CHANGED, "constant:1→2"): _MARK,
    ("LocalNode.forget", _CHANGED, "constant:1→2"): _MARK,
    ("LocalNode.forget", _CHANGED, "constant:1→0"): _OVER,
    ("LocalNode.forget", _CHANGED, "delete"): _OVER,
    ("LocalNode.deal_with", "if node in self.fresh:", "condition:True"): _SAVED,
    ("digest_of", "digest = 0", "constant:0→1"): _OFFSET,
}
