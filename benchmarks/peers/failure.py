"""Why a measurement gave no result."""

from __future__ import annotations


class RunFailed(Exception):
    """A server or a member ended with an error, or the members did not find each other."""
