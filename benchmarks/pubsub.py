"""Publish/subscribe systems side by side: CPU time per delivery at saturation, losses, latency at light load.

    python benchmarks/pubsub.py                                     all that is installed, 3 rounds, about 12 minutes
    python benchmarks/pubsub.py --systems zeromq,zenoh,vcubeps --modes saturation
    python benchmarks/pubsub.py --seconds 0.3 --processes 2 --rounds 1 --systems zeromq --sizes 64 --modes saturation

So many processes on loopback, one topic; everyone publishes and subscribes. Every measurement has fresh processes, and
a fresh server where the system has one. The rounds go through all systems in turn (A B C A B C), so that what else the
machine does hits all alike; compare within one run only.

saturation  closed loop: a process publishes message k once it has been delivered message k - 256 of every other one
flood       open loop: a fixed number of messages, as fast as the system takes them; then, until all has come or
            nothing has come for a few seconds. Systems that may lose messages are shown with and without that setting.
latency     50 messages per second of each process at random times; from the call that publishes to the application

A delivery is a message of another process, given to the application: processes x (processes - 1) for one message of
each. Own messages do not count, though Redis and VCube-PS deliver them too. Every receiver checks that all numbers of
every source came exactly once and in order; this check is part of the CPU time, and its share is shown. CPU time is
user and system time of all processes and the server, from the start until all has been delivered or the wait ends.

`bare` is no system: the same frames over bare sockets, in Python, as a floor.

Needs `pip install pyzmq eclipse-zenoh nats-py redis uvloop`, nats-server and redis-server for what is to be compared.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import packages_distributions, version
from pathlib import Path

from peers.asyncio_member import new_event_loop
from peers.failure import RunFailed
from peers.measurement import measure
from peers.payload import SMALLEST, payload
from peers.plan import MODES, Workload
from peers.registry import SYSTEMS, System
from peers.rows import Row, compared
from peers.tables import table
from peers.tally import Tally
from peers.verdicts import OURS, verdicts
from rich.console import Console


def main() -> int:
    """Measure, print the tables and the verdicts; 1 if something required was missed or a run failed, else 0."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an exception, so that no process is left
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    systems = _can_run(options.systems, console)
    if not systems:
        console.print("Nothing to measure.")
        return 1
    rows = _rows(systems, options)
    check_us = _check_us(options.processes)
    console.print(
        f"{options.processes} processes, {os.cpu_count()} CPUs, {options.rounds} rounds of {options.seconds:g} s; "
        f"asyncio systems on {_event_loop()}; the check of a delivery takes {check_us:.2f} µs of the CPU time shown"
    )
    interrupted = False
    try:
        _measure_all(rows, options, console)
    except KeyboardInterrupt:
        interrupted = True
        console.print("Interrupted; so far:")
    for mode in options.modes:
        for size in options.sizes:
            if any(row.results or row.failures for row in rows if (row.mode, row.size) == (mode, size)):
                console.print(table(rows, mode, size))
    found = verdicts(rows, options.sizes) if OURS in systems else []
    for verdict in found:
        console.print(str(verdict))
    if options.json:
        _write(options, rows, check_us, [str(verdict) for verdict in found])
    if interrupted:
        return 130
    missed = any(verdict.required and verdict.met is False for verdict in found)
    return int(missed or any(row.failures for row in rows))


# -- what to measure -------------------------------------------------------------------------------


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = _names(tuple(SYSTEMS))
    parser.add_argument("--systems", type=names, default=None, help=f"of {', '.join(SYSTEMS)}; default: all")
    parser.add_argument("--processes", type=_integer(2), default=8)
    parser.add_argument(
        "--sizes", type=_sizes, default=[64, 1024], help="bytes of a message; default: 64,1024"
    )
    parser.add_argument(
        "--modes", type=_names(MODES), default=list(MODES), help=f"of {', '.join(MODES)}; default: all"
    )
    parser.add_argument("--seconds", type=_positive, default=2.0, help="of one measurement; default: 2")
    parser.add_argument("--rounds", type=_integer(1), default=3)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every measurement to FILE")
    return parser.parse_args()


def _names(known: tuple[str, ...]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        chosen = text.split(",")
        if unknown := [name for name in chosen if name not in known]:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not one of {', '.join(known)}")
        return chosen

    return parse


def _integer(lowest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < lowest:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {lowest}")
        return int(text)

    return parse


def _sizes(text: str) -> list[int]:
    return [_integer(SMALLEST)(part) for part in text.split(",")]


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0 and below 3600")
    return value


def _can_run(wanted: list[str] | None, console: Console) -> dict[str, System]:
    """The systems to measure; says of every other one that was wanted why it is left out."""
    systems = {}
    for name in wanted or SYSTEMS:
        reason = SYSTEMS[name].left_out()
        if reason is None:
            systems[name] = SYSTEMS[name]
        else:
            console.print(f"Without {SYSTEMS[name].title}: {reason}", markup=False)
    return systems


def _rows(systems: dict[str, System], options: argparse.Namespace) -> list[Row]:
    return [
        Row(mode, size, name, variant, system.title_of(variant))
        for mode in options.modes
        for size in options.sizes
        for name, system in systems.items()
        for variant in system.variants_in(mode)
    ]


# -- the measurements ------------------------------------------------------------------------------


def _measure_all(rows: list[Row], options: argparse.Namespace, console: Console) -> None:
    for turn in range(1, options.rounds + 1):
        for row in rows:
            workload = Workload(row.mode, row.size, options.processes, options.seconds)
            heading = f"{turn}/{options.rounds}  {row.mode:<10}  {row.size:>5} B  {row.title:<15}"
            try:
                result = measure(SYSTEMS[row.system], row.variant, workload)
            except RunFailed as failure:
                row.failures.append(str(failure))
                console.print(f"{heading}  failed: {failure}", markup=False)
            else:
                row.results.append(result)
                figure = f"{compared(row.mode)(result):10.2f} µs, {result.missing} lost"
                console.print(f"{heading}  {figure}", markup=False)


def _check_us(processes: int, messages: int = 100_000) -> float:
    """What it costs to check one delivery: the same for all systems, and none of their doing."""
    each = messages // (processes - 1)
    payloads = [payload(source, number, 0, b"") for number in range(each) for source in range(1, processes)]
    tally = Tally(0, processes, timed=False)
    before = time.process_time()
    tally.take(payloads)
    return (time.process_time() - before) * 1e6 / len(payloads)


def _event_loop() -> str:
    loop = new_event_loop()
    loop.close()
    return type(loop).__module__.partition(".")[0]


# -- the file --------------------------------------------------------------------------------------


def _write(options: argparse.Namespace, rows: list[Row], check_us: float, found: list[str]) -> None:
    distributions = packages_distributions()
    modules = {SYSTEMS[row.system].imports for row in rows} | {"uvloop"}
    versions = {name: version(distributions[name][0]) for name in sorted(modules) if name in distributions}
    document = {
        "settings": {name: value for name, value in vars(options).items() if name != "json"},
        "machine": {
            "cpus": os.cpu_count(),
            "platform": platform.platform(),
            "python": platform.python_version(),
        },
        "versions": versions,
        "check_us": check_us,
        "rows": [
            {
                **{name: getattr(row, name) for name in ("mode", "size", "system", "variant", "failures")},
                "rounds": [
                    {**asdict(result), "cpu_us": result.cpu_us, "rate": result.rate} for result in row.results
                ],
            }
            for row in rows
        ],
        "verdicts": found,
    }
    options.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
