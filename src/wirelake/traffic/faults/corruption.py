"""Spoils a frame, and asks the protocol's own decoder what it thinks of the result."""

from __future__ import annotations

from typing import Final

import numpy as np

from wirelake.capture.decode.framing import (
    BadFrame,
    BadHead,
    Framing,
    Good,
    sentence,
)
from wirelake.protocols import registry
from wirelake.protocols.tny.decryption import Opener
from wirelake.wire.errors import WireError
from wirelake.wire.model import Direction

from ..packets.numbers import WIDTHS, Bytes
from ..scenes.frames import Frame
from ..scenes.template import Stream
from ..truth.reading import Broken

__all__ = ["broken_body", "broken_head"]

_WAYS: Final[tuple[Direction, Direction]] = ("c2s", "s2c")
_HEADS: Final = {"comet": 3, "esnp": 1 << 30, "tny": 9, "relay": 20, "magline": 16}
"""Bytes at the beginning of a frame that tell its end; ESNP reads on whatever a row holds."""
_TRIED: Final = 48
"""So many places of a frame are tried."""


def broken_body(
    protocol: str, way: int, number: int, frame: Frame, stream: Stream, raw: Bytes
) -> Broken | None:
    """Changes a byte of a frame, in place, so that its content breaks a rule; None if no byte that
    was tried does."""
    ids = {
        place
        for spot in stream.spots
        if frame.start <= spot.start < frame.stop
        for place in range(spot.start, spot.start + (8 if spot.is_time else WIDTHS[spot.form]))
    }
    begin = _HEADS[protocol]
    for at in range(begin, min(len(raw), begin + _TRIED)):
        if frame.start + at in ids:
            continue
        kept = int(raw[at])
        for value in (kept | 3, 0xFF):
            raw[at] = value
            found = _judged(protocol, way, number, raw)
            if found is not None and found.delimited:
                return found
        raw[at] = kept
    return None


def broken_head(protocol: str, way: int, number: int, raw: Bytes) -> Broken | None:
    """Changes the beginning of a frame, in place, so that nothing can begin with it."""
    kept = raw[:2].copy()
    if protocol == "comet":
        raw[:2] = 0
    else:
        raw[0] = 0
    found = _judged(protocol, way, number, raw)
    if found is None or found.delimited:
        raw[:2] = kept
        return None
    return found


def _judged(protocol: str, way: int, number: int, raw: Bytes) -> Broken | None:
    """What a decoder says of these bytes; None when they are a good frame, or not a whole one."""
    framing = Framing(registry.find(protocol), None, _WAYS[way])
    data = np.ascontiguousarray(raw).tobytes()
    match framing.judge(bytearray(data), 0, final=True):
        case BadFrame(error, whole) if len(whole) == len(data):
            return _broken(number, error, delimited=True)
        case BadHead(error):
            return _broken(number, error, delimited=False)
        case Good(message, whole) if len(whole) == len(data) and protocol == "tny":
            try:
                Opener({}, _WAYS[way], "seed").open(message, data)
            except WireError as error:
                return _broken(number, error, delimited=True)
    return None


def _broken(number: int, error: WireError, *, delimited: bool) -> Broken:
    return Broken(number, error.code, error.field or None, sentence(error), delimited)
