"""Of `protocol/topic.py`."""

_COUNTERS = "counters of broadcasts are at least 1 (validation), so any smaller default is below them all"

EQUIVALENT = {
    (
        "Topic._note_reception",
        "counters = (publication.counter,) if len(publication.items) == 1 else publication.counters",
        "condition:False",
    ): "of one item, `counters` is the same; the other way is only faster",
    (
        "Topic.receive_leave",
        "if self.view.left.get(leave.source, 0) >= leave.counter:",
        "constant:0→-1",
    ): _COUNTERS,
}
