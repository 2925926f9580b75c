"""`Scalar`: frames that a kernel rejected, and streams with faults, through the reference's code.

It applies the code of `wirelake.capture` to bytes of a window: `FrameReader` to a stream with a gap
or a bad head, the scalar codec to a single frame, `Decryptor` to sealed parts. Kernels report only
*that* something is wrong, never what: so the two readers cannot disagree about codes and details,
and rare cases do not make kernels larger and slower. The price: scalar code reaches 1/75 of the
rate of the kernels (benchmarks/results/captures.json), so captures full of faults are read slowly.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from wirelake.capture.decode.decryption import Decryptor, DecryptorState, KeyRing
from wirelake.capture.decode.framing import Framing
from wirelake.capture.decode.messages import MessageRows
from wirelake.capture.decode.protocol_selector import ProtocolChooser
from wirelake.capture.decode.streams import (
    Fault,
    Frame,
    FrameReader,
    OpenFault,
    Piece,
    Place,
    Reason,
    frame_fault,
)
from wirelake.capture.format.items import Direction
from wirelake.capture.tcp.assembly import Data, Gap
from wirelake.wire.errors import DecodeError, WireError
from wirelake.wire.protocol import Protocol

from ..state_format import check
from ..tcp.pieces import FILE_OFFSET, PIECE_TS, START, Delivered
from ..tcp.window import DIRECTIONS, Window
from .messages import Slices, pieces_of
from .sealed_parts import ConnectionKeys, OpenRow

__all__ = ["BEHIND_ALL", "Outcome", "ReaderState", "ResumableReader", "Scalar"]


class FaultState(msgspec.Struct, frozen=True):
    """An open fault as it is saved; the fields are those of `OpenFault`."""

    start: int
    place: Place
    code: str
    field: str | None
    detail: str
    present: int
    missing: int
    sample: bytes


class ReaderState(msgspec.Struct, frozen=True):
    """A `ResumableReader` as it is saved; the fields are those of `FrameReader`."""

    buffer: bytes
    base: int
    at: int
    pieces: list[Piece]
    wanted: int
    resume: int | None
    latest: tuple[int, int]
    ignored_bytes: int
    fault: FaultState | None
    skip_to: int | None = None
    in_rows: bool = False
    revealed: tuple[int, int] = (-1, 0)
    continued: Reason | None = None

    def files(self) -> set[int]:
        """Return the numbers of the files that it refers to."""
        found = {piece.file for piece in self.pieces}
        return found if self.fault is None else found | {self.fault.place.file}


class ResumableReader(FrameReader):
    """The reference's reader of a stream with faults, which can be saved and restored."""

    __slots__ = ()

    def save(self) -> ReaderState:
        """Return a copy of the whole state."""
        fault = self._fault
        return ReaderState(
            bytes(self._buffer),
            self._base,
            self._at,
            list(self._pieces),
            self._wanted,
            self._resume,
            self._latest,
            self.ignored_bytes,
            None
            if fault is None
            else FaultState(
                fault.start,
                fault.place,
                fault.code,
                fault.field,
                fault.detail,
                fault.present,
                fault.missing,
                bytes(fault.sample),
            ),
            self._skip_to,
            self._in_rows,
            self._revealed,
            self._continued,
        )

    @staticmethod
    def restored(state: ReaderState, framing: Framing, files: Mapping[int, int]) -> ResumableReader:
        """Return the reader that was saved; `files` maps saved file numbers to present ones.

        Raises StateError for a position to skip to that the reader has passed.
        """
        check(
            state.skip_to is None
            or (
                (state.fault is not None or state.continued is not None)
                and state.skip_to >= state.base + state.at
            ),
            "skip_to",
        )
        found = ResumableReader(framing)
        found._buffer += state.buffer
        found._base, found._at = state.base, state.at
        found._pieces = deque(each._replace(file=files[each.file]) for each in state.pieces)
        found._wanted, found._resume = state.wanted, state.resume
        found._latest = state.latest
        found._revealed = state.revealed
        found._continued = state.continued
        found.ignored_bytes = state.ignored_bytes
        found._skip_to, found._in_rows = state.skip_to, state.in_rows
        saved = state.fault
        if saved is not None:
            place = saved.place._replace(file=files[saved.place.file])
            fault = OpenFault(saved.start, place, saved.code, saved.field, saved.detail)
            fault.present, fault.missing = saved.present, saved.missing
            fault.sample += saved.sample
            found._fault = fault
        return found


