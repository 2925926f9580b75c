"""`Pieces`: which packet each byte of a stream came from; and `Carry`: bytes kept across windows.

Stream bytes and their pieces are always moved together. A piece is the part of the bytes that came
from one packet. Pieces are in the order of the bytes and cover all of them:

    columns[START | PIECE_TS | FILE_OFFSET | ARRIVAL]
            int64: position in the bytes, capture time, offset in the file, number among all packets
    file    int32: number of the file
    cut     uint8: whether the packet has bytes before these

So a message gets the time and the file offset of its bytes without a lookup by packet: packets
of earlier windows are gone by then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..jit.options import Int, S, U, inline, kernel, readonly
from ..scan.blocks import TS
from ..scan.headers import PAYLOAD, PAYLOAD_BYTES
from ..state_format import check

__all__ = [
    "ARRIVAL",
    "FILE_OFFSET",
    "PIECE_TS",
    "START",
    "Carry",
    "CarryState",
    "Delivered",
    "Pieces",
    "ascending_pieces",
    "completion_order",
    "copy_bytes",
    "copy_in_order",
    "copy_ranges",
    "delivered",
    "join_carries",
]


START, PIECE_TS, FILE_OFFSET, ARRIVAL = range(4)
"""Rows of `Pieces.columns`."""

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Pieces:
    """The packets that some bytes came from."""

    columns: Ints
    file: NDArray[np.int32]
    cut: Bytes

    @staticmethod
    def empty(count: int) -> Pieces:
        """Return uninitialised space for `count` pieces."""
        return Pieces(
            np.empty((4, count), np.int64), np.empty(count, np.int32), np.empty(count, np.uint8)
        )


@inline
def _copy(source: Bytes, start: Int, size: Int, target: Bytes, at: Int) -> None:
    for k in range(U(size)):
        target[U(at) + k] = source[U(start) + k]


@kernel
def copy_in_order(
    count: int,
    data: Bytes,
    base: int,
    file: int,
    before: int,
    packet_i64: Ints,
    header_i64: Ints,
    header_i32: NDArray[np.int32],
    stream: NDArray[np.int32],
    in_order: Bytes,
    table: NDArray[Any],
    target: Bytes,
    columns: Ints,
    files: NDArray[np.int32],
    cut: Bytes,
) -> None:
    """Copy the payloads that are in order to the ranges of their streams.

    The record of a stream says where its next bytes and its next piece go. Packets are visited in
    the order of the file, which is sequential in `data`; the writes go to as many places as there
    are active streams.
    """
    for i in range(count):
        if not in_order[i]:
            continue
        found = table[U(stream[i])]
        size = S(header_i32[PAYLOAD_BYTES, i])
        _copy(data, header_i64[PAYLOAD, i], size, target, found.next_byte)
        k = U(found.next_piece)
        columns[START, k] = found.next_byte
        columns[PIECE_TS, k] = packet_i64[TS, i]
        columns[FILE_OFFSET, k] = base + header_i64[PAYLOAD, i]
        columns[ARRIVAL, k] = before + i
        files[k] = file
        cut[k] = 0
        found.next_byte += size
        found.next_piece += 1


@kernel
def copy_ranges(
    start: Ints,
    stop: Ints,
    first: Ints,
    last: Ints,
    to: Ints,
    to_piece: Ints,
    source: Bytes,
    columns: Ints,
    files: NDArray[np.int32],
    cut: Bytes,
    target: Bytes,
    to_columns: Ints,
    to_files: NDArray[np.int32],
    to_cut: Bytes,
) -> None:
    """Copy ranges of bytes, `start` to `stop`, with their pieces, `first` to `last`."""
    for r in range(len(start)):
        _copy(source, start[r], stop[r] - start[r], target, to[r])
        for k in range(first[r], last[r]):
            i = U(k)
            j = U(to_piece[r] + k - first[r])
            # The first piece of a range may begin before it: its packet also completed the frame
            # before. Then no segment begins here, so no frame is searched here (captures.md,
            # Messages 2).
            skipped = max(0, start[r] - columns[START, i])
            to_columns[START, j] = to[r] + columns[START, i] + skipped - start[r]
            to_columns[PIECE_TS, j] = columns[PIECE_TS, i]
            to_columns[FILE_OFFSET, j] = columns[FILE_OFFSET, i] + skipped
            to_columns[ARRIVAL, j] = columns[ARRIVAL, i]
            to_files[j] = files[i]
            to_cut[j] = 1 if skipped else cut[i]


@kernel
def copy_bytes(source: Bytes, start: Ints, size: Ints, target: Bytes, to: Ints) -> None:
    """Copy ranges of bytes."""
    for r in range(len(start)):
        _copy(source, start[r], size[r], target, to[r])


# -- the packet that completes bytes -----------------------------------------------------------


@dataclass(frozen=True)
class Delivered:
    """For each piece: the packet with which it could be delivered, by number, and its time.

    TCP delivers a byte when all bytes before it are there. So this is the latest packet among the
    piece and those before it since the last gap (captures.md, Messages: `ts_ns`).
    """

    arrival: Ints
    ts_ns: Ints


def delivered(pieces: Pieces, run_starts: Ints) -> Delivered:
    """Return the running maximum of arrival within each run; both are in the order of `data`."""
    count = pieces.columns.shape[1]
    # Filled by one pass over all pieces; frames then need only a lookup.
    found = Delivered(np.empty(count, np.int64), np.empty(count, np.int64))
    _delivered(pieces.columns, run_starts, found.arrival, found.ts_ns)
    return found


@kernel
def _delivered(columns: Any, run_starts: Any, arrival: Any, ts_ns: Any) -> Any:
    run = 0
    latest = np.int64(-1)
    when = np.int64(0)
    for k in range(U(columns.shape[1])):
        # A new run begins after a gap, or with another stream: what was delivered before does not
        # count.
        while run < len(run_starts) and run_starts[U(run)] <= columns[START, k]:
            run += 1
            latest = np.int64(-1)
        if columns[ARRIVAL, k] > latest:
            latest = columns[ARRIVAL, k]
            when = columns[PIECE_TS, k]
        arrival[k] = latest
        ts_ns[k] = when


def ascending_pieces(pieces: Pieces, positions: Ints) -> Ints:
    """Return the pieces that hold ascending positions of the buffer.

    One merge pass instead of a binary search for each position: 6 ms instead of 29 ms for 300,000.
    """
    found = np.empty(len(positions), np.int64)
    _ascending_pieces(pieces.columns, positions, found)
    return found


@kernel
def _ascending_pieces(columns: Any, positions: Any, found: Any) -> Any:
    count = columns.shape[1]
    at = 0
    for i in range(U(positions.shape[0])):
        while at + 1 < count and columns[START, U(at + 1)] <= positions[i]:
            at += 1
        found[i] = at


def completion_order(arrival: Ints) -> NDArray[np.int64]:
    """Return the order in which slices were completed; stable for those of one packet.

    Arrival numbers of a window are dense, so a counting sort is enough: 11 ms for 300,000 frames
    instead of 53 ms. With few messages among many packets its table would be the larger part.
    """
    if not len(arrival):
        return np.empty(0, np.int64)
    low, high = int(arrival.min()), int(arrival.max())
    # The table of the counting sort has an entry for each packet in the range.
    if high - low > 4 * len(arrival) + 65_536:
        return np.argsort(arrival, kind="stable")
    places = np.zeros(high - low + 2, np.int64)
    found = np.empty(len(arrival), np.int64)
    _counting_sort(arrival, low, places, found)
    return found


@kernel
def _counting_sort(keys: Any, low: int, places: Any, found: Any) -> None:
    for i in range(U(keys.shape[0])):
        places[U(keys[i] - low + 1)] += 1
    for k in range(1, len(places)):
        places[U(k)] += places[U(k - 1)]
    for i in range(U(keys.shape[0])):
        key = U(keys[i] - low)
        found[U(places[key])] = i
        places[key] += 1


# -- bytes kept across windows -----------------------------------------------------------------


class CarryState(msgspec.Struct, frozen=True):
    """A saved `Carry`: one row for each stream with an unfinished frame."""

    stream: NDArray[np.int64]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    data: bytes
    columns: NDArray[np.int64] = msgspec.field(name="numbers")
    """The four rows of `Pieces.columns`, one after the other."""
    file: NDArray[np.int32]
    cut: NDArray[np.uint8]

    def check(self, streams: int) -> None:
        """Raise StateError when a range is outside the bytes or the pieces."""
        rows, pieces = len(self.stream), len(self.file)
        ranges = self.start, self.stop, self.first, self.last
        # Kernels index with these numbers without bounds checks, so a damaged state must be found
        # here.
        check({rows} == {len(each) for each in ranges}, "carry")
        check(len(self.cut) == pieces and len(self.columns) == 4 * pieces, "carry")
        check(np.all((self.stream >= 0) & (self.stream < streams)), "carry")
        for first, last, size in ((*ranges[:2], len(self.data)), (*ranges[2:], pieces)):
            check(np.all((first >= 0) & (first <= last) & (last <= size)), "carry")


class Carry:
    """The bytes of unfinished frames at the ends of streams, of all streams.

    All rows share one buffer, because most windows have as many unfinished frames as active
    connections: a bytes object for each would cost a Python call for each.
    """

    def __init__(self) -> None:
        self.stream = np.empty(0, np.int32)
        self.start = np.empty(0, np.int64)
        self.stop = np.empty(0, np.int64)
        self.first = np.empty(0, np.int64)
        self.last = np.empty(0, np.int64)
        """For each row: its stream, and the ranges of its bytes and pieces in those below."""
        self.data = readonly(b"")
        self.pieces = Pieces.empty(0)

    def copy_into(
        self, rows: Ints, to: Ints, to_piece: Ints, target: NDArray[np.uint8], pieces: Pieces
    ) -> None:
        """Copy rows into the bytes and pieces of a window."""
        _copy_rows(self, rows, to, to_piece, target, pieces)

    def since_ns(self, rows: NDArray[np.int32]) -> Ints:
        """Return when the first bytes of rows came."""
        return np.asarray(self.pieces.columns[PIECE_TS, self.first[rows]])

    def files(self) -> set[int]:
        """Return the columns of the files that it refers to."""
        return set(np.unique(self.pieces.file).tolist())

    def save(self, columns: Ints) -> CarryState:
        """Return the rows to be saved, with the stream columns that the state uses."""
        return CarryState(
            columns[self.stream],
            self.start,
            self.stop,
            self.first,
            self.last,
            self.data.tobytes(),
            self.pieces.columns.ravel(),
            self.pieces.file,
            self.pieces.cut,
        )

    def next_carry(
        self,
        table: NDArray[Any],
        stream: NDArray[np.int32],
        start: Ints,
        stop: Ints,
        data: NDArray[np.uint8],
        pieces: Pieces,
    ) -> Carry:
        """Return the carry for the next window: the rows that no run used, and these bytes.

        The record of a stream in `table` has the number of its row, before and after. A stream
        without new bytes in a window keeps its row untouched, for any number of windows.
        """
        # A stream refers to its row; one whose bytes were delivered in this window refers to no row
        # or to a new one.
        unused = np.flatnonzero(table["carry_row"][self.stream] == np.arange(len(self.stream)))
        kept = Carry()
        kept.stream, kept.start, kept.stop = stream, start, stop
        kept.data, kept.pieces = data, pieces
        begins = pieces.columns[START]
        # The piece that holds the first byte, which may begin before it.
        kept.first = np.searchsorted(begins, start, "right") - 1
        kept.last = np.searchsorted(begins, stop, "left")
        return join_carries(table, (self, unused), (kept, np.arange(len(stream))))


def join_carries(table: NDArray[Any], *parts: tuple[Carry, Ints]) -> Carry:
    """Return a carry of rows of several; `table` gets the row number of each stream."""
    new = Carry()
    new.stream = np.concatenate([carry.stream[rows] for carry, rows in parts])
    sizes = np.concatenate([carry.stop[rows] - carry.start[rows] for carry, rows in parts])
    counts = np.concatenate([carry.last[rows] - carry.first[rows] for carry, rows in parts])
    new.stop = np.cumsum(sizes)
    new.start = new.stop - sizes
    new.last = np.cumsum(counts)
    new.first = new.last - counts
    target = np.empty(int(sizes.sum()), np.uint8)
    new.pieces = Pieces.empty(int(counts.sum()))
    at = 0
    for carry, rows in parts:
        stop = at + len(rows)
        _copy_rows(carry, rows, new.start[at:stop], new.first[at:stop], target, new.pieces)
        at = stop
    new.data = readonly(target)
    table["carry_row"][new.stream] = np.arange(len(new.stream))
    return new


def _copy_rows(
    carry: Carry,
    rows: Ints,
    to: Ints,
    to_piece: Ints,
    target: NDArray[np.uint8],
    pieces: Pieces,
) -> None:
    source = carry.pieces
    copy_ranges(
        carry.start[rows],
        carry.stop[rows],
        carry.first[rows],
        carry.last[rows],
        to,
        to_piece,
        carry.data,
        source.columns,
        source.file,
        source.cut,
        target,
        pieces.columns,
        pieces.file,
        pieces.cut,
    )
