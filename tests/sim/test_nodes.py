"""Whole nodes under seeded faults: what they promise holds, and the world notices when a rule is left out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from node_ablations import ABLATIONS, CAMPAIGN_SEED
from vcubeps.node import backoff
from vcubeps.node import outputs as out
from vcubeps.node.connection import NOBODY
from vcubeps.node.detector import Detector
from vcubeps.node.frames import HEADER_BYTES, KIND_AT, Kind
from vcubeps.node.lifecycle import Life
from vcubeps.node.link import RELAYED_BYTES, Link, unpack_relayed
from vcubeps.node.links import Links
from vcubeps.node.machine import Machine
from vcubeps.protocol.outputs import Deliver, Restarted, Started
from vcubeps.sim.explore.campaigns import schedule_seed
from vcubeps.sim.explore.nodes.conduct import PROMISES, Conduct
from vcubeps.sim.explore.nodes.faults import FAULTS
from vcubeps.sim.explore.nodes.scenarios import FAULT_AT_S, SCENARIOS, Scenario
from vcubeps.sim.explore.nodes.schedule import Operation, draw_operations
from vcubeps.sim.explore.nodes.search import run_operations, run_schedule, shrink
from vcubeps.sim.explore.nodes.setup import Allowed, draw_setup
from vcubeps.sim.explore.nodes.transcript import Transcript

ANY = Allowed()


class Record(Transcript):
    """What happened, as values: seconds, node, what."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[tuple[float, int, Any]] = []

    def observed(self, now_s: float, node: int, what: object) -> None:
        super().observed(now_s, node, what)
        self.events.append((now_s, node, what))

    def output(self, now_s: float, node: int, output: Any) -> None:
        super().output(now_s, node, output)
        self.events.append((now_s, node, output))

    def of(self, kind: type) -> list[tuple[float, int, Any]]:
        return [event for event in self.events if type(event[2]) is kind]

    @property
    def restarts(self) -> Counter[int]:
        """Node → how often it has started again."""
        return Counter(node for _, node, _ in self.of(Restarted))

    def lives(self, node: int) -> list[tuple[float, Life]]:
        return [(now_s, what.life) for now_s, at, what in self.of(out.LifeChanged) if at == node]

    def stall_s(self, nodes: set[int], since_s: float, until_s: float) -> float:
        """Longest time without a delivery of anybody else's publications, at any of these nodes."""
        longest = 0.0
        for node in nodes:
            times = [
                now_s
                for now_s, at, what in self.of(Deliver)
                if at == node and what.source != node and since_s <= now_s <= until_s
            ]
            marks = [since_s, *times, until_s]
            longest = max(longest, *(later - earlier for earlier, later in pairwise(marks)))
        return longest


def played(scenario: Scenario, seed: int = 7) -> Record:
    """A scenario in which every promise is kept."""
    record = Record()
    outcome = run_operations(seed, scenario.setup, scenario.operations, record)
    assert [str(violation) for violation in outcome.violations] == []
    return record


# -- random schedules ------------------------------------------------------------------------------


@pytest.mark.parametrize("part", range(4))
def test_every_promise_is_kept_in_random_schedules(part: int) -> None:
    seeds = [schedule_seed(CAMPAIGN_SEED, index) for index in range(40 * part, 40 * part + 40)]

    failing = [
        (seed, outcome.violations[:1]) for seed in seeds if (outcome := run_schedule(seed, ANY)).violations
    ]

    assert failing == [], "replay with: vcubeps explore --world nodes --replay SEED"


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_every_promise_is_kept_under_each_fault_alone(fault: str) -> None:
    allowed = Allowed(nodes_max=6, faults=frozenset({fault}), always=frozenset({fault}))
    seeds = [schedule_seed(CAMPAIGN_SEED, index) for index in range(6)]

    assert [(seed, run_schedule(seed, allowed).violated) for seed in seeds] == [(seed, ()) for seed in seeds]


def test_a_large_world_holds() -> None:
    assert run_schedule(schedule_seed(CAMPAIGN_SEED, 1), Allowed(40, 40)).violations == ()


def test_what_a_process_asked_before_it_was_killed_is_not_blamed_on_an_outdated_one_after_it() -> None:
    """12:1 asks to be let in, and is killed; 12 starts as incarnation 1 once more and is refused; then the others can
    let the first one in."""
    assert run_schedule(288077457519764643, Allowed(faults=frozenset(FAULTS))).violated == ()


def test_a_schedule_is_its_seed() -> None:
    transcripts = []
    for _ in range(2):
        outcome, transcript = run_schedule(11, ANY), Transcript()
        run_operations(11, outcome.setup, outcome.operations, transcript)
        transcripts.append(transcript.lines)

    assert transcripts[0] == transcripts[1]
    assert len(transcripts[0]) > 50


