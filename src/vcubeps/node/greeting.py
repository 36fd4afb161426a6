"""The first frames on a connection: who both sides are, or why one of them will not talk.

Data and decisions; no sockets.
"""

from __future__ import annotations

import enum

import msgspec

from vcubeps.node.frames import PROTOCOL_VERSION, Kind, frame
from vcubeps.protocol.limits import MAX_INCARNATION

_MAGIC = "vcubeps"


class Greeting(msgspec.Struct, frozen=True, array_like=True):
    """Who one side is, whom it takes the other for, and how far it has received."""

    magic: str
    version: int
    cluster: str
    node: int
    to: int
    """The node that it wants to talk to."""
    incarnation: int
    instance: int
    """Random per process and node: tells a process that comes back from one that never went."""
    heard_instance: int
    """The instance of the other side that it has received from; 0: none."""
    received: int
    """Number of the last message received from that instance."""
    number: int
    """Of this greeting among all of this instance to that node: one that a later one has overtaken is void."""
    dead: int
    """Newest incarnation of the other side that it holds for crashed; −1: none. Heard before anything else is said."""
    settings: dict[str, str]
    """What both sides' cluster files must agree on, as `Identity.settings`."""


class Cause(enum.StrEnum):
    """Why a connection is refused or ended."""

    NOT_THIS_PROTOCOL = "not-this-protocol"
    VERSION = "version"
    CLUSTER = "cluster"
    SETTINGS = "settings"
    STRANGER = "stranger"
    WRONG_NODE = "wrong-node"
    TAKEN = "taken"
    STALE = "stale"
    COLLISION = "collision"
    MALFORMED = "malformed"
    VIOLATION = "violation"
    CLOSING = "closing"
    LATE = "late"

    @property
    def is_fatal(self) -> bool:
        """Whether the refused node can do nothing but end."""
        return self in (Cause.TAKEN, Cause.STALE)

    @property
    def is_harmless(self) -> bool:
        """Part of normal life: not worth a warning."""
        return self in (Cause.COLLISION, Cause.CLOSING)


class Refusal(msgspec.Struct, frozen=True, array_like=True):
    """Why a connection ends, for both sides' logs."""

    cause: Cause
    reason: str

    def framed(self) -> bytes:
        return frame(Kind.REFUSAL, 0, msgspec.msgpack.encode(self))


class Refused(Exception):
    """This connection must end; the other side is to be told why."""

    def __init__(self, cause: Cause, reason: str) -> None:
        super().__init__(reason)
        self.refusal = Refusal(cause, reason)


_UNREADABLE = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
"""What a decoder raises for bytes that are none of ours."""

_greeting_decoder = msgspec.msgpack.Decoder(Greeting)
_refusal_decoder = msgspec.msgpack.Decoder(Refusal)
_version_decoder = msgspec.msgpack.Decoder(list[object])


class Identity(msgspec.Struct):
    """This side of all its connections. Only the incarnation changes."""

    cluster: str
    node: int
    others: frozenset[int]
    instance: int
    incarnation: int
    settings: dict[str, str] = {}
    """Name → value, in words, of all that nodes must agree on."""

    def greeting(self, to: int, heard_instance: int, received: int, number: int, dead: int) -> bytes:
        greeting = Greeting(
            _MAGIC, PROTOCOL_VERSION, self.cluster, self.node, to,
            self.incarnation, self.instance, heard_instance, received, number, dead, self.settings,
        )  # fmt: skip
        return frame(Kind.GREETING, 0, msgspec.msgpack.encode(greeting))

    def check(self, body: memoryview) -> Greeting:
        """The other side's greeting, if this node may talk to it at all; otherwise raises Refused."""
        try:
            greeting = _greeting_decoder.decode(body)
        except _UNREADABLE as error:
            raise self._unreadable(body, error) from None
        if greeting.magic != _MAGIC:
            raise Refused(Cause.NOT_THIS_PROTOCOL, "the greeting is not one of VCube-PS")
        if greeting.version != PROTOCOL_VERSION:
            raise self._other_version(greeting.version)
        if greeting.cluster != self.cluster:
            raise Refused(
                Cause.CLUSTER,
                f"node {self.node} belongs to cluster {self.cluster!r} and the caller to "
                f"{greeting.cluster[:100]!r}: correct the address in one of the cluster files",
            )
        if greeting.to != self.node:
            raise Refused(
                Cause.WRONG_NODE,
                f"this is node {self.node} and the caller wants node {greeting.to}: correct the addresses in its "
                "cluster file",
            )
        if greeting.node == self.node:
            raise Refused(
                Cause.TAKEN, f"node {self.node} runs already, with another process: give each its own id"
            )
        if greeting.node not in self.others:
            raise Refused(
                Cause.STRANGER,
                f"node {greeting.node} is not in the cluster file of node {self.node}: add it there",
            )
        if not 0 <= greeting.incarnation <= MAX_INCARNATION or min(greeting.received, greeting.number) < 0:
            raise Refused(Cause.MALFORMED, "the greeting has numbers that cannot be")
        if not -1 <= greeting.dead < MAX_INCARNATION:
            raise Refused(Cause.MALFORMED, f"the greeting calls incarnation {greeting.dead} crashed")
        if greeting.settings != self.settings:
            raise Refused(Cause.SETTINGS, self._difference(greeting))
        return greeting

    def _difference(self, greeting: Greeting) -> str:
        theirs, ours = greeting.settings, self.settings
        names = [name for name in sorted({*theirs, *ours}) if theirs.get(name) != ours.get(name)]
        different = "; ".join(
            f"{name} is {ours.get(name, 'not set')} at node {self.node} and {theirs.get(name, 'not set')[:100]} at "
            f"node {greeting.node}"
            for name in names[:4]
        )
        return f"the cluster files differ: {different}: use the same file everywhere"

    def _unreadable(self, body: memoryview, error: Exception) -> Refused:
        # A later version may greet with other fields; its number stays in second place.
        try:
            magic, version, *_ = _version_decoder.decode(body)
        except (*_UNREADABLE, ValueError):
            return Refused(Cause.NOT_THIS_PROTOCOL, "the greeting is not one of VCube-PS")
        if magic == _MAGIC and isinstance(version, int) and version != PROTOCOL_VERSION:
            return self._other_version(version)
        return Refused(Cause.MALFORMED, f"the greeting cannot be read: {error}")

    def _other_version(self, version: int) -> Refused:
        return Refused(
            Cause.VERSION,
            f"node {self.node} speaks version {PROTOCOL_VERSION} of the protocol and the caller version {version}: "
            "run the same release of vcubeps on all nodes",
        )


def read_refusal(body: memoryview) -> Refusal:
    """What the other side said when it ended the connection."""
    try:
        refusal = _refusal_decoder.decode(body)
    except _UNREADABLE:
        return Refusal(Cause.MALFORMED, "the reason cannot be read")
    return Refusal(refusal.cause, refusal.reason[:500])
