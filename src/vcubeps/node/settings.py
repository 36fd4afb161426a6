"""Everything that can be set about a cluster and its nodes, with its meaning, unit, range and default.

Data only. `config` reads it from a cluster file and checks it; docs/reference/cluster-file.md shows it.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from vcubeps.cube import MAX_DIMENSION
from vcubeps.mixing import mix
from vcubeps.protocol.limits import MAX_BATCH_BYTES, MAX_BATCH_ITEMS, MAX_PAYLOAD_BYTES, MAX_QUEUED

_VOTERS_USUAL = 9
"""So many vote in a large cluster, unless its file says who."""

_SPARE = 0.8
"""Share of its questions that a node may need to stay in contact with a quorum; the rest is for answers that are late
or lost."""


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds of what a node keeps and takes in; nothing is dropped at any of them, publishers wait."""

    payload_bytes_max: Annotated[
        int,
        Meta(ge=1, le=MAX_PAYLOAD_BYTES, description="largest payload of one publication"),
    ] = MAX_PAYLOAD_BYTES
    batch_items_max: Annotated[
        int, Meta(ge=1, le=MAX_BATCH_ITEMS, description="most publications that leave as one batch")
    ] = MAX_BATCH_ITEMS
    flat_recipients_max: Annotated[
        int,
        Meta(
            ge=0,
            description="up to so many recipients get a message straight from its source; more get it over the tree. "
            "0: always the tree",
        ),
    ] = 16
    unacknowledged_max: Annotated[
        int,
        Meta(
            ge=1,
            le=MAX_QUEUED,
            description="publications of one topic by one node that may wait for their acknowledgement; "
            "then `publish` waits",
        ),
    ] = 4096
    unacknowledged_bytes_max: Annotated[
        int,
        Meta(
            ge=MAX_PAYLOAD_BYTES,
            description="the same in bytes of payload; whichever is reached first counts",
        ),
    ] = 64 << 20
    queue_messages_max: Annotated[
        int,
        Meta(
            ge=1,
            description="messages that may wait in a subscription to be read or for their causal past; then "
            "the publishers of that topic wait. One batch of each member may come on top",
        ),
    ] = 16384
    queue_bytes_max: Annotated[
        int,
        Meta(
            ge=MAX_PAYLOAD_BYTES,
            description="the same in bytes; whichever is reached first counts",
        ),
    ] = 64 << 20
    link_bytes_max: Annotated[
        int,
        Meta(
            ge=MAX_BATCH_BYTES,
            description="bytes that may wait on the link to another node to be sent or acknowledged; then "
            "`publish` waits on every topic that has that node for a member",
        ),
    ] = 16 << 20
    burst_bytes_max: Annotated[
        int,
        Meta(
            ge=4096,
            le=MAX_BATCH_BYTES,
            description="bytes that are handed to the network at a time on one connection, where signs of life wait "
            "behind them; larger messages travel in parts. Less where the network is so slow that as much to every "
            "other node takes longer than a third of `detection.contact_s`",
        ),
    ] = 256 << 10
    frame_bytes_max: Annotated[
        int,
        Meta(
            ge=MAX_BATCH_BYTES + (1 << 20),
            le=(1 << 32) - 1,
            description="largest frame taken from another node; larger ones end the connection",
        ),
    ] = 32 << 20


