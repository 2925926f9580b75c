"""Reassembly, rule by rule, in the words of *Streams* in docs/concepts/captures.md."""

from __future__ import annotations

from wirelake.capture.tcp.assembly import (
    FIN,
    RECENT_BYTES,
    RST,
    SYN,
    WAITING_BYTES,
    WAITING_NS,
    WAITING_PIECES,
    Conflict,
    Counters,
    Data,
    Event,
    Gap,
    StreamAssembler,
)

S = 1_000_000_000


def data(events: list[Event]) -> bytes:
    return b"".join(each.payload for each in events if isinstance(each, Data))


def begun(seq: int = 100) -> StreamAssembler:
    """A stream whose byte 0 has the number `seq`."""
    stream = StreamAssembler()
    assert stream.feed(seq - 1, b"", 0, 0, SYN) == []
    return stream


def test_in_order() -> None:
    stream = begun()
    assert stream.feed(100, b"abc", 7, 500) == [Data(0, b"abc", 7, 500, 0, 2)]
    assert stream.feed(103, b"de", 8, 600, file=1) == [Data(3, b"de", 8, 600, 1, 3)]
    assert stream.counters == Counters(new_bytes=5)
    assert stream.end() == []


def test_payload_of_a_syn_counts() -> None:
    stream = StreamAssembler()
    assert data(stream.feed(99, b"abc", 0, 0, SYN)) == b"abc"
    assert data(stream.feed(103, b"d", 0, 0)) == b"d"


def test_a_stream_without_syn_begins_with_its_first_byte() -> None:
    stream = StreamAssembler()
    assert stream.feed(50, b"", 0, 0) == []
    assert stream.feed(100, b"abc", 0, 0)[0].position == 0
    assert stream.feed(98, b"xyabc", 0, 0) == []
    assert stream.counters == Counters(new_bytes=3, duplicate_bytes=5)


def test_sequence_numbers_wrap() -> None:
    stream = begun(seq=0xFFFF_FFFE)
    assert data(stream.feed(0xFFFF_FFFE, b"abcd", 0, 0)) == b"abcd"
    assert data(stream.feed(2, b"ef", 0, 0)) == b"ef"
    assert data(stream.feed(0xFFFF_FFFF, b"bcdefgh", 0, 0)) == b"gh"
    assert stream.counters == Counters(new_bytes=8, duplicate_bytes=5)


def test_a_segment_beyond_the_point_waits_for_the_hole() -> None:
    stream = begun()
    assert stream.feed(103, b"def", 5, 30) == []
    assert stream.feed(100, b"abc", 6, 20) == [
        Data(0, b"abc", 6, 20, 0, 3),
        Data(3, b"def", 5, 30, 0, 2),
    ]
    assert stream.counters == Counters(new_bytes=6)


def test_an_overlap_gives_only_its_new_bytes_and_their_place() -> None:
    stream = begun()
    stream.feed(100, b"abc", 1, 10)
    assert stream.feed(101, b"bcde", 2, 40) == [Data(3, b"de", 2, 42, 0, 3)]
    assert stream.counters == Counters(new_bytes=5, duplicate_bytes=2)


def test_what_waits_overlaps_by_the_same_rule() -> None:
    stream = begun()
    stream.feed(102, b"CC", 1, 10)
    stream.feed(106, b"GG", 2, 20)
    assert stream.feed(101, b"bccdeggh", 3, 30) == [
        Conflict(2, 4, b"ccdeggh", 3, 31, 0),
    ]
    assert data(stream.feed(100, b"a", 4, 40)) == b"abCCdeGGh"
    assert stream.counters == Counters(new_bytes=9, duplicate_bytes=4)


def test_one_conflict_for_one_segment() -> None:
    stream = begun()
    stream.feed(104, b"e", 0, 0)  # out of order: from here on bytes are held
    stream.feed(100, b"abcd", 0, 0)
    assert stream.feed(101, b"bXdY", 5, 50) == [Conflict(2, 2, b"XdY", 5, 51, 0)]
    assert stream.feed(101, b"bcde", 6, 60) == []


def test_bytes_before_anything_was_out_of_order_are_not_held() -> None:
    stream = begun()
    stream.feed(100, b"abc", 0, 0)
    assert stream.feed(100, b"xyz", 0, 0) == []
    stream.feed(103, b"def", 0, 0)
    assert [each.position for each in stream.feed(100, b"xyzdeF", 0, 0)] == [5]


