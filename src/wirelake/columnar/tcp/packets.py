"""`Packets`: the packets of a window as columns, and kernels that read them in Python's place."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wirelake.capture.tcp.assembly import OVERDUE_NS, WAITING_NS

from ..jit.options import Int, S, U, inline, kernel
from ..scan import blocks, headers
from ..scan.headers import PAYLOAD, PAYLOAD_BYTES
from ..scan.scanner import PacketRows
from .stream_order import follow_run

__all__ = [
    "AssemblerInput",
    "Packets",
    "advance_clock",
    "tail",
    "tail_before",
]

Bytes = NDArray[np.uint8]


class AssemblerInput(NamedTuple):
    """A segment as the arguments of `StreamAssembler.feed`, and its number among all packets."""

    arrival: int
    arguments: tuple[int, bytes, int, int, int, int, int]


class Packets:
    """The packets of a window: rows of the file, parsed headers, and assigned streams.

    Arrays are named by their dtype, as in `scan/blocks.py` and `scan/headers.py`.
    """

    def __init__(self, rows: PacketRows, *, file: int, before: int):
        count = rows.count
        self.count = count
        self.file = file
        """Number of the file."""
        self.before = before
        """Number of packets in earlier windows, of all files."""
        self.data = rows.data
        self.base = rows.base
        self.packet_i64 = rows.packet_i64
        self.packet_i32 = rows.packet_i32
        self.marks = rows.marks
        self.header_i64 = np.empty((2, count), np.int64)
        self.header_i32 = np.empty((3, count), np.int32)
        self.header_u32 = np.empty((2, count), np.uint32)
        self.header_u8 = np.empty((3, count), np.uint8)
        self.addresses = np.empty((4, count), np.uint64)
        self.connection = np.empty(count, np.int64)
        self.direction = np.empty(count, np.uint8)
        self.stream = np.empty(count, np.int32)
        self.in_order = np.empty(count, np.uint8)
        """Whether the payload was next in its stream."""
        self.reached_ns = np.empty(count, np.int64)
        """The time that the capture has reached with each packet; see `SourceClock`."""
        self.previous = np.empty(count, np.int32)
        """For streams with an assembler: the packet with payload before this one, or -1."""
        headers.extract(
            self.data,
            count,
            self.packet_i64,
            self.packet_i32,
            self.header_i64,
            self.header_i32,
            self.header_u32,
            self.header_u8,
            self.addresses,
        )

    @functools.cached_property
    def _peaks(self) -> NDArray[np.intp]:
        """The packets after which the time that the capture has reached goes back."""
        return np.flatnonzero(self.reached_ns[1:] < self.reached_ns[:-1])

    def overdue_ns(self, after: int, until: int) -> int:
        """Return the latest `SourceClock.overdue_ns` behind one packet, up to another."""
        # The latest time of a range is at one of its peaks or at its end. Peaks are rare, and this
        # is asked for every hole: a maximum over all packets would be a pass for each.
        first, stop = np.searchsorted(self._peaks, [after + 1, until])
        latest = self.reached_ns[[*self._peaks[first:stop], until]].max()
        return int(latest) - OVERDUE_NS

    def first_overdue(self, after: int, until: int, since_ns: int) -> int | None:
        """Return the first packet behind one, up to another, with which a hole is overdue."""
        if self.overdue_ns(after, until) - since_ns < WAITING_NS:
            return None
        reached_ns = self.reached_ns[after + 1 : until + 1]
        return after + 1 + int(np.argmax(reached_ns - OVERDUE_NS - since_ns >= WAITING_NS))

    def segment(self, i: int) -> AssemblerInput:
        """Return a packet as input of an assembler."""
        return AssemblerInput(
            self.before + i,
            (
                int(self.header_u32[headers.SEQ, i]),
                self.payload(i),
                int(self.packet_i64[blocks.TS, i]),
                self.base + int(self.header_i64[headers.PAYLOAD, i]),
                int(self.header_u8[headers.FLAGS, i]),
                int(self.header_i64[headers.MISSING, i]),
                self.file,
            ),
        )

    def payload(self, i: int) -> bytes:
        """Return the payload of a packet."""
        start = int(self.header_i64[headers.PAYLOAD, i])
        return self.data[start : start + int(self.header_i32[headers.PAYLOAD_BYTES, i])].tobytes()

    def follow_run(
        self, table: NDArray[Any], number: int, indices: NDArray[np.int64], first: int
    ) -> int:
        """Return how far a stream's packets are in order; see `stream_order.follow_run`."""
        return follow_run(
            indices,
            first,
            self.header_i64,
            self.header_i32,
            self.header_u32,
            self.header_u8,
            table,
            number,
        )

    def tail(self, indices: NDArray[np.int64], size: int) -> bytes:
        """Return the last `size` bytes of the payloads of these packets, or all of them."""
        target = np.empty(size, np.uint8)
        # A buffer of the maximum size, filled from the end: the payloads are not measured first.
        start = tail(indices, self.data, self.header_i64, self.header_i32, target)
        return target[start:].tobytes()

    def tail_before(self, i: int, size: int) -> bytes:
        """As `tail`, for a packet and those before it in its stream, which has an assembler."""
        target = np.empty(size, np.uint8)
        start = tail_before(i, self.previous, self.data, self.header_i64, self.header_i32, target)
        return target[start:].tobytes()


# -- the time that the capture has reached -------------------------------------------------------


@kernel
def advance_clock(
    ts_ns: NDArray[np.int64], now_ns: int, last_ns: int, reached_ns: NDArray[np.int64]
) -> None:
    """Fill `reached_ns` with what `SourceClock.advance` returns for each packet."""
    now, last = now_ns, last_ns
    for i in range(len(ts_ns)):
        later = max(ts_ns[i], last)
        now = later if now - later > OVERDUE_NS else max(now, min(ts_ns[i], last))
        last = ts_ns[i]
        reached_ns[i] = now


# -- the last bytes of a stream, for assemblers --------------------------------------------------


@kernel
def tail(
    packets: NDArray[np.int64],
    data: Bytes,
    header_i64: NDArray[np.int64],
    header_i32: NDArray[np.int32],
    target: Bytes,
) -> int:
    """Fill `target` from its end with payloads, the last one last; return where they begin.

    From the end, because a run may be much longer than the 64 KiB that an assembler compares with.
    """
    left = len(target)
    k = len(packets) - 1
    while k >= 0 and left > 0:
        left = _prepend(packets[U(k)], data, header_i64, header_i32, target, left)
        k -= 1
    return left


@kernel
def tail_before(
    packet: int,
    previous: NDArray[np.int32],
    data: Bytes,
    header_i64: NDArray[np.int64],
    header_i32: NDArray[np.int32],
    target: Bytes,
) -> int:
    """As `tail`, for a packet and those that `previous` links to it."""
    left = len(target)
    i = packet
    while i >= 0 and left > 0:
        left = _prepend(i, data, header_i64, header_i32, target, left)
        i = S(previous[U(i)])
    return left


@inline
def _prepend(
    i: Int,
    data: Bytes,
    header_i64: NDArray[np.int64],
    header_i32: NDArray[np.int32],
    target: Bytes,
    left: Int,
) -> Int:
    size = S(header_i32[PAYLOAD_BYTES, U(i)])
    stop = header_i64[PAYLOAD, U(i)] + size
    size = min(size, left)
    left -= size
    for k in range(U(size)):
        target[U(left) + k] = data[U(stop - size) + k]
    return left
