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

from ..jit.options import Int, S, U, inline, kernel
from ..scan.blocks import TS
from ..scan.headers import PAYLOAD, PAYLOAD_BYTES

__all__ = [
    "ARRIVAL",
    "PLACE",
    "START",
    "TIME",
    "Delivered",
    "Pieces",
    "copy_bytes",
    "delivered",
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
