"""Lost segments inside of large messages: no row for a message that was never sent.

A message with a large body stands between small ones. Each test loses one segment of the stream and
compares the frames found with those that were sent. Bodies are of the kinds that look like frames:
zeros (four of them are an ESNP message), 0xff, and whole frames.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from wirelake.capture.decode.framing import Framing
from wirelake.capture.decode.reference import read_tables
from wirelake.capture.decode.streams import Fault, Frame, FrameReader, Read
from wirelake.capture.tcp.assembly import Data, Gap
from wirelake.columnar.pipeline.pipeline import CapturePipeline
from wirelake.protocols import registry
from wirelake.protocols.comet import layout as comet
from wirelake.protocols.esnp import layout as esnp
from wirelake.protocols.magline import layout as magline
from wirelake.protocols.tny import codec_seed as tny_codec
from wirelake.protocols.tny import layout as tny

from .frames_made import PROTOCOLS, frames
from .tcp_made import Call, write

pytestmark = pytest.mark.slow

SEGMENT = 1_448
BODY_BYTES = 40_000


def _tny(body: bytes) -> tny.Message:
    return tny.Message(id=7, mode=tny.Mode.PUSH, protocol=2003, body=body)


LARGE: dict[str, Callable[[bytes], Any]] = {
    "comet": lambda body: comet.Notification(msg_type=1, msg_id="p01", content=body, ts=1),
    "esnp": lambda body: esnp.Message(
        rows=(
            esnp.Flag(value=esnp.FlagType.EVENT),
            esnp.Address(kind=esnp.AddressKind.SERVICE, value="room"),
            esnp.Payload(data=body),
            esnp.Data(name="n", value=esnp.Var(type=esnp.VarType.INT32, value=1)),
        )
    ),
    "magline": lambda body: magline.Frame(
        seq=9, body=magline.Psh(business_cmd=8, hmac=bytes(range(16)), data=body)
    ),
    "relay": lambda body: tny.RelayPacket(
        id=3, arguments=tny.TunnelRelay(instance_id=1, tunnel_id=2, message=_tny(body))
    ),
    "tny": lambda body: tny.Packet(
        body=tny.Envelope(access_id=5, number=6, content=tny_codec.write_message(_tny(body)))
    ),
}
"""A push with this body, from the server."""


def embedded(protocol: str) -> bytes:
    """Frames at the beginning of each segment, one after the other, with other bytes between."""
    frame = max(frames(protocol, "s2c"), key=len)
    part = (frame + b"\xee" * SEGMENT)[:SEGMENT]
    return (part * (BODY_BYTES // SEGMENT + 1))[:BODY_BYTES]


BODIES: dict[str, Callable[[str], bytes]] = {
    "zeros": lambda _: bytes(BODY_BYTES),
    "ones": lambda _: b"\xff" * BODY_BYTES,
    "frames": embedded,
    "small numbers": lambda _: b"\0\x01" * (BODY_BYTES // 2),
}


class Stream:
    """A stream in segments: small messages, a large one, small messages."""

    def __init__(self, protocol: str, body: bytes, *, aligned: bool = False):
        self.protocol = protocol
        large = registry.find(protocol).encode(LARGE[protocol](body))
        small = frames(protocol, "s2c")[:2]
        self.sent = [*small, large, *small, *small]
        self.segments: list[tuple[int, bytes]] = []
        at = 0
        for frame in self.sent:
            # With `aligned`, segments begin where the body does: what is in it begins there, too.
            first = frame.find(body[:64]) if aligned and frame is large else 0
            cuts = [0, *range(first or SEGMENT, len(frame), SEGMENT), len(frame)]
            for start, stop in pairwise(cuts):
                self.segments.append((at + start, frame[start:stop]))
            at += len(frame)

    def read(self, lost: set[int], *, gap_at_end: bool = False) -> list[Read]:
        """Read all segments but the lost ones."""
        reader = FrameReader(Framing(registry.find(self.protocol), None, "s2c"))
        found: list[Read] = []
        position = 0
        for number, (at, payload) in enumerate(self.segments):
            if number in lost:
                continue
            if at > position:
                found += reader.gap(Gap(position, at - position, number, 0, 0))
            found += reader.data(Data(at, payload, number, 0, 0, number))
            position = at + len(payload)
        if gap_at_end:
            found += reader.gap(Gap(position, 99, 0, 0, 0))
        return found + reader.end(still_open=False)

    def starts(self) -> set[tuple[int, int]]:
        """Where the frames that were sent begin and end."""
        found, at = set(), 0
        for frame in self.sent:
            found.add((at, at + len(frame)))
            at += len(frame)
        return found

    def large(self) -> range:
        """The numbers of the segments of the large message."""
        return range(2, len(self.segments) - 4)


def _places(found: list[Read]) -> set[tuple[int, int]]:
    return {(each.start, each.stop) for each in found if isinstance(each, Frame)}


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_segment_lost_in_a_body_loses_its_message_alone(
    protocol: str, kind: str, aligned: bool
) -> None:
    """The head of the message says where it ends, so nothing after it is in doubt."""
    stream = Stream(protocol, BODIES[kind](protocol), aligned=aligned)
    large = stream.large()
    for lost in ({large[1]}, {large[5], large[6]}, {large[2], large[-2]}, {large[-1]}):
        # Of ESNP the end of a message is a row of its own: losing it leaves doubt.
        found = stream.read(lost)
        places = _places(found)
        assert places <= stream.starts()
        faults = [each for each in found if isinstance(each, Fault)]
        assert [fault.code for fault in faults] == ["gap"]
        assert len(places) == 6, (lost, len(places))


@pytest.mark.parametrize("kind", ["zeros", "ones", "small numbers"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_lost_head_gives_no_rows_of_the_body(protocol: str, kind: str) -> None:
    stream = Stream(protocol, BODIES[kind](protocol))
    large = stream.large()
    for lost in ({large[0]}, {1, large[0]}, {large[0], large[3]}, {0, 1, large[0], large[1]}):
        for gap_at_end in (False, True):
            found = stream.read(lost, gap_at_end=gap_at_end)
            assert _places(found) <= stream.starts()
            # The small messages before and after it are there.
            assert len(_places(found)) == 6 - len(lost & {0, 1})


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_single_frame_inside_of_a_body_is_no_message(protocol: str) -> None:
    """With the head lost, the frame at the beginning of a segment has other bytes behind it."""
    stream = Stream(protocol, embedded(protocol), aligned=True)
    large = stream.large()
    for lost in ({large[0]}, {large[0], large[4]}):
        places = _places(stream.read(lost))
        assert places <= stream.starts()
        assert len(places) == 6


@pytest.mark.parametrize("kind", ["zeros", "small numbers"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_fault_in_the_middle_of_a_stream_gives_no_rows_of_the_body(
    protocol: str, kind: str
) -> None:
    """Without loss: the head of the large message is wrong, and so its end is unknown."""
    stream = Stream(protocol, BODIES[kind](protocol))
    first = stream.large()[0]
    at, payload = stream.segments[first]
    # A head of no protocol: a wrong magic, an ESNP end with content, a comet frame of nothing.
    stream.segments[first] = at, b"\0\0\0\1" * 16 + payload[64:]
    places = _places(stream.read(set()))
    assert places <= stream.starts()
    assert len(places) == 6


@pytest.mark.parametrize("cut", [1, 2, 3, 5, 7, 64, 1_000])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_is_found_does_not_depend_on_when_bytes_arrive(protocol: str, cut: int) -> None:
    """A reader that is fed piece by piece finds what one finds that has all of it at once."""
    stream = Stream(protocol, bytes(4_000))
    body = stream.large()
    whole = stream.read({body[0]})
    reader = FrameReader(Framing(registry.find(protocol), None, "s2c"))
    found: list[Read] = []
    for number, (at, payload) in enumerate(stream.segments):
        if number == body[0]:
            found += reader.gap(Gap(at, len(payload), number + 1, 0, 0))
        elif number < body[0] or registry.find(protocol).name in ("comet", "esnp"):
            # Without a magic, beginnings of segments decide where frames may begin.
            found += reader.data(Data(at, payload, number, 0, 0, number))
        else:
            for start in range(0, len(payload), cut):
                part = payload[start : start + cut]
                found += reader.data(Data(at + start, part, number, 0, 0, number))
    found += reader.end(still_open=False)
    assert _places(found) == _places(whole)


def test_messages_that_say_nothing_are_found_again_behind_a_gap() -> None:
    """Heartbeats have no id; what speaks for them is that each has a segment of its own."""
    beat = registry.find("comet").encode(comet.Heartbeat())
    reader = FrameReader(Framing(registry.find("comet"), None, "c2s"))
    found = reader.data(Data(0, beat, 0, 0, 0, 0))
    found += reader.gap(Gap(3, 30, 1, 0, 0))
    for number in range(3):
        found += reader.data(Data(33 + 3 * number, beat, number, 0, 0, number))
    assert _places(found) == {(0, 3), (33, 36), (36, 39), (39, 42)}


def _capture(path: Path, lost: int) -> Path:
    call = Call(9_600).open()
    rows = LARGE["esnp"](bytes(BODY_BYTES))
    small = frames("esnp", "s2c")[0]
    call.say("s2c", small)
    message = registry.find("esnp").encode(rows)
    for at in range(0, len(message), SEGMENT):
        part = message[at : at + SEGMENT]
        if at // SEGMENT == lost:
            call.lose("s2c", len(part))
        else:
            call.say("s2c", part, SEGMENT)
    call.say("s2c", small).say("s2c", small).close()
    return write(path, call.packets)


@pytest.mark.parametrize("lost", [0, 10])
def test_both_readers_count_doubtful_bytes_as_faulty(tmp_path: Path, lost: int) -> None:
    """The capture of the issue: one segment lost in 40 kB of zeros gave 8,956 ESNP events."""
    path = str(_capture(tmp_path / "zeros.pcap", lost))
    tables = ("messages", "faults", "coverage")
    for rows in (
        list(read_tables([path], tables=tables)),
        [
            (table, row)
            for table, batch in CapturePipeline([path], tables=tables).batches()
            for row in batch.to_pylist()
        ],
    ):
        assert len([row for table, row in rows if table == "messages"]) == 3
        (fault,) = [row for table, row in rows if table == "faults"]
        assert (fault["code"], fault["missing_bytes"]) == ("gap", SEGMENT)
        (coverage,) = [
            row for table, row in rows if table == "coverage" and row["direction"] == "s2c"
        ]
        assert coverage["faulty_bytes"] == fault["present_bytes"]
        assert coverage["messages"] == 3
