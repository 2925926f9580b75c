"""Bytes of streams and where they came from: the kernels that move both.

`Bytes` beside `Pieces`: a piece is a part of the bytes that one packet brought. The pieces of some
bytes are in their order and leave nothing out.

    numbers[START | TIME | PLACE | ARRIVAL]   int64: where it begins in the bytes, when it was
                                              captured, where in the file, the packet's number
    file                                      int32: the number of the file
    cut                                       uint8: whether the packet brought bytes before these
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
    "PLACE",
    "START",
    "TIME",
    "Carry",
    "CarryState",
    "Delivered",
    "Pieces",
    "copy_bytes",
    "delivered",
    "joined",
    "move",
    "order",
    "pieces_in_order",
    "place",
]


START, TIME, PLACE, ARRIVAL = range(4)
"""Rows of `Pieces.numbers`."""

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Pieces:
    """Where bytes came from."""

    numbers: Ints
    file: NDArray[np.int32]
    cut: Bytes

    @staticmethod
    def room(count: int) -> Pieces:
        """Space for so many pieces."""
        return Pieces(
            np.empty((4, count), np.int64), np.empty(count, np.int32), np.empty(count, np.uint8)
        )


@inline
def _copy(source: Bytes, start: Int, size: Int, target: Bytes, at: Int) -> None:
    for k in range(U(size)):
        target[U(at) + k] = source[U(start) + k]


@kernel
def place(
    count: int,
    data: Bytes,
    base: int,
    file: int,
    before: int,
    wide: Ints,
    places: Ints,
    sizes: NDArray[np.int32],
    stream: NDArray[np.int32],
    taken: Bytes,
    table: NDArray[Any],
    target: Bytes,
    numbers: Ints,
    files: NDArray[np.int32],
    cut: Bytes,
) -> None:
    """Copy the payloads that are next in line behind each other, stream by stream.

    The record of a stream says where its next bytes and its next piece go.
    """
    for i in range(count):
        if not taken[i]:
            continue
        found = table[U(stream[i])]
        size = S(sizes[PAYLOAD_BYTES, i])
        _copy(data, places[PAYLOAD, i], size, target, found.cursor)
        k = U(found.piece)
        numbers[START, k] = found.cursor
        numbers[TIME, k] = wide[TS, i]
        numbers[PLACE, k] = base + places[PAYLOAD, i]
        numbers[ARRIVAL, k] = before + i
        files[k] = file
        cut[k] = 0
        found.cursor += size
        found.piece += 1


@kernel
def move(
    start: Ints,
    stop: Ints,
    first: Ints,
    last: Ints,
    to: Ints,
    to_piece: Ints,
    source: Bytes,
    numbers: Ints,
    files: NDArray[np.int32],
    cut: Bytes,
    target: Bytes,
    to_numbers: Ints,
    to_files: NDArray[np.int32],
    to_cut: Bytes,
) -> None:
    """Copy ranges of bytes, `start` to `stop`, and their pieces, `first` to `last`."""
    for r in range(len(start)):
        _copy(source, start[r], stop[r] - start[r], target, to[r])
        for k in range(first[r], last[r]):
            i = U(k)
            j = U(to_piece[r] + k - first[r])
            skipped = max(0, start[r] - numbers[START, i])
            to_numbers[START, j] = to[r] + numbers[START, i] + skipped - start[r]
            to_numbers[TIME, j] = numbers[TIME, i]
            to_numbers[PLACE, j] = numbers[PLACE, i] + skipped
            to_numbers[ARRIVAL, j] = numbers[ARRIVAL, i]
            to_files[j] = files[i]
            to_cut[j] = 1 if skipped else cut[i]


@kernel
def copy_bytes(source: Bytes, start: Ints, size: Ints, target: Bytes, to: Ints) -> None:
    """Copy ranges of bytes."""
    for r in range(len(start)):
        _copy(source, start[r], size[r], target, to[r])


# When bytes could be delivered: with which packet, and in which order.


@dataclass(frozen=True)
class Delivered:
    """Of each piece: the packet with which it could be delivered, by number, and when that was."""

    arrival: Ints
    ts_ns: Ints


def delivered(pieces: Pieces, run_starts: Ints) -> Delivered:
    """The last packet of each run so far. Pieces and runs are in the order of the buffer."""
    count = pieces.numbers.shape[1]
    found = Delivered(np.empty(count, np.int64), np.empty(count, np.int64))
    _delivered(pieces.numbers, run_starts, found.arrival, found.ts_ns)
    return found


@kernel
def _delivered(numbers: Any, run_starts: Any, arrival: Any, ts_ns: Any) -> Any:
    run = 0
    latest = np.int64(-1)
    when = np.int64(0)
    for k in range(U(numbers.shape[1])):
        while run < len(run_starts) and run_starts[U(run)] <= numbers[START, k]:
            run += 1
            latest = np.int64(-1)
        if numbers[ARRIVAL, k] > latest:
            latest = numbers[ARRIVAL, k]
            when = numbers[TIME, k]
        arrival[k] = latest
        ts_ns[k] = when


def pieces_in_order(pieces: Pieces, positions: Ints) -> Ints:
    """The pieces that hold ascending places of the buffer."""
    found = np.empty(len(positions), np.int64)
    _pieces_in_order(pieces.numbers, positions, found)
    return found


@kernel
def _pieces_in_order(numbers: Any, positions: Any, found: Any) -> Any:
    count = numbers.shape[1]
    at = 0
    for i in range(U(positions.shape[0])):
        while at + 1 < count and numbers[START, U(at + 1)] <= positions[i]:
            at += 1
        found[i] = at


def order(arrival: Ints) -> NDArray[np.int64]:
    """The slices in the order in which they were completed; of one packet, as they stand."""
    if not len(arrival):
        return np.empty(0, np.int64)
    low, high = int(arrival.min()), int(arrival.max())
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


# Bytes kept from one window to the next: unfinished frames at the ends of streams.


class CarryState(msgspec.Struct, frozen=True):
    """A `Carry` as it is saved: one row for each stream that has an unfinished frame."""

    stream: NDArray[np.int64]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    data: bytes
    numbers: NDArray[np.int64]
    """The four rows of `Pieces.numbers`, one after the other."""
    file: NDArray[np.int32]
    cut: NDArray[np.uint8]

    def check(self, streams: int) -> None:
        """Raise StateError when a range is outside of the bytes or of the pieces."""
        rows, pieces = len(self.stream), len(self.file)
        ranges = self.start, self.stop, self.first, self.last
        check({rows} == {len(each) for each in ranges}, "carry")
        check(len(self.cut) == pieces and len(self.numbers) == 4 * pieces, "carry")
        check(np.all((self.stream >= 0) & (self.stream < streams)), "carry")
        for first, last, size in ((*ranges[:2], len(self.data)), (*ranges[2:], pieces)):
            check(np.all((first >= 0) & (first <= last) & (last <= size)), "carry")


class Carry:
    """The kept bytes of all streams."""

    def __init__(self) -> None:
        self.stream = np.empty(0, np.int32)
        self.start = np.empty(0, np.int64)
        self.stop = np.empty(0, np.int64)
        self.first = np.empty(0, np.int64)
        self.last = np.empty(0, np.int64)
        """Of each row: its stream, its bytes and its pieces, as ranges in those below."""
        self.data = readonly(b"")
        self.pieces = Pieces.room(0)

    def lift(
        self, rows: Ints, to: Ints, to_piece: Ints, target: NDArray[np.uint8], pieces: Pieces
    ) -> None:
        """Copy rows into the bytes and pieces of a window."""
        _move(self, rows, to, to_piece, target, pieces)

    def since_ns(self, row: int, otherwise: int) -> int:
        """Return when the first bytes of a row came; `otherwise` for row -1."""
        return otherwise if row < 0 else int(self.pieces.numbers[TIME, self.first[row]])

    def files(self) -> set[int]:
        """Return the numbers of the files that it refers to."""
        return set(np.unique(self.pieces.file).tolist())

    def renamed(self, numbers: Ints) -> CarryState:
        """Return the rows with other stream numbers, to be saved."""
        return CarryState(
            numbers[self.stream],
            self.start,
            self.stop,
            self.first,
            self.last,
            self.data.tobytes(),
            self.pieces.numbers.ravel(),
            self.pieces.file,
            self.pieces.cut,
        )

    def renewed(
        self,
        table: NDArray[Any],
        stream: NDArray[np.int32],
        start: Ints,
        stop: Ints,
        data: NDArray[np.uint8],
        pieces: Pieces,
    ) -> Carry:
        """Return the carry of the next window: rows that were not lifted, and these bytes.

        The records of streams in `table` say which row is theirs, before and after.
        """
        left = np.flatnonzero(table["carry"][self.stream] == np.arange(len(self.stream)))
        kept = Carry()
        kept.stream, kept.start, kept.stop = stream, start, stop
        kept.data, kept.pieces = data, pieces
        begins = pieces.numbers[START]
        kept.first = np.searchsorted(begins, start, "right") - 1
        kept.last = np.searchsorted(begins, stop, "left")
        return joined(table, (self, left), (kept, np.arange(len(stream))))


def joined(table: NDArray[Any], *parts: tuple[Carry, Ints]) -> Carry:
    """Join rows of several carries; `table` gets the row number of each stream."""
    new = Carry()
    new.stream = np.concatenate([carry.stream[rows] for carry, rows in parts])
    sizes = np.concatenate([carry.stop[rows] - carry.start[rows] for carry, rows in parts])
    counts = np.concatenate([carry.last[rows] - carry.first[rows] for carry, rows in parts])
    new.stop = np.cumsum(sizes)
    new.start = new.stop - sizes
    new.last = np.cumsum(counts)
    new.first = new.last - counts
    target = np.empty(int(sizes.sum()), np.uint8)
    new.pieces = Pieces.room(int(counts.sum()))
    at = 0
    for carry, rows in parts:
        stop = at + len(rows)
        _move(carry, rows, new.start[at:stop], new.first[at:stop], target, new.pieces)
        at = stop
    new.data = readonly(target)
    table["carry"][new.stream] = np.arange(len(new.stream))
    return new


def _move(
    carry: Carry,
    rows: Ints,
    to: Ints,
    to_piece: Ints,
    target: NDArray[np.uint8],
    pieces: Pieces,
) -> None:
    source = carry.pieces
    move(
        carry.start[rows],
        carry.stop[rows],
        carry.first[rows],
        carry.last[rows],
        to,
        to_piece,
        carry.data,
        source.numbers,
        source.file,
        source.cut,
        target,
        pieces.numbers,
        pieces.file,
        pieces.cut,
    )