def test_only_the_last_bytes_are_held() -> None:
    stream = begun()
    stream.feed(99, b"xx", 0, 0)
    stream.feed(101, bytes(RECENT_BYTES + 10), 0, 0)
    late = stream.feed(101, b"\1" * 11, 0, 0)
    assert late == [Conflict(11, 1, b"\1", 0, 10, 0)]


def test_bytes_of_a_gap_are_compared_with_nothing() -> None:
    stream = begun()
    stream.feed(104, b"ef", 0, 0)
    stream.feed(100, b"ab", 0, 0)
    stream.feed(109, b"x", WAITING_NS, 0)  # gives up the hole at 2
    assert stream.position == 6
    assert stream.feed(100, b"ab??ef", WAITING_NS, 0) == []
    assert stream.feed(100, b"ab??eF", WAITING_NS, 0) == [Conflict(5, 1, b"F", WAITING_NS, 5, 0)]
    assert stream.counters == Counters(new_bytes=5, duplicate_bytes=12, gap_bytes=2)


def test_a_hole_is_given_up_when_many_pieces_wait() -> None:
    stream = begun()
    for number in range(1, WAITING_PIECES):
        assert stream.feed(100 + 10 * number, b"x", 0, number) == []
    found = stream.feed(100 + 10 * WAITING_PIECES, b"x", 0, WAITING_PIECES)
    assert found == [Gap(0, 10, 0, 1, 0, WAITING_PIECES + 1), Data(10, b"x", 0, 1, 0, 2)]
    assert stream.counters.gap_bytes == 10


