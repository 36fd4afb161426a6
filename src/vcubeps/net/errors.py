"""What the public API raises. Wrong calls raise `UsageError`, a `ValueError`; these are for what happens to a node."""

from __future__ import annotations


class NodeError(Exception):
    """Base of what can happen to a node, a subscription or a publication."""


class NodeClosed(NodeError):
    """The node has been closed; open another."""


class NodeRefused(NodeError):
    """Another node refuses this one for good: the text says why and what to do."""


class SubscriptionClosed(NodeError):
    """The subscription has ended; subscribe again."""


class SlowSubscriber(NodeError):
    """A subscription with `slow="disconnect"` was not read fast enough and has ended."""


class Unacknowledged(NodeError):
    """It cannot be known any more whether every subscriber received the publication."""
