"""Of `protocol/validation.py`."""

_SHORTCUT = "a shortcut around the function that is called, which looks again and decides"
_NOTHING = "in what is empty the functions called find nothing wrong; not to call them is only faster"
_NAME = "if not (broadcast.topic.isascii() and 0 < len(broadcast.topic) <= MAX_TOPIC_BYTES):"

EQUIVALENT = {
    ("check_message", "if message.reports:", "condition:True"): _NOTHING,
    ("check_message", "if message.dead:", "condition:True"): _NOTHING,
    ("_check_copy", "if copy.fresh:", "condition:True"): _NOTHING,
    ("_check_publication", "if publication.barrier:", "condition:True"): _NOTHING,
    ("_check_copy", _NAME, "condition:True"): _SHORTCUT,
    ("_check_copy", _NAME, "compare:<=→<"): _SHORTCUT,
    ("_check_copy", _NAME, "constant:0→1"): _SHORTCUT,
}
