"""Kernels that walk the blocks of pcap and pcapng files and write one row for each packet.

The kernels handle the frequent cases: records of pcap, packet blocks of pcapng in either byte
order, the recorder's options. They skip blocks that carry nothing for us, list those that Python
decodes (facts, secrets), and stop at everything else: a section, an interface, a block that is
incomplete or has a bad length. There `scanner.py` continues with the functions of
`wirelake.capture.format`, so the rules for damage exist only once (captures.md, Files).

Rows go into arrays that the caller passes, one for each dtype:

    packet_i64[TS | OFFSET | DATA | CAPTURED | ORIGINAL | RECORDED]   int64
    packet_i32[INTERFACE | LINK]                                      int32
    marks                                                             uint8, bits MARK_*

`InterfaceTable` holds the interfaces of the current section in the form the kernels read.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from wirelake.capture.format import constants as fmt
from wirelake.capture.format.items import Interface

from ..jit.intrinsics import be32, le32, le64, u8, u16, u32
from ..jit.options import Int, U, inline, kernel

__all__ = [
    "ARRAYS_FULL",
    "AT_STOP",
    "BAD_LENGTH",
    "CAPTURED",
    "CLOCK_BINARY",
    "CLOCK_DIVIDE",
    "CLOCK_MULTIPLY",
    "DATA",
    "INCOMPLETE",
    "INTERFACE",
    "INTERFACE_COLUMNS",
    "LINK",
    "MARK_C2S",
    "MARK_CONTINUES",
    "MARK_RECORDED",
    "MARK_S2C",
    "MARK_UNFINISHED",
    "OFFSET",
    "ORIGINAL",
    "RECORDED",
    "TS",
    "UNHANDLED",
    "InterfaceTable",
    "scan_pcap",
    "scan_pcapng",
]


TS, OFFSET, DATA, CAPTURED, ORIGINAL, RECORDED = range(6)
"""Rows of `packet_i64`: time in ns, offset of the block in the file, offset of the data in the
buffer, captured bytes, bytes on the wire, the recorder's connection id (0: none)."""
INTERFACE, LINK = range(2)
"""Rows of `packet_i32`: number of the interface, its link type."""

MARK_C2S: Final = 1
MARK_S2C: Final = 2
MARK_CONTINUES: Final = 4
MARK_UNFINISHED: Final = 8
MARK_RECORDED: Final = 16
"""Bits of `marks`. MARK_RECORDED: the packet has the recorder's option; the other bits come from
that option and from epb_flags."""

AT_STOP, ARRAYS_FULL, INCOMPLETE, BAD_LENGTH, UNHANDLED = range(5)
"""Why a kernel stopped: it reached `stop`; an output array is full; the buffer ends inside a block;
a length is wrong; the block is complete but Python has to decode it."""

CLOCK_MULTIPLY, CLOCK_DIVIDE, CLOCK_BINARY = range(3)
"""How ticks of an interface become ns: multiplied by a factor, divided by one, or shifted because
a second has a power of two of ticks."""
IF_LINK, IF_SNAP, IF_CLOCK, IF_FACTOR, IF_MAX_TICKS, IF_OFFSET_NS = range(6)
"""Columns of the interface table: link type, snap length, clock conversion and its factor (or
power of two), the largest tick count that converts without overflow, ns to add (if_tsoffset)."""
INTERFACE_COLUMNS: Final = 6
"""Number of columns of the interface table."""

# As module globals, which are compile-time constants to Numba.
_EPB: Final = fmt.BLOCK_EPB
_SPB: Final = fmt.BLOCK_SPB
_OBSOLETE: Final = fmt.BLOCK_PACKET
_SHB: Final = fmt.BLOCK_SHB
_IDB: Final = fmt.BLOCK_IDB
_SECRETS: Final = fmt.BLOCK_SECRETS
_CUSTOM: Final = fmt.BLOCK_CUSTOM
_ORDER_MAGIC: Final = fmt.BYTE_ORDER_MAGIC
_PEN: Final = fmt.PEN
_OPTION_END: Final = fmt.OPTION_END
_OPTION_FLAGS: Final = fmt.OPTION_FLAGS
_OPTION_MARK: Final = fmt.OPTION_CUSTOM_BINARY
_MARK_PREFIX: Final = int.from_bytes(fmt.MARK_MAGIC + bytes([fmt.MARK_VERSION]), "little")
_RECORD: Final = fmt.PCAP_RECORD_SIZE
_FACT_MAGIC: Final = int.from_bytes(fmt.FACT_MAGIC, "little")
_FACT_JSON_AT: Final = 16
"""Offset of a fact's JSON in its block."""
_OPEN_BYTES: Final = int.from_bytes(b"open", "little")
_BACKSLASH: Final = ord("\\")

Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]


