"""Of `protocol/validation.py`."""

_SHORTCUT = "a shortcut around the function that is called, which looks again and decides"

EQUIVALENT = {
    (
        "_check_publication",
        "if not 0 <= publication.stamp <= MAX_STAMP:",
        "compare:<=→<#2",
    ): _SHORTCUT,
}
