"""Which incarnation a node starts as, and that no two processes run one node."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from vcubeps.net.incarnation import IncarnationStore, NodeRunning, StateError, VolatileIncarnation
from vcubeps.protocol.errors import UsageError
from vcubeps.protocol.limits import MAX_INCARNATION


def start(directory: Path, node: int = 3) -> int:
    """The incarnation of one start of the node, which ends at once."""
    with IncarnationStore.open(directory, node) as store:
        return store.next()


# Numbers.


def test_a_node_starts_as_0_and_then_as_one_more_each_time(tmp_path):
    assert [start(tmp_path) for _ in range(3)] == [0, 1, 2]


def test_each_call_in_one_process_gives_another(tmp_path):
    with IncarnationStore.open(tmp_path, 3) as store:
        assert [store.next(), store.next()] == [0, 1]


def test_nodes_count_by_themselves(tmp_path):
    start(tmp_path, 3)

    assert start(tmp_path, 4) == 0
    assert start(tmp_path, 33) == 0


def test_a_later_incarnation_that_is_stored_counts_at_the_next_start(tmp_path):
    with IncarnationStore.open(tmp_path, 3) as store:
        store.next()
        store.store(7)

    assert start(tmp_path) == 8


def test_storing_the_incarnation_in_use_changes_nothing(tmp_path):
    with IncarnationStore.open(tmp_path, 3) as store:
        store.store(store.next())

    assert start(tmp_path) == 1


def test_an_incarnation_before_the_last_is_not_stored(tmp_path):
    with IncarnationStore.open(tmp_path, 3) as store:
        store.store(7)
        with pytest.raises(UsageError) as caught:
            store.store(6)

    assert str(caught.value) == (
        "node 3 has used incarnation 7 already, got the earlier 6: its counters may be in use, take a later one"
    )
    assert start(tmp_path) == 8


@pytest.mark.parametrize("incarnation", [-1, MAX_INCARNATION + 1])
def test_what_is_no_incarnation_is_not_stored(tmp_path, incarnation):
    with IncarnationStore.open(tmp_path, 3) as store, pytest.raises(UsageError) as caught:
        store.store(incarnation)

    assert str(caught.value) == f"incarnations lie in 0…4194303, got {incarnation}: store one in that range"


def test_a_node_that_has_used_all_incarnations_does_not_start(tmp_path):
    with IncarnationStore.open(tmp_path, 3) as store:
        store.store(MAX_INCARNATION)
        with pytest.raises(StateError) as caught:
            store.next()

    assert str(caught.value) == (
        "node 3 may start as incarnation 4194303 at most, and it has: give it an id that was never used, or the whole "
        "cluster another name"
    )


def test_a_closed_store_gives_nothing_out(tmp_path):
    store = IncarnationStore.open(tmp_path, 3)
    store.close()
    store.close()

    with pytest.raises(UsageError, match="the incarnations of node 3 are closed: open them again"):
        store.next()


# The file.


def test_the_file_holds_digits_and_a_line_end_and_nothing_else_stays(tmp_path):
    start(tmp_path)
    start(tmp_path)

    assert (tmp_path / "node-3.incarnation").read_text() == "1\n"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["node-3.incarnation", "node-3.lock"]


def test_a_number_is_on_the_disk_in_full_before_it_takes_the_place_of_the_old_one(tmp_path, monkeypatch):
    done = []
    start(tmp_path)
    sync, replace = os.fsync, Path.replace

    def noted_sync(handle):
        name = Path(os.readlink(f"/proc/self/fd/{handle}"))
        done.append(("sync", name.name, name.read_text() if name.is_file() else ""))
        sync(handle)

    def noted_replace(source, target):
        done.append(("replace", target.name, ""))
        return replace(source, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    start(tmp_path)

    assert done == [
        ("sync", "node-3.incarnation.new", "1\n"),
        ("replace", "node-3.incarnation", ""),
        ("sync", tmp_path.name, ""),
    ]


def test_folders_that_are_made_are_made_durable(tmp_path, monkeypatch):
    synced = []
    sync = os.fsync

    def noted_sync(handle):
        synced.append(os.readlink(f"/proc/self/fd/{handle}"))
        sync(handle)

    monkeypatch.setattr(os, "fsync", noted_sync)
    with IncarnationStore.open(tmp_path / "a" / "b", 3):
        pass

    assert synced == [str(tmp_path / "a"), str(tmp_path)]


def test_a_start_that_could_not_be_stored_gives_no_number(tmp_path, monkeypatch):
    def full(_handle):
        raise OSError(28, "No space left on device")

    with IncarnationStore.open(tmp_path, 3) as store:
        store.next()
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(StateError) as caught:
                store.next()
        again = store.next()

    assert str(caught.value) == (
        f"{tmp_path}: what is kept about node 3 cannot be read or written (No space left on device): make {tmp_path} a "
        "directory that this user may write to, with room on the disk, or choose another with state_dir"
    )
    assert again == 1


def test_what_a_killed_process_left_half_written_does_not_count(tmp_path):
    start(tmp_path)
    (tmp_path / "node-3.incarnation.new").write_text("")

    assert start(tmp_path) == 1


@pytest.mark.parametrize(
    "content", [b"", b"4", b"x\n", b"-1\n", b"4194304\n", b"1\n2\n", b"\xb2\n", b"0" * 100]
)
def test_a_damaged_file_is_refused_with_what_to_write_into_it_and_why(tmp_path, content):
    file = tmp_path / "node-3.incarnation"
    file.write_bytes(content)

    with pytest.raises(StateError) as caught:
        IncarnationStore.open(tmp_path, 3)

    assert str(caught.value) == (
        f"{file}: the last incarnation of node 3 must be a whole number from 0 to 4194303 and a line end, got "
        f"{content[:20]!r}: write a higher number into it than the node has ever used (1000000 if nobody knows), "
        "because the counters of an incarnation must never be used twice"
    )


def test_a_damaged_file_that_is_put_right_serves_without_more_ado(tmp_path):
    file = tmp_path / "node-3.incarnation"
    file.write_text("")
    with pytest.raises(StateError):
        IncarnationStore.open(tmp_path, 3)
    file.write_text("1000000\n")

    assert start(tmp_path) == 1000001


def test_a_place_where_no_directory_can_be_is_refused(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(StateError) as caught:
        IncarnationStore.open(tmp_path / "file" / "state", 3)

    assert str(caught.value) == (
        f"{tmp_path}/file/state: what is kept about node 3 cannot be read or written (Not a directory): make "
        f"{tmp_path}/file/state a directory that this user may write to, with room on the disk, or choose another with "
        "state_dir"
    )


# The lock.

HOLD = """
import sys
from pathlib import Path
from vcubeps.net.incarnation import IncarnationStore

