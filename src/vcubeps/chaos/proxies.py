"""The network between the nodes of a chaos run: every connection passes here, or does not.

There is a way for each ordered pair of nodes, with an address of its own, which is what the dialling node's cluster
file has for the other. What passes is decided by who sends to whom, whoever dialled. A *silent* cut is a network that
loses everything: bytes and ends of connections wait, as TCP makes them wait, and nobody is told. Where a cut is
*refused*, connections are reset and new ones end at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable
from typing import cast

Pair = tuple[int, int]
"""From whom, to whom."""


class Proxies:
    """All ways. Faults may overlap: a way is open when every cut of it has been healed."""

    def __init__(self) -> None:
        self._held: Counter[Pair] = Counter()
        self._refused: Counter[Pair] = Counter()
        self._targets: dict[int, tuple[str, int]] = {}
        self._servers: list[asyncio.Server] = []
        self.passages: set[Passage] = set()
        """Living connections."""

    async def open(self, targets: dict[int, tuple[str, int]]) -> dict[Pair, str]:
        """Take connections for nodes that listen at `targets`; the address of every way."""
        self._targets = targets
        addresses: dict[Pair, str] = {}
        loop = asyncio.get_running_loop()
        for pair in [(one, other) for one in targets for other in targets if one != other]:
            server = await loop.create_server(self._accepting(pair), "127.0.0.1", 0)
            self._servers.append(server)
            host, port = server.sockets[0].getsockname()
            addresses[pair] = f"{host}:{port}"
        return addresses

    def _accepting(self, pair: Pair) -> type[asyncio.Protocol]:
        def accept() -> asyncio.Protocol:
            return Passage(self, pair).near

        return cast("type[asyncio.Protocol]", accept)

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        for passage in list(self.passages):
            passage.abort()
        await asyncio.sleep(0)  # aborted transports report their loss in the next turn

    # -- faults --------------------------------------------------------------------------------

    def cut(self, pairs: Collection[Pair], manner: str) -> None:
        (self._refused if manner == "refused" else self._held).update(pairs)
        if manner == "refused":
            self.reset(pairs)
        self._renew(pairs)

    def heal(self, pairs: Collection[Pair], manner: str) -> None:
        (self._refused if manner == "refused" else self._held).subtract(pairs)
        self._renew(pairs)

    def reset(self, pairs: Iterable[Pair]) -> None:
        """Both ends of all connections of these pairs lose them."""
        ended = {frozenset(pair) for pair in pairs}
        for passage in list(self.passages):
            if frozenset(passage.pair) in ended:
                passage.abort()

    def _renew(self, pairs: Iterable[Pair]) -> None:
        concerned = {frozenset(pair) for pair in pairs}
        for passage in list(self.passages):
            if frozenset(passage.pair) in concerned:
                passage.renew()

    # -- what passages ask ---------------------------------------------------------------------

    def is_held(self, pair: Pair) -> bool:
        return self._held[pair] > 0

    def is_refused(self, pair: Pair) -> bool:
        """Of either direction: a handshake needs both."""
        return self._refused[pair] > 0 or self._refused[pair[::-1]] > 0

    def target(self, node: int) -> tuple[str, int]:
        return self._targets[node]


class Passage:
    """One connection from a node to another: `near` is what the first dialled, `far` goes on to the second."""

    def __init__(self, proxies: Proxies, pair: Pair) -> None:
        self.proxies = proxies
        self.pair = pair
        self.near, self.far = _End(self, pair), _End(self, pair[::-1])
        self._dialling: asyncio.Task[None] | None = None
        self._is_over = False

    def accepted(self) -> None:
        if self.proxies.is_refused(self.pair):
            self.abort()
            return
        self.proxies.passages.add(self)
        self.renew()

    def renew(self) -> None:
        """What the network lets pass may have changed."""
        if self._is_over:
            return
        held = self.proxies.is_held
        is_made = self.far.transport is not None
        if not is_made and self._dialling is None and not held(self.pair) and not held(self.pair[::-1]):
            self._dialling = asyncio.get_running_loop().create_task(self._dial())
        for end in (self.near, self.far):
            end.let_pass(is_made and not held(end.way))

    async def _dial(self) -> None:
        try:
            host, port = self.proxies.target(self.pair[1])
            await asyncio.get_running_loop().create_connection(lambda: self.far, host, port)
        except OSError:
            self.abort()
        else:
            self.renew()

    def heard_the_end(self, end: _End) -> None:
        """The other side hears of it if that gets through."""
        other = self.far if end is self.near else self.near
        if other.transport is None or other.is_lost:
            self.abort()
        elif end.passes:
            other.transport.close()

    def abort(self) -> None:
        self._is_over = True
        self.proxies.passages.discard(self)
        if self._dialling is not None and not self._dialling.done():
            self._dialling.cancel()
        for end in (self.near, self.far):
            if end.transport is not None:
                end.transport.abort()

    def other(self, end: _End) -> _End:
        return self.far if end is self.near else self.near


class _End(asyncio.Protocol):
    """One of the two connections of a passage. What it reads goes the way `way`."""

    def __init__(self, passage: Passage, way: Pair) -> None:
        self._passage = passage
        self.way = way
        self.transport: asyncio.Transport | None = None
        self.is_lost = False
        self.passes = False
        self._is_full = False
        """The other end cannot take more at present."""
        self._reads = True
        self._early: list[bytes] = []
        """What was read although nothing was to be read: uvloop begins to read when the connection is made."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._regulate()
        if self is self._passage.near:
            self._passage.accepted()

    def data_received(self, data: bytes) -> None:
        if self.passes:
            self._write(data)
        else:
            self._early.append(data)
            if self.transport is not None:
                self.transport.pause_reading()

    def _write(self, data: bytes) -> None:
        other = self._passage.other(self).transport
        if other is not None and not other.is_closing():
            other.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._passage.heard_the_end(self)

    def pause_writing(self) -> None:
        self._passage.other(self).set_full(True)

    def resume_writing(self) -> None:
        self._passage.other(self).set_full(False)

    def let_pass(self, passes: bool) -> None:
        self.passes = passes
        while passes and self._early:
            self._write(self._early.pop(0))
        if self.is_lost:
            self._passage.heard_the_end(self)
        else:
            self._regulate()

    def set_full(self, is_full: bool) -> None:
        self._is_full = is_full
        self._regulate()

    def _regulate(self) -> None:
        """Read only what can go on."""
        reads = self.passes and not self._is_full
        if self.transport is None or self.transport.is_closing() or reads == self._reads:
            return
        self._reads = reads
        if reads:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()