@kernel
def scan_pcap(
    data: Bytes,
    base: int,
    start: int,
    stop: int,
    big_endian: bool,
    tick_ns: int,
    link: int,
    limit: int,
    packet_i64: Int64s,
    packet_i32: Int32s,
    marks: Bytes,
    count: int,
) -> tuple[int, int, int]:
    """Read pcap records until one begins at or after `stop`.

    Returns the position reached, the number of packets, and why it stopped.
    """
    at = start
    end = len(data)
    while at < stop:
        # The capacity is checked here, once for each packet, because kernels are compiled without
        # bounds checks: a write behind the array would go unnoticed.
        if count >= packet_i64.shape[1]:
            return at, count, ARRAYS_FULL
        if end - at < _RECORD:
            return at, count, INCOMPLETE
        captured = u32(data, at + 8, big_endian)
        # Checked before "incomplete": a bad length must not make the scanner wait for 4 GiB.
        if captured > limit:
            return at, count, BAD_LENGTH
        if captured > end - at - _RECORD:
            return at, count, INCOMPLETE
        i = U(count)
        packet_i64[TS, i] = (
            u32(data, at, big_endian) * 1_000_000_000 + u32(data, at + 4, big_endian) * tick_ns
        )
        packet_i64[OFFSET, i] = base + at
        packet_i64[DATA, i] = at + _RECORD
        packet_i64[CAPTURED, i] = captured
        packet_i64[ORIGINAL, i] = u32(data, at + 12, big_endian)
        packet_i64[RECORDED, i] = 0
        packet_i32[INTERFACE, i] = 0
        packet_i32[LINK, i] = link
        marks[i] = 0
        count += 1
        at += _RECORD + captured
    return at, count, AT_STOP


@kernel
def scan_pcapng(
    data: Bytes,
    base: int,
    start: int,
    stop: int,
    big_endian: bool,
    with_facts: bool,
    interfaces: Int64s,
    limit: int,
    packet_i64: Int64s,
    packet_i32: Int32s,
    marks: Bytes,
    count: int,
    other_blocks: Int64s,
) -> tuple[int, int, int, int]:
    """Read pcapng blocks until one begins at or after `stop`.

    Returns the position reached, the numbers of packets and of other blocks, and why it stopped.
    `other_blocks` gets position, number of the next packet, and size of each block that Python has
    to decode but that does not affect the blocks after it. Without `with_facts`, custom blocks are
    skipped unless they may be an `open` fact, which names the protocol of a connection.
    """
    at = start
    end = len(data)
    n_other = 0
    while at < stop:
        # As in `scan_pcap`: without this test the writes below would leave their arrays.
        if count >= packet_i64.shape[1] or n_other >= other_blocks.shape[1]:
            return at, count, n_other, ARRAYS_FULL
        if end - at < 12:
            return at, count, n_other, INCOMPLETE
        # A section header announces its own byte order, which its length field already uses.
        # Its type is a palindrome, so it is recognised in the byte order of the section before.
        kind = u32(data, at, big_endian)
        own = _section_byte_order(data, at) if kind == _SHB else int(big_endian)
        length = u32(data, at + 4, own == 1)
        if own < 0 or length < 12 or length & 3 or length > limit:
            return at, count, n_other, BAD_LENGTH
        if length > end - at:
            return at, count, n_other, INCOMPLETE
        # Both copies of the length are compared as raw bytes: equal in any byte order.
        if le32(data, at + 4) != le32(data, at + length - 4):
            return at, count, n_other, BAD_LENGTH
        if kind in (_EPB, _OBSOLETE):
            if not _read_packet(
                data,
                base,
                at,
                length,
                kind,
                big_endian,
                interfaces,
                packet_i64,
                packet_i32,
                marks,
                count,
            ):
                return at, count, n_other, UNHANDLED
            count += 1
        # Only their position is listed. JSON and key lines are decoded in Python, after the kernel
        # has gone through the whole window.
        elif kind == _SECRETS or (
            kind == _CUSTOM and (with_facts or _may_be_open_fact(data, at, length, big_endian))
        ):
            other_blocks[0, U(n_other)] = at
            other_blocks[1, U(n_other)] = count
            other_blocks[2, U(n_other)] = length
            n_other += 1
        elif kind == _SPB:
            if not _read_simple_packet(
                data, base, at, length, big_endian, interfaces, packet_i64, packet_i32, marks, count
            ):
                return at, count, n_other, UNHANDLED
            count += 1
        elif kind in (_SHB, _IDB):
            # These change how the packets after them are read, so the kernel cannot go past them;
            # a file has few. Facts and secrets do not, and a recording may have one per message:
            # stopping at each would cost a return to Python for each.
            return at, count, n_other, UNHANDLED
        at += length
    return at, count, n_other, AT_STOP


