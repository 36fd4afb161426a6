"""ZeroMQ: a full mesh, every process one PUB socket, and one SUB socket connected to all others; polled, one thread."""

from __future__ import annotations

import math

import zmq

from peers.payload import TAG
from peers.sync_member import SyncMember

BATCH = 1024
"""Receive at most so many at once, so that a fast stream does not keep the thread from publishing."""


class Member(SyncMember):
    """Variant `NODROP` refuses a message when a peer's queue is full; `default` drops it for that peer."""

    def open(self) -> None:
        self._context = zmq.Context()
        self._publisher = self._context.socket(zmq.PUB)
        self._subscriber = self._context.socket(zmq.SUB)
        self._context.linger = 0
        if self.place.variant == "NODROP":
            self._publisher.setsockopt(zmq.XPUB_NODROP, 1)
        self._publisher.bind(f"tcp://127.0.0.1:{self.place.ports[self.place.me]}")
        self._subscriber.setsockopt(zmq.SUBSCRIBE, TAG)
        for other in self.place.others:
            self._subscriber.connect(f"tcp://127.0.0.1:{self.place.ports[other]}")

    def publish(self, payload: bytes) -> bool:
        try:
            self._publisher.send(payload, zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def receive(self, timeout: float) -> list[bytes]:
        if not self._subscriber.poll(math.ceil(timeout * 1000)):
            return []
        arrived = []
        receive = self._subscriber.recv
        try:
            for _ in range(BATCH):
                arrived.append(receive(zmq.NOBLOCK))
        except zmq.Again:
            pass
        return arrived

    def close(self) -> None:
        self._context.destroy(linger=0)
