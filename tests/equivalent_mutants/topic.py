"""Of `protocol/topic.py`."""

_FASTER = "what is made again is the same; it only takes longer"

_DISTINCT = "no two broadcasts of one node have the same counter"

EQUIVALENT = {
    (
        "",
        "_LOST = -1",
        "constant:-1→0",
    ): "who waits for node 0 is also looked at when a cut may be passed: more often, which changes no answer",
    (
        "Topic.apply_leave",
        "if newest is not None and newest.counter < counter:",
        "compare:<→<=",
    ): _DISTINCT,
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
        "Topic._is_new",
        "if member is not None and member.counter < counter:",
        "compare:<→<=",
    ): _DISTINCT,
    (
        "Topic._blocker",
        "if member is not None and needed >= member.counter:  # nearly always",
        "compare:>=→>",
    ): "of a member at least its subscription has been received, so a dependency on that is met either way",
}