def test_allowing_one_fault_more_leaves_the_others_as_they_were() -> None:
    few, more = (run_schedule(3, Allowed(faults=frozenset(names))) for names in (["kill"], ["kill", "late"]))

    assert few.setup.nodes == more.setup.nodes
    assert few.setup.faults == more.setup.faults - {"late"}


def test_a_fault_that_is_thought_of_later_changes_no_schedule_that_does_not_have_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seeds = range(30)
    before = [draw_operations(seed, draw_setup(seed, ANY)) for seed in seeds]

    monkeypatch.setitem(FAULTS, "aardvark", ("something eats the cables", 0.5))  # type: ignore[arg-type]

    assert [draw_operations(seed, draw_setup(seed, ANY)) for seed in seeds] == before


def test_operators_are_wrong_only_where_that_is_asked_for() -> None:
    asked, usual = Allowed(faults=frozenset(FAULTS)), ANY

    assert any("declare-dead" in draw_setup(seed, asked).faults for seed in range(50))
    assert not any("declare-dead" in draw_setup(seed, usual).faults for seed in range(50))


def test_applications_answer_from_inside_and_disks_are_instant_in_some_schedules() -> None:
    setups = [draw_setup(seed, ANY) for seed in range(50)]

    assert {bool(setup.answering) for setup in setups} == {False, True}
    assert {setup.has_instant_disk for setup in setups} == {False, True}


def test_what_large_messages_and_full_links_lead_to_happens_in_some_schedules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Parts, writes that are not joined, connections that are paused and go on, links that hold too much, relays that
    drop what they cannot write, and applications that are too slow."""
    seen: Counter[str] = Counter()

    def counts(kind: type, method: str, what: str) -> None:
        original = getattr(kind, method)

        def counting(*arguments: Any) -> Any:
            seen[what] += 1
            return original(*arguments)

        monkeypatch.setattr(kind, method, counting)

    def relay(self: Link, *parts: bytes | memoryview) -> None:
        seen["dropped"] += self.connection is not None and self.connection.is_paused
        relays(self, *parts)

    relays = Link.relay
    monkeypatch.setattr(Link, "relay", relay)
    counts(Link, "on_part", "part")
    counts(Machine, "writable", "writable")
    counts(Machine, "on_room", "room")
    outputs: list[type] = []
    monkeypatch.setattr(Conduct, "output", lambda self, now_s, process, output: outputs.append(type(output)))
    allowed = Allowed(always=frozenset({"bulk", "pairs", "stuck"}))
    for index in range(40):
        run_schedule(schedule_seed(CAMPAIGN_SEED, index), allowed)

    assert min(seen[what] for what in ("dropped", "part", "writable", "room")) > 0
    assert {out.WriteAll, out.TooSlow} <= set(outputs)


def test_messages_travel_over_trees_in_some_schedules_and_straight_in_others() -> None:
    limits = {draw_setup(seed, ANY).settings().limits.flat_recipients_max for seed in range(20)}

    assert limits == {0, 16}


def test_an_application_that_is_called_with_a_message_answers_within_the_same_turn() -> None:
    talk = Scenario(
        "", (Operation(2.0, "publish", 0, "a"),), 1.0, nodes=(0, 1), starts=(0, 1), members=(0, 1)
    )
    record = Record()
    for seed in range(20):  # it answers some of them
        run_operations(seed, replace(talk.setup, answering=(1,)), talk.operations, record)

    heard = [at_s for at_s, node, what in record.of(out.Delivered) if (node, what.batch.source) == (1, 0)]
    answered = [at_s for at_s, node, _ in record.of(Started) if node == 1]
    assert len(heard) == 20
    assert 0 < len(answered) < 20
    assert set(answered) <= set(heard)


@pytest.mark.parametrize("is_instant", [False, True])
def test_a_new_incarnation_says_nothing_before_the_disk_has_it(is_instant: bool) -> None:
    record = Record()
    scenario = SCENARIOS["stopped"]
    setup = replace(scenario.setup, has_instant_disk=is_instant)
    run_operations(7, setup, scenario.operations, record)

    (stored_s,) = [at_s for at_s, node, _ in record.of(out.Store) if node == 5]
    said_s = min(at_s for at_s, node, _ in record.of(out.Write) if node == 5 and at_s > stored_s)
    assert (said_s - stored_s > setup.delay_s) is not is_instant


# -- the world has power ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ABLATIONS)
def test_rule_that_is_left_out_is_missed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ablation = ABLATIONS[name]
    seed = schedule_seed(CAMPAIGN_SEED, ablation.first)
    with monkeypatch.context() as patch:
        ablation.apply(patch)
        violated = run_schedule(seed, ablation.allowed).violated

    assert ablation.trips <= set(violated), f"look again with: python tests/node_ablations.py {name}"
    assert run_schedule(seed, ablation.allowed).violated == ()


def test_every_promise_of_whole_nodes_is_broken_by_some_ablation() -> None:
    assert {name for ablation in ABLATIONS.values() for name in ablation.trips} >= set(PROMISES)


def test_a_failing_schedule_is_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    ablation = ABLATIONS["no-indirect-probes"]
    ablation.apply(monkeypatch)
    found = run_schedule(schedule_seed(CAMPAIGN_SEED, ablation.first), ablation.allowed)

    small = shrink(found, "unharmed", runs_max=150)

    assert "unharmed" in small.violated
    assert len(small.operations) < len(found.operations) // 2
    assert any(operation.kind == "cut" for operation in small.operations)


def test_without_backing_off_a_node_would_start_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where relays are missing, and everybody goes on, two nodes that do not reach each other restart for ever."""
    monkeypatch.setattr(Detector, "_ask_others", lambda *_: None)
    lasting = Scenario("", (Operation(3.0, "cut", text="0/1", for_s=60.0),), 5.0, nodes=(0, 1, 2), starts=(0, 1, 2),
                       members=(0, 1, 2), partition="continue")  # fmt: skip
    restarts = []
    for pause_s in (backoff._PAUSE_S, 0.0):
        monkeypatch.setattr(backoff, "_PAUSE_S", pause_s)
        record = Record()
        run_operations(7, lasting.setup, lasting.operations, record)
        restarts.append(record.restarts.total())

    assert restarts[0] <= 16
    assert restarts[1] >= 2 * restarts[0]


