"""Of `protocol/membership.py`."""

_COUNTERS = "counters of broadcasts are at least 1 (validation), so any smaller default is below them all"

EQUIVALENT = {
    (
        "View.addressees",
        "if self._addressees is None:",
        "condition:True",
    ): "what is made again has the same entries; it only takes longer",
    (
        "View.has_heard",
        "return self.heard.get((node, incarnation_of(counter)), 0) >= counter",
        "constant:0→-1",
    ): _COUNTERS,
    (
        "View.has_heard",
        "return self.heard.get((node, incarnation_of(counter)), 0) >= counter",
        "constant:0→1",
    ): "1 is the counter of a subscription, never of a publication; a dependency that names it is met, not lost",
    (
        "View.has_left",
        "return self.left.get(node, 0) >= counter",
        "constant:0→-1",
    ): _COUNTERS,
}
