"""The one error of an audit."""

from __future__ import annotations


class TraceError(Exception):
    """The trace cannot be audited; the text says why and what to do."""
