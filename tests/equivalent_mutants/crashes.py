"""Of `protocol/crashes.py`."""

EQUIVALENT = {
    (
        "Crashes._compare_membership",
        "if member is None or member.counter > flush.counter:",
        "compare:>→>=",
    ): "a sender whose last counter is that of its subscription has not left, since that takes another, and lists it",
}
