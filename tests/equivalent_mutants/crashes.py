"""Of `protocol/crashes.py`."""

EQUIVALENT = {
    (
        "Crashes._compare_membership",
        "if member is None or member.counter > flush.counter:",
        "compare:>→>=",
    ): "a sender whose last counter is that of its subscription has not left, since that takes another, and lists it",
    (
        "Crashes.on_flush",
        "if not local.is_settled():  # otherwise it is about crashes that are final here already",
        "condition:True",
    ): "what is final is made final once more, which changes nothing but the cuts: a publication that the sender has "
    "made since is waited for too, and comes anyway. The other way is only faster",
    (
        "Crashes.try_final",
        "if local.is_settled() or self._waiting_for:",
        "operand:1→False",
    ): "called where nothing is fresh only by a node that goes up: what is final is made final once more, which "
    "changes nothing",
}
