"""Of `protocol/membership.py`."""

EQUIVALENT = {
    (
        "View.addressees",
        "if self._addressees is None:",
        "condition:True",
    ): "what is made again has the same entries; it only takes longer",
    (
        "View.has_left",
        "return self.left.get(node, 0) >= counter",
        "constant:0→-1",
    ): "counters of broadcasts are at least 1 (validation), so any smaller default is below them all",
}
