"""Mutants that nothing can tell from the original, each with the argument why.

The key is that of the mutant, as `tests/mutants.py --show NAME` prints it: module, function, line and mutation. So an
entry stays right while the code around its line changes. When the line itself changes, the entry matches nothing, and
`tests/test_mutants.py` asks for it to be thought over again.
"""

from __future__ import annotations

_SHORTCUT = "a shortcut around the function that is called, which looks again and decides"
_COUNTERS = "counters of broadcasts are at least 1 (validation), so any smaller default is below them all"
_NEITHER = "what follows is about messages of other kinds, or of a node that is not up, which this one is"

EQUIVALENT: dict[tuple[str, str, str, str], str] = {
    ("peer.py", "Peer._apply", "self._broadcasts.on_copy(sender, message) / return", "delete"): _NEITHER,
    ("peer.py", "Peer._apply", "self._broadcasts.on_ack(sender, message) / return", "delete"): _NEITHER,
    (
        "topic.py",
        "Topic._note_reception",
        "counters = (publication.counter,) if len(publication.items) == 1 else publication.counters",
        "condition:False",
    ): "of one item, `counters` is the same; the other way is only faster",
    (
        "topic.py",
        "Topic.receive_leave",
        "if self.view.left.get(leave.source, 0) >= leave.counter:",
        "constant:0→-1",
    ): _COUNTERS,
    (
        "validation.py",
        "_check_publication",
        "if not 0 <= publication.stamp <= MAX_STAMP:",
        "compare:<=→<#2",
    ): _SHORTCUT,
}
"""Key → why no input and no output can ever differ."""
