"""What a peer asks its shell to do, or tells it, in answer to an input.

Every input of a peer returns a list of these; the head of the package says how they are carried out.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import msgspec

from vcubeps.protocol.batches import Batch
from vcubeps.protocol.messages import AnyMessage, Barrier


class Output(msgspec.Struct, frozen=True, gc=False):
    """Base of all outputs."""


class Send(Output, frozen=True, gc=False):
    """Hand `message` to the link towards `destination`."""

    destination: int
    message: AnyMessage
    address: bytes = b""
    """If not empty: to whoever is there, who is not the node that this one knows as `destination`."""


class Accepted(Output, frozen=True, gc=False):
    """Answer to `publish`: the publication has this counter; its broadcast starts now or after the one under way."""

    topic: str
    counter: int


class Started(Output, frozen=True, gc=False):
    """The broadcast of a batch of own publications begins: this is the moment of publication.

    `barrier` is what the first of it depends on, each later one depends on the one before it. `recipients` are the
    nodes it is addressed to (the published algorithm, which does not know them, leaves it empty).
    """

    topic: str
    batch: Batch
    barrier: Barrier
    recipients: tuple[int, ...]

    @property
    def items(self) -> tuple[tuple[int, bytes], ...]:
        return self.batch.items


class Acknowledged(Output, frozen=True, gc=False):
    """Own publications on `topic` up to and including `counter` have been received by every recipient."""

    topic: str
    counter: int


class Received(Output, frozen=True, gc=False):
    """A batch of `source` has arrived (reception in the paper's sense)."""

    topic: str
    source: int
    batch: Batch
    at_once: bool = False
    """The next output delivers this batch: it has not had to wait for others."""

    @property
    def counters(self) -> Sequence[int]:
        return self.batch.counters


class Deliver(Output, frozen=True, gc=False):
    """Give these publications of `source` to the application, in this order.

    `after` is the causal barrier of the first; each later one comes after the one before it.
    """

    topic: str
    source: int
    batch: Batch
    after: Barrier

    @property
    def items(self) -> tuple[tuple[int, bytes], ...]:
        return self.batch.items


class Subscribed(Output, frozen=True, gc=False):
    """The subscription is in effect everywhere; `counter` identifies it."""

    topic: str
    counter: int
    floors: Barrier = msgspec.field(default_factory=dict)
    """Where it begins: source → counter of its last publication that does not come."""


class Unsubscribed(Output, frozen=True, gc=False):
    """Every member has taken note that this node left."""

    topic: str


class MemberJoined(Output, frozen=True, gc=False):
    """`node` is a member of `topic` from now on, as this node sees it."""

    topic: str
    node: int


class MemberLeft(Output, frozen=True, gc=False):
    """`node` is no longer a member of `topic`, as this node sees it."""

    topic: str
    node: int
    crashed: bool = False
    """Whether the incarnation that was a member has crashed; otherwise it has left."""


class Arrived(Output, frozen=True, gc=False):
    """This node deals with `incarnation` of `node` from now on."""

    node: int
    incarnation: int
    address: bytes
    """Where it can be reached; empty if nobody has said."""


class Departed(Output, frozen=True, gc=False):
    """`incarnation` of `node` has crashed, or left, or been replaced by a newer one."""

    node: int
    incarnation: int


class Up(Output, frozen=True, gc=False):
    """This node has been admitted by the others and may subscribe."""

    incarnation: int
    founded: bool = False
    """Nobody who was up has let it in: all that it knew of are gone, or start again like itself. There may be others
    that it has never heard of."""


class IdTaken(Output, frozen=True, gc=False):
    """Another node has this node's id, or no incarnation of it is left. The peer is of no use any more: make one with
    another id."""


class RestartReason(enum.StrEnum):
    """Why a node starts again as a new incarnation."""

    DECLARED_CRASHED = "other nodes have declared it crashed"
    CAME_UP_APART = "it came up without a node that lived"
    NO_QUORUM = "the nodes that it does not hold for crashed are no quorum of the voters"
    ASKED = "it was asked to"


class Restarted(Output, frozen=True, gc=False):
    """This node starts again as `incarnation`; its subscriptions to `topics` are gone, and so is what it had queued.

    The shell stores the incarnation before it carries out any later output.
    """

    incarnation: int
    topics: tuple[str, ...]
    reason: RestartReason
