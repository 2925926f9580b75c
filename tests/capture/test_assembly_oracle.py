"""Reassembly of random segments against a naive array of bytes in which the first writer wins."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wirelake.capture.tcp.assembly import SYN, Conflict, Counters, Data, Event, Gap, StreamAssembler

pytestmark = pytest.mark.slow

MASK = 0xFFFF_FFFF


@dataclass
class Sent:
    """A segment: where it begins in the stream, and its bytes."""

    at: int
    payload: bytes
    missing: int = 0


@dataclass
class Oracle:
    """Every byte in an array of its own; knows nothing of pieces, windows or numbers."""

    bytes_at: dict[int, int] = field(default_factory=dict)
    reach: int = 0
    new: int = 0
    duplicate: int = 0
    held_from: int | None = None
    conflicts: list[tuple[int, int]] = field(default_factory=list)

    @property
    def frontier(self) -> int:
        at = 0
        while at in self.bytes_at:
            at += 1
        return at

    def write(self, sent: Sent) -> None:
        before = self.frontier
        if sent.at != before and self.held_from is None:
            self.held_from = before
        keep_alive = len(sent.payload) == 1 and sent.at == before - 1
        differing = []
        for number, value in enumerate(sent.payload):
            at = sent.at + number
            if at < 0 or at in self.bytes_at:
                self.duplicate += 1
                held = self.held_from is not None and at >= self.held_from
                if at >= 0 and held and not keep_alive and self.bytes_at[at] != value:
                    differing.append(at)
            else:
                self.bytes_at[at] = value
                self.new += 1
        if differing:
            self.conflicts.append((differing[0], len(differing)))
        self.reach = max(self.reach, sent.at + len(sent.payload) + sent.missing)

    def stream(self) -> list[int | None]:
        return [self.bytes_at.get(at) for at in range(self.reach)]


def assembled(events: list[Event]) -> list[int | None]:
    """The stream that the events describe, each where the one before stopped."""
    found: list[int | None] = []
    for event in events:
        if isinstance(event, Data):
            assert event.position == len(found)
            assert event.payload
            found += event.payload
        elif isinstance(event, Gap):
            assert event.position == len(found)
            assert event.missing > 0
            found += [None] * event.missing
    return found


@st.composite
def sent_segments(draw: st.DrawFn) -> list[Sent]:
    """A stream cut at random: copies, overlaps that differ, reordering, losses, cut captures."""
    stream = draw(st.binary(min_size=1, max_size=120))
    count = draw(st.integers(1, 40))
    sent: list[Sent] = []
    for _ in range(count):
        start = draw(st.integers(0, len(stream) - 1))
        stop = draw(st.integers(start + 1, len(stream)))
        payload = bytearray(stream[start:stop])
        if draw(st.integers(0, 5)) == 0:
            payload[draw(st.integers(0, len(payload) - 1))] ^= 0xFF
        cut = draw(st.sampled_from([0, 0, 0, 1, 5]))
        kept = payload[: max(1, len(payload) - cut)]
        sent.append(Sent(start, bytes(kept), len(payload) - len(kept)))
    return sent


def fed(stream: StreamAssembler, segments: list[Sent], isn: int) -> list[Event]:
    """What a stream gives for segments; the time never passes."""
    found: list[Event] = []
    for number, sent in enumerate(segments):
        seq = (isn + 1 + sent.at) & MASK
        found += stream.feed(seq, sent.payload, number, 1000 * number, missing=sent.missing)
    return found


@settings(max_examples=400)
@given(sent_segments(), st.sampled_from([0, 77, MASK - 40, MASK]))
def test_against_the_oracle(segments: list[Sent], isn: int) -> None:
    oracle, stream = Oracle(), StreamAssembler()
    found = stream.feed(isn, b"", 0, 0, SYN)
    for sent in segments:
        oracle.write(sent)
    found += fed(stream, segments, isn)
    position = stream.position
    assert position == oracle.frontier
    found += stream.end()
    assert assembled(found) == oracle.stream()
    gaps = oracle.stream().count(None)
    assert stream.counters == Counters(oracle.new, oracle.duplicate, gaps, 0)
    conflicts = [(each.position, each.differing) for each in found if isinstance(each, Conflict)]
    assert conflicts == oracle.conflicts


@given(sent_segments())
def test_every_byte_comes_from_the_packet_that_is_named(segments: list[Sent]) -> None:
    stream = StreamAssembler()
    stream.feed(0, b"", 0, 0, SYN)
    for event in [*fed(stream, segments, 0), *stream.end()]:
        if isinstance(event, Data):
            sent = segments[event.ts_ns]
            assert event.arrival == event.ts_ns + 2
            skipped = event.offset - 1000 * event.ts_ns
            assert sent.at + skipped == event.position
            assert sent.payload[skipped:].startswith(event.payload)


@given(sent_segments(), st.integers(0, 40))
def test_the_first_segment_begins_a_stream_without_syn(segments: list[Sent], base: int) -> None:
    """Bytes before the first one that was seen have no place."""
    oracle, stream = Oracle(), StreamAssembler()
    first = segments[0].at
    for sent in segments:
        oracle.write(Sent(sent.at - first, sent.payload, sent.missing))
    found = [*fed(stream, segments, MASK - base), *stream.end()]
    assert assembled(found) == oracle.stream()
    assert stream.counters.duplicate_bytes == oracle.duplicate


@given(sent_segments(), st.lists(st.binary(min_size=1, max_size=9), max_size=6), st.integers())
def test_an_assembler_can_take_over(segments: list[Sent], start: list[bytes], isn: int) -> None:
    """After a beginning in order, one made from the position alone goes on in the same way."""
    isn &= MASK
    whole = StreamAssembler()
    whole.feed(isn, b"", 0, 0, SYN)
    at = 0
    for payload in start:
        whole.feed((isn + 1 + at) & MASK, payload, 0, 0)
        at += len(payload)
    later = StreamAssembler(
        (isn + 1 + at) & MASK,
        position=at,
        arrivals=1 + len(start),
        counters=Counters(new_bytes=at),
    )
    first = fed(whole, segments, isn) + whole.end()
    assert fed(later, segments, isn) + later.end() == first
    assert later.counters == whole.counters
