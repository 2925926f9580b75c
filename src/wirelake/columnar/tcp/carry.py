"""Bytes kept from one window to the next: unfinished frames at the ends of streams.

One row for each stream that has some. A row is lifted into a window when its stream goes on there,
and stays where it is when it does not.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..jit.options import readonly
from ..state_format import check
from .pieces import START, TIME, Pieces, move

__all__ = ["Carry", "CarryState", "joined"]

Ints = NDArray[np.int64]


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
