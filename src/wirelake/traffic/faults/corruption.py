"""Corrupts a frame and asks the protocol's own decoder what is wrong with the result."""

from __future__ import annotations

from typing import Final

import numpy as np

from wirelake.capture.decode.framing import BadFrame, BadHead, Framing, Good, sentence
from wirelake.wire.errors import WireError

from ..packets.numbers import WIDTHS, Bytes
from ..scenes.provider import DIRECTIONS, Frame, ProtocolScenes
from ..scenes.template import Stream
from ..truth.streams import CorruptFrame

__all__ = ["corrupt_body", "corrupt_head"]

_TRIED: Final = 48
"""Bytes of a body that are tried."""


def corrupt_body(
    scenes: ProtocolScenes, direction: int, number: int, frame: Frame, stream: Stream, raw: Bytes
) -> CorruptFrame | None:
    """Change a byte of a frame, in place, so that its body breaks a rule; None if none does.

    Ids and times are left alone: truth identifies messages by them.
    """
    slots = {
        place
        for slot in stream.slots
        if frame.start <= slot.start < frame.stop
        for place in range(slot.start, slot.start + (8 if slot.is_time else WIDTHS[slot.form]))
    }
    begin = scenes.body_at
    for at in range(begin, min(len(raw), begin + _TRIED)):
        if frame.start + at in slots:
            continue
        kept = int(raw[at])
        for value in (kept | 3, 0xFF):
            raw[at] = value
            found = _decode(scenes, direction, number, raw)
            if found is not None and found.delimited:
                return found
        raw[at] = kept
    return None


def corrupt_head(
    scenes: ProtocolScenes, direction: int, number: int, raw: Bytes
) -> CorruptFrame | None:
    """Change the start of a frame, in place, so that no frame can begin there."""
    kept = raw[:2].copy()
    scenes.break_head(raw)
    found = _decode(scenes, direction, number, raw)
    if found is None or found.delimited:
        raw[:2] = kept
        return None
    return found


def _decode(scenes: ProtocolScenes, direction: int, number: int, raw: Bytes) -> CorruptFrame | None:
    """Return the decoder's error; None if the bytes are a good frame, or an incomplete one."""
    framing = Framing(scenes.declaration, None, DIRECTIONS[direction])
    data = np.ascontiguousarray(raw).tobytes()
    match framing.judge(bytearray(data), 0, final=True):
        case BadFrame(error, whole) if len(whole) == len(data):
            return _corrupt(number, error, delimited=True)
        case BadHead(error):
            return _corrupt(number, error, delimited=False)
        case Good(message, whole) if len(whole) == len(data) and scenes.check is not None:
            try:
                scenes.check(message, data, DIRECTIONS[direction])
            except WireError as error:
                return _corrupt(number, error, delimited=True)
    return None


def _corrupt(number: int, error: WireError, *, delimited: bool) -> CorruptFrame:
    return CorruptFrame(number, error.code, error.field or None, sentence(error), delimited)
