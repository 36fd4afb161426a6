"""What a node refuses its application, apart from wrong calls, which raise `UsageError`."""

from __future__ import annotations


class NodeError(Exception):
    """Base of what can happen to a node, a subscription or a publication."""


class NodeEnded(NodeError):
    """The node has been closed, or has failed."""


class Isolated(NodeError):
    """The node is in contact with no quorum of the voters: nothing can be started until it is."""
