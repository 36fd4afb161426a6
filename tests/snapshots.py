"""A peer's whole state as plain data, so that two moments of it can be compared.

"An input that raises has changed nothing" is a promise about all of a peer, down to the order of its dicts,
so this walks every slot of everything that the peer holds and leaves nothing out by name.
"""

from __future__ import annotations

import enum
from collections import deque
from types import MethodType

import msgspec

Snapshot = object
"""Nested tuples of plain values; equal if and only if the states are."""


def snapshot(state: object) -> Snapshot:
    """What `state` consists of; later changes of it do not show."""
    return _walk(state, {})


def _walk(value: object, seen: dict[int, int]) -> Snapshot:
    if value is None or isinstance(value, bool | int | str | bytes | enum.Enum):
        return value
    if isinstance(value, MethodType):
        return ("method", value.__name__, _walk(value.__self__, seen))
    # Parts refer to each other in circles. The number of the first visit stands for a later one, so that two
    # states differ too if what was one object has become two.
    if id(value) in seen:
        return ("seen", seen[id(value)])
    seen[id(value)] = len(seen)
    kind = type(value).__name__
    if isinstance(value, dict):
        return (kind, *((_walk(key, seen), _walk(entry, seen)) for key, entry in value.items()))
    if isinstance(value, set | frozenset):
        return (kind, *sorted((_walk(entry, seen) for entry in value), key=repr))
    if isinstance(value, list | tuple | deque):
        return (kind, *(_walk(entry, seen) for entry in value))
    return (kind, *((name, _walk(getattr(value, name), seen)) for name in _fields(value)))


def _fields(value: object) -> list[str]:
    if isinstance(value, msgspec.Struct):
        return list(value.__struct_fields__)
    slots = [name for base in type(value).__mro__ for name in getattr(base, "__slots__", ())]
    return [name for name in (*slots, *getattr(value, "__dict__", ())) if hasattr(value, name)]