store = IncarnationStore.open(Path(sys.argv[1]), 3)
print(store.next(), flush=True)
sys.stdin.read()
"""


def holder(directory: Path) -> subprocess.Popen[str]:
    """A process that runs node 3 until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "0\n"
    return process


def test_a_node_that_runs_in_another_process_is_refused_with_the_number_of_that_process(tmp_path):
    with holder(tmp_path) as process:
        with pytest.raises(NodeRunning) as caught:
            IncarnationStore.open(tmp_path, 3)
        process.stdin.close()

    assert str(caught.value) == (
        f"{tmp_path}/node-3.lock: node 3 of this cluster already runs on this machine, as process {process.pid}: stop "
        "that one first, or start another node"
    )


def test_other_nodes_start_beside_a_running_one(tmp_path):
    with holder(tmp_path) as process:
        assert start(tmp_path, 4) == 0
        process.stdin.close()


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    with holder(tmp_path) as process:
        process.kill()

    assert start(tmp_path) == 1


def test_a_second_opening_in_the_same_process_is_refused(tmp_path):
    with IncarnationStore.open(tmp_path, 3), pytest.raises(NodeRunning, match=f"as process {os.getpid()}:"):
        IncarnationStore.open(tmp_path, 3)


def test_a_refused_opening_does_not_free_the_lock(tmp_path):
    with IncarnationStore.open(tmp_path, 3):
        for _ in range(2):
            with pytest.raises(NodeRunning):
                IncarnationStore.open(tmp_path, 3)


def test_a_holder_that_has_not_yet_written_its_number_is_another_process(tmp_path):
    with (tmp_path / "node-3.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        with pytest.raises(
            NodeRunning, match="already runs on this machine, as another process: stop that one"
        ):
            IncarnationStore.open(tmp_path, 3)


def test_a_shorter_process_number_leaves_nothing_of_a_longer_one(tmp_path):
    (tmp_path / "node-3.lock").write_text("123456789012\n")

    with IncarnationStore.open(tmp_path, 3):
        assert (tmp_path / "node-3.lock").read_text() == f"{os.getpid()}\n"


def test_a_failed_opening_frees_the_lock(tmp_path):
    file = tmp_path / "node-3.incarnation"
    file.write_text("?")
    with pytest.raises(StateError):
        IncarnationStore.open(tmp_path, 3)
    file.write_text("4\n")

    assert start(tmp_path) == 5


# Without a disk.


def test_a_volatile_node_starts_as_0_and_counts_on():
    with VolatileIncarnation(3) as incarnations:
        assert [incarnations.next(), incarnations.next()] == [0, 1]


def test_a_volatile_node_takes_later_incarnations_and_no_earlier_ones():
    with VolatileIncarnation(3) as incarnations:
        incarnations.store(7)
        with pytest.raises(UsageError, match="node 3 has used incarnation 7 already, got the earlier 6"):
            incarnations.store(6)
        assert incarnations.next() == 8


def test_every_volatile_node_starts_anew():
    VolatileIncarnation(3).next()

    assert VolatileIncarnation(3).next() == 0
