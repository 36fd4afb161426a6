"""Why the gateway refuses something, in words for the one at fault and as a cause to count."""

from __future__ import annotations

import enum

import msgspec


class Cause(enum.StrEnum):
    """What `vcubeps_gateway_refusals_total` counts by."""

    MALFORMED = "malformed"
    TOPIC = "topic"
    TOO_LARGE = "too-large"
    NOT_A_MEMBER = "not-a-member"
    NOT_SUBSCRIBED = "not-subscribed"
    CROSS_SITE = "cross-site"
    NOT_LOCAL = "not-local"
    NO_SUCH_DOOR = "no-such-door"
    TOO_MANY = "too-many"
    TOO_SLOW = "too-slow"
    NOT_UP = "not-up"
    UNACKNOWLEDGED = "unacknowledged"
    INTERNAL = "internal"


class Refused(Exception):
    """Raised where something is refused; becomes an HTTP answer or an error event."""

    def __init__(self, status: int, cause: Cause, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.cause = cause
        self.reason = reason


class Refusal(msgspec.Struct, frozen=True):
    """The body of every HTTP answer that refuses."""

    cause: Cause
    reason: str
    """What is wrong, and what to do."""
