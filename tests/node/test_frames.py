"""Frames: a stream of bytes cut anywhere gives the same frames; nonsense is refused with the reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcubeps.node.frames import HEADER_BYTES, FrameError, FrameReader, Kind, frame, pack_header

BYTES_MAX = 300_000

bodies = st.one_of(
    st.binary(max_size=40), st.integers(0, BYTES_MAX).map(lambda size: bytes([size % 251]) * size)
)
frames = st.tuples(st.sampled_from(Kind), st.integers(0, (1 << 64) - 1), bodies)


def feed(reader: FrameReader, data: bytes) -> list[tuple[int, int, bytes]]:
    """As a transport does: into the room that there is, as often as it takes."""
    read = []
    while data:
        room = reader.room
        count = min(len(room), len(data))
        assert count > 0
        room[:count] = data[:count]
        read += [(kind, number, bytes(body)) for kind, number, body in reader.received(count)]
        data = data[count:]
    return read


@given(st.lists(frames, max_size=12), st.lists(st.integers(0, 400_000), max_size=12))
def test_a_stream_cut_at_any_bytes_gives_the_frames_that_were_written(
    written: list[tuple[Kind, int, bytes]], cuts: list[int]
) -> None:
    stream = b"".join(frame(*each) for each in written)
    reader = FrameReader(BYTES_MAX)

    read, start = [], 0
    for end in [*sorted(min(cut, len(stream)) for cut in cuts), len(stream)]:
        read += feed(reader, stream[start:end])
        start = end

    assert read == [(int(kind), number, body) for kind, number, body in written]


@given(st.lists(frames, min_size=1, max_size=3), st.integers(0, 40), st.integers(20, 1000))
def test_a_message_that_comes_alone_is_known_without_looking_for_others(
    written: list[tuple[Kind, int, bytes]], cut: int, bytes_max: int
) -> None:
    stream = b"".join(frame(*each) for each in written)[: -cut or None]
    reader = FrameReader(bytes_max)
    count = min(len(reader.room), len(stream))
    reader.room[:count] = stream[:count]

    sole = reader.sole_message(count)

    kind, number, body = written[0]
    is_message = kind == Kind.MESSAGE and len(body) <= bytes_max
    told = {stream: -1 for stream in [frame(*written[0])] if is_message}
    if is_message and len(written) > 1 and (written[1][0], written[1][2]) == (Kind.RECEIVED, b""):
        told[frame(*written[0]) + frame(*written[1])] = written[1][1]
    assert (sole is not None) == (stream in told)
    if sole is not None:
        assert (sole[0], bytes(sole[1]), sole[2]) == (number, body, told[stream])


def test_a_message_with_what_has_been_received_behind_it_is_known_as_well() -> None:
    reader, stream = FrameReader(100), frame(Kind.MESSAGE, 1, b"x") + frame(Kind.RECEIVED, 7)
    reader.room[: len(stream)] = stream
    sole = reader.sole_message(len(stream))
    assert sole is not None
    assert (sole[0], bytes(sole[1]), sole[2]) == (1, b"x", 7)


def test_a_message_after_the_beginning_of_another_is_not_alone() -> None:
    reader, message = FrameReader(100), frame(Kind.MESSAGE, 1, b"x" * 50)
    assert feed(reader, message[:20]) == []
    reader.room[: len(message)] = message
    assert reader.sole_message(len(message)) is None


@pytest.mark.parametrize("chunk_bytes", [1, 2, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 1, 1000])
def test_frames_that_come_byte_by_byte_are_whole(chunk_bytes: int) -> None:
    written = [(3, 1, b""), (4, 2, b"x" * 700), (3, 3, b"y" * 20_000)]
    stream = b"".join(frame(*each) for each in written)
    reader = FrameReader(BYTES_MAX)

    read = []
    for start in range(0, len(stream), chunk_bytes):
        read += feed(reader, stream[start : start + chunk_bytes])

    assert read == written


def test_a_large_frame_does_not_leave_a_large_buffer_behind() -> None:
    reader = FrameReader(64 << 20)
    feed(reader, frame(Kind.MESSAGE, 1, b"x" * (8 << 20)))
    feed(reader, frame(Kind.MESSAGE, 2, b"y"))
    assert len(reader.room) <= FrameReader.USUAL_BYTES


def test_a_kind_that_does_not_exist_is_refused_after_the_frames_before_it() -> None:
    reader = FrameReader(100)
    stream = frame(Kind.MESSAGE, 1, b"good") + frame(200, 2, b"bad")
    reader.room[: len(stream)] = stream
    read = reader.received(len(stream))
    assert bytes(next(read)[2]) == b"good"
    with pytest.raises(FrameError, match="a frame of kind 200, which does not exist"):
        next(read)


def test_a_frame_over_the_limit_is_refused_by_its_header_alone() -> None:
    with pytest.raises(FrameError, match="a frame of 101 bytes, the limit is 100"):
        feed(FrameReader(100), pack_header(101, Kind.MESSAGE, 1))


def test_a_frame_of_exactly_the_limit_is_taken() -> None:
    assert feed(FrameReader(100), frame(Kind.MESSAGE, 1, b"x" * 100)) == [(3, 1, b"x" * 100)]


@given(st.binary(min_size=HEADER_BYTES, max_size=200))
def test_any_bytes_are_frames_or_refused_and_nothing_else_happens(data: bytes) -> None:
    reader = FrameReader(100)
    try:
        read = feed(reader, data)
    except FrameError:
        return
    assert all(len(body) <= 100 for _, _, body in read)
