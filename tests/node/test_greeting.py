"""Greetings: who may talk to whom, and the reason that both sides read if not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcubeps.node.frames import HEADER_BYTES, PROTOCOL_VERSION
from vcubeps.node.greeting import Cause, Greeting, Identity, Refusal, Refused, read_refusal
from vcubeps.node.machine import Machine
from vcubeps.node.settings import ClusterSettings, Detection, NodeSettings, shared_settings

SETTINGS = {"nodes": "0-2", "partition": "majority", "voters": "0-2"}

IDENTITY = Identity("town", 0, frozenset({1, 2}), 77, 5, SETTINGS)

SOUND: dict[str, Any] = {
    "magic": "vcubeps", "version": PROTOCOL_VERSION, "cluster": "town", "node": 1, "to": 0, "incarnation": 3,
    "instance": 99, "heard_instance": 77, "received": 12, "number": 1,
    "dead": -1, "settings": SETTINGS,
}  # fmt: skip


def encoded(**changes: object) -> bytes:
    return msgspec.msgpack.encode(list((SOUND | changes).values()))


def refused(body: bytes) -> Refusal:
    with pytest.raises(Refused) as caught:
        IDENTITY.check(memoryview(body))
    return caught.value.refusal


def test_a_sound_greeting_is_taken() -> None:
    assert IDENTITY.check(memoryview(encoded())) == Greeting(**SOUND)


def test_both_sides_understand_each_other() -> None:
    other = Identity("town", 1, frozenset({0, 2}), 99, 3, SETTINGS)
    greeting = IDENTITY.check(memoryview(other.greeting(0, 77, 12, 1, dead=-1)[HEADER_BYTES:]))
    assert greeting == Greeting(**SOUND)


@pytest.mark.parametrize(
    ("changes", "cause", "reason"),
    [
        ({"magic": "kafka"}, Cause.NOT_THIS_PROTOCOL, "not one of VCube-PS"),
        ({"version": 9}, Cause.VERSION, "node 0 speaks version 3 of the protocol and the caller version 9: run"),
        ({"cluster": "village"}, Cause.CLUSTER, "node 0 belongs to cluster 'town' and the caller to 'village'"),
        ({"to": 2}, Cause.WRONG_NODE, "this is node 0 and the caller wants node 2: correct the addresses"),
        ({"node": 0}, Cause.TAKEN, "node 0 runs already, with another process: give each its own id"),
        ({"node": 9}, Cause.STRANGER, "node 9 is not in the cluster file of node 0: add it there"),
        ({"incarnation": -1}, Cause.MALFORMED, "numbers that cannot be"),
        ({"incarnation": 1 << 40}, Cause.MALFORMED, "numbers that cannot be"),
        ({"received": -1}, Cause.MALFORMED, "numbers that cannot be"),
        ({"number": -1}, Cause.MALFORMED, "numbers that cannot be"),
        ({"dead": -2}, Cause.MALFORMED, "the greeting calls incarnation -2 crashed"),
        ({"dead": 1 << 40}, Cause.MALFORMED, "the greeting calls incarnation"),
        ({"node": "one"}, Cause.MALFORMED, "the greeting cannot be read: Expected `int`, got `str`"),
    ],
)  # fmt: skip
def test_a_greeting_that_does_not_fit_is_refused_with_the_reason(
    changes: dict[str, object], cause: Cause, reason: str
) -> None:
    refusal = refused(encoded(**changes))
    assert refusal.cause is cause
    assert reason in refusal.reason


def test_a_later_version_that_greets_with_other_fields_is_told_so() -> None:
    refusal = refused(msgspec.msgpack.encode(["vcubeps", 4, {"cluster": "town"}]))
    assert refusal.cause is Cause.VERSION


@pytest.mark.parametrize(
    ("theirs", "difference"),
    [
        ({"nodes": "0-3"}, "nodes is 0-2 at node 0 and 0-3 at node 1"),
        ({"partition": "continue"}, "partition is majority at node 0 and continue at node 1"),
        ({"voters": "0-1", "nodes": "x"}, "nodes is 0-2 at node 0 and x at node 1; voters is 0-2 at node 0 and 0-1"),
        ({"later": "on"}, "later is not set at node 0 and on at node 1"),
        ({"nodes": "9" * 4000}, "nodes is 0-2 at node 0 and 99999"),
    ],
)  # fmt: skip
def test_files_that_differ_are_refused_with_the_difference(theirs: dict[str, str], difference: str) -> None:
    refusal = refused(encoded(settings=SETTINGS | theirs))
    assert refusal.cause is Cause.SETTINGS
    assert difference in refusal.reason
    assert refusal.reason.endswith("use the same file everywhere")
    assert len(refusal.reason) < 500


@given(st.binary(max_size=100))
def test_any_bytes_are_refused_in_words(body: bytes) -> None:
    assert refused(body).cause in (Cause.NOT_THIS_PROTOCOL, Cause.MALFORMED)


def test_a_long_name_of_a_cluster_is_cut_in_the_reason() -> None:
    assert len(refused(encoded(cluster="x" * 3000)).reason) < 400


def test_a_refusal_is_read_as_it_was_written() -> None:
    refusal = Refusal(Cause.CLUSTER, "another cluster")
    assert read_refusal(memoryview(refusal.framed()[HEADER_BYTES:])) == refusal


@given(st.binary(max_size=50))
def test_a_refusal_that_cannot_be_read_is_one_all_the_same(body: bytes) -> None:
    assert isinstance(read_refusal(memoryview(body)), Refusal)


def test_who_connects_and_does_not_greet_is_late_and_not_malformed() -> None:
    nodes = (NodeSettings(id=0, address="a:1"), NodeSettings(id=1, address="b:1"))
    machine = Machine(ClusterSettings(cluster="two", nodes=nodes), 0, 0, 1, 0.0)
    machine.start(0.0)

    connection = machine.accepted("somebody:9", 1.0)
    machine.tick(1.0 + machine.settings.timing.connect_timeout_s)

    assert machine.links.refused == {Cause.LATE: 1}
    assert connection.is_ended


def test_nodes_must_agree_on_how_crashes_are_found_out() -> None:
    """Contact has to run out at one node before any other suspects it."""
    nodes = (NodeSettings(id=0, address="a:1"), NodeSettings(id=1, address="b:1"))
    usual, slow = (
        shared_settings(ClusterSettings(cluster="c", nodes=nodes, detection=detection))
        for detection in (Detection(), Detection(contact_s=5.0, suspect_after_s=6.0))
    )

    assert {name: (usual[name], slow[name]) for name in usual if usual[name] != slow[name]} == {
        "detection.contact_s": ("1.25", "5"),
        "detection.suspect_after_s": ("1.75", "6"),
    }
