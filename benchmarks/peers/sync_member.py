"""Members of one thread that publishes and receives in turn, and the loop that drives them."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from peers.place import Place
from peers.session import GREETING, TICK, Report, Session

REFUSED = 0.001
"""Seconds to wait for a delivery when the system takes no message now: it may have room again by then."""


class SyncMember(ABC):
    """A process of a system whose library is called from one thread."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.deliver: Callable[[Sequence[bytes]], None] | None = None
        """Set where latency counts: a library that calls back from threads of its own then gives this at once what
        comes, as the callback is the application; else `receive` hands over batches, which costs less."""

    @abstractmethod
    def open(self) -> None:
        """Connect and subscribe; others may come later."""

    @abstractmethod
    def publish(self, payload: bytes) -> bool:
        """Publish, or say False if there is no room now."""

    def flush(self) -> None:  # noqa: B027 - most libraries need nothing here
        """Send what was published: called after a burst, for libraries that are fastest with batches."""

    @abstractmethod
    def receive(self, timeout: float) -> Sequence[bytes]:
        """All payloads that are there; when there are none, wait for the first, at most so many seconds."""

    @abstractmethod
    def close(self) -> None:
        """Leave at once, without sending what is still queued."""

    def run(self, session: Session, report: Callable[[Report], None]) -> None:
        """Take part in a run from the first hello to the end."""
        if session.timed:
            self.deliver = session.take
        self.open()
        try:
            self._greet(session)
            time.sleep(session.until_start())
            session.start()
            self._work(session)
            report(session.report())
            while not session.closing:
                time.sleep(TICK)
        finally:
            self.close()

    def _greet(self, session: Session) -> None:
        while session.greeting():
            self.publish(session.hello())
            self.flush()
            session.take(self.receive(GREETING))

    def _work(self, session: Session) -> None:
        while not session.over:
            due = session.due()
            taken = 0
            while taken < due and self.publish(session.payload()):
                session.sent()
                taken += 1
            if taken:
                self.flush()
            session.take(self.receive(REFUSED if taken < due else session.pause()))
