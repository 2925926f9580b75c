"""Streams whose beginning was not captured: no row for a message that was never sent.

A capture that was started while a connection was open may begin inside of a frame. The first frame
needs the evidence that a start behind a gap needs; captures that begin with a frame lose nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from wirelake.capture.decode.framing import Framing
from wirelake.capture.decode.reference import read_tables
from wirelake.capture.decode.streams import Fault, Frame, FrameReader, Read
from wirelake.capture.tcp.assembly import Data
from wirelake.columnar.pipeline.pipeline import CapturePipeline, Item
from wirelake.protocols import registry
from wirelake.records.schema import schema

from .frames_made import PROTOCOLS, frames, talk
from .tcp_made import Call, Made, write
from .test_lost_segments import BODIES, LARGE, SEGMENT, Stream

pytestmark = pytest.mark.slow

PORTS = {"comet": 9_301, "esnp": 9_302, "magline": 9_303, "relay": 9_304, "tny": 9_305}
TABLES = ("messages", "faults", "coverage")


def _joined(protocol: str, pieces: Sequence[tuple[int, bytes]], *, open_: bool) -> list[Read]:
    """What a reader finds in pieces of a stream, whose positions count from the first one."""
    reader = FrameReader(Framing(registry.find(protocol), None, "s2c"))
    found: list[Read] = []
    first = pieces[0][0]
    for number, (at, payload) in enumerate(pieces):
        event = Data(at - first, payload, number, 0, 0, number)
        found += reader.data(event, joined=not number)
    return found + reader.end(still_open=open_)


def _places(found: list[Read], base: int = 0) -> set[tuple[int, int]]:
    return {(base + each.start, base + each.stop) for each in found if isinstance(each, Frame)}


@pytest.mark.parametrize("open_", [False, True])
@pytest.mark.parametrize("kind", ["zeros", "ones", "small numbers"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_bytes_of_a_body_are_one_fault(protocol: str, kind: str, open_: bool) -> None:
    stream = Stream(protocol, BODIES[kind](protocol))
    large = stream.large()
    for first in (large[1], large[9], large[-2]):
        pieces = stream.segments[first:]
        found = _joined(protocol, pieces, open_=open_)
        places = _places(found, pieces[0][0])
        assert places <= stream.starts()
        assert len(places) == 4
        (fault,) = [each for each in found if isinstance(each, Fault)]
        assert (fault.code, fault.start, fault.missing_bytes) == ("unknown_start", 0, 0)
        assert fault.present_bytes == min(places)[0] - pieces[0][0]


@pytest.mark.parametrize("kind", ["zeros", "small numbers"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_capture_of_nothing_but_a_body_has_no_messages(protocol: str, kind: str) -> None:
    stream = Stream(protocol, BODIES[kind](protocol))
    large = stream.large()
    for count in (1, 2, 5):
        pieces = stream.segments[large[3] : large[3] + count]
        (fault,) = _joined(protocol, pieces, open_=True)
        assert isinstance(fault, Fault)
        assert fault.present_bytes == SEGMENT * count


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_capture_that_begins_with_a_frame_has_all_frames(protocol: str) -> None:
    for body in (b"x", bytes(4_000)):
        stream = Stream(protocol, body)
        for first, (at, _) in enumerate(stream.segments):
            if at in {start for start, _ in stream.starts()}:
                found = _joined(protocol, stream.segments[first:], open_=True)
                wanted = {place for place in stream.starts() if place[0] >= at}
                assert _places(found, at) == wanted
                assert len(found) == len(wanted)


@pytest.mark.parametrize("open_", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_single_message_is_one(protocol: str, open_: bool) -> None:
    """The captured bytes are exactly one frame that says something: that is evidence enough."""
    for frame in frames(protocol, "s2c"):
        (found,) = _joined(protocol, [(0, frame)], open_=open_)
        assert isinstance(found, Frame)
        assert found.raw == frame


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_single_message_with_other_bytes_behind_it_is_a_fault(protocol: str) -> None:
    frame = frames(protocol, "s2c")[0]
    (found,) = _joined(protocol, [(0, frame + b"\xee" * 40)], open_=False)
    assert isinstance(found, Fault)
    assert (found.code, found.present_bytes) == ("unknown_start", len(frame) + 40)


# -- both readers ----------------------------------------------------------------------------


def _packets(protocol: str, first: int) -> list[Made]:
    """A connection whose first packets were not captured; several frames in some packets."""
    call = Call(PORTS[protocol]).open()
    large = registry.find(protocol).encode(LARGE[protocol](bytes(6_000)))
    small = frames(protocol, "s2c")
    call.say("s2c", large, SEGMENT)
    for _, (way, frame) in zip(range(8), talk(protocol), strict=False):
        call.say(way, frame)
    call.say("s2c", b"".join(small), 10_000).say("s2c", small[0] + small[1][:3])
    call.say("s2c", small[1][3:] + b"".join(small)).say("s2c", large, SEGMENT).close()
    return call.packets[first:]


def _reference(paths: Sequence[Path]) -> list[tuple[str, dict[str, Any]]]:
    ports = {port: name for name, port in PORTS.items()}
    return list(read_tables([str(path) for path in paths], tables=TABLES, ports=ports))


def _rows(items: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(table, row) for table, batch in items for row in batch.to_pylist()]


def _columnar(paths: Sequence[Path], *, saving: bool) -> list[tuple[str, dict[str, Any]]]:
    """Read files at once or, with `saving`, each by a pipeline of its own."""
    ports = {port: name for name, port in PORTS.items()}
    names = [str(path) for path in paths]
    if not saving:
        return _rows(CapturePipeline(names, tables=TABLES, ports=ports).batches())
    found: list[tuple[str, dict[str, Any]]] = []
    state = None
    for name in names:
        pipeline = CapturePipeline([name], tables=TABLES, ports=ports, state=state)
        for window in pipeline.windows(last=False):
            found += _rows(window)
        state = pipeline.save()
    last: list[Item] = [item for window in pipeline.end() for item in window]
    return found + _rows(last)


def _shown(
    rows: list[tuple[str, dict[str, Any]]], *, without: Sequence[str] = ()
) -> dict[str, list[str]]:
    """The common columns of each table; rows of a protocol and direction in their order."""
    found: dict[str, list[str]] = {}
    for table, row in rows:
        names = [name for name in schema(table).names if name in row and name not in without]
        kept = {name: row[name] for name in names if name not in PORTS}
        key = f"{table} {row['protocol']} {row['direction']}"
        found.setdefault(key, []).append(repr(kept))
    return found


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_both_readers_agree_wherever_a_capture_begins(tmp_path: Path, protocol: str) -> None:
    total = len(_packets(protocol, 0))
    for first in (0, 2, 3, 4, 6, 8, 9, 12, total - 8, total - 5):
        path = write(tmp_path / f"{first}.pcap", _packets(protocol, first))
        wanted = _shown(_reference([path]))
        assert _shown(_columnar([path], saving=False)) == wanted
        # Three packets open the connection, five have a large message; so have the last
        # ones, behind a packet that begins inside of a frame.
        assert (f"faults {protocol} s2c" in wanted) == (3 < first < 8 or first >= total - 8)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_results_do_not_depend_on_cuts_into_files(tmp_path: Path, protocol: str) -> None:
    for first in (4, 9):
        packets = _packets(protocol, first)
        whole = write(tmp_path / f"{first}.pcap", packets)
        wanted = _shown(_reference([whole]), without=("file", "offset"))
        for cut in (1, 5):
            paths = [
                write(tmp_path / f"{first}-{cut}-{at}.pcap", packets[at : at + cut])
                for at in range(0, len(packets), cut)
            ]
            for saving in (False, True):
                rows = _columnar(paths, saving=saving)
                assert _shown(rows, without=("file", "offset")) == wanted
