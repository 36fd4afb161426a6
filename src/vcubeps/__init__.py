"""VCube-PS: topic-based publish/subscribe with causal order per topic and no broker.

import vcubeps

async with vcubeps.open("cluster.toml", node=3) as node:        # this process is node 3
    async with node.subscribe("room") as room:                  # in effect everywhere
        receipt = await room.publish(b"hello")                  # accepted
        await receipt.acknowledged()                            # every subscriber has received it
        async for message in room:                              # in causal order
            print(message.source, message.payload, message.after)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vcubeps.net.cluster import LocalCluster, WorkerFailed
    from vcubeps.net.config import ConfigError
    from vcubeps.net.errors import (
        Isolated,
        ListenError,
        NodeClosed,
        NodeError,
        NodeRefused,
        SlowSubscriber,
        SubscriptionClosed,
        Unacknowledged,
    )
    from vcubeps.net.events import (
        Crashed,
        Disconnected,
        Event,
        Gap,
        Joined,
        Left,
        LifeChanged,
        NodeEvent,
        Recovered,
        Suspected,
    )
    from vcubeps.net.message import Message
    from vcubeps.net.node import Node
    from vcubeps.net.opening import open_node as open
    from vcubeps.net.subscription import Receipt, Subscription
    from vcubeps.node.settings import ClusterSettings, Detection, Limits, NodeSettings, Timing
    from vcubeps.protocol.errors import UsageError

_HOMES = {
    "ClusterSettings": "vcubeps.node.settings",
    "ConfigError": "vcubeps.net.config",
    "Crashed": "vcubeps.net.events",
    "Detection": "vcubeps.node.settings",
    "Disconnected": "vcubeps.net.events",
    "Event": "vcubeps.net.events",
    "Gap": "vcubeps.net.events",
    "Isolated": "vcubeps.net.errors",
    "Joined": "vcubeps.net.events",
    "Left": "vcubeps.net.events",
    "LifeChanged": "vcubeps.net.events",
    "Limits": "vcubeps.node.settings",
    "ListenError": "vcubeps.net.errors",
    "LocalCluster": "vcubeps.net.cluster",
    "Message": "vcubeps.net.message",
    "Node": "vcubeps.net.node",
    "NodeClosed": "vcubeps.net.errors",
    "NodeError": "vcubeps.net.errors",
    "NodeEvent": "vcubeps.net.events",
    "NodeRefused": "vcubeps.net.errors",
    "NodeSettings": "vcubeps.node.settings",
    "Receipt": "vcubeps.net.subscription",
    "Recovered": "vcubeps.net.events",
    "SlowSubscriber": "vcubeps.net.errors",
    "Subscription": "vcubeps.net.subscription",
    "SubscriptionClosed": "vcubeps.net.errors",
    "Suspected": "vcubeps.net.events",
    "Timing": "vcubeps.node.settings",
    "Unacknowledged": "vcubeps.net.errors",
    "UsageError": "vcubeps.protocol.errors",
    "WorkerFailed": "vcubeps.net.cluster",
    "open": "vcubeps.net.opening",
}

__all__ = [
    "ClusterSettings", "ConfigError", "Crashed", "Detection", "Disconnected", "Event", "Gap", "Isolated",
    "Joined", "Left", "LifeChanged", "Limits", "ListenError", "LocalCluster", "Message", "Node", "NodeClosed",
    "NodeError", "NodeEvent", "NodeRefused", "NodeSettings", "Receipt", "Recovered", "SlowSubscriber",
    "Subscription", "SubscriptionClosed", "Suspected", "Timing", "Unacknowledged", "UsageError", "WorkerFailed",
    "open",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Loaded when first used: the simulator and Spark's workers import this package without the network runtime."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'vcubeps' has no attribute {name!r}")
    import importlib  # noqa: PLC0415

    value = getattr(importlib.import_module(home), "open_node" if name == "open" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
