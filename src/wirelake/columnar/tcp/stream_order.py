"""Kernels that follow TCP streams while their segments arrive in order (captures.md, Streams).

The rules are those of `wirelake.capture.tcp.assembly.StreamAssembler` for segments in order. Then a
stream needs only its next sequence number: no buffer, no comparison with earlier bytes. At the
first segment that is not in order, all further segments of that stream in the window are left to
the assembler (`reassembly.py`).

Two passes: this one decides which payloads are next and counts their bytes per stream, the second
(`pieces.copy_in_order`) copies them. Only after the first is it known how many bytes each stream
has, and the bytes of a stream must be contiguous for the decoding kernels.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wirelake.capture.tcp.assembly import FIN, RST, SYN

from ..jit.options import Int, S, U, inline, kernel, record
from ..scan.blocks import MARK_CONTINUES, MARK_RECORDED, TS
from ..scan.headers import FLAGS, MISSING, PAYLOAD_BYTES, SEQ

__all__ = [
    "CLOSED",
    "ENDINGS",
    "END_REPORTED",
    "EVICTED",
    "FINISHED",
    "HAS_ASSEMBLER",
    "IGNORED",
    "IN_ASSEMBLER",
    "JOINED",
    "OPEN",
    "REPLACED",
    "RESET",
    "STARTED",
    "STREAM",
    "WAS_RESET",
    "follow_run",
    "follow_streams",
    "load_stream",
    "store_stream",
]

STREAM: Final = record(
    [
        ("connection", "i8"),
        ("first_ns", "i8"),
        ("last_ns", "i8"),
        ("packets", "i8"),
        ("payload", "i8"),
        ("new", "i8"),
        ("duplicate", "i8"),
        ("gap", "i8"),
        ("ignored", "i8"),
        ("position", "i8"),
        ("window_bytes", "i8"),
        ("next_byte", "i8"),
        ("next_piece", "i8"),
        ("next_seq", "u4"),
        ("file", "i4"),
        ("window", "i4"),
        ("window_pieces", "i4"),
        ("last_packet", "i4"),
        ("carry_row", "i4"),
        ("state", "u1"),
        ("direction", "u1"),
        ("ending", "u1"),
        ("out_of_order", "u1"),
    ],
)
"""A stream: its counters; `position` and `next_seq` of the next byte; its row in the carry, or -1;
how it ended. And for the window with the number `window`: its new bytes and pieces, where the next
of them are copied to, its last packet with payload (if it has an assembler), and whether it has a
segment out of order.

