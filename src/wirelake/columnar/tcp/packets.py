"""The packets of a window, as columns; and the last bytes of payloads, for assemblers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..jit.options import Int, S, U, inline, kernel
from ..scan import blocks
from ..scan import headers as s
from ..scan.headers import PAYLOAD, PAYLOAD_BYTES
from ..scan.scanner import Rows
from .stream_order import follow_run

__all__ = [
    "Fed",
    "Packets",
    "tail",
    "tail_before",
]


Bytes = NDArray[np.uint8]


@kernel
def tail(
    packets: NDArray[np.int64],
    data: Bytes,
    places: NDArray[np.int64],
    sizes: NDArray[np.int32],
    target: Bytes,
) -> int:
    """Fill `target` from its end with payloads, the last one last: gives where they begin."""
    left = len(target)
    k = len(packets) - 1
    while k >= 0 and left > 0:
        left = _prepend(packets[U(k)], data, places, sizes, target, left)
        k -= 1
    return left


@kernel
def tail_before(
    packet: int,
    earlier: NDArray[np.int32],
    data: Bytes,
    places: NDArray[np.int64],
    sizes: NDArray[np.int32],
    target: Bytes,
) -> int:
    """As `tail`, of a packet and of those that `earlier` links to it."""
    left = len(target)
    i = packet
    while i >= 0 and left > 0:
        left = _prepend(i, data, places, sizes, target, left)
        i = S(earlier[U(i)])
    return left


@inline
def _prepend(
    i: Int,
    data: Bytes,
    places: NDArray[np.int64],
    sizes: NDArray[np.int32],
    target: Bytes,
    left: Int,
) -> Int:
    size = S(sizes[PAYLOAD_BYTES, U(i)])
    stop = places[PAYLOAD, U(i)] + size
    size = min(size, left)
    left -= size
    for k in range(U(size)):
        target[U(left) + k] = data[U(stop - size) + k]
    return left


# The packets of a window: their rows, their headers, and where each belongs.


class Fed(NamedTuple):
    """A segment, as an assembler takes it."""

    arrival: int
    arguments: tuple[int, bytes, int, int, int, int, int]


class Packets:
    """The packets of a window, in columns."""

    def __init__(self, rows: Rows, *, file: int, before: int):
        count = rows.count
        self.count = count
        self.file = file
        """Number of the file."""
        self.before = before
        """Packets that came earlier, in all files."""
        self.data = rows.data
        self.base = rows.base
        self.wide = rows.wide
        self.narrow = rows.narrow
        self.marks = rows.marks
        self.places = np.empty((2, count), np.int64)
        self.sizes = np.empty((3, count), np.int32)
        self.numbers = np.empty((2, count), np.uint32)
        self.octets = np.empty((3, count), np.uint8)
        self.addresses = np.empty((4, count), np.uint64)
        self.connection = np.empty(count, np.int64)
        self.direction = np.empty(count, np.uint8)
        self.stream = np.empty(count, np.int32)
        self.taken = np.empty(count, np.uint8)
        """Whether the payload was next in its stream."""
        self.earlier = np.empty(count, np.int32)
        """Of a stream that is held: the packet with payload before this one, or -1."""
        s.extract(
            self.data,
            count,
            self.wide,
            self.narrow,
            self.places,
            self.sizes,
            self.numbers,
            self.octets,
            self.addresses,
        )

    def segment(self, i: int) -> Fed:
        """A packet, for an assembler."""
        return Fed(
            self.before + i,
            (
                int(self.numbers[s.SEQ, i]),
                self.payload(i),
                int(self.wide[blocks.TS, i]),
                self.base + int(self.places[s.PAYLOAD, i]),
                int(self.octets[s.FLAGS, i]),
                int(self.places[s.MISSING, i]),
                self.file,
            ),
        )

    def payload(self, i: int) -> bytes:
        """The payload of a packet."""
        start = int(self.places[s.PAYLOAD, i])
        return self.data[start : start + int(self.sizes[s.PAYLOAD_BYTES, i])].tobytes()

    def follow_run(
        self, table: NDArray[Any], number: int, mine: NDArray[np.int64], first: int
    ) -> int:
        """Return how far a stream's packets are in order; see `stream_order.follow_run`."""
        return follow_run(
            mine, first, self.places, self.sizes, self.numbers, self.octets, table, number
        )

    def tail(self, mine: NDArray[np.int64], size: int) -> bytes:
        """The last `size` bytes of the payloads of these packets, or all of them."""
        target = np.empty(size, np.uint8)
        start = tail(mine, self.data, self.places, self.sizes, target)
        return target[start:].tobytes()

    def tail_before(self, i: int, size: int) -> bytes:
        """As `tail`, of a packet and those before it in its stream, which is held."""
        target = np.empty(size, np.uint8)
        start = tail_before(i, self.earlier, self.data, self.places, self.sizes, target)
        return target[start:].tobytes()
