"""The life of one node: what it may do at each stage, and which stage may follow which.

`python -m vcubeps.node.lifecycle` prints the diagram that docs/internals/node.md shows.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType


class Life(enum.Enum):
    """A stage in the life of a node."""

    STARTING = "starting"
    """The others have not let it in yet, or it has not been in contact with a quorum of the voters yet: what the
    application asks for waits."""
    UP = "up"
    """It takes part."""
    ISOLATED = "isolated"
    """It has lost contact with every quorum of the voters: it starts nothing. What has been delivered can be read."""
    CLOSING = "closing"
    """The application has closed it: it leaves its topics and says goodbye."""
    CLOSED = "closed"
    """It has ended in good order."""
    FAILED = "failed"
    """It can do nothing any more: it sends nothing, acknowledges nothing and has no connections."""

    @property
    def has_ended(self) -> bool:
        return self is Life.CLOSED or self is Life.FAILED


TRANSITIONS: Mapping[Life, Mapping[Life, str]] = MappingProxyType(
    {
        Life.STARTING: {
            Life.UP: "let in, and in contact",
            Life.ISOLATED: "let in, then out of contact",
            Life.CLOSING: "closed",
            Life.FAILED: "refused for good, or a fault",
        },
        Life.UP: {
            Life.STARTING: "declared crashed: the next incarnation",
            Life.ISOLATED: "no quorum",
            Life.CLOSING: "closed",
            Life.FAILED: "refused for good, or a fault",
        },
        Life.ISOLATED: {
            Life.STARTING: "declared crashed: the next incarnation",
            Life.UP: "a quorum again",
            Life.CLOSING: "closed",
            Life.FAILED: "refused for good, or a fault",
        },
        Life.CLOSING: {Life.CLOSED: "all told, or time is up", Life.FAILED: "a fault"},
        Life.CLOSED: {},
        Life.FAILED: {},
    }
)
"""From each stage, those that may follow, with what leads there."""


def diagram() -> str:
    """The stages as a Mermaid diagram.

    >>> print(diagram().splitlines()[1])
      [*] --> starting
    """
    lines = ["stateDiagram-v2", f"  [*] --> {Life.STARTING.value}"]
    for stage, following in TRANSITIONS.items():
        lines += [f"  {stage.value} --> {next_.value}: {why}" for next_, why in following.items()]
        if not following:
            lines.append(f"  {stage.value} --> [*]")
    return "\n".join(lines)


if __name__ == "__main__":
    print(diagram())