The fields of a window are reset when a stream is first seen in a window, not all of them when a
window begins: of up to 262,144 connections, a window has packets of few."""

STARTED: Final = 1
FINISHED: Final = 2
WAS_RESET: Final = 4
IN_ASSEMBLER: Final = 8
HAS_ASSEMBLER: Final = 16
IGNORED: Final = 32
END_REPORTED: Final = 64
JOINED: Final = 128
"""Bits of `state`: the first sequence number is known; FIN was reached; the stream was reset;
segments wait in its assembler, which gets every segment; it has an assembler, which needs the last
delivered bytes; its bytes are ignored; its end was reported; its first byte may be inside of a
frame, because its beginning was not captured.
"""

ENDINGS: Final = ("", "closed", "reset", "expired", "replaced", "evicted", "open")
"""How a stream ended, by the code in `ending`. "open": it was still open at the end of the last
file."""
CLOSED, RESET, EXPIRED, REPLACED, EVICTED, OPEN = range(1, 7)
"""Values of `ending`."""

_NOTHING, _DATA, _DISORDER = range(3)

N_ACTIVE, N_ENDING, N_DISORDERED = range(3)
"""Indices of `counts`: the lengths of the lists that `follow_streams` fills."""

Table = NDArray[Any]


@kernel
def follow_streams(
    count: int,
    window: int,
    file: int,
    packet_i64: NDArray[np.int64],
    marks: NDArray[np.uint8],
    header_i64: NDArray[np.int64],
    header_i32: NDArray[np.int32],
    header_u32: NDArray[np.uint32],
    header_u8: NDArray[np.uint8],
    connection: NDArray[np.int64],
    stream: NDArray[np.int32],
    table: Table,
    in_order: NDArray[np.uint8],
    previous: NDArray[np.int32],
    active: NDArray[np.int32],
    ending: NDArray[np.int32],
    disordered: NDArray[np.int32],
    counts: NDArray[np.int64],
) -> None:
    """Follow all streams through the packets of a window.

    `in_order` marks the packets whose payload is next in its stream. `previous` links the packets
    of a stream with an assembler backwards. `active` gets the streams that changed, `ending` those
    that ended, `disordered` the packets that are out of order, and those after them in the stream.
    """
    for i in range(count):
        in_order[i] = 0
        number = S(stream[i])
        if number < 0:
            continue
        found = table[U(number)]
        payload = S(header_i32[PAYLOAD_BYTES, i])
        # The slot may have been used by another connection before; `Tracker.recycle` has cleared
        # it.
        if found.packets == 0:
            found.connection = connection[i]
            found.direction = number & 1
            found.first_ns = packet_i64[TS, i]
            found.file = file
            found.carry_row = -1
        found.packets += 1
        found.last_ns = packet_i64[TS, i]
        found.payload += payload
        # After a RST of either direction all payload is ignored. Until the end of the window in
        # which it came, `ending` of the other direction says so: it is not ended before that.
        if found.ending == RESET or found.state & WAS_RESET:
            found.new += payload
            found.ignored += payload
            continue
        if header_u8[FLAGS, i] & RST:
            table[U(number ^ 1)].ending = RESET
        # From the first segment out of order on, the rest of the window goes to the assembler: it
        # alone knows the position after it.
        if found.window == window and found.out_of_order:
            disordered[U(counts[N_DISORDERED])] = i
            counts[N_DISORDERED] += 1
            continue
        was = found.state
        step = _advance(
            found, header_u32[SEQ, i], header_u8[FLAGS, i], payload, header_i64[MISSING, i]
        )
        if step == _NOTHING and found.state == was:
            continue
        # A recorder's packet begins with a frame, unless it is marked.
        if (
            found.state & STARTED > was & STARTED
            and not header_u8[FLAGS, i] & SYN
            and marks[i] & (MARK_RECORDED | MARK_CONTINUES) != MARK_RECORDED
        ):
            found.state |= JOINED
        # First activity of the stream in this window: its window fields are those of an older one.
        if found.window != window:
            found.window = window
            found.window_bytes = 0
            found.window_pieces = 0
            found.last_packet = -1
            found.out_of_order = 0
            active[U(counts[N_ACTIVE])] = number
            counts[N_ACTIVE] += 1
        if step == _DATA:
            # An assembler compares retransmissions with the last 64 KiB, which the kernel does not
            # keep. It only links the packets; the bytes are fetched if a segment needs them.
            if found.state & HAS_ASSEMBLER:
                previous[i] = found.last_packet
                found.last_packet = i
            if found.state & IGNORED:
                found.ignored += payload
            else:
                in_order[i] = 1
                found.window_bytes += payload
                found.window_pieces += 1
        elif step == _DISORDER:
            found.out_of_order = 1
            disordered[U(counts[N_DISORDERED])] = i
            counts[N_DISORDERED] += 1
        if found.state & (FINISHED | WAS_RESET) and not found.state & END_REPORTED:
            found.state |= END_REPORTED
            found.ending = RESET if found.state & WAS_RESET else CLOSED
            ending[U(counts[N_ENDING])] = number
            counts[N_ENDING] += 1


@kernel
def follow_run(
    packets: NDArray[np.int64],
    first: int,
    header_i64: NDArray[np.int64],
    header_i32: NDArray[np.int32],
    header_u32: NDArray[np.uint32],
    header_u8: NDArray[np.uint8],
    table: Table,
    number: int,
) -> int:
    """Follow one stream through its packets while they are in order; return where that stops."""
    found = table[U(number)]
    for k in range(first, len(packets)):
        i = U(packets[k])
        payload = S(header_i32[PAYLOAD_BYTES, i])
        step = _advance(
            found, header_u32[SEQ, i], header_u8[FLAGS, i], payload, header_i64[MISSING, i]
        )
        if step == _DISORDER:
            return k
    return len(packets)


@kernel
def load_stream(table: Table, number: int, values: NDArray[np.int64]) -> None:
    """Copy the fields of a stream that an assembler needs into an array.

    One kernel call and one `tolist` instead of eight accesses to a NumPy record from Python.
    """
    found = table[U(number)]
    values[0] = found.position
    values[1] = found.next_seq
    values[2] = found.new
    values[3] = found.duplicate
    values[4] = found.gap
    values[5] = found.ignored
    values[6] = found.state
    values[7] = found.last_packet


@kernel
def store_stream(table: Table, number: int, values: NDArray[np.int64]) -> None:
    """Write the fields that `load_stream` reads."""
    found = table[U(number)]
    found.position = values[0]
    found.next_seq = values[1]
    found.new = values[2]
    found.duplicate = values[3]
    found.gap = values[4]
    found.ignored = values[5]
    found.state = values[6]
    found.last_packet = values[7]


@inline
def _advance(found: Any, seq: Int, flags: Int, payload: Int, missing: Int) -> Int:
    """Advance a stream by a segment, if it is in order.

    A segment that is out of order changes nothing but the first sequence number.
    """
    # Every segment may fill the hole, so the kernel must not decide anything.
    if found.state & IN_ASSEMBLER:
        return _DISORDER
    # Payload of a RST, and everything after it, is new but ignored, so that payload = new +
    # duplicate holds for every segment.
    if found.state & WAS_RESET or flags & RST:
        found.state |= WAS_RESET
        found.new += payload
        found.ignored += payload
        return _NOTHING
    # SYN counts as one byte. Sequence numbers wrap at 2^32; only equality is tested here, so no
    # distance is needed. `position` counts from 0 and does not wrap.
    at = (S(seq) + 1) & 0xFFFFFFFF if flags & SYN else S(seq)
    empty = payload == 0 and missing == 0
    if not found.state & STARTED:
        if empty and not flags & (SYN | FIN):
            return _NOTHING  # a bare ACK: its sequence number may be that of a keep-alive
        found.next_seq = at
        found.state |= STARTED
    # An empty segment without FIN changes nothing. Bare ACKs are frequent, so this comes early.
    if empty and (found.state & FINISHED or not flags & FIN):
        return _NOTHING
    # `missing`: the snap length cut the packet, so the stream has a hole after it.
    if missing or found.state & FINISHED or at != found.next_seq:
        return _DISORDER
    # The cast wraps modulo 2^32, as sequence numbers do.
    found.next_seq = np.uint32(at + payload)
    found.position += payload
    found.new += payload
    if flags & FIN:
        found.state |= FINISHED
    return _DATA if payload else _NOTHING
