"""Of `protocol/peer.py`."""

_NEITHER = "what follows is about messages of other kinds, or of a node that is not up, which this one is"

EQUIVALENT = {
    ("Peer._apply", "self._broadcasts.on_copy(sender, message) / return", "delete"): _NEITHER,
    ("Peer._apply", "self._broadcasts.on_ack(sender, message) / return", "delete"): _NEITHER,
}
