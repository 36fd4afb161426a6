"""What peers say to each other. Frozen values; nothing here acts.

A *broadcast* (SUB, PUB or UNS in the paper) is what a source has to say to a set of
recipients. It travels as *copies*, one per edge of the source's spanning tree; every copy is
answered by one acknowledgement, once the whole subtree behind it has been served, or by an Ask for the recipients
that it leaves out. Flush, IsFinal, Final and Over are about nodes that crash; Hello, Welcome, Taken and Fence about
nodes that come, or come back.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from vcubeps.protocol.batches import Batch
from vcubeps.protocol.limits import COUNTERS_PER_INCARNATION

ANY_INCARNATION = -1
"""Target of a message that is meant for whichever incarnation of the node gets it."""

Barrier: TypeAlias = dict[int, int]
"""Causal barrier: source → counter of the last publication of it that must come first."""

Incarnations: TypeAlias = dict[int, int]
"""Node → incarnation of it."""


def incarnation_of(counter: int) -> int:
    """The incarnation of its source that issued `counter`."""
    return counter // COUNTERS_PER_INCARNATION


class Subscription(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="SUB"):
    """SUB: `source` asks every node to take it into `topic`; ⟨source, counter⟩ identifies the subscription."""

    source: int
    topic: str
    counter: int


class Publication(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="PUB"):
    """PUB: a batch of publications that share one tree walk, one barrier and one acknowledgement."""

    source: int
    topic: str
    counter: int
    """Of the last of them; ⟨source, counter⟩ identifies the batch."""
    batch: Batch
    """Each but the first depends on the one before it."""
    barrier: Barrier
    """What must be delivered before the first."""
    digest: int
    """Fingerprint of the source's view when it published; equal digests mean equal memberships."""
    stamp: int
    """Lamport time; greater than the stamp of everything this depends on."""


class Unsubscription(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="UNS"):
    """UNS: `source` leaves; takes effect at each member in causal order, like a publication."""

    source: int
    topic: str
    counter: int
    barrier: Barrier
    stamp: int


Broadcast: TypeAlias = Subscription | Publication | Unsubscription

Recipients: TypeAlias = dict[int, int]
"""Whom a copy serves: node → counter of its subscription (PUB, UNS) or → its incarnation (SUB)."""


def addressed_incarnation(broadcast: Broadcast, mark: int) -> int:
    """The incarnation of a recipient that `broadcast` is meant for, given its mark in `Recipients`."""
    return mark if type(broadcast) is Subscription else incarnation_of(mark)


class Report(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one node tells a joiner about itself, inside an acknowledgement of its SUB."""

    counter: int
    """Of the node's own subscription (or of its leave, where it only reports that it is gone)."""
    floor: int
    """Its last publication before it took the joiner in, 0 if there is none: up to here nothing will come."""
    is_member: bool


class Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Every message says which incarnation sent it and which one it is meant for."""

    origin: int
    target: int


class Copy(Message, frozen=True, array_like=True, gc=False, tag="COPY"):
    """A broadcast on one edge of its tree."""

    hop: int
    """Names this copy to its sender; the acknowledgement repeats it."""
    recipients: Recipients | None
    """The receiver and everyone that the subtree behind it has to serve. Left out, of a publication only: all members
    in that subtree by the view that the source had, whose digest the publication carries."""
    fresh: Incarnations
    """Crashes that the sender knows and that are not final at it."""
    broadcast: Broadcast
    """Last, so that copies to several receivers share its bytes."""


class Ask(Message, frozen=True, array_like=True, gc=False, tag="ASK"):
    """The receiver of the copy `hop`, which leaves the recipients out, does not know them; the copy had no effect."""

    hop: int


class Ack(Message, frozen=True, array_like=True, gc=False, tag="ACK"):
    """The copy `hop` has been received by every recipient it was to serve."""

    hop: int
    reports: dict[int, Report]
    """Of a SUB: what the subtree's members told. Empty otherwise."""
    repaired: bool
    """Of a SUB: a crash made some node of the subtree send it again."""
    dead: Incarnations
    clock: int


class Card(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """How a node introduces itself, and is introduced by others. Of two, the newer is greater, or says more."""

    incarnation: int
    identity: int = 0
    """Drawn by whoever first came under this node's id, and kept; tells two that have drawn the same id apart."""
    address: bytes = b""
    """Where it can be reached; the driver knows what it means."""


class Flush(Message, frozen=True, array_like=True, gc=False, tag="FLUSH"):
    """Sent to everyone alive by whoever learns of a crash: what I hold of the dead, and where I stand."""

    sequence: int
    """Consecutive per pair of incarnations, from 1; handled in this order."""
    dead: Incarnations
    held: dict[str, dict[int, Publication]]
    """Topic → dead source → the last publication received from it."""
    counter: int
    subscriptions: dict[str, tuple[int, int]]
    """Topic → (counter of my subscription, counter of my last publication or 0)."""
    is_answer: bool = False
    """To a flush of somebody who waits for one of this node; it is not answered in turn."""


class IsFinal(Message, frozen=True, array_like=True, gc=False, tag="FINAL?"):
    """The collector asks whether these crashes are final at the receiver."""

    dead: Incarnations


class Final(Message, frozen=True, array_like=True, gc=False, tag="FINAL"):
    """To the collector: the crashes are final here, and nothing of the dead is held back here."""

    dead: Incarnations


class Over(Message, frozen=True, array_like=True, gc=False, tag="OVER"):
    """The crashes are final at every node that lives: what was kept of the dead may be forgotten."""

    dead: Incarnations


class Hello(Message, frozen=True, array_like=True, gc=False, tag="HELLO"):
    """A node asks to be let in, and whether the receiver deals with all that it knows of."""

    card: Card
    digest: int
    """Of the nodes that the sender believes alive."""
    news: dict[int, Card]
    """Those of them of which the receiver has not been heard to know."""


class Welcome(Message, frozen=True, array_like=True, gc=False, tag="WELCOME"):
    """Answer to Hello."""

    card: Card
    dead: Incarnations
    """Crashes that are not over, and those of nodes that the newcomer asked about."""
    digest: int
    """Of the nodes that the sender believes alive, itself included and the receiver not."""
    living: dict[int, Card] | None
    """Those nodes; left out if the receiver asked with the same digest."""
    is_up: bool
    """Whether the sender has been let in itself."""
    admit: bool
    """The sender, which is up, has done with any previous incarnation, and now lets this one in."""


class Taken(Message, frozen=True, array_like=True, gc=False, tag="TAKEN"):
    """Answer to Hello: somebody else has this id. The identity is that of whoever is to draw another."""

    identity: int


class Fence(Message, frozen=True, array_like=True, gc=False, tag="FENCE"):
    """Incarnation `incarnation` of the receiver has been declared crashed; it must start again as a new one."""

    incarnation: int


AnyMessage: TypeAlias = Copy | Ask | Ack | Flush | IsFinal | Final | Over | Hello | Welcome | Taken | Fence
