"""A node that has failed does nothing any more: it sends nothing, acknowledges nothing and has no connections."""

from __future__ import annotations

import math
from typing import Any

import pytest

from vcubeps.node import outputs as out
from vcubeps.node.lifecycle import Life
from vcubeps.node.machine import Machine
from vcubeps.node.settings import ClusterSettings, NodeSettings
from vcubeps.node.topics import Reader
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
