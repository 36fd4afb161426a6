"""The mutation tester itself: its generator, its judge and its list of equivalent mutants."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from equivalent_mutants import EQUIVALENT
from mutant_bench import can_swap
from mutant_judge import ROOT, Judge, unit_tests
from mutant_sources import Mutant, mutants
from mutants import main

MODULES = sorted((ROOT / "src/vcubeps/protocol").glob("*.py"))

EXAMPLE = '''
"""Docstring with 1 and True."""

class Example:
    """1"""

    __slots__ = ("one",)

    def check(self) -> None:
        self.one = 1

    def method(self, limit: int = 3, loud: bool = False) -> int:
        total = 0
        while total < limit:
            total += max(limit, 2)
        if not loud and self.one:
            raise ValueError(f"{total + 1}", 1)
        for each in self.one:
            if each in loud: continue
            self.one.append(each)
        return total
'''


def made(source: str) -> set[str]:
    return {mutant.name.partition(":")[2] for mutant in mutants("example.py", source)}


def without_looks(source: str) -> str:
    """Without what may differ though the meaning is the same."""
    return re.sub(r"[\s()\"']", "", source)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_every_mutant_of_the_protocol_compiles_and_differs_under_names_of_its_own(path: Path) -> None:
    source = path.read_text()

    found = list(mutants(path.name, source))

    assert len({mutant.name for mutant in found}) == len(found)
    assert len({mutant.key for mutant in found}) == len(found)
    for mutant in found:
        compile(mutant.source, mutant.name, "exec")
        assert without_looks(mutant.source) != without_looks(source), mutant.name


def test_the_generator_changes_one_thing_at_a_time_and_leaves_texts_and_checks_alone() -> None:
    assert made(EXAMPLE) == {
        "12:constant:3→4", "12:constant:3→2", "12:constant:False→True",
        "13:constant:0→1", "13:constant:0→-1", "13:delete",
        "14:condition:False", "14:compare:<→<=",
        "15:delete", "15:call:max→min", "15:constant:2→3", "15:constant:2→1",
        "16:condition:True", "16:condition:False", "16:bool:and→or", "16:operand:1→True", "16:operand:2→True",
        "16:not:left out",
        "19:condition:True", "19:condition:False", "19:compare:in→not in",
        "20:delete",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("before", "mutation", "after"),
    [
        ("x = 'ä' or a < b", "compare:<→<=", "x = 'ä' or (a <= b)"),
        ("x = a < b < c", "compare:<→<=#2", "x = (a < b <= c)"),
        ("x = a and not b", "not:left out", "x = a and (b)"),
        ("x = a or b or c", "operand:2→False", "x = (a or c)"),
        ("x = d.get(k, -1)", "constant:-1→0", "x = d.get(k, (0))"),
        (
            "def f():\n    if a > b:\n        b = c",
            "compare:>→>=",
            "def f():\n    if (a >= b):\n        b = c",
        ),
        ("x = [a for a in b if a]", "condition:True", "x = [a for a in b if True]"),
    ],
)
def test_a_mutation_stands_in_the_place_of_what_it_changes(before: str, mutation: str, after: str) -> None:
    [mutant] = [each for each in mutants("example.py", before) if each.mutation == mutation]

    assert mutant.source == after


def test_to_raise_a_value_to_what_it_is_is_no_mutation() -> None:
    assert "1:compare:>→>=" not in made("if new > old.get(x, 0): old[x] = new")


def test_lines_of_a_function_that_look_the_same_have_the_lines_before_them_in_their_keys() -> None:
    source = "def f(x):\n    if x:\n        g()\n        return\n    h()\n    return\n    k()\n"

    keys = [mutant.key for mutant in mutants("m.py", source) if mutant.text.endswith("return")]

    assert keys == [("m.py", "f", "g() / return", "delete"), ("m.py", "f", "h() / return", "delete")]


def test_the_key_of_a_mutant_does_not_depend_on_where_its_line_is() -> None:
    moved = EXAMPLE.replace('"""Docstring', '"""\n\nDocstring')

    assert {mutant.key for mutant in mutants("m.py", EXAMPLE)} == {
        mutant.key for mutant in mutants("m.py", moved)
    }


def test_every_equivalent_mutant_is_still_one_that_can_be_made() -> None:
    keys = {mutant.key for path in MODULES for mutant in mutants(path.name, path.read_text())}

    stale = [key for key in EQUIVALENT if key not in keys]

    assert stale == [], "their lines have changed: think them over again, and correct or remove them"


def test_the_unit_tests_of_the_ladder_are_there_and_include_all_of_the_protocol() -> None:
    named = unit_tests()

    assert [name for name in named if not (ROOT / name).exists()] == []
    assert {name for name in named if name.startswith("tests/protocol")} == {
        str(path.relative_to(ROOT)) for path in ROOT.glob("tests/protocol/test_*.py")
    }


def find(judge: Judge, module: str, function: str, mutation: str) -> Mutant:
    return next(
        mutant
        for mutant in judge.mutants()
        if (mutant.module, mutant.function, mutant.mutation) == (module, function, mutation)
    )


def test_a_mutant_that_a_unit_test_notices_is_killed_by_it(tmp_path: Path) -> None:
    judge = Judge(tmp_path, 0, ["tests/protocol/test_usage.py"])

    [verdict] = judge.judge([find(judge, "limits.py", "check_payload", "condition:False")])

    assert verdict.verdict == "killed"
    assert verdict.by.startswith("FAILED tests/protocol/test_usage.py::test_")


def test_a_mutant_of_what_is_evaluated_when_a_module_is_loaded_is_judged_too(tmp_path: Path) -> None:
    judge = Judge(tmp_path, 0, ["tests/protocol/test_usage.py"])
    of_the_module = find(judge, "limits.py", "", "constant:255→256")
    of_a_default = find(judge, "validation.py", "_check_counter", "constant:0→1")
    assert not can_swap(of_the_module)
    assert not can_swap(of_a_default)

    verdicts = {verdict.name: verdict for verdict in judge.judge([of_the_module, of_a_default])}

    for mutant in (of_the_module, of_a_default):
        assert verdicts[mutant.name].verdict == "killed"
        assert "tests/protocol/test_usage.py::test_" in verdicts[mutant.name].by


def test_mutants_that_only_the_explorer_notices_are_killed_by_it(tmp_path: Path) -> None:
    judge = Judge(tmp_path, 3, ["tests/test_tables.py"])
    todo = [
        find(judge, "peer.py", "Peer._take_outputs", "delete"),
        find(judge, "topic.py", "Topic.add", "delete"),
    ]

    verdicts = list(judge.judge(todo, processes=2))

    assert {verdict.name for verdict in verdicts} == {mutant.name for mutant in todo}
    assert {verdict.verdict for verdict in verdicts} == {"killed"}
    assert all(verdict.by.startswith("BROKEN ") for verdict in verdicts)
    assert any("in schedule 0, crash-free" in verdict.by for verdict in verdicts)


def test_a_mutant_that_never_ends_is_killed(tmp_path: Path) -> None:
    judge = Judge(tmp_path, 0, ["tests/protocol/test_usage.py"])
    mutant = find(judge, "limits.py", "check_payload", "condition:False")
    looping = replace(
        mutant, source=mutant.source.replace("if False:", "while True:\n        pass\n    if False:", 1)
    )

    [verdict] = judge.judge([looping])

    assert (verdict.verdict, verdict.by) == ("killed", "timeout")


def test_a_mutant_that_nobody_notices_survives_and_is_gone_afterwards(tmp_path: Path) -> None:
    judge = Judge(tmp_path, 0, ["tests/test_tables.py"])
    todo = [
        find(judge, "peer.py", "Peer._take_outputs", "delete"),
        find(judge, "limits.py", "", "constant:255→256"),
    ]

    verdicts = list(judge.judge(todo))

    assert [(verdict.verdict, verdict.by) for verdict in verdicts] == [("survived", "")] * 2
    for module in ("peer.py", "limits.py"):
        copied, original = (root / "src/vcubeps/protocol" / module for root in (tmp_path, ROOT))
        assert copied.read_text() == original.read_text()


@pytest.mark.parametrize(
    ("tests", "complaint"),
    [("tests/no_such_test.py", "no_such_test"), ("tests/test_failing.py", "FAILED tests")],
)
def test_a_package_that_fails_as_it_is_is_not_mutated(tmp_path: Path, tests: str, complaint: str) -> None:
    judge = Judge(tmp_path, 0, [tests])
    (tmp_path / "tests/test_failing.py").write_text("def test_it() -> None:\n    assert 1 == 2\n")

    with pytest.raises(
        SystemExit, match=f"(?s)the package fails as it is, without a mutation: .*{complaint}"
    ):
        list(judge.judge([find(judge, "peer.py", "Peer._take_outputs", "delete")]))


def test_a_mutant_is_shown_as_a_difference_with_its_key(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--module", "limits.py", "--list"])
    first = capsys.readouterr().out.splitlines()[0]

    assert main(["--show", first]) == 0

    shown = capsys.readouterr().out
    assert f"+++ {first}" in shown
    assert "key: ('limits.py', " in shown


def test_a_name_that_no_mutant_has_is_refused() -> None:
    with pytest.raises(SystemExit, match="no mutant is called so, or no module: --list"):
        main(["--only", "nothing"])
