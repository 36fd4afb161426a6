"""Zenoh: peers that know each other's addresses, without scouting; its own threads call back with what arrives."""

from __future__ import annotations

import json
import queue

import zenoh

from peers.place import TOPIC
from peers.sync_member import SyncMember


class Member(SyncMember):
    """Variant `BLOCK` waits when a link is congested; `DROP` drops the message."""

    def open(self) -> None:
        addresses = [f"tcp/127.0.0.1:{port}" for port in self.place.ports]
        config = zenoh.Config()
        for key, value in {
            "mode": "peer",
            "scouting/multicast/enabled": False,
            "scouting/gossip/enabled": False,
            "listen/endpoints": [addresses[self.place.me]],
            # One of two connects: a second link between them would only be closed again.
            "connect/endpoints": addresses[: self.place.me],
        }.items():
            config.insert_json5(key, json.dumps(value))
        # A queue of Zenoh's own, FifoChannel, has no receive with a timeout and blocks the links when it is full.
        arrived: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._arrived = arrived
        deliver = self.deliver
        self._session = zenoh.open(config)
        self._subscriber = self._session.declare_subscriber(
            TOPIC,
            # Of one source, always one after the other; so the check of a delivery needs no lock.
            (lambda sample: deliver([sample.payload.to_bytes()]))
            if deliver
            else (lambda sample: arrived.put(sample.payload.to_bytes())),
            allowed_origin=zenoh.Locality.REMOTE,
        )
        self._publisher = self._session.declare_publisher(
            TOPIC,
            congestion_control=getattr(zenoh.CongestionControl, self.place.variant),
            allowed_destination=zenoh.Locality.REMOTE,
        )

    def publish(self, payload: bytes) -> bool:
        self._publisher.put(payload)
        return True

    def receive(self, timeout: float) -> list[bytes]:
        get = self._arrived.get
        try:
            first = get(True, timeout)
        except queue.Empty:
            return []
        return [first, *(get() for _ in range(self._arrived.qsize()))]

    def close(self) -> None:
        self._session.close()
