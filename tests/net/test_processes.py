"""Nodes in processes of their own: stopped, continued, killed."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import vcubeps
from net import jobs
from net.jobs import count_in
from net.live import FAST, impatient, run, until
from net.live_judge import CRASHED, Seen, violations
from vcubeps.cli.bench_load import load
from vcubeps.net.clock import now_s
from vcubeps.node.settings import Limits

SMALL = Limits(unacknowledged_max=20)
TOPICS = {"slow": (0, 2), "other": (1, 0)}
"""Node 2 is the one that something happens to."""


def judge(seen: list[Seen]) -> None:
    assert violations(seen) == []


async def stays(value: Callable[[], int], for_s: float) -> int:
    """Wait until `value` has not changed for a while; its value then."""
    seen, since_s = value(), time.monotonic()
    while time.monotonic() - since_s < for_s:
        await asyncio.sleep(0.01)
        if value() != seen:
            seen, since_s = value(), time.monotonic()
    return seen


def test_nodes_in_processes_answer_each_other_in_causal_order() -> None:
    async def main() -> None:
        async with vcubeps.LocalCluster(4, processes=2, timing=FAST) as cluster:
            assert len(cluster.pids) == 2
            results = await cluster.run(jobs.ring, 40)
        assert all(got == [b"%d" % step for step in range(40)] for _, got in results)
        judge([event for events, _ in results for event in events])

    run(main())


def test_nodes_in_processes_do_without_uvloop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with vcubeps.LocalCluster(2, processes=True, timing=FAST) as cluster:
            for _ in range(3):
                results = await cluster.run(load, "saturation", 64, 500, 0.0)
                assert [(each.delivered, each.misplaced) for each in results] == [(500, 0), (500, 0)]

    (tmp_path / "uvloop.py").write_text("raise ImportError")
    monkeypatch.syspath_prepend(tmp_path)  # the processes look for modules where this one does

    run(main())


async def unimportable(node: vcubeps.Node) -> None:
    """Test modules have no name by which another process could import them."""


def test_a_function_that_the_processes_cannot_import_is_refused_with_the_reason() -> None:
    async def main() -> None:
        async with vcubeps.LocalCluster(2, processes=True, timing=FAST) as cluster:
            with pytest.raises(vcubeps.WorkerFailed, match="ModuleNotFoundError: No module named"):
                await cluster.run(unimportable)
            assert await cluster.run(jobs.raise_in, 9) == [0, 1]

    run(main())


def test_what_a_function_raises_in_a_process_comes_with_its_traceback() -> None:
    async def main() -> None:
        async with vcubeps.LocalCluster(2, processes=True, timing=FAST) as cluster:
            with pytest.raises(vcubeps.WorkerFailed, match="ValueError: in node 1"):
                await cluster.run(jobs.raise_in, 1)
            assert await cluster.run(jobs.raise_in, 9) == [0, 1]  # it can be used again

    run(main())


def test_a_stopped_subscriber_halts_the_publishers_of_its_topic_only_and_loses_nothing(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with vcubeps.LocalCluster(3, processes=True, timing=FAST, limits=SMALL) as cluster:
            running = asyncio.create_task(cluster.run(jobs.publish_on_topics, tmp_path, TOPICS))
            slow, other = tmp_path / "slow.count", tmp_path / "other.count"
            await until(lambda: count_in(slow) > 50 and count_in(other) > 50, "both topics")
            os.kill(cluster.pids[2], signal.SIGSTOP)
            try:
                halted = await stays(lambda: count_in(slow), for_s=0.3)
                going = count_in(other)
                await until(lambda: count_in(other) > going + 50, "the other topic goes on")
                assert count_in(slow) == halted
            finally:
                os.kill(cluster.pids[2], signal.SIGCONT)
            await until(lambda: count_in(slow) > halted + 50, "the slow topic goes on")
            (tmp_path / "stop").touch()
            events = await running
        judge([event for each in events for event in each])
        assert not list(tmp_path.glob("gap-*"))

    run(main())


def test_a_subscriber_stopped_for_too_long_counts_as_crashed_and_comes_back_with_a_gap(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        settings = {"timing": FAST, "limits": SMALL, "detection": impatient(0.5)}
        async with vcubeps.LocalCluster(3, processes=True, **settings) as cluster:
            running = asyncio.create_task(cluster.run(jobs.publish_on_topics, tmp_path, TOPICS))
            slow = tmp_path / "slow.count"
            await until(lambda: count_in(slow) > 50)
            os.kill(cluster.pids[2], signal.SIGSTOP)
            try:
                going = count_in(slow)
                await until(lambda: count_in(slow) > going + 100, "the topic goes on without the stopped one")
            finally:
                os.kill(cluster.pids[2], signal.SIGCONT)
            await until((tmp_path / "gap-2").exists, "the gap")
            going = count_in(slow)
            await until(lambda: count_in(slow) > going + 20)
            (tmp_path / "stop").touch()
            events = await running
        judge([event for each in events for event in each])

    run(main())


def test_a_killed_process_is_given_up_and_the_others_go_on(tmp_path: Path) -> None:
    async def main() -> None:
        settings = {"timing": FAST, "limits": SMALL, "detection": impatient(0.3)}
        async with vcubeps.LocalCluster(3, processes=True, **settings) as cluster:
            running = asyncio.create_task(cluster.run(jobs.publish_on_topics, tmp_path, TOPICS))
            slow = tmp_path / "slow.count"
            await until(lambda: count_in(slow) > 50)
            killed = cluster.pids[2]
            os.kill(killed, signal.SIGKILL)
            killed_s = now_s()
            going = count_in(slow)
            await until(lambda: count_in(slow) > going + 50, "the topic goes on without the killed one")
            (tmp_path / "stop").touch()
            await until(lambda: all((tmp_path / f"events-{node}").exists() for node in (0, 1)))
            with pytest.raises(vcubeps.WorkerFailed, match=f"process {killed} of the cluster has ended"):
                await running
        events: list[Seen] = [(killed_s, 2, 0, CRASHED)]
        for node in (0, 1):
            events += pickle.loads((tmp_path / f"events-{node}").read_bytes())
        # What node 2 did died with it: it published nothing, and its deliveries cannot be checked.
        judge(events)

    run(main())
