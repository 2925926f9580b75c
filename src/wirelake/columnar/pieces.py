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

import numpy as np
from numpy.typing import NDArray

from .blocks import TS
from .numba_options import Int, S, U, inline, kernel
from .segments import PAYLOAD, PAYLOAD_BYTES

__all__ = ["ARRIVAL", "PLACE", "START", "TIME", "Pieces", "copy_bytes", "move", "place"]

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
