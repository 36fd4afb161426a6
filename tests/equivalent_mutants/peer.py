"""Of `protocol/peer.py`."""

_NEITHER = "what follows is about messages of other kinds, or of a node that is not up, which this one is"
_NOTHING = "of no crashes nothing is learnt; not to call the function is only faster"

EQUIVALENT = {
    ("Peer._apply", "self._broadcasts.on_copy(sender, message) / return", "delete"): _NEITHER,
    ("Peer._apply", "self._broadcasts.on_ack(sender, message) / return", "delete"): _NEITHER,
    ("Peer._apply", "self._broadcasts.on_ask(sender, message) / return", "delete"): _NEITHER,
    ("Peer._apply", "if message.fresh:", "condition:True"): _NOTHING,
    ("Peer._apply", "if message.dead:", "condition:True"): _NOTHING,
}
