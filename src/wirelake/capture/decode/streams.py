"""`FrameReader`: the bytes of one stream to frames and faults (captures.md, *Messages*, 1 to 4).

    reader.data(event), reader.gap(event), reader.end(...)  ->  a list of Frame and Fault

Every byte of a stream is part of a frame, of a fault, or, at the end, of `ignored_bytes`:
`StreamCoverage` must add up.

A gap inside of a frame whose head was read leaves no doubt where the next frame begins: the bytes
up to there belong to the fault (`_skip`). In every other fault the reader searches for a start, and
a valid frame alone is no proof of one: four zero bytes of a payload are a valid ESNP message. A
start is accepted when the frame there is evidence, and so is another one after it (`_is_start`).
Until then nothing is yielded, so a doubtful byte never becomes a row. A stream whose beginning was
not captured may begin anywhere in a frame, so its first frame needs the same evidence. The search
has a limit in time, `SEARCH_NS`: then the fault ends with the bytes so far, and another one
continues it (`expire`). So a stream that never resumes, or falls silent, holds nothing back for
long.

The reader waits where a frame may be incomplete. It holds the largest frame at most, or while it
searches, `_LOOKAHEAD_FRAMES` of at most `SEARCHED_BYTES` for each of two frames of evidence.

The time of a frame is that of the packet that completed it: the last captured one among those with
its bytes, or with bytes before them in the stream since the last gap. A receiver could not have
read the frame earlier. The time of a fault is that of the packet that revealed it: the one that
completed the invalid bytes, or the first one behind a gap. A frame that is found by searching is
not earlier than the fault before it. So nothing that a packet completes is dated before that
packet, and the order of events does not depend on how a capture is cut (captures.md, Faults).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from wirelake.wire.errors import WireError

from ..format.constants import FAULT_BYTES
from ..format.items import Direction
from ..tcp.assembly import Conflict, Counters, Data, Gap
from .framing import BadFrame, BadHead, Framing, Incomplete, ValidFrame, describe

__all__ = [
    "SEARCH_NS",
    "UNKNOWN_START",
    "Fault",
    "Frame",
    "FrameReader",
    "OpenFault",
    "Piece",
    "Place",
    "Read",
    "Reason",
    "StreamCoverage",
    "conflict_fault",
    "frame_fault",
]

UNKNOWN_START: Final = "unknown_start"
"""Code of the bytes before the first frame of a stream whose beginning was not captured."""
SEARCH_NS: Final = 120_000_000_000
"""Maximum capture time between the packet that reveals a fault and the last of its bytes. Twice as
long as a hole may wait (`WAITING_NS`): what was behind a hole has as much time for its evidence."""
_LOOKAHEAD_FRAMES: Final = 16
"""Frames in a row that may be no evidence before a start is rejected. Small messages that say
nothing, such as heartbeats, come in short runs; a payload of zeros gives thousands."""


class Place(NamedTuple):
    """When and where a byte was captured."""

    ts_ns: int
    file: int
    offset: int


class Piece(NamedTuple):
    """A piece of the stream, without its bytes."""

    start: int
    stop: int
    ts_ns: int
    offset: int
    file: int
    delivered: int
    """Number of the packet with which it could be delivered."""
    delivered_ns: int


class Frame(NamedTuple):
    """A valid frame."""

    message: Any
    raw: bytes
    start: int
    """Its position in the stream."""
    ts_ns: int
    """When the packet that completed it was captured."""
    pieces: Sequence[Piece]
    known: int
    """The number of the packet with which it was found. It is later than that which completed it
    where a start needs evidence, and behind a gap, which must be given up first."""

    @property
    def stop(self) -> int:
        """The position after its last byte."""
        return self.start + len(self.raw)

    def place(self, at: int = 0) -> Place:
        """Return when and where its byte `at` was captured."""
        return _place(self.pieces, self.start + at)


class Fault(NamedTuple):
    """Bytes that are not a valid frame."""

    start: int
    """Its position in the stream."""
    present_bytes: int
    missing_bytes: int
    code: str
    field: str | None
    detail: str
    bytes: bytes
    """The first 256 of the present ones."""
    place: Place
    """When it was revealed, and where its first present byte is; if there is none, the packet that
    shows the gap."""


_LAST: Final = 1 << 62
"""In place of an arrival: after all packets so far."""

Read: TypeAlias = Frame | Fault
"""A part of a stream."""


class Reason(NamedTuple):
    """Why bytes are a fault."""

    code: str
    field: str | None
    detail: str


class OpenFault:
    """A fault whose end is not known yet."""

    __slots__ = ("code", "detail", "field", "missing", "place", "present", "sample", "start")

    def __init__(self, start: int, place: Place, code: str, field: str | None, detail: str):
        self.start = start
        self.place = place
        self.code = code
        self.field = field
        self.detail = detail
        self.present = 0
        self.missing = 0
        self.sample = bytearray()

    def absorb(self, view: bytes | bytearray) -> None:
        """Add bytes to the fault."""
        self.present += len(view)
        if len(self.sample) < FAULT_BYTES:
            self.sample += view[: FAULT_BYTES - len(self.sample)]

    def closed(self) -> Fault:
        """Return the fault once its end is known."""
        return Fault(
            self.start,
            self.present,
            self.missing,
            self.code,
            self.field,
            self.detail,
            bytes(self.sample),
            self.place,
        )


class FrameReader:
    """Reads the frames of one stream. It never raises for bad bytes."""

    __slots__ = (
        "_at",
        "_base",
        "_buffer",
        "_continued",
        "_fault",
        "_floor",
        "_framing",
        "_in_rows",
        "_latest",
        "_now",
        "_pieces",
        "_released",
        "_resume",
        "_revealed",
        "_skip_to",
        "_wanted",
        "ignored_bytes",
    )

    def __init__(self, framing: Framing):
        self._framing = framing
        self._buffer = bytearray()
        self._base = 0
        """Position of the buffer in the stream."""
        self._at = 0
        """Position in the buffer where reading continues."""
        self._pieces: deque[Piece] = deque()
        self._wanted = 0
        """The buffer size at which reading can continue: without it, each segment of a large frame
        would scan its head again."""
        self._resume: int | None = None
        self._fault: OpenFault | None = None
        self._continued: Reason | None = None
        """The reason of a fault that was interrupted: the next bytes continue it."""
        self._skip_to: int | None = None
        """Position in the stream up to which bytes belong to the frame that a gap interrupted; None
        while the end of that frame is not known."""
        self._in_rows = False
        """Whether that is the end of a row only: more rows of the frame follow."""
        self._latest = (-1, 0)
        """The packet, by arrival and time, with which the last piece could be delivered."""
        self._now = self._revealed = self._floor = (-1, 0)
        """Packets, by arrival and time: the one being read; the one that revealed the open fault;
        the one that revealed the last fault since a gap. Frames behind a fault are completed no
        earlier than it was revealed."""
        self._released = -1
        """The number of the packet with which the last bytes, or the last gap, were delivered."""
        self.ignored_bytes = 0
        """Bytes of an unfinished frame at the end of a stream that was still open."""

    def continue_after(self, arrival: int, ts_ns: int) -> None:
        """Note that another reader has read the stream up to here, and when its last piece was
        delivered."""
        self._latest = (arrival, ts_ns)

    @property
    def open_since_ns(self) -> int | None:
        """The time of the open fault, or None: nothing that follows is earlier."""
        return None if self._fault is None else self._fault.place.ts_ns

    @property
    def unfinished(self) -> int | None:
        """The number of bytes of an incomplete frame; None in a fault."""
        in_fault = self._fault is not None or self._continued is not None
        return None if in_fault else len(self._buffer)

    def data(self, event: Data, *, joined: bool = False) -> list[Read]:
        """Add bytes of the stream. `joined`: they are the first ones, and whether a frame begins
        with them is not known."""
        stop = event.position + len(event.payload)
        latest = max(self._latest, (event.arrival, event.ts_ns))
        self._released = max(self._released, event.arrival)
        found = self.expire(latest[1])
        self._now = self._latest = latest
        if not self._buffer:
            self._base = event.position
        self._pieces.append(
            Piece(event.position, stop, event.ts_ns, event.offset, event.file, *self._latest)
        )
        self._buffer += event.payload
        if joined:
            self._fault = self._open(UNKNOWN_START, None, "the capture begins inside of a frame")
        elif self._continued is not None:
            self._fault = self._open(*self._continued)
            self._continued = None
        # Nothing can be decided before: the scan has said how many bytes it needs.
        if len(self._buffer) >= self._wanted:
            self._advance(found, final=False)
            self._forget()
        return found

    def gap(self, event: Gap) -> list[Read]:
        """Note that bytes of the stream are missing."""
        self._released = max(self._released, event.given_up)
        found = self.expire(event.ts_ns)
        self._now = (_LAST, event.ts_ns)
        self._advance(found, final=True)
        if not self._buffer:
            self._base = event.position
        self._skip_over(event.position + event.missing)
        fault = self._fault
        if fault is None:
            shown = Place(event.ts_ns, event.file, event.offset)
            reason = self._continued or Reason(
                "gap", None, f"{event.missing} bytes were not captured"
            )
            self._continued = None
            fault = self._fault = self._open(*reason, shown)
        self._absorb(len(self._buffer))
        # A fault that is open runs on through gaps and keeps its first reason (captures.md,
        # Messages).
        fault.missing += event.missing
        if self._skip_to == event.position + event.missing and not self._in_rows:
            self._skip_to = None
            self._close(found)
        # Arrivals count from the last gap on: bytes behind it may have come before those in front.
        self._latest = self._revealed = self._floor = (-1, 0)
        self._move(0)
        self._forget()
        return found

    def _skip_over(self, stop: int) -> None:
        """Note how far the frame that a gap interrupts goes, unless the gap, up to `stop`, hides
        it."""
        if self._at < len(self._buffer) and (self._fault is None or self._skip_to is not None):
            known = self._framing.known_stop(self._buffer, self._at)
            self._skip_to, self._in_rows = None, False
            if known is not None:
                self._skip_to, self._in_rows = self._base + known.stop, known.in_rows
        if self._skip_to is not None and self._skip_to < stop:
            self._skip_to = None

    def end(self, *, still_open: bool) -> list[Read]:
        """End the stream or, if it is `still_open`, the last file."""
        found: list[Read] = []
        self._released = _LAST
        self._now = self._latest
        self._advance(found, final=True, ending=True)
        left = len(self._buffer) - self._at
        if left and self._fault is None:
            # The file ended, not the stream: an unfinished frame is not a fault.
            if still_open:
                self.ignored_bytes += left
                self._at = len(self._buffer)
            else:
                detail = f"the stream ends {left} bytes into a frame"
                # No packet reveals it: it has the time of its first byte, and hides nothing.
                self._now = (-1, _place(self._pieces, self._base + self._at).ts_ns)
                self._fault = self._open("truncated_stream", None, detail)
        if self._fault is not None:
            self._absorb(len(self._buffer))
            self._close(found)
        self._forget()
        return found

    def expire(self, now_ns: int) -> list[Read]:
        """End a fault that is too old at a time; the next bytes are another fault.

        What follows at `now_ns` or later does not change what is yielded. The bytes so far are
        judged as before a gap.
        """
        found: list[Read] = []
        # In a loop: the bytes behind a start that was found may contain another fault.
        while self._fault is not None and now_ns - self._fault.place.ts_ns >= SEARCH_NS:
            before = self._fault
            if self._pieces:
                self._now = self._pieces[-1].delivered, self._pieces[-1].delivered_ns
            self._advance(found, final=True, ending=True)
            if self._fault is before:
                self._absorb(len(self._buffer))
                self._continued = Reason(before.code, before.field, before.detail)
                self._close(found)
                self._move(0)
            self._forget()
        return found

    # -- reading -----------------------------------------------------------------------------

    def _advance(self, found: list[Read], *, final: bool, ending: bool = False) -> None:
        """Read as many frames as the bytes contain."""
        while self._at < len(self._buffer):
            if self._fault is None:
                # An invalid head that is incomplete ends a stream like any unfinished frame: no
                # packet reveals that it would have been a fault.
                progressed = self._read(found, final and not ending)
            elif self._skip_to is not None:
                progressed = self._skip(found, final)
            else:
                progressed = self._search(found, final)
            if not progressed:
                return

    def _read(self, found: list[Read], final: bool) -> bool:
        """Read what begins here. Return False when more bytes are needed."""
        verdict = self._framing.classify(self._buffer, self._at, final=final, resume=self._resume)
        match verdict:
            case Incomplete():
                self._await(verdict)
                return False
            case ValidFrame():
                found.append(self._frame(verdict))
                self._move(len(verdict.raw))
            case BadFrame():
                error = verdict.error
                self._now = self._completed(self._base + self._at + len(verdict.raw))
                self._fault = self._open(error.code, error.field, describe(error))
                self._absorb(self._at + len(verdict.raw))
                self._close(found)
                self._move(0)
            case BadHead():
                error = verdict.error
                self._fault = self._open(error.code, error.field, describe(error))
                self._absorb(self._at + 1)
                self._move(0)
        return True

    def _skip(self, found: list[Read], final: bool) -> bool:
        """Add the rest of an interrupted frame to its fault. Return False when more bytes are
        needed."""
        assert self._skip_to is not None
        left = self._skip_to - self._base - self._at
        if left:
            self._absorb(min(self._at + left, len(self._buffer)))
            self._move(0)
            if not self._in_rows and self._base + self._at == self._skip_to:
                self._skip_to = None
                self._close(found)
            return True
        # Rows up to an end row are a frame themselves, so the rest of one is read like a frame.
        verdict = self._framing.classify(self._buffer, self._at, final=final, resume=self._resume)
        match verdict:
            case Incomplete():
                self._await(verdict)
                return False
            case ValidFrame() | BadFrame():
                self._absorb(self._at + len(verdict.raw))
                self._close(found)
            case BadHead():
                pass
        self._skip_to = None
        self._move(0)
        return True

    def _search(self, found: list[Read], final: bool) -> bool:
        """Search for the start of a frame. Return False when more bytes are needed."""
        at = self._next_start()
        if at is None:
            # The end of the buffer may be the beginning of a magic.
            kept = 0 if final else max(0, self._framing.magic_size - 1)
            self._absorb(max(self._at, len(self._buffer) - kept))
            return False
        if at > self._at:
            self._absorb(at)
            self._move(0)
        accepted = self._is_start(final)
        # A frame may begin here: wait, rather than search on and miss it.
        if accepted is None:
            return False
        if accepted:
            self._close(found)
            self._resume = None
        else:
            self._absorb(self._at + 1)
            self._move(0)
        return True

    def _is_start(self, final: bool) -> bool | None:
        """Return whether a frame begins here; None when more bytes are needed.

        It does if the frame is evidence, only valid frames follow, and another one of them is
        evidence, too; or if they end where the captured bytes end. A message that a lost head left
        behind, or one inside of a payload, has something else after it.
        """
        place, evidence, others = self._at, 0, 0
        while place < len(self._buffer):
            resume = self._resume if place == self._at else None
            verdict = self._framing.classify(
                self._buffer, place, final=final, resume=resume, searching=True
            )
            if isinstance(verdict, Incomplete) and not final:
                self._await(verdict if place == self._at else Incomplete(verdict.more, None))
                return None
            if isinstance(verdict, Incomplete):
                # A whole head with a magic is as good as a frame; other heads say little.
                return bool(evidence) and self._framing.is_head(self._buffer, place)
            if not isinstance(verdict, ValidFrame):
                return False
            if self._is_evidence(verdict, place):
                evidence, others = evidence + 1, 0
            elif not evidence or others == _LOOKAHEAD_FRAMES:
                return False
            else:
                others += 1
            if evidence == 2:
                return True
            place += len(verdict.raw)
        if not final:
            self._await(Incomplete(1, None))
            return None
        return bool(evidence)

    def _is_evidence(self, good: ValidFrame, place: int) -> bool:
        """Return whether a frame is one that bytes of a payload hardly are by chance.

        It identifies something; or, for messages that say nothing, such as heartbeats, it has a
        segment of its own: senders write whole frames.
        """
        if self._framing.identifies(good.message):
            return True
        start = self._base + place
        stop = start + len(good.raw)
        return good.raw.count(good.raw[0]) < len(good.raw) and any(
            (piece.start, piece.stop) == (start, stop) for piece in self._pieces
        )

    def _next_start(self) -> int | None:
        """Return the next position in the buffer where a frame may begin.

        With a magic, its next occurrence. Otherwise the next beginning of a segment: senders write
        whole frames, so frames usually begin there, and trying every byte of a stream would find
        frames by chance. The first byte after a gap begins a segment, so it needs no rule of its
        own.
        """
        if self._framing.magic_size:
            return self._framing.find_magic(self._buffer, self._at)
        here = self._base + self._at
        for piece in self._pieces:
            if piece.start >= here:
                return piece.start - self._base
        return None

    # -- the buffer --------------------------------------------------------------------------

    def _move(self, size: int) -> None:
        """Skip bytes and restart the scan."""
        self._at += size
        self._resume = None
        self._wanted = 0
        here = self._base + self._at
        while self._pieces and self._pieces[0].stop <= here:
            self._pieces.popleft()

    def _await(self, need: Incomplete) -> None:
        self._wanted = len(self._buffer) + need.more
        self._resume = need.resume

    def _forget(self) -> None:
        """Drop the bytes that were read."""
        if not self._at:
            return
        del self._buffer[: self._at]
        self._base += self._at
        if self._resume is not None:
            self._resume -= self._at
        self._wanted -= self._at
        self._at = 0

    # -- frames and faults -------------------------------------------------------------------

    def _frame(self, good: ValidFrame) -> Frame:
        start = self._base + self._at
        stop = start + len(good.raw)
        # Pieces that end before the frame were dropped by `_move`, so it begins in the first one.
        pieces = list(takewhile(lambda piece: piece.start < stop, self._pieces))
        arrival, ts_ns = self._completed(stop)
        known = max(arrival, self._latest[0], self._released)
        return Frame(good.message, good.raw, start, ts_ns, pieces, known)

    def _completed(self, stop: int) -> tuple[int, int]:
        """Return the packet, by arrival and time, that completed the bytes up to a position."""
        *_, last = takewhile(lambda piece: piece.start < stop, self._pieces)
        return max((last.delivered, last.delivered_ns), self._floor)

    def _open(
        self, code: str, field: str | None, detail: str, otherwise: Place | None = None
    ) -> OpenFault:
        start = self._base + self._at
        if otherwise is None or self._at < len(self._buffer):
            otherwise = _place(self._pieces, start)
        self._revealed = self._now
        return OpenFault(start, otherwise._replace(ts_ns=self._now[1]), code, field or None, detail)

    def _absorb(self, stop: int) -> None:
        """Add the bytes up to a position of the buffer to the open fault."""
        assert self._fault is not None
        self._fault.absorb(self._buffer[self._at : stop])
        self._at = stop

    def _close(self, found: list[Read]) -> None:
        assert self._fault is not None
        # Without a byte it is the fault of a joined stream that does begin with a frame, or one
        # that was interrupted and is not continued.
        if self._fault.present or self._fault.missing:
            found.append(self._fault.closed())
        self._floor = self._revealed
        self._fault = None


def frame_fault(frame: Frame, error: WireError) -> Fault:
    """Return the fault of a delimited frame with invalid content."""
    return Fault(
        frame.start,
        len(frame.raw),
        0,
        error.code,
        error.field or None,
        describe(error),
        frame.raw[:FAULT_BYTES],
        frame.place()._replace(ts_ns=frame.ts_ns),
    )


def conflict_fault(conflict: Conflict) -> Fault:
    """Return the fault of a retransmission that differs. None of its bytes count as present."""
    detail = f"a second copy differs from the first, in bytes: {conflict.differing}"
    place = Place(conflict.ts_ns, conflict.file, conflict.offset)
    return Fault(conflict.position, 0, 0, "conflict", None, detail, conflict.payload, place)


def _place(pieces: Sequence[Piece], position: int) -> Place:
    for piece in pieces:
        if piece.start <= position < piece.stop:
            return Place(piece.ts_ns, piece.file, piece.offset + position - piece.start)
    raise LookupError(position)


# -- coverage --------------------------------------------------------------------------------


class StreamCoverage(msgspec.Struct, kw_only=True):
    """Counts of one stream, for a row of `coverage`.

    `new_bytes = decoded + faulty + undecryptable + ignored`, or bytes were lost in silence.
    """

    file: str
    connection: int
    direction: Direction
    protocol: str | None = None
    first_ns: int
    last_ns: int
    packets: int = 0
    decoded_bytes: int = 0
    faulty_bytes: int = 0
    undecryptable_bytes: int = 0
    ignored_bytes: int = 0
    """Delivered bytes that belong to no frame and no fault."""
    messages: int = 0
    faults: int = 0

    def row(self, counters: Counters) -> dict[str, Any]:
        """Return the row of `coverage`, with the counters of reassembly."""
        return {
            "file": self.file,
            "connection": self.connection,
            "direction": self.direction,
            "protocol": self.protocol,
            "first_ns": self.first_ns,
            "last_ns": self.last_ns,
            "packets": self.packets,
            "payload_bytes": counters.payload_bytes,
            "new_bytes": counters.new_bytes,
            "duplicate_bytes": counters.duplicate_bytes,
            "gap_bytes": counters.gap_bytes,
            "span_bytes": counters.span_bytes,
            "decoded_bytes": self.decoded_bytes,
            "faulty_bytes": self.faulty_bytes,
            "undecryptable_bytes": self.undecryptable_bytes,
            "ignored_bytes": self.ignored_bytes + counters.ignored_bytes,
            "messages": self.messages,
            "faults": self.faults,
        }
