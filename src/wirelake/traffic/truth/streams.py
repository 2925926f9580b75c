"""What a correct reader makes of one captured stream, where that differs from what was sent.

A captured stream has pieces, perhaps a gap, perhaps a corrupted frame. The rules are *Messages*, 1
to 4, of `docs/concepts/captures.md`, applied with the knowledge of where every frame begins and
which of them are good: a reader can resume at a position exactly if a frame of the scene begins
there. Bytes inside a frame that look like a good frame by chance are not considered.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..packets.packet_template import PacketTemplate
from ..scenes.template import Stream

__all__ = ["CapturedStream", "CorruptFrame", "StreamFault", "StreamRead", "captured_stream", "read"]


@dataclass(frozen=True, slots=True)
class CorruptFrame:
    """A corrupted frame, and what a decoder reports."""

    frame: int
    code: str
    field: str | None
    detail: str
    delimited: bool
    """Whether its end is still known."""


@dataclass(slots=True)
class CapturedStream:
    """One stream, as a capture has it."""

    pieces: list[tuple[int, int, int]]
    """Start, stop and item, in order of capture; copies included."""
    size: int
    """End of the stream: further bytes were never sent."""
    corrupt: CorruptFrame | None = None
    owners: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """The item that carried each byte first; -1 if it was not captured."""
    completed: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """The item with which each byte could be delivered."""

    def index(self) -> None:
        """Compute `owners` and `completed` from the pieces."""
        self.owners = np.full(self.size, -1, np.int64)
        for start, stop, item in self.pieces:
            span = self.owners[start:stop]
            span[span < 0] = item
        self.completed = self.owners.copy()
        bounds = [0, *(edge for gap in self.gaps() for edge in gap), self.size]
        for start, stop in zip(bounds[::2], bounds[1::2], strict=True):
            self.completed[start:stop] = np.maximum.accumulate(self.owners[start:stop])

    def gaps(self) -> list[tuple[int, int]]:
        """Return the ranges that were not captured."""
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
    """The packet with its first byte, or the one that reveals a gap."""
    at: int
    """Position in the stream whose file offset is reported."""
    field: str | None = None
    detail: str = ""

    @property
    def present_bytes(self) -> int:
        """Captured bytes that do not decode."""
        return sum(stop - start for start, stop in self.present)


@dataclass(slots=True)
class StreamRead:
    """What a reader gets out of a stream."""

    good: list[int]
    """Frames that were decoded, by number."""
    faults: list[StreamFault]


def captured_stream(packets: PacketTemplate, place: int, direction: int) -> CapturedStream:
    """Return a stream as its template has it: complete."""
    items = packets.carriers[place][direction]
    size = len(packets.template.connections[place].streams[direction].data)
    found = CapturedStream([(*packets.items[n].payload, n) for n in items], size)
    found.index()
    return found


def read(stream: Stream, captured: CapturedStream, *, has_magic: bool) -> StreamRead:
    """Read a stream of a closed connection. `has_magic`: the protocol's frames begin with one."""
    frames = stream.frames
    gaps = captured.gaps()
    if not gaps and captured.corrupt is None and captured.size == len(stream.data):
        return StreamRead(list(range(len(frames))), [])
    number = {frame.start: n for n, frame in enumerate(frames)}
    # A reader resumes at a magic; in a protocol without one, where a segment begins.
    resumable = set(number) if has_magic else {start for start, _, _ in captured.pieces}

    def next_frame(at: int) -> int:
        return min((p for p in resumable if p >= at and p in number), default=captured.size)

    found = StreamRead([], [])
    pos = 0
    while pos < captured.size:
        n = number[pos]
        stop = frames[n].stop
        gap = next((each for each in gaps if pos <= each[0] < stop), None)
        corrupt = captured.corrupt if captured.corrupt and captured.corrupt.frame == n else None
        if gap is not None:
            after = next_frame(gap[1])
            found.faults.append(_gap(pos, gap, after, captured))
            pos = after
        elif stop > captured.size:
            detail = f"the stream ends {captured.size - pos} bytes into a frame"
            end = captured.size
            found.faults.append(_fault("truncated_stream", pos, end, captured, None, detail))
            pos = end
        elif corrupt is not None:
            after = stop if corrupt.delimited else next_frame(pos + 1)
            found.faults.append(
                _fault(corrupt.code, pos, after, captured, corrupt.field, corrupt.detail)
            )
            pos = after
        else:
            found.good.append(n)
            pos = stop
    return found


def _fault(
    code: str, start: int, stop: int, captured: CapturedStream, field: str | None, detail: str
) -> StreamFault:
    item = int(captured.owners[start])
    return StreamFault(code, start, [(start, stop)], 0, item, start, field, detail)


def _gap(start: int, gap: tuple[int, int], after: int, captured: CapturedStream) -> StreamFault:
    missing = gap[1] - gap[0]
    at = start if start < gap[0] else gap[1]
    detail = f"{missing} bytes were not captured"
    present = [(start, gap[0]), (gap[1], after)]
    return StreamFault("gap", start, present, missing, int(captured.owners[at]), at, None, detail)