BEHIND_ALL: Final = 1 << 62
"""Instead of a position in the window's bytes: behind all of them."""


class Outcome(NamedTuple):
    """The result of one frame."""

    arrival: int
    """Number of the packet with which it could be read (`Frame.known`)."""
    size: int
    rows: list[dict[str, Any]]
    """Its row, and that of a message in a tunnel; empty when it is a fault."""
    sealed: bool
    fault: Fault | None
    start: int = BEHIND_ALL
    """Where it begins in the window's bytes; the frames of a reader that has all bytes of a stream
    come after all others."""


class Scalar:
    """Reads single frames and streams with the reference's code."""

    def __init__(self, chooser: ProtocolChooser, ring: KeyRing, rows: MessageRows):
        self._chooser = chooser
        self._ring = ring
        self._rows = rows
        self._decryptors: dict[int, Decryptor] = {}
        self._saved: dict[int, DecryptorState] = {}
        """Restored states of connections without a frame since then."""
        self.keys: dict[str, ConnectionKeys] = {}
        """By protocol: the keys of connections, as messages that kernels decoded name them."""

    # -- single frames -----------------------------------------------------------------------

    def decode_slice(
        self,
        protocol: Protocol,
        window: Window,
        delivered: Delivered,
        start: int,
        stop: int,
        direction_code: int,
        connection: int,
    ) -> Outcome:
        """Decode a frame whose bounds are known."""
        pieces = self._pieces(window, delivered, start, stop)
        raw = window.data[start:stop].tobytes()
        # The frame could be delivered with its last piece.
        last = pieces[-1]
        direction = _direction(direction_code)
        try:
            message, _ = self._decode(protocol, raw, direction)
        except DecodeError as error:
            frame = Frame(None, raw, start, last.delivered_ns, pieces, last.delivered)
            return Outcome(last.delivered, len(raw), [], False, frame_fault(frame, error))
        frame = Frame(message, raw, start, last.delivered_ns, pieces, last.delivered)
        return self.frame_rows(protocol, frame, direction, connection)

    def frame_rows(
        self, protocol: Protocol, frame: Frame, direction: Direction, connection: int
    ) -> Outcome:
        """Return the rows of a decoded frame."""
        arrival = frame.known
        size = len(frame.raw)
        try:
            decrypted = self.decryptor(protocol, connection, frame.known).decrypt(
                frame.message, frame.raw, direction
            )
        except WireError as error:
            return Outcome(arrival, size, [], False, frame_fault(frame, error))
        rows = list(self._rows.rows(protocol, frame, decrypted, connection, direction))
        return Outcome(arrival, size, rows, decrypted.sealed, None)

    def row_opener(self, protocol: Protocol, slices: Slices) -> OpenRow:
        """Return a function that decrypts the body of a slice that a kernel has decoded."""

        def open_row(row: int) -> bytes | None:
            direction = _direction(int(slices.directions[row]))
            raw = slices.data[int(slices.starts[row]) : int(slices.stops[row])].tobytes()
            message, _ = self._decode(protocol, raw, direction)
            connection, arrival = int(slices.connection[row]), int(slices.arrival[row])
            found = self.decryptor(protocol, connection, arrival)
            return found.decrypt(message, raw, direction).body

        return open_row

    def _decode(self, protocol: Protocol, raw: bytes, direction: Direction) -> Any:
        return protocol.decode(
            raw,
            direction=direction if protocol.directed else None,
            dialect=self._chooser.dialect(protocol),
        )

    def decryptor(self, protocol: Protocol, connection: int, arrival: int) -> Decryptor:
        """Return the decryptor of a connection, for a message that a packet completed."""
        if connection not in self._decryptors:
            describer = self._rows.describer(protocol)
            self._decryptors[connection] = Decryptor(self._ring, describer, connection)
            # Restored when the connection has its next frame, because creating the openers needs
            # its protocol and dialect.
            if connection in self._saved:
                self._decryptors[connection].restore(self._saved.pop(connection))
        found = self._decryptors[connection]
        keys = self.keys.get(protocol.name)
        if keys is not None:
            # Also when none was named by then: bodies of later messages may be opened first.
            found.use_selector(keys.name_at(connection, arrival))
        return found

    def forget(self, connections: Iterable[int]) -> None:
        """Forget connections that are gone."""
        if self._decryptors or self._saved:
            gone = set(connections)
            for held in (self._decryptors, self._saved):
                for connection in held.keys() & gone:
                    del held[connection]

    def save(self) -> dict[int, DecryptorState]:
        """Return the states of all decryptors."""
        found = {connection: each.save() for connection, each in self._decryptors.items()}
        return self._saved | {at: each for at, each in found.items() if each is not None}

    def restore(self, saved: dict[int, DecryptorState]) -> None:
        """Continue from what `save` returned."""
        self._saved = saved

    def _pieces(self, window: Window, delivered: Delivered, start: int, stop: int) -> list[Piece]:
        """Return the pieces of a slice; positions are those of the window's bytes."""
        numbers, files = window.pieces.columns, window.pieces.file
        first = int(pieces_of(window.pieces, np.array([start]))[0])
        found = []
        at = first
        while at < numbers.shape[1] and numbers[START, at] < stop:
            following = at + 1
            end = int(numbers[START, following]) if following < numbers.shape[1] else stop
            found.append(
                Piece(
                    int(numbers[START, at]),
                    end,
                    int(numbers[PIECE_TS, at]),
                    int(numbers[FILE_OFFSET, at]),
                    int(files[at]),
                    int(delivered.arrival[at]),
                    int(delivered.ts_ns[at]),
                )
            )
            at = following
        return found

    # -- streams -----------------------------------------------------------------------------

    def reader(self, protocol: Protocol, direction_code: int) -> ResumableReader:
        """Return a reader for a stream with faults."""
        return ResumableReader(self.framing(protocol, direction_code))

    def framing(self, protocol: Protocol, direction_code: int) -> Framing:
        """Return the framing of a stream."""
        return self._chooser.framing(protocol, _direction(direction_code))

    def feed(
        self,
        reader: FrameReader,
        window: Window,
        delivered: Delivered,
        run: int,
        start: int | None = None,
        *,
        joined: bool = False,
    ) -> list[Frame | Fault]:
        """Feed a run of a stream to a reader, or the rest of it from `start` on. `joined`: the
        beginning of the stream was not captured."""
        found: list[Frame | Fault] = []
        if start is None:
            start = int(window.run_start[run])
            # The gap comes before the bytes of the run, unless reading starts in the middle of it.
            missing = int(window.run_gap[run])
            if missing:
                gap = Gap(
                    int(window.run_offset[run]) - missing,
                    missing,
                    int(window.run_gap_ts[run]),
                    int(window.run_gap_offset[run]),
                    int(window.run_gap_file[run]),
                    int(window.run_gap_given_up[run]),
                )
                found += reader.gap(gap)
        for data in self._data(reader, window, delivered, run, start):
            found += reader.data(data, joined=joined and data.position == 0)
        return found

    def feed_until_settled(
        self, reader: FrameReader, window: Window, delivered: Delivered, run: int
    ) -> tuple[list[Frame | Fault], int | None]:
        """Feed the first run of a joined stream to a reader until its first frame is found.

        Return also where the frames behind those that were read begin, in the window's bytes; None
        if no frame was found.
        """
        found: list[Frame | Fault] = []
        reached = start = int(window.run_start[run])
        for data in self._data(reader, window, delivered, run, start):
            found += reader.data(data, joined=data.position == 0)
            reached += len(data.payload)
            if reader.unfinished is not None:
                return found, reached - reader.unfinished
        return found, None

    def _data(
        self, reader: FrameReader, window: Window, delivered: Delivered, run: int, start: int
    ) -> Iterator[Data]:
        """Yield the pieces of a run from `start` on."""
        # From positions in the window's bytes to positions in the stream.
        base = int(window.run_offset[run]) - int(window.run_start[run])
        stop = int(window.run_stop[run])
        if start >= stop:
            return
        pieces = self._pieces(window, delivered, start, stop)
        # A reader that starts in the middle of a window must know when the bytes before were
        # delivered: `ts_ns` of its first frame depends on it.
        reader.continue_after(pieces[0].delivered, pieces[0].delivered_ns)
        for at, piece in enumerate(pieces, int(pieces_of(window.pieces, np.array([start]))[0])):
            first, end = max(piece.start, start), min(piece.stop, stop)
            yield Data(
                first + base,
                window.data[first:end].tobytes(),
                piece.ts_ns,
                piece.offset + first - piece.start,
                piece.file,
                int(window.piece_arrival[at]),
            )


def _direction(direction_code: int) -> Direction:
    return DIRECTIONS[direction_code]
