"""The network of a chaos run: what passes, what waits, what is refused, and what is told of ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from net.live import on_uvloop, remains, run, until
from vcubeps.chaos.proxies import Proxies


class Station(asyncio.Protocol):
    """One end of a connection, and what it has heard."""

    def __init__(self) -> None:
        self.heard = b""
        self.is_lost = False
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True


class Network:
    """Nodes 0 and 1 that listen, behind proxies."""

    def __init__(self) -> None:
        self.proxies = Proxies()
        self.taken: dict[int, list[Station]] = {0: [], 1: []}
        self._servers: dict[int, asyncio.Server] = {}
        self._ways: dict[tuple[int, int], str] = {}

    async def open(self) -> None:
        targets = {}
        for node in (0, 1):
            server = await asyncio.get_running_loop().create_server(
                lambda node=node: self._take(node), "127.0.0.1", 0
            )
            self._servers[node] = server
            targets[node] = server.sockets[0].getsockname()
        self._ways = await self.proxies.open(targets)

    def _take(self, node: int) -> Station:
        self.taken[node].append(Station())
        return self.taken[node][-1]

    async def dial(self, one: int, other: int) -> Station:
        host, _, port = self._ways[one, other].rpartition(":")
        _, station = await asyncio.get_running_loop().create_connection(Station, host, int(port))
        return station

    async def connected(self, one: int, other: int) -> tuple[Station, Station]:
        dialler = await self.dial(one, other)
        dialler.transport.write(b"hello")
        await until(lambda: self.taken[other] and self.taken[other][-1].heard == b"hello", "the greeting")
        return dialler, self.taken[other][-1]

    def stop_listening(self, node: int) -> None:
        self._servers[node].close()

    async def close(self) -> None:
        for server in self._servers.values():
            server.close()
        for stations in self.taken.values():
            for station in stations:
                station.transport.abort()
        await self.proxies.close()
        await asyncio.sleep(0.01)


def on_a_network(main: Callable[[Network], Awaitable[None]], loop: Callable[[], object]) -> None:
    async def guarded() -> None:
        network = Network()
        await network.open()
        try:
            await main(network)
        finally:
            await network.close()

    run(guarded(), loop=loop)


@pytest.fixture(params=[asyncio.new_event_loop, on_uvloop], ids=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> Callable[[], object]:
    made: Callable[[], object] = request.param
    return made


def test_bytes_pass_in_both_directions_also_many(loop: Callable[[], object]) -> None:
    async def main(network: Network) -> None:
        dialler, listener = await network.connected(0, 1)
        many = bytes(range(256)) * 20_000

        dialler.transport.write(many)
        listener.transport.write(many)

        await until(lambda: listener.heard == b"hello" + many and dialler.heard == many)

    on_a_network(main, loop)


def test_what_is_sent_in_a_silent_cut_waits_and_comes_when_it_heals(loop: Callable[[], object]) -> None:
    async def main(network: Network) -> None:
        dialler, listener = await network.connected(0, 1)
        network.proxies.cut({(0, 1), (1, 0)}, "silent")

        dialler.transport.write(b" forth")
        listener.transport.write(b"back")

        await remains(lambda: listener.heard == b"hello" and dialler.heard == b"")
        network.proxies.heal({(0, 1), (1, 0)}, "silent")
        await until(lambda: listener.heard == b"hello forth" and dialler.heard == b"back")

    on_a_network(main, loop)


def test_a_one_way_cut_holds_what_one_node_sends_whoever_dialled(loop: Callable[[], object]) -> None:
    async def main(network: Network) -> None:
        dialler, listener = await network.connected(0, 1)
        network.proxies.cut({(1, 0)}, "silent")

        dialler.transport.write(b" forth")
        listener.transport.write(b"back")

        await until(lambda: listener.heard == b"hello forth")
        await remains(lambda: dialler.heard == b"")

    on_a_network(main, loop)


def test_a_connection_made_in_a_silent_cut_gets_through_when_it_heals(loop: Callable[[], object]) -> None:
    async def main(network: Network) -> None:
        network.proxies.cut({(1, 0)}, "silent")
        dialler = await network.dial(0, 1)
        dialler.transport.write(b"hello")

        await remains(lambda: not network.taken[1] and not dialler.is_lost)
        network.proxies.heal({(1, 0)}, "silent")
        await until(lambda: network.taken[1] and network.taken[1][0].heard == b"hello")

    on_a_network(main, loop)


def test_the_end_of_a_connection_is_not_heard_through_a_silent_cut(loop: Callable[[], object]) -> None:
    async def main(network: Network) -> None:
        dialler, listener = await network.connected(0, 1)
        network.proxies.cut({(0, 1), (1, 0)}, "silent")

        dialler.transport.abort()

        await remains(lambda: not listener.is_lost)
        network.proxies.heal({(0, 1), (1, 0)}, "silent")
        await until(lambda: listener.is_lost)

    on_a_network(main, loop)


def test_an_end_that_the_open_direction_reveals_is_not_passed_on_through_the_cut_one(
    loop: Callable[[], object],
) -> None:
    async def main(network: Network) -> None:
        dialler, listener = await network.connected(0, 1)
        network.proxies.cut({(0, 1)}, "silent")
        dialler.transport.abort()

        def says_something_and_hears_no_end() -> bool:
            listener.transport.write(b"are you there?")
            return not listener.is_lost

        await remains(says_something_and_hears_no_end)
        network.proxies.heal({(0, 1)}, "silent")
        await until(lambda: listener.is_lost)

    on_a_network(main, loop)


def test_who_sends_more_than_the_other_reads_is_made_to_wait(loop: Callable[[], object]) -> None:
    async def main(network: Network) -> None:
        dialler, listener = await network.connected(0, 1)
        listener.transport.pause_reading()
        many = bytes(32 << 20)

        dialler.transport.write(many)

        [passage] = network.proxies.passages
        far = passage.far.transport
        assert far is not None
        await until(lambda: far.get_write_buffer_size() > 0)
        await remains(lambda: far.get_write_buffer_size() < 4 << 20)
        listener.transport.resume_reading()
        await until(lambda: len(listener.heard) == len(b"hello") + len(many))

    on_a_network(main, loop)


def test_a_refused_cut_ends_connections_and_refuses_new_ones_until_it_heals(
    loop: Callable[[], object],
) -> None:
    async def main(network: Network) -> None:
        dialler, listener = await network.connected(0, 1)

        network.proxies.cut({(0, 1)}, "refused")

        await until(lambda: dialler.is_lost and listener.is_lost)
        refused = await network.dial(1, 0)
        await until(lambda: refused.is_lost)
        network.proxies.heal({(0, 1)}, "refused")
        await network.connected(0, 1)

    on_a_network(main, loop)


def test_a_way_that_was_cut_twice_is_open_when_both_have_healed(loop: Callable[[], object]) -> None:
    async def main(network: Network) -> None:
        dialler, listener = await network.connected(0, 1)
        network.proxies.cut({(0, 1)}, "silent")
        network.proxies.cut({(0, 1), (1, 0)}, "silent")
        dialler.transport.write(b" again")

        network.proxies.heal({(0, 1), (1, 0)}, "silent")
        await remains(lambda: listener.heard == b"hello")
        network.proxies.heal({(0, 1)}, "silent")

        await until(lambda: listener.heard == b"hello again")

    on_a_network(main, loop)


def test_a_reset_ends_the_connections_of_a_pair_and_no_others(loop: Callable[[], object]) -> None:
    async def main(network: Network) -> None:
        dialler, listener = await network.connected(0, 1)

        network.proxies.reset([(1, 0)])

        await until(lambda: dialler.is_lost and listener.is_lost)
        again, _ = await network.connected(0, 1)
        network.proxies.reset([(0, 2), (2, 1)])
        await remains(lambda: not again.is_lost)

    on_a_network(main, loop)


def test_who_dials_a_node_that_does_not_listen_loses_the_connection(loop: Callable[[], object]) -> None:
    async def main(network: Network) -> None:
        network.stop_listening(1)

        dialler = await network.dial(0, 1)

        await until(lambda: dialler.is_lost)
        assert not network.proxies.passages

    on_a_network(main, loop)
