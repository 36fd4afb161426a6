"""What a node asks of its shell, and what it tells the application. Frozen values; nothing here acts.

Of the protocol's own outputs, `Acknowledged`, `MemberJoined` and `MemberLeft` are passed on as they are.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from vcubeps.node.connection import Connection
from vcubeps.node.lifecycle import Life
from vcubeps.protocol.messages import Barrier
from vcubeps.protocol.outputs import Acknowledged, Deliver, MemberJoined, MemberLeft

DEBUG, INFO, WARNING, ERROR = 10, 20, 30, 40
"""Levels of `Log`, as Python's `logging` numbers them."""


class NodeOutput(msgspec.Struct, frozen=True, eq=False):
    """Anything that a node asks of its shell."""


# Connections and the disk.


class Dial(NodeOutput, frozen=True, eq=False):
    """Connect `connection` with `address`; then say `opened`, or `lost` if it cannot be done."""

    connection: Connection
    address: str


class Write(NodeOutput, frozen=True, eq=False):
    """Write `data` on `connection`, after what was written before. What cannot be written is lost with the connection,
    of which the shell says `lost`."""

    connection: Connection
    data: bytes


class WriteAll(NodeOutput, frozen=True, eq=False):
    """As `Write`, of several parts that are too large to be worth joining."""

    connection: Connection
    parts: list[bytes | memoryview]


class Close(NodeOutput, frozen=True, eq=False):
    """End `connection` when all that was written has left. Nothing more is read from it."""

    connection: Connection


class Abort(NodeOutput, frozen=True, eq=False):
    """End `connection` at once."""

    connection: Connection


class Store(NodeOutput, frozen=True, eq=False):
    """Keep on stable storage that this node has been `incarnation`; then say `stored`, or `store_failed`. The node
    sends nothing meanwhile."""

    incarnation: int


DONE_NO_MORE = (Write, WriteAll, Dial, Store)
"""What a node that has failed does not ask for any more, nor does a shell carry it out."""


# What the application is told.


class Delivered(NodeOutput, frozen=True, eq=False):
    """Publications for the application's readers of their topic, of `size` bytes."""

    batch: Deliver
    size: int


class Joined(NodeOutput, frozen=True, eq=False):
    """The subscriptions of this node to `topic` are in effect everywhere."""

    topic: str


class Left(NodeOutput, frozen=True, eq=False):
    """This node has left `topic`, and everybody knows."""

    topic: str


class Voided(NodeOutput, frozen=True, eq=False):
    """The membership of `topic` has ended without the application's doing; it is asked for again. Own publications that
    were not acknowledged, `first` to `last`, may or may not have reached everybody; 0 if there are none."""

    topic: str
    first: int
    last: int
    reason: str


class Gap(NodeOutput, frozen=True, eq=False):
    """The subscriptions to `topic` are in effect again; between then and now something may have been missed."""

    topic: str
    reason: str
    after: Barrier
    """Where they go on: source → counter of its last publication that does not come."""


class Room(NodeOutput, frozen=True, eq=False):
    """Publications on `topic` that have waited may be tried again."""

    topic: str


class TooSlow(NodeOutput, frozen=True, eq=False):
    """The reader has not kept up and asked to be ended then: the shell is to unsubscribe it. It may be told again."""

    topic: str
    reader: object


class LifeChanged(NodeOutput, frozen=True, eq=False):
    """The node is at another stage of its life."""

    life: Life
    reason: str


class Failed(NodeOutput, frozen=True, eq=False):
    """The node has ended for good. Nothing follows but the ends of its connections."""

    reason: str
    is_refusal: bool
    """Whether other nodes refuse it, rather than something in this process having gone wrong."""


class Closed(NodeOutput, frozen=True, eq=False):
    """The node has ended in good order."""

    unacknowledged: dict[str, int]
    """Topic → own publications that were accepted, and not acknowledged in time."""


class Suspected(NodeOutput, frozen=True, eq=False):
    """`node` does not answer; others are asked whether they reach it."""

    node: int
    silent_s: float
    asked: tuple[int, ...]
    """Who is asked."""


class Crashed(NodeOutput, frozen=True, eq=False):
    """This node takes `incarnation` of `node` for crashed."""

    node: int
    incarnation: int
    evidence: str


class Recovered(NodeOutput, frozen=True, eq=False):
    """This node deals with `incarnation` of `node`, which it had taken for crashed or not known."""

    node: int
    incarnation: int


class Log(NodeOutput, frozen=True, eq=False):
    """For the log; `level` is `DEBUG` … `ERROR`."""

    level: int
    text: str


AnyOutput: TypeAlias = (
    Dial
    | Write
    | WriteAll
    | Close
    | Abort
    | Store
    | Delivered
    | Joined
    | Left
    | Voided
    | Gap
    | Room
    | TooSlow
    | LifeChanged
    | Failed
    | Closed
    | Suspected
    | Crashed
    | Recovered
    | Log
    | Acknowledged
    | MemberJoined
    | MemberLeft
)