@inline
def _section_byte_order(data: Bytes, at: Int) -> Int:
    """Return the byte order of a section header: 0 little, 1 big, -1 neither."""
    if le32(data, at + 8) == _ORDER_MAGIC:
        return 0
    if be32(data, at + 8) == _ORDER_MAGIC:
        return 1
    return -1


@inline
def _may_be_open_fact(data: Bytes, at: Int, length: Int, big_endian: bool) -> bool:
    """Return whether a custom block may be an `open` fact.

    A false positive costs one JSON decoding in Python; a false negative would lose the protocol of
    a connection. So a backslash counts as well: JSON may spell `open` with escapes.
    """
    # A fact has the PEN, then the magic; anything else is another tool's block.
    if length < _FACT_JSON_AT + 8 or u32(data, at + 8, big_endian) != _PEN:
        return False
    if le32(data, at + 12) != _FACT_MAGIC:
        return False
    for pos in range(at + _FACT_JSON_AT, at + length - 7):
        if u8(data, pos) == _BACKSLASH or le32(data, pos) == _OPEN_BYTES:
            return True
    return False


@inline
def _read_packet(
    data: Bytes,
    base: Int,
    at: Int,
    length: Int,
    kind: Int,
    big_endian: bool,
    interfaces: Int64s,
    packet_i64: Int64s,
    packet_i32: Int32s,
    marks: Bytes,
    count: Int,
) -> bool:
    """Write the row of an enhanced or obsolete packet block; return False for unusual ones."""
    if length < 32:
        return False
    # The obsolete block has a 16-bit interface number and a drop count in place of the 32-bit
    # number; the rest is the same.
    number = u32(data, at + 8, big_endian) if kind == _EPB else u16(data, at + 8, big_endian)
    captured = u32(data, at + 20, big_endian)
    if number >= interfaces.shape[0] or captured > length - 32:
        return False
    interface = U(number)
    # Two 32-bit halves make an int64 here and a uint64 in the file: a negative result is a time
    # beyond 2^63 ticks. Python clamps those (`Interface.time_ns`), as it does all overflows.
    ticks = u32(data, at + 12, big_endian) << 32 | u32(data, at + 16, big_endian)
    if ticks < 0 or ticks > interfaces[interface, IF_MAX_TICKS]:
        return False
    i = U(count)
    packet_i64[TS, i] = _ticks_to_ns(
        ticks, interfaces[interface, IF_CLOCK], interfaces[interface, IF_FACTOR]
    )
    packet_i64[TS, i] += interfaces[interface, IF_OFFSET_NS]
    packet_i64[OFFSET, i] = base + at
    packet_i64[DATA, i] = at + 28
    packet_i64[CAPTURED, i] = captured
    packet_i64[ORIGINAL, i] = u32(data, at + 24, big_endian)
    packet_i64[RECORDED, i] = 0
    packet_i32[INTERFACE, i] = number
    packet_i32[LINK, i] = interfaces[interface, IF_LINK]
    marks[i] = 0
    # Options begin at the next multiple of four after the data. A block without options has fewer
    # than four bytes left, not even an end-of-options.
    options = at + 28 + ((captured + 3) & ~3)
    if at + length - 4 - options >= 4:
        _read_recorder_options(data, options, at + length - 4, big_endian, packet_i64, marks, count)
    return True


@inline
def _read_simple_packet(
    data: Bytes,
    base: Int,
    at: Int,
    length: Int,
    big_endian: bool,
    interfaces: Int64s,
    packet_i64: Int64s,
    packet_i32: Int32s,
    marks: Bytes,
    count: Int,
) -> bool:
    """Write the row of a simple packet block, which has no time; return False for unusual ones."""
    if length < 16 or interfaces.shape[0] == 0:
        return False
    original = u32(data, at + 8, big_endian)
    # A simple packet block has no captured length: it is the smaller one of the original length and
    # the snap length of interface 0.
    snap = interfaces[0, IF_SNAP]
    captured = min(original, snap) if snap > 0 else original
    if captured > length - 16:
        return False
    i = U(count)
    packet_i64[TS, i] = 0
    packet_i64[OFFSET, i] = base + at
    packet_i64[DATA, i] = at + 12
    packet_i64[CAPTURED, i] = captured
    packet_i64[ORIGINAL, i] = original
    packet_i64[RECORDED, i] = 0
    packet_i32[INTERFACE, i] = 0
    packet_i32[LINK, i] = interfaces[0, IF_LINK]
    marks[i] = 0
    return True


