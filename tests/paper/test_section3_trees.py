"""Section 3.3: SUBCUBE, CHILDREN and the broadcast trees of figure 3."""

from __future__ import annotations

import pytest

from vcubeps.cube import MemberSet, children, spanning_tree, subcube, tree_depth

ALL = frozenset(range(8))
T1 = frozenset({0, 3, 4})
FIGURE_3_RIGHT = frozenset({0, 2, 3, 5, 7})


@pytest.mark.parametrize(("j", "s"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 3), (7, 3)])
def test_section_3_3_subcube_of_node_0(j: int, s: int) -> None:
    assert subcube(0, j) == s


@pytest.mark.parametrize(
    ("i", "members", "h", "expected"),
    [
        pytest.param(0, ALL, 3, [1, 2, 4], id="CHILDREN(0,*,3)"),
        pytest.param(0, ALL, 2, [1, 2], id="CHILDREN(0,*,2)"),
        pytest.param(4, ALL, 2, [5, 6], id="CHILDREN(4,*,2)"),
        pytest.param(0, T1, 3, [3, 4], id="CHILDREN(0,t1,3) with 0, 3, 4 in t1"),
        pytest.param(4, T1, 2, [], id="CHILDREN(4,t1,2) with 0, 3, 4 in t1"),
        pytest.param(1, ALL, 0, [], id="figure 3 left: CHILDREN(1,t1,0)"),
        pytest.param(2, ALL, 1, [3], id="figure 3 left: CHILDREN(2,t1,1)"),
        pytest.param(3, ALL, 0, [], id="figure 3 left: CHILDREN(3,t1,0)"),
        pytest.param(2, FIGURE_3_RIGHT, 3, [3, 0, 7], id="figure 3 right: CHILDREN(2,t2,3)"),
        pytest.param(7, FIGURE_3_RIGHT, 2, [5], id="figure 3 right: CHILDREN(7,t2,2)"),
    ],
)
def test_section_3_3_children(i: int, members: frozenset[int], h: int, expected: list[int]) -> None:
    assert children(i, members, h) == expected
    assert children(i, MemberSet(3, members), h) == expected


def test_figure_3_left_tree_of_node_0_when_all_nodes_subscribe() -> None:
    edges = spanning_tree(0, ALL, 3)

    assert edges == [(0, 1), (0, 2), (0, 4), (2, 3), (4, 5), (4, 6), (6, 7)]
    assert tree_depth(edges) == 3


def test_figure_3_right_tree_of_node_2_among_five_subscribers() -> None:
    edges = spanning_tree(2, FIGURE_3_RIGHT, 3)

    assert edges == [(2, 3), (2, 0), (2, 7), (7, 5)]
    assert tree_depth(edges) == 2


def test_figure_3_right_no_copy_reaches_a_node_that_has_not_subscribed() -> None:
    touched = {node for edge in spanning_tree(2, FIGURE_3_RIGHT, 3) for node in edge}

    assert touched == FIGURE_3_RIGHT
