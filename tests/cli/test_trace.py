"""`vcubeps trace export`: a log that ShiViz reads, with clocks that tell what came after what."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest

import live_runs
import planted
from vcubeps.cli import main, shiviz

Output = pytest.CaptureFixture[str]


class Logged(NamedTuple):
    host: str
    clock: dict[str, int]
    event: str


def as_shiviz_reads_it(text: str) -> list[list[Logged]]:
    """Run by run, by the expressions in the first two lines."""
    parser, delimiter, log = text.split("\n", 2)
    runs = re.split(re.sub(r"\(\?<\w+>", "(?:", delimiter), log, flags=re.M) if delimiter else [log]
    pattern = re.compile(parser.replace("(?<", "(?P<"), re.M)
    return [
        [Logged(m["host"], json.loads(m["clock"]), m["event"]) for m in pattern.finditer(run)]
        for run in runs
        if run.strip()
    ]


def check_clocks(events: list[Logged]) -> None:
    """ShiViz refuses a log in which a host's own entries are not 1, 2, 3, …, or name events that are not there."""
    own: defaultdict[str, list[int]] = defaultdict(list)
    for event in events:
        own[event.host].append(event.clock[event.host])
    assert all(counts == list(range(1, len(counts) + 1)) for counts in own.values())
    assert all(count <= len(own[host]) for event in events for host, count in event.clock.items())


def is_before(one: Logged, other: Logged) -> bool:
    return one.clock[one.host] <= other.clock.get(one.host, 0)


