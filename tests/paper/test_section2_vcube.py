"""Section 2: the virtual hypercube. Figure 1 holds the composition of all subcubes for N = 8."""

from __future__ import annotations

import pytest

from vcubeps.cube import subcube, subcube_members

# Figure 1, one row per s, one entry per node i = 0 … 7.
FIGURE_1 = {
    1: ["1", "0", "3", "2", "5", "4", "7", "6"],
    2: ["2 3", "3 2", "0 1", "1 0", "6 7", "7 6", "4 5", "5 4"],
    3: ["4 5 6 7", "5 4 7 6", "6 7 4 5", "7 6 5 4", "0 1 2 3", "1 0 3 2", "2 3 0 1", "3 2 1 0"],
}
ENTRIES = [
    pytest.param(i, s, [int(x) for x in entry.split()], id=f"c({i},{s})")
    for s, row in FIGURE_1.items()
    for i, entry in enumerate(row)
]


@pytest.mark.parametrize(("i", "s", "entry"), ENTRIES)
def test_figure_1_lists_this_subcube_in_this_order(i: int, s: int, entry: list[int]) -> None:
    assert list(subcube_members(i, s)) == entry


@pytest.mark.parametrize(("i", "s", "entry"), ENTRIES)
def test_section_2_subcube_s_has_two_to_the_s_minus_1_nodes(i: int, s: int, entry: list[int]) -> None:
    assert len(list(subcube_members(i, s))) == len(entry) == 2 ** (s - 1)


@pytest.mark.parametrize("i", range(8))
def test_section_2_the_subcubes_of_a_node_group_all_other_nodes(i: int) -> None:
    grouped = [x for s in (1, 2, 3) for x in subcube_members(i, s)]

    assert sorted([*grouped, i]) == list(range(8))


@pytest.mark.parametrize(("i", "s", "entry"), ENTRIES)
def test_section_2_the_first_node_of_a_subcube_differs_in_one_bit(i: int, s: int, entry: list[int]) -> None:
    assert entry[0] ^ i == 2 ** (s - 1)
    assert subcube(i, entry[0]) == s
