"""What makes two runs the same: code, scenario, system, parameters and seed.

A run has a number that follows from these, so whoever looks for its results, on whatever machine, finds them, and
results of other code are never taken for ours.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from vcubeps.sim.parameters import Value
from vcubeps.sim.scenarios import Point, Run

_CODE = ("cube.py", "mixing.py", "protocol", "sim")
"""All that the answer of `simulate` depends on, and a little more."""


@cache
def simulator_fingerprint() -> str:
    """Of the code that simulates: changes with every edit of it."""
    digest = hashlib.sha256()
    for name in _CODE:
        for path, text in _sources(resources.files("vcubeps") / name, name):
            digest.update(f"{path}\0{len(text)}\0".encode() + text)
    return digest.hexdigest()[:16]


def _sources(place: Traversable, path: str) -> list[tuple[str, bytes]]:
    if place.is_file():
        return [(path, place.read_bytes())] if path.endswith(".py") else []
    inside = sorted(place.iterdir(), key=lambda one: one.name)
    return [found for one in inside for found in _sources(one, f"{path}/{one.name}")]


def parameters_text(parameters: Mapping[str, Value]) -> str:
    """As the table of runs has them; equal parameters give equal texts.

    >>> parameters_text({"nodes": 8, "churn": 0.5})
    '{"churn":0.5,"nodes":8}'
    """
    return json.dumps(dict(parameters), sort_keys=True, separators=(",", ":"))


def point_key(point: Point) -> str:
    """Equal for equal points; a Point itself cannot be hashed."""
    return f"{point.scenario} {point.system} {parameters_text(point.parameters)}"


def run_number(run: Run) -> int:
    """Below 2^63."""
    text = f"{simulator_fingerprint()} {run.seed} {point_key(run.point)}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1
