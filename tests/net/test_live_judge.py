"""The judge of live tests is the explorer's, and it judges: altered records are found out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from net.live import Live, Record, run
from net.live_judge import Seen, violations
from vcubeps.protocol.outputs import Acknowledged, Deliver


@pytest.fixture(scope="module")
def record() -> Record:
    """Two nodes that have said something to each other."""

    async def main() -> Record:
        async with Live(2) as live:
            zero, one = await live.join_all("room")
            for number in range(3):
                await (await zero.publish(b"%d" % number)).acknowledged()
                await (await one.publish(b"%d" % number)).acknowledged()
            await live.settle()
        return live.record

    return run(main())


def swap_deliveries(seen: list[Seen]) -> list[Seen]:
    """Node 1 delivers the third publication before the first."""
    places = [place for place, (_, node, _, what) in enumerate(seen) if node == 1 and type(what) is Deliver]
    first, last = places[0], places[-2]
    altered = list(seen)
    altered[first] = (*seen[first][:3], seen[last][3])
    altered[last] = (*seen[last][:3], seen[first][3])
    return altered


def drop_last_acknowledgement(seen: list[Seen]) -> list[Seen]:
    places = [
        place for place, (_, node, _, what) in enumerate(seen) if node == 1 and type(what) is Acknowledged
    ]
    return seen[: places[-1]] + seen[places[-1] + 1 :]


def alter_payload(seen: list[Seen]) -> list[Seen]:
    place = next(
        place for place, (_, node, _, what) in enumerate(seen) if node == 1 and type(what) is Deliver
    )
    *when, what = seen[place]
    batch = what.batch  # type: ignore[attr-defined]
    first, *rest = batch.payloads
    altered = replace(what, batch=replace(batch, payloads=(first + b"!", *rest)))  # type: ignore[type-var]
    return [*seen[:place], (*when, altered), *seen[place + 1 :]]  # type: ignore[list-item]


def test_what_nodes_did_is_found_right(record: Record) -> None:
    assert len(record.seen) > 20
    assert violations(record.seen) == []


@pytest.mark.parametrize(
    ("alter", "checker"),
    [
        (swap_deliveries, "causal"),
        (
            lambda seen: [*seen[:-4], *[each for each in seen if type(each[3]) is Deliver][:1], *seen[-4:]],
            "integrity",
        ),
        (alter_payload, "integrity"),
        (drop_last_acknowledgement, "liveness"),
    ],
    ids=["out of order", "twice", "altered", "never acknowledged"],
)
def test_an_altered_record_is_found_out(
    record: Record, alter: Callable[[list[Seen]], list[Seen]], checker: str
) -> None:
    before_the_end = [each for each in record.seen if each[3] != "crashed"]

    assert any(found.startswith(f"{checker}:") for found in violations(alter(before_the_end)))
