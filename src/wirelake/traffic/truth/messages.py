"""What a correct reader finds in the packets of a scene: messages in order of time, and faults.

`read` is a reader of one stream that knows where frames are, because it was made with them. It only
decides what a fault hides, by the rules of `docs/concepts/captures.md`; so it shares no code with
the readers that are compared with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..packets.numbers import TUNNEL_FORM
from ..packets.packet_template import PacketTemplate
from ..scenes.provider import Frame, MessageInfo, Stream, scenes_of
from .rows import Cell, Conn, Id, Tunnel

__all__ = [
    "CapturedStream",
    "CorruptFrame",
    "FaultRead",
    "ReadMessage",
    "SceneRead",
    "StreamFault",
    "StreamRead",
    "captured_stream",
    "id_cell",
    "read",
    "read_scene",
    "text_cell",
    "tunnel_cell",
]


# -- one stream --------------------------------------------------------------------------------


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
        # A byte can be delivered when all before it have arrived: the latest packet so far. A gap
        # interrupts that, since a reader gives up on it and starts again behind it.
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
    """The packet with its first byte, or the first one behind a gap."""
    revealed_by: int
    """The packet that has its time: with it the fault is known."""
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
    pieces = {(start, stop) for start, stop, _ in captured.pieces}
    begins = set(number) if has_magic else {start for start, _ in pieces} & set(number)
    # Where it has to search for a start, the frame there must be evidence.
    starts = {p for p in begins if has_magic or _is_evidence(stream, frames[number[p]], pieces)}

    def next_frame(at: int, resumable: Set[int] = begins) -> int:
        return min((p for p in resumable if p >= at), default=captured.size)

    found = StreamRead([], [])
    pos = 0
    while pos < captured.size:
        n = number[pos]
        stop = frames[n].stop
        gap = next((each for each in gaps if pos <= each[0] < stop), None)
        corrupt = captured.corrupt if captured.corrupt and captured.corrupt.frame == n else None
        if gap is not None:
            # The length of a frame whose head was captured says where the next one begins.
            after = next_frame(gap[1], starts if pos == gap[0] else begins)
            found.faults.append(_gap(pos, gap, after, captured))
            pos = after
        elif stop > captured.size:
            detail = f"the stream ends {captured.size - pos} bytes into a frame"
            end = captured.size
            found.faults.append(_fault("truncated_stream", pos, end, captured, None, detail))
            pos = end
        elif corrupt is not None:
            after = stop if corrupt.delimited else next_frame(pos + 1, starts)
            found.faults.append(
                _fault(corrupt.code, pos, after, captured, corrupt.field, corrupt.detail)
            )
            pos = after
        else:
            found.good.append(n)
            pos = stop
    return found


def _is_evidence(stream: Stream, frame: Frame, pieces: Set[tuple[int, int]]) -> bool:
    """Return whether bytes of a payload hardly are such a frame by chance.

    It names something, or it has a segment of its own and is not one byte repeated. Its name is no
    target: protocols whose targets are the names of messages carry none.
    """
    info = frame.info
    target = info.target if info.target not in (info.name, "0") else None
    if info.id or info.reply_to or info.ids or info.client or info.body_bytes or target:
        return True
    data = stream.data[frame.start : frame.stop]
    return (frame.start, frame.stop) in pieces and data.count(data[0]) < len(data)


def _fault(
    code: str, start: int, stop: int, captured: CapturedStream, field: str | None, detail: str
) -> StreamFault:
    item = int(captured.owners[start])
    # A corrupted frame is in one packet; nothing reveals that a stream ends inside a frame.
    shown = item if code == "truncated_stream" else int(captured.completed[start])
    return StreamFault(code, start, [(start, stop)], 0, item, shown, start, field, detail)


def _gap(start: int, gap: tuple[int, int], after: int, captured: CapturedStream) -> StreamFault:
    missing = gap[1] - gap[0]
    at = start if start < gap[0] else gap[1]
    detail = f"{missing} bytes were not captured"
    present = [(start, gap[0]), (gap[1], after)]
    item, behind = (int(captured.owners[position]) for position in (at, gap[1]))
    return StreamFault("gap", start, present, missing, item, behind, at, None, detail)


# -- a scene -----------------------------------------------------------------------------------


@dataclass(slots=True)
class ReadMessage:
    """A message of a connection, or of a tunnel on it."""

    connection: int
    """Index of the connection that carried it."""
    tunnel: Tunnel | None
    protocol: str
    direction: int
    info: MessageInfo
    size: int
    frame: Frame
    item: int
    """The packet that completed it."""

    @property
    def where(self) -> Conn | Tunnel:
        """The connection or tunnel that it belongs to."""
        return Conn(self.connection) if self.tunnel is None else self.tunnel


@dataclass(slots=True)
class FaultRead:
    """A fault in a stream."""

    connection: int
    direction: int
    fault: StreamFault


@dataclass(slots=True)
class SceneRead:
    """Everything that a reader finds in the streams of a scene."""

    messages: list[ReadMessage] = field(default_factory=list)
    faults: list[FaultRead] = field(default_factory=list)
    streams: dict[tuple[int, int], CapturedStream] = field(default_factory=dict)


def read_scene(
    packets: PacketTemplate, altered: Mapping[tuple[int, int], CapturedStream] | None = None
) -> SceneRead:
    """Return all messages, in the order in which they were complete.

    `altered` are the streams, by connection and direction, whose capture differs from the template.
    """
    found = SceneRead()
    for place, connection in enumerate(packets.template.connections):
        for direction, stream in enumerate(connection.streams):
            captured = (altered or {}).get((place, direction))
            captured = captured or captured_stream(packets, place, direction)
            found.streams[place, direction] = captured
            result = read(stream, captured, has_magic=connection.scenes.has_magic)
            for n in result.good:
                _add_message(found, packets, place, direction, stream.frames[n])
            found.faults += [FaultRead(place, direction, fault) for fault in result.faults]
    found.messages.sort(key=lambda each: each.item)
    return found


def _add_message(
    found: SceneRead, packets: PacketTemplate, place: int, direction: int, frame: Frame
) -> None:
    item = int(found.streams[place, direction].completed[frame.stop - 1])
    protocol = packets.template.connections[place].protocol
    size = frame.stop - frame.start
    found.messages.append(
        ReadMessage(place, None, protocol, direction, frame.info, size, frame, item)
    )
    if frame.inner is not None and frame.info.tunnel is not None:
        tunnel = tunnel_cell(packets, frame.info.tunnel)
        protocol, info, size = frame.inner
        found.messages.append(
            ReadMessage(place, tunnel, protocol, direction, info, size, frame, item)
        )


def tunnel_cell(packets: PacketTemplate, tunnel: tuple[int, int]) -> Tunnel:
    """Return the cell of a tunnel's id."""
    numbers = packets.template.numbers
    return Tunnel(*(numbers.place(TUNNEL_FORM, each) for each in tunnel))


def id_cell(packets: PacketTemplate, protocol: str, number: int | None) -> Cell:
    """Return the cell of a message id."""
    form = scenes_of(protocol).id_form
    if number is None or form is None:
        return number
    return Id(form, packets.template.numbers.place(form, number))


def text_cell(packets: PacketTemplate, text: str | None) -> Cell:
    """Return the cell of an id that is text; one that is not out of the block is a constant."""
    found = None if text is None else packets.template.numbers.used.get(text.encode())
    return text if found is None else Id(*found)