@inline
def _ticks_to_ns(ticks: Int, clock: Int, factor: Int) -> Int:
    """Convert ticks of an interface to ns; `IF_MAX_TICKS` rules out overflow."""
    if clock == CLOCK_MULTIPLY:
        return ticks * factor
    if clock == CLOCK_DIVIDE:
        return ticks // factor
    # Whole seconds and the fraction separately: ticks * 10^9 would overflow after a few seconds.
    part = ticks & ((1 << factor) - 1)
    return (ticks >> factor) * 1_000_000_000 + (part * 1_000_000_000 >> factor)


@inline
def _read_recorder_options(
    data: Bytes, at: Int, end: Int, big_endian: bool, packet_i64: Int64s, marks: Bytes, count: Int
) -> None:
    """Read the recorder's options of a packet: direction, marks and connection id.

    Options are hints (`capture/format/blocks.py`): reading stops silently at a malformed one.
    """
    found = 0
    direction = 0
    # At most a few options: the recorder writes three, other tools rarely more.
    while end - at >= 4:
        code = u16(data, at, big_endian)
        size = u16(data, at + 2, big_endian)
        at += 4
        if code == _OPTION_END or size > end - at:
            break
        if code == _OPTION_FLAGS and size == 4:
            direction = u32(data, at, big_endian) & 3
        elif (
            code == _OPTION_MARK
            and size == 16
            and u32(data, at, big_endian) == _PEN
            and le32(data, at + 4) & 0xFFFFFF == _MARK_PREFIX  # magic and version
            and le64(data, at + 8) > 0
        ):
            found = MARK_RECORDED | (u8(data, at + 7) & 3) << 2
            packet_i64[RECORDED, U(count)] = le64(data, at + 8)
        at += (size + 3) & ~3
    # epb_flags: 1 is inbound, 2 outbound, 3 undefined. They count only beside the recorder's
    # option: other tools write them from the view of their own host, which may be either side.
    if found and direction < 3:
        found |= direction
    marks[U(count)] = found


# -- interfaces ------------------------------------------------------------------------------

_NS: Final = 1_000_000_000
_MAX_INT64: Final = (1 << 63) - 1
_MAX_BINARY_POWER: Final = 33
"""2^33 ticks per second times 10^9 ns stay just below 2^63."""


class InterfaceTable:
    """The interfaces of a section, as rows for the kernels."""

    def __init__(self) -> None:
        self._store = np.zeros((4, INTERFACE_COLUMNS), np.int64)
        self._count = 0
        self.first: Interface
        """The interface with the number 0."""

    @property
    def rows(self) -> NDArray[np.int64]:
        """One row for each interface: columns IF_LINK to IF_OFFSET_NS."""
        return self._store[: self._count]

    def clear(self) -> None:
        """Start a section: interfaces are numbered from 0 again."""
        self._count = 0

    def add(self, interface: Interface) -> None:
        """Add the next interface of the section."""
        if self._count == 0:
            self.first = interface
        # Doubling: a section may have 65,536 interfaces (`Limits.interfaces`).
        if self._count == len(self._store):
            self._store = np.concatenate([self._store, np.zeros_like(self._store)])
        self._store[self._count] = (interface.link, interface.snap_length, *_clock(interface))
        self._count += 1


def _clock(interface: Interface) -> tuple[int, int, int, int]:
    """Return columns IF_CLOCK to IF_OFFSET_NS: how ticks of an interface become ns.

    A maximum of -1 ticks leaves every packet to Python, whose integers do not overflow: for
    resolutions finer than 10^-27 s or 2^-33 s, and for an extreme if_tsoffset.
    """
    per_s = interface.ticks_per_s
    offset_ns = interface.shift_s * _NS
    available = _MAX_INT64 - max(offset_ns, 0)
    if not -_MAX_INT64 <= offset_ns <= _MAX_INT64:
        return CLOCK_MULTIPLY, 1, -1, 0
    if _NS % per_s == 0:
        return CLOCK_MULTIPLY, _NS // per_s, available // (_NS // per_s), offset_ns
    if per_s % _NS == 0 and per_s // _NS <= _MAX_INT64:
        return CLOCK_DIVIDE, per_s // _NS, min(_MAX_INT64, available * (per_s // _NS)), offset_ns
    # A power of two that does not divide 10^9: the fraction is scaled by it and shifted.
    power = per_s.bit_length() - 1
    if per_s == 1 << power and power <= _MAX_BINARY_POWER:
        return CLOCK_BINARY, power, min(_MAX_INT64, available * per_s // _NS), offset_ns
    return CLOCK_MULTIPLY, 1, -1, 0
