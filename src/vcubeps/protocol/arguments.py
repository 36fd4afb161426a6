"""What a driver may give a peer: ids, company, a card and sizes that make sense. A `UsageError` says what does not."""

from __future__ import annotations

from collections.abc import Set

from vcubeps.cube import MAX_DIMENSION
from vcubeps.protocol.errors import UsageError
from vcubeps.protocol.limits import MAX_ADDRESS_BYTES, MAX_BATCH_ITEMS, MAX_IDENTITY, MAX_INCARNATION


def _is_id(node: object) -> bool:
    return isinstance(node, int) and 0 <= node < 1 << MAX_DIMENSION


def check_ids(nodes: Set[int]) -> None:
    misplaced = [node for node in nodes if not _is_id(node)]
    if misplaced:
        named = ", ".join(sorted(repr(node)[:20] for node in misplaced)[:8])
        raise UsageError(
            f"node ids are whole numbers in 0…{(1 << MAX_DIMENSION) - 1}, got {named}: renumber the nodes"
        )


def check_other(what: str, node: int, me: int) -> None:
    if node == me or not _is_id(node):
        raise UsageError(f"cannot {what} node {node}: name one of the other nodes")


def check_company(node: int, nodes: Set[int], seeds: Set[int]) -> None:
    if seeds and nodes:
        raise UsageError("a newcomer learns from its seeds who is there: give nodes or seeds, not both")
    if not seeds and not nodes:
        raise UsageError(f"node {node} knows of nobody else: give it seeds, or the nodes that start with it")
    if not seeds and node not in nodes:
        raise UsageError(f"node {node} is not one of the {len(nodes)} nodes given: add it, or choose another")


def check_card(incarnation: int, identity: int, address: bytes, is_newcomer: bool) -> None:
    if identity and not is_newcomer and not incarnation:
        raise UsageError("the nodes that start a cluster have the identity 0: leave it out, or give seeds")
    if not 0 <= incarnation <= MAX_INCARNATION:
        raise UsageError(
            f"incarnations lie in 0…{MAX_INCARNATION}, got {incarnation}: store the last one used, and add 1"
        )
    if is_newcomer and not identity:
        raise UsageError("a newcomer needs an identity: draw a number of 64 bits, not 0, once, and store it")
    if not 0 <= identity <= MAX_IDENTITY:
        raise UsageError(f"an identity has 64 bits, got {identity}: draw a number in 0…{MAX_IDENTITY}")
    if not isinstance(address, bytes):
        raise UsageError(f"the address is bytes, got {type(address).__name__}: encode it")
    if len(address) > MAX_ADDRESS_BYTES:
        raise UsageError(
            f"the address has {len(address)} bytes, the limit is {MAX_ADDRESS_BYTES}: use a shorter one"
        )


def check_sizes(batch_items_max: int, flat_max: int, listed_max: int) -> None:
    if not 1 <= batch_items_max <= MAX_BATCH_ITEMS:
        raise UsageError(
            f"a batch has 1…{MAX_BATCH_ITEMS} items, got {batch_items_max}: choose a number in between"
        )
    if flat_max < 0:
        raise UsageError(f"a source serves 0 recipients or more without a tree, got {flat_max}")
    if listed_max < 0:
        raise UsageError(f"a copy lists 0 recipients or more in any case, got {listed_max}")
