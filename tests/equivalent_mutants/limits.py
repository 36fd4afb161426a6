"""Of `protocol/limits.py`."""

_SHORTCUT = "a shortcut for the names that most topics have; what follows looks again and decides"

_PROVISION = (
    "a provision for joins and leaves, one counter per topic: any number from some millions on would do"
)

_LISTED = "a choice between large copies and questions; what is delivered does not depend on it"

_FAST = "if isinstance(topic, str) and topic.isascii() and 0 < len(topic) <= MAX_TOPIC_BYTES:"

EQUIVALENT = {
    ("check_topic", _FAST, "condition:False"): _SHORTCUT,
    ("check_topic", _FAST, "compare:<=→<"): _SHORTCUT,
    ("check_topic", _FAST, "constant:0→1"): _SHORTCUT,
    ("", "COUNTERS_RESERVED = 1 << 32", "constant:1→2"): _PROVISION,
    ("", "COUNTERS_RESERVED = 1 << 32", "constant:32→33"): _PROVISION,
    ("", "COUNTERS_RESERVED = 1 << 32", "constant:32→31"): _PROVISION,
    ("", "RECIPIENTS_LISTED = 24", "constant:24→25"): _LISTED,
    ("", "RECIPIENTS_LISTED = 24", "constant:24→23"): _LISTED,
}
