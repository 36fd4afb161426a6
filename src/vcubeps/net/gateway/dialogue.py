"""What a client says on the WebSocket, and what it is told: one struct for each JSON frame."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

Id: TypeAlias = Annotated[
    str | int | None, Meta(description="chosen by the client; the answer to the operation bears it")
]
Topic: TypeAlias = Annotated[str, Meta(description="1 to 255 bytes of UTF-8")]
Text: TypeAlias = Annotated[str | UnsetType, Meta(description="the payload, if it is text")]
Base64: TypeAlias = Annotated[bytes | UnsetType, Meta(description="the payload in base64")]
Slow: TypeAlias = Annotated[
    Literal["wait", "disconnect"],
    Meta(
        description='if the client reads too slowly: "wait": publishers do; "disconnect": it is unsubscribed'
    ),
]


class _Operation(msgspec.Struct, kw_only=True, tag_field="op", tag=str.lower, forbid_unknown_fields=True):
    """Base of what a client may ask for."""

    id: Id = None


class Subscribe(_Operation):
    """Get every message of a topic from now on."""

    topic: Topic
    encoding: Annotated[
        Literal["text", "base64"], Meta(description="of payloads; what is not UTF-8 comes as base64 anyway")
    ] = "text"
    slow: Slow = "disconnect"


class Unsubscribe(_Operation):
    """End a subscription of this connection."""

    topic: Topic


class Publish(_Operation):
    """Publish to a topic; a subscription to it is not needed. Give `text` or `base64`."""

    topic: Topic
    text: Text = UNSET
    base64: Base64 = UNSET
    acknowledged: Annotated[
        bool, Meta(description="whether to be told when every subscriber has received it")
    ] = False


class Members(_Operation):
    """Ask which nodes are members of a topic."""

    topic: Topic


Operation: TypeAlias = Subscribe | Unsubscribe | Publish | Members


class _Event(
    msgspec.Struct,
    kw_only=True,
    tag_field="event",
    tag=lambda name: name.removesuffix("Event").lower(),
    omit_defaults=True,
):
    """Base of what the gateway says."""


class SubscribedEvent(_Event):
    """The subscription is in effect everywhere; messages follow."""

    topic: str
    members: tuple[int, ...]
    id: Id = None


class UnsubscribedEvent(_Event):
    """The subscription has ended as asked; no message of it follows."""

    topic: str
    id: Id = None


class MembersEvent(_Event):
    """The nodes that are members of the topic."""

    topic: str
    members: tuple[int, ...]
    id: Id = None


class AcceptedEvent(_Event):
    """The node has taken the publication, and sends it to every subscriber; ⟨source, counter⟩ identifies it."""

    topic: str
    source: int
    counter: int
    id: Id = None


class AcknowledgedEvent(_Event):
    """Every subscriber has received the publication."""

    topic: str
    source: int
    counter: int
    id: Id = None


class MessageEvent(_Event):
    """A publication of a topic that the client subscribed to, in causal order."""

    topic: str
    source: int
    counter: int
    after: Annotated[
        dict[int, int], Meta(description="source → counter of its last publication that this one comes after")
    ]
    published_at: Annotated[float, Meta(description="by the publisher's clock, in seconds since 1970")]
    text: Text = UNSET
    base64: Base64 = UNSET

    @property
    def payload(self) -> bytes:
        if self.base64 is not UNSET:
            return self.base64
        return b"" if self.text is UNSET else self.text.encode()


class JoinedEvent(_Event):
    """`node` is a member of the topic from now on."""

    topic: str
    node: int


class LeftEvent(_Event):
    """`node` is no longer a member of the topic."""

    topic: str
    node: int
    crashed: bool
    """Whether it counts as crashed; otherwise it has left."""


class GapEvent(_Event):
    """Publications may be missing here: the other nodes took this one for crashed. The subscription goes on.

    `after` says where: of each source, publications up to this counter do not come any more, and those after it do.
    """

    topic: str
    reason: str
    after: dict[int, int]


class DisconnectedEvent(_Event):
    """The client read too slowly and is not subscribed any more; everything up to here was sent."""

    topic: str
    waiting: Annotated[int, Meta(description="messages that had not been sent when that was decided")]


class EndedEvent(_Event):
    """The node can do nothing any more, so the subscription has ended."""

    topic: str
    reason: str


class ErrorEvent(_Event):
    """An operation was refused; the connection goes on."""

    cause: Annotated[str, Meta(description="as in vcubeps_gateway_refusals_total")]
    reason: Annotated[str, Meta(description="what is wrong, and what to do")]
    id: Id = None


Event: TypeAlias = (
    SubscribedEvent
    | UnsubscribedEvent
    | MembersEvent
    | AcceptedEvent
    | AcknowledgedEvent
    | MessageEvent
    | JoinedEvent
    | LeftEvent
    | GapEvent
    | DisconnectedEvent
    | EndedEvent
    | ErrorEvent
)


class _OnlyId(msgspec.Struct):
    id: Id = None


_operations: msgspec.json.Decoder[Operation] = msgspec.json.Decoder(Operation)
_events: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_ids = msgspec.json.Decoder(_OnlyId)


def operation_of(frame: str) -> Operation:
    """Raises `msgspec.DecodeError` or `RecursionError` if it is none."""
    return _operations.decode(frame)


def event_of(frame: str) -> Event:
    return _events.decode(frame)


def id_of(frame: str) -> Id:
    """The id in a frame that is no operation, if there is one."""
    try:
        return _ids.decode(frame).id
    except (msgspec.DecodeError, RecursionError):
        return None
