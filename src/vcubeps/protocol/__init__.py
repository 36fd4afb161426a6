"""The causal broadcast: one deterministic state machine per node, without clock, socket, thread or randomness."""

from vcubeps.protocol.errors import ProtocolViolation, UsageError
from vcubeps.protocol.peer import Peer

__all__ = ["Peer", "ProtocolViolation", "UsageError"]
