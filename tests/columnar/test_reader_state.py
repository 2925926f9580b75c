"""Readers of streams with faults, saved and restored during a search or inside of a lost frame."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.capture.frames_made import PROTOCOLS
from tests.capture.test_lost_segments import Stream

from wirelake.capture.decode.framing import Framing
from wirelake.capture.decode.streams import Read
from wirelake.capture.tcp.assembly import Data, Gap
from wirelake.columnar.decode.scalar import ReaderState, ResumableReader
from wirelake.columnar.state_format import StateError
from wirelake.protocols import registry

_FILES = {0: 0}


def _saved(reader: ResumableReader) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.msgpack.decode(msgspec.msgpack.encode(reader.save()))
    return found


def _restored(saved: dict[str, Any], framing: Framing) -> ResumableReader:
    state = msgspec.msgpack.decode(msgspec.msgpack.encode(saved), type=ReaderState)
    return ResumableReader.restored(state, framing, _FILES)


def _read(stream: Stream, lost: set[int], *, saving: bool) -> list[Read]:
    framing = Framing(registry.find(stream.protocol), None, "s2c")
    reader, found, position = ResumableReader(framing), list[Read](), 0
    for number, (at, payload) in enumerate(stream.segments):
        if number in lost:
            continue
        if at > position:
            found += reader.gap(Gap(position, at - position, number, 0, 0))
        found += reader.data(Data(at, payload, number, 0, 0, number))
        position = at + len(payload)
        if saving:
            reader = _restored(_saved(reader), framing)
    return found + reader.end(still_open=False)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_reader_can_be_saved_after_every_segment(protocol: str) -> None:
    stream = Stream(protocol, bytes(4_000))
    large = stream.large()
    for lost in ({large[1]}, {large[0]}, {large[0], large[2]}, {1, large[-1]}):
        assert _read(stream, lost, saving=True) == _read(stream, lost, saving=False)


def test_a_state_without_the_end_of_a_lost_frame_is_restored() -> None:
    """Earlier versions wrote none: their readers search."""
    framing = Framing(registry.find("tny"), None, "s2c")
    reader = ResumableReader(framing)
    stream = Stream("tny", bytes(4_000))
    at, payload = stream.segments[2]
    reader.data(Data(at, payload, 0, 0, 0, 0))
    reader.gap(Gap(at + len(payload), 100, 0, 0, 0))
    saved = _saved(reader)
    assert saved.pop("skip_to") == at + len(stream.sent[2])
    assert saved.pop("in_rows") is False
    assert _restored(saved, framing).save().skip_to is None


def test_a_damaged_state_is_refused() -> None:
    framing = Framing(registry.find("tny"), None, "s2c")
    saved = _saved(ResumableReader(framing)) | {"skip_to": 7}
    with pytest.raises(StateError, match="skip_to out of range"):
        _restored(saved, framing)
