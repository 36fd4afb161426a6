"""The two ways a peer refuses an input; the type says who is at fault.

Either error is raised before anything has changed: a peer that raised is in the
state it was in before the call.
"""

from __future__ import annotations


class UsageError(ValueError):
    """The local caller asked for something that makes no sense now; the text says what to do instead."""


class ProtocolViolation(ValueError):
    """A remote node sent something that no correct node would send.

    The message was not applied. `sender` is the node it came from, for the shell to cut off.
    """

    def __init__(self, sender: int, complaint: str) -> None:
        super().__init__(f"node {sender} sent {complaint}")
        self.sender = sender
        self.complaint = complaint
