"""What the public API raises. Wrong calls raise `UsageError`, a `ValueError`; these are for what happens to a node."""

from __future__ import annotations

from vcubeps.node.errors import Isolated, NodeEnded, NodeError

__all__ = [
    "Isolated", "ListenError", "NodeClosed", "NodeEnded", "NodeError", "NodeRefused", "SlowSubscriber",
    "SubscriptionClosed", "Unacknowledged",
]  # fmt: skip


class ListenError(OSError):
    """The node's address cannot be listened on; the text says why and what to do."""


class NodeClosed(NodeEnded):
    """The node has been closed; open another."""


class NodeRefused(NodeError):
    """Another node refuses this one for good: the text says why and what to do."""


class SubscriptionClosed(NodeError):
    """The subscription has ended; subscribe again."""


class SlowSubscriber(NodeError):
    """A subscription with `slow="disconnect"` was not read fast enough and has ended."""


class Unacknowledged(NodeError):
    """It cannot be known any more whether every subscriber received the publication."""