def test_a_hole_is_given_up_when_many_bytes_wait() -> None:
    stream = begun()
    half = bytes(WAITING_BYTES // 2)
    assert stream.feed(101, half, 0, 0) == []
    assert stream.feed(101 + len(half), half[1:], 0, 0) == []
    found = stream.feed(101 + 2 * len(half) - 1, b"x", 0, 0)
    assert found[0] == Gap(0, 1, 0, 0, 0, 4)
    assert len(data(found)) == WAITING_BYTES


def test_a_hole_is_given_up_after_a_minute() -> None:
    stream = begun()
    stream.feed(110, b"b", 10 * S, 0)
    stream.feed(105, b"a", 20 * S, 0)
    assert stream.feed(100, b"", 10 * S + WAITING_NS - 1, 0) == []
    found = stream.feed(100, b"", 10 * S + WAITING_NS, 0)
    # The first that waited is behind both holes.
    assert [type(each) for each in found] == [Gap, Data, Gap, Data]
    assert stream.position == 11


def test_the_time_counts_from_the_first_that_still_waits() -> None:
    stream = begun()
    stream.feed(105, b"a", 10 * S, 0)
    stream.feed(110, b"b", 20 * S, 0)
    found = stream.feed(100, b"", 10 * S + WAITING_NS, 0)
    assert [type(each) for each in found] == [Gap, Data]
    assert [type(each) for each in stream.feed(100, b"", 20 * S + WAITING_NS, 0)] == [Gap, Data]


def test_of_those_that_still_wait_the_first_captured_counts() -> None:
    stream = begun()
    stream.feed(115, b"c", 5 * S, 0)
    stream.feed(110, b"b", 10 * S, 0)
    stream.feed(101, b"a", 10 * S, 0)
    assert data(stream.feed(100, b"x", 10 * S, 0)) == b"xa"
    assert data(stream.feed(100, b"", 5 * S + WAITING_NS, 0)) == b"bc"


def test_the_end_gives_up_every_hole() -> None:
    stream = begun()
    stream.feed(102, b"c", 0, 7)
    stream.feed(105, b"f", 0, 9)
    assert stream.end() == [
        Gap(0, 2, 0, 7, 0, 3),
        Data(2, b"c", 0, 7, 0, 2),
        Gap(3, 2, 0, 9, 0, 3),
        Data(5, b"f", 0, 9, 0, 3),
    ]
    assert stream.counters == Counters(new_bytes=2, gap_bytes=4)
    assert stream.counters.span_bytes == 6


def test_bytes_that_the_capture_cut_off_are_a_gap() -> None:
    stream = begun()
    stream.feed(100, b"ab", 0, 0, missing=3)
    assert stream.feed(105, b"f", 0, 5) == []
    assert stream.end() == [Gap(2, 3, 0, 5, 0, 3), Data(5, b"f", 0, 5, 0, 3)]


def test_cut_off_bytes_at_the_end_are_a_gap_too() -> None:
    stream = begun()
    stream.feed(100, b"ab", 3, 8, missing=3)
    assert stream.end() == [Gap(2, 3, 3, 8, 0, 2)]


def test_cut_off_bytes_may_come_again() -> None:
    stream = begun()
    stream.feed(100, b"ab", 0, 0, missing=3)
    assert data(stream.feed(100, b"abcde", 0, 0)) == b"cde"
    assert stream.end() == []


def test_a_fin_beyond_the_point_shows_a_gap() -> None:
    stream = begun()
    stream.feed(104, b"", 2, 6, FIN)
    assert not stream.finished
    assert stream.end() == [Gap(0, 4, 2, 6, 0, 2)]


def test_payload_beyond_a_fin_is_ignored() -> None:
    stream = begun()
    stream.feed(100, b"ab", 0, 0, FIN)
    assert stream.finished
    assert stream.feed(101, b"bcd", 0, 0) == []
    assert stream.counters == Counters(new_bytes=4, duplicate_bytes=1, ignored_bytes=2)
    assert stream.feed(200, b"xyz", 0, 0) == []
    assert stream.counters.payload_bytes == 8


def test_cut_off_bytes_beyond_a_fin_are_no_gap() -> None:
    stream = begun()
    stream.feed(100, b"ab", 0, 0, FIN)
    assert stream.feed(200, b"xyz", 0, 0, missing=5) == []
    assert stream.hole_ns is None
    assert stream.end() == []
    assert stream.counters == Counters(new_bytes=5, ignored_bytes=3)
    stream = begun()
    stream.feed(100, b"abcd", 0, 0, missing=5)
    stream.feed(100, b"ab", 0, 0, FIN)
    assert stream.end() == []


def test_the_first_fin_counts() -> None:
    stream = begun()
    stream.feed(100, b"ab", 0, 0, FIN)
    assert stream.feed(102, b"cd", 0, 0, FIN) == []
    assert stream.feed(102, b"cd", 0, 0) == []
    assert stream.counters == Counters(new_bytes=6, ignored_bytes=4)
    assert stream.end() == []


def test_what_precedes_a_fin_may_come_later() -> None:
    stream = begun()
    stream.feed(102, b"cd", 0, 0, FIN)
    assert not stream.finished
    assert data(stream.feed(100, b"abcdef", 0, 0)) == b"abcd"
    assert stream.finished
    assert stream.counters == Counters(new_bytes=6, duplicate_bytes=2, ignored_bytes=2)


def test_a_reset_ends_the_stream() -> None:
    stream = begun()
    stream.feed(102, b"c", 0, 3)
    assert stream.feed(102, b"why", 0, 9, RST) == [Gap(0, 2, 0, 3, 0, 3), Data(2, b"c", 0, 3, 0, 2)]
    assert stream.finished
    assert stream.feed(103, b"late", 0, 0) == []
    assert stream.counters == Counters(new_bytes=8, gap_bytes=2, ignored_bytes=7)


def test_a_keep_alive_is_a_duplicate_and_no_conflict() -> None:
    stream = begun()
    stream.feed(99, b"xa", 0, 0)
    stream.feed(101, b"bc", 0, 0)
    assert stream.feed(102, b"\0", 0, 0) == []
    assert stream.feed(102, b"", 0, 0) == []
    assert stream.feed(101, b"bX", 0, 0) == [Conflict(2, 1, b"X", 0, 1, 0)]
    assert stream.counters.duplicate_bytes == 4


def test_a_window_probe_brings_its_byte_once() -> None:
    stream = begun()
    assert data(stream.feed(100, b"a", 0, 0)) == b"a"
    assert data(stream.feed(100, b"abc", 0, 0)) == b"bc"


def test_going_on_in_the_middle() -> None:
    counters = Counters(new_bytes=50)
    stream = StreamAssembler(7, position=50, arrivals=9, counters=counters)
    assert stream.feed(5, b"xyab", 1, 2) == [Data(50, b"ab", 1, 4, 0, 10)]
    assert counters == Counters(new_bytes=52, duplicate_bytes=2)
