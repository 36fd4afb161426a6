"""Of `protocol/aftermath.py`."""

EQUIVALENT = {
    (
        "Aftermath.__init__",
        "self.is_due = False",
        "constant:False→True",
    ): "a peer that has just been made finds nothing to tell when it looks",
}
