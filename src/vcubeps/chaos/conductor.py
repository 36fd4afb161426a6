"""Carries a plan out on a cluster of processes, and writes down what happens.

The plan says what and when; the conductor begins a fault later where the nodes are not back from earlier ones, so that
the plan's promise holds: a quorum is left. What comes later is put off by as much.
"""

from __future__ import annotations

import asyncio
import resource
import time
from bisect import insort
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path

from vcubeps.chaos import plan, reports
from vcubeps.chaos.faults import ALONE, CUTS
from vcubeps.chaos.fleet import Fleet
from vcubeps.chaos.plan import Fault
from vcubeps.chaos.proxies import Proxies
from vcubeps.chaos.record import Crash, Done, Options, Problem, Record, Restart
from vcubeps.chaos.recovery import BACK_WITHIN_S, is_overcome

_UP_WITHIN_S = 60.0
_QUIET_WITHIN_S = 30.0
_END_WITHIN_S = 10.0
_POLL_S = 0.05

Tell = Callable[[str], None]


class CouldNotStart(Exception):
    """The cluster did not come up, before anything was done to it."""


class Conductor:
    """One run, in `directory`."""

    def __init__(
        self, options: Options, directory: Path, on_overcome: Callable[[Done], None], tell: Tell
    ) -> None:
        """`on_overcome` is called with each fault when everybody goes on again, or should have."""
        self.record = Record(
            options,
            plan.draw(options.seed, options.nodes, options.seconds, options.per_minute, options.kinds),
            pulses={node: [] for node in range(options.nodes)},
            ups={node: [] for node in range(options.nodes)},
        )
        self._options = options
        self._directory = directory
        self._on_overcome, self._tell = on_overcome, tell
        self._nodes = range(options.nodes)
        self._fleet = Fleet(
            directory, options.seed, options.publications_per_s, self._on_report, self._on_ended
        )
        self._proxies = Proxies()
        self._start_s = 0.0
        self._quiet: dict[int, reports.Quiet] = {}
        self._harmed: dict[int, float] = {}
        """Node that has not gone on since something happened to it → since when it may."""
        self._overcoming: set[asyncio.Task[None]] = set()

    async def run(self) -> Record:
        """All processes have ended when it returns, or raises."""
        _allow_many_files()
        try:
            await self._set_up()
            await self._carry_out()
            await self._settle()
            await self._end()
        finally:
            for task in self._overcoming:
                task.cancel()
            self.record.ended_s = self.record.ended_s or self._now_s()
            await self._fleet.close()
            await self._proxies.close()
            self.record.write(self._directory)
        return self.record

    def _now_s(self) -> float:
        return time.monotonic() - self._start_s if self._start_s else 0.0

    # -- what the processes say ----------------------------------------------------------------

    def _on_report(self, node: int, report: reports.Report) -> None:
        record, start_s = self.record, self._start_s
        match report:
            case reports.Pulse(published_s, acknowledged_s):
                if self._start_s:
                    pulse = round(published_s - start_s, 4), round(acknowledged_s - start_s, 4)
                    insort(record.pulses[node], pulse)
                if published_s - start_s >= self._harmed.get(node, float("inf")):
                    del self._harmed[node]
            case reports.Up(at_s, _):
                record.ups[node].append(round(at_s - start_s, 4))
            case reports.Crash(at_s, other, incarnation, evidence):
                record.crashes.append(Crash(round(at_s - start_s, 4), node, other, incarnation, evidence))
            case reports.Life(at_s, "starting", incarnation, reason):
                restart = Restart(round(at_s - start_s, 4), node, incarnation, reason)
                record.restarts.append(restart)
                self._tell(str(restart))
            case reports.Unknown(_, publications, isolated):
                record.unknown += publications
                record.isolated += isolated
            case reports.Wrong(_, text):
                self._problem("order", f"node {node}: {text}")
            case reports.Failed(_, reason):
                self._problem("ended", f"node {node} has failed: {reason}")
            case reports.Quiet():
                self._quiet[node] = report
                record.published += report.published
                record.delivered += report.delivered

    def _on_ended(self, node: int, code: int) -> None:
        self._problem("ended", f"the process of node {node} has ended by itself, with code {code}")

    def _problem(self, kind: str, text: str) -> None:
        self.record.problems.append(Problem(kind, text))
        self._tell(f"FOUND {kind}: {text}")

    # -- the run -------------------------------------------------------------------------------

    async def _set_up(self) -> None:
        targets = self._fleet.reserve(self._options.nodes)
        ways = await self._proxies.open(targets)
        self._fleet.write_files(f"chaos-{self._options.seed}", targets, ways)
        self._harm(self._nodes)
        self._let_be(self._nodes)
        await asyncio.gather(*(self._fleet.start(node) for node in self._nodes))
        if not await self._until(lambda: not self._harmed, _UP_WITHIN_S) or self.record.problems:
            missing = ", ".join(map(str, sorted(self._harmed))) or "some"
            raise CouldNotStart(
                f"nodes {missing} were not up after {_UP_WITHIN_S:g} s: see {self._fleet.log(0).parent}"
            )
        self._start_s = time.monotonic()
        for times_s in self.record.ups.values():
            times_s.clear()
        self.record.crashes.clear()
        self.record.restarts.clear()

    async def _carry_out(self) -> None:
        """Each fault at its time; they go on beside each other."""
        late_s = 0.0
        async with asyncio.TaskGroup() as group:
            for place, fault in enumerate(self.record.plan):
                await asyncio.sleep(max(0.0, fault.at_s + late_s - self._now_s()))
                if not await self._until(partial(self._may_begin, fault), BACK_WITHIN_S):
                    waiting = ", ".join(map(str, sorted(self._harmed)))
                    self._problem(
                        "stuck",
                        f"nodes {waiting} did not go on for {BACK_WITHIN_S:g} s, so fault {fault.number} ({fault}) and "
                        f"what follows were left out",
                    )
                    return
                late_s = max(late_s, self._now_s() - fault.at_s)
                if fault.ends_s + late_s > self._options.seconds:
                    left = len(self.record.plan) - place
                    self._tell(
                        f"the last {left} faults are left out: nodes took longer to come back than planned"
                    )
                    return
                done = Done(fault, round(self._now_s(), 4))
                self.record.done.append(done)
                group.create_task(self._happen(done))

    def _may_begin(self, fault: Fault) -> bool:
        """Its victims are there, and a quorum is left; what stands alone waits until all are back."""
        if fault.kind in ALONE or any(
            done.end_s is None and done.fault.kind in ALONE for done in self.record.done
        ):
            return not self._harmed and all(done.end_s is not None for done in self.record.done)
        if any(node in self._harmed for node in fault.victims):
            return False
        left = set(self._nodes) - set(self._harmed) - fault.away(self._options.nodes)
        return plan.is_quorum(left, self._options.nodes)

    async def _happen(self, done: Done) -> None:
        fault = done.fault
        self._harm(fault.victims)
        await _DOING[fault.kind](self, fault)
        done.end_s = round(self._now_s(), 4)
        self.record.last_healed_s = max(self.record.last_healed_s, done.end_s)
        self._let_be(fault.victims)
        task = asyncio.create_task(self._overcome(done))
        self._overcoming.add(task)
        task.add_done_callback(self._overcoming.discard)

    async def _overcome(self, done: Done) -> None:
        """Tell of a fault when its victims go on, and so do the others, or when it is too late for that."""
        await self._until(partial(is_overcome, self.record, done), BACK_WITHIN_S)
        self._on_overcome(done)

    async def _settle(self) -> None:
        """All nodes go on, without any help."""
        since_s = self._now_s()
        self._tell("the last fault is healed; all nodes are to go on")
        for node in self._nodes:
            self._harmed.setdefault(node, since_s)
        if await self._until(lambda: not self._harmed, BACK_WITHIN_S):
            self.record.settled_s = round(self._now_s(), 4)
            await asyncio.gather(*self._overcoming)
        await asyncio.sleep(max(0.0, self._options.seconds - self._now_s()))

    async def _end(self) -> None:
        """Everything is acknowledged, and all say goodbye."""
        self.record.ended_s = round(self._now_s(), 4)
        for node in self._nodes:
            self._fleet.tell(node, reports.BeQuiet())
        if not await self._until(lambda: len(self._quiet) == len(self._nodes), _QUIET_WITHIN_S):
            missing = ", ".join(str(node) for node in self._nodes if node not in self._quiet)
            self._problem(
                "stuck",
                f"not all publications of nodes {missing} were acknowledged within {_QUIET_WITHIN_S:g} s of the end",
            )
        for node, quiet in sorted(self._quiet.items()):
            if quiet.members != tuple(self._nodes):
                self._problem("view", f"at the end node {node} saw the members {list(quiet.members)}")
            if quiet.violations:
                self._problem(
                    "violation", f"node {node} got {quiet.violations} messages that no correct node sends"
                )
        await asyncio.gather(*(self._end_in_order(node) for node in self._nodes if self._fleet.runs(node)))

    # -- faults --------------------------------------------------------------------------------

    async def _kill(self, fault: Fault) -> None:
        await asyncio.gather(*(self._fleet.kill(node) for node in fault.nodes))
        await asyncio.sleep(fault.for_s)
        await asyncio.gather(*(self._fleet.start(node) for node in fault.nodes))

    async def _stop(self, fault: Fault) -> None:
        for node in fault.nodes:
            self._fleet.stop(node)
        try:
            await asyncio.sleep(fault.for_s)
        finally:
            for node in fault.nodes:
                self._fleet.go_on(node)

    async def _close(self, fault: Fault) -> None:
        await asyncio.gather(*(self._end_in_order(node) for node in fault.nodes))
        await asyncio.sleep(fault.for_s)
        await asyncio.gather(*(self._fleet.start(node) for node in fault.nodes))

    async def _roll(self, fault: Fault) -> None:
        for node in fault.nodes:
            await self._end_in_order(node)
            await self._fleet.start(node)
            self._let_be([node])
            if not await self._until(partial(self._are_back, [node]), BACK_WITHIN_S):
                return  # who judges sees it

    async def _cut(self, fault: Fault) -> None:
        self._proxies.cut(fault.severed(), fault.manner)
        await asyncio.sleep(fault.for_s)
        self._proxies.heal(fault.severed(), fault.manner)

    async def _reset(self, fault: Fault) -> None:
        self._proxies.reset((node, other) for node in fault.nodes for other in self._nodes if other != node)

    async def _slow(self, fault: Fault) -> None:
        for node in fault.nodes:
            self._fleet.tell(node, reports.ReadSlowly(fault.for_s))
        await asyncio.sleep(fault.for_s)

    # -- small -----------------------------------------------------------------------------------

    async def _end_in_order(self, node: int) -> None:
        if not await self._fleet.end(node, _END_WITHIN_S):
            self._problem(
                "ended", f"node {node} did not end within {_END_WITHIN_S:g} s of SIGTERM, and was killed"
            )

    def _harm(self, nodes: Iterable[int]) -> None:
        """They do not count until they are let be and go on."""
        self._harmed.update((node, float("inf")) for node in nodes)

    def _let_be(self, nodes: Iterable[int]) -> None:
        now_s = self._now_s()
        self._harmed.update((node, now_s) for node in nodes)

    def _are_back(self, nodes: Iterable[int]) -> bool:
        return not any(node in self._harmed for node in nodes)

    async def _until(self, condition: Callable[[], bool], within_s: float) -> bool:
        deadline_s = time.monotonic() + within_s
        while not condition():
            if time.monotonic() > deadline_s:
                return False
            await asyncio.sleep(_POLL_S)
        return True


_DOING: dict[str, Callable[[Conductor, Fault], Awaitable[None]]] = {
    "kill": Conductor._kill,
    "many": Conductor._kill,
    "stop": Conductor._stop,
    "close": Conductor._close,
    "rolling": Conductor._roll,
    "reset": Conductor._reset,
    "slow": Conductor._slow,
    **dict.fromkeys(CUTS, Conductor._cut),
}


def _allow_many_files() -> None:
    """Every pair of nodes has two ways, and every connection two ends here."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
