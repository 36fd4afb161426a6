"""A node that has failed does nothing any more: it sends nothing, acknowledges nothing and has no connections."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from vcubeps.node import outputs as out
from vcubeps.node.connection import Connection
from vcubeps.node.errors import NodeError
from vcubeps.node.lifecycle import Life
from vcubeps.node.machine import Machine
from vcubeps.node.settings import ClusterSettings, NodeSettings
from vcubeps.node.topics import Reader
from vcubeps.protocol.errors import UsageError
from vcubeps.protocol.peer import Peer
from vcubeps.sim.explore.nodes.scenarios import SCENARIOS, Scenario
from vcubeps.sim.explore.nodes.search import run_operations
from vcubeps.sim.explore.nodes.transcript import Transcript

SENT = (out.Write, out.WriteAll, out.Dial, out.Store, out.Delivered)

SETTINGS = ClusterSettings(
    cluster="two", nodes=(NodeSettings(id=0, address="a:1"), NodeSettings(id=1, address="b:1"))
)


class Record(Transcript):
    def __init__(self) -> None:
        super().__init__()
        self.outputs: list[tuple[float, int, Any]] = []

    def output(self, now_s: float, node: int, output: Any) -> None:
        self.outputs.append((now_s, node, output))


def test_an_internal_error_ends_a_node_and_nothing_is_sent_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    receive, received = Peer.receive, []

    def fails(self: Peer, sender: int, message: object, size_max: int) -> Any:
        if self.node == 5:
            received.append(message)
            if len(received) == 100:
                raise RuntimeError("a mistake")
        return receive(self, sender, message, size_max)

    monkeypatch.setattr(Peer, "receive", fails)
    record, scenario = Record(), Scenario("", (), until_s=5.0)
    outcome = run_operations(1, scenario.setup, scenario.operations, record)

    assert outcome.violated == ("failed",)
    ((failed_at, failed),) = [(k, o) for k, (_, n, o) in enumerate(record.outputs) if type(o) is out.Failed]
    assert "node 5 has a fault and takes no further part: RuntimeError('a mistake')" in failed.reason
    assert not [o for _, node, o in record.outputs[failed_at:] if node == 5 and isinstance(o, SENT)]
    assert len(received) == 100, "it goes on taking messages in"


def test_a_store_that_fails_ends_a_node_before_its_new_incarnation_is_heard_of() -> None:
    record, scenario = Record(), SCENARIOS["full-disk"]
    outcome = run_operations(1, scenario.setup, scenario.operations, record)

    assert outcome.violated == ()
    of_five = [output for _, node, output in record.outputs if node == 5]
    stored = next(place for place, output in enumerate(of_five) if type(output) is out.Store)
    assert not [output for output in of_five[stored + 1 :] if isinstance(output, SENT)]
    assert type(of_five[-1]) is out.Failed


def restarted(machine: Machine) -> None:
    """Make `machine` start again, as if the others had taken it for crashed."""
    machine.standing.begin(1001.0)
    machine.exchange.carry_out(machine.peer.restart())
    machine.standing.end()


def test_nothing_is_given_out_until_the_incarnation_is_stored() -> None:
    machine = Machine(SETTINGS, 0, 0, 1, 1000.0)
    machine.start(1000.0)
    machine.take_outputs()
    restarted(machine)

    assert type(machine.take_outputs()[-1]) is out.Store
    machine.tick(1002.0)
    assert machine.take_outputs() == []
    machine.stored(1002.1)
    assert machine.take_outputs()


def test_a_node_that_has_failed_refuses_every_call() -> None:
    machine = Machine(SETTINGS, 0, 0, 1, 1000.0)
    machine.start(1000.0)
    machine.fault(RuntimeError("x"))

    assert machine.life is Life.FAILED
    assert machine.next_tick_s == math.inf
    with pytest.raises(Exception, match="node 0 has ended: open it again"):
        machine.subscribe("room", Reader(1, 1), 1001.0)
    machine.close(1001.0)
    connection = machine.accepted("somebody", 1001.0)
    outputs = machine.take_outputs()
    assert connection.is_ended
    assert not [output for output in outputs if isinstance(output, SENT)]


def a_node_in_contact() -> Machine:
    """Alone, and a member of a topic."""
    settings = ClusterSettings(cluster="c", nodes=(NodeSettings(id=0, address="n0:1"),))
    machine = Machine(settings, 0, 0, 1, 1000.0)
    machine.start(1000.0)
    machine.subscribe("room", Reader(10, 1000), 1000.0)
    machine.take_outputs()
    return machine


INPUTS: dict[str, tuple[str, str, Callable[[Machine], object]]] = {
    "accepted": ("links", "accepted", lambda machine: machine.accepted("x", 1001.0)),
    "opened": ("links", "opened", lambda machine: machine.opened(Connection(1), 1001.0)),
    "lost": ("links", "lost", lambda machine: machine.lost(Connection(1), 1001.0)),
    "writable": ("links", "writable", lambda machine: machine.writable(Connection(1), 1001.0)),
    "received": ("links", "received", lambda machine: machine.received(Connection(1), 5, 1001.0)),
    "tick": ("standing", "begin", lambda machine: machine.tick(1001.0)),
    "end_turn": ("exchange", "release", lambda machine: machine.end_turn(1001.0)),
    "publish": ("exchange", "publish", lambda machine: machine.publish("room", b"m", 1001.0)),
    "subscribe": ("memberships", "subscribe", lambda m: m.subscribe("other", Reader(1, 1), 1001.0)),
    "unsubscribe": ("memberships", "unsubscribe", lambda m: m.unsubscribe("room", Reader(1, 1), 1001.0)),
    "read": ("memberships", "relieve", lambda machine: machine.read("room", 1001.0)),
    "close": ("standing", "close", lambda machine: machine.close(1001.0)),
}


@pytest.mark.parametrize("name", INPUTS)
def test_a_mistake_during_any_input_ends_the_node(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    part, method, make = INPUTS[name]
    machine = a_node_in_contact()

    def fails(*_: object) -> None:
        raise RuntimeError("a mistake")

    monkeypatch.setattr(type(getattr(machine, part)), method, fails)
    make(machine)

    outputs = machine.take_outputs()
    assert machine.life is Life.FAILED
    assert any(type(output) is out.Failed for output in outputs)
    assert not [output for output in outputs if isinstance(output, SENT)]


def test_a_node_that_fails_while_its_disk_is_waited_for_says_so() -> None:
    machine = Machine(SETTINGS, 0, 0, 1, 1000.0)
    machine.start(1000.0)
    restarted(machine)
    assert type(machine.take_outputs()[-1]) is out.Store

    machine.fault(RuntimeError("x"))

    outputs = machine.take_outputs()
    assert type(outputs[-1]) is out.Failed
    assert not [output for output in outputs if isinstance(output, SENT)]


@pytest.mark.parametrize("error", [UsageError("a mistake"), NodeError("a mistake")])
def test_what_would_be_the_applications_mistake_ends_a_node_where_no_application_asks(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = a_node_in_contact()

    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(type(machine.standing), "begin", fails)
    machine.tick(1001.0)

    assert machine.life is Life.FAILED


def test_what_the_application_does_wrong_ends_nothing() -> None:
    machine = a_node_in_contact()

    with pytest.raises(UsageError, match="cannot publish on 'nowhere' without a subscription"):
        machine.publish("nowhere", b"m", 1001.0)
    with pytest.raises(UsageError):
        machine.publish("room", "no bytes", 1001.0)  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        machine.subscribe("", Reader(1, 1), 1001.0)

    assert machine.life is Life.UP