# -- what real faults do ---------------------------------------------------------------------------


OTHERS = set(range(8)) - {5}


@pytest.mark.parametrize("name", ["kill", "power", "stopped"])
def test_a_node_that_is_gone_is_noticed_within_two_and_a_half_seconds(name: str) -> None:
    record = played(SCENARIOS[name])

    (at_s, _, crashed), *_ = record.of(out.Crashed)
    assert (crashed.node, crashed.incarnation) == (5, 0)
    assert "it has not answered for" in crashed.evidence
    assert FAULT_AT_S + 1.0 < at_s <= FAULT_AT_S + 2.5
    assert record.stall_s(OTHERS, FAULT_AT_S, 9.9) <= 3.0


def test_dead_nodes_are_found_in_one_round_however_many_they_are() -> None:
    record = played(SCENARIOS["kill-three"])

    assert record.stall_s({0, 1, 3, 4, 6}, FAULT_AT_S, 9.9) <= 3.0
    assert not record.restarts


def test_a_subscription_waits_for_one_detection_whoever_is_dead() -> None:
    record = played(SCENARIOS["join-late"])

    (joined_s,) = [at_s for at_s, node, _ in record.of(out.Joined) if node == 6]
    assert joined_s <= FAULT_AT_S + 3.0


def test_a_stopped_process_knows_before_it_says_anything() -> None:
    record = played(SCENARIOS["stopped"])

    assert record.restarts == {5: 1}
    lives = [life for at_s, life in record.lives(5) if at_s > FAULT_AT_S]
    assert lives == [Life.ISOLATED, Life.STARTING, Life.UP]
    assert not [
        at_s for at_s, node, _ in record.of(Started) if node == 5 and 9.0 <= at_s < record.lives(5)[-1][0]
    ]


def test_the_gap_is_told_when_the_subscription_is_in_effect_again() -> None:
    record = played(SCENARIOS["stopped"])

    (gap_s, node, _), *_ = record.of(out.Gap)
    (joined_s,) = [at_s for at_s, at, _ in record.of(out.Joined) if at == 5 and at_s > FAULT_AT_S]
    assert (node, gap_s) == (5, joined_s)
    started = {
        (at, counter): at_s for at_s, at, what in record.of(Started) for counter, _ in what.items
    }  # fmt: skip
    late = [
        (what.source, counter)
        for at_s, at, what in record.of(Deliver)
        if at == 5 and 9.0 < at_s < gap_s
        for counter, _ in what.items
        if started[what.source, counter] > FAULT_AT_S + 2.5
    ]
    assert late == [], "what was published when it counted as crashed"


