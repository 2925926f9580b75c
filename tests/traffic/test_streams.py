"""What a correct reader makes of a stream with a hole, a faulty frame, or an end too soon."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from wirelake.traffic.scenes.provider import Frame, MessageInfo, Stream
from wirelake.traffic.truth.messages import CapturedStream, CorruptFrame, StreamRead, read

SIZES = (10, 20, 30, 40)
"""Four frames, each in a packet of its own."""


def _stream(sizes: tuple[int, ...] = SIZES) -> Stream:
    ends = [sum(sizes[: n + 1]) for n in range(len(sizes))]
    frames = [
        Frame(end - size, end, None, MessageInfo("", ""))
        for size, end in zip(sizes, ends, strict=True)
    ]
    return Stream(bytes(n % 251 for n in range(sum(sizes))), frames)


def _capture(stream: Stream, without: int | None = None) -> CapturedStream:
    pieces = [(frame.start, frame.stop, n) for n, frame in enumerate(stream.frames)]
    found = CapturedStream([piece for piece in pieces if piece[2] != without], len(stream.data))
    found.index()
    return found


def _faults(found: StreamRead) -> list[tuple[str, int, int, int, int]]:
    return [(f.code, f.start, f.present_bytes, f.missing, f.item) for f in found.faults]


@pytest.mark.parametrize("has_magic", [False, True])
def test_a_whole_stream(has_magic: bool) -> None:
    stream = _stream()
    found = read(stream, _capture(stream), has_magic=has_magic)
    assert found == StreamRead([0, 1, 2, 3], [])


@pytest.mark.parametrize("has_magic", [False, True])
def test_a_lost_packet_is_shown_by_the_next(has_magic: bool) -> None:
    stream = _stream()
    found = read(stream, _capture(stream, without=1), has_magic=has_magic)
    assert found.good == [0, 2, 3]
    assert _faults(found) == [("gap", 10, 0, 20, 2)]


def test_a_cut_packet_leaves_the_beginning_of_a_frame() -> None:
    stream = _stream()
    captured = _capture(stream)
    captured.pieces[1] = (10, 25, 1)
    captured.index()
    found = read(stream, captured, has_magic=False)
    assert found.good == [0, 2, 3]
    assert _faults(found) == [("gap", 10, 15, 5, 1)]


def test_behind_a_gap_reading_resumes_at_a_magic_or_where_a_segment_begins() -> None:
    stream = _stream()
    captured = CapturedStream([(0, 25, 0), (35, 70, 1), (70, 100, 2)], 100)
    captured.index()
    assert _faults(read(stream, captured, has_magic=True)) == [("gap", 10, 15 + 25, 10, 0)]
    assert read(stream, captured, has_magic=True).good == [0, 3]
    assert _faults(read(stream, captured, has_magic=False)) == [("gap", 10, 15 + 65, 10, 0)]
    assert read(stream, captured, has_magic=False).good == [0]


@pytest.mark.parametrize("has_magic", [False, True])
def test_a_bad_body_is_passed_over(has_magic: bool) -> None:
    stream = _stream()
    captured = _capture(stream)
    captured.corrupt = CorruptFrame(2, "short", "x", "y", delimited=True)
    found = read(stream, captured, has_magic=has_magic)
    assert found.good == [0, 1, 3]
    assert _faults(found) == [("short", 30, 30, 0, 2)]


def test_behind_a_bad_head_reading_resumes_as_behind_a_gap() -> None:
    stream = _stream()
    captured = CapturedStream([(0, 60, 0), (60, 100, 1)], 100)
    captured.index()
    captured.corrupt = CorruptFrame(1, "bad_magic", None, "", delimited=False)
    assert read(stream, captured, has_magic=True).good == [0, 2, 3]
    assert _faults(read(stream, captured, has_magic=False)) == [("bad_magic", 10, 50, 0, 0)]
    assert read(stream, captured, has_magic=False).good == [0, 3]


@pytest.mark.parametrize(
    ("info", "good"),
    [
        (MessageInfo("request", "list"), [0, 3]),
        (MessageInfo("request", "list", target="list"), [0, 3]),
        (MessageInfo("request", "list", target="shop/list"), [0, 2, 3]),
        (MessageInfo("request", "list", id=1), [0, 2, 3]),
        (MessageInfo("push", "message", ids=("m1",)), [0, 2, 3]),
    ],
)
def test_a_start_behind_a_gap_needs_evidence(info: MessageInfo, good: list[int]) -> None:
    stream = _stream()
    stream.frames[2].info = info
    captured = CapturedStream([(0, 10, 0), (30, 50, 1), (50, 60, 2), (60, 100, 3)], 100)
    captured.index()
    assert read(stream, captured, has_magic=False).good == good
    assert read(stream, captured, has_magic=True).good == [0, 2, 3]


def test_a_stream_that_ends_inside_a_frame() -> None:
    stream = _stream()
    captured = CapturedStream([(0, 60, 0), (60, 93, 1)], 93)
    captured.index()
    found = read(stream, captured, has_magic=False)
    assert found.good == [0, 1, 2]
    assert _faults(found) == [("truncated_stream", 60, 33, 0, 1)]


def test_bytes_are_complete_when_all_before_them_is_there() -> None:
    stream = _stream((10, 10, 10))
    captured = CapturedStream([(10, 20, 0), (0, 10, 1), (20, 30, 2), (0, 30, 3)], 30)
    captured.index()
    assert captured.owners.tolist() == [1] * 10 + [0] * 10 + [2] * 10
    assert captured.completed.tolist() == [1] * 20 + [2] * 10
    assert read(stream, captured, has_magic=False).good == [0, 1, 2]


@given(st.lists(st.integers(1, 50), min_size=2, max_size=12), st.data())
def test_every_byte_ends_up_somewhere(sizes: list[int], data: st.DataObject) -> None:
    stream = _stream(tuple(sizes))
    total = sum(sizes)
    cuts = sorted({0, total, *data.draw(st.lists(st.integers(0, total), max_size=8))})
    pieces = [(a, b, n) for n, (a, b) in enumerate(pairwise(cuts))]
    lost = data.draw(st.integers(0, len(pieces) - 1))
    assume(lost < len(pieces) - 1)
    captured = CapturedStream([piece for piece in pieces if piece[2] != lost], total)
    captured.index()
    for has_magic in (True, False):
        found = read(stream, captured, has_magic=has_magic)
        good = sum(stream.frames[n].stop - stream.frames[n].start for n in found.good)
        faulty = sum(fault.present_bytes for fault in found.faults)
        missing = sum(fault.missing for fault in found.faults)
        assert good + faulty + missing == total
        assert missing == pieces[lost][1] - pieces[lost][0]
