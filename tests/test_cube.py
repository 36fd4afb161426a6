"""The cube against the paper's recursive definition and against brute force."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcubeps.cube import (
    MAX_DIMENSION,
    MemberSet,
    children,
    dimension,
    first_member,
    spanning_tree,
    subcube,
    subcube_members,
    subtrees,
    tree_depth,
)

DIMENSION = 6
NODES = st.integers(0, (1 << DIMENSION) - 1)
MEMBERS = st.sets(NODES)
HEIGHTS = st.integers(0, DIMENSION)
SUBCUBES = st.integers(1, DIMENSION)


def recursive_subcube(i: int, s: int) -> list[int]:
    """c_{i,s} as section 2 writes it: the neighbour, then its own subcubes 1 … s-1."""
    neighbour = i ^ 1 << s - 1
    return [neighbour] + [x for k in range(1, s) for x in recursive_subcube(neighbour, k)]


def in_subcubes(i: int, members: set[int], h: int) -> set[int]:
    return {x for s in range(1, h + 1) for x in recursive_subcube(i, s)} & members


@given(st.integers(0, (1 << 9) - 1), st.integers(1, 9))
def test_a_subcube_has_the_order_of_the_recursive_definition(i: int, s: int) -> None:
    assert list(subcube_members(i, s)) == recursive_subcube(i, s)


@given(NODES, SUBCUBES)
def test_subcube_is_the_inverse_of_subcube_members(i: int, s: int) -> None:
    assert {subcube(i, j) for j in subcube_members(i, s)} == {s}


@given(NODES, NODES)
def test_two_nodes_are_in_the_same_subcube_of_each_other(i: int, j: int) -> None:
    assert subcube(i, j) == subcube(j, i)


def test_a_node_is_in_no_subcube_of_its_own() -> None:
    assert subcube(5, 5) == 0


def test_the_largest_subcube_is_not_built_to_read_its_first_position() -> None:
    assert next(subcube_members(0, MAX_DIMENSION)) == 1 << MAX_DIMENSION - 1


@given(NODES, SUBCUBES, MEMBERS)
def test_first_member_is_the_first_of_the_recursive_list_that_is_a_member(
    i: int, s: int, members: set[int]
) -> None:
    expected = next((x for x in recursive_subcube(i, s) if x in members), None)

    assert first_member(i, s, members) == expected
    assert first_member(i, s, MemberSet(DIMENSION, members)) == expected


@given(NODES, MEMBERS, HEIGHTS)
def test_children_are_the_first_members_of_the_subcubes_up_to_h(i: int, members: set[int], h: int) -> None:
    firsts = [first_member(i, s, members) for s in range(1, h + 1)]
    expected = [x for x in firsts if x is not None]

    assert children(i, members, h) == expected
    assert children(i, frozenset(members), h) == expected
    assert children(i, MemberSet(DIMENSION, members), h) == expected


@given(NODES, MEMBERS, HEIGHTS)
def test_subtrees_are_the_recipients_of_each_subcube_in_its_order(i: int, members: set[int], h: int) -> None:
    recipients = in_subcubes(i, members, h)
    per_subcube = [[x for x in recursive_subcube(i, s) if x in recipients] for s in range(1, h + 1)]

    assert subtrees(i, recipients, h) == [group for group in per_subcube if group]


@given(NODES, MEMBERS, HEIGHTS)
def test_subtrees_start_with_the_children(i: int, members: set[int], h: int) -> None:
    recipients = in_subcubes(i, members, h)

    assert [group[0] for group in subtrees(i, recipients, h)] == children(i, members, h)


@given(NODES, MEMBERS, HEIGHTS)
def test_subtrees_do_not_depend_on_the_order_of_the_recipients(i: int, members: set[int], h: int) -> None:
    recipients = sorted(in_subcubes(i, members, h))

    assert subtrees(i, recipients, h) == subtrees(i, recipients[::-1], h)


@given(NODES, MEMBERS)
def test_passing_subtrees_on_gives_the_spanning_tree(source: int, members: set[int]) -> None:
    edges = []
    waiting = [(source, sorted(members - {source}), DIMENSION)]
    while waiting:
        node, recipients, h = waiting.pop(0)
        for child, *rest in subtrees(node, recipients, h):
            edges.append((node, child))
            waiting.append((child, rest, subcube(node, child) - 1))

    assert edges == spanning_tree(source, members, DIMENSION)


@pytest.mark.parametrize(
    "recipients",
    [[2], [2, 3], [6], [3, 6], [-1], [-1, 3]],
    ids=["itself", "itself and another", "beyond h", "one beyond h", "negative", "one negative"],
)
def test_subtrees_refuse_a_recipient_outside_the_subcubes_served(recipients: list[int]) -> None:
    with pytest.raises(ValueError, match="is not in subcubes 1 to 2 of node 2"):
        subtrees(2, recipients, 2)


@given(NODES, MEMBERS)
def test_a_spanning_tree_reaches_every_member_but_the_source_exactly_once(
    source: int, members: set[int]
) -> None:
    reached = Counter(child for _, child in spanning_tree(source, members, DIMENSION))

    assert reached == Counter(members - {source})


@given(NODES, MEMBERS)
def test_a_parent_is_reached_before_it_sends_and_the_depth_is_at_most_the_dimension(
    source: int, members: set[int]
) -> None:
    edges = spanning_tree(source, members, DIMENSION)

    reached = {source}
    for parent, child in edges:
        assert parent in reached
        reached.add(child)
    assert tree_depth(edges) <= DIMENSION


@given(st.integers(1, 200))
def test_any_number_of_nodes_has_a_tree_not_only_powers_of_two(nodes: int) -> None:
    edges = spanning_tree(nodes - 1, range(nodes), dimension(nodes))

    assert len(edges) == nodes - 1


def test_depth_without_edges_is_zero() -> None:
    assert tree_depth([]) == 0


@pytest.mark.parametrize(("nodes", "expected"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (1 << 20, 20)])
def test_dimension_is_that_of_the_smallest_cube_that_holds_the_nodes(nodes: int, expected: int) -> None:
    assert dimension(nodes) == expected


@pytest.mark.parametrize("nodes", [0, -1, (1 << 20) + 1])
def test_dimension_refuses_a_number_of_nodes_no_cube_has(nodes: int) -> None:
    with pytest.raises(ValueError, match=f"1 to 1048576 nodes, got {nodes}"):
        dimension(nodes)


@given(st.lists(st.tuples(st.booleans(), NODES)), NODES)
def test_a_member_set_behaves_like_a_set_that_is_read_in_ascending_order(
    changes: list[tuple[bool, int]], i: int
) -> None:
    members = MemberSet(DIMENSION)
    model: set[int] = set()
    for joins, node in changes:
        if joins:
            members.add(node)
            model.add(node)
        else:
            members.discard(node)
            model.discard(node)

        assert len(members) == len(model)
        assert children(i, members, DIMENSION) == children(i, model, DIMENSION)
    assert list(members) == sorted(model)
    assert [x in members for x in range(1 << DIMENSION)] == [x in model for x in range(1 << DIMENSION)]


def test_a_member_set_that_was_emptied_has_no_first_member() -> None:
    members = MemberSet(3, range(8))

    for node in range(8):
        members.discard(node)

    assert [members.first(0, s) for s in (1, 2, 3)] == [None, None, None]


def test_what_is_outside_the_cube_is_in_no_member_set() -> None:
    members = MemberSet(3, range(8))

    assert 8 not in members
    assert -1 not in members
    assert "0" not in members


def test_discarding_a_node_outside_the_cube_changes_nothing() -> None:
    members = MemberSet(3, range(8))

    members.discard(8)
    members.discard(-1)

    assert list(members) == list(range(8))


def test_a_member_set_of_the_largest_cube_finds_the_only_member_of_its_largest_subcube() -> None:
    last = (1 << MAX_DIMENSION) - 1

    members = MemberSet(MAX_DIMENSION, [last])

    assert children(0, members, MAX_DIMENSION) == [last]
    assert list(members) == [last]


@pytest.mark.parametrize("node", [-1, 8])
def test_a_member_set_refuses_a_node_outside_its_cube(node: int) -> None:
    members = MemberSet(3)

    with pytest.raises(ValueError, match=f"node {node} is outside 0 to 7"):
        members.add(node)
    with pytest.raises(ValueError, match=f"node {node} is outside 0 to 7"):
        members.first(node, 1)
    assert len(members) == 0


@pytest.mark.parametrize("size", [-1, 21])
def test_a_member_set_refuses_a_dimension_no_cube_has(size: int) -> None:
    with pytest.raises(ValueError, match=f"dimension 0 to 20, got {size}"):
        MemberSet(size)


@pytest.mark.parametrize("s", [0, 4])
def test_a_subcube_outside_the_cube_is_refused(s: int) -> None:
    with pytest.raises(ValueError, match=f"subcube {s} is outside 1 to 3"):
        MemberSet(3).first(0, s)


@pytest.mark.parametrize("node", [-1, 1 << 20])
def test_a_node_outside_the_largest_cube_is_refused_everywhere(node: int) -> None:
    refusal = f"node {node} is outside 0 to 1048575"

    with pytest.raises(ValueError, match=refusal):
        subcube(node, 0)
    with pytest.raises(ValueError, match=refusal):
        subcube(0, node)
    with pytest.raises(ValueError, match=refusal):
        subcube_members(node, 1)
    with pytest.raises(ValueError, match=refusal):
        first_member(node, 1, {0})
    with pytest.raises(ValueError, match=refusal):
        children(node, {0}, 1)
    with pytest.raises(ValueError, match=refusal):
        spanning_tree(node, {0}, 20)


@pytest.mark.parametrize("h", [-1, 4])
def test_children_beyond_the_subcubes_of_the_cube_are_refused(h: int) -> None:
    with pytest.raises(ValueError, match=f"height {h} is outside 0 to 3"):
        children(0, MemberSet(3, range(8)), h)
