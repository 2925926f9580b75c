"""What a correct reader makes of one stream, as far as that differs from what was sent.

A stream as it was captured has pieces, perhaps a hole, perhaps a frame that was spoilt. The rules
are *Messages*, 1 to 4, of `docs/concepts/captures.md`, applied by somebody who knows where every
frame begins and which of them are good: a place where a frame may begin is good exactly if a frame
of the scene begins there. That bytes in the middle of a frame look like a good one by chance is
left out of account.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from ..packets.packet_template import Plate
from ..scenes.template import Stream

__all__ = ["Broken", "Captured", "Read", "StreamFault", "captured", "read"]

MAGIC: Final = frozenset({"tny", "relay", "magline"})
"""Protocols whose frames begin with a magic: reading resumes there. Elsewhere, where a segment
begins."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A frame that was spoilt, and what a decoder says of it."""

    frame: int
    code: str
    field: str | None
    detail: str
    delimited: bool
    """Whether its end can still be told."""


@dataclass(slots=True)
class Captured:
    """One stream, as a capture has it."""

    pieces: list[tuple[int, int, int]]
    """Start, stop and item, in the order of capture; copies included."""
    size: int
    """Where the stream ends: further bytes were never sent."""
    broken: Broken | None = None
    owners: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """The item that brought each byte first; -1 for what was not captured."""
    completed: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """The item with which each byte could be delivered."""

    def look(self) -> None:
        """Finds out what brought which byte."""
        self.owners = np.full(self.size, -1, np.int64)
        for start, stop, item in self.pieces:
            span = self.owners[start:stop]
            span[span < 0] = item
        self.completed = self.owners.copy()
        bounds = [0, *(edge for gap in self.gaps() for edge in gap), self.size]
        for start, stop in zip(bounds[::2], bounds[1::2], strict=True):
            self.completed[start:stop] = np.maximum.accumulate(self.owners[start:stop])

    def gaps(self) -> list[tuple[int, int]]:
        """What is missing between the pieces."""
        missing = np.flatnonzero(np.diff(np.concatenate([[0], self.owners < 0, [0]]).astype(int)))
        return [(int(a), int(b)) for a, b in zip(missing[::2], missing[1::2], strict=True)]


@dataclass(slots=True)
class StreamFault:
    """A row of `faults`, as far as the stream determines it."""

    code: str
    start: int
    present: list[tuple[int, int]]
    missing: int
    item: int
    """The packet with its first byte, or the one that shows a gap."""
    at: int
    """The place in the stream whose place in the file is told."""
    field: str | None = None
    detail: str = ""

    @property
    def present_bytes(self) -> int:
        """How many bytes would not decode."""
        return sum(stop - start for start, stop in self.present)


@dataclass(slots=True)
class Read:
    """What became of a stream."""

    good: list[int]
    """The frames that were read, by their number."""
    faults: list[StreamFault]


def captured(plate: Plate, place: int, direction: int) -> Captured:
    """A stream as its plate has it: whole."""
    items = plate.carriers[place][direction]
    size = len(plate.mould.connections[place].streams[direction].data)
    found = Captured([(*plate.items[n].payload, n) for n in items], size)
    found.look()
    return found


def read(stream: Stream, seen: Captured, protocol: str) -> Read:
    """Reads a stream of a connection that was closed."""
    frames = stream.frames
    gaps = seen.gaps()
    if not gaps and seen.broken is None and seen.size == len(stream.data):
        return Read(list(range(len(frames))), [])
    number = {frame.start: n for n, frame in enumerate(frames)}
    found = Read([], [])
    pos = 0
    while pos < seen.size:
        n = number[pos]
        stop = frames[n].stop
        gap = next((each for each in gaps if pos <= each[0] < stop), None)
        broken = seen.broken if seen.broken is not None and seen.broken.frame == n else None
        if gap is not None:
            after = _next_place(gap[1], number, seen, protocol)
            found.faults.append(_gap(pos, gap, after, seen))
            pos = after
        elif stop > seen.size:
            detail = f"the stream ends {seen.size - pos} bytes into a frame"
            found.faults.append(_fault("truncated_stream", pos, seen.size, seen, None, detail))
            pos = seen.size
        elif broken is not None:
            after = stop if broken.delimited else _next_place(pos + 1, number, seen, protocol)
            found.faults.append(_fault(broken.code, pos, after, seen, broken.field, broken.detail))
            pos = after
        else:
            found.good.append(n)
            pos = stop
    return found


def _next_place(at: int, number: dict[int, int], seen: Captured, protocol: str) -> int:
    """Where the next good frame begins at which reading may resume."""
    places = {start for start, _, _ in seen.pieces} if protocol not in MAGIC else number
    return min((each for each in places if each >= at and each in number), default=seen.size)


def _fault(
    code: str, start: int, stop: int, seen: Captured, field: str | None, detail: str
) -> StreamFault:
    item = int(seen.owners[start])
    return StreamFault(code, start, [(start, stop)], 0, item, start, field, detail)


def _gap(start: int, gap: tuple[int, int], after: int, seen: Captured) -> StreamFault:
    missing = gap[1] - gap[0]
    at = start if start < gap[0] else gap[1]
    detail = f"{missing} bytes were not captured"
    present = [(start, gap[0]), (gap[1], after)]
    return StreamFault("gap", start, present, missing, int(seen.owners[at]), at, None, detail)
