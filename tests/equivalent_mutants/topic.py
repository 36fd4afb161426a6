"""Of `protocol/topic.py`."""

_FASTER = "what is made again is the same; it only takes longer"

EQUIVALENT = {
    (
        "Topic.apply_leave",
        "if newest is not None and newest.counter < counter:",
        "compare:<→<=",
    ): "a leave and a publication of one node never have the same counter",
    (
        "Topic.subtree",
        "if last is None or last[1] is not addressees:",
        "condition:True",
    ): _FASTER,
    (
        "Topic.subtree",
        "if last is None or last[1] is not addressees:",
        "constant:1→0",
    ): _FASTER,
    (
        "Topic._note_reception",
        "counters = (publication.counter,) if len(publication.items) == 1 else publication.counters",
        "condition:False",
    ): "of one item, `counters` is the same; the other way is only faster",
    (
        "Topic._blocker",
        "if member is not None and needed >= member.counter:  # nearly always",
        "compare:>=→>",
    ): "of a member at least its subscription has been received, so a dependency on that is met either way",
}
