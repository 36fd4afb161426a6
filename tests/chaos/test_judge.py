"""What is found in the record of a chaos run, and how long recoveries took: on records made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from vcubeps.chaos import record as records
from vcubeps.chaos.judge import findings
from vcubeps.chaos.plan import Fault
from vcubeps.chaos.record import Crash, Done, Options, Problem, Record, Restart
from vcubeps.chaos.recovery import recoveries

NODES = 4
END_S = 60.0
KILL = Fault(0, 10.0, "kill", (1,), 2.0)
PAIR = Fault(1, 30.0, "pair", (2, 3), 5.0, (), "silent")
ISOLATE = Fault(2, 30.0, "isolate", (3,), 5.0, ((0, 1, 2),), "silent")
THIRDS = Fault(3, 30.0, "thirds", (0,), 4.0, ((1, 2), (3,)), "silent")


def pulses(*silences: tuple[float, float]) -> list[tuple[float, float]]:
    """Four a second, acknowledged at once; those that are published in a silence, when it ends."""
    found = []
    for quarter in range(int(4 * END_S)):
        at_s = quarter / 4
        ends_s = [end_s for begin_s, end_s in silences if begin_s <= at_s < end_s]
        found.append((at_s, max(ends_s, default=at_s) + 0.01))
    return found


def made(*faults: Fault, **silences: tuple[float, float]) -> Record:
    """A run with these faults; silences by node, as n1=(10.0, 15.0)."""
    return Record(
        Options(1, NODES, END_S, 8.0, ("kill",), 4.0),
        list(faults),
        done=[Done(fault, fault.at_s, fault.ends_s) for fault in faults],
        pulses={
            node: pulses(*([silences[f"n{node}"]] if f"n{node}" in silences else [])) for node in range(NODES)
        },
        settled_s=55.0,
        last_healed_s=max((fault.ends_s for fault in faults), default=0.0),
        ended_s=END_S,
    )


def kinds(record: Record) -> list[str]:
    return [problem.kind for problem in findings(record)]


def test_a_run_in_which_all_went_on_has_no_findings() -> None:
    assert findings(made(KILL, PAIR, n1=(10.0, 15.0))) == []


def test_recovery_is_told_from_the_beginning_for_the_living_and_from_the_end_for_the_victims() -> None:
    run = made(KILL, n0=(10.0, 12.5), n1=(10.0, 15.0))
    run.crashes.append(Crash(11.8, 0, 1, 0, "silent"))

    [found] = recoveries(run)

    assert found.detected_s == pytest.approx(1.8)
    assert found.living_s == pytest.approx(2.51)
    assert found.back_s == pytest.approx(3.01)


def test_nobody_is_owed_progress_where_no_side_has_a_quorum() -> None:
    run = made(THIRDS, **{f"n{node}": (30.0, 34.5) for node in range(NODES)})

    [found] = recoveries(run)

    assert found.living_s is None
    assert found.back_s == pytest.approx(0.51)
    assert findings(run) == []


def test_who_is_harmed_by_another_fault_meanwhile_is_not_waited_for() -> None:
    stop = Fault(1, 9.0, "stop", (2,), 8.0)
    run = made(stop, KILL, n0=(9.0, 12.0), n1=(10.0, 15.0), n2=(9.0, 17.5))

    stopped, killed = recoveries(run)

    assert killed.living_s == pytest.approx(2.01)
    assert killed.back_s == pytest.approx(3.01)
    assert stopped.living_s == pytest.approx(3.01)
    assert stopped.back_s == pytest.approx(0.51)


def test_a_node_that_lives_and_has_nothing_acknowledged_for_long_is_stuck() -> None:
    assert kinds(made(KILL, n0=(20.0, 31.0))) == ["stuck"]
    assert kinds(made(KILL, n0=(20.0, 29.0))) == []


def test_a_node_that_does_not_go_on_until_the_end_is_stuck() -> None:
    run = made(PAIR)
    run.pulses[0] = [pulse for pulse in run.pulses[0] if pulse[0] < 40.0]

    assert kinds(run) == ["stuck"]


def test_a_victim_may_be_away_for_long_but_not_for_ever() -> None:
    run = made(KILL)
    run.ended_s = 90.0
    run.pulses = {node: [(at / 4, at / 4) for at in range(360)] for node in range(NODES)}
    run.pulses[1] = [pulse for pulse in run.pulses[1] if pulse[0] < 10.0]

    assert kinds(run) == ["gone"]


def test_a_run_that_did_not_settle_is_stuck_unless_it_was_interrupted() -> None:
    run = made(KILL)
    run.settled_s = None

    assert kinds(run) == ["stuck"]
    run.was_interrupted = True
    assert kinds(run) == []


def test_one_restart_of_a_node_that_was_cut_off_is_explained_but_not_a_second() -> None:
    run = made(ISOLATE)
    run.restarts.append(Restart(36.0, 3, 1, "taken for crashed"))
    assert findings(run) == []

    run.restarts.append(Restart(37.0, 3, 2, "taken for crashed"))
    assert kinds(run) == ["restart"]


@pytest.mark.parametrize("restart", [Restart(36.0, 2, 1, "…"), Restart(20.0, 3, 1, "…")])
def test_a_restart_of_another_node_or_before_the_fault_is_not_explained(restart: Restart) -> None:
    run = made(ISOLATE)
    run.restarts.append(restart)

    assert kinds(run) == ["restart"]


def test_a_pair_that_is_cut_explains_no_restart() -> None:
    run = made(PAIR)
    run.restarts.append(Restart(33.0, 2, 1, "taken for crashed"))

    [problem] = findings(run)
    assert problem.kind == "restart"
    assert "node 2 started again at 33.0 s, as incarnation 1 (taken for crashed)" in problem.text


def test_what_was_seen_as_it_happened_is_found_too() -> None:
    run = made()
    run.problems.append(Problem("order", "node 1: read ⟨0, 3⟩ again"))

    assert findings(run) == [Problem("order", "node 1: read ⟨0, 3⟩ again")]


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    run = made(KILL, ISOLATE)

    run.write(tmp_path)

    assert records.read(tmp_path) == run
