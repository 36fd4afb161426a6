"""Speed of the simulation kernels, beside a plain Python event loop and SimPy on the same workload.

    python benchmarks/simulator.py            everything, a few minutes
    python benchmarks/simulator.py --quick    without SimPy and the largest sizes

The bare workload: N nodes subscribe, all publish one message at random within 1000 u.t., literal delays, free
acknowledgements; one event per copy. CPU seconds of this process, best of several, since the machine may be
shared. Compilation is not counted. Where a C compiler is found, the same design in C is run too.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

from vcubeps.sim.kernel import srpt, storm, vcube
from vcubeps.sim.measurements import Measurements
from vcubeps.sim.network import Delays
from vcubeps.sim.scenarios import VCUBE, Run, points
from vcubeps.sim.simulation import simulate
from vcubeps.sim.workload import Workload

FLIGHT_UT = 101
"""t_pp + t_pc."""

PROGRAM_IN_C = Path(__file__).with_name("storm.c")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="without SimPy and the largest sizes")
    quick = parser.parse_args().quick
    for kernel in (bare, bare_with_acks, ordered, srpt_s):
        kernel(everyone_publishes(8))  # compiles

    python = rate("pure Python buckets, N=1024", 1024, python_buckets)
    rates = {n: rate(f"kernel, bare, N={n}", n, bare) for n in (256, 1024, 4096)}
    print(f"  kernel / pure Python, N=1024: {rates[1024] / python:.1f} (aim: at least 40)")
    print(f"  cost per event, N=4096 / N=256: {rates[256] / rates[4096]:.2f} (aim: at most 2.5)")
    in_c(rates)
    rate("kernel, bare, acknowledgements queued, N=1024", 1024, bare_with_acks)
    rate("kernel, SRPT-S, N=1024", 1024, srpt_s)
    full = rate("kernel, barriers and delivery checks, N=1024", 1024, ordered)
    print(f"  with barriers / pure Python bare, N=1024: {full / python:.1f} (aim: at least 10)")
    if not quick:
        churn()
        simpy = rate("SimPy callbacks, N=1024", 1024, simpy_callbacks, repeat=1)
        print(f"  kernel / SimPy, N=1024: {rates[1024] / simpy:.0f} (aim: at least 350)")
        large("N=2^20, all subscribe, one publication (aim: 2 s, 1 GB)", 1 << 20, 1)
        large("N=65,536, 64 publishers (aim: 10 s)", 1 << 16, 64)


def everyone_publishes(nodes: int, publications: int | None = None) -> Workload:
    rng = np.random.RandomState(1)
    count = publications or nodes
    return Workload(
        nodes=nodes,
        members=np.ones((1, nodes), np.bool_),
        publish_ut=np.sort(rng.randint(0, 1000, count)).astype(np.int64),
        publish_node=rng.permutation(nodes)[:count].astype(np.int64),
        publish_topic=np.zeros(count, np.int64),
        roots=np.zeros(1, np.int64),
    )


def rate(label: str, nodes: int, subject: Callable[[Workload], float], repeat: int = 5) -> float:
    """Copies per CPU second, in millions; `subject` returns the mean latency."""
    load = everyone_publishes(nodes)
    best = float("inf")
    for _ in range(repeat):
        begin = time.process_time()
        latency = subject(load)
        best = min(best, time.process_time() - begin)
    millions = nodes * (nodes - 1) / best / 1e6
    print(f"{label}: {millions:.2f} million copies per CPU second (mean latency {latency:.2f})")
    return millions


def bare(load: Workload) -> float:
    return mean_latency(storm.run(load, Delays(), 1))


def bare_with_acks(load: Workload) -> float:
    return mean_latency(storm.run(load, Delays(acks="queued"), 1))


def ordered(load: Workload) -> float:
    return mean_latency(vcube.run(load, Delays(), 1)[0])


def srpt_s(load: Workload) -> float:
    return mean_latency(srpt.run(load, Delays(), 1)[0])


def mean_latency(measured: Measurements) -> float:
    counts = measured.reception_ut
    return float(counts @ np.arange(len(counts)) / counts.sum())


def python_buckets(load: Workload) -> float:
    """The bare workload in plain Python: a list of events per unit of time."""
    nodes = load.nodes
    published = dict(zip(load.publish_node.tolist(), load.publish_ut.tolist(), strict=True))
    buckets: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for node, moment in published.items():
        buckets[moment].append((node, node))
    busy_until = [0] * nodes
    waiting, now, total, count = len(published), 0, 0, 0
    while waiting:
        for node, source in buckets.pop(now, ()):
            waiting -= 1
            distance = node ^ source
            if distance:
                total += now - published[source]
                count += 1
            else:
                distance = nodes
            turn = busy_until[node]
            if turn < now:
                turn = now
            bit = 1
            while not distance & bit:
                turn += 1
                buckets[turn + FLIGHT_UT].append((node ^ bit, source))
                waiting += 1
                bit <<= 1
            busy_until[node] = turn
        now += 1
    return total / count


def simpy_callbacks(load: Workload) -> float:
    """The bare workload on SimPy, with events and callbacks, its fastest way."""
    import simpy  # noqa: PLC0415

    nodes = load.nodes
    published = dict(zip(load.publish_node.tolist(), load.publish_ut.tolist(), strict=True))
    environment = simpy.Environment()
    busy_until = [0] * nodes
    total = count = 0

    def arrive(event: simpy.Event) -> None:
        nonlocal total, count
        node, source = event.value
        now = environment.now
        distance = node ^ source
        if distance:
            total += now - published[source]
            count += 1
        else:
            distance = nodes
        turn = max(now, busy_until[node])
        bit = 1
        while not distance & bit:
            turn += 1
            copy = environment.timeout(turn + FLIGHT_UT - now, (node ^ bit, source))
            copy.callbacks.append(arrive)
            bit <<= 1
        busy_until[node] = turn

    for node, moment in published.items():
        environment.timeout(moment, (node, node)).callbacks.append(arrive)
    environment.run()
    return total / count


def churn() -> None:
    """The scenario of section 4.5 with 2048 nodes, by both protocols."""
    for protocol in ("published", "amended"):
        chosen = {"churn": (0.125,), "protocol": (protocol,)}
        [small] = points("churn", {"nodes": (16,), **chosen}, (VCUBE,))
        simulate(Run(small, 1))  # compiles
        [point] = points("churn", {"nodes": (2048,), **chosen}, (VCUBE,))
        begin = time.process_time()
        measured, _ = simulate(Run(point, 1))
        seconds = time.process_time() - begin
        print(
            f"churn, N=2048, {protocol}: {seconds:.1f} CPU seconds, {measured.events / seconds / 1e6:.1f} million "
            f"messages per CPU second, {measured.lost} of {measured.expected} expected receptions lost"
        )


def in_c(rates: dict[int, float]) -> None:
    """The same design, written in C."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        print("  no C compiler here: not compared with C")
        return
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / "storm"
        subprocess.run([compiler, "-O3", "-march=native", "-o", program, PROGRAM_IN_C], check=True)
        for nodes, ours in rates.items():
            answer = subprocess.run([program, str(nodes)], check=True, capture_output=True, text=True)
            theirs = float(answer.stdout)
            print(f"  C -O3, N={nodes}: {theirs:.2f}; C / kernel: {theirs / ours:.2f} (aim: at most 1.2)")


def large(label: str, nodes: int, publications: int) -> None:
    """In a process of its own, for its memory."""
    script = (
        "import resource, sys, time; sys.path.insert(0, sys.argv[1]); import simulator as s\n"
        "s.storm.run(s.everyone_publishes(8), s.Delays(), 1)\n"
        f"load = s.everyone_publishes({nodes}, {publications}); begin = time.perf_counter()\n"
        "s.storm.run(load, s.Delays(), 1); took = time.perf_counter() - begin\n"
        "print(f'{took:.2f} s, {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB')"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script, str(Path(__file__).parent)], check=True, capture_output=True, text=True
    )
    print(f"{label}: {answer.stdout.strip()}")


if __name__ == "__main__":
    main()