class Timing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long a node waits for what."""

    connect_timeout_s: Annotated[
        float, Meta(gt=0, description="for a connection and its handshake, before another attempt")
    ] = 5.0
    reconnect_min_s: Annotated[
        float, Meta(gt=0, description="before the second attempt to connect; doubles with each attempt")
    ] = 0.05
    reconnect_max_s: Annotated[float, Meta(gt=0, description="longest wait between two attempts")] = 2.0
    acknowledge_within_s: Annotated[
        float, Meta(gt=0, description="how long an acknowledgement between two nodes waits for company")
    ] = 0.2
    close_within_s: Annotated[
        float,
        Meta(
            gt=0,
            description="how long closing a node may wait for its publications to be acknowledged and its leaves to be "
            "known everywhere",
        ),
    ] = 1.5


class Detection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How nodes find out that others have crashed, or that they are cut off themselves. The same at all nodes."""

    ping_s: Annotated[
        float,
        Meta(
            gt=0,
            description="in this time a node asks as many others as the cube has dimensions for a sign of life, those "
            "first that it has not heard of for longest",
        ),
    ] = 0.5
    contact_s: Annotated[
        float,
        Meta(
            gt=0, description="how long a voter that has answered counts as reached; at least twice `ping_s`"
        ),
    ] = 1.25
    suspect_after_s: Annotated[
        float,
        Meta(
            gt=0,
            description="how long a node may leave a question unanswered, and be out of reach of those who are asked "
            "to help, before it counts as crashed; longer than `contact_s`, and more where answers take long",
        ),
    ] = 1.75
    helpers: Annotated[
        int,
        Meta(
            ge=0,
            le=16,
            description="how many others are asked at a time whether they reach a node that is silent",
        ),
    ] = 3
    start_within_s: Annotated[
        float,
        Meta(
            gt=0,
            description="how long a node that has not been heard of since this one started may take to come",
        ),
    ] = 10.0


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One node of the cluster."""

    id: Annotated[int, Meta(ge=0, le=(1 << MAX_DIMENSION) - 1, description="its place in the hypercube")]
    address: Annotated[str, Meta(description="HOST:PORT at which the other nodes reach it")]
    listen: Annotated[
        str | None, Meta(description="HOST:PORT that it listens on, where that differs from `address`")
    ] = None
    gateway: Annotated[
        str | None, Meta(description="HOST:PORT of its HTTP and WebSocket door; none if left out")
    ] = None


class ClusterSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cluster file as a whole."""

    cluster: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=100,
            description="its name; nodes of clusters with other names are refused",
        ),
    ]
    nodes: Annotated[tuple[NodeSettings, ...], Meta(description="every node, one table each")]
    state_dir: Annotated[
        str | None,
        Meta(
            description="directory, relative to the file, where nodes keep how often they have started; without it "
            "they keep it in $XDG_STATE_HOME/vcubeps/CLUSTER, or ~/.local/state/vcubeps/CLUSTER"
        ),
    ] = None
    trace_dir: Annotated[
        str | None,
        Meta(
            description="directory, relative to the file, that nodes write their traces to; none if left out"
        ),
    ] = None
    partition: Annotated[
        Literal["majority", "continue"],
        Meta(
            description="what a node does that is out of contact with every quorum of the voters: `majority`, it is "
            "isolated and starts nothing; `continue`, it goes on with those that it reaches, and so do the others"
        ),
    ] = "majority"
    voters: Annotated[
        tuple[int, ...] | None,
        Meta(
            description="the nodes that decide where `partition` is `majority`. If left out: all, or in a cluster of "
            f"more than 21 nodes (more or fewer with other timings) the {_VOTERS_USUAL} with the smallest ids, since "
            "every node has to stay in contact with half of the voters"
        ),
    ] = None
    limits: Limits = Limits()
    timing: Timing = Timing()
    detection: Detection = Detection()

    def node(self, number: int) -> NodeSettings:
        """The settings of node `number`, which must be there."""
        return next(node for node in self.nodes if node.id == number)

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(node.id for node in self.nodes)

    @property
    def voting(self) -> tuple[int, ...] | None:
        """Who decides when the network is cut; None: everybody goes on."""
        if self.partition == "continue":
            return None
        if self.voters is not None:
            return self.voters
        count = len(self.ids)
        return tuple(sorted(self.ids)[: count if count <= self.voters_max else _VOTERS_USUAL])

    @property
    def voters_max(self) -> int:
        """With more voters, no node would ask enough of them to stay in contact with half."""
        questions = (
            max(1, (len(self.ids) - 1).bit_length()) * self.detection.contact_s / self.detection.ping_s
        )
        return max(_VOTERS_USUAL, int(2 * _SPARE * questions) + 1)


def host_and_port(address: str) -> tuple[str, int]:
    """The parts of HOST:PORT or [V6]:PORT, already checked.

    >>> host_and_port("127.0.0.1:7000"), host_and_port("[::1]:7000")
    (('127.0.0.1', 7000), ('::1', 7000))
    """
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def shared_settings(settings: ClusterSettings) -> dict[str, str]:
    """What the nodes of a cluster must agree on, in words that can be compared.

    >>> one = NodeSettings(id=0, address="a:1"), NodeSettings(id=1, address="b:1"), NodeSettings(id=5, address="c:1")
    >>> shared_settings(ClusterSettings(cluster="demo", nodes=one))["nodes"]
    '0-1,5'
    """
    voting = settings.voting
    return {
        "nodes": _ranges(settings.ids),
        "partition": settings.partition,
        "voters": _ranges(voting) if voting is not None else "none",
        # Who is cut off must know it before another one suspects somebody, whichever node that is.
        **{
            f"detection.{name}": f"{value:g}"
            for name, value in msgspec.structs.asdict(settings.detection).items()
        },
    }


def _ranges(ids: tuple[int, ...]) -> str:
    """Ids in few words; of very many, the first, and a digest of all."""
    parts: list[list[int]] = []
    for number in sorted(ids):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    text = ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)
    return text if len(text) <= 200 else f"{text[:180]}… ({len(ids)} nodes, {mix(*sorted(ids)):016x})"