def events_of(events: list[Logged], what: str, host: str | None = None) -> dict[tuple[int, int], Logged]:
    """(source, counter) → the event that says so."""
    found = {}
    for event in events:
        said = re.match(rf"{what} ⟨(\d+), (\d+)⟩", event.event)
        if said and host in (None, event.host):
            found[int(said[1]), int(said[2])] = event
    return found


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("live") / "trace"
    live_runs.discuss(directory)
    return directory


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs with joins and leaves."""
    directory = tmp_path_factory.mktemp("simulated") / "trace"
    return planted.write(directory, *(planted.churn("amended", seed)[1] for seed in (1, 2)))


def test_clocks_of_a_live_run_tell_what_its_barriers_tell(live: Path, capsys: Output) -> None:
    assert main(["trace", "export", "--shiviz", str(live), "--topic", "room"]) == 0

    [events] = as_shiviz_reads_it(capsys.readouterr().out)
    check_clocks(events)
    published = events_of(events, "published")
    rows = [row for row in pq.read_table(live / "publications").to_pylist() if row["counter"]]
    room = [row for row in rows if (row["source"], row["counter"]) in published]
    entries = [(row, entry) for row in room for entry in row["barrier"]]
    assert len(entries) > len(room) / 2
    for row, entry in entries:
        cause, effect = (published[one["source"], one["counter"]] for one in (entry, row))
        assert is_before(cause, effect)
        assert not is_before(effect, cause)


def test_everything_that_happened_is_in_the_log(live: Path, capsys: Output) -> None:
    assert main(["trace", "export", "--shiviz", str(live)]) == 0

    [events] = as_shiviz_reads_it(capsys.readouterr().out)
    for table, word in (
        ("publications", "published"),
        ("receptions", "received"),
        ("deliveries", "delivered"),
    ):
        logged = [event for event in events if event.event.startswith(word)]
        assert len(logged) == pq.read_table(live / table).num_rows
    assert sum(event.event in ("joined 'room'", "left 'room'") for event in events) == 10
    assert "joined 'side'" in [event.event for event in events if event.host == "node3"]


def test_reception_comes_after_the_publication_and_delivery_after_that(
    simulated: Path, capsys: Output
) -> None:
    assert main(["trace", "export", "--shiviz", str(simulated)]) == 0

    captured = capsys.readouterr()
    runs = as_shiviz_reads_it(captured.out)
    assert len(runs) == 2
    assert "events are more than ShiViz draws easily" not in captured.err
    for events in runs:
        check_clocks(events)
        published = events_of(events, "published")
        for host in {event.host for event in events}:
            received = events_of(events, "received", host)
            delivered = events_of(events, "delivered", host)
            for identity, event in received.items():
                assert is_before(published[identity], event)
            for identity in received.keys() & delivered.keys():
                assert is_before(received[identity], delivered[identity])


def test_own_publication_comes_before_its_delivery_at_one_moment(tmp_path: Path, capsys: Output) -> None:
    """In one u.t. node 1 receives and delivers ⟨0, 1⟩, answers, and delivers its own answer."""
    rows = planted.no_rows()
    rows["publications"] = [
        {"topic": 0, "source": 1, "counter": 1, "started_ut": 5, "acknowledged_ut": -1,
         "barrier": [{"source": 0, "counter": 1}]},
        {"topic": 0, "source": 0, "counter": 1, "started_ut": 2, "acknowledged_ut": -1, "barrier": []},
    ]  # fmt: skip
    first = {"topic": 0, "source": 0, "counter": 1, "node": 1, "time_ut": 5, "position": 0}
    rows["receptions"] = [first]
    rows["deliveries"] = [first, {**first, "source": 1, "position": 1}]
    path = planted.write(tmp_path / "trace", rows)

    assert main(["trace", "export", "--shiviz", str(path)]) == 0

    [events] = as_shiviz_reads_it(capsys.readouterr().out)
    assert [event.event for event in events if event.host == "node1"] == [
        "received ⟨0, 1⟩ on topic 0",
        "delivered ⟨0, 1⟩ on topic 0",
        "published ⟨1, 1⟩ on topic 0 after ⟨0, 1⟩",
        "delivered ⟨1, 1⟩ on topic 0",
    ]


def test_log_is_sound_whatever_is_in_the_trace(tmp_path: Path, capsys: Output) -> None:
    """Phantoms, losses, duplicates, causes after their effects."""
    for seed in range(40):
        path = planted.write(tmp_path / str(seed), planted.random_rows(seed))
        assert main(["trace", "export", "--shiviz", str(path)]) == 0

        [events] = as_shiviz_reads_it(capsys.readouterr().out)
        check_clocks(events)


def test_file_gets_its_name_when_all_is_written(live: Path, tmp_path: Path, capsys: Output) -> None:
    out = tmp_path / "room.log"

    assert main(["trace", "export", "--shiviz", str(live), "--topic", "side", "--out", str(out)]) == 0

    assert capsys.readouterr().out == ""
    assert out.read_text().startswith(shiviz.PARSER + "\n\nnode")
    assert [entry.name for entry in tmp_path.iterdir()] == ["room.log"]


def test_topic_may_be_given_by_its_number(simulated: Path, live: Path, capsys: Output) -> None:
    assert main(["trace", "export", "--shiviz", str(simulated), "--topic", "0"]) == 0
    by_number = pq.read_table(live / "topics").to_pylist()[0]["topic"]
    assert main(["trace", "export", "--shiviz", str(live), "--topic", str(by_number)]) == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["{folder}/nothing"],
            "/nothing is no directory: name one that vcubeps simulate --trace or a node has",
        ),
        (["{folder}"], "is no trace, it has no folder publications: name a directory with the folders"),
        (["{live}", "--topic", "rom"], "--topic 'rom' is not in the trace: choose room, ..."),
        (["{live}", "--topic", "17"], "--topic '17' is not in the trace: choose room, side"),
        (["{simulated}", "--topic", "room"], "--topic 'room' is not in the trace: choose 0"),
        (["{live}", "--out", "{folder}"], "exists already: name a new file"),
        (["{live}", "--out", "{folder}/x/y"], "/x is no directory: make it, or name another"),
        (["{spoilt}"], "spoilt cannot be read as a trace: "),
        (["{empty}"], "there is nothing to export: the trace "),
    ],
)
def test_bad_input_is_refused_in_one_sentence(
    arguments: list[str], text: str, live: Path, simulated: Path, tmp_path: Path, capsys: Output
) -> None:
    spoilt = planted.write(tmp_path / "spoilt", planted.no_rows())
    (spoilt / "deliveries" / "0.parquet").write_text("nonsense")
    empty = planted.write(tmp_path / "empty", planted.no_rows())
    places = {"folder": tmp_path, "live": live, "simulated": simulated, "spoilt": spoilt, "empty": empty}

    assert main(["trace", "export", "--shiviz", *(a.format(**places) for a in arguments)]) == 2

    captured = capsys.readouterr()
    assert captured.out == ""
    assert text in captured.err
    assert captured.err.count("\n") == 1


def test_format_has_to_be_said(live: Path, capsys: Output) -> None:
    assert main(["trace", "export", str(live)]) == 2
    assert "required: --shiviz; see vcubeps trace export --help" in capsys.readouterr().err
