"""What TCP makes of a conversation."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from wirelake.capture.tcp.assembly import Data, StreamAssembler
from wirelake.capture.tcp.headers import ACK, FIN, RST, SYN
from wirelake.traffic.packets.sniffed import Segment, segments_of
from wirelake.traffic.scenes.scene import C2S, S2C, Closing, SceneEvent

WRITES = st.lists(
    st.tuples(st.sampled_from([C2S, S2C]), st.integers(1, 5_000), st.floats(0, 60.0)), max_size=30
)
ENDS = st.sampled_from(["client", "server", "reset", None])


def _events(
    writes: list[tuple[int, int, float]], end: Closing | None
) -> list[tuple[int, SceneEvent]]:
    """What a tap saw: a connection opens, both ends write, it closes."""
    found = [SceneEvent(1.0, "open", None)]
    at, sent = 1.1, [0, 0]
    for direction, size, pause in writes:
        at += pause
        found.append(
            SceneEvent(at, "data", None, direction, sent[direction], sent[direction] + size)
        )
        sent[direction] += size
    if end is not None:
        found.append(SceneEvent(at + 1.0, "close", None, how=end))
    return list(enumerate(found))


def _fed(segments: list[Segment], direction: int, text: bytes) -> tuple[bytes, StreamAssembler]:
    """A stream, reassembled by the reference."""
    assembler = StreamAssembler()
    out = b""
    for n, each in enumerate(segments):
        if each.direction == direction:
            data = text[max(0, each.start) : max(0, each.stop)]
            seq = (each.start + 4_000_000_000) % (1 << 32)
            for event in assembler.feed(seq, data, n, n, each.flags):
                assert isinstance(event, Data)
                out += event.payload
    return out, assembler


@given(WRITES, ENDS, st.integers(0, 1_000))
def test_reassembly_undoes_it(
    writes: list[tuple[int, int, float]], end: Closing | None, seed: int
) -> None:
    segments = segments_of(_events(writes, end), 0.05, random.Random(seed))
    for direction in (C2S, S2C):
        size = sum(size for w, size, _ in writes if w == direction)
        text = random.Random(direction).randbytes(size)
        found, assembler = _fed(segments, direction, text)
        assert found == text
        assert assembler.counters.gap_bytes == assembler.counters.ignored_bytes == 0


@given(WRITES, ENDS, st.integers(0, 1_000))
def test_time_goes_on_and_packets_with_payload_have_their_own(
    writes: list[tuple[int, int, float]], end: Closing | None, seed: int
) -> None:
    segments = segments_of(_events(writes, end), 0.05, random.Random(seed))
    times = [each.at for each in segments]
    assert times == sorted(times)
    fresh = [each.at for each in segments if each.event >= 0]
    assert len(set(fresh)) == len(fresh)


@given(WRITES, ENDS)
def test_connections_open_and_close(
    writes: list[tuple[int, int, float]], end: Closing | None
) -> None:
    segments = segments_of(_events(writes, end), 0.05, random.Random(0))
    assert [each.flags for each in segments[:3]] == [SYN, SYN | ACK, ACK]
    ends = [(each.direction, each.flags & (FIN | RST)) for each in segments]
    ends = [each for each in ends if each[1]]
    wanted = {
        "client": [(C2S, FIN), (S2C, FIN)],
        "server": [(S2C, FIN), (C2S, FIN)],
        "reset": [(C2S, RST)],
        None: [],
    }
    assert ends == wanted[end]


def test_disorders_occur() -> None:
    writes = [(S2C, 9_000, 1.0), (C2S, 60, 0.001), (C2S, 70, 0.0001)] * 200
    segments = segments_of(_events(writes, "client"), 0.05, random.Random(3))
    data = [each for each in segments if each.size]
    ends = [0, 0]
    early = copies = shared = 0
    for each in data:
        early += each.start > ends[each.direction]
        copies += each.stop <= ends[each.direction]
        ends[each.direction] = max(ends[each.direction], each.stop)
        shared += each.direction == C2S and each.size == 130
    assert early
    assert copies
    assert shared
    assert any(not each.size and each.flags == ACK for each in segments[3:])