def test_two_nodes_that_do_not_reach_each_other_talk_through_a_third() -> None:
    record = played(SCENARIOS["pair"])

    assert not record.restarts
    assert not record.of(out.Crashed)
    assert record.stall_s({2, 5}, FAULT_AT_S, 9.0) <= 2.0
    of_the_other = [at_s for at_s, at, what in record.of(Deliver) if (at, what.source) == (5, 2)]
    assert any(5.0 < at_s < 9.0 for at_s in of_the_other)


def test_what_a_relay_loses_of_acknowledgements_is_made_good_by_the_next_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody sends anything again, so nothing else would show the sender that all has arrived."""
    on_frame, relay = Links._on_frame, Link.relay
    answering: list[int] = []
    kept: list[int] = []

    def noticing(self: Links, connection: Any, kind: int, number: int, body: memoryview) -> None:
        is_question = kind == Kind.PING and connection.via != NOBODY
        answering.append(kind) if is_question else None
        on_frame(self, connection, kind, number, body)
        answering.clear()
        if is_question:
            kept.append(len(self.link(connection.other).outbox))

    def losing(self: Link, *parts: bytes | memoryview) -> None:
        whole = b"".join(parts)
        _, source, _, _ = unpack_relayed(whole)
        kind = whole[RELAYED_BYTES - HEADER_BYTES + KIND_AT]
        if kind != Kind.RECEIVED or answering or source != self._context.id:
            relay(self, *parts)

    monkeypatch.setattr(Links, "_on_frame", noticing)
    monkeypatch.setattr(Link, "relay", losing)
    played(Scenario("", (Operation(3.0, "cut", text="2/5", for_s=12.0),), until_s=8.0))

    assert max(kept) > 2
    assert kept[-8:] == [0] * 8, "both have nothing left once all is quiet"


@pytest.mark.parametrize("name", ["one-of-eight", "hears-only"])
def test_only_the_node_that_is_cut_off_starts_again(name: str) -> None:
    record = played(SCENARIOS[name])

    assert record.restarts == {5: 1}
    assert Life.ISOLATED in dict(map(reversed, record.lives(5)))  # type: ignore[call-overload]
    assert record.stall_s(OTHERS, FAULT_AT_S, 9.0) <= 3.0


def test_of_two_halves_the_one_with_the_smallest_node_goes_on() -> None:
    record = played(SCENARIOS["halves"])

    assert record.restarts == {4: 1, 5: 1, 6: 1, 7: 1}
    assert record.stall_s({0, 1, 2, 3}, FAULT_AT_S, 9.0) <= 3.0
    isolated_s = max(
        at_s for node in (4, 5, 6, 7) for at_s, life in record.lives(node) if life is Life.ISOLATED
    )
    assert isolated_s <= FAULT_AT_S + 2.0
    started = [at_s for at_s, node, _ in record.of(Started) if node >= 4 and isolated_s < at_s < 9.0]
    assert started == []


def test_both_halves_go_on_where_the_file_says_so_and_all_start_again() -> None:
    record = played(SCENARIOS["continue"])

    assert set(record.restarts) == set(range(8))
    assert record.stall_s(set(range(8)), FAULT_AT_S, 9.0) <= 3.5


def test_a_cut_that_comes_and_goes_makes_no_node_of_the_quorum_start_again() -> None:
    record = played(SCENARIOS["flapping"])

    assert set(record.restarts) <= {5, 6, 7}
    assert max(record.restarts.values()) <= 4


def test_a_rolling_restart_disturbs_nobody() -> None:
    record = played(SCENARIOS["rolling"])

    assert not record.restarts
    assert not record.of(out.Crashed)
    assert all(what.unacknowledged == {} for _, _, what in record.of(out.Closed))


def test_a_node_that_cannot_store_its_incarnation_ends() -> None:
    record = played(SCENARIOS["full-disk"])

    ((failed_s, node, failed),) = record.of(out.Failed)
    assert (node, failed.reason) == (5, "node 5 cannot go on as incarnation 1: the disk is full")
    assert not [what for at_s, at, what in record.events if at == 5 and at_s > failed_s]


def test_files_that_differ_are_told_at_once_on_both_sides() -> None:
    record = played(SCENARIOS["other-file"])

    told = {
        node for at_s, node, what in record.of(out.Log) if "cluster files differ" in what.text and at_s < 4.0
    }
    assert told == set(range(8))


def test_idle_nodes_say_no_more_than_twice_the_dimensions_in_an_interval() -> None:
    quiet = Scenario("", (Operation(12.0, "subscribe", 0, "a"),), until_s=1.0, members=())
    record = played(quiet)

    said = [node for at_s, node, what in record.of(out.Write) if 2.0 <= at_s < 12.0]
    intervals = 10.0 / quiet.setup.detection.ping_s
    assert 1.0 < len(said) / 8 / intervals <= 2 * 3
