"""Traces as plain rows: simulated ones, random ones, and ones with violations planted in them.

A planter damages a trace in one way and says which finding that must make: (kind, node, source, counter, position,
other_source, other_counter, other_position), as in the table of findings.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vcubeps.sim import trace_tables
from vcubeps.sim.measurements import Measurements
from vcubeps.sim.scenarios import Run, points, run_seed
from vcubeps.sim.simulation import simulate

Row = dict[str, Any]
Rows = dict[str, list[Row]]
"""Table → its rows."""
Finding = tuple[Any, ...]

TABLES = ("publications", "receptions", "deliveries", "membership")


def no_rows() -> Rows:
    return {table: [] for table in TABLES}


def write(path: Path, *traces: Rows) -> Path:
    """The k-th of them becomes run k."""
    for table in TABLES:
        (path / table).mkdir(parents=True)
        rows = [
            {"time_ut": 0, "published_ut": 0, **row, "run": run}
            for run, trace in enumerate(traces)
            for row in trace[table]
        ]
        content = pa.Table.from_pylist(rows, trace_tables.SCHEMAS[table])
        pq.write_table(content, path / table / "0.parquet")
    return path


# -- simulated -------------------------------------------------------------------------------------


def simulated(
    scenario: str, chosen: Mapping[str, tuple[Any, ...]], system: str = "vcube-ps", seed: int = 1
) -> tuple[Measurements, Rows]:
    """What the simulator writes of one run."""
    [point] = points(scenario, chosen, (system,))
    run = Run(point, run_seed(seed, 0))
    measurements, events = simulate(run, trace=True)
    assert events is not None
    with tempfile.TemporaryDirectory() as folder:
        for table in trace_tables.SCHEMAS:
            (Path(folder) / table).mkdir()
        trace_tables.write(Path(folder), 0, run, events)
        return measurements, {table: pq.read_table(Path(folder) / table).to_pylist() for table in TABLES}


def churn(protocol: str, seed: int = 1) -> tuple[Measurements, Rows]:
    chosen = {"nodes": (32,), "churn": (0.25,), "messages": (40,), "protocol": (protocol,)}
    return simulated("churn", chosen, seed=seed)


# -- planted ---------------------------------------------------------------------------------------


def plant_causal(rows: Rows) -> Finding:
    """Two deliveries in a row at a node, of which the second depends on the first, change places."""
    barriers = {(p["source"], p["counter"]): p["barrier"] for p in rows["publications"]}
    at = {(d["node"], d["position"]): d for d in rows["deliveries"]}
    for later in rows["deliveries"]:
        earlier = at.get((later["node"], later["position"] - 1))
        if (
            earlier
            and {k: earlier[k] for k in ("source", "counter")} in barriers[later["source"], later["counter"]]
        ):
            earlier["position"], later["position"] = later["position"], earlier["position"]
            return ("causal", later["node"], *_place(later), *_place(earlier))
    raise AssertionError("no two deliveries to swap")


def plant_duplicate(rows: Rows) -> Finding:
    first = rows["deliveries"][len(rows["deliveries"]) // 2]
    again = {**first, "position": _next_position(rows["deliveries"], first["node"])}
    rows["deliveries"].append(again)
    return ("duplicate", first["node"], *_place(again), *_place(first))


def plant_phantom(rows: Rows) -> Finding:
    row = rows["deliveries"][7]
    false = {**row, "counter": 1_000_000, "position": _next_position(rows["deliveries"], row["node"])}
    rows["deliveries"].append(false)
    return ("phantom", row["node"], *_place(false), -1, -1, -1)


def plant_loss(rows: Rows) -> Finding:
    """Neither received nor delivered by a node that stays."""
    delivery = _delivery_to_one_who_stays(rows)
    rows["deliveries"].remove(delivery)
    rows["receptions"] = [r for r in rows["receptions"] if not _is_same(r, delivery)]
    return ("loss", delivery["node"], delivery["source"], delivery["counter"], -1, -1, -1, -1)


def plant_held_back(rows: Rows) -> Finding:
    """Received, but not delivered."""
    delivery = _delivery_to_one_who_stays(rows)
    rows["deliveries"].remove(delivery)
    [reception] = [r for r in rows["receptions"] if _is_same(r, delivery)]
    return (
        "loss",
        delivery["node"],
        delivery["source"],
        delivery["counter"],
        -1,
        -1,
        -1,
        reception["position"],
    )


def plant_own_loss(rows: Rows) -> Finding:
    delivery = _delivery_to_one_who_stays(rows, own=True)
    rows["deliveries"].remove(delivery)
    return ("loss", delivery["node"], delivery["source"], delivery["counter"], -1, -1, -1, -1)


def plant_fifo(rows: Rows) -> Finding:
    """Two receptions from a source, one after the other at a node, change places."""
    last: dict[tuple[int, int], Row] = {}
    for later in rows["receptions"]:
        earlier = last.get((later["node"], later["source"]))
        if earlier:
            earlier["position"], later["position"] = later["position"], earlier["position"]
            return ("fifo", later["node"], *_place(earlier), later["source"], later["counter"], -1)
        last[later["node"], later["source"]] = later
    raise AssertionError("no two receptions to swap")


PLANTERS: tuple[Callable[[Rows], Finding], ...] = (
    plant_causal,
    plant_duplicate,
    plant_phantom,
    plant_loss,
    plant_held_back,
    plant_own_loss,
    plant_fifo,
)


def _place(row: Row) -> tuple[int, int, int]:
    return row["source"], row["counter"], row["position"]


def _is_same(one: Row, other: Row) -> bool:
    return all(one[name] == other[name] for name in ("topic", "node", "source", "counter"))


def _next_position(rows: list[Row], node: int) -> int:
    return 1 + max(row["position"] for row in rows if row["node"] == node)


def _delivery_to_one_who_stays(rows: Rows, *, own: bool = False) -> Row:
    changes = {row["node"] for row in rows["membership"] if row["time_ut"] >= 0}
    return next(
        row for row in rows["deliveries"]
        if row["node"] not in changes and (row["node"] == row["source"]) == own
    )  # fmt: skip


# -- random ----------------------------------------------------------------------------------------


def random_rows(seed: int) -> Rows:
    """Small, and wrong in every way; the numbers of sources, counters and nodes are far apart in some."""
    rng = np.random.default_rng(seed)
    stretch, shift = (int(rng.choice([1, 1, 10**12])), int(rng.choice([0, 0, -(2**62)])))
    nodes, topics = int(rng.integers(1, 7)), int(rng.integers(1, 4))
    name = (stretch * np.arange(nodes) + shift).tolist()
    rows = no_rows()
    counters = [0] * nodes
    positions = {table: [0] * nodes for table in ("receptions", "deliveries")}
    for started in range(int(rng.integers(1, 30))):
        topic, source = int(rng.integers(topics)), int(rng.integers(nodes))
        known = [(p["source"], p["counter"]) for p in rows["publications"] if p["topic"] == topic]
        known.append((name[0], 77))  # never published
        chosen = rng.choice(len(known), int(rng.integers(0, min(4, len(known)) + 1)))  # some twice
        rows["publications"].append({
            "topic": topic, "source": name[source], "counter": counters[source] * stretch,
            "started_ut": started,
            "acknowledged_ut": int(rng.choice([-1, started + rng.integers(0, 6)])),
            "barrier": [dict(zip(("source", "counter"), known[k], strict=True)) for k in chosen],
        })  # fmt: skip
        counters[source] += 1
    for table in ("receptions", "deliveries"):
        arrivals = [(p, n) for p in rows["publications"] for n in range(nodes)]
        kept = [
            arrivals[k] for k in rng.permutation(len(arrivals))[: int(len(arrivals) * 1.1 * rng.random())]
        ]
        kept.sort(key=lambda arrival: arrival[0]["started_ut"] + float(rng.normal(0, 1)))
        kept += [kept[int(k)] for k in rng.integers(0, len(kept), 3)] if kept else []
        for publication, node in kept:
            counter = publication["counter"] if rng.random() > 0.02 else 77
            rows[table].append({
                "topic": publication["topic"], "node": name[node], "source": publication["source"],
                "counter": counter, "position": positions[table][node],
            })  # fmt: skip
            positions[table][node] += int(rng.integers(1, 4))
    for topic in range(topics):
        for node in range(nodes):
            if rng.random() < 0.2:
                continue
            asked = in_effect = -1
            joins = True
            for _ in range(int(rng.integers(1, 5))):
                rows["membership"].append({
                    "topic": topic, "node": name[node], "joins": joins, "asked_ut": asked, "time_ut": in_effect,
                })  # fmt: skip
                asked = max(asked, in_effect) + int(rng.integers(1, 10))
                in_effect = asked + int(rng.integers(0, 4))
                joins = not joins
    return rows
