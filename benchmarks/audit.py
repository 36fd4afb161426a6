"""Audit of a large trace: the Arrow method on Spark against DuckDB's queries, on the same files and cores.

    python benchmarks/audit.py                             10 M deliveries, about 29 M dependency checks
    python benchmarks/audit.py --deliveries 200000         a small one
    python benchmarks/audit.py --receptions                with as many receptions, and the query for them

Two sizes are audited, a quarter and the whole, to show that the memory of a worker stays the same; each twice in one
session, because the first audit of a session also pays for Java's compiling what it is going to run.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vcubeps.sim.trace_tables import SCHEMAS
from vcubeps.spark.audit import audit
from vcubeps.spark.session import Wanted, open_session

SPREAD = 64
"""Nodes deliver a publication at most so many places before or after others do; nothing depends on one so near."""
ROWS_PER_FILE = 1 << 20

QUERIES = {
    "causal": """
        WITH first AS (
            SELECT run, topic, node, source, counter, min(position) AS position
            FROM deliveries GROUP BY ALL
        ), barrier AS (
            SELECT run, topic, source, counter, unnest(barrier, recursive := true) FROM publications
        ), entry (run, topic, source, counter, on_source, on_counter) AS (FROM barrier)
        SELECT count(*)
        FROM first AS message
        JOIN entry USING (run, topic, source, counter)
        JOIN first AS cause
            ON cause.run = message.run AND cause.topic = message.topic AND cause.node = message.node
            AND cause.source = entry.on_source AND cause.counter = entry.on_counter
        WHERE cause.position > message.position
    """,
    "duplicates": """
        SELECT count(*) FROM (
            SELECT run, topic, node, source, counter FROM deliveries GROUP BY ALL HAVING count(*) > 1
        )
    """,
    "losses": """
        SELECT count(*)
        FROM publications AS p JOIN membership AS m ON m.run = p.run AND m.topic = p.topic
        WHERE m.joins AND m.time_ut < p.started_ut
            AND NOT EXISTS (
                FROM membership AS l
                WHERE NOT l.joins AND l.run = m.run AND l.topic = m.topic AND l.node = m.node
                    AND l.asked_ut >= m.asked_ut AND l.asked_ut <= p.acknowledged_ut
            )
            AND NOT EXISTS (
                FROM deliveries AS d
                WHERE d.run = p.run AND d.topic = p.topic AND d.node = m.node
                    AND d.source = p.source AND d.counter = p.counter
            )
    """,
}
FIFO = """
    SELECT count(*) FROM (
        SELECT counter, max(counter) OVER (
            PARTITION BY run, topic, node, source ORDER BY position
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS highest
        FROM receptions
    ) WHERE counter < highest
"""


# -- the trace -------------------------------------------------------------------------------------


def write_trace(path: Path, deliveries: int, nodes: int, with_receptions: bool, seed: int = 1) -> None:
    """One run, one topic, all nodes members: in causal order, complete, and in another order at every node."""
    rng = np.random.default_rng(seed)
    publications = deliveries // nodes
    number = np.arange(publications)
    source, counter = number % nodes, number // nodes
    for table in SCHEMAS:
        (path / table).mkdir(parents=True)
    _write(
        path, "runs", {name: pa.array([], SCHEMAS["runs"].field(name).type) for name in SCHEMAS["runs"].names}
    )
    members = np.arange(nodes)
    before = np.full(nodes, -1)
    _write(path, "membership", {"run": 0 * members, "topic": 0 * members, "node": members, "time_ut": before,
                                "joins": np.ones(nodes, np.bool_), "asked_ut": before})  # fmt: skip
    entries = np.minimum(
        rng.choice([1, 2, 3, 4, 5], publications, p=[0.15, 0.25, 0.25, 0.25, 0.1]), number // SPREAD
    )
    offsets = np.concatenate(([0], np.cumsum(entries)))
    of = np.repeat(number, entries)
    nth = np.arange(offsets[-1]) - offsets[of]
    on = of - SPREAD * (nth + 1) - rng.integers(0, SPREAD, len(of)) * (of >= SPREAD * (nth + 2))
    barrier = pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()),
        pa.StructArray.from_arrays([pa.array(source[on]), pa.array(counter[on])], ["source", "counter"]),
    )
    _write(path, "publications", {
        "run": 0 * number, "topic": 0 * number, "source": source, "counter": counter, "published_ut": number,
        "started_ut": number, "barrier": barrier, "acknowledged_ut": number + 4 * SPREAD,
    })  # fmt: skip
    for table in ("deliveries", "receptions"):
        rows = _arrivals(publications, nodes, rng) if with_receptions or table == "deliveries" else iter(())
        _write(path, table, {name: np.empty(0, np.int64) for name in SCHEMAS[table].names}, "empty")
        for k, (time_ut, node, message, position) in enumerate(rows):
            _write(path, table, {
                "run": 0 * node, "topic": 0 * node, "source": source[message], "counter": counter[message],
                "node": node, "time_ut": time_ut, "position": position,
            }, f"{k:06}")  # fmt: skip


def _arrivals(publications: int, nodes: int, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, ...]]:
    """Time, node, publication and position, in the order of time but for the places where files meet."""
    per_file = max(2 * SPREAD, ROWS_PER_FILE // nodes)
    for first in range(0, publications, per_file):
        message = np.arange(first, min(publications, first + per_file))
        time_ut = message[:, None] + rng.integers(0, SPREAD, (len(message), nodes))
        order = np.argsort(time_ut, axis=0, kind="stable")
        position = np.empty_like(order)
        np.put_along_axis(position, order, message[:, None] * np.ones((1, nodes), np.int64), axis=0)
        in_time = np.argsort(time_ut, axis=None, kind="stable")
        yield (
            time_ut.ravel()[in_time],
            in_time % nodes,
            message[in_time // nodes],
            position.ravel()[in_time],
        )


def _write(path: Path, table: str, columns: dict[str, object], name: str = "all") -> None:
    schema = SCHEMAS[table]
    pq.write_table(pa.table(columns).select(schema.names).cast(schema), path / table / f"{name}.parquet")


# -- measuring -------------------------------------------------------------------------------------


def time_duckdb(path: Path, with_receptions: bool, threads: int) -> dict[str, float]:
    database = duckdb.connect(config={"threads": threads})
    for table in ("publications", "receptions", "deliveries", "membership"):
        database.execute(f"CREATE VIEW {table} AS FROM '{path}/{table}/*.parquet'")
    seconds = {}
    for name, query in (QUERIES | ({"fifo": FIFO} if with_receptions else {})).items():
        begin = time.perf_counter()
        [(found,)] = database.execute(query).fetchall()
        seconds[name] = time.perf_counter() - begin
        assert found == 0, f"DuckDB finds {found} × {name} in a trace without any"
    return seconds


def worker_peak_mib() -> int:
    """The most memory that a Python worker of this process has had."""
    peaks = [0]
    for process in _descendants():
        try:
            status = (process / "status").read_text()
            if b"pyspark.daemon" in (process / "cmdline").read_bytes() and "VmHWM" in status:
                peaks.append(int(status.partition("VmHWM:")[2].split()[0]) >> 10)
        except OSError:
            continue
    return max(peaks)


def cpu_seconds() -> float:
    """Of this process and its descendants: what else the machine does hardly shows in it."""
    ticks = 0
    for process in _descendants():
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, fields[11:15]))  # user and system, with children that have ended
    return ticks / os.sysconf("SC_CLK_TCK")


def _descendants() -> list[Path]:
    return [p for p in Path("/proc").iterdir() if p.name.isdigit() and _is_ours(int(p.name))]


def _is_ours(process: int) -> bool:
    while process > 1:
        if process == os.getpid():
            return True
        try:
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--deliveries", type=int, default=10_000_000)
    parser.add_argument("--nodes", type=int, default=256)
    parser.add_argument("--receptions", action="store_true")
    parser.add_argument("--memory", default="2g")
    parser.add_argument("--keep", type=Path, help="write the traces there, or use those that are there")
    args = parser.parse_args()
    threads = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="vcubeps-audit-") as temporary:
        for share in (4, 1):
            path = (args.keep or Path(temporary)) / f"{args.deliveries // share}"
            if not path.exists():
                write_trace(path, args.deliveries // share, args.nodes, args.receptions)
            # A session of its own, so that the peak is that of this size.
            session = open_session(Wanted(master=f"local[{threads}]", memory=args.memory))
            session.range(1).count()
            times = []
            for _ in range(2):
                begin, cpu_begin = time.perf_counter(), cpu_seconds()
                result = audit(session, str(path))
                times.append((time.perf_counter() - begin, cpu_seconds() - cpu_begin))
                result.findings.sparkSession.catalog.clearCache()
            peak = worker_peak_mib()
            session.stop()
            assert result.is_clean, result.counts
            cpu_begin = cpu_seconds()
            theirs = time_duckdb(path, args.receptions, threads)
            their_cpu = cpu_seconds() - cpu_begin
            total = sum(theirs.values())
            census = result.census
            print(
                f"{census.deliveries:,} deliveries, {census.receptions:,} receptions, "
                f"{result.checks:,} dependency checks, {threads} threads"
            )
            each = ", ".join(f"{name} {seconds:.1f}" for name, seconds in theirs.items())
            for when, (ours, our_cpu) in zip(("first", "again"), times, strict=True):
                print(f"  vcubeps {ours:6.1f} s, CPU {our_cpu:6.1f} s   {when}: {ours / total:.2f} × DuckDB")
            print(f"  a Python worker's peak: {peak} MiB")
            print(f"  DuckDB  {total:6.1f} s, CPU {their_cpu:6.1f} s   {each}", flush=True)


if __name__ == "__main__":
    main()
