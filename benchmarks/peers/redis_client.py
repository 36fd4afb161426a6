"""Redis: PUBLISH and SUBSCRIBE through one redis-server; redis-py, with hiredis as its parser where installed.

What is published in one burst goes to the server as one pipeline: a round trip per message would be all one measures.
"""

from __future__ import annotations

from pathlib import Path

import redis

from peers.place import TOPIC
from peers.sync_member import SyncMember

BATCH = 1024
"""Receive at most so many at once, so that a fast stream does not keep the thread from publishing."""

PIPELINE = 256
"""Publish at most so many in one round trip."""


class Member(SyncMember):
    """Variant `unbounded` keeps all that a slow subscriber has not yet read; `default` cuts it off at 32 MB.

    Redis has no way not to send a member its own messages: it receives them, and they do not count.
    """

    def open(self) -> None:
        self._client = redis.Redis(host="127.0.0.1", port=self.place.server_port)
        self._pipeline = self._client.pipeline(transaction=False)
        self._subscriber = self._client.pubsub()
        self._subscriber.subscribe(TOPIC)

    def publish(self, payload: bytes) -> bool:
        self._pipeline.publish(TOPIC, payload)
        if len(self._pipeline) == PIPELINE:
            self._pipeline.execute()
        return True

    def flush(self) -> None:
        self._pipeline.execute()

    def receive(self, timeout: float) -> list[bytes]:
        # One level below get_message, which makes a dictionary of every message, and which loses messages: with a
        # timeout, redis-py takes one that has come only in part for a broken connection, and opens a new one.
        arrived: list[bytes] = []
        connection = self._subscriber.connection
        while len(arrived) < BATCH and connection.can_read(0 if arrived else timeout):
            message = self._subscriber.parse_response()
            if message[0] == b"message":
                arrived.append(message[2])
        return arrived

    def close(self) -> None:
        self._subscriber.close()
        self._client.close()


def server_command(port: int, folder: Path, variant: str) -> list[str]:
    command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", str(folder)]
    if variant == "unbounded":
        # By default a subscriber that is 32 MB behind is cut off, and what it missed is lost.
        command += ["--client-output-buffer-limit", "pubsub 0 0 0"]
    return command
