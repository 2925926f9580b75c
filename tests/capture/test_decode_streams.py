"""Frames and faults of streams: the rules of *Messages*, and a naive reader of whole streams."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wirelake.capture.decode.framing import SEARCHED_BYTES, Framing, head_size, magics
from wirelake.capture.decode.streams import Fault, Frame, FrameReader, Place, Read
from wirelake.capture.format.items import Direction
from wirelake.capture.tcp.assembly import Data, Gap
from wirelake.protocols import registry
from wirelake.protocols.tny.layout import LinkPing, RelayPacket
from wirelake.records.message import Describer
from wirelake.wire.errors import DecodeError, NeedMore
from wirelake.wire.meaning import Named

from .frames_made import PROTOCOLS, frames

pytestmark = pytest.mark.slow

Piece = tuple[int, bytes]
"""Where in the stream, and the bytes."""
Said = tuple[Any, ...]


def reader(protocol: str, direction: Direction = "s2c") -> FrameReader:
    return FrameReader(Framing(registry.find(protocol), None, direction))


def read(protocol: str, pieces: list[Piece], *, still_open: bool = False) -> list[Read]:
    """Everything that pieces hold; a piece that begins further on has a gap before it."""
    stream, found, position = reader(protocol), [], 0
    for number, (at, payload) in enumerate(pieces):
        if at > position:
            found += stream.gap(Gap(position, at - position, number, 1000 * number, 0))
        found += stream.data(Data(at, payload, number, 1000 * number, 0, number))
        position = at + len(payload)
    found += stream.end(still_open=still_open)
    accounted = sum(len(e.raw) if isinstance(e, Frame) else e.present_bytes for e in found)
    assert accounted + stream.ignored_bytes == sum(len(payload) for _, payload in pieces)
    return found


def said(found: list[Read]) -> list[Said]:
    return [
        ("frame", each.start, each.stop)
        if isinstance(each, Frame)
        else ("fault", each.start, each.present_bytes, each.missing_bytes, each.code)
        for each in found
    ]


# -- rule by rule ----------------------------------------------------------------------------


def test_frames_may_be_cut_anywhere() -> None:
    one, two = frames("tny", "s2c")[:2]
    whole = one + two
    for cut in range(1, len(whole)):
        found = read("tny", [(0, whole[:cut]), (cut, whole[cut:])])
        assert said(found) == [("frame", 0, len(one)), ("frame", len(one), len(whole))]


def test_the_times_of_a_frame() -> None:
    """It begins with the packet of its first byte, and is complete when the last one came."""
    frame = frames("tny", "s2c")[0]
    stream = reader("tny")
    stream.data(Data(0, frame[:5], 20, 100, 3, 2))
    stream.data(Data(5, frame[5:9], 30, 200, 3, 9))
    (found,) = stream.data(Data(9, frame[9:], 25, 300, 4, 4))
    assert isinstance(found, Frame)
    assert (found.ts_ns, found.place()) == (30, Place(20, 3, 100))
    assert found.place(6) == Place(30, 3, 201)


def test_a_frame_is_known_with_its_last_byte() -> None:
    frame = frames("tny", "s2c")[0]
    stream = reader("tny")
    assert len(stream.data(Data(0, frame + frame[:5], 0, 0, 0, 0))) == 1
    assert stream.data(Data(len(frame) + 5, frame[5:-1], 0, 0, 0, 0)) == []
    assert len(stream.data(Data(2 * len(frame) - 1, frame[-1:], 0, 0, 0, 0))) == 1


def test_behind_a_gap_earlier_packets_do_not_matter() -> None:
    frame = frames("tny", "s2c")[0]
    size = len(frame)
    stream = reader("tny")
    stream.data(Data(0, frame, 70, 0, 0, 9))
    stream.gap(Gap(size, 5, 0, 0, 0))
    assert stream.data(Data(size + 5, frame, 20, 0, 0, 3)) == []
    _, found, _ = stream.data(Data(2 * size + 5, frame, 30, 0, 0, 4))
    assert isinstance(found, Frame)
    assert found.ts_ns == 20


def test_a_stream_may_be_joined_at_a_gap() -> None:
    stream = reader("tny")
    stream.gap(Gap(100, 5, 1, 2, 3))
    (found,) = stream.end(still_open=True)
    assert isinstance(found, Fault)
    assert (found.start, found.missing_bytes, found.place) == (100, 5, Place(1, 3, 2))


def test_a_frame_whose_content_is_bad_is_one_fault() -> None:
    good = frames("relay", "s2c")[0]
    bad = good[:11] + b"\x1f" + good[12:]
    found = read("relay", [(0, good + bad + good)])
    size = len(good)
    assert said(found) == [
        ("frame", 0, size),
        ("fault", size, size, 0, "unknown_type"),
        ("frame", 2 * size, 3 * size),
    ]
    fault = found[1]
    assert isinstance(fault, Fault)
    assert fault.bytes == bad[:256]
    assert fault.field == "relay_packet.mark"
    assert fault.detail == "unknown type number of a command, row, packet or value (31)"


def test_after_a_bad_head_reading_resumes_at_the_magic() -> None:
    good = frames("tny", "s2c")[0]
    rubbish = b"xx tny. yy"
    found = read("tny", [(0, good + rubbish + good)])
    size = len(good)
    assert said(found) == [
        ("frame", 0, size),
        ("fault", size, len(rubbish), 0, "bad_magic"),
        ("frame", size + len(rubbish), 2 * size + len(rubbish)),
    ]


def test_a_head_is_judged_when_it_is_whole() -> None:
    """A ping with a length is delimited all the same: two of them are two faults."""
    wrong = b"tny.\x01\x07\0\0\0"
    expected = [("fault", 0, 9, 0, "bad_length"), ("fault", 9, 9, 0, "bad_length")]
    for cut in range(1, 18):
        stream = wrong + wrong
        assert said(read("tny", [(0, stream[:cut]), (cut, stream[cut:])])) == expected


def test_without_magic_reading_resumes_at_a_segment() -> None:
    good = frames("comet", "s2c")[0]
    found = read("comet", [(0, b"\0\0" + good), (2 + len(good), good)])
    assert said(found) == [
        ("fault", 0, 2 + len(good), 0, "bad_length"),
        ("frame", 2 + len(good), 2 + 2 * len(good)),
    ]


def test_a_place_is_no_beginning_unless_a_good_frame_is_there() -> None:
    good = frames("tny", "s2c")[0]
    broken = b"tny.\x03" + good[5:]
    found = read("tny", [(0, b"?" + broken + good)])
    assert said(found)[0] == ("fault", 0, 1 + len(broken), 0, "bad_magic")


def test_a_gap_is_one_fault_with_what_it_broke() -> None:
    good = frames("tny", "s2c")[0]
    size = len(good)
    missing = size + 10
    found = read("tny", [(0, good + good[:10]), (size + 10 + missing, good[20:] + good)])
    start = size + 10 + missing + size - 20
    assert said(found) == [
        ("frame", 0, size),
        ("fault", size, 10 + size - 20, missing, "gap"),
        ("frame", start, start + size),
    ]
    fault = found[1]
    assert isinstance(fault, Fault)
    assert fault.bytes == good[:10] + good[20:]
    # When the packet behind the gap came; where the first byte is.
    assert fault.place == Place(1, 0, size)
    assert fault.detail == f"{missing} bytes were not captured"


def test_a_gap_inside_of_a_frame_ends_with_that_frame() -> None:
    good = frames("tny", "s2c")[0]
    size = len(good)
    expected = [("frame", 0, size), ("fault", size, size - 40, 40, "gap")]
    for begin in (9, 10, size - 40):  # the head has nine bytes
        pieces = [(0, good + good[:begin]), (size + begin + 40, good[begin + 40 :] + good)]
        assert said(read("tny", pieces)) == [*expected, ("frame", 2 * size, 3 * size)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_first_byte_behind_a_gap_may_begin_a_frame(protocol: str) -> None:
    good = frames(protocol, "s2c")[0]
    size = len(good)
    found = read(protocol, [(0, good), (size + 5, good)])
    assert said(found)[1:] == [("fault", size, 0, 5, "gap"), ("frame", size + 5, 2 * size + 5)]
    fault = found[1]
    assert isinstance(fault, Fault)
    assert fault.place == Place(1, 0, 1000)  # of the packet that shows it


def test_a_stream_that_ends_in_a_frame() -> None:
    good = frames("magline", "s2c")[0]
    pieces = [(0, good + good[:20])]
    assert said(read("magline", pieces))[1:] == [
        ("fault", len(good), 20, 0, "truncated_stream"),
    ]
    assert said(read("magline", pieces, still_open=True)) == [("frame", 0, len(good))]


@pytest.mark.parametrize("still_open", [False, True])
@pytest.mark.parametrize("protocol", ["tny", "relay", "magline"])
def test_bytes_that_contradict_the_magic_are_named_at_once(protocol: str, still_open: bool) -> None:
    """However few there are, and with the error and the time that more of them would give."""
    good = frames(protocol, "s2c")[0]
    magic = magics(registry.find(protocol).model())[0]
    for size in range(len(magic)):
        wrong = magic[:size] + b"?"
        ends = [wrong, wrong + bytes(5), wrong + bytes(60)]
        cuts = [[(0, good), (len(good), end)] for end in ends]
        cuts.append([(0, good), *((len(good) + at, wrong[at : at + 1]) for at in range(size + 1))])
        found = [read(protocol, pieces, still_open=still_open)[1] for pieces in cuts]
        shown = {(each.code, each.field, each.detail) for each in found if isinstance(each, Fault)}
        assert len(shown) == 1, shown
        assert all(isinstance(each, Fault) for each in found)
        assert {each.present_bytes for each in found if isinstance(each, Fault)} == {
            len(end) for end in ends
        }
        (code, _, _) = shown.pop()
        assert code != "truncated_stream"
    (fault,) = read(protocol, [(0, magic[:-1])], still_open=False)
    assert isinstance(fault, Fault)
    assert fault.code == "truncated_stream"


def test_the_end_of_an_open_stream_excuses_only_the_unfinished_frame() -> None:
    good = frames("magline", "s2c")[0]
    found = read("magline", [(0, good + b"?" + good[:20])], still_open=True)
    assert said(found)[1:] == [("fault", len(good), 21, 0, "bad_magic")]


def test_a_long_frame_costs_no_more_than_its_length() -> None:
    """Each row of an ESNP message is looked at once, however small the segments."""
    row = b"\x80\0\0\x04rows"
    message = row * 20_000 + b"\0\0\0\0"
    calls = 0
    stream = reader("esnp")
    framing: Any = stream._framing
    scan = framing._scan

    def counting(buffer: Any, at: int, end: int, limit: int, **more: int) -> int:
        nonlocal calls
        calls += 1
        begin = more.get("resume", at)
        assert begin >= at
        assert end - begin < 3_000
        return int(scan(buffer, at, end, limit, **more))

    framing._scan = counting
    found: list[Read] = []
    for at in range(0, len(message), 1_400):
        found += stream.data(Data(at, message[at : at + 1_400], 0, 0, 0, 0))
    assert said(found) == [("frame", 0, len(message))]
    assert calls <= len(message) / 1_400 + 1


def test_after_a_fault_large_frames_are_not_accepted() -> None:
    """A length that promises much is no reason to wait for it when nothing says that it is one."""
    bad = b"\0\0"
    huge = b"rpk" + (1 << 20).to_bytes(4, "little")
    good = registry.find("relay").encode(RelayPacket(arguments=LinkPing()))
    stream = reader("relay")
    found = stream.data(Data(0, bad + huge + good + good, 0, 0, 0, 0))
    start = len(bad + huge)
    assert said(found)[1] == ("frame", start, start + len(good))


# -- against a naive reader ------------------------------------------------------------------


class Naive:
    """Reads a stream that is there as a whole: no buffers, no waiting."""

    def __init__(self, protocol: str, direction: Direction):
        self.protocol = registry.find(protocol)
        self.direction = direction if self.protocol.directed else None
        self.magics = magics(self.protocol.model())
        self.found: list[Said] = []

    def judge(self, data: bytes, *, searching: bool = False) -> tuple[str, int | str, str]:
        """(verdict, size or code, code)."""
        try:
            stop = self.protocol.scan(data, limit=SEARCHED_BYTES if searching else None)
        except NeedMore:
            return "need", 0, ""
        except DecodeError as error:
            return "head", 0, error.code
        try:
            self.protocol.decode(data[:stop], direction=self.direction)
        except DecodeError as error:
            return "content", stop, error.code
        return "good", stop, ""

    def is_partial(self, data: bytes, rest: list[Any]) -> bool:
        """Whether the stream ends in a head, which is then not judged; but its magic is."""
        if rest or len(data) >= head_size(self.protocol.model()):
            return False
        return not self.magics or any(each.startswith(data[: len(each)]) for each in self.magics)

    def may_begin(self, data: bytes, at: int, begins: set[int], behind_gap: bool) -> bool:
        if self.magics:
            return any(data.startswith(each, at) for each in self.magics)
        return at in begins or (at == 0 and behind_gap)

    def is_start(self, data: bytes, at: int, begins: set[int]) -> bool:
        """Whether two frames of evidence follow, or one and the end."""
        evidence = others = 0
        while at < len(data):
            verdict, size, _ = self.judge(data[at:], searching=True)
            if verdict == "need":
                return evidence > 0 and self.magics != [] and self.has_head(data[at:])
            if verdict != "good":
                return False
            stop = at + int(size)
            alone = at in begins and stop in {*begins, len(data)}
            alone = alone and not begins & set(range(at + 1, stop))
            if self.is_evidence(data[at:stop], alone):
                evidence, others = evidence + 1, 0
            else:
                others += 1
            if not evidence or others > 16:
                return False
            if evidence == 2:
                return True
            at = stop
        return evidence > 0

    def is_evidence(self, frame: bytes, alone: bool) -> bool:
        message, _ = self.protocol.decode(frame, direction=self.direction)
        row = Describer(self.protocol)(message)
        by_kind = row[self.protocol.name].get("rows_by_kind", {})
        if by_kind.get("opaque") or by_kind.get("broken"):
            return alone and len(set(frame)) > 1
        named = [row[column] for column in ("message_id", "reply_to", "client", "ids", "body")]
        if not isinstance(self.protocol.meaning.target, Named):
            named.append(row["target"])
        return bool(self.magics) or any(named) or (alone and len(set(frame)) > 1)

    def has_head(self, data: bytes) -> bool:
        """Whether the length of a frame is there: its end is the same whatever follows."""
        ends = set()
        for byte in (b"\0", b"\xff"):
            try:
                ends.add(self.protocol.scan(data + byte * (1 << 21)))
            except (NeedMore, DecodeError):
                ends.add(0)
        return len(ends) == 1 and 0 not in ends

    def known_end(self, data: bytes) -> tuple[int, bool] | None:
        """How far an incomplete frame goes, and whether that is only a row."""
        if self.protocol.name != "esnp":
            return (
                (self.protocol.scan(data + bytes(1 << 21)), False) if self.has_head(data) else None
            )
        at = 0
        while at + 4 <= len(data):
            at += 4 + int.from_bytes(data[at + 1 : at + 4], "big")
            if at > len(data):
                return at, True
        return None

    def read(self, regions: list[tuple[int, bytes, set[int]]], still_open: bool) -> list[Said]:
        """Regions without gaps: start, bytes, and where in them segments begin."""
        fault: list[Any] | None = None
        known: tuple[int, bool] | None = None
        for number, (start, data, begins) in enumerate(regions):
            at = 0
            while at < len(data):
                if fault is not None and known is not None and start + at < known[0]:
                    fault[2] += 1
                    at += 1
                    if known == (start + at, False):
                        self.found.append(tuple(fault))
                        fault = known = None
                    continue
                verdict, size, code = self.judge(data[at:])
                if fault is not None and known is not None:
                    if verdict == "need":
                        break
                    if verdict != "head":
                        fault[2] += int(size)
                        at += int(size)
                        self.found.append(tuple(fault))
                        fault = None
                    known = None
                elif fault is not None:
                    if self.may_begin(data, at, begins, number > 0) and self.is_start(
                        data, at, begins
                    ):
                        self.found.append(tuple(fault))
                        fault = None
                    else:
                        fault[2] += 1
                        at += 1
                elif verdict == "good":
                    self.found.append(("frame", start + at, start + at + int(size)))
                    at += int(size)
                elif verdict == "content":
                    self.found.append(("fault", start + at, size, 0, code))
                    at += int(size)
                elif verdict == "head" and self.is_partial(data[at:], regions[number + 1 :]):
                    break
                elif verdict == "head":
                    fault = ["fault", start + at, 1, 0, code]
                    at += 1
                else:
                    break
            left = len(data) - at
            if number + 1 < len(regions):
                following = regions[number + 1][0]
                if left and (fault is None or known is not None):
                    end = self.known_end(data[at:])
                    known = None if end is None else (start + at + end[0], end[1])
                if known is not None and known[0] < following:
                    known = None
                fault = fault or ["fault", start + at, 0, 0, "gap"]
                fault[2] += left
                fault[3] += following - start - len(data)
                if known == (following, False):
                    self.found.append(tuple(fault))
                    fault = known = None
            elif fault is not None:
                fault[2] += left
                self.found.append(tuple(fault))
            elif left and not still_open:
                self.found.append(("fault", start + at, left, 0, "truncated_stream"))
        return self.found


def regions_of(pieces: list[Piece]) -> list[tuple[int, bytes, set[int]]]:
    regions: list[tuple[int, bytes, set[int]]] = []
    for at, payload in pieces:
        if regions and regions[-1][0] + len(regions[-1][1]) == at:
            start, data, begins = regions[-1]
            regions[-1] = (start, data + payload, begins | {at - start})
        else:
            regions.append((at, payload, {0}))
    return regions


@st.composite
def broken_streams(draw: st.DrawFn) -> tuple[str, list[Piece]]:
    """Good frames with rubbish between them, wrong bytes and losses, cut into pieces."""
    protocol = draw(st.sampled_from(PROTOCOLS))
    stream = bytearray()
    for frame in draw(st.lists(st.sampled_from(frames(protocol, "s2c")), min_size=1, max_size=8)):
        stream += frame
        if draw(st.integers(0, 4)) == 0:
            stream += draw(st.binary(max_size=12))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(stream) - 1))
        stream[at] = draw(st.sampled_from([0, 1, 0x7F, 0xFF, stream[at] ^ 1]))
    cuts = sorted(draw(st.sets(st.integers(1, len(stream)), max_size=12)) | {len(stream)})
    pieces, start = [], 0
    for stop in cuts:
        if start == 0 or draw(st.integers(0, 6)):
            pieces.append((start, bytes(stream[start:stop])))
        start = stop
    return protocol, pieces


@settings(max_examples=600)
@given(broken_streams(), st.booleans())
def test_against_the_naive_reader(broken: tuple[str, list[Piece]], still_open: bool) -> None:
    protocol, pieces = broken
    found = read(protocol, pieces, still_open=still_open)
    assert said(found) == Naive(protocol, "s2c").read(regions_of(pieces), still_open)


@given(broken_streams(), st.integers(1, 40))
def test_with_a_magic_it_does_not_matter_how_a_stream_is_cut(
    broken: tuple[str, list[Piece]], size: int
) -> None:
    protocol, pieces = broken
    if protocol in ("comet", "esnp"):
        protocol = "tny"
    stream = b"".join(payload for _, payload in pieces)
    cut = [(at, stream[at : at + size]) for at in range(0, len(stream), size)]
    assert said(read(protocol, cut)) == said(read(protocol, [(0, stream)]))
