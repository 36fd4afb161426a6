"""The explorer: deterministic, replayable, independent of the number of processes, and able to find things."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from vcubeps.cli import main
from vcubeps.sim.explore import (
    CHECKER_NAMES,
    Allowed,
    Operation,
    campaign,
    draw_operations,
    draw_options,
    run_operations,
    run_schedule,
    schedule_seed,
)
from vcubeps.sim.explore.options import (
    AIMED,
    FAULTS,
    FEATURES,
    NODES_USUAL_MAX,
    OPERATIONS_LONG,
    OPTION_NAMES,
    VOTING,
)
from vcubeps.sim.explore.shrink import shrink
from vcubeps.sim.explore.trace import Trace
from vcubeps.sim.explore.world import World

Output = pytest.CaptureFixture[str]

ALL_FAULTS = frozenset(FAULTS)
CHURN = Allowed(only=frozenset({"joins", "leaves", "rejoins", "unordered", "heavy-tail", "reactive"}))


def seeds(count: int) -> list[int]:
    return [schedule_seed(7, index) for index in range(count)]


class TestDraws:
    def test_the_same_seed_gives_the_same_schedule(self) -> None:
        allowed = Allowed(faults=ALL_FAULTS)
        for seed in seeds(20):
            options = draw_options(seed, allowed)
            assert options == draw_options(seed, allowed)
            assert draw_operations(seed, options) == draw_operations(seed, options)

    def test_operations_come_in_order_of_time_and_name_existing_nodes(self) -> None:
        for seed in seeds(50):
            options = draw_options(seed, Allowed(faults=ALL_FAULTS))
            operations = draw_operations(seed, options)
            assert operations == sorted(operations, key=lambda operation: operation.time)
            assert {operation.node for operation in operations} <= set(options.nodes)

    def test_nodes_stay_within_what_the_user_allows(self) -> None:
        drawn = {len(draw_options(seed, Allowed(nodes_min=3, nodes_max=9)).nodes) for seed in seeds(300)}

        assert drawn <= set(range(3, 10))
        assert {4, 8} <= drawn

    def test_only_switches_on_exactly_what_it_names(self) -> None:
        for seed in seeds(20):
            options = draw_options(seed, Allowed(nodes_min=4, nodes_max=4, only=frozenset({"joins"})))
            assert options.nodes == (0, 1, 2, 3)
            assert options.fifo
            assert options.joins
            assert options.topics == 1
            assert not any((options.leaves, options.rejoins, options.bursts, options.slow_of_256))
            assert not any((options.reactive, options.crashes, options.suspicions, options.aimed))

    def test_without_faults_nobody_fails(self) -> None:
        kinds = {
            operation.kind
            for seed in seeds(100)
            for operation in draw_operations(seed, draw_options(seed, Allowed()))
        }

        assert kinds == {"subscribe", "unsubscribe", "publish"}

    def test_small_sharp_and_rich_configurations_both_come_up(self) -> None:
        drawn = [draw_options(seed, Allowed()) for seed in seeds(3000)]

        assert any(
            o.fifo and o.joins and not o.leaves and not o.rejoins and o.nodes == (0, 1, 2, 3) for o in drawn
        )
        assert any(not o.fifo and o.leaves and o.rejoins and o.topics > 1 and len(o.nodes) > 8 for o in drawn)

    def test_large_and_long_schedules_come_up_now_and_then(self) -> None:
        drawn = [draw_options(seed, Allowed()) for seed in seeds(3000)]
        large = [options for options in drawn if len(options.nodes) > NODES_USUAL_MAX]
        long = [options for options in drawn if options.operations >= OPERATIONS_LONG[0]]

        assert 0 < len(large) < 100
        assert max(len(options.nodes) for options in large) > 40
        assert 0 < len(long) < 100
        assert {options.topics for options in long} == {1}


class TestWorld:
    def test_a_schedule_replays_event_by_event(self) -> None:
        seed = seeds(1)[0]
        options = draw_options(seed, CHURN)
        operations = draw_operations(seed, options)
        first, second = Trace(), Trace()
        run_operations(seed, options, operations, "published", trace=first)
        run_operations(seed, options, operations, "published", trace=second)

        assert first.lines == second.lines
        assert len(first.lines) > len(operations)

    def test_publications_may_wait_for_a_release_and_leave_together(self) -> None:
        options = replace(draw_options(1, CHURN), nodes=(0, 1), founders=(0, 1), held=True)
        operations = [
            Operation(0, "subscribe", 0, "a"),
            *(Operation(1000 * round, "publish", 0, "a", 3) for round in range(1, 9)),
        ]
        trace = Trace()
        run_operations(1, options, operations, trace=trace)
        text = "\n".join(trace.lines)

        assert "publish a, more follow  ⇒ accepted" in text
        assert "release a  ⇒ STARTED" in text

    def test_operations_that_make_no_sense_are_skipped(self) -> None:
        options = replace(draw_options(1, CHURN), nodes=(0, 1), founders=(0, 1))
        nonsense = [
            Operation(0, "publish", 0, "a", 1),
            Operation(1, "unsubscribe", 0, "a"),
            Operation(2, "recover", 0),
            Operation(3, "subscribe", 0, "a"),
            Operation(4, "subscribe", 0, "a"),
        ]

        assert run_operations(1, options, nonsense).violations == ()

    def test_a_cut_may_name_nodes_that_shrinking_has_left_out(self) -> None:
        options = replace(draw_options(1, CHURN), nodes=(0, 1), founders=(0, 1))

        assert run_operations(1, options, [Operation(0, "cut", 0, "0 2|1 3", 500)]).violations == ()

    def test_what_is_sent_across_a_cut_arrives_when_it_is_healed(self) -> None:
        options = replace(draw_options(1, CHURN), nodes=(0, 1), founders=(0, 1), detector_delay=100_000)
        trace = Trace()
        run_operations(
            1, options, [Operation(0, "cut", 0, "0|1", 500), Operation(1, "subscribe", 0, "a")], trace=trace
        )

        [arrival] = [line for line in trace.lines if "⇐ 0 SUB a" in line]
        assert int(arrival.split()[0]) > 500

    def test_who_cannot_reach_a_node_takes_it_for_crashed(self) -> None:
        options = replace(draw_options(1, CHURN), nodes=(0, 1, 2), founders=(0, 1, 2), detector_delay=20)
        trace = Trace()
        outcome = run_operations(1, options, [Operation(0, "cut", 0, "0/1", 500)], trace=trace)

        suspicions = {tuple(line.split()[1:4]) for line in trace.lines if "suspect" in line}
        assert suspicions >= {("0", "suspect", "1"), ("1", "suspect", "0")}
        assert not any(node == "2" for node, *_ in suspicions)
        assert outcome.violations == ()

    def test_the_last_node_never_crashes(self) -> None:
        options = replace(draw_options(1, CHURN), nodes=(0, 1), founders=(0, 1))
        trace = Trace()
        crashes = [Operation(0, "crash", 0), Operation(1, "crash", 1)]
        outcome = run_operations(1, options, crashes, trace=trace)

        assert outcome.violations == ()
        assert sum(line.endswith("  crash") for line in trace.lines) == 1

    def test_a_peer_that_raises_ends_the_schedule_and_is_reported(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(self: object, sender: int, message: object) -> None:
            raise AssertionError("out of order")

        monkeypatch.setattr("vcubeps.sim.published.PublishedPeer.receive", broken)
        outcome = run_schedule(seeds(1)[0], CHURN, "published")

        assert outcome.violated == ("errors",)
        assert "AssertionError: out of order" in outcome.violations[0].text


class TestCampaigns:
    def test_the_result_does_not_depend_on_the_number_of_processes(self) -> None:
        alone = campaign(60, 7, CHURN, "published", jobs=1)
        together = campaign(60, 7, CHURN, "published", jobs=2)

        assert alone == together
        assert alone.failing_seeds

    def test_a_failing_seed_fails_again_on_its_own(self) -> None:
        result = campaign(20, 7, CHURN, "published")

        assert all(run_schedule(seed, CHURN, "published").violated for seed in result.failing_seeds)

    def test_the_published_algorithm_is_caught_in_every_way_it_can_fail(self) -> None:
        result = campaign(200, 7, CHURN, "published")
        found = {name for name, count in result.violations.items() if count}

        assert found >= {"causal", "fifo_reception", "liveness", "completeness", "views", "after_unsubscribe"}
        assert not found & {"integrity", "agreement", "errors"}

    def test_the_published_algorithm_holds_with_static_membership(self) -> None:
        static = Allowed(only=frozenset({"unordered", "heavy-tail", "reactive"}))

        assert campaign(60, 7, static, "published").failing_seeds == []

    def test_the_amended_protocol_holds_without_faults(self) -> None:
        assert campaign(200, 7, Allowed()).failing_seeds == []

    def test_the_amended_protocol_holds_with_faults(self) -> None:
        assert campaign(200, 7, Allowed(faults=ALL_FAULTS)).failing_seeds == []


class TestShrinking:
    def test_a_shrunk_schedule_is_smaller_and_breaks_the_same_promise(self) -> None:
        seed = next(s for s in seeds(50) if "completeness" in run_schedule(s, CHURN, "published").violated)
        found = run_schedule(seed, CHURN, "published")
        small = shrink(found, "completeness", "published")

        assert "completeness" in small.violated
        assert len(small.operations) < len(found.operations)
        assert len(small.operations) <= 12

    def test_no_operation_of_a_shrunk_schedule_can_be_left_out(self) -> None:
        seed = next(s for s in seeds(50) if "views" in run_schedule(s, CHURN, "published").violated)
        small = shrink(run_schedule(seed, CHURN, "published"), "views", "published")

        for position in range(len(small.operations)):
            rest = small.operations[:position] + small.operations[position + 1 :]
            assert "views" not in run_operations(seed, small.options, rest, "published").violated


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"faults": {"crush"}}, "unknown: crush"),
        ({"only": {"unorderd"}}, "unknown: unorderd"),
        ({"always": {"crash"}}, "need faults that are not allowed: crash"),
        ({"only": {"voters"}, "faults": {"crash"}}, "need faults that are not allowed: cut"),
        ({"nodes_min": 1}, "1 to 64 nodes: give a range within 2 to 64"),
        ({"nodes_min": 9, "nodes_max": 8}, "9 to 8 nodes"),
    ],
)
def test_what_cannot_be_allowed_is_refused(arguments: dict[str, Any], complaint: str) -> None:
    sets = {name: frozenset(value) if isinstance(value, set) else value for name, value in arguments.items()}

    with pytest.raises(ValueError, match=complaint):
        Allowed(**sets)


class TestCommand:
    OPTIONS = ("--algorithm", "published", "--only", "joins,leaves", "rejoins")
    PUBLISHED = ("explore", *OPTIONS, "--jobs", "1")

    def test_json_has_one_count_per_checker(self, capsys: Output) -> None:
        assert main([*self.PUBLISHED, "--schedules", "30", "--json"]) == 1

        captured = capsys.readouterr()
        answer = json.loads(captured.out)
        assert list(answer) == ["algorithm", "schedules", "violations", "failing_seeds"]
        assert answer["algorithm"] == "published"
        assert answer["schedules"] == 30
        assert list(answer["violations"]) == list(CHECKER_NAMES)
        assert answer["failing_seeds"]
        assert all(int(seed) >= 0 for seed in answer["failing_seeds"])

    def test_a_failure_prints_the_command_that_replays_it(self, capsys: Output) -> None:
        main([*self.PUBLISHED, "--schedules", "30"])
        command = capsys.readouterr().out.splitlines()[-1].split()

        assert command[:3] == ["vcubeps", "explore", "--replay"]
        assert main(command[1:]) == 1
        assert "VIOLATED" in capsys.readouterr().out

    def test_several_failing_seeds_are_named(self, capsys: Output) -> None:
        main([*self.PUBLISHED, "--schedules", "60"])
        [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("failing: ")]

        assert line.count(",") == 5
        assert ", …; replay the first with:" in line

    @pytest.mark.parametrize("as_json", [False, True])
    def test_an_interrupted_campaign_says_what_it_has_found(
        self, capsys: Output, monkeypatch: pytest.MonkeyPatch, as_json: bool
    ) -> None:
        ran = []

        def interrupt(self: World) -> None:
            ran.append(self)
            if len(ran) == 30:  # in the second chunk
                raise KeyboardInterrupt
            run(self)

        run = World.run
        monkeypatch.setattr(World, "run", interrupt)

        assert main([*self.PUBLISHED, "--schedules", "100", *(["--json"] if as_json else [])]) == 130

        captured = capsys.readouterr()
        assert ('"schedules": 25' if as_json else "25 schedules") in captured.out
        assert "interrupted" in captured.err

    def test_exit_code_0_and_zeros_if_nothing_was_violated(self, capsys: Output) -> None:
        arguments = ["--only", "reactive", "--algorithm", "published", "--schedules", "5", "--jobs", "1"]
        assert main(["explore", *arguments, "--json"]) == 0

        answer = json.loads(capsys.readouterr().out)
        assert set(answer["violations"].values()) == {0}
        assert answer["failing_seeds"] == []

    def test_replay_shrinks_unless_told_not_to(self, capsys: Output) -> None:
        main([*self.PUBLISHED, "--schedules", "30", "--json"])
        seed = str(json.loads(capsys.readouterr().out)["failing_seeds"][0])
        replay = ["explore", *self.OPTIONS, "--replay", seed]

        assert main(replay) == 1
        shrunk = capsys.readouterr().out
        assert main([*replay, "--no-shrink"]) == 1
        whole = capsys.readouterr().out
        assert len(shrunk.splitlines()) < len(whole.splitlines())
        assert "shrunk from" in shrunk
        assert "shrunk from" not in whole

    def test_replay_as_json(self, capsys: Output) -> None:
        main([*self.PUBLISHED, "--schedules", "30", "--json"])
        seed = json.loads(capsys.readouterr().out)["failing_seeds"][0]

        assert main(["explore", *self.OPTIONS, "--replay", str(seed), "--json"]) == 1
        answer = json.loads(capsys.readouterr().out)
        assert answer["seed"] == seed
        assert answer["violations"]
        assert answer["trace"]

    def test_replay_of_a_schedule_that_breaks_nothing_says_so(self, capsys: Output) -> None:
        assert main(["explore", "--algorithm", "published", "--only", "reactive", "--replay", "5"]) == 0
        assert "schedule 5 breaks no promise with these options" in capsys.readouterr().out

    def test_help_explains_every_option_of_a_schedule(self, capsys: Output) -> None:
        with pytest.raises(SystemExit) as leaving:
            main(["explore", "--help"])

        assert leaving.value.code == 0
        text = capsys.readouterr().out
        assert "examples:" in text
        assert all(f"  {name} " in text for name in OPTION_NAMES)

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (["--nodes", "1-4"], "--nodes 1-4 is outside 2 to 64"),
            (["--nodes", "2-65"], "--nodes 2-65 is outside 2 to 64"),
            (["--nodes", "9-3"], "--nodes 9-3 runs backwards"),
            (["--nodes", "many"], "--nodes 'many' is neither a number nor a range"),
            (["--nodes", ""], "--nodes '' is neither a number nor a range"),
            (["--faults", "fire"], "--faults: 'fire' cannot be part of a list of faults: choose among crash"),
            (["--faults", "crash,"], "--faults: '' cannot be part of a list of faults"),
            (["--faults", "none,crash"], "recover, suspect, cut, arrive, depart, or give none alone"),
            (["--replay", "5", "--jobs", "2"], "which --jobs says nothing about: leave --jobs out"),
            (["--schedules", "-1"], "-1 is outside 1 to"),
            (["--schedules", "0"], "0 is outside 1 to"),
            (["--seed", "-1"], "-1 is outside 0 to"),
            (["--replay", "-5"], "-5 is outside 0 to 9223372036854775807"),
            (["--replay", "9223372036854775808"], "9223372036854775808 is outside 0 to"),
            (["--replay", "x"], "'x' is not a whole number"),
            (["--jobs", "0"], "0 is outside 1 to"),
            (
                ["--algorithm", "perfect"],
                "--algorithm 'perfect' is unknown: choose among amended, checked, published",
            ),
            (["--only", "chaos"], "--only: 'chaos' is unknown: choose among absent"),
            (["--only", "stale-up"], "add --faults crash,recover,suspect"),
            (["--only", "crash"], "add --faults crash"),
            (["--always", "voters"], "--always voters needs faults that are not allowed: add --faults cut"),
            (["--always", "chaos"], "--always: 'chaos' is unknown: choose among absent"),
            (["--only", "joins", "--always", "leaves"], "give the options of both to --only"),
            (["--algorithm", "published", "--faults", "crash"], "leave --faults out"),
            (["--algorithm", "published", "--only", "crash"], "choose among absent"),
            (
                ["--algorithm", "published", "--always", "voters", "--faults", "cut"],
                "--always voters: the published algorithm is for nodes that do not fail",
            ),
            (["--only", "large", "--nodes", "2-16"], "--nodes 2-16 leaves no room for large schedules"),
        ],
    )
    def test_bad_input_is_refused_in_one_sentence(
        self, capsys: Output, arguments: list[str], sentence: str
    ) -> None:
        assert main(["explore", *arguments]) == 2

        captured = capsys.readouterr()
        assert captured.out == ""
        assert sentence in captured.err
        assert captured.err.count("\n") == 1


def test_every_option_has_a_name_of_its_own() -> None:
    assert len(OPTION_NAMES) == len({*FEATURES, *FAULTS, *AIMED, *VOTING})
